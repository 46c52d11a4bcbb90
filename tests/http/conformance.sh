#!/usr/bin/env bash
# conformance.sh: the HTTP server as other people's clients, load generators and proxies find it.
#
#     tests/http/conformance.sh <the program of conformance/serve.c>
#
# A tool that is not there is left out, with a line; without all of them it is skipped (77).
set -euo pipefail
server=$(realpath "$1")
cd "$(dirname "$0")/conformance"
# shellcheck source=tests/support/loopback.sh
source ../../support/loopback.sh
need_loopback
temp=$(mktemp -d)
nginx_pid= server_pid= ran=0
trap finish EXIT

finish() {
    if [ -n "$nginx_pid" ]; then
        kill "$nginx_pid" 2> /dev/null || true
        wait "$nginx_pid" 2> /dev/null || true
    fi
    exec 3>&- || true
    if [ -n "$server_pid" ]; then
        wait "$server_pid" 2> /dev/null || true
    fi
    rm -rf "$temp"
}

fail() {
    echo "failed: $*" >&2
    exit 1
}

have() {
    if command -v "$1" > /dev/null && "${@:2}" > /dev/null 2>&1; then
        echo "$1"
        ran=$((ran + 1))
        return 0
    fi
    echo "$1: not there, left out"
    return 1
}

same() { # what, expected, found
    [ "$2" = "$3" ] || fail "$1: '$3' in place of '$2'"
}

mkfifo "$temp/in" "$temp/out"
"$server" < "$temp/in" > "$temp/out" &
server_pid=$!
exec 3> "$temp/in"
read -r port < "$temp/out"
url=http://127.0.0.1:$port
head -c 3000000 /dev/urandom > "$temp/large"
head -c 5000 /dev/urandom > "$temp/small"

ask() { # curl, quietly, and not for ever
    curl --silent --show-error --max-time 60 --noproxy '*' "$@"
}

# Through whatever is in front: the base of the URL, and more for curl.
curl_bodies() {
    local base=$1 method file
    shift
    same "hello" "hello" "$(ask "$@" "$base/hello")"
    for method in POST PUT PATCH DELETE; do
        same "$method" "body of $method" "$(ask "$@" -X $method --data "body of $method" "$base/echo")"
    done
    for file in "$temp/small" "$temp/large"; do
        ask "$@" --data-binary "@$file" "$base/echo" | cmp - "$file" || fail "echo"
        ask "$@" -T "$file" "$base/echo" | cmp - "$file" || fail "echo of PUT"
        if [[ " $* " != *" --http1.0 "* ]]; then
            ask "$@" -H "Transfer-Encoding: chunked" --data-binary "@$file" "$base/echo" |
                cmp - "$file" || fail "echo in chunks"
        fi
    done
    same "a body of known size" 1000003 "$(ask "$@" "$base/size?n=1000003" | wc -c)"
    same "a body in chunks" 1000003 "$(ask "$@" "$base/chunked?n=1000003" | wc -c)"
    same "HEAD" "200 0" "$(ask "$@" --head -o /dev/null -w '%{http_code} %{size_download}' "$base/size?n=7")"
    same "404" 404 "$(ask "$@" -o /dev/null -w '%{http_code}' "$base/nowhere")"
    same "413" 413 "$(ask "$@" -o /dev/null -w '%{http_code}' --data-binary "@$temp/small" "$base/limited")"
}

if have curl curl --version; then
    curl_bodies "$url"
    curl_bodies "$url" --http1.0
    # It waits for 100 for longer than it may take.
    ask --expect100-timeout 300 -H "Expect: 100-continue" --data-binary "@$temp/large" "$url/echo" |
        cmp - "$temp/large" || fail "Expect: 100-continue"
    same "413 in place of 100" 413 "$(ask --expect100-timeout 300 -H "Expect: 100-continue" \
        --data-binary "@$temp/large" -o /dev/null -w '%{http_code}' "$url/limited")"
    same "connections for four requests" 1 "$(ask -w '%{num_connects}\n' -o /dev/null -o /dev/null \
        -o /dev/null -o /dev/null "$url/hello" "$url/chunked?n=9" "$url/status?code=204" "$url/hello" |
        awk '{ sum += $1 } END { print sum }')"
    same "HTTP/1.0 with keep-alive" 1 "$(ask --http1.0 -H "Connection: keep-alive" -w '%{num_connects}\n' \
        -o /dev/null -o /dev/null "$url/hello" "$url/hello" | awk '{ sum += $1 } END { print sum }')"
    same "above the root" 400 "$(ask --path-as-is -o /dev/null -w '%{http_code}' "$url/../x")"
    same "OPTIONS *" 204 "$(ask -X OPTIONS --request-target '*' -o /dev/null -w '%{http_code}' "$url/")"
    same "a field" "X-A: b" "$(ask -H "X-A: b" "$url/fields" | grep X-A)"
