#!/usr/bin/env bash
# frame.map: every folder has a line in tools/folders.txt and every listed file an opening comment
# that begins with its name, as tools/map.sh needs them for docs/design/map.md.
#
# The self-test runs first, on a small tree with one fault of each kind.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

mkdir -p "$copy"/{include/weft,src/base,tests/base,bench,examples,tools,docs/design,cmake}
cat > "$copy/tools/folders.txt" << 'END'
include/weft  headers
src/base      no system calls
tests/base    tests
bench         benchmark
examples      programs
tools         scripts
docs          guides
docs/design   design
cmake         build
END
printf '/*\n * good.c: counts\n * sheep. And more.\n */\n' > "$copy/src/base/good.c"

map() {
    ROOT=$copy "$root/tools/map.sh" "$@" 2>&1
}
map > /dev/null
grep -qxF '| [good.c](../../src/base/good.c) | counts sheep |' "$copy/docs/design/map.md"
map --check > /dev/null

expect_fault() { # part of the message, option
    local output
    if output=$(map "$2") || [[ $output != *"$1"* ]]; then
        echo "self-test: not found: $1: $output"
        exit 1
    fi
}
printf '/*\n * bad.c: wolves.\n */\n' > "$copy/src/base/bad.c"
expect_fault 'map.md is stale' --check
printf '/*\n * worse.c: wolves.\n */\n' > "$copy/src/base/bad.c"
expect_fault 'src/base/bad.c: the opening comment does not begin' --heads
rm "$copy/src/base/bad.c"
mkdir "$copy/src/os"
expect_fault 'no line for src/os' --heads
rmdir "$copy/src/os" "$copy/tests/base"
expect_fault 'there is no folder tests/base' --heads

"$root/tools/map.sh" --check
