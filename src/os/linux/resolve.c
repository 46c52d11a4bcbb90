/*
 * resolve.c: names by getaddrinfo, or by a function of a test: os/resolve.h.
 */
#include "os/resolve.h"
#include <errno.h>
#include <netdb.h>

#include "os/linux/seam.h"

static atomic_ptr other; /* weft__os_lookup; NULL: getaddrinfo */

void weft__os_getaddrinfo_by(weft__os_lookup *lookup)
{
    atomic_ptr_store_release(&other,
                             (void *)(uintptr_t)lookup); /* pairs with weft__os_getaddrinfo */
}

int weft__os_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                         struct addrinfo **list, int *error)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_RESOLVE)) {
        *error = -EMFILE;
        return EAI_SYSTEM;
    }
    weft__os_lookup *lookup = (weft__os_lookup *)(uintptr_t)atomic_ptr_load_acquire(&other);
    int result = lookup != NULL ? lookup(host, service, hints, list)
                                : getaddrinfo(host, service, hints, list);
    *error = weft__os_error();
    if (result == 0)
        weft__live(LIVE_MEMORY, 1);
    return result;
}

void weft__os_freeaddrinfo(struct addrinfo *list)
{
    KEEP_ERRNO;
    weft__live(LIVE_MEMORY, -1);
    freeaddrinfo(list);
}
