/*
 * weft/address.h: addresses of sockets, as text and as values.
 *
 *   tcp:127.0.0.1:80      tcp:[::1]:80       stream over IP; port 0: the system chooses one
 *   udp:127.0.0.1:53      udp:[::1]:53       datagrams over IP
 *   tcp::80               udp::53            no host: all addresses of this host (IPv6, which
 *                                            accepts IPv4 too; IPv4 where there is no IPv6)
 *   tcp:[fe80::1%eth0]:80                    an IPv6 address of one network interface, by name or
 *                                            number
 *   unix:/run/my.sock                        stream on this host, by a path
 *   unix:@name                               stream on this host, by an abstract name
 *   unixgram:/run/my.sock                    datagrams on this host
 *
 * A host is numeric here. weft_conn_dial, weft_conn_bind and weft_listener_open accept names as
 * well ("tcp:localhost:80"), which they look up (weft/resolve.h).
 */
#ifndef WEFT_ADDRESS_H
#define WEFT_ADDRESS_H

#include <weft/base.h>

WEFT_BEGIN

/* An address as a value, which may be copied. `bytes` is a sockaddr of `size` bytes; `type` is the
 * type of its socket, SOCK_STREAM or SOCK_DGRAM. All zero: no address, as that of an unnamed Unix
 * socket. */
typedef struct weft_address {
    uint16_t size;
    uint16_t type;
    uint32_t reserved;
    unsigned char bytes[112];
} weft_address;

/* Room for any address as text, with the zero at its end. */
#define WEFT_ADDRESS_TEXT 128

/* Parses an address.
 * Returns 0; -EINVAL if an argument is NULL or the text is no address; -EADDRNOTAVAIL if the host
 * is a name; -ENAMETOOLONG for a path.
 * Contexts: fiber, thread, signal handler. */
WEFT_API WEFT_MUST_USE int weft_address_parse(weft_address *address, const char *text);

/* Writes an address in a form that weft_address_parse accepts; "" for no address.
 * Returns 0; -EINVAL if an argument is NULL or the value is no address; -ENOSPC if the text does
 * not fit into `size` bytes with its zero.
 * Contexts: fiber, thread, signal handler. */
WEFT_API WEFT_MUST_USE int weft_address_format(const weft_address *address, char *text,
                                               size_t size);

/* The port of an IP address; 0 for any other, and for NULL.
 * Contexts: fiber, thread, signal handler. */
WEFT_API int weft_address_port(const weft_address *address);

WEFT_END

#endif
