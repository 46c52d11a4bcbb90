#!/usr/bin/env python3
"""cases.py: the HTTP cases of the comparison: one round of one case on one server.

    cases.py --list
    cases.py --case http_hello --system fasthttp --procs 2 [--quick]

The interface is that of all programs that take part (bench/compare/README.md). The server has the
first CPU, wrk the second. http_hello, http_hello_few and http_json give requests per second, and as
..._p99 the 99th percentile of the time from a request to its response; http_idle gives bytes of
resident memory per idle connection, http_tls_idle per idle TLS connection, http_tls_silent per TLS
connection that has not sent a byte. The parameter server_cpu is the CPU time of the server per
request: on a busy machine it is more reliable than the rate.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import servers  # noqa: E402

HERE = Path(__file__).resolve().parent
# With few connections wrk, not the server, limits the rate: a bare epoll loop is no faster
# (docs/design/http.md).
# Path and connections.
RATES = {"http_hello": ("hello", 512), "http_hello_few": ("hello", 64), "http_json": ("json", 512)}
HELLO = b"hello, world\n"
SECONDS, WARM_UP, QUICK_SECONDS = 4, 1, 1
IDLE_MOST, IDLE_QUICK = 100000, 10000
TLS_COUNT, TLS_QUICK = 10000, 1000
TLS_CASES = {"http_tls_silent": False, "http_tls_idle": True}  # whether they send a request
TLS_SYSTEMS = ("weft", "nginx")
PAUSE = 3  # seconds, for memory that is kept for a while after a request
FILES_SPARE = 200  # descriptors besides connections


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--case")
    parser.add_argument("--system", default="weft")
    parser.add_argument("--procs", type=int, default=2, help="not used: the server has one CPU")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def cases():
    """The available cases: (case, system, version)."""
    for system, version in servers.versions().items():
        if shutil.which("wrk"):
            for case, (path, _) in RATES.items():
                if system != "nginx" or path != "json":
                    yield case, system, version
        if os.access(servers.FLOOD, os.X_OK):
            yield "http_idle", system, version
        if system in TLS_SYSTEMS and shutil.which("openssl"):
            for case in TLS_CASES:
                yield case, system, version


def two_cpus():
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        sys.exit("the cases of HTTP need two CPUs, one for the server and one for the client")
    return {allowed[0]}, {allowed[1]}


def expect_answers(server, path):
    """Checks that the answers are right, since a round only counts them."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    if path == "json":
        sent = json.dumps({"items": ["x" * 97] * 100}).encode()
        connection.request("POST", "/json", sent, {"Content-Type": "application/json"})
    else:
        sent = HELLO
        connection.request("GET", "/hello")
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200 or body != sent:
        sys.exit(f"{server.system} answered {answer.status} with {len(body)} bytes instead of {len(sent)}")
    connection.close()


def run_wrk(server, cpus, path, connections, seconds):
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", HERE / "load.lua",
               f"http://127.0.0.1:{server.port}/{path}", "--", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=servers.in_child(cpus),
                          timeout=seconds + 30)
    line = re.search(r"^result (.*)$", done.stdout, re.MULTILINE).group(1)
    result = {name: int(value) for name, value in (word.split("=") for word in line.split())}
    if result["failed"] > 0 or result["requests"] == 0:
        sys.exit(f"{result['failed']} requests failed, {result['requests']} were answered")
    return result


def rate(case, system, quick):
    path, connections = RATES[case]
    here, there = two_cpus()
    seconds = QUICK_SECONDS if quick else SECONDS
    with servers.Server(system, here) as server:
        expect_answers(server, path)
        if not quick:
            run_wrk(server, there, path, connections, WARM_UP)
        before = server.cpu_seconds()
        result = run_wrk(server, there, path, connections, seconds)
        cpu = (server.cpu_seconds() - before) * 1e6 / result["requests"]
        peak = server.memory()[1]
    params = (f"processors=1 connections={connections} seconds={seconds} server_cpu={cpu:.2f}us "
              f"p50={result['p50_us']}us max={result['max_us']}us")
    print(f"{case} {result['requests'] * 1e6 / result['us']:.9g} req/s {params}")
    print(f"{case}_p99 {result['p99_us'] * 1000} ns/op {params}")
    print(f"peak {peak}")


def idle(system, quick):
    """Measures the memory per connection that has had a request and is kept."""
    here, there = two_cpus()
    count = min(IDLE_QUICK if quick else IDLE_MOST, servers.raise_files() - FILES_SPARE)
    with servers.Server(system, here) as server:
        expect_answers(server, "hello")
        server.warm_up(there)
        time.sleep(PAUSE)
        before, _ = server.memory()
        with subprocess.Popen([servers.FLOOD, "idle", "--port", str(server.port), "--connections", str(count), "--seconds", "60"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              preexec_fn=servers.in_child(there)) as client:
            ready = client.stdout.readline().split()
            time.sleep(PAUSE)
            after, peak = server.memory()
            client.stdin.close()  # ends it
            client.wait()
    if ready[:1] != ["ready"] or int(ready[1]) != count:
        sys.exit(f"{system}: of {count} connections came {' '.join(ready)}")
    print(f"http_idle {(after - before) * 1024 / count:.9g} bytes processors=1 connections={count}")
    print(f"peak {peak}")


def dial_tls(port, context, asks):
    """Opens a TLS connection; with `asks`, after a handshake and a request. The client drops its part of the session and
    keeps the socket."""
    connection = socket.create_connection(("127.0.0.1", port))
    if not asks:
        return connection
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(there, here, server_hostname="localhost")

    def do(call):
        while True:
            try:
                result = call()
            except ssl.SSLWantReadError:
                result = None
            if here.pending:
                connection.sendall(here.read())
            if result is not None:
                return result
            data = connection.recv(65536)
            if not data:
                sys.exit("the server has closed a connection of TLS")
            there.write(data)

    do(lambda: session.do_handshake() or True)
    do(lambda: session.write(b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    answer = b""
    while HELLO not in answer:
        answer += do(session.read)
    return connection


def idle_tls(case, system, quick):
    """Measures the memory per idle TLS connection, with this process as the client."""
    here, there = two_cpus()
    count = min(TLS_QUICK if quick else TLS_COUNT, servers.raise_files() - FILES_SPARE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    os.sched_setaffinity(0, there)
    with tempfile.TemporaryDirectory(prefix="weft-tls-") as folder:
        servers.make_certificate(folder)
        with servers.Server(system, here, {"tls": (f"{folder}/cert.pem", f"{folder}/key.pem"), "header_timeout": 600, "idle_timeout": 600}) as server:
            for connection in [dial_tls(server.tls_port, context, True) for _ in range(100)]:
                connection.close()
            time.sleep(PAUSE)
            before, _ = server.memory()
            connections = [dial_tls(server.tls_port, context, TLS_CASES[case]) for _ in range(count)]
            time.sleep(PAUSE)
            after, peak = server.memory()
            for connection in connections:
                connection.close()
    print(f"{case} {(after - before) * 1024 / count:.9g} bytes processors=1 connections={count}")
    print(f"peak {peak}")


def main():
    options = parse_arguments()
    if options.list:
        for entry in cases():
            print(*entry)
    elif (options.case, options.system) not in [entry[:2] for entry in cases()]:
        sys.exit(f"there is no case {options.case} of {options.system} here (see --list)")
    elif options.case == "http_idle":
        idle(options.system, options.quick)
    elif options.case in TLS_CASES:
        idle_tls(options.case, options.system, options.quick)
    else:
        rate(options.case, options.system, options.quick)


if __name__ == "__main__":
    main()
