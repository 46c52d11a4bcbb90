#!/usr/bin/env bash
# check-abi.sh: compares the ABI of the libraries with that of the last release.
#
#     check-abi.sh LIBRARY...            fails if a library breaks programs built with the release
#     check-abi.sh --write LIBRARY...    writes the ABI of the libraries, for a release
#
# packaging/abi/ has the ABI of the last release, as abidw describes it: NAME-VERSION.abi.gz. The
# libraries need debug information. Only types of the public headers count.
#
# A release of the same minor version (before 1.0; later: of the same major version) must offer all
# that the last one offered: functions, their parameters, the layout of public structs. New
# functions are allowed. Another minor version may break: then only the SONAME must differ.
#
# Skipped (exit code 77) without abigail-tools, and on a CPU other than the dump's. The self-test
# runs first: a small library with a planted break of each kind.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
dumps=${ABI_DUMPS:-$root/packaging/abi}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! command -v abidw > /dev/null || ! command -v abidiff > /dev/null; then
    echo "skipped: abidw or abidiff is missing (package abigail-tools)"
    exit 77
fi

describe() { # library, headers, output
    abidw --headers-dir "$2" --drop-private-types --no-corpus-path --no-comp-dir-path \
        --no-show-locs "$1" --out-file "$3"
}

# 0: nothing is broken; 1: a break, which is printed. abidiff's exit code is a set of bits: 1 and 2
# are errors of use, 4 a change, 8 a change that breaks for certain. A change of a type has bit 4
# alone, so the additions are left out and every other change counts.
compatible() { # old description, new description
    local bits=0
    abidiff --no-added-syms "$1" "$2" > "$work/difference" 2>&1 || bits=$?
    if [ $((bits & 3)) != 0 ]; then
        cat "$work/difference"
        echo "abidiff failed with $bits"
        exit 1
    fi
    [ "$bits" = 0 ] || { cat "$work/difference"; return 1; }
}

# A release series keeps its SONAME.
series_of() { # version
    case $1 in
    0.*) echo "${1%.*}" ;;
    *) echo "${1%%.*}" ;;
    esac
}

soname_of() { # description
    sed -n "s/^<abi-corpus .*soname='\([^']*\)'.*/\1/p" "$1"
}

# Prints what is wrong, or one line that says that nothing is.
check() { # library name, version of the tree, old description, its version, new description
    local name=$1 version=$2 old=$3 old_version=$4 new=$5
    if [ "$(series_of "$version")" = "$(series_of "$old_version")" ]; then
        if ! compatible "$old" "$new"; then
            echo "FAILED: $name $version breaks programs built with $old_version"
            return 1
        fi
        echo "$name $version: programs built with $old_version run with it"
    else
        if [ "$(soname_of "$old")" = "$(soname_of "$new")" ]; then
            echo "FAILED: $name $version and $old_version have one SONAME, $(soname_of "$new")"
            return 1
        fi
        echo "$name $version: a new series, $(soname_of "$new"); $old_version was $(soname_of "$old")"
    fi
}

self_test() {
    local sound='struct s { int a, b; }; int add(struct s *s, int n); int more(void);
        int add(struct s *s, int n) { return s->a + s->b + n; } int more(void) { return 1; }'
    make() { # name, SONAME, source
        echo "$3" > "$work/$1.c"
        mkdir -p "$work/headers"
        ${CC:-cc} -g -shared -fPIC -Wl,-soname,"$2" "$work/$1.c" -o "$work/$1.so"
        # The whole source counts as public.
        abidw --no-corpus-path --no-comp-dir-path "$work/$1.so" --out-file "$work/$1.abi"
    }
    expect() { # 0 or 1, name of the new one, version of it
        local result=0
        (check self "$3" "$work/sound.abi" 0.2.0 "$work/$2.abi") > "$work/said" 2>&1 || result=$?
        [ "$result" = "$1" ] || { cat "$work/said"; echo "self-test: $2 as $3 gives $result"; exit 1; }
    }
    make sound libself.so.0.2 "$sound"
    make same libself.so.0.2 "$sound"
    make added libself.so.0.2 "$sound int new_one(void); int new_one(void) { return 2; }"
    make removed libself.so.0.2 "${sound/int more(void) \{ return 1; \}/}"
    make field libself.so.0.2 "${sound/int a, b;/int a; long b;}"
    make order libself.so.0.2 "${sound/int a, b;/int b, a;}"
    make parameter libself.so.0.2 "${sound//int n)/long n)}"
    make result libself.so.0.2 "${sound//int more(void)/long more(void)}"
    make renamed libself.so.0.3 "${sound/int more(void) \{ return 1; \}/}"
    expect 0 same 0.2.1
    expect 0 added 0.2.1
    for broken in removed field order parameter result; do expect 1 "$broken" 0.2.1; done
    expect 0 renamed 0.3.0
    expect 1 removed 0.3.0
}
self_test

version=$(sed -n 's/.*WEFT_VERSION "\(.*\)"/\1/p' "$root/include/weft/base.h")
write=0
if [ "${1:-}" = --write ]; then
    write=1
    shift
fi
[ $# -gt 0 ] || { echo "usage: tools/check-abi.sh [--write] LIBRARY..." >&2; exit 2; }

failed=0
for library in "$@"; do
    name=$(basename "$(realpath "$library")")
    name=${name%%.so*}
    describe "$(realpath "$library")" "$root/include/weft" "$work/new.abi"
    if [ "$write" = 1 ]; then
        rm -f "$dumps/$name-"[0-9]*.abi.gz
        gzip -n -9 < "$work/new.abi" > "$dumps/$name-$version.abi.gz"
        echo "$dumps/$name-$version.abi.gz"
        continue
    fi
    dump=$(find "$dumps" -name "$name-[0-9]*.abi.gz" | sort -V | tail -n 1)
    [ -n "$dump" ] || { echo "FAILED: $dumps has no ABI of $name"; exit 1; }
    old_version=${dump##*/"$name"-}
    old_version=${old_version%.abi.gz}
    gzip -dc "$dump" > "$work/old.abi"
    cpu=$(sed -n "s/^<abi-corpus .*architecture='\([^']*\)'.*/\1/p" "$work/new.abi")
    if [ "$cpu" != "$(sed -n "s/^<abi-corpus .*architecture='\([^']*\)'.*/\1/p" "$work/old.abi")" ]; then
        echo "skipped: the release's ABI is of another CPU than $cpu"
        exit 77
    fi
    check "$name" "$version" "$work/old.abi" "$old_version" "$work/new.abi" || failed=1
done
exit "$failed"
