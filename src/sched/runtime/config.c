/*
 * config.c: resolves the settings of the runtime from configuration, environment and defaults.
 *
 * weft/runtime.h documents each setting and its variable. A value in the environment that makes no
 * sense is reported on stderr and ignored: a program must not fail to start because of it.
 */
#include "sched/runtime/config.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "os/os.h"
#include "sched/runtime/cpus.h"
#include "stack/stack.h"

enum { MACHINES_DEFAULT = 10000, MACHINES_MAX = 1000000 };

#define STACK_SIZE_DEFAULT ((size_t)64 * 1024)
#define STACK_SIZE_MIN ((size_t)1 << STACK_LOG_MIN)
#define STACK_SIZE_MAX ((size_t)1 << STACK_LOG_MAX)

int weft__config_check(const weft_config *config)
{
    static const weft_config none;
    if (config->processors < 0 || config->processors > WEFT_PROCS_MAX || config->max_fibers < 0 ||
        config->max_machines < 0 || config->max_machines > MACHINES_MAX ||
        (config->stack_size != 0 &&
         (config->stack_size < STACK_SIZE_MIN || config->stack_size > STACK_SIZE_MAX)) ||
        memcmp(config->reserved, none.reserved, sizeof none.reserved) != 0)
        return -EINVAL;
    return 0;
}

/* Reads a number with an optional suffix K or M from the environment. 0 if it is not set, or out of
 * range, of which `say` warns. */
static int64_t from_environment(const char *name, int64_t least, int64_t most, bool say)
{
    const char *text = weft__os_getenv(name);
    if (text == NULL || *text == '\0')
        return 0;
    int64_t value = 0, unit = 1;
    const char *at = text;
    while (*at >= '0' && *at <= '9' && value <= most)
        value = value * 10 + (*at++ - '0');
    if (*at == 'K' || *at == 'k')
        unit = 1024, at++;
    else if (*at == 'M' || *at == 'm')
        unit = 1024 * 1024, at++;
    if (*at == '\0' && value <= most / unit && value * unit >= least)
        return value * unit;
    if (say)
        weft__warn("%s=%.64s is ignored: a number from %lld to %lld is wanted, K or M may follow",
                   name, text, (long long)least, (long long)most);
    return 0;
}

/* True unless the variable is 0. Warns of values other than 0 and 1. */
static bool not_turned_off(const char *name)
{
    const char *text = weft__os_getenv(name);
    if (text == NULL || *text == '\0' || strcmp(text, "1") == 0)
        return true;
    if (strcmp(text, "0") == 0)
        return false;
    weft__warn("%s=%.64s is ignored: 0 or 1 is wanted", name, text);
    return true;
}

/* Reads WEFT_WITHOUT, a list of kernel features not to use. */
static void read_without(struct settings *settings)
{
    const struct {
        const char *word;
        bool *allowed;
    } words[] = {
        {"membarrier", &settings->membarrier},     {"guard_install", &settings->guard_install},
        {"guard_many", &settings->guard_many},     {"guard_pages", &settings->guard_pages},
        {"epoll_pwait2", &settings->epoll_pwait2}, {"io_uring", &settings->io_uring},
        {"file_nowait", &settings->file_nowait},   {"pidfd", &settings->pidfd}};
    const char *at = weft__os_getenv("WEFT_WITHOUT");
    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at, ",");
        bool known = length == 0;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (strlen(words[i].word) == length && memcmp(words[i].word, at, length) == 0) {
                *words[i].allowed = false;
                known = true;
            }
        if (!known)
            weft__warn("WEFT_WITHOUT: %.*s is not known", (int)(length < 64 ? length : 64), at);
        at += length + (at[length] == ',');
    }
}

/* The number that configuration or environment fix; 0: neither does. */
static int fixed_processors(const weft_config *config, bool say)
{
    int count = config->processors;
    return count != 0 ? count : (int)from_environment("WEFT_PROCS", 1, WEFT_PROCS_MAX, say);
}

int weft__config_processors(const weft_config *config, bool say)
{
    int count = fixed_processors(config, say);
    return count != 0 ? count : weft__cpus(weft__cpus_root);
}

struct settings weft__config_resolve(const weft_config *config)
{
    struct settings settings = {.membarrier = true,
                                .guard_install = true,
                                .guard_many = true,
                                .guard_pages = true,
                                .epoll_pwait2 = true,
                                .io_uring = true,
                                .file_nowait = true,
                                .pidfd = true,
                                .processors = fixed_processors(config, true),
                                .stack_size = config->stack_size,
                                .max_fibers = config->max_fibers,
                                .max_machines = config->max_machines};
    if (settings.processors == 0) {
        settings.processors = weft__cpus(weft__cpus_root);
        settings.follows_cpus = true;
    }
    settings.fault_report = !config->no_fault_report && not_turned_off("WEFT_FAULT_REPORT");
    settings.deadlock_check = !config->no_deadlock_check && not_turned_off("WEFT_DEADLOCK_CHECK");
    if (settings.stack_size == 0)
        settings.stack_size = (size_t)from_environment("WEFT_STACK_SIZE", (int64_t)STACK_SIZE_MIN,
                                                       (int64_t)STACK_SIZE_MAX, true);
    if (settings.stack_size == 0)
        settings.stack_size = STACK_SIZE_DEFAULT;
    if (settings.max_fibers == 0)
        settings.max_fibers = from_environment("WEFT_MAX_FIBERS", 1, INT64_MAX / 1024, true);
    if (settings.max_machines == 0)
        settings.max_machines = (int)from_environment("WEFT_MAX_MACHINES", 1, MACHINES_MAX, true);
    if (settings.max_machines == 0)
        settings.max_machines = MACHINES_DEFAULT;
    settings.chaos = (int)from_environment("WEFT_CHAOS", 1, 100, true);
    read_without(&settings);
    return settings;
}
