/*
 * weft/resolve.h: names of hosts and services to addresses, without holding a processor.
 *
 *     weft_address found[8];
 *     int count = weft_resolve("example.org", "https", NULL, found, 8, weft_after(2 * WEFT_S));
 *     if (count < 0)
 *         fprintf(stderr, "%s\n", weft_resolve_strerror(count));
 *     for (int i = 0; i < count; i++)
 *         ... try found[i] ...
 *
 * The system's own resolver looks names up (getaddrinfo: /etc/hosts, DNS, whatever the host is
 * configured for), on a thread of its own. A caller that gives up, by its deadline or since its
 * context is cancelled, returns at once. The lookup goes on until the resolver's own timeout, and
 * its result is dropped; weft_shutdown waits for it. At most WEFT_RESOLVE_MOST lookups run at the
 * same time; further callers wait in line. Numeric addresses ("127.0.0.1", "::1") with a numeric
 * service, or none, are resolved at once.
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
    int passive;           /* not zero: to listen on; without a host, all addresses of this host */
    int numeric;           /* not zero: only numeric addresses; nothing is looked up */
    uintptr_t reserved[4]; /* must be zero */
} weft_resolve_hints;

/* Looks up a host (NULL: this host) and a service, by name or number (NULL: port 0); not both are
 * NULL. Stores up to `capacity` addresses, in the order in which to try them. `hints` may be NULL.
 * Returns the number of addresses, at least 1; or
 *   -ENOENT            there is no such name, or it has no address of that family
 *   -ESRCH             there is no such service for that type
 *   -EAGAIN            the name servers do not answer now; a later call may succeed
 *   -EIO               the name servers failed
 *   -ETIMEDOUT, -ECANCELED   the deadline passed, the context of the caller was cancelled
 *   -EINVAL            host and service are NULL, results is NULL, capacity is not positive, or a
 *                      field of the hints has no meaning
 *   -EAFNOSUPPORT      the system has no such family
 *   -ECHILD            a lookup in a forked child
 *   -ENOMEM, -EMFILE, ...    and the errors of weft_go
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_resolve(const char *host, const char *service,
                                        const weft_resolve_hints *hints, weft_address *results,
                                        int capacity, int64_t deadline);

/* What an error of weft_resolve means, in English: a constant, never NULL.
 * Contexts: fiber, thread, signal handler. */
WEFT_API const char *weft_resolve_strerror(int error);

WEFT_END

#endif
