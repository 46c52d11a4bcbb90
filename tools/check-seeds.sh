#!/usr/bin/env bash
# check-seeds.sh: checks that every unit and stress test of libweft runs under seeds or says why
# not.
#
#     check-seeds.sh [FOLDER]      default: tests/
#
# RUN_BOTH, RUN_SEEDS, RUN_EVERYWHERE and RUN_ALL_BOTH (tests/support/seeds.h) run tests under
# seeds; RUN_PLAIN, RUN_PLAIN_ON, RUN_ALL_PLAIN and so on take a reason. RUN is only for a test that
# RUN_SEEDS names too, RUN_ALL for no test of these files. A call of everywhere() in main runs under
# no seed.
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
            else if (call ~ /^RUN_PLAIN/)
                reasons++
            else {
                seeded[key] = 1
                runs++
            }
            line = rest
        }
        if (/RUN_ALL\(/) {
            printf "%s:%d: use RUN_ALL_BOTH or RUN_ALL_PLAIN\n", FILENAME, FNR
            bad = 1
        }
        # The names of RUN_ALL_BOTH and RUN_ALL_PLAIN, which may take several lines.
        if (match($0, /RUN_ALL_[A-Z]+\(/)) {
            all = /RUN_ALL_PLAIN/ ? "plain" : "seeded"
            $0 = substr($0, RSTART + RLENGTH)
            sub(/^"[^"]*",/, "")
        }
        if (all != "") {
            count = gsub(/[a-z0-9_]+[,)]/, "&")
            if (all == "plain")
                reasons += count
            else
                runs += count
            if (/\);/)
                all = ""
        }
        if (in_main && /^ +everywhere\(/) {
            printf "%s:%d: use RUN_EVERYWHERE\n", FILENAME, FNR
            bad = 1
        }
        if (/RUN_PLAIN[A-Z_]*\([a-z0-9_]+,( *[0-9]+,)? *""\)/) {
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
