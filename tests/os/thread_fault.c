/*
 * thread_fault.c: memory, threads, the clock and polling where the kernel refuses, or a signal
 * arrives: interrupted calls begin again, errors are passed on, errno is kept.
 */
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

#include "base/compiler.h"
#include "kernel.h"
#include "os/failure.h"
#include "os/os.h"

FAKE(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
FAKE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
FAKE(int, epoll_create1, (int flags), (flags))
FAKE(int, epoll_wait, (int epoll, struct epoll_event *events, int most, int timeout),
     (epoll, events, most, timeout))
FAKE(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
FAKE(int, eventfd, (unsigned count, int flags), (count, flags))
FAKE(int, timerfd_create, (clockid_t clock, int flags), (clock, flags))
FAKE(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *set), (pid, size, set))
FAKE(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset))
FAKE_RETURNS(int, clock_nanosleep,
             (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
             (clock, flags, time, left))
FAKE_RETURNS(int, pthread_getcpuclockid, (pthread_t thread, clockid_t *clock), (thread, clock))

/* The answer to a planned call of membarrier. */
static struct fake fake_syscall;
static long syscall_answer;

static long answer_syscall(long number, const long *a)
{
    if (number == SYS_membarrier && fake_due(&fake_syscall)) {
        errno = fake_syscall.error;
        return syscall_answer;
    }
    return fake_real_syscall(number, a);
}

FAKE_SYSCALL(answer_syscall)

/* A /proc that does not count threads as links, or none. */
static struct fake fake_stat;

int stat(const char *path, struct stat *status)
{
    if (fake_due(&fake_stat)) {
        *status = (struct stat){.st_nlink = 2};
        errno = fake_stat.error;
        return fake_stat.error == 0 ? 0 : -1;
    }
    return fstatat(AT_FDCWD, path, status, 0);
}

#if !WEFT_TSAN /* which calls these before any code of the program can run */
/* Another thread makes the key at the same time, and stores its own first. */
static void (*meanwhile)(void);
static atomic_u32 keys_deleted;

int pthread_key_create(pthread_key_t *key, void (*end)(void *))
{
    void (*first)(void) = meanwhile;
    meanwhile = NULL;
    if (first != NULL)
        first();
    return ((int (*)(pthread_key_t *, void (*)(void *)))(uintptr_t)fake_real("pthread_key_create"))(
        key, end);
}

int pthread_key_delete(pthread_key_t key)
{
    atomic_u32_add_relaxed(&keys_deleted, 1);
    return ((int (*)(pthread_key_t))(uintptr_t)fake_real("pthread_key_delete"))(key);
}
#endif

#if !WEFT_TSAN
static atomic_u32 exited_early, exited;

static void count_exit(void *arg)
{
    atomic_u32_add_relaxed(arg != NULL ? &exited : &exited_early, 1);
}

static void register_first(void)
{
    CHECK_EQ(weft__os_thread_at_exit(count_exit, NULL), 0);
}

static void *register_exit(void *arg)
{
    weft__os_thread_at_exit_cancel(); /* nothing is registered */
    meanwhile = register_first;
    CHECK_EQ(KEPT(weft__os_thread_at_exit(count_exit, arg)), 0);
    return NULL;
}

/* Two threads make the key at the same time: one key is kept, and works. */
static void one_key_for_thread_exit(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, register_exit, &exited), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&exited), 1);
    CHECK_EQ(atomic_u32_load_relaxed(&exited_early), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&keys_deleted), 1);
}
#endif

static void *nothing(void *arg)
{
    return arg;
}

/* The system has no room for its stack. */
static void a_thread_that_cannot_start(void)
{
    weft__os_thread thread = 7;
    pthread_attr_t before, large;
    CHECK_EQ(pthread_getattr_default_np(&before), 0);
    CHECK_EQ(pthread_getattr_default_np(&large), 0);
    CHECK_EQ(pthread_attr_setstacksize(&large, (size_t)1 << 47), 0);
    CHECK_EQ(pthread_setattr_default_np(&large), 0);
    CHECK_EQ(KEPT(weft__os_thread_start(&thread, nothing, NULL)), -EAGAIN);
    CHECK_EQ(thread, 7);
    CHECK_EQ(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&before);
    pthread_attr_destroy(&large);
    sigset_t mask;
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    CHECK_EQ(sigismember(&mask, SIGUSR1), 0); /* the mask of the caller is as before */
}

struct neighbour {
    pthread_t thread;
    atomic_u32 id, end;
};

static void *say_id_and_wait(void *arg)
{
    struct neighbour *neighbour = arg;
    atomic_u32_store_release(&neighbour->id, (uint32_t)gettid());
    while (!atomic_u32_load_acquire(&neighbour->end))
        usleep(100);
    return NULL;
}

static bool is_listed(uint32_t id)
{
    int ids[16]; /* two threads of the test, and those of a sanitizer or an emulator */
    for (uint32_t i = weft__os_other_threads(ids, sizeof ids / sizeof ids[0]); i-- > 0;)
        if ((uint32_t)ids[i] == id)
            return true;
    return false;
}

