/*
 * resolve.c: names to addresses: weft/resolve.h.
 *
 * getaddrinfo blocks, for many seconds if a name server is silent, and cannot be cancelled. So it
 * runs in a fiber of its own, by weft_blocking, on a request with two references: the caller's and
 * the lookup's. The caller waits for `done` and may leave; the last of the two frees the request.
 *
 * A lookup holds a thread, so a semaphore bounds their number. The caller acquires a slot, the
 * lookup releases it: a lookup whose caller has left still counts, since it still holds its thread.
 *
 * Numeric hosts and services are tried first, with flags by which getaddrinfo looks nothing up: no
 * fiber then.
 *
 * The stack of the lookup is larger than the default: what getaddrinfo calls (modules for
 * directories, multicast names) is not weft's.
 *
 * Rejected: a resolver of weft's own that speaks DNS (it would not know the configuration of this
 * host); a thread per lookup (weft_blocking is that, with threads that are kept); getaddrinfo_a (a
 * thread pool of its own, no way to wait for it but signals).
 */
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/blocking.h>
#include <weft/fiber.h>
#include <weft/resolve.h>
#include <weft/sem.h>

#include "base/atomic.h"
#include "os/os.h"
#include "sched/runtime/runtime.h"

enum { STACK_SIZE = 256 * 1024 };

static weft_sem slots = WEFT_SEM_INIT(WEFT_RESOLVE_MOST);

struct request {
    atomic_u32 references;
    weft_sem done;
    struct addrinfo hints, *list;
    int result;                 /* 0 or a negative errno */
    const char *host, *service; /* in `text`, or NULL */
    char text[];
};

static int error_of(int result, int error)
{
    switch (result) {
    case 0:
        return 0;
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return -ENOENT;
    case EAI_SERVICE:
        return -ESRCH;
    case EAI_AGAIN:
        return -EAGAIN;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_FAMILY:
        return -EAFNOSUPPORT;
    case EAI_SOCKTYPE:
    case EAI_BADFLAGS:
    case EAI_OVERFLOW:
        return -EINVAL;
    case EAI_SYSTEM:
        return error != 0 ? error : -EIO;
    default:
        return -EIO;
    }
}

const char *weft_resolve_strerror(int error)
{
    switch (error < 0 && error != INT32_MIN ? -error : error) {
    case ENOENT:
        return "no such host name, or it has no address of that kind";
    case ESRCH:
        return "no such service";
    case EAGAIN:
        return "the name servers do not answer now";
    case EIO:
        return "the name servers cannot answer";
    case EAFNOSUPPORT:
        return "addresses of that family are not supported";
    default:
        return weft_strerror(error);
    }
}

static int ask(const char *host, const char *service, const struct addrinfo *hints,
               struct addrinfo **list)
{
    int error;
    int result = weft__os_getaddrinfo(host, service, hints, list, &error);
    return error_of(result, error);
}

static int store(const struct addrinfo *list, weft_address *results, int capacity)
{
    int count = 0;
    for (; list != NULL && count < capacity; list = list->ai_next) {
        if (list->ai_addrlen > sizeof results->bytes)
            continue;
        weft_address *result = &results[count++];
        *result =
            (weft_address){.size = (uint16_t)list->ai_addrlen, .type = (uint16_t)list->ai_socktype};
        memcpy(result->bytes, list->ai_addr, list->ai_addrlen);
    }
    return count > 0 ? count : -ENOENT;
}

/* Requests. */

static char *copy(char **at, const char *text)
{
    if (text == NULL)
        return NULL;
    size_t size = strlen(text) + 1;
    char *to = memcpy(*at, text, size);
    *at += size;
    return to;
}

static struct request *make_request(const char *host, const char *service,
                                    const struct addrinfo *hints)
{
    size_t size =
        (host != NULL ? strlen(host) + 1 : 0) + (service != NULL ? strlen(service) + 1 : 0);
    struct request *request = weft__os_alloc_zeroed(sizeof *request + size);
    if (request == NULL)
        return NULL;
    char *at = request->text;
    atomic_u32_store_relaxed(&request->references, 2);
    request->hints = *hints;
    request->host = copy(&at, host);
    request->service = copy(&at, service);
    return request;
}

