#!/usr/bin/env bash
# frame.tools: a program of a user under the tools that watch it, with the library as it is shipped.
#
#     tools.sh libweft.so
#
# Valgrind sees fibers' stacks as stacks, whether or not Valgrind was there when the library was
# built. A program built with ThreadSanitizer is told that the library is not.
set -euo pipefail

library=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/program.c" << 'END'
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

/* The stacks of the first 128 are so far apart that Valgrind takes them for stacks unaided. */
enum { TASKS = 300 };

static weft_chan *chan;

/* Uses much of the stack before and after switches from fiber to fiber. */
static void task(void *arg)
{
    char text[8192];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 10; i++) {
        weft_yield();
        if (memchr(text, 'y', sizeof text) != NULL)
            return;
    }
    if (weft_chan_send(chan, &arg) != 0)
        puts("not sent");
}

int main(void)
{
    void *got;
    if (weft_chan_make(&chan, sizeof(void *), 0) != 0)
        return 1;
    for (int i = 0; i < TASKS; i++)
        if (weft_go(task, NULL) != 0)
            return 1;
    for (int i = 0; i < TASKS; i++)
        if (weft_chan_receive(chan, &got) != 0)
            return 1;
    weft_chan_destroy(chan);
    if (weft_shutdown(WEFT_NEVER) != 0)
        return 1;
    puts("done");
    return 0;
}
END
# Without debug information: Valgrind 3.19 cannot read that of newer compilers, and gives up.
mkdir "$work/lib"
cp -a "${library%/*}"/libweft.so* "$work/lib/"
strip --strip-debug "$(readlink -f "$work/lib/libweft.so")"
export LD_LIBRARY_PATH=$work/lib
ran=0

build() { # program, flags...
    local program=$1
    shift
    "$cc" -O1 "$@" -I "$root/include" "$work/program.c" -o "$program" -L "$work/lib" -lweft
}

build "$work/plain"
if command -v valgrind > /dev/null && valgrind -q true 2> /dev/null; then
    valgrind --quiet --error-exitcode=99 "$work/plain" > "$work/output" 2>&1 ||
        { tail -n 30 "$work/output"; echo "FAILED: errors under Valgrind"; exit 1; }
    grep -qx done "$work/output" || { cat "$work/output"; echo "FAILED: not done"; exit 1; }
    echo "valgrind: no error"
    ran=1
else
    echo "valgrind: not there"
fi

if build "$work/tsan" -fsanitize=thread 2> /dev/null; then
    # What else ThreadSanitizer reports is what the warning is about.
    TSAN_OPTIONS=exitcode=0 setarch -R timeout 60 "$work/tsan" > "$work/output" 2>&1 || true
    grep -q '^weft: the program is built with ThreadSanitizer and weft is not' "$work/output" ||
        { tail -n 30 "$work/output"; echo "FAILED: no word of ThreadSanitizer"; exit 1; }
    "$work/plain" > "$work/output" 2>&1
    [ "$(cat "$work/output")" = done ] || { cat "$work/output"; echo "FAILED: a word of ThreadSanitizer"; exit 1; }
    echo "ThreadSanitizer: is told"
    ran=1
else
    echo "ThreadSanitizer: not there"
fi
[ "$ran" = 1 ] || exit 77