static void other_threads(void)
{
    struct neighbour neighbours[2] = {0};
    struct rlimit files;
    int ids[2];
    for (int i = 0; i < 2; i++) {
        struct neighbour *neighbour = &neighbours[i];
        CHECK_EQ(pthread_create(&neighbour->thread, NULL, say_id_and_wait, neighbour), 0);
        while (atomic_u32_load_acquire(&neighbour->id) == 0)
            usleep(100);
    }
    for (uint32_t room = 0; room <= 2; room++)
        CHECK_EQ(weft__os_other_threads(ids, room), room);
    CHECK(!is_listed((uint32_t)gettid()));
    for (int i = 0; i < 2; i++) {
        int id = (int)atomic_u32_load_relaxed(&neighbours[i].id);
        CHECK(is_listed((uint32_t)id) && weft__os_thread_lives(id));
        atomic_u32_store_release(&neighbours[i].end, 1);
        CHECK_EQ(pthread_join(neighbours[i].thread, NULL), 0);
        while (KEPT(weft__os_thread_lives(id))) /* it is counted for a moment more */
            usleep(100);
        CHECK(!is_listed((uint32_t)id));
    }
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max}), 0);
    CHECK_EQ(KEPT(weft__os_other_threads(ids, 2)), 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void what_is_known_of_threads(void)
{
    const void *low;
    size_t size;
    char local;
    weft__os_thread_stack(&low, &size);
    CHECK(size > 0 && (const char *)low < &local && &local < (const char *)low + size);

    int clock = weft__os_thread_clock();
    CHECK(clock != -1 && weft__os_thread_time(clock) > 0);
    KERNEL_SAYS(pthread_getcpuclockid, ENOENT, 1);
    CHECK_EQ(weft__os_thread_clock(), -1);
    CHECK_EQ(KEPT(weft__os_thread_time(-1)), -1);
    CHECK_EQ(KEPT(weft__os_thread_time(12345)), -1); /* no such clock */

    CHECK(weft__os_thread_count() > 0);
#if __GLIBC_PREREQ(2, 33) /* before that stat had another name */
    fake_plan(&fake_stat, 0, ENOENT, 1);
    CHECK_EQ(KEPT(weft__os_thread_count()), 0);
    fake_plan(&fake_stat, 0, 0, 1);
    CHECK_EQ(weft__os_thread_count(), 0);
#endif
}

static void barriers(void)
{
    syscall_answer = -1;
    fake_plan(&fake_syscall, 0, EPERM, 1);
    CHECK_EQ(KEPT(weft__os_membarrier_register()), -EPERM);
    syscall_answer = 0; /* membarrier offers no command */
    fake_plan(&fake_syscall, 0, 0, 1);
    errno = 0;
    CHECK_EQ(weft__os_membarrier_register(), -ENOSYS);
    int error = weft__os_membarrier_register();
    if (error != 0) {
        printf("no membarrier here: %d\n", error);
        return;
    }
    syscall_answer = -1;
    fake_plan(&fake_syscall, 1, EINVAL, 1);
    CHECK_EQ(KEPT(weft__os_membarrier_register()), -EINVAL);
    fake_plan(&fake_syscall, 0, ENOMEM, 3); /* the kernel lacks memory three times */
    errno = EDOM;
    weft__os_membarrier();
    CHECK_EQ(errno, EDOM);
    CHECK_EQ(atomic_u32_load_relaxed(&fake_syscall.calls), 4);
}

static void processors(void)
{
    int count = weft__os_affinity_count();
    CHECK(count > 0);
    KERNEL_SAYS(sched_getaffinity, EINVAL, 2); /* the mask is wider than the first two sets */
    CHECK_EQ(KEPT(weft__os_affinity_count()), count);
    KERNEL_SAID(sched_getaffinity);
    KERNEL_SAYS(sched_getaffinity, EINVAL, KERNEL_ALWAYS); /* wider than any set */
    CHECK_EQ(KEPT(weft__os_affinity_count()), -EINVAL);
    KERNEL_SAYS(sched_getaffinity, EPERM, 1);
    CHECK_EQ(KEPT(weft__os_affinity_count()), -EPERM);
    KERNEL_SAYS(sched_getaffinity, 0, 0);
}

static void a_sleep_that_is_interrupted(void)
{
    int64_t until = weft__os_now() + 3 * 1000 * 1000;
    KERNEL_SAYS(clock_nanosleep, EINTR, 5);
    weft__os_sleep_until(until);
    KERNEL_SAID(clock_nanosleep);
    CHECK(weft__os_now() >= until);
    weft__os_sleep_until(-1); /* has passed */
}

static void a_timer(void)
{
    int fd = weft__os_timerfd();
    CHECK(fd >= 0);
    CHECK_EQ(KEPT(weft__os_timerfd_set(fd, INT64_MAX)), 0);
    CHECK(!weft__os_fd_ready(fd));
    int64_t until = weft__os_now() + 2 * 1000 * 1000;
    CHECK_EQ(weft__os_timerfd_set(fd, until), 0);
    while (!weft__os_fd_ready(fd))
        CHECK_EQ(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1), 1);
    CHECK(weft__os_now() >= until);
    weft__os_counter_drain(fd);
    CHECK(!weft__os_fd_ready(fd));
    CHECK_EQ(weft__os_timerfd_set(fd, 0), 0); /* zero disarms a timerfd: weft makes it mean now */
    CHECK_EQ(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1), 1);
    weft__os_close(fd);
    CHECK_EQ(KEPT(weft__os_timerfd_set(fd, 0)), -EBADF);
    KERNEL_SAYS(timerfd_create, ENFILE, 1);
    CHECK_EQ(KEPT(weft__os_timerfd()), -ENFILE);
}

