#!/usr/bin/env bash
# frame.install: installs weft, and uses the installation as a user would.
#
#     install.sh cmake build-dir
#
# The first program of the README, examples/million.c, is built against the installed shared
# library, against libweft.a, fully static, and by a CMake project; each program is run. If
# libweft-http was built a small server is built in the same ways, except fully static, since
# OpenSSL may have no archive.
set -euo pipefail

cmake=$1
build=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${CC:-cc}
readelf=${READELF:-readelf}
program=$root/examples/million.c
version=$(sed -n 's/.*WEFT_VERSION "\(.*\)"/\1/p' "$root/include/weft/base.h")
soversion=${version%%.*}
[ "$soversion" != 0 ] || soversion=${version%.*}

# The prefix is outside of the build folder, whose path may contain a space: flags of pkg-config are
# words.
# shellcheck source=tests/support/loopback.sh
source "$root/tests/support/loopback.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
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

run_server() { # as run
    if has_loopback; then run "$@"; else echo "$1: built, not run: the loopback interface is down"; fi
}

needs() { # program, library
    "$readelf" -dW "$1" | grep -q "NEEDED.*\\[$2\\.so\\.$soversion\\]"
}

# The flags are lists of words.
# shellcheck disable=SC2086
{
    "$cc" -O2 $cflags "$program" -o "$work/shared" $libs
    "$cc" -O2 $cflags "$program" -o "$work/static" ${static_libs/-lweft/-l:libweft.a}
}
needs "$work/shared" libweft || { echo "the shared program does not need libweft.so.$soversion"; exit 1; }
! needs "$work/static" libweft || { echo "the static program needs libweft.so.$soversion"; exit 1; }
LD_LIBRARY_PATH=$libdir run shared "$work/shared"
run static "$work/static"

if echo 'int main(void) { return 0; }' | "$cc" -static -x c - -o "$work/probe" 2> /dev/null; then
    # shellcheck disable=SC2086
    "$cc" -O2 -static $cflags "$program" -o "$work/all-static" $static_libs
    run all-static "$work/all-static"
else
    echo "all-static: no static libc here"
fi

http=$(find "$prefix" -name weft-http.pc)
if [ -n "$http" ]; then
    cat > "$work/server.c" << 'END'
#include <stdio.h>
#include <string.h>
#include <weft/http.h>
#include <weft/weft.h>

static void hello(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)data;
    weft_http_printf(response, "you want %s", weft_http_path(request));
}

int main(void)
{
    static const char request[] = "GET /this HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    weft_http_options options = {.handler = hello};
    weft_http_server *server;
    weft_address address;
    weft_conn *conn;
    char text[WEFT_ADDRESS_TEXT], answer[1000] = "";
    if (weft_http_open(&server, &options) != 0 ||
        weft_http_listen(server, "tcp:127.0.0.1:0", NULL) != 0 ||
        weft_http_local(server, 0, &address) != 0 ||
        weft_address_format(&address, text, sizeof text) != 0 ||
        weft_conn_dial(&conn, text, NULL, WEFT_NEVER) != 0 ||
        weft_conn_write(conn, request, sizeof request - 1, WEFT_NEVER) < 0 ||
        weft_conn_read_full(conn, answer, sizeof answer - 1, WEFT_NEVER) < 0)
        return 1;
    weft_conn_close(conn);
    if (weft_http_stop(server, WEFT_NEVER) != 0)
        return 1;
    weft_http_close(server);
    puts(strstr(answer, "\r\n\r\nyou want /this") != NULL ? "done" : answer);
    return 0;
}
END
    if command -v pkg-config > /dev/null; then
        http_libs=$(pkg-config --libs weft-http)
        http_static_libs=$(pkg-config --static --libs weft-http)
    else
        http_libs="-L$libdir -lweft-http -lweft"
        http_static_libs="$http_libs -pthread -ldl"
        ! grep -q openssl "$http" || http_static_libs+=" -lssl -lcrypto"
    fi
    http_static_libs=${http_static_libs/-lweft-http/-l:libweft-http.a}
    http_static_libs=${http_static_libs/-lweft/-l:libweft.a}
    # shellcheck disable=SC2086
    {
        "$cc" -O2 $cflags "$work/server.c" -o "$work/http-shared" $http_libs
        "$cc" -O2 $cflags "$work/server.c" -o "$work/http-static" $http_static_libs
    }
    needs "$work/http-shared" libweft-http || { echo "the shared server does not need libweft-http.so.$soversion"; exit 1; }
    ! needs "$work/http-static" 'libweft.*' || { echo "the static server needs a shared library of weft"; exit 1; }
    LD_LIBRARY_PATH=$libdir run_server http-shared "$work/http-shared"
    run_server http-static "$work/http-static"
fi

mkdir "$work/consumer"
cat > "$work/consumer/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.18)
project(consumer C)
find_package(weft ${version%.*} REQUIRED)
add_executable(with-shared "$program")
target_link_libraries(with-shared PRIVATE weft::weft)
add_executable(with-static "$program")
target_link_libraries(with-static PRIVATE weft::static)
END
[ -z "$http" ] || cat >> "$work/consumer/CMakeLists.txt" << END
find_package(weft ${version%.*} REQUIRED COMPONENTS http)
add_executable(http-shared $work/server.c)
target_link_libraries(http-shared PRIVATE weft::http)
add_executable(http-static $work/server.c)
target_link_libraries(http-static PRIVATE weft::http_static)
END
"$cmake" -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Release > "$work/consumer.log"
"$cmake" --build "$work/consumer/build" >> "$work/consumer.log"
run find_package-shared "$work/consumer/build/with-shared"
run find_package-static "$work/consumer/build/with-static"
if [ -n "$http" ]; then
    run_server find_package-http-shared "$work/consumer/build/http-shared"
    run_server find_package-http-static "$work/consumer/build/http-static"
fi

# A file of another package stays, and so does its folder.
touch "$prefix/include/weft/foreign.h"
CMAKE=$cmake "$root/tools/uninstall.sh" "$build" "$prefix" > /dev/null
left=$(cd "$prefix" && find . -not -type d)
[ "$left" = ./include/weft/foreign.h ] || { echo "left after uninstall: ${left:-nothing}"; exit 1; }
[ ! -e "$libdir/cmake" ] || { echo "left after uninstall: $libdir/cmake"; exit 1; }
echo "uninstall: ok"
