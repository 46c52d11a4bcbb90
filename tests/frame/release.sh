#!/usr/bin/env bash
# frame.release: all files name one version, and tools/release.sh makes a release of it.
#
# A copy of the tree in a repository of its own is released without its suite. The tag, the commit
# and the tarball are checked, each refusal is tried, and the version after it is set.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
"$root/tools/release.sh" --check

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree/packaging"
cp -r "$root"/{CMakeLists.txt,CHANGELOG.md,Makefile,.gitignore,include,tools} "$tree"
cp -r "$root/packaging/abi" "$tree/packaging"
mkdir "$tree/src"
cp "$root"/src/*.map "$tree/src"
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost
export GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost GIT_CONFIG_GLOBAL=/dev/null
cd "$tree"
git init -q -b main .
git add .
git commit -q -m "tree: begin"
version=$(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

fail() {
    cat "$work/output"
    echo "FAILED: $*"
    exit 1
}

refuses() { # reason, command...
    local reason=$1
    shift
    if "$@" > "$work/output" 2>&1; then fail "passes, although: $reason"; fi
    grep -q "$reason" "$work/output" || fail "no word of: $reason"
    git checkout -q .
}

export CHECKS=true
grep -q "^## $version (unreleased)$" CHANGELOG.md || tools/release.sh --next "${version%.*}.9" > /dev/null
version=$(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
git commit -qam "tree: prepare" 2> /dev/null || true

refuses "the tree is $version" tools/release.sh 99.0.0
sed -i 's/^#define WEFT_VERSION_PATCH .*/#define WEFT_VERSION_PATCH 77/' include/weft/base.h
refuses "in parts: .*77" tools/release.sh --check
sed -i 's/^WEFT_HTTP_[0-9.]* {/WEFT_HTTP_9.9 {/' src/weft-http.map
refuses "weft-http.map: the first node" tools/release.sh --check
echo >> CHANGELOG.md
refuses "not committed" tools/release.sh "$version"
CHECKS=false refuses "" tools/release.sh "$version"
git checkout -q -b other
refuses "made from main" tools/release.sh "$version"
git checkout -q main

tools/release.sh "$version" > "$work/output" 2>&1 || fail "no release"
[ "$(git tag)" = "v$version" ] || fail "no tag"
[ -z "$(git status --porcelain | grep -v '^?? build/')" ] || fail "changes are left"
grep -q "^## $version (20[0-9-]*)$" CHANGELOG.md || fail "the changelog has no date"
tarball=build/weft-$version.tar.gz
(cd build && sha256sum -c "weft-$version.tar.gz.sha256" > "$work/output") || fail "not the checksum"
tar -tzf "$tarball" | grep -x "weft-$version/CMakeLists.txt" > /dev/null || fail "not in the tarball"
cp "$tarball" "$work/first"
make --no-print-directory dist > /dev/null
cmp -s "$tarball" "$work/first" || fail "the tarball differs the second time"
refuses "there is a tag" tools/release.sh "$version"

tools/release.sh --next 0.77.0 > "$work/output" || fail "no next version"
grep -q '^WEFT_0.77 {' src/weft.map || fail "the node of the map is still the old one"
grep -qx '#define WEFT_VERSION "0.77.0"' include/weft/base.h || fail "base.h has the old version"
echo "released $version, and 0.77.0 begun"
