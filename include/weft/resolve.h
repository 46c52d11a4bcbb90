/*
 * weft/resolve.h: names to addresses, without holding a processor.
 *
 *     weft_address found[8];
 *     int count = weft_resolve("example.org", "https", NULL, found, 8, weft_after(2 * WEFT_S));
 *     if (count < 0)
 *         fprintf(stderr, "%s\n", weft_resolve_strerror(count));
 *     for (int i = 0; i < count; i++)
 *         ... try found[i] ...
 *
 * Names are looked up by the system's own resolver (getaddrinfo: /etc/hosts, DNS, whatever the machine is set
 * up for), in a fiber of its own whose thread is handed over meanwhile. A caller that gives up, by its deadline
 * or because its context is cancelled, returns at once; the lookup goes on behind it until the resolver's own
 * timeout, and is forgotten then. (weft_shutdown waits for it.) At most WEFT_RESOLVE_MOST lookups run at
 * the same time; others wait in line. Addresses in numbers ("127.0.0.1", "::1") with a service that is a
 * number, or none, are taken at once.
 */
#ifndef WEFT_RESOLVE_H
#define WEFT_RESOLVE_H

#include <weft/address.h>
#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

#define WEFT_RESOLVE_MOST 64

/* Zero means default in every field. */
typedef struct weft_resolve_hints {
    int family;            /* AF_INET, AF_INET6. Default: both */
    int type;              /* SOCK_STREAM, SOCK_DGRAM. Default: SOCK_STREAM */
    int passive;           /* not zero: to listen on; no host means all addresses of this machine */
    int numeric;           /* not zero: only addresses in numbers; nothing is looked up */
    uintptr_t reserved[4]; /* must be zero */
} weft_resolve_hints;

/* Looks up a host (NULL: this machine) and a service, by name or number (NULL: port 0); one of the two must be
 * there. Stores up to `capacity` addresses in the order in which they should be tried.
 * Returns how many, at least 1; or
 *   -ENOENT            there is no such name, or it has no address of that family
 *   -ESRCH             there is no such service for that type
 *   -EAGAIN            the name servers do not answer now; a later try may work
 *   -EIO               they answer that they cannot
 *   -ETIMEDOUT, -ECANCELED   the caller has given up
 *   -EINVAL            an argument makes no sense
 *   -EAFNOSUPPORT, -ENOMEM, -EMFILE, ...   and as weft_go
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_resolve(const char *host, const char *service,
                                        const weft_resolve_hints *hints, weft_address *results,
                                        int capacity, int64_t deadline);

/* What an error of weft_resolve says, in English; constant, never NULL.
 * Contexts: fiber, thread, signal handler. */
WEFT_API const char *weft_resolve_strerror(int error);

WEFT_END

#endif
