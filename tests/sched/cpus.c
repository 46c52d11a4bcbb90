/*
 * cpus.c: how many CPUs the process may use: the quota of control groups, read from a file system
 * that the test makes, and affinity.
 */
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>

#include "bodies.h"
#include "everywhere.h"
#include "fibers.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/core/processor.h"
#include "sched/runtime/cpus.h"

static char root[] = "/tmp/weft-cpus-XXXXXX";

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    return remove(path);
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

/* An empty folder in place of "/", with the process's control group and the mounts. */
static void begin(const char *group, const char *mounts)
{
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    CHECK_EQ(mkdir(root, 0700), 0);
    if (group != NULL)
        put("/proc/self/cgroup", group);
    if (mounts != NULL)
        put("/proc/self/mountinfo", mounts);
}

static int quota(void)
{
    return weft__cpus_quota(root);
}

static void check_quota(const char *path, const char *text, int cpus)
{
    put(path, text);
    CHECK_EQ(quota(), cpus);
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
    begin(NULL, NULL);
    CHECK_EQ(quota(), INT_MAX);
    CHECK_EQ(weft__cpus_quota("/there/is/no/such/folder"), INT_MAX);
    check_quota("/proc/self/mountinfo", MOUNT_V2, INT_MAX);
    begin(NULL, NULL);
    check_quota("/proc/self/cgroup", "0::/\n", INT_MAX);
    check_quota("/proc/self/mountinfo", MOUNT_OTHERS, INT_MAX);
}

static void version_2(void)
{
    static const struct {
        const char *text;
        int cpus;
    } known[] = {{"max 100000\n", INT_MAX}, {"100000 100000\n", 1}, {"100001 100000\n", 2},
                 {"250000 100000\n", 3},    {"1000 100000\n", 1},   {"400000 100000", 4},
                 {"20000 10000\n", 2}};
    begin(NULL, NULL);
    put("/proc/self/cgroup", "0::/user.slice/job\n");
    check_quota("/proc/self/mountinfo", MOUNT_V2, INT_MAX); /* the root group has no cpu.max */
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        check_quota("/sys/fs/cgroup/user.slice/job/cpu.max", known[i].text, known[i].cpus);
}

static void the_smallest_quota_on_the_way_up_counts(void)
{
    begin("0::/a/b/c\n", MOUNT_V2);
    check_quota("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n", 8);
    check_quota("/sys/fs/cgroup/a/cpu.max", "300000 100000\n", 3);
    check_quota("/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n", 2);
    check_quota("/sys/fs/cgroup/a/b/c/cpu.max", "100000 100000\n", 1);
    check_quota("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n", 2);
    /* A group beside the way up does not count, nor does a file above the mount. */
    put("/sys/fs/cgroup/a/other/cpu.max", "100000 100000\n");
    check_quota("/sys/fs/cpu.max", "100000 100000\n", 2);
    /* The mount itself does: in a container it is the container's group. */
    check_quota("/sys/fs/cgroup/cpu.max", "100000 100000\n", 1);
}

static void container_shows_its_own_group_as_root(void)
{
    begin(NULL, NULL);
    /* With a group namespace: the group is "/". */
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    check_quota("/sys/fs/cgroup/cpu.max", "150000 100000\n", 2);

    /* Without one: the mount begins at the container's group. */
    static const char mount[] =
        MOUNT_OTHERS "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    put("/proc/self/mountinfo", mount);
    check_quota("/proc/self/cgroup", "0::/docker/abc\n", 2);
    put("/proc/self/cgroup", "0::/docker/abc/inner\n");
    check_quota("/sys/fs/cgroup/inner/cpu.max", "100000 100000\n", 1);
    /* The mount does not show the group: its root is used instead. */
    check_quota("/proc/self/cgroup", "0::/elsewhere\n", 2);
    check_quota("/proc/self/cgroup", "0::/docker/abcdef\n", 2); /* not below /docker/abc */
}

