#!/usr/bin/env bash
# uninstall.sh: removes what an installation of this build has put below a prefix.
#
#     uninstall.sh build-dir prefix
#
# The list comes from installing once more into an empty folder, so it does not depend on a record
# that a later installation elsewhere would have overwritten. DESTDIR is heeded. Files that weft has
# not installed stay, and so do the folders that hold some.
set -euo pipefail

[ $# = 2 ] || { echo "usage: tools/uninstall.sh build-dir prefix" >&2; exit 2; }
build=$1
target=${DESTDIR:-}$2

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
DESTDIR='' "${CMAKE:-cmake}" --install "$build" --prefix "$stage" > "$stage.log" ||
    { cat "$stage.log" >&2; exit 1; }
rm -f "$stage.log"

removed=0
while IFS= read -r path; do
    if [ -e "$target/$path" ] || [ -L "$target/$path" ]; then
        rm -f "$target/$path"
        removed=$((removed + 1))
    fi
done < <(cd "$stage" && find . -type f -o -type l)
# Deepest first: a folder that held only weft's files goes, the prefix itself stays.
while IFS= read -r path; do
    rmdir --ignore-fail-on-non-empty "$target/$path" 2> /dev/null || true
done < <(cd "$stage" && find . -mindepth 1 -depth -type d)
echo "removed $removed files from $target"
