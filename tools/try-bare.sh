#!/usr/bin/env bash
# try-bare.sh: builds, installs and uses the last commit on bare Debian systems.
#
#     try-bare.sh [suite...]    suites of Debian; default: bullseye bookworm sid
#
# Each suite gets a root folder in build/bare/, made by debootstrap with only git, make and a
# compiler, and kept for later runs. In it, in a folder whose name contains a space, the script runs
# make run, make install, a program against the installed library without pkg-config, the suite if
# WHOLE=1, and make uninstall, which has to leave nothing. MIRROR names the Debian archive to use.
# Needs root for chroot and mounts, which disappear at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

[ "$(id -u)" = 0 ] || { echo "try-bare.sh needs root: sudo make try-bare" >&2; exit 1; }
command -v debootstrap > /dev/null || { echo "try-bare.sh needs debootstrap" >&2; exit 1; }
[ $# -gt 0 ] || set -- bullseye bookworm sid
mkdir -p build/bare

# A frozen mirror has package lists that have expired.
prepare() { # suite, root
    [ -e "$2/.ready" ] && return
    rm -rf "$2"
    debootstrap --variant=minbase --include=git,make,gcc,libc6-dev "$1" "$2" \
        ${MIRROR:+"$MIRROR"} > "build/bare/$1.debootstrap.log" 2>&1 ||
        { tail -n 5 "build/bare/$1.debootstrap.log" >&2; return 1; }
    echo 'Acquire::Check-Valid-Until "false";' > "$2/etc/apt/apt.conf.d/99kept-mirror"
    touch "$2/.ready"
}

# The mounts are in a namespace of their own, so they disappear with its last process.
inside() { # root, script
    unshare --mount --pid --fork --propagation private bash -c '
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        mount --rbind /sys "$1/sys"
        exec chroot "$1" bash -ec "$2"' inside "$1" "$2"
}

# The script that runs inside; an assignment of WHOLE precedes it.
newcomer() {
    cat << 'END'
cd '/root/a folder/weft'
make run
make install
cat > /root/hello.c << 'PROGRAM'
#include <stdio.h>
#include <weft/weft.h>
static void say(void *arg) { puts(arg); }
int main(void) {
    weft_fiber *fiber;
    return weft_spawn(&fiber, say, "hello from a fiber", NULL) != 0 || weft_join(fiber) != 0;
}
PROGRAM
cc -o /root/hello /root/hello.c -lweft -pthread
/root/hello
[ "$WHOLE" = 0 ] || make test
make uninstall
left=$(find /usr/local -name '*weft*')
[ -z "$left" ] || { echo "left after make uninstall: $left"; exit 1; }
END
}

failed=0
for suite in "$@"; do
    root=build/bare/$suite log=build/bare/$suite.log
    echo "== $suite (log: $log)"
    if ! prepare "$suite" "$root"; then
        echo "== $suite: debootstrap failed"
        failed=1
        continue
    fi
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    rm -rf "$root/root/a folder"
    mkdir -p "$root/root/a folder/weft"
    git archive HEAD | tar -x -C "$root/root/a folder/weft"
    if inside "$root" "WHOLE=${WHOLE:-0}"$'\n'"$(newcomer)" > "$log" 2>&1; then
        echo "== $suite: passed"
    else
        tail -n 20 "$log"
        echo "== $suite: FAILED"
        failed=1
    fi
done
exit "$failed"