static void version_1(void)
{
    begin(NULL, NULL);
    put("/proc/self/cgroup", "12:cpuset:/\n11:cpu,cpuacct:/job\n1:name=systemd:/job\n");
    check_quota("/proc/self/mountinfo", MOUNT_V1, INT_MAX);
    /* The period is missing. */
    check_quota("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n", INT_MAX);
    check_quota("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n", 3);
    check_quota("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n", INT_MAX);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
    check_quota("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n", 2);
    /* Mounts without controllers, or with names that end or begin with "cpu". */
    check_quota("/proc/self/mountinfo",
                "30 22 0:26 / /other rw - cgroup none\n"
                "31 22 0:27 / /other rw - cgroup none rw,xcpu,cpux\n" MOUNT_V1,
                2);
    /* cpuset and cpuacct alone are other controllers. */
    check_quota("/proc/self/cgroup", "12:cpuset:/\n11:cpuacct:/job\n", INT_MAX);
    check_quota("/proc/self/cgroup", "4:cpuacct,cpu:/job\n", 2);
}

static void both_versions(void)
{
    begin(NULL, NULL);
    put("/proc/self/cgroup", "3:cpu:/one\n0::/two\n");
    put("/proc/self/mountinfo",
        MOUNT_OTHERS "32 30 0:28 / /cg1 rw - cgroup cgroup rw,cpu\n"
                     "33 30 0:29 / /cg2 rw master:1 propagate_from:2 - cgroup2 none rw\n");
    put("/cg1/one/cpu.cfs_quota_us", "300000\n");
    check_quota("/cg1/one/cpu.cfs_period_us", "100000\n", 3);
    check_quota("/cg2/two/cpu.max", "200000 100000\n", 2);
}

static void broken_files(void)
{
    static const char *const broken[] = {"",           "\n",          "nonsense\n", "100000\n",
                                         "100000 0\n", "100000 -5\n", "0 100000\n", "-1 100000",
                                         "100000 x",   " ",           "max",        "max max",
                                         "- -"};
    begin("0::/job\n", MOUNT_V2);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        check_quota("/sys/fs/cgroup/job/cpu.max", broken[i], INT_MAX);
    check_quota("/sys/fs/cgroup/job/cpu.max", "99999999999999 1\n", INT_MAX);

    static const char *const groups[] = {"", "\n", ":", "::", "0:", "0:\n:", "nothing\n", "0::"};
    put("/sys/fs/cgroup/job/cpu.max", "100000 100000\n");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        check_quota("/proc/self/cgroup", groups[i], INT_MAX);
    put("/proc/self/cgroup", "0::/job\n");
    static const char *const mounts[] = {"",
                                         "\n",
                                         " - ",
                                         " - cgroup2",
                                         "1 2 3 - cgroup2 x rw\n",
                                         "- cgroup2 cgroup2 rw\n",
                                         "1 2 3 / - cgroup2 x rw"};
    for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++)
        check_quota("/proc/self/mountinfo", mounts[i], INT_MAX);
    check_quota("/proc/self/mountinfo", "1 2 3 - cgroup2 x rw\n" MOUNT_V2,
                1); /* the next line is fine */
}

static void huge_numbers(void)
{
    begin("0::/job\n", MOUNT_V2);
    check_quota("/sys/fs/cgroup/job/cpu.max", "9223372036854775807 9223372036854775807\n", 1);
    check_quota("/sys/fs/cgroup/job/cpu.max", "9223372036854775807 100000\n", INT_MAX);
    check_quota("/sys/fs/cgroup/job/cpu.max", "99999999999999999999999999 1\n", INT_MAX);
    check_quota("/sys/fs/cgroup/job/cpu.max", "9223372036854775808 9223372036854775807\n",
                1); /* over INT64_MAX */
}

