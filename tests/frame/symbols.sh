#!/usr/bin/env bash
# frame.symbols: what the headers declare is what the libraries offer, no more and no less.
#
#     symbols.sh libweft.so libweft.a
#
# The functions marked WEFT_API in include/weft/, the names in src/weft.map and the dynamic symbols
# of the shared library are the same set; the static library defines no name outside weft_*; the
# stack of a program that links weft is not executable because of it.
set -euo pipefail
export LC_ALL=C

shared=$1
static=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
nm=${NM:-nm}
readelf=${READELF:-readelf}
failed=0

# The preprocessor takes the comments away and spells WEFT_API out; each declaration ends at its
# semicolon, and the first name before a parenthesis is the function's.
declared=$(for header in "$root"/include/weft/*.h; do echo "#include <weft/${header##*/}>"; done |
    ${CC:-cc} -E -P -I "$root/include" -x c - | tr '\n' ' ' | tr ';' '\n' |
    sed -n 's/.*visibility("default")))//p' |
    awk 'match($0, /weft_[a-z0-9_]+ *\(/) { print substr($0, RSTART, RLENGTH - 1) }' |
    tr -d ' ' | sort -u)
mapped=$(sed -e 's|/\*.*\*/||' "$root/src/weft.map" | grep -oE '^ +weft_[a-z0-9_]+' | tr -d ' ' |
    sort -u)
exported=$("$nm" -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    sort -u)

[ -n "$declared" ] || { echo "no WEFT_API function found in include/weft/"; exit 1; }

same() { # what a b
    if ! diff <(echo "$2") <(echo "$3"); then
        echo "FAILED: $1 differ (< first, > second)"
        failed=1
    fi
}
same "headers and src/weft.map" "$declared" "$mapped"
same "headers and $(basename "$shared")" "$declared" "$exported"

# Debug builds count the program's mutexes: src/base/sys_mutex.c.
foreign=$("$nm" -g --defined-only "$static" | awk 'NF == 3 && $3 !~ /^weft_/ &&
    $3 !~ /^pthread_mutex_(lock|trylock|timedlock|unlock)$/ { print $3 }')
if [ -n "$foreign" ]; then
    echo "FAILED: $(basename "$static") defines names outside weft_:"
    echo "$foreign"
    failed=1
fi

if "$readelf" -lW "$shared" | grep GNU_STACK | grep -q 'RWE'; then
    echo "FAILED: $(basename "$shared") asks for an executable stack"
    failed=1
fi

[ "$failed" = 0 ] && echo "$(echo "$declared" | wc -l) functions: headers, map and library agree"
exit "$failed"
