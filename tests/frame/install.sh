#!/usr/bin/env bash
# frame.install: install weft, and use it from outside as a user would.
#
#     install.sh cmake build-dir
#
# The first program of the manual, examples/million.c, is built from what was installed: against the
# shared library, against libweft.a, wholly static, and by a CMake project; and each is run.
set -euo pipefail

cmake=$1
build=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${CC:-cc}
readelf=${READELF:-readelf}
program=$root/examples/million.c

work=$build/frame-install
rm -rf "$work"
mkdir -p "$work"
prefix=$work/prefix
"$cmake" --install "$build" --prefix "$prefix" > "$work/install.log"

pc=$(find "$prefix" -name weft.pc)
libdir=$(dirname "$(dirname "$pc")")
if command -v pkg-config > /dev/null; then
    export PKG_CONFIG_PATH=${pc%/*}
    cflags=$(pkg-config --cflags weft)
    libs=$(pkg-config --libs weft)
    static_libs=$(pkg-config --static --libs weft)
    [ "$(pkg-config --modversion weft)" = "$(sed -n 's/.*WEFT_VERSION "\(.*\)"/\1/p' \
        "$root/include/weft/base.h")" ] || { echo "weft.pc and base.h name two versions"; exit 1; }
else
    echo "no pkg-config: the flags are written by hand"
    cflags="-I$prefix/include"
    libs="-L$libdir -lweft"
    static_libs="$libs -pthread -ldl"
fi

run() { # name, program
    local output
    output=$("$2")
    [ "$output" = done ] || { echo "$1: printed '$output', not 'done'"; exit 1; }
    echo "$1: ok"
}

needs_libweft() {
    "$readelf" -dW "$1" | grep -q 'NEEDED.*libweft\.so\.0'
}

# The flags are lists of words.
# shellcheck disable=SC2086
{
    "$cc" -O2 $cflags "$program" -o "$work/shared" $libs
    "$cc" -O2 $cflags "$program" -o "$work/static" ${static_libs/-lweft/-l:libweft.a}
}
needs_libweft "$work/shared" || { echo "the shared program does not need libweft.so.0"; exit 1; }
! needs_libweft "$work/static" || { echo "the static program needs libweft.so.0"; exit 1; }
LD_LIBRARY_PATH=$libdir run shared "$work/shared"
run static "$work/static"

if echo 'int main(void) { return 0; }' | "$cc" -static -x c - -o "$work/probe" 2> /dev/null; then
    # shellcheck disable=SC2086
    "$cc" -O2 -static $cflags "$program" -o "$work/all-static" $static_libs
    run all-static "$work/all-static"
else
    echo "all-static: no static libc here"
fi

mkdir "$work/consumer"
cat > "$work/consumer/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.20)
project(consumer C)
find_package(weft 0.1 REQUIRED)
add_executable(with-shared $program)
target_link_libraries(with-shared PRIVATE weft::weft)
add_executable(with-static $program)
target_link_libraries(with-static PRIVATE weft::static)
END
"$cmake" -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Release > "$work/consumer.log"
"$cmake" --build "$work/consumer/build" >> "$work/consumer.log"
run find_package-shared "$work/consumer/build/with-shared"
run find_package-static "$work/consumer/build/with-static"
