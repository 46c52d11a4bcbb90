/*
 * cpus.c: how many CPUs: the quota of control groups, read from a made-up file system, and
 * affinity.
 */
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <sys/stat.h>
#include <weft/weft.h>

#include "os/failure.h"
#include "os/os.h"
#include "sched/core/processor.h"
#include "sched/runtime/cpus.h"
#include "test.h"

static char root[] = "/tmp/weft-cpus-XXXXXX";

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

/* An empty folder in place of "/". */
static void begin(void)
{
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    CHECK_EQ(mkdir(root, 0700), 0);
}

/* Writes <root><path>, and makes the folders on the way. */
static void put(const char *path, const char *text)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root); (slash = strchr(slash + 1, '/')) != NULL;
         *slash = '/') {
        *slash = '\0';
        CHECK(mkdir(full, 0700) == 0 || errno == EEXIST);
    }
    FILE *file = fopen(full, "w");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK_EQ(fclose(file), 0);
}

static int quota(void)
{
    return weft__cpus_quota(root);
}

#define MOUNT_OTHERS                                 \
    "22 27 0:20 / /sys rw,nosuid - sysfs sysfs rw\n" \
    "23 27 0:21 / /proc rw,nosuid - proc proc rw\n"
#define MOUNT_V2                                                                     \
    MOUNT_OTHERS "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 " \
                 "rw,nsdelegate\n"
#define MOUNT_V1                                                        \
    MOUNT_OTHERS                                                        \
    "31 30 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" \
    "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

static void no_groups(void)
{
    begin();
    CHECK_EQ(quota(), INT_MAX);
    CHECK_EQ(weft__cpus_quota("/there/is/no/such/folder"), INT_MAX);
    put("/proc/self/mountinfo", MOUNT_V2);
    CHECK_EQ(quota(), INT_MAX);
    begin();
    put("/proc/self/cgroup", "0::/\n");
    CHECK_EQ(quota(), INT_MAX);
    put("/proc/self/mountinfo", MOUNT_OTHERS);
    CHECK_EQ(quota(), INT_MAX);
}

static void version_2(void)
{
    static const struct {
        const char *text;
        int cpus;
    } known[] = {{"max 100000\n", INT_MAX}, {"100000 100000\n", 1}, {"100001 100000\n", 2},
                 {"250000 100000\n", 3},    {"1000 100000\n", 1},   {"400000 100000", 4},
                 {"20000 10000\n", 2}};
    begin();
    put("/proc/self/cgroup", "0::/user.slice/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    CHECK_EQ(quota(), INT_MAX); /* the root group has no cpu.max */
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        put("/sys/fs/cgroup/user.slice/job/cpu.max", known[i].text);
        CHECK_EQ(quota(), known[i].cpus);
    }
}