fi

if have ab ab -V; then
    for keep in "" -k; do
        ab -q $keep -n 2000 -c 20 "$url/hello" > "$temp/ab" 2>&1 || fail "ab: $(cat "$temp/ab")"
        same "ab: complete" 2000 "$(awk '/^Complete requests/ { print $3 }' "$temp/ab")"
        same "ab: failed" 0 "$(awk '/^Failed requests/ { print $3 }' "$temp/ab")"
        ! grep Non-2xx "$temp/ab" || fail "ab"
    done
    same "ab: kept" 2000 "$(awk '/^Keep-Alive requests/ { print $3 }' "$temp/ab")"
    ab -q -k -n 200 -c 5 -p "$temp/small" -T application/octet-stream "$url/echo" > "$temp/ab" 2>&1
    same "ab: POST, failed" 0 "$(awk '/^Failed requests/ { print $3 }' "$temp/ab")"
fi

if have wrk test -n "$(command -v wrk)"; then
    wrk -t 1 -c 20 -d 1 "$url/hello" > "$temp/wrk" 2>&1 || fail "wrk: $(cat "$temp/wrk")"
    ! grep -E 'Socket errors|Non-2xx' "$temp/wrk" || fail "wrk"
    [ "$(awk '/requests in/ { print $1 }' "$temp/wrk")" -gt 0 ] || fail "wrk: no requests"
fi

if have h2load h2load --version; then
    h2load --h1 -n 2000 -c 10 -m 8 "$url/hello" > "$temp/h2load" 2>&1 || fail "h2load: $(cat "$temp/h2load")"
    grep -q '2000 succeeded, 0 failed, 0 errored, 0 timeout' "$temp/h2load" || fail "h2load: $(cat "$temp/h2load")"
    h2load --h1 -n 50 -c 5 -m 8 "$url/chunked?n=100000" > "$temp/h2load" 2>&1
    grep -q '50 succeeded, 0 failed, 0 errored, 0 timeout' "$temp/h2load" || fail "h2load: $(cat "$temp/h2load")"
fi

if command -v curl > /dev/null && PATH=$PATH:/usr/sbin have nginx nginx -v; then
    for buffering in on off; do
        cat > "$temp/nginx.conf" << END
$([ "$(id -u)" = 0 ] && echo "user root;")
daemon off;
master_process off;
pid $temp/nginx.pid;
error_log $temp/error.log;
events { worker_connections 100; }
http {
    access_log off;
    client_body_temp_path $temp/client_body;
    proxy_temp_path $temp/proxy;
    fastcgi_temp_path $temp/fastcgi;
    uwsgi_temp_path $temp/uwsgi;
    scgi_temp_path $temp/scgi;
    client_max_body_size 0;
    upstream weft { server 127.0.0.1:$port; keepalive 4; }
    server {
        listen unix:$temp/nginx.sock;
        location / {
            proxy_pass http://weft;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering $buffering;
            proxy_request_buffering $buffering;
        }
    }
}
END
        PATH=$PATH:/usr/sbin nginx -e "$temp/error.log" -p "$temp" -c "$temp/nginx.conf" &
        nginx_pid=$!
        until [ -S "$temp/nginx.sock" ]; do
            kill -0 "$nginx_pid" 2> /dev/null || fail "nginx: $(cat "$temp/error.log")"
            sleep 0.1
        done
        curl_bodies http://weft --unix-socket "$temp/nginx.sock"
        before=$(ask --unix-socket "$temp/nginx.sock" http://weft/connections)
        for _ in $(seq 30); do
            same "hello through nginx" hello "$(ask --unix-socket "$temp/nginx.sock" http://weft/hello)"
        done
        after=$(ask --unix-socket "$temp/nginx.sock" http://weft/connections)
        [ $((after - before)) -le 1 ] || fail "nginx has made $((after - before)) connections for 30 requests"
        kill "$nginx_pid"
        wait "$nginx_pid" || true
        nginx_pid=
        rm -f "$temp/nginx.sock"
        # What an upstream says that breaks off, or makes no sense, is found in its log.
        ! grep -E 'upstream (prematurely|sent)' "$temp/error.log" || fail "nginx"
    done
fi

if have python3 python3 --version; then
    python3 client.py "$port" || fail "http.client"
fi

if have go go version; then
    GOFLAGS=-mod=mod GOPROXY=off GO111MODULE=off go run client.go "$port" || fail "net/http"
fi

if [ $ran = 0 ]; then
    echo "skipped: none of the tools is there"
    exit 77
fi
exec 3>&-
wait "$server_pid" || fail "the server ended with $?"
server_pid=
echo "passed"
