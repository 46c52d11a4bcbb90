#!/usr/bin/env bash
# build.sh: builds the programs of bench/peers into build/bench/peers, each with its own tools.
#
# A peer whose tools are missing, too old, or cannot fetch their modules is skipped with a line that
# says so; `make bench` then compares with the others.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$PWD/build/bench/peers
jobs=${JOBS:-$(nproc)}
mkdir -p "$out"

skip() { # what, why
    echo "skipped: $1: $2"
}

# Removes programs of earlier builds whose tools are missing now.
stale() { # programs...
    local program
    for program in "$@"; do
        rm -f "$out/$program"
    done
}

attempt() { # what, its programs, command...
    local what=$1 programs=$2
    shift 2
    echo "building: $what"
    if ! "$@"; then
        # shellcheck disable=SC2086
        stale $programs
        skip "$what" "it does not build here, see above"
        return 1
    fi
}

if ! command -v go > /dev/null; then
    stale go
    skip "Go (goroutines, ants, errgroup)" "no go command"
else
    attempt Go go env -C bench/peers/go go build -o "$out/go" . || true
fi

# The HTTP servers do not take part themselves: bench/http/cases.py starts them.
mkdir -p "$out/../http"
if ! command -v go > /dev/null; then
    rm -f "$out/../http/go-http"
    skip "net/http and fasthttp" "no go command"
elif ! attempt "Go's HTTP servers" "" env -C bench/peers/go go build -o "$out/../http/go-http" ./http; then
    rm -f "$out/../http/go-http"
fi
if ! env PATH="$PATH:/usr/sbin:/usr/local/sbin" sh -c "command -v nginx" > /dev/null; then
    skip nginx "no nginx command (nginx-light)"
fi
if command -v python3 > /dev/null && command -v wrk > /dev/null; then
    ln -sf "$PWD/bench/http/cases.py" "$out/http"
else
    stale http
    skip "the cases of HTTP" "no wrk command, or no python3"
fi

if ! command -v cargo > /dev/null; then
    stale tokio may rayon
    skip "Rust (tokio, may, rayon)" "no cargo command"
else
    if attempt Rust "tokio may rayon" env -C bench/peers/rust cargo build --quiet --release --locked \
        --jobs "$jobs" --target-dir "$out/../rust"; then
        install -m 755 build/bench/rust/release/{tokio,may,rayon} "$out"
    fi
fi

# Programs of one file, with link-time optimisation, like releases of such programs.
flags=(-O2 -DNDEBUG -flto=auto -Wall -Wextra)

compile() { # name, compiler, source, the missing package, a test for it, then flags of the library
    local name=$1 compiler=$2 source=$3 missing=$4 test=$5
    shift 5
    if ! eval "$test" > /dev/null 2>&1; then
        stale "$name"
        skip "$name" "$missing"
        return
    fi
    if [ "$out/$name" -nt "$source" ] && [ "$out/$name" -nt bench/peers/c/peer.h ]; then
        return
    fi
    attempt "$name" "$name" "$compiler" "${flags[@]}" "$source" -o "$out/$name" "$@" -pthread || true
}

package() { # flags by pkg-config for packages that may be missing
    pkg-config "$@" 2> /dev/null || true
}

c() { # name, source, package's name and that of Debian, more flags
    local name=$1 source=$2 library=$3 debian=$4
    shift 4
    # shellcheck disable=SC2046
    compile "$name" cc "$source" "no $library for pkg-config ($debian)" "pkg-config --exists $library" \
        -std=gnu11 "$@" $(package --cflags --libs "$library")
}

c libuv bench/peers/c/libuv.c libuv libuv1-dev
c glib bench/peers/c/glib.c glib-2.0 libglib2.0-dev
c state_threads bench/peers/c/state_threads.c st libst-dev \
    "-DPEER_VERSION=\"$(package --modversion st)\""
compile threads cc bench/peers/c/threads.c "no C compiler" "command -v cc" -std=gnu11

# shellcheck disable=SC2046
compile onetbb c++ bench/peers/cpp/onetbb.cpp "no tbb for pkg-config (libtbb-dev), or no c++" \
    "command -v c++ && pkg-config --exists tbb" -std=c++17 $(package --cflags --libs tbb)
compile boost_fiber c++ bench/peers/cpp/boost_fiber.cpp "no Boost.Fiber (libboost-fiber-dev), or no c++" \
    "echo '#include <boost/fiber/all.hpp>' | c++ -E -x c++ -" -std=c++17 -lboost_fiber -lboost_context