static void release(struct request *request)
{
    if (atomic_u32_sub_acq_rel(&request->references, 1) != 1)
        return;
    if (request->list != NULL)
        weft__os_freeaddrinfo(request->list);
    weft__os_free(request);
}

static void *look_up(void *arg)
{
    struct request *request = arg;
    request->result = ask(request->host, request->service, &request->hints, &request->list);
    return NULL;
}

static void lookup(void *arg)
{
    struct request *request = arg;
    (void)weft_blocking(look_up, request);
    weft_sem_release(&slots, 1);
    weft_sem_release(&request->done, 1);
    release(request);
}

/* Starts the lookup. The caller has acquired a slot, which this releases on failure, else the
 * lookup. */
static int start(struct request *request)
{
    weft_spawn_options options = {.name = "weft_resolve", .stack_size = STACK_SIZE};
    int error = weft_spawn(NULL, lookup, request, &options);
    if (error != 0) {
        weft_sem_release(&slots, 1);
        release(request); /* the reference of the lookup */
    }
    return error;
}

static int by_lookup(const char *host, const char *service, const struct addrinfo *hints,
                     weft_address *results, int capacity, int64_t deadline)
{
    struct request *request = make_request(host, service, hints);
    if (request == NULL)
        return -ENOMEM;
    int error = weft_sem_acquire_until(&slots, 1, deadline);
    if (error != 0)
        release(request); /* the reference of the lookup, which will not be */
    else
        error = start(request);
    if (error == 0)
        error = weft_sem_acquire_until(&request->done, 1, deadline);
    if (error == 0)
        error = request->result;
    if (error == 0)
        error = store(request->list, results, capacity);
    release(request);
    return error;
}

static bool are_hints_valid(const weft_resolve_hints *hints)
{
    for (size_t i = 0; i < sizeof hints->reserved / sizeof hints->reserved[0]; i++)
        if (hints->reserved[i] != 0)
            return false;
    return true;
}

/* Resolves numeric names; -ENOENT or -ESRCH if something has to be looked up. */
static int resolve_numeric(const char *host, const char *service, struct addrinfo hints,
                           weft_address *results, int capacity)
{
    struct addrinfo *list;
    hints.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
    int result = ask(host, service, &hints, &list);
    if (result != 0)
        return result;
    result = store(list, results, capacity);
    weft__os_freeaddrinfo(list);
    return result;
}

static bool is_number(const char *text)
{
    return text == NULL || text[strspn(text, "0123456789")] == '\0';
}

/* Whether the number is at most 65535. */
static bool is_port(const char *digits)
{
    uint32_t port = 0;
    for (; *digits != '\0' && port <= UINT16_MAX; digits++)
        port = port * 10 + (uint32_t)(*digits - '0');
    return port <= UINT16_MAX;
}

/* Whether the host may be numeric: it consists of the characters of numeric addresses. */
static bool may_be_numeric(const char *host)
{
    return host == NULL || host[strspn(host, "0123456789abcdefABCDEF.:")] == '\0' ||
           strchr(host, ':') != NULL;
}

int weft_resolve(const char *host, const char *service, const weft_resolve_hints *hints,
                 weft_address *results, int capacity, int64_t deadline)
{
    static const weft_resolve_hints defaults;
    if (hints == NULL)
        hints = &defaults;
    if ((host == NULL && service == NULL) || results == NULL || capacity <= 0 ||
        !are_hints_valid(hints))
        return -EINVAL;
    if (service != NULL && is_number(service) && !is_port(service))
        return -ESRCH; /* getaddrinfo would take the low 16 bits */
    struct addrinfo wanted = {.ai_family = hints->family,
                              .ai_socktype = hints->type != 0 ? hints->type : SOCK_STREAM,
                              .ai_flags = hints->passive ? AI_PASSIVE : 0};
    bool numeric = hints->numeric != 0;
    if (numeric || (is_number(service) && may_be_numeric(host))) {
        int result = resolve_numeric(host, service, wanted, results, capacity);
        if (numeric || (result != -ENOENT && result != -ESRCH))
            return result;
    }
    if (weft__runtime_forked())
        return -ECHILD;
    return by_lookup(host, service, &wanted, results, capacity, deadline);
}
