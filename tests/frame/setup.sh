#!/usr/bin/env bash
# frame.setup: output and actions of tools/setup.sh on a system that lacks every tool.
#
# PATH is a folder of fake programs: no compiler, no cmake; an apt-get and a sudo that record how
# they were called.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
for tool in bash cat chmod env rm sed tee true uname; do
    ln -s "$(type -P "$tool")" "$work/bin/$tool"
done
fake() { # name, script
    printf '#!%s\n%s\n' "$(command -v bash)" "$2" > "$work/bin/$1"
    chmod +x "$work/bin/$1"
}
fail() {
    echo "FAILED: $*"
    cat "$work/out"
    exit 1
}
setup() { # kind; its output in $work/out
    status=0
    PATH=$work/bin POLICY_RC_D=$work/policy CI='' YES="${YES:-}" "$root/tools/setup.sh" "$1" \
        > "$work/out" 2>&1 < /dev/null || status=$?
}
export work
fake id 'echo 1000'

# Without permission to install it prints a line to paste.
fake sudo 'exit 1'
setup build
[ "$status" = 1 ] || fail "ended with $status although everything is missing"
grep -qx '    sudo apt-get install cmake ninja-build make gcc libc6-dev' "$work/out" ||
    fail "no line to paste"

# With permission it calls apt-get, and keeps packages from starting servers meanwhile.
# shellcheck disable=SC2016
fake sudo 'shift; exec "$@"'
fake apt-cache 'exit 0'
# shellcheck disable=SC2016
fake apt-get 'echo "$@" >> "$work/calls"; [ "$1" != install ] || cat "$POLICY_RC_D" >> "$work/calls"'
export POLICY_RC_D=$work/policy
setup build
[ "$status" = 0 ] || fail "ended with $status"
grep -q '^install .*cmake ninja-build make gcc libc6-dev' "$work/calls" || fail "nothing installed"
grep -qx 'exit 101' "$work/calls" || fail "servers may be started by their packages"
[ ! -e "$work/policy" ] || fail "the policy against servers was left behind"

# For the benchmark it installs only after a confirmation.
rm "$work/calls"
setup bench
[ "$status" = 1 ] || fail "bench: ended with $status without an answer"
[ ! -e "$work/calls" ] || fail "bench: called apt-get without an answer"
grep -q 'libuv1-dev' "$work/out" || fail "bench: does not say what would be installed"
grep -q 'YES=1' "$work/out" || fail "bench: does not say how to answer"
YES=1 setup bench
[ "$status" = 0 ] || fail "bench: ended with $status"
grep -q '^install .*libuv1-dev' "$work/calls" || fail "bench: nothing installed"
echo "lists what is missing, installs with permission, asks before the benchmark"
