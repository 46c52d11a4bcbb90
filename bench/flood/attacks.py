"""attacks.py: the attacks on the servers, with the bytes that they send.

An attack is a mode of weft-flood (modes.c, tls.c) with the first bytes of a connection and those
that follow.
"""

import ssl
from typing import NamedTuple

GET = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
END = b"\r\n"
LARGE_SIZE = 64 << 20  # of /files/large
BIG_SIZE = 1 << 30  # of /files/big
ENDLESS = 1 << 40  # more requests than any run makes


class Attack(NamedTuple):
    name: str
    title: str
    what: str
    mode: str
    connections: int
    first: bytes = None
    piece: bytes = None
    path: str = "/hello"
    seconds: int = 3
    numbers: dict = {}  # numeric options of weft-flood
    flags: tuple = ()
    options: dict = {}  # of the server
    tls: bool = False  # attacks the TLS port
    proxy: bool = False  # attacks the port where connections begin with a PROXY header
    systems: tuple = ("weft", "nginx")


def client_hello():
    """A valid ClientHello that offers TLS 1.3; sending copies of it costs the client no arithmetic."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def slow_hello():
    """A ClientHello of TLS 1.3 with a key share of ffdhe8192 and nothing else: it costs its server two
    exponentiations of 8,192 bits, and its client none."""
    def extension(number, data):
        return number.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data

    def sized(data):
        return len(data).to_bytes(2, "big") + data

    group, share = b"\x01\x04", b"\x7f" + b"\x55" * 1023
    extensions = (extension(10, sized(group)) + extension(13, sized(b"\x04\x03\x08\x04\x04\x01")) +
                  extension(43, b"\x02\x03\x04") + extension(51, sized(group + sized(share))))
    hello = b"\x03\x03" + bytes(32) + b"\x20" + bytes(32) + sized(b"\x13\x01") + b"\x01\x00" + sized(extensions)
    handshake = b"\x01" + len(hello).to_bytes(3, "big") + hello
    return b"\x16\x03\x01" + sized(handshake)


def get(path, fields=b""):
    return GET % path + fields + END


FIELDS = b"".join(b"X-Field-%02d: %s\r\n" % (number, b"v" * 140) for number in range(95))
SHORT_FIELDS = b"".join(b"X-%04x: v\r\n" % number for number in range(1500))
RANGES = b"Range: bytes=" + b",".join(b"%d-%d" % (4 * number, 4 * number) for number in range(500)) + END
BREW = b"".join(method + b" /files/small HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                for method in (b"BREW", b"OPTIONS", b"DELETE", b"PROPFIND"))

ATTACKS = [
    # Slow clients.
    Attack("slow-heads", "slowloris", "10,000 connections send a field of a head each second, and no end of it", "hold", 10000,
           first=GET % b"/hello", piece=b"X-Some-Field: some value that means nothing\r\n", numbers={"pause": 1000}),
    Attack("trickle", "a byte a second", "1,000 connections send a byte of a head each second", "hold", 1000,
           first=b"GET /", piece=b"a", numbers={"pause": 1000}),
    Attack("slow-bodies", "slow bodies", "1,200 uploads of a byte a second, in chunks", "hold", 1200,
           first=POST % b"/upload" + CHUNKED, piece=b"1\r\nx\r\n", numbers={"pause": 1000}),
    Attack("slow-readers", "slow readers", "1,200 clients ask for 1 GB and read 4 KB a second", "reader", 1200,
           path="/files/big", numbers={"rate": 4096}),
    Attack("silent", "silent connections", "10,000 connections that send nothing", "hold", 10000, first=b"", piece=b""),
    Attack("idle", "idle connections", "10,000 connections, each with one request answered", "idle", 10000,
           numbers={"path": "/hello"}),
    Attack("descriptors", "more connections than descriptors",
           "1,500 idle connections to a server that may have 1,024 descriptors", "idle", 1500, options={"files": 1024}),
    Attack("half-closed", "half-closed readers",
           "1,200 clients ask for 1 GB, end their side, and read 4 KB a second", "reader", 1200,
           path="/files/big", numbers={"rate": 4096}, flags=("half",)),
    Attack("expect", "promised bodies", "1,200 uploads that wait for 100 Continue, and then send nothing",
           "hold", 1200, first=POST % b"/upload" + b"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n", piece=b""),
    Attack("upgrades", "idle upgrades",
           "1,200 connections that have been upgraded, and send a byte a second (nginx has no handlers)", "hold", 1200,
           first=get(b"/echo", b"Connection: upgrade\r\nUpgrade: echo\r\n"), piece=b"x", systems=("weft",)),
    Attack("slow-proxy", "slow PROXY headers", "1,200 connections send a byte of a PROXY header each second", "hold", 1200,
           first=b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x0f\xf0", piece=b"a", numbers={"pause": 1000}, proxy=True),
    # Many requests or connections.
    Attack("many-clients", "many clients", "5,000 connections with a request each, and the next when it is answered", "burst", 5000,
           numbers={"requests": ENDLESS}),
    Attack("handlers", "slow handlers",
           "3,000 connections with requests that take a handler 100 ms each (nginx has no handlers)", "burst", 3000,
           path="/sleep?ms=100", numbers={"requests": ENDLESS}, systems=("weft",)),
    Attack("pipelines", "pipelined requests", "100 connections send requests without a wait", "stream", 100,
           first=get(b"/hello"), piece=get(b"/hello")),
    Attack("unread-pipelines", "unread pipelines", "1,200 connections send requests, and read no answer", "stream", 1200,
           first=get(b"/hello"), piece=get(b"/hello"), flags=("unread",)),
    Attack("small-posts", "pipelined uploads", "100 connections send requests with a body of two bytes without a wait",
           "stream", 100, first=POST % b"/discard" + b"Content-Length: 2\r\n\r\nab",
           piece=POST % b"/discard" + b"Content-Length: 2\r\n\r\nab"),
    Attack("echoes", "upgraded floods",
           "100 connections that have been upgraded send as much as is given back (nginx has no handlers)", "stream", 100,
           first=get(b"/echo", b"Connection: upgrade\r\nUpgrade: echo\r\n"), piece=bytes(4096), systems=("weft",)),
    Attack("connects", "connections opened and reset", "connections that are reset when they are there", "reset", 200,
           first=b""),
    Attack("request-resets", "requests reset", "a request for 64 MB on a new connection, reset at once", "reset", 200,
           first=get(b"/files/large")),
    Attack("answer-resets", "answers reset", "a request for 64 MB on a new connection, reset when the answer begins", "touch",
           200, first=get(b"/files/large")),
    # Heads.
    Attack("header-bomb", "heads without end", "100 connections send fields as fast as they are taken", "stream", 100,
           first=GET % b"/hello", piece=b"X-Some-Field: some value that means nothing at all\r\n"),
    Attack("large-heads", "heads as large as they may be", "100 connections, each request with 95 fields, 15 KB in all",
           "burst", 100, first=get(b"/hello", FIELDS), numbers={"requests": ENDLESS}),
    Attack("many-fields", "many fields", "100 connections, each request with 1,500 fields of other names", "touch", 100,
           first=get(b"/hello", SHORT_FIELDS)),
    Attack("long-targets", "long targets", "100 connections, paths of 7 KB that go up and down 800 times", "burst", 100,
           first=get(b"/files/" + b"a/%2e%2e/" * 800 + b"small"), numbers={"requests": ENDLESS}),
    Attack("line-bomb", "targets without end", "100 connections send a target as fast as it is taken", "stream", 100,
           first=b"GET /", piece=b"a" * 1000),
    Attack("garbage", "garbage", "100 connections at a time send 200 bytes of it", "touch", 100,
           first=bytes((7 * number) % 251 for number in range(200))),
    Attack("smuggling", "two lengths", "a request with Content-Length and Transfer-Encoding, 100 connections at a time",
           "touch", 100, first=POST % b"/upload" + b"Content-Length: 4\r\n" + CHUNKED + b"0\r\n\r\n"),
    Attack("methods", "other methods", "100 connections send BREW, OPTIONS, DELETE and PROPFIND of a file", "stream", 100,
           first=BREW, piece=BREW),
    # Bodies.
    Attack("small-chunks", "chunks of a byte", "100 uploads in chunks of a byte, as fast as they are taken", "stream", 100,
           first=POST % b"/upload" + CHUNKED, piece=b"1\r\nx\r\n"),
    Attack("chunk-extensions", "chunk extensions", "100 uploads whose first chunk has an extension without end", "stream",
           100, first=POST % b"/upload" + CHUNKED + b"1", piece=b";x=y"),
    Attack("chunk-notes", "an extension in each chunk", "100 uploads in chunks of a byte, each with an extension of 250 bytes",
           "stream", 100, first=POST % b"/upload" + CHUNKED, piece=b"1;" + b"x" * 250 + b"\r\nx\r\n"),
    Attack("trailers", "trailers without end", "100 uploads that end with fields without end", "stream", 100,
           first=POST % b"/upload" + CHUNKED + b"0\r\n", piece=b"X-Some-Field: some value\r\n"),
    Attack("unread-bodies", "unwanted bodies", "100 uploads of 1 TB to a handler that does not read them, as fast as they are taken",
           "stream", 100, first=POST % b"/hello" + b"Content-Length: 1000000000000\r\n\r\n", piece=bytes(4096)),
    Attack("held-bodies", "bodies held in memory", "200 uploads of 8 MiB that lack their last byte", "stream", 200,
           first=POST % b"/json" + b"Content-Length: %d\r\n\r\n" % (8 << 20), piece=bytes(4096),
           numbers={"most": (8 << 20) - 1}),
    Attack("heads-of-writes", "HEAD of what is written", "100 connections ask for the head of 1 GB that a handler writes",
           "burst", 100, first=get(b"/big").replace(b"GET", b"HEAD", 1), numbers={"requests": ENDLESS}, flags=("bodiless",)),
    # Files.
    Attack("ranges", "hundreds of ranges", "100 connections ask for 500 ranges of a byte of 64 MB", "burst", 100,
           first=get(b"/files/large", RANGES), numbers={"requests": ENDLESS}),
    Attack("huge-files", "huge files", "100 connections ask for 64 MB as fast as they come", "burst", 100,
           first=get(b"/files/large"), numbers={"requests": ENDLESS}),
    Attack("missing-files", "missing files", "100 connections ask for a file that is not there", "burst", 100,
           first=get(b"/files/a/b/c/missing"), numbers={"requests": ENDLESS}),
    Attack("heads-of-files", "HEAD of files", "100 connections ask for the head of 64 MB", "burst", 100,
           first=get(b"/files/large").replace(b"GET", b"HEAD", 1), numbers={"requests": ENDLESS}, flags=("bodiless",)),
    # TLS.
    Attack("tls-silent", "silent TLS connections", "5,000 connections that send nothing", "hold", 5000, first=b"",
           piece=b"", tls=True),
    Attack("tls-idle", "idle sessions", "1,000 connections that have made their handshake, and send nothing", "tls", 1000,
           numbers={"then": "hold"}, tls=True, seconds=4),
    Attack("tls-hellos", "first halves of handshakes",
           "100 connections at a time send the same ClientHello, and are reset when the server has answered", "touch", 100,
           first=client_hello(), tls=True),
    Attack("tls-handshakes", "handshakes", "100 connections at a time make a handshake, and are reset", "tls", 100,
           numbers={"then": "end"}, tls=True),
    Attack("tls-updates", "KeyUpdates", "10 connections send KeyUpdates that ask for one back, as fast as they are taken",
           "tls", 10, numbers={"then": "update"}, tls=True),
    Attack("tls-drip", "KeyUpdates between bytes", "10 uploads of TLS with 16 KeyUpdates in front of each byte", "tls", 10,
           first=POST % b"/upload" + CHUNKED, numbers={"then": "drip"}, tls=True),
    Attack("tls-groups", "slow key exchanges",
           "100 connections at a time send a ClientHello that offers ffdhe8192 alone, and are reset when the server answers",
           "touch", 100, first=slow_hello(), tls=True),
    Attack("tls-renegotiation", "renegotiation", "10 connections of TLS 1.2 ask for another handshake, again and again",
           "tls", 10, numbers={"then": "renegotiate"}, tls=True),
    Attack("tls-garbage", "no TLS", "100 connections at a time send plain HTTP to the port of TLS", "touch", 100,
           first=get(b"/hello"), tls=True),
]
