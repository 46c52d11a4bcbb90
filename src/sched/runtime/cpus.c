/*
 * cpus.c: how many CPUs this process may use: its affinity, limited by the CPU quota of its cgroup.
 *
 * The quota is the tightest on the path from the process's own group up to the root of the
 * hierarchy as it is mounted here, in version 2 (cpu.max) or version 1 (cpu.cfs_quota_us over
 * cpu.cfs_period_us). A quota of 2.5 CPUs gives 3 processors: the fraction is used, and the kernel
 * throttles the rest.
 *
 * /proc/self/cgroup names the group. /proc/self/mountinfo says where its hierarchy is mounted and
 * which part of it: inside a container the mount may show only the group itself.
 */
#include "sched/runtime/cpus.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <weft/runtime.h>

#include "os/os.h"

enum { TEXT_SIZE = 64 * 1024, PATH_SIZE = 4096 };

/* Where to read. A file that is not there means "no limit"; one that cannot be read for lack of
 * memory or descriptors means nothing, and sets `lacking`. */
struct source {
    const char *root;
    bool lacking;
};

/* Reads <root><path>. Returns its text, to be freed, or NULL. */
static char *read_text(struct source *source, const char *path)
{
    char full[PATH_SIZE];
    if (snprintf(full, sizeof full, "%s%s", source->root, path) >= (int)sizeof full)
        return NULL;
    char *text = weft__os_alloc(TEXT_SIZE);
    if (text == NULL) {
        source->lacking = true;
        return NULL;
    }
    int64_t error = weft__os_read_file(full, text, TEXT_SIZE);
    if (error < 0) {
        source->lacking |= error == -EMFILE || error == -ENFILE || error == -ENOMEM;
        weft__os_free(text);
        return NULL;
    }
    return text;
}

/* True if `word` is one of the comma-separated words of `list`. */
static bool in_list(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

/* Finds the group of the process in lines of "id:controllers:path"; version 2 has no
 * controllers. */
static bool find_group(char *text, bool version2, char *group)
{
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        (void)strsep(&line, ":");
        char *controllers = strsep(&line, ":");
        if (controllers == NULL || line == NULL)
            continue;
        if (version2 ? *controllers == '\0' : in_list(controllers, "cpu"))
            return snprintf(group, PATH_SIZE, "%s", line) < PATH_SIZE;
    }
    return false;
}

/* Finds the mount of the hierarchy in lines of
 * "id parent major:minor root point options [tags] - type source super-options". */
static bool find_mount(char *text, bool version2, char *mount_root, char *mount_point)
{
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *tail = strstr(line, " - ");
        if (tail == NULL)
            continue;
        *tail = '\0';
        tail += 3;
        char *type = strsep(&tail, " ");
        (void)strsep(&tail, " ");
        if (strcmp(type, version2 ? "cgroup2" : "cgroup") != 0 ||
            (!version2 && (tail == NULL || !in_list(tail, "cpu"))))
            continue;
        for (int i = 0; i < 3; i++)
            (void)strsep(&line, " ");
        char *root = strsep(&line, " ");
        char *point = strsep(&line, " ");
        if (point != NULL && snprintf(mount_root, PATH_SIZE, "%s", root) < PATH_SIZE &&
            snprintf(mount_point, PATH_SIZE, "%s", point) < PATH_SIZE)
            return true;
    }
    return false;
}

/* Returns the whole number at *at, at most INT64_MAX, or -1 if there is none. Moves *at behind it
 * and the spaces that follow. */
static int64_t read_number(const char **at)
{
    int64_t value = 0;
    const char *start = *at;
    for (; **at >= '0' && **at <= '9'; (*at)++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, **at - '0', &value))
            value = INT64_MAX;
    if (*at == start)
        value = -1;
    while (**at == ' ')
        (*at)++;
    return value;
}

