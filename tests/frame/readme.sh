#!/usr/bin/env bash
# frame.readme: the C programs of README.md compile without warnings, and the first one is
# examples/million.c.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -v work="$work" '
    /^```c$/ { file = work "/" ++count ".c"; next }
    /^```/ { file = "" }
    file != "" { print > file }' "$root/README.md"
diff "$work/1.c" "$root/examples/million.c"
for program in "$work"/*.c; do
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -I "$root/include" -fsyntax-only "$program"
done
echo "$(ls "$work" | wc -l) programs of README.md compile"
