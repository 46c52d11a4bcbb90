/*
 * error.c: weft_strerror and weft_version.
 */
#include <errno.h>
#include <weft/base.h>

#include "os/os.h"

const char *weft_version(void)
{
    return WEFT_VERSION;
}

const char *weft_strerror(int error)
{
    /* The codes that weft returns itself: what they mean in weft, not what they mean to the
     * kernel. */
    switch (error < 0 && error != INT32_MIN ? -error : error) {
    case 0:
        return "success";
    case EINVAL:
        return "invalid argument";
    case ENOMEM:
        return "out of memory";
    case EAGAIN:
        return "a limit is reached, try again later";
    case ETIMEDOUT:
        return "the deadline passed";
    case EDEADLK:
        return "this would wait for itself";
    case EBUSY:
        return "busy";
    case ECANCELED:
        return "canceled";
    case ESHUTDOWN:
        return "closed";
    case EOWNERDEAD:
        return "it panicked";
    case ECHILD:
        return "weft does not run in a forked child";
    default:
        return weft__os_strerror(error < 0 && error != INT32_MIN ? -error : error);
    }
}
