#!/usr/bin/env bash
# uninstall.sh: removes the files that make install has installed below a prefix.
#
#     uninstall.sh build-dir prefix
#
# The list of files comes from another installation into an empty folder, so it does not depend on
# the manifest, which a later installation elsewhere overwrites. DESTDIR is honoured. Files that
# weft has not installed stay, and so do folders that contain some.
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
# Deepest first: folders that contained only weft's files are removed, the prefix itself stays.
while IFS= read -r path; do
    rmdir --ignore-fail-on-non-empty "$target/$path" 2> /dev/null || true
done < <(cd "$stage" && find . -mindepth 1 -depth -type d)
echo "removed $removed files from $target"
