#!/usr/bin/env bash
# frame.http_examples: starts each HTTP example and weft-serve, checks its answers, and stops it.
#
#     http_examples.sh folder-of-the-examples weft-serve
#
# Each server has a port of its own and ends by a signal. The client is bash: /dev/tcp, one request
# per connection.
set -euo pipefail

examples=$1
serve=$2
# shellcheck source=tests/support/loopback.sh
source "$(dirname "$0")/../support/loopback.sh"
need_loopback
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2> /dev/null || true; rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    [ ! -e "$work/output" ] || sed 's/^/    /' "$work/output"
    exit 1
}

# Starts a program and reads its port from its output; sets `port` and `server`.
start() { # program, arguments...
    : > "$work/output"
    "$@" > "$work/output" 2>&1 &
    server=$!
    port=
    until port=$(sed -n 's/.* at .*:\([0-9][0-9]*\)\/\{0,1\}$/\1/p' "$work/output" | head -n 1) && [ -n "$port" ]; do
        kill -0 "$server" 2> /dev/null || fail "$1 has ended"
        sleep 0.05
    done
}

stop() { # signal
    local status=0
    kill "-$1" "$server"
    wait "$server" || status=$?
    [ "$status" = 0 ] || fail "ended with $status after SIG$1"
    server=
}

