#!/usr/bin/env bash
# lint.sh: runs clang-tidy over every C file that the build compiles, or over the files given.
set -euo pipefail
cd "$(dirname "$0")/.."

clang_tidy=$(command -v clang-tidy-14 || command -v clang-tidy) ||
    { echo "clang-tidy is missing: tools/setup.sh ci" >&2; exit 1; }
clang=$(command -v clang-14 || command -v clang) ||
    { echo "clang is missing: tools/setup.sh ci" >&2; exit 1; }

# Nothing is built: clang-tidy needs only the compile commands, and it understands those of clang
# best.
cmake -S . -B build/lint -G Ninja -DCMAKE_C_COMPILER="$clang" -DCMAKE_BUILD_TYPE=Debug > /dev/null

files=("$@")
if [ ${#files[@]} -eq 0 ]; then
    mapfile -t files < <(sed -n "s|.*\"file\": \"$PWD/\(.*\.c\)\".*|\1|p" \
        build/lint/compile_commands.json | grep -v '^build/' | sort -u)
fi
printf '%s\0' "${files[@]}" |
    xargs -0 -P "$(nproc)" -n 1 "$clang_tidy" --quiet -p build/lint 2> >(grep -v 'warnings generated' >&2)
echo "clang-tidy: ${#files[@]} files are clean"
