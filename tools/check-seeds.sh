#!/usr/bin/env bash
# check-seeds.sh: every unit and stress test of libweft runs under seeds too, or says why not.
#
# Such a test is run by RUN_BOTH, RUN_SEEDS or RUN_EVERYWHERE (tests/support/seeds.h), or by
# RUN_PLAIN with a reason. RUN alone is for one that RUN_SEEDS names too; everywhere() in main is not run
# by any of them.
#
#     check-seeds.sh [FOLDER]      FOLDER: of the tests, for the test of this script
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
            printf "%s:%d: RUN_EVERYWHERE is meant\n", FILENAME, FNR
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
                printf "%s:%d: %s: under seeds (RUN_BOTH), or why not (RUN_PLAIN)?\n", part[1], plain[key], part[2]
                bad = 1
            }
        printf "%d under seeds, %d not\n", runs, reasons
        exit bad
    }' "${files[@]}"
