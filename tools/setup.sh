#!/usr/bin/env bash
# setup.sh: installs missing tools, or lists them.
#
#     setup.sh build    the tools to build and test weft (the default)
#     setup.sh ci       those of build, and those that .ci/run needs
#     setup.sh bench    those of build, and those of the benchmark's peers, except Go and Rust
#
# As root, or with sudo that asks no password, apt-get installs the missing packages; otherwise they
# are listed and the exit code is 1. If nothing is missing, nothing is changed.
set -euo pipefail

kind=${1:-build}
missing=()

# Each package is followed by its substitutes, best first, separated by |.
want() { # packages, then a command that is true when they are there
    local packages=$1
    shift
    "$@" > /dev/null 2>&1 || missing+=("$packages")
}

any_of() {
    local program
    for program in "$@"; do
        command -v "$program" && return
    done
    return 1
}

compiles() { # compiler
    printf '#include <stdio.h>\n' | "$1" -E -x c -
}

has_header() { # header
    printf '#include <%s>\n' "$1" | cc -E -x c -
}

has_boost_fiber() {
    printf '#include <boost/fiber/all.hpp>\n' | c++ -E -x c++ -
}

has_nginx() { # often not in the path of users
    PATH=$PATH:/usr/sbin:/usr/local/sbin any_of nginx
}

clang_has_sanitizers() {
    local clang
    clang=$(any_of clang-14 clang) || return 1
    [ -e "$("$clang" -print-file-name="libclang_rt.asan-$(uname -m).a")" ] ||
        printf 'int main(void) { return 0; }\n' | "$clang" -fsanitize=thread -x c - -o /dev/null
}

case $kind in
build | ci | bench)
    want cmake any_of cmake
    want ninja-build any_of ninja
    want make any_of make
    want gcc any_of cc gcc clang
    if any_of cc > /dev/null; then
        want libc6-dev compiles cc
    else
        missing+=(libc6-dev)
    fi
    ;;
*)
    echo "usage: tools/setup.sh [build|ci|bench]" >&2
    exit 2
    ;;
esac

if [ "$kind" = ci ]; then
    want gcc any_of gcc
    want g++ any_of g++
    want binutils any_of objdump
    want pkg-config any_of pkg-config
    want 'clang-14|clang' any_of clang-14 clang
    want 'libclang-rt-14-dev|libclang-rt-dev|clang' clang_has_sanitizers
    want 'clang-format-14|clang-format' any_of clang-format-14 clang-format
    want 'clang-tidy-14|clang-tidy' any_of clang-tidy-14 clang-tidy
    want 'qemu-user' any_of qemu-aarch64
    want gcc-aarch64-linux-gnu any_of aarch64-linux-gnu-gcc
    if [ "$(uname -m)" != aarch64 ]; then
        want libc6-dev-arm64-cross compiles aarch64-linux-gnu-gcc
    fi
    want valgrind any_of valgrind
    want abigail-tools any_of abidiff
    want git any_of git
    want musl-tools any_of musl-gcc
    want gdb any_of gdb
    want spin any_of spin
    want libhiredis-dev has_header hiredis/hiredis.h
    want redis-server any_of redis-server
    want libssl-dev has_header openssl/ssl.h
    want curl any_of curl
fi

if [ "$kind" = ci ] || [ "$kind" = bench ]; then
    want python3 any_of python3
    want wrk any_of wrk
    want 'nginx-light|nginx' has_nginx
    want apache2-utils any_of ab
    want nghttp2-client any_of h2load
fi

if [ "$kind" = bench ]; then
    want gnuplot-nox any_of gnuplot
    want pkg-config any_of pkg-config
    want g++ any_of g++
    want libuv1-dev has_header uv.h
    want libglib2.0-dev pkg-config --exists glib-2.0
    want libst-dev has_header st.h
    want libtbb-dev pkg-config --exists tbb
    want libboost-fiber-dev has_boost_fiber
fi

[ ${#missing[@]} -gt 0 ] || exit 0

# The first choices, for systems on which apt cannot be asked for substitutes.
first_choices=("${missing[@]%%|*}")

as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo -n)
fi
if ! command -v apt-get > /dev/null || ! "${as_root[@]}" true 2> /dev/null; then
    {
        echo "To go on, install what is missing. On Debian and Ubuntu:"
        echo "    sudo apt-get install ${first_choices[*]}"
        for names in "${missing[@]}"; do
            [ "$names" = "${names%%|*}" ] || echo "(in place of ${names%%|*}: ${names#*|})"
        done
    } >&2
    exit 1
fi

# Only the benchmark needs these servers and libraries, so ask first.
if [ "$kind" = bench ] && [ "${YES:-}" = "" ] && [ "${CI:-}" = "" ]; then
    echo "The benchmark's peers need these packages, which are not installed: ${first_choices[*]}"
    if [ ! -t 0 ]; then
        echo "Nothing is installed without an answer; set YES=1 to install." >&2
        exit 1
    fi
    read -r -p "Install them? [y/N] " answer
    case $answer in
    y | Y | yes) ;;
    *) exit 1 ;;
    esac
fi

echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
packages=()
for names in "${missing[@]}"; do
    IFS='|' read -ra substitutes <<< "$names"
    chosen=
    for name in "${substitutes[@]}"; do
        if apt-cache show "$name" > /dev/null 2>&1; then
            chosen=$name
            break
        fi
    done
    if [ -z "$chosen" ]; then
        echo "no package for $names in this system's lists" >&2
        exit 1
    fi
    packages+=("$chosen")
done

# Packages of servers start the servers at installation, unless this program forbids it.
policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d} # another path is for the test
if [ ! -e "$policy" ]; then
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" > /dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${packages[@]}"
