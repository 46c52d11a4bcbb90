#!/usr/bin/env bash
# build.sh: builds the programs of bench/peers into build/bench/peers, each with its own tools.
#
# A peer whose tools are missing is skipped, with a line that says so; `make bench` then compares with the
# others. One that has its tools and does not build is an error.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$PWD/build/bench/peers
jobs=${JOBS:-$(nproc)}
mkdir -p "$out"
failed=0

skip() { # what, why
    echo "skipped: $1: $2"
}

# A program that is there from before, but whose tools are gone, must not be run.
stale() { # programs...
    local program
    for program in "$@"; do
        rm -f "$out/$program"
    done
}

attempt() { # what, command...
    local what=$1
    shift
    echo "building: $what"
    "$@" || { echo "FAILED: $what does not build" >&2; failed=1; }
}

if ! command -v go > /dev/null; then
    stale go
    skip "Go (goroutines, ants, errgroup)" "no go command"
else
    attempt Go env -C bench/peers/go go build -o "$out/go" .
fi

exit "$failed"
