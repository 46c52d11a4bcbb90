#!/usr/bin/env bash
# release.sh: makes a release out of the last commit, or prepares the next one.
#
#     release.sh --check            checks that every file names the same version
#     release.sh VERSION            checks, dates the changelog, keeps the ABI, commits, tags, packs
#     release.sh --next VERSION     sets the version in all files, begins a section of the changelog
#
# A release needs a clean tree on main whose version is VERSION. The steps: versions agree;
# `make test` passes (CHECKS='command' replaces it); the ABI of build/release holds (check-abi.sh);
# the changelog gets the date; the ABI is written to packaging/abi; one commit and the tag vVERSION
# (signed with SIGN=1); `make dist`. Nothing is pushed.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

changelog=CHANGELOG.md

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

cmake_version() {
    sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt
}

# path: version, of each place that has one.
versions() {
    echo "CMakeLists.txt: $(cmake_version)"
    echo "include/weft/base.h: $(sed -n 's/^#define WEFT_VERSION "\(.*\)"/\1/p' include/weft/base.h)"
    echo "include/weft/base.h, in parts: $(sed -n \
        's/^#define WEFT_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/weft/base.h | paste -sd.)"
    echo "$changelog: $(sed -n 's/^## \([0-9.]*\) (.*/\1/p' $changelog | head -n 1)"
    local series map
    series=$(series_of "$(cmake_version)")
    for map in weft weft-http; do
        [ "$(grep -oE '^WEFT(_HTTP)?_[0-9.]+ \{' src/$map.map | head -n 1 | grep -oE '[0-9.]+')" = "$series" ] ||
            echo "src/$map.map: the first node is not of $series"
    done
}

# Before 1.0 the minor version is part of the SONAME.
series_of() { # version
    case $1 in
    0.*) echo "${1%.*}" ;;
    *) echo "${1%%.*}" ;;
    esac
}

check_versions() {
    local version wrong
    version=$(cmake_version)
    wrong=$(versions | grep -v ": $version$" || true)
    [ -z "$wrong" ] || fail "CMakeLists.txt has $version, but $wrong"
    echo "version $version"
}

set_version() { # version
    local old parts
    [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "'$1' is no version such as 0.3.0"
    old=$(cmake_version)
    IFS=. read -ra parts <<< "$1"
    sed -i "s/^project(weft VERSION $old/project(weft VERSION $1/" CMakeLists.txt
    sed -i -e "s/^\(#define WEFT_VERSION_MAJOR\) .*/\1 ${parts[0]}/" \
        -e "s/^\(#define WEFT_VERSION_MINOR\) .*/\1 ${parts[1]}/" \
        -e "s/^\(#define WEFT_VERSION_PATCH\) .*/\1 ${parts[2]}/" \
        -e "s/^\(#define WEFT_VERSION\) .*/\1 \"$1\"/" \
        -e "s/e\.g\. \"$old\"/e.g. \"$1\"/" include/weft/base.h
    if [ "$(series_of "$1")" != "$(series_of "$old")" ]; then
        sed -i "s/^WEFT_$(series_of "$old") {/WEFT_$(series_of "$1") {/" src/weft.map
        sed -i "s/^WEFT_HTTP_$(series_of "$old") {/WEFT_HTTP_$(series_of "$1") {/" src/weft-http.map
    fi
    sed -i "0,/^## /s//## $1 (unreleased)\n\n## /" $changelog
    check_versions
}

release() { # version
    local version=$1 date libraries=()
    check_versions
    [ "$version" = "$(cmake_version)" ] || fail "the tree is $(cmake_version), not $version"
    [ -z "$(git status --porcelain)" ] || fail "the tree has changes that are not committed"
    [ "$(git rev-parse --abbrev-ref HEAD)" = main ] || fail "releases are made from main"
    ! git rev-parse -q --verify "refs/tags/v$version" > /dev/null || fail "there is a tag v$version"
    grep -q "^## $version (unreleased)$" $changelog || fail "$changelog: no '## $version (unreleased)'"
    ${CHECKS:-make test}
    for library in libweft libweft-http; do
        [ ! -e "build/release/$library.so" ] || libraries+=("build/release/$library.so")
    done
    if [ ${#libraries[@]} -gt 0 ]; then
        tools/check-abi.sh "${libraries[@]}" # a missing tool is an error here: exit code 77
        tools/check-abi.sh --write "${libraries[@]}"
    fi
    date=$(date -u +%Y-%m-%d)
    sed -i "s/^## $version (unreleased)$/## $version ($date)/" $changelog
    git add $changelog packaging/abi
    git commit -q -m "release: publish version $version"
    if [ "${SIGN:-}" = 1 ]; then
        git tag -s -m "weft $version" "v$version"
    else
        git tag -a -m "weft $version" "v$version"
    fi
    make --no-print-directory dist
    echo "tagged v$version; to publish it: git push --follow-tags"
}

case ${1:-} in
--check) check_versions ;;
--next) set_version "${2:?a version}" ;;
[0-9]*) release "$1" ;;
*)
    echo "usage: tools/release.sh --check | VERSION | --next VERSION" >&2
    exit 2
    ;;
esac
