# client.py: asks the server of serve.c by Python's http.client.
import http.client
import sys
import threading


def numbers(count):
    return (b"0123456789" * (count // 10 + 1))[:count]


def check(condition, what):
    if not condition:
        sys.exit("failed: " + what)


def ask(connection, method, path, body=None, headers={}, status=200, **more):
    connection.request(method, path, body, headers, **more)
    response = connection.getresponse()
    data = response.read()
    check(response.status == status, "%s %s: %d" % (method, path, response.status))
    return response, data


def talk(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.connect()
    socket = connection.sock
    for _ in range(20):
        check(ask(connection, "GET", "/hello")[1] == b"hello\n", "hello")
    for method in ["POST", "PUT", "PATCH", "DELETE", "BREW"]:
        response, data = ask(connection, method, "/echo", b"body of " + method.encode())
        check(data == b"body of " + method.encode(), "echo of " + method)
        check(response.getheader("X-Method") == method, method)
    response, data = ask(connection, "HEAD", "/size?n=1000")
    check(data == b"" and response.getheader("Content-Length") == "1000", "HEAD")
    for path in ["/size", "/chunked"]:
        for count in [0, 1, 999, 16384, 3000000]:
            check(ask(connection, "GET", "%s?n=%d" % (path, count))[1] == numbers(count),
                  "%s of %d" % (path, count))
    pieces = [numbers(n) for n in (1, 10, 100000, 7)]
    response, data = ask(connection, "POST", "/echo", iter(pieces), encode_chunked=True,
                         headers={"Transfer-Encoding": "chunked"})
    check(data == b"".join(pieces), "chunks")
    check(ask(connection, "GET", "/status?code=204", status=204)[1] == b"", "204")
    check(ask(connection, "GET", "/status?code=304", status=304)[1] == b"", "304")
    check(ask(connection, "GET", "/nowhere", status=404)[1] != b"", "404")
    check(ask(connection, "POST", "/unread", b"x" * 100000)[1] == b"unread\n", "unread")
    check(connection.sock is socket, "the connection was not kept")
    ask(connection, "POST", "/limited", b"x" * 101, status=413)
    connection.close()


port = int(sys.argv[1])
talk(port)
errors = []


def thread():
    try:
        talk(port)
    except BaseException as error:
        errors.append(error)


threads = [threading.Thread(target=thread) for _ in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
check(not errors, str(errors))
