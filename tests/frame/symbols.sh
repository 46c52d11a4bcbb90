#!/usr/bin/env bash
# frame.symbols: the libraries export exactly the functions that the headers declare.
#
#     symbols.sh libweft.so libweft.a [libweft-http.so libweft-http.a]
#
# For each library the functions marked WEFT_API in its headers, the names in its map and the
# dynamic symbols of the shared library are the same set. The static library defines only names with
# weft_ and does not make the stack of a program executable. include/weft/http*.h and
# src/weft-http.map belong to libweft-http, the rest to libweft.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/../.." && pwd)
nm=${NM:-nm}
readelf=${READELF:-readelf}
failed=0

# The preprocessor removes comments and expands WEFT_API. Each declaration ends at its semicolon;
# the first name before a parenthesis is the function. Line markers tell which header a text is
# from.
declared_in() { # headers
    local header
    for header in "$@"; do echo "#include <weft/$header>"; done |
        ${CC:-cc} -E -I "$root/include" -x c - |
        awk -v wanted="$*" '
            BEGIN {
                count = split(wanted, names, " ")
                for (i = 1; i <= count; i++)
                    is_wanted["weft/" names[i]] = 1
            }
            /^# [0-9]+ "/ {
                file = $0 # a path may have spaces
                sub(/^# [0-9]+ "/, "", file)
                sub(/"[ 0-9]*$/, "", file)
                ours = match(file, /weft\/[a-z_]+\.h$/) && (substr(file, RSTART) in is_wanted)
                next
            }
            ours' |
        tr '\n' ' ' | tr ';' '\n' |
        sed -n 's/.*visibility("default")))//p' |
        awk 'match($0, /weft_[a-z0-9_]+ *\(/) { print substr($0, RSTART, RLENGTH - 1) }' |
        tr -d ' ' | sort -u
}

same() { # what a b
    if ! diff <(echo "$2") <(echo "$3"); then
        echo "FAILED: $1 differ (< first, > second)"
        failed=1
    fi
}

check() { # map, shared library, static library, headers
    local map=$1 shared=$2 static=$3 declared mapped exported foreign
    shift 3
    declared=$(declared_in "$@")
    mapped=$(sed -e 's|/\*.*\*/||' "$root/src/$map" | grep -oE '^ +weft_[a-z0-9_]+' | tr -d ' ')
    exported=$("$nm" -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
        sort -u)
    [ -n "$declared" ] || { echo "no WEFT_API function found for $map"; exit 1; }

    same "headers and src/$map" "$declared" "$(sort -u <<< "$mapped")"
    same "headers and $(basename "$shared")" "$declared" "$exported"
    same "src/$map and its names in order" "$mapped" "$(sort -u <<< "$mapped")"

    # Debug builds wrap the program's mutexes: src/os/linux/mutex_watch.c.
    foreign=$("$nm" -g --defined-only "$static" | awk 'NF == 3 && $3 !~ /^weft_/ &&
        $3 !~ /^pthread_mutex_(lock|trylock|timedlock|unlock)$/ { print $3 }')
    if [ -n "$foreign" ]; then
        echo "FAILED: $(basename "$static") defines names outside weft_:"
        echo "$foreign"
        failed=1
    fi

    if "$readelf" -lW "$shared" | grep GNU_STACK | grep -q 'RWE'; then
        echo "FAILED: $(basename "$shared") requests an executable stack"
        failed=1
    fi
    [ "$failed" != 0 ] ||
        echo "$(wc -l <<< "$declared") functions: headers, $map and library agree"
}

core=()
http=()
for header in "$root"/include/weft/*.h; do
    case ${header##*/} in
    http*.h) http+=("${header##*/}") ;;
    *) core+=("${header##*/}") ;;
    esac
done

check weft.map "$1" "$2" "${core[@]}"
if [ $# -gt 2 ]; then
    check weft-http.map "$3" "$4" "${http[@]}"
fi
exit "$failed"
