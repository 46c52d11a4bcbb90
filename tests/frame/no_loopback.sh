#!/usr/bin/env bash
# frame.no_loopback: the scripts that talk to servers where the loopback interface is down: they are
# skipped at once, and no process is left behind.
#
#     no_loopback.sh echo_server folder-of-the-http-examples weft-serve conformance-server
#
# A network namespace of its own has such an interface; without the right to make one the test is
# skipped.
set -euo pipefail

tests=$(cd "$(dirname "$0")/.." && pwd)
unshare --map-root-user --net true 2> /dev/null ||
    { echo "skipped: no right to make a network namespace"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skips() { # name, command...
    local name=$1 status=0
    shift
    unshare --map-root-user --net bash "$@" > "$work/output" 2>&1 || status=$?
    if [ "$status" != 77 ] || ! grep -q '^skipped: the loopback interface is down$' "$work/output"; then
        cat "$work/output"
        echo "FAILED: $name ends with $status"
        exit 1
    fi
    echo "$name: skipped"
}

server=$1
skips frame.echo "$tests/frame/echo.sh" "$server" false
if [ $# -gt 1 ]; then
    skips frame.http_examples "$tests/frame/http_examples.sh" "$2" "$3"
    skips http.conformance "$tests/http/conformance.sh" "$4"
fi

# With loopback: a client that fails ends the test, and the server with it.
cat > "$work/server" << END
#!$(command -v bash)
echo \$\$ > "$work/pid"
exec "$server" "\$@"
END
chmod +x "$work/server"
# shellcheck source=tests/support/loopback.sh
source "$tests/support/loopback.sh"
if has_loopback; then
    if bash "$tests/frame/echo.sh" "$work/server" false > "$work/output" 2>&1; then
        echo "FAILED: frame.echo passes with a client that fails"
        exit 1
    fi
    ! kill -0 "$(cat "$work/pid")" 2> /dev/null || { echo "FAILED: frame.echo leaves its server"; exit 1; }
    echo "frame.echo: no server is left"
fi
