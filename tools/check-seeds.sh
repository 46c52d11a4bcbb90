#!/usr/bin/env bash
# check-seeds.sh: checks that every unit and stress test of libweft runs under seeds or says why
# not.
#
#     check-seeds.sh [FOLDER]      default: tests/
#
# RUN_BOTH, RUN_SEEDS and RUN_EVERYWHERE (tests/support/seeds.h) run a test under seeds, RUN_PLAIN
# takes a reason. RUN is only for a test that RUN_SEEDS names too. A call of everywhere() in main
# runs under no seed.
set -eu
cd "${1:-$(dirname "$0")/../tests}"
mapfile -t files < <(ls {base,os,arch,stack,sched,sync,pool,io,net}/*.c 2> /dev/null |
    grep -vE '_(seeds|fault|crash|model)\.c$')

awk '
    FNR == 1 { in_main = 0 }
    /^int main\(/ { in_main = 1 }
    {
        line = $0
        while (match(line, /RUN[A-Z_]*\([a-z0-9_]+/)) {
            call = substr(line, RSTART, RLENGTH)
            name = call
            sub(/\(.*/, "", call)
            sub(/.*\(/, "", name)
            rest = substr(line, RSTART + RLENGTH)
            key = FILENAME "\t" name
            if (call == "RUN")
                plain[key] = FNR
            else if (call == "RUN_PLAIN")
                reasons++
            else {
                seeded[key] = 1
                runs++
            }
            line = rest
        }
        if (in_main && /^ +everywhere\(/) {
            printf "%s:%d: use RUN_EVERYWHERE\n", FILENAME, FNR
            bad = 1
        }
        if (/RUN_PLAIN\([a-z0-9_]+, *""\)/) {
            printf "%s:%d: no reason\n", FILENAME, FNR
            bad = 1
        }
    }
    END {
        for (key in plain)
            if (!(key in seeded)) {
                split(key, part, "\t")
                printf "%s:%d: %s: run it under seeds (RUN_BOTH), or give a reason (RUN_PLAIN)\n", part[1], plain[key], part[2]
                bad = 1
            }
        printf "%d under seeds, %d not\n", runs, reasons
        exit bad
    }' "${files[@]}"
