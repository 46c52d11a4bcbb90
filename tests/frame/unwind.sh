#!/usr/bin/env bash
# frame.unwind: in a context switch, after the load of the stack pointer, unwind tables have no
# caller.
#
#     unwind.sh LIBRARY      libweft.so; OBJDUMP and READELF may be set
#
# tests/arch/unwind.c checks that at run time, on x86-64; this test reads the tables, for each CPU.
# It checks all instructions that follow a load of the stack pointer, other than from the frame
# pointer, up to the place where the context continues (which has a landing mark for indirect
# jumps). It leaves out weft__guard_land, which has no caller at any instruction, by its CIE.
set -euo pipefail

library=$1
tables=$(mktemp)
trap 'rm -f "$tables"' EXIT
"${READELF:-readelf}" --debug-dump=frames-interp -W "$library" 2> /dev/null |
    awk '/ CIE/ { high = 0 }
         / FDE / { split($0, a, "pc="); split(a[2], b, /\.\./); high = b[2] }
         $1 == "LOC" { for (column = 1; column < NF && $column != "ra";) column++ }
         /^[0-9a-f]+ / && !/ (FDE|CIE|ZERO) / { print $1, $column, high }' > "$tables"
[ -s "$tables" ] || { echo "no unwind tables in $library" >&2; exit 1; }

"${OBJDUMP:-objdump}" -d --no-show-raw-insn "$library" |
    awk -v tables="$tables" '
    function value(hex,    i, n) {
        n = 0
        for (i = 1; i <= length(hex); i++)
            n = n * 16 + index("0123456789abcdef", substr(hex, i, 1)) - 1
        return n
    }
    BEGIN {
        while ((getline line < tables) > 0) {
            split(line, part, " ")
            low[++rows] = value(part[1]); caller[rows] = part[2]; high[rows] = value(part[3])
        }
    }
    function caller_at(address,    i, found) {
        found = "?"
        for (i = 1; i <= rows; i++)
            if (low[i] <= address && address < high[i])
                found = caller[i]
        return found
    }
    /^[0-9a-f]+ </ { within = 0; name = $2; next }
    name == "<weft__guard_land>:" { next }
    !/^ *[0-9a-f]+:/ { next }
    /[ \t](endbr64|bti|hint)/ { within = 0 }
    within {
        address = $1; sub(":", "", address)
        looked++
        if (caller_at(value(address)) != "u") {
            print "in " name " at " address " unwinding goes on: " $0
            wrong++
        }
    }
    /[ \t]mov[ \t]+[^%]*\(%r(si|di)\),%rsp/ || (/[ \t]mov[ \t]+sp, x[0-9]/ && !/x29/) { within = 1; switches++ }
    END {
        print switches + 0 " switches, " looked + 0 " instructions"
        exit wrong > 0 || switches < 4 || looked < 4 * switches
    }'