# Sends a request and prints the whole answer.
ask() { # method, target, body, more header fields...
    local method=$1 target=$2 body=${3-}
    shift 3
    exec 3<> "/dev/tcp/127.0.0.1/$port"
    {
        printf '%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n' "$method" "$target"
        [ $# = 0 ] || printf '%s\r\n' "$@"
        printf 'Content-Length: %d\r\n\r\n%s' "${#body}" "$body"
    } >&3
    tr -d '\r' <&3
    exec 3<&-
}

expect() { # what, pattern; stdin: the answer
    local answer
    answer=$(cat)
    grep -q -- "$2" <<< "$answer" || {
        echo "$answer"
        fail "$1: no '$2' in the answer"
    }
}

start "$examples/hello" tcp:127.0.0.1:0
ask GET / '' | expect hello '^hello, world$'
ask GET '/?name=a%20b' '' | expect hello '^hello, a b$'
stop INT
echo "hello: ok"

start "$examples/api" tcp:127.0.0.1:0
ask GET /counters/a '' | expect api '^HTTP/1.1 404 '
ask POST /counters/a 5 | expect api '"value":5'
ask POST /counters/a 37 | expect api '"value":42'
ask GET /counters/a '' | expect api '^{"value":42}$'
ask GET /counters/a '' | expect api '^Server-Timing: handler'
ask POST /counters/a many | expect api '^HTTP/1.1 400 '
ask DELETE /counters/a '' | expect api '^HTTP/1.1 405 '
ask POST /counters/a "$(printf '%0100d' 1)" | expect api '^HTTP/1.1 413 '
stop TERM
echo "api: ok"

mkdir "$work/up"
start "$examples/upload" "$work/up" tcp:127.0.0.1:0
ask PUT /one 'what is stored' | expect upload '^14 bytes$'
[ "$(cat "$work/up/one")" = 'what is stored' ] || fail "upload: not what was sent"
ask GET /one '' | expect upload '^what is stored$'
ask PUT /.hidden x | expect upload '^HTTP/1.1 400 '
ask GET /..%2foutput '' | expect upload '^HTTP/1.1 404 '
[ "$(ls -A "$work/up")" = one ] || fail "upload: something was left: $(ls -A "$work/up")"
stop TERM
echo "upload: ok"

start "$examples/events" tcp:127.0.0.1:0
exec 4<> "/dev/tcp/127.0.0.1/$port"
printf 'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n' >&4
until IFS= read -r line <&4 && [ "$line" = $'\r' ]; do :; done # its head: it listens
ask POST /say 'good morning' | expect events '^HTTP/1.1 204 '
until IFS= read -r line <&4 && [ "$line" = 'data: good morning' ]; do :; done
stop TERM # with a listener that would stay
cat <&4 > /dev/null
exec 4<&-
echo "events: ok"

mkdir "$work/www"
echo 'a page' > "$work/www/page.txt"
USER_PASSWORD=bmFtZTpwYXNz start "$examples/files" "$work/www" tcp:127.0.0.1:0
ask GET /page.txt '' | expect files '^HTTP/1.1 401 '
ask GET /page.txt '' 'Authorization: Basic bmFtZTpwYXNz' | expect files '^a page$'
ask GET / '' 'Authorization: Basic bmFtZTpwYXNz' | expect files 'page.txt'
ask GET /%2e%2e/output '' 'Authorization: Basic bmFtZTpwYXNz' | expect files '^HTTP/1.1 40[04] '
stop INT
# A certificate without a key is refused, so that the password is not sent in the clear.
if USER_PASSWORD=x timeout 60 "$examples/files" "$work/www" tcp:127.0.0.1:0 only.pem 2> "$work/usage"; then
    fail "files: serves without its key"
fi
grep -q usage "$work/usage" || fail "files: does not say how it is called"
grep -q '"GET /page.txt HTTP/1.1" 200 7 ' "$work/output" || fail "files: no line in the log"
echo "files: ok"

start "$serve" --address tcp:127.0.0.1:0 "$work/www"
[ "$(wc -l < "$work/output")" = 1 ] || fail "weft-serve: not one line"
ask GET /page.txt '' | expect weft-serve '^a page$'
# The log entry is written before the connection ends, without staying in a buffer.
grep -q '"GET /page.txt HTTP/1.1" 200 7 ' "$work/output" || fail "weft-serve: no line in the log yet"
stop INT
# Behind a proxy, by a header field and by the PROXY protocol.
start "$serve" --address tcp:127.0.0.1:0 --trust '127.0.0.0/8' --forwarded x-forwarded-for "$work/www"
ask GET /page.txt '' 'X-Forwarded-For: 1.1.1.1, 192.0.2.1' | expect weft-serve '^a page$'
grep -q '^192\.0\.2\.1 - - ' "$work/output" || fail "weft-serve: does not name the client"
stop INT
start "$serve" --address tcp:127.0.0.1:0 --trust '127.0.0.0/8' --proxy "$work/www"
exec 4<> "/dev/tcp/127.0.0.1/$port"
printf 'PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /page.txt HTTP/1.0\r\n\r\n' >&4
tr -d '\r' <&4 | expect weft-serve '^a page$'
exec 4<&-
grep -q '^192\.0\.2\.1 - - ' "$work/output" || fail "weft-serve: does not name the client"
stop INT
# A second signal ends the server without waiting for a client that does not read.
truncate -s 200M "$work/www/large"
start "$serve" --address tcp:127.0.0.1:0 "$work/www"
exec 4<> "/dev/tcp/127.0.0.1/$port"
printf 'GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n' >&4
IFS= read -r line <&4 # it is under way
while kill -TERM "$server" 2> /dev/null; do sleep 0.05; done
status=0
wait "$server" || status=$?
[ "$status" = 143 ] || fail "weft-serve: $status after two signals"
server=
exec 4<&-
rm "$work/www/large"
start "$serve" --address tcp:127.0.0.1:0
ask GET / '' | expect weft-serve 'EventSource'
ask GET /hello '' | expect weft-serve '^hello, world$'
exec 4<> "/dev/tcp/127.0.0.1/$port"
printf 'GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n' >&4
until IFS= read -r line <&4 && [[ $line == 'data: {"requests":'* ]]; do :; done
stop TERM
exec 4<&-
for bad in '--workers 0' '--address nowhere' '--key only' "$work/none" '--proxy' '--trust 10.0.0.1/8' \
    '--forwarded forwarded' '--trust ::1 --forwarded x-real-ip'; do
    # shellcheck disable=SC2086
    if "$serve" $bad > "$work/output" 2>&1; then fail "weft-serve $bad: ended well"; fi
    [ -s "$work/output" ] || fail "weft-serve $bad: says nothing"
done
"$serve" --address 8080 "$work/www" > "$work/output" 2>&1 || true
grep -q 'no address, such as tcp:127.0.0.1:8080' "$work/output" || fail "weft-serve: what would be an address?"
"$serve" --workers 99999999999 > "$work/output" 2>&1 || true
grep -q 'from 1 to 10000000 ' "$work/output" || fail "weft-serve: how many are too many?"
echo "weft-serve: ok"