static void polling(void)
{
    struct weft__os_event events[4];
    KERNEL_SAYS(epoll_create1, ENFILE, 1);
    CHECK_EQ(KEPT(weft__os_poll_open()), -ENFILE);
    KERNEL_SAYS(eventfd, ENFILE, 1);
    CHECK_EQ(KEPT(weft__os_eventfd()), -ENFILE);

    int epoll = weft__os_poll_open(), event = weft__os_eventfd();
    CHECK_EQ(weft__os_poll_add(epoll, event, OS_READABLE, 7), 0);
    CHECK_EQ(KEPT(weft__os_poll_add(epoll, event, OS_READABLE, 7)), -EEXIST);
    CHECK_EQ(KEPT(weft__os_poll_wait(epoll, events, 4, false)), 0);

    KERNEL_SAYS(write, EINTR, 2);
    weft__os_eventfd_signal(event);
    KERNEL_SAID(write);
    CHECK_EQ(weft__os_poll_wait(epoll, events, 4, true), 1);
    CHECK(events[0].tag == 7 && events[0].events == OS_READABLE);
    KERNEL_SAYS(write, EAGAIN, 1); /* the counter is full: it wakes all the same */
    weft__os_eventfd_signal(event);
    KERNEL_SAYS(epoll_wait, EINTR, 1); /* no event: the caller waits again */
    CHECK_EQ(KEPT(weft__os_poll_wait(epoll, events, 4, true)), 0);
    KERNEL_SAYS(epoll_wait, EBADF, 1);
    CHECK_EQ(KEPT(weft__os_poll_wait(epoll, events, 4, true)), -EBADF);

    KERNEL_SAYS(poll, EINTR, 2);
    CHECK_EQ(KEPT(weft__os_fd_events(event, OS_READABLE)), OS_READABLE);
    KERNEL_SAID(poll);
    KERNEL_SAYS(poll, ENOMEM, 1);
    CHECK_EQ(KEPT(weft__os_fd_events(event, OS_READABLE)), -ENOMEM);

    KERNEL_SAYS(read, EINTR, 2);
    weft__os_counter_drain(event);
    KERNEL_SAID(read);
    CHECK(!weft__os_fd_ready(event));
    weft__os_counter_drain(event); /* an empty counter is no wait */
    weft__os_close(event);
    weft__os_close(epoll);
}

static void mappings(void)
{
    size_t page = weft__os_page_size();
    KERNEL_SAYS(mmap, ENOMEM, 1);
    CHECK_PTR(weft__os_map(page), NULL);
    char *memory = weft__os_map(2 * page);
    CHECK(memory != NULL);
    /* An address that is no multiple of the page size. */
    CHECK_EQ(KEPT(weft__os_guard_install(memory + 1, page)), -EINVAL);
    CHECK_EQ(KEPT(weft__os_guard_mprotect(memory + 1, page)), -EINVAL);
    CHECK_EQ(KEPT(weft__os_decommit(memory + 1, page)), -EINVAL);
    memset(memory, 0, 8);
    CHECK(weft__os_readable(memory));
    memset(memory, 0xff, 8); /* an eventfd refuses this value after it has read it */
    CHECK(weft__os_readable(memory));
    CHECK_EQ(weft__os_guard_mprotect(memory, page), 0);
    CHECK(!weft__os_readable(memory));
    weft__os_fail(OS_EVENTFD, 1, false);
    CHECK(weft__os_readable(memory)); /* the kernel cannot be asked */
    weft__os_unmap(memory, 2 * page);
}

#if !WEFT_ASAN && !WEFT_TSAN /* which end the process instead */
FAKE_RETURNS(int, posix_memalign, (void **memory, size_t alignment, size_t size),
             (memory, alignment, size))

static void no_memory(void)
{
    KERNEL_SAYS(posix_memalign, ENOMEM, 1);
    CHECK_PTR(weft__os_alloc_aligned(64, 64), NULL);
    CHECK_PTR(weft__os_alloc((size_t)PTRDIFF_MAX), NULL);
}
#endif

int main(void)
{
#if !WEFT_TSAN
    RUN(one_key_for_thread_exit);
#endif
    RUN_ALL(a_thread_that_cannot_start, what_is_known_of_threads, other_threads, barriers,
            processors, a_sleep_that_is_interrupted, a_timer, polling, mappings);
#if !WEFT_ASAN && !WEFT_TSAN
    RUN(no_memory);
#endif
    return 0;
}