/* Returns the number that a file begins with; -1 if there is none. */
static int64_t read_number_file(struct source *source, const char *folder, const char *name)
{
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = read_text(source, path);
    const char *at = text;
    int64_t value = text != NULL ? read_number(&at) : -1;
    weft__os_free(text);
    return value;
}

/* Returns the quota of one group in CPUs, rounded up; INT_MAX if it has none. */
static int group_quota(struct source *source, const char *folder, bool version2)
{
    int64_t quota, period;
    if (version2) {
        char path[PATH_SIZE + 32];
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        char *text = read_text(source, path);
        if (text == NULL)
            return INT_MAX;
        const char *at = text;
        quota = read_number(&at); /* "max": none */
        period = read_number(&at);
        weft__os_free(text);
    } else {
        quota = read_number_file(source, folder, "cpu.cfs_quota_us"); /* "-1": none */
        period = read_number_file(source, folder, "cpu.cfs_period_us");
    }
    if (quota <= 0 || period <= 0)
        return INT_MAX;
    int64_t cpus = quota / period + (quota % period != 0);
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
}

/* Finds the folder of the process's group in the hierarchy of one version. `top` is the length of
 * its prefix that is the mount point. */
static bool find_folder(struct source *source, bool version2, char *folder, size_t *top)
{
    char *work = weft__os_alloc((size_t)PATH_SIZE * 3);
    char *groups = read_text(source, "/proc/self/cgroup");
    char *mounts = read_text(source, "/proc/self/mountinfo");
    bool found = false;
    source->lacking |= work == NULL;
    if (work != NULL && groups != NULL && mounts != NULL) {
        char *group = work, *mount_root = work + PATH_SIZE, *point = work + (size_t)PATH_SIZE * 2;
        if (find_group(groups, version2, group) &&
            find_mount(mounts, version2, mount_root, point)) {
            /* The mount shows the part of the hierarchy below mount_root. */
            size_t skip = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
            bool below = strncmp(group, mount_root, skip) == 0 &&
                         (group[skip] == '/' || group[skip] == '\0');
            const char *inside = below ? group + skip : "";
            *top = strlen(point);
            found = snprintf(folder, PATH_SIZE, "%s%s", point, inside) < PATH_SIZE;
        }
    }
    weft__os_free(work);
    weft__os_free(groups);
    weft__os_free(mounts);
    return found;
}

static int find_quota(struct source *source)
{
    char folder[PATH_SIZE];
    int least = INT_MAX;
    for (int version = 1; version <= 2; version++) {
        size_t top;
        if (!find_folder(source, version == 2, folder, &top))
            continue;
        for (;;) {
            int quota = group_quota(source, folder, version == 2);
            if (quota < least)
                least = quota;
            char *slash = strrchr(folder, '/');
            if (slash == NULL || (size_t)(slash - folder) < top)
                break;
            *slash = '\0';
        }
    }
    return least;
}

int weft__cpus_quota(const char *root)
{
    return find_quota(&(struct source){.root = root});
}

const char *weft__cpus_root = "";
atomic_u32 weft__cpus_given;

int weft__cpus_online(void)
{
    int given = (int)atomic_u32_load_relaxed(&weft__cpus_given);
    return given != 0 ? given : weft__os_cpu_count();
}

static int count_cpus(struct source *source)
{
    int given = (int)atomic_u32_load_relaxed(&weft__cpus_given);
    int cpus = given != 0 ? given : weft__os_affinity_count();
    int quota = find_quota(source);
    source->lacking |= cpus < 0;
    if (cpus < 1)
        cpus = 1;
    if (quota < cpus)
        cpus = quota;
    return cpus < WEFT_PROCS_MAX ? cpus : WEFT_PROCS_MAX;
}

int weft__cpus(const char *root)
{
    return count_cpus(&(struct source){.root = root});
}

int weft__cpus_now(const char *root)
{
    struct source source = {.root = root};
    int cpus = count_cpus(&source);
    return source.lacking ? -EAGAIN : cpus;
}
