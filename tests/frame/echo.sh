#!/usr/bin/env bash
# frame.echo: runs the examples echo_server and echo_client together, over TCP and a Unix socket.
#
# The server must shut down cleanly on a signal.
#
#     echo.sh echo_server echo_client
set -euo pipefail

server=$1
client=$2
# shellcheck source=tests/support/loopback.sh
source "$(dirname "$0")/../support/loopback.sh"
need_loopback
folder=$(mktemp -d)
pid=
end() {
    if [ -n "$pid" ]; then
        kill -KILL "$pid" 2> /dev/null || true
        wait "$pid" 2> /dev/null || true # it is gone when the script is
    fi
    rm -rf "$folder"
}
trap end EXIT

talk() { # address
    exec 3< <(exec "$server" "$1")
    pid=$!
    local where
    read -r where <&3
    echo "listening at $where"
    "$client" "$where" 20 200
    kill -TERM "$pid"
    wait "$pid"
    pid=
    exec 3<&-
}

talk tcp:127.0.0.1:0
talk "unix:$folder/echo.sock"
if [ -e "$folder/echo.sock" ]; then
    echo "the server did not remove its socket"
    exit 1
fi
if "$client" "unix:$folder/echo.sock" 1 1; then
    echo "the client connected although no server runs"
    exit 1
fi
