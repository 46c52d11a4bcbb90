#!/usr/bin/env bash
# format.sh: formats the code with clang-format; with --check it fails if a file would change.
set -euo pipefail
cd "$(dirname "$0")/.."

clang_format=$(command -v clang-format-14 || command -v clang-format) ||
    { echo "clang-format is missing: tools/setup.sh ci" >&2; exit 1; }

# examples/million.c is the first program of the README and keeps its layout.
mapfile -t files < <(find include src tests bench examples tools -path examples/million.c -prune -o \
    -type f \( -name '*.[ch]' -o -name '*.cpp' \) -print | sort)

case ${1:-} in
--check)
    "$clang_format" --dry-run --Werror "${files[@]}"
    echo "clang-format: ${#files[@]} files are formatted"
    ;;
'') "$clang_format" -i "${files[@]}" ;;
*)
    echo "usage: tools/format.sh [--check]" >&2
    exit 2
    ;;
esac
