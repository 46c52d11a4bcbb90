#!/usr/bin/env bash
# format.sh: lays the code out as .clang-format says; with --check it only looks, and fails if a
# file would change.
set -euo pipefail
cd "$(dirname "$0")/.."

clang_format=$(command -v clang-format-14 || command -v clang-format) ||
    { echo "clang-format is missing: tools/setup.sh ci" >&2; exit 1; }

# The first program of the manual is kept as the manual prints it.
mapfile -t files < <(find include src tests bench examples tools -path examples/million.c -prune -o \
    -type f \( -name '*.[ch]' -o -name '*.cpp' \) -print | sort)

case ${1:-} in
--check)
    "$clang_format" --dry-run --Werror "${files[@]}"
    echo "clang-format: ${#files[@]} files are laid out well"
    ;;
'') "$clang_format" -i "${files[@]}" ;;
*)
    echo "usage: tools/format.sh [--check]" >&2
    exit 2
    ;;
esac