static void the_tightest_group_counts(void)
{
    begin();
    put("/proc/self/cgroup", "0::/a/b/c\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
    CHECK_EQ(quota(), 8);
    put("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
    CHECK_EQ(quota(), 3);
    put("/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n");
    CHECK_EQ(quota(), 2);
    put("/sys/fs/cgroup/a/b/c/cpu.max", "100000 100000\n");
    CHECK_EQ(quota(), 1);
    put("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    CHECK_EQ(quota(), 2);
    /* What is beside the way up does not count, nor what is above the mount. */
    put("/sys/fs/cgroup/a/other/cpu.max", "100000 100000\n");
    put("/sys/fs/cpu.max", "100000 100000\n");
    CHECK_EQ(quota(), 2);
    /* The mount itself does: in a container it is the container's group. */
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    CHECK_EQ(quota(), 1);
}

static void container_shows_its_own_group_as_root(void)
{
    begin();
    /* With a group namespace: the group is "/". */
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    CHECK_EQ(quota(), 2);

    /* Without one: the mount begins at the container's group. */
    static const char mount[] =
        MOUNT_OTHERS "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    put("/proc/self/mountinfo", mount);
    put("/proc/self/cgroup", "0::/docker/abc\n");
    CHECK_EQ(quota(), 2);
    put("/proc/self/cgroup", "0::/docker/abc/inner\n");
    put("/sys/fs/cgroup/inner/cpu.max", "100000 100000\n");
    CHECK_EQ(quota(), 1);
    /* A group that the mount does not show: what it shows is the best there is to know. */
    put("/proc/self/cgroup", "0::/elsewhere\n");
    CHECK_EQ(quota(), 2);
}

static void a_longer_name_is_another_group(void)
{
    begin();
    put("/proc/self/mountinfo",
        MOUNT_OTHERS "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    put("/proc/self/cgroup", "0::/docker/abcdef\n"); /* not below /docker/abc */
    CHECK_EQ(quota(), 2);
}

static void version_1(void)
{
    begin();
    put("/proc/self/cgroup", "12:cpuset:/\n11:cpu,cpuacct:/job\n1:name=systemd:/job\n");
    put("/proc/self/mountinfo", MOUNT_V1);
    CHECK_EQ(quota(), INT_MAX);
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
    CHECK_EQ(quota(), INT_MAX); /* of what period? */
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(quota(), 3);
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    CHECK_EQ(quota(), INT_MAX);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n");
    CHECK_EQ(quota(), 2);
    /* A mount that says nothing of what it is for, or names others that end and begin so. */
    put("/proc/self/mountinfo", "30 22 0:26 / /other rw - cgroup none\n"
                                "31 22 0:27 / /other rw - cgroup none rw,xcpu,cpux\n" MOUNT_V1);
    CHECK_EQ(quota(), 2);
    /* cpuset and cpuacct alone are other controllers. */
    put("/proc/self/cgroup", "12:cpuset:/\n11:cpuacct:/job\n");
    CHECK_EQ(quota(), INT_MAX);
    put("/proc/self/cgroup", "4:cpuacct,cpu:/job\n");
    CHECK_EQ(quota(), 2);
}

static void both_versions(void)
{
    begin();
    put("/proc/self/cgroup", "3:cpu:/one\n0::/two\n");
    put("/proc/self/mountinfo",
        MOUNT_OTHERS "32 30 0:28 / /cg1 rw - cgroup cgroup rw,cpu\n"
                     "33 30 0:29 / /cg2 rw master:1 propagate_from:2 - cgroup2 none rw\n");
    put("/cg1/one/cpu.cfs_quota_us", "300000\n");
    put("/cg1/one/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(quota(), 3);
    put("/cg2/two/cpu.max", "200000 100000\n");
    CHECK_EQ(quota(), 2);
}

static void broken_files(void)
{
    static const char *const broken[] = {"",           "\n",          "nonsense\n", "100000\n",
                                         "100000 0\n", "100000 -5\n", "0 100000\n", "-1 100000",
                                         "100000 x",   " ",           "max",        "max max",
                                         "- -"};
    begin();
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        put("/sys/fs/cgroup/job/cpu.max", broken[i]);
        CHECK_EQ(quota(), INT_MAX);
    }
    put("/sys/fs/cgroup/job/cpu.max", "99999999999999 1\n");
    CHECK_EQ(quota(), INT_MAX);

    static const char *const groups[] = {"", "\n", ":", "::", "0:", "0:\n:", "nothing\n", "0::"};
    put("/sys/fs/cgroup/job/cpu.max", "100000 100000\n");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        put("/proc/self/cgroup", groups[i]);
        CHECK_EQ(quota(), INT_MAX);
    }
    put("/proc/self/cgroup", "0::/job\n");
    static const char *const mounts[] = {"",
                                         "\n",
                                         " - ",
                                         " - cgroup2",
                                         "1 2 3 - cgroup2 x rw\n",
                                         "- cgroup2 cgroup2 rw\n",
                                         "1 2 3 / - cgroup2 x rw"};
    for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
        put("/proc/self/mountinfo", mounts[i]);
        CHECK_EQ(quota(), INT_MAX);
    }
    put("/proc/self/mountinfo", "1 2 3 - cgroup2 x rw\n" MOUNT_V2); /* the next line is fine */
    CHECK_EQ(quota(), 1);
}

static void huge_numbers(void)
{
    begin();
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/job/cpu.max", "9223372036854775807 9223372036854775807\n");
    CHECK_EQ(quota(), 1);
    put("/sys/fs/cgroup/job/cpu.max", "9223372036854775807 100000\n");
    CHECK_EQ(quota(), INT_MAX);
    put("/sys/fs/cgroup/job/cpu.max", "99999999999999999999999999 1\n");
    CHECK_EQ(quota(), INT_MAX);
    put("/sys/fs/cgroup/job/cpu.max", "9223372036854775808 9223372036854775807\n"); /* one more */
    CHECK_EQ(quota(), 1);
}

static void very_long_paths(void)
{
    static char text[8192];
    begin();
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    size_t length = (size_t)snprintf(text, sizeof text, "0::");
    while (length < 6000)
        length += (size_t)snprintf(text + length, sizeof text - length, "/folder");
    put("/proc/self/cgroup", text);
    CHECK_EQ(quota(), INT_MAX); /* longer than any path: nothing is known, and nothing breaks */
    text[length] = '\0';
    CHECK_EQ(weft__cpus_quota(text), INT_MAX);
    /* The root of a mount, and where it is mounted: the next line is fine. */
    put("/proc/self/cgroup", "0::/\n");
    for (int place = 0; place < 2; place++) {
        static char mounts[sizeof text + 256];
        snprintf(mounts, sizeof mounts, "30 22 0:26 %s %s rw - cgroup2 cgroup2 rw\n" MOUNT_V2,
                 place == 0 ? text + 3 : "/", place == 1 ? text + 3 : "/sys/fs/cgroup");
        put("/proc/self/mountinfo", mounts);
        CHECK_EQ(quota(), 1);
    }
}

/* The least of what affinity and quota allow. */
static void a_quota_below_affinity(void)
{
    begin();
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    int cpus = weft__os_affinity_count();
    CHECK_EQ(weft__cpus(root), 1);
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    CHECK_EQ(weft__cpus(root), cpus < WEFT_PROCS_MAX ? cpus : WEFT_PROCS_MAX);
}

/* A mount whose folder has no slash in its name: it is all there is. */
static void a_mount_without_a_slash(void)
{
    begin();
    put("/proc/self/cgroup", "0::\n");
    put("/proc/self/mountinfo", "30 22 0:26 / cg rw - cgroup2 cgroup2 rw\n");
    CHECK_EQ(quota(), INT_MAX);
}

static void no_memory(void)
{
    begin();
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/job/cpu.max", "100000 100000\n");
    CHECK_EQ(quota(), 1);
    CHECK_EQ(weft__cpus_now(root), 1);
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(quota(), INT_MAX);
    CHECK_EQ(weft__cpus_now(root), -EAGAIN);
    weft__os_fail(OS_ALLOC, 0, false);
    for (enum weft__os_call call = OS_ALLOC; call <= OS_FILE; call += OS_FILE - OS_ALLOC)
        for (uint32_t nth = 1; nth <= 4; nth++) { /* what is read for a group of version 2 */
            weft__os_fail(call, nth, false);
            CHECK_EQ(weft__cpus_now(root), -EAGAIN);
        }
    weft__os_fail(OS_ALLOC, 0, false);
    weft__os_fail(OS_FILE, 0, false);
    CHECK_EQ(weft__cpus_now(root), 1);
    CHECK_EQ(quota(), 1);
}

static atomic_u32 over;

static void yields_until_over(void *arg)
{
    (void)arg;
    while (!atomic_u32_load_acquire(&over))
        weft_yield();
}

static void await_processors(int count)
{
    while (weft_processors() != count || processors_in_use() != (uint32_t)count)
        sched_yield();
}

/* The quota changes while the runtime runs: see processor.c for more. */
static void a_quota_that_changes(void)
{
    enum { CPUS = 4, FIBERS = 20 };
    weft_fiber *fibers[FIBERS];
    begin();
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/job/cpu.max", "200000 100000\n");
    CHECK_EQ(unsetenv("WEFT_PROCS"), 0);
    weft__cpus_root = root;
    weft__processors_every = WEFT_MS;
    atomic_u32_store_relaxed(&weft__cpus_given, CPUS);
    CHECK_EQ(weft_processors(), 2);
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_spawn(&fibers[i], yields_until_over, NULL, NULL), 0);
    await_processors(2);
    put("/sys/fs/cgroup/job/cpu.max", "100000 100000\n");
    await_processors(1);
    put("/sys/fs/cgroup/job/cpu.max", "max 100000\n");
    await_processors(CPUS);
    put("/sys/fs/cgroup/cpu.max", "250000 100000\n");
    await_processors(3);
    atomic_u32_store_release(&over, 1);
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    atomic_u32_store_relaxed(&weft__cpus_given, 0);
    weft__cpus_root = "";
}

/* The real file system, in a child that may use one CPU only. */
static void one_cpu_by_affinity(void)
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        cpu_set_t allowed, one;
        CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
        CPU_ZERO(&one);
        for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
            if (CPU_ISSET(cpu, &allowed))
                CPU_SET(cpu, &one);
        CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
        unsetenv("WEFT_PROCS");
        CHECK_EQ(weft__cpus(""), 1);
        CHECK_EQ(weft_processors(), 1);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void real_count_makes_sense(void)
{
    cpu_set_t allowed;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    CHECK(weft__cpus("") >= 1);
    CHECK(weft__cpus("") <= CPU_COUNT(&allowed));
    CHECK_EQ(weft__os_affinity_count(), CPU_COUNT(&allowed));
}

int main(void)
{
    CHECK(mkdtemp(root) != NULL);
    RUN_PLAIN(no_groups, "nothing here is a fiber");
    RUN_PLAIN(version_2, "nothing here is a fiber");
    RUN_PLAIN(the_tightest_group_counts, "nothing here is a fiber");
    RUN_PLAIN(container_shows_its_own_group_as_root, "nothing here is a fiber");
    RUN_PLAIN(version_1, "nothing here is a fiber");
    RUN_PLAIN(both_versions, "nothing here is a fiber");
    RUN_PLAIN(broken_files, "nothing here is a fiber");
    RUN_PLAIN(very_long_paths, "nothing here is a fiber");
    RUN_PLAIN(no_memory, "nothing here is a fiber");
    RUN_PLAIN(one_cpu_by_affinity, "nothing here is a fiber");
    RUN_PLAIN(a_quota_that_changes, "there is one processor");
    RUN_PLAIN(real_count_makes_sense, "nothing here is a fiber");
    RUN_PLAIN(a_longer_name_is_another_group, "nothing here is a fiber");
    RUN_PLAIN(huge_numbers, "nothing here is a fiber");
    RUN_PLAIN(a_quota_below_affinity, "nothing here is a fiber");
    RUN_PLAIN(a_mount_without_a_slash, "nothing here is a fiber");
    CHECK_EQ(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    return 0;
}
