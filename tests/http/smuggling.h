/*
 * smuggling.h: requests that two servers could read differently, and the status for each.
 *
 * Each row is a whole request, often with another one behind it that must not be answered: the
 * connection is closed after the status. parse.c and chunk.c give the rows to the parsers;
 * smuggling.c sends them to a server.
 */
#ifndef WEFT_TEST_HTTP_SMUGGLING_H
#define WEFT_TEST_HTTP_SMUGGLING_H

#include <stddef.h>

/* Where it is found out. */
enum smuggled_in { IN_HEAD, IN_CHUNKS, IN_TRAILER };

struct smuggling {
    const char *name;
    const char *bytes;
    size_t size;
    int status;
    enum smuggled_in in;
};

#define SMUGGLED_AS(name, bytes, status)                \
    {                                                   \
        name, bytes, sizeof(bytes) - 1, status, IN_HEAD \
    }
#define SMUGGLED(name, bytes) SMUGGLED_AS(name, bytes, 400)
#define SMUGGLED_IN(in, name, bytes)            \
    {                                           \
        name, bytes, sizeof(bytes) - 1, 400, in \
    }

#define GET "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define SECOND "GET /second HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct smuggling smuggling[] = {
    /* two lengths */
    SMUGGLED("CL.TE", POST "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"),
    SMUGGLED("TE.CL", POST
             "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\nGPOST / HTTP/1.1\r\n"
             "Content-Length: 15\r\n\r\nx=1\r\n0\r\n\r\n"),
    SMUGGLED("CL.TE with zero",
             POST "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" SECOND),
    SMUGGLED("TE.CL with an unknown coding",
             POST "Transfer-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
    SMUGGLED("TE.CL with an empty coding",
             POST "Transfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc"),
    SMUGGLED("two lengths", POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    SMUGGLED("two equal lengths", POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    SMUGGLED("two lengths, cases differ",
             POST "Content-Length: 3\r\ncontent-length: 4\r\n\r\nabcd"),
    SMUGGLED("a list of lengths", POST "Content-Length: 3, 4\r\n\r\nabcd"),
    SMUGGLED("a list of equal lengths", POST "Content-Length: 3, 3\r\n\r\nabc"),
    SMUGGLED("a list without blanks", POST "Content-Length: 3,3\r\n\r\nabc"),
    SMUGGLED("a list with nothing behind", POST "Content-Length: 3,\r\n\r\nabc"),

    /* a length that is no number */
    SMUGGLED("length with plus", POST "Content-Length: +3\r\n\r\nabc"),
    SMUGGLED("length with minus", POST "Content-Length: -3\r\n\r\nabc"),
    SMUGGLED("length minus zero", POST "Content-Length: -0\r\n\r\n" SECOND),
    SMUGGLED("length in hex", POST "Content-Length: 0x3\r\n\r\nabc"),
    SMUGGLED("length of hex digits", POST "Content-Length: a\r\n\r\n0123456789"),
    SMUGGLED("length with a point", POST "Content-Length: 3.0\r\n\r\nabc"),
    SMUGGLED("length with an exponent", POST "Content-Length: 1e1\r\n\r\n0123456789"),
    SMUGGLED("length with a blank inside", POST "Content-Length: 1 0\r\n\r\n0123456789"),
    SMUGGLED("length with an underscore", POST "Content-Length: 1_0\r\n\r\n0123456789"),
    SMUGGLED("length in quotes", POST "Content-Length: \"3\"\r\n\r\nabc"),
    SMUGGLED("length of words", POST "Content-Length: three\r\n\r\nabc"),
    SMUGGLED("length is empty", POST "Content-Length:\r\n\r\n" SECOND),
    SMUGGLED("length is blank", POST "Content-Length:  \t \r\n\r\n" SECOND),
    SMUGGLED("length of 64 bits", POST "Content-Length: 18446744073709551619\r\n\r\nabc"),
    SMUGGLED("length of 63 bits and one", POST "Content-Length: 9223372036854775808\r\n\r\nabc"),
    SMUGGLED("length of many digits",
             POST "Content-Length: 100000000000000000000000000000000000003\r\n\r\nabc"),
    SMUGGLED("length with a vertical tab", POST "Content-Length: \v3\r\n\r\nabc"),
    SMUGGLED("length with a no-break space", POST "Content-Length: \xa0"
                                                  "3\r\n\r\nabc"),
    SMUGGLED("length with wide digits", POST "Content-Length: \xef\xbc\x93\r\n\r\nabc"),
    SMUGGLED("length of GET is no number", GET "Host: a\r\nContent-Length: x\r\n\r\n" SECOND),

    /* a coding that is not quite chunked */
    SMUGGLED("TE.TE xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE chunkedx", POST "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE two fields, chunked first",
             POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n"),
    SMUGGLED_AS("TE.TE two fields, chunked last",
                POST "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
    SMUGGLED("TE.TE identity", POST "Transfer-Encoding: identity\r\n\r\n" SECOND),
    SMUGGLED_AS("TE.TE identity, chunked",
                POST "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", 501),
    SMUGGLED("TE.TE chunked, identity",
             POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    SMUGGLED_AS("TE.TE gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                501),
    SMUGGLED("TE.TE chunked twice", POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE chunked in two fields",
             POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE in quotes", POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE in half quotes", POST "Transfer-Encoding: 'chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a parameter", POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a comma before", POST "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a comma behind", POST "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a blank inside", POST "Transfer-Encoding: chun ked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE twice without a comma",
             POST "Transfer-Encoding: chunked chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a colon more", POST "Transfer-Encoding: : chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a vertical tab", POST "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a form feed behind", POST "Transfer-Encoding: chunked\f\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a NUL behind", POST "Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a CR behind", POST "Transfer-Encoding: chunked\r\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with 0xff behind", POST "Transfer-Encoding: chunked\xff\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE.TE with a Kelvin sign", POST "Transfer-Encoding: chun\xe2\x84\xaa"
                                              "ed\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE is empty", POST "Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
    SMUGGLED("TE in HTTP/1.0",
             "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),

    /* tricks with names */
    SMUGGLED("blank before the colon", POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("tab before the colon", POST "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("blank before the colon of a length", POST "Content-Length : 3\r\n\r\nabc"),
    SMUGGLED("blank inside a name", POST "Content Length: 3\r\n\r\nabc"),
    SMUGGLED("NUL in a name", POST "Content-Length\0: 3\r\n\r\nabc"),
    SMUGGLED("CR in a name", POST "Content-Length\r: 3\r\n\r\nabc"),
    SMUGGLED("backspaces in a name", POST "Transfer-Encodingx\b: chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("0xff in a name", POST "\xff"
                                    "Content-Length: 3\r\n\r\nabc"),
    SMUGGLED("a name in quotes", POST "\"Content-Length\": 3\r\n\r\nabc"),
    SMUGGLED("an empty name", POST ": x\r\nContent-Length: 3\r\n\r\nabc"),
    SMUGGLED("no colon", POST "Content-Length\r\n\r\n" SECOND),
    SMUGGLED("equals for a colon", POST "Transfer-Encoding=chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("a request in a field", POST "GET /second HTTP/1.1\r\nX: y\r\n\r\n"),

    /* blanks where none may be */
    SMUGGLED("a folded line", POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    SMUGGLED("a line folded with a tab", POST "X: a\r\n\tb\r\n\r\n"),
    SMUGGLED("a folded length", POST "Content-Length: 3\r\n 0\r\n\r\nabc"),
    SMUGGLED("a blank before the first name",
             "POST / HTTP/1.1\r\n Host: a\r\nContent-Length: 3\r\n\r\nabc"),
    SMUGGLED("a tab before the first name", "POST / HTTP/1.1\r\n\tHost: a\r\n\r\n"),
    SMUGGLED("a line of blanks", POST "Content-Length: 3\r\n \r\n\r\nabc"),
    SMUGGLED("two blanks behind the method", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("two blanks behind the target", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a tab in the request line", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a tab before the version", "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a blank before the method", " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a blank behind the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
    SMUGGLED("a blank in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("two versions", "GET / HTTP/1.1 HTTP/1.0\r\nHost: a\r\n\r\n"),

    /* ends of lines */
    SMUGGLED("LF behind the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n"),
    SMUGGLED("LF behind a field", GET "Host: a\nContent-Length: 3\r\n\r\nabc"),
    SMUGGLED("LF and no CR at all", "GET / HTTP/1.1\nHost: a\n\n" SECOND),
    SMUGGLED("LF for the empty line", GET "Host: a\r\n\n" SECOND),
    SMUGGLED("CR in the empty line", GET "Host: a\r\n\r\r\n" SECOND),
    SMUGGLED("CR in a value", GET "Host: a\r\nX: a\rContent-Length: 3\r\n\r\nabc"),
    SMUGGLED("CR for the end of a line", GET "Host: a\rX: y\r\n\r\n"),
    SMUGGLED("LF before the request", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("three empty lines before", "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("CR in the target", "GET /\rX HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("LF CR", GET "Host: a\n\r\n\r"),
    SMUGGLED("NUL in a value", GET "Host: a\r\nX: a\0b\r\n\r\n"),
    SMUGGLED("DEL in a value", GET "Host: a\r\nX: a\x7f"
                                   "b\r\n\r\n"),
    SMUGGLED("escape in a value", GET "Host: a\r\nX: a\x1b[0m\r\n\r\n"),

    /* Host and authority */
    SMUGGLED("no Host", GET "X: y\r\n\r\n"),
    SMUGGLED("no fields", GET "\r\n"),
    SMUGGLED("two hosts", GET "Host: a\r\nHost: b\r\n\r\n"),
    SMUGGLED("two equal hosts", GET "Host: a\r\nHost: a\r\n\r\n"),
    SMUGGLED("two hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
    SMUGGLED("a list of hosts", GET "Host: a, b\r\n\r\n"),
    SMUGGLED("Host with a path", GET "Host: a/b\r\n\r\n"),
    SMUGGLED("Host with a user", GET "Host: u@a\r\n\r\n"),
    SMUGGLED("Host with a scheme", GET "Host: http://a\r\n\r\n"),
    SMUGGLED("Host with letters for a port", GET "Host: a:8o\r\n\r\n"),
    SMUGGLED("Host with a large port", GET "Host: a:65536\r\n\r\n"),
    SMUGGLED("Host with two ports", GET "Host: a:80:81\r\n\r\n"),
    SMUGGLED("Host with a query", GET "Host: a?b\r\n\r\n"),
    SMUGGLED("Host with a fragment", GET "Host: a#b\r\n\r\n"),
    SMUGGLED("Host with a backslash", GET "Host: a\\b\r\n\r\n"),
    SMUGGLED("Host with an open bracket", GET "Host: [::1\r\n\r\n"),
    SMUGGLED("Host with text behind a bracket", GET "Host: [::1]a\r\n\r\n"),
    SMUGGLED("Host not in ASCII", GET "Host: a\xc3\xa4\r\n\r\n"),
    SMUGGLED("the target's host is another", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("the target's port is another", "GET http://a:81/ HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    SMUGGLED("the target has a user", "GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n"),
    SMUGGLED("the target has no host", "GET http:///x HTTP/1.1\r\nHost: \r\n\r\n"),
    SMUGGLED("the target has another scheme", "GET file://a/x HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("an absolute target and no Host", "GET http://a/ HTTP/1.1\r\n\r\n"),

    /* the request line */
    SMUGGLED("a target without a slash", "GET x HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a target not in ASCII", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a star that is not OPTIONS'", "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("an authority that is not CONNECT's", "GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    SMUGGLED("CONNECT of a path", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a method that is no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("NUL in the method", "G\0T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("HTTP/0.9", "GET /\r\n\r\n"),
    SMUGGLED("a version in small letters", "GET / http/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a version of two digits", "GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
    SMUGGLED("a version with a zero before", "GET / HTTP/01.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a version with a comma", "GET / HTTP/1,1\r\nHost: a\r\n\r\n"),
    SMUGGLED("a version with plus", "GET / HTTP/+1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED("another protocol", "GET / ICY/1.1\r\nHost: a\r\n\r\n"),
    SMUGGLED_AS("HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    SMUGGLED_AS("HTTP/0.1", "GET / HTTP/0.1\r\nHost: a\r\n\r\n", 505),
    SMUGGLED("a greeting of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),

    /* chunks */
    SMUGGLED_IN(IN_CHUNKS, "size with 0x", CHUNKED "0x3\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size with plus", CHUNKED "+3\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size with minus", CHUNKED "-3\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size with an underscore", CHUNKED "1_0\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size with a blank before", CHUNKED " 3\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size with a blank behind", CHUNKED "3 \r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size with a tab behind", CHUNKED "3\t\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size with a blank inside", CHUNKED "1 0\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size with a letter behind", CHUNKED "3g\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size with NUL behind", CHUNKED "3\0\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size is empty", CHUNKED "\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size is only an extension", CHUNKED ";a=b\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size of 64 bits and three",
                CHUNKED "10000000000000003\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size of 64 bits", CHUNKED "ffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size of 63 bits and one", CHUNKED "8000000000000000\r\nabc\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "size of many zeros",
                CHUNKED "000000000000000000003\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "LF behind a size", CHUNKED "3\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "CR behind a size", CHUNKED "3\rabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "CR CR LF behind a size", CHUNKED "3\r\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "LF in an extension", CHUNKED "3;a\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "LF for an extension", CHUNKED "3;\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "CR in an extension", CHUNKED "3;a\rb\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "NUL in an extension", CHUNKED "3;a\0b\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "DEL in an extension", CHUNKED "3;a\x7f\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "LF in quotes of an extension",
                CHUNKED "3;a=\"\n\"\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "nothing behind a chunk", CHUNKED "3\r\nabc0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "LF behind a chunk", CHUNKED "3\r\nabc\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "CR behind a chunk", CHUNKED "3\r\nabc\r0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "two bytes behind a chunk", CHUNKED "3\r\nabcXX0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "a chunk that is longer", CHUNKED "3\r\nabcd\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "a chunk that is shorter", CHUNKED "5\r\nabc\r\n0\r\n\r\n"),
    SMUGGLED_IN(IN_CHUNKS, "a body that is not in chunks", CHUNKED "x=1&y=2"),
    SMUGGLED_IN(IN_CHUNKS, "a request for a chunk", CHUNKED SECOND),
    SMUGGLED_IN(IN_CHUNKS, "LF behind the last size", CHUNKED "0\n\r\n" SECOND),
    SMUGGLED_IN(IN_TRAILER, "LF for the end of the trailer", CHUNKED "0\r\n\n" SECOND),
    SMUGGLED_IN(IN_TRAILER, "CR for the end of the trailer", CHUNKED "0\r\n\rX" SECOND),
    SMUGGLED_IN(IN_TRAILER, "a request for a trailer", CHUNKED "0\r\n" SECOND),
    SMUGGLED_IN(IN_TRAILER, "a folded trailer", CHUNKED "0\r\nX: a\r\n b\r\n\r\n"),
    SMUGGLED_IN(IN_TRAILER, "a blank before the colon of a trailer", CHUNKED "0\r\nX : a\r\n\r\n"),
    SMUGGLED_IN(IN_TRAILER, "LF in a trailer", CHUNKED "0\r\nX: a\nY: b\r\n\r\n"),
    SMUGGLED_IN(IN_TRAILER, "NUL in a trailer", CHUNKED "0\r\nX: a\0\r\n\r\n"),
    SMUGGLED_IN(IN_TRAILER, "a blank before a trailer", CHUNKED "0\r\n X: a\r\n\r\n"),
};

enum { SMUGGLING_ROWS = sizeof smuggling / sizeof smuggling[0] };

#undef GET
#undef POST
#undef CHUNKED
#undef SECOND

#endif