static void very_long_paths(void)
{
    static char text[8192];
    begin(NULL, MOUNT_V2);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    size_t length = (size_t)snprintf(text, sizeof text, "0::");
    while (length < 6000)
        length += (size_t)snprintf(text + length, sizeof text - length, "/folder");
    check_quota("/proc/self/cgroup", text, INT_MAX); /* longer than any path: no quota is known */
    text[length] = '\0';
    CHECK_EQ(weft__cpus_quota(text), INT_MAX);
    /* The root of a mount, and where it is mounted: the next line is fine. */
    put("/proc/self/cgroup", "0::/\n");
    for (int place = 0; place < 2; place++) {
        static char mounts[sizeof text + 256];
        snprintf(mounts, sizeof mounts, "30 22 0:26 %s %s rw - cgroup2 cgroup2 rw\n" MOUNT_V2,
                 place == 0 ? text + 3 : "/", place == 1 ? text + 3 : "/sys/fs/cgroup");
        check_quota("/proc/self/mountinfo", mounts, 1);
    }
}

/* The smaller one of affinity and quota. */
static void a_quota_below_affinity(void)
{
    begin("0::/\n", MOUNT_V2);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    int cpus = weft__os_affinity_count();
    CHECK_EQ(weft__cpus(root), 1);
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    CHECK_EQ(weft__cpus(root), cpus < WEFT_PROCS_MAX ? cpus : WEFT_PROCS_MAX);
}

/* A mount point whose path has no slash: the walk up ends there. */
static void a_mount_without_a_slash(void)
{
    begin(NULL, NULL);
    put("/proc/self/cgroup", "0::\n");
    check_quota("/proc/self/mountinfo", "30 22 0:26 / cg rw - cgroup2 cgroup2 rw\n", INT_MAX);
}

static void no_memory(void)
{
    begin("0::/job\n", MOUNT_V2);
    check_quota("/sys/fs/cgroup/job/cpu.max", "100000 100000\n", 1);
    CHECK_EQ(weft__cpus_now(root), 1);
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(quota(), INT_MAX);
    CHECK_EQ(weft__cpus_now(root), -EAGAIN);
    weft__os_fail(OS_ALLOC, 0, false);
    for (enum weft__os_call call = OS_ALLOC; call <= OS_FILE; call += OS_FILE - OS_ALLOC)
        for (uint32_t nth = 1; nth <= 4; nth++) { /* the reads for a group of version 2 */
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
    yield_until(&over, 1);
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
    begin("0::/job\n", MOUNT_V2);
    put("/sys/fs/cgroup/job/cpu.max", "200000 100000\n");
    CHECK_EQ(unsetenv("WEFT_PROCS"), 0);
    weft__cpus_root = root;
    weft__processors_every = WEFT_MS;
    atomic_u32_store_relaxed(&weft__cpus_given, CPUS);
    CHECK_EQ(weft_processors(), 2);
    spawn_all(fibers, FIBERS, yields_until_over, NULL);
    await_processors(2);
    put("/sys/fs/cgroup/job/cpu.max", "100000 100000\n");
    await_processors(1);
    put("/sys/fs/cgroup/job/cpu.max", "max 100000\n");
    await_processors(CPUS);
    put("/sys/fs/cgroup/cpu.max", "250000 100000\n");
    await_processors(3);
    atomic_u32_store_release(&over, 1);
    join_all(fibers, FIBERS);
    shut_down();
    atomic_u32_store_relaxed(&weft__cpus_given, 0);
    weft__cpus_root = "";
}

/* The real file system, in a child that may use one CPU only. */
static void use_one_cpu(void)
{
    stay_on_one_cpu();
    unsetenv("WEFT_PROCS");
    CHECK_EQ(weft__cpus(""), 1);
    CHECK_EQ(weft_processors(), 1);
}

static void one_cpu_by_affinity(void)
{
    in_fork(use_one_cpu);
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
    RUN_ALL_PLAIN("no fibers", no_groups, version_2, the_smallest_quota_on_the_way_up_counts,
                  container_shows_its_own_group_as_root, version_1, both_versions, broken_files,
                  very_long_paths, no_memory, one_cpu_by_affinity);
    RUN_PLAIN(a_quota_that_changes, "there is one processor");
    RUN_ALL_PLAIN("no fibers", real_count_makes_sense, huge_numbers, a_quota_below_affinity,
                  a_mount_without_a_slash);
    CHECK_EQ(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    return 0;
}
