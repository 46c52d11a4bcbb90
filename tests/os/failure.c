/*
 * failure.c: fault injection: which call of a kind fails, and that each call of the seam asks.
 */
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/failure.h"
#include "os/linux/seam.h"
#include "os/os.h"
#include "test.h"

static void off_only_counts(void)
{
    for (int call = 0; call < OS_CALLS; call++) {
        weft__os_fail(call, 0, true);
        CHECK_EQ(weft__os_calls(call), 0);
        for (uint32_t i = 1; i <= 5; i++) {
            CHECK(!weft__failure_due(call));
            CHECK_EQ(weft__os_calls(call), i);
        }
    }
}

static void nth_fails_once(void)
{
    weft__os_fail(OS_MAP, 3, false);
    for (uint32_t i = 1; i <= 6; i++)
        CHECK_EQ(weft__failure_due(OS_MAP), i == 3);
    CHECK_EQ(weft__os_calls(OS_MAP), 6);
}

static void persistent_fails_from_the_nth_on(void)
{
    weft__os_fail(OS_THREAD, 2, true);
    for (uint32_t i = 1; i <= 6; i++)
        CHECK_EQ(weft__failure_due(OS_THREAD), i >= 2);
}

static void a_new_plan_begins_to_count_anew(void)
{
    weft__os_fail(OS_POLL, 1, true);
    CHECK(weft__failure_due(OS_POLL));
    weft__os_fail(OS_POLL, 2, false);
    CHECK_EQ(weft__os_calls(OS_POLL), 0);
    CHECK(!weft__failure_due(OS_POLL));
    CHECK(weft__failure_due(OS_POLL));
    CHECK(!weft__failure_due(OS_POLL));
    weft__os_fail(OS_POLL, 1, true);
    weft__os_fail(OS_POLL, 0, false);
    CHECK(!weft__failure_due(OS_POLL));
}

static void kinds_do_not_mix(void)
{
    for (int call = 0; call < OS_CALLS; call++)
        weft__os_fail(call, 0, false);
    weft__os_fail(OS_GUARD, 1, true);
    for (int call = 0; call < OS_CALLS; call++)
        CHECK_EQ(weft__failure_due(call), call == OS_GUARD);
    weft__os_fail(OS_GUARD, 0, false);
}

static void *nothing(void *arg)
{
    return arg;
}

static void memory_calls_fail_on_demand(void)
{
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_PTR(weft__os_alloc(16), NULL);
    CHECK_PTR(weft__os_alloc_zeroed(16), NULL);
    CHECK_PTR(weft__os_alloc_aligned(64, 128), NULL);
    CHECK_EQ(weft__os_calls(OS_ALLOC), 3);
    weft__os_fail(OS_ALLOC, 0, false);

    size_t page = weft__os_page_size();
    weft__os_fail(OS_MAP, 1, false);
    CHECK_PTR(weft__os_map(page), NULL);
    char *memory = weft__os_map(page);
    CHECK(memory != NULL);
    weft__os_fail(OS_GUARD, 1, true);
    CHECK_EQ(weft__os_guard_install(memory, page), -ENOMEM);
    CHECK_EQ(weft__os_guard_mprotect(memory, page), -ENOMEM);
    weft__os_fail(OS_GUARD, 0, false);
    *memory = 1; /* a refused guard does not exist */
    weft__os_unmap(memory, page);
}

static void other_calls_fail_on_demand(void)
{
    weft__os_thread thread = 0;
    weft__os_fail(OS_THREAD, 1, false);
    CHECK_EQ(weft__os_thread_start(&thread, nothing, NULL), -EAGAIN);
    CHECK_EQ(thread, 0);
    CHECK_EQ(weft__os_thread_start(&thread, nothing, NULL), 0);
    weft__os_thread_join(thread);

    weft__os_fail(OS_EVENTFD, 1, true);
    CHECK_EQ(weft__os_eventfd(), -EMFILE);
    CHECK_EQ(weft__os_timerfd(), -EMFILE);
    weft__os_fail(OS_EVENTFD, 0, false);
    int event = weft__os_eventfd();
    CHECK(event >= 0);

    weft__os_fail(OS_POLL, 1, false);
    CHECK_EQ(weft__os_poll_open(), -EMFILE);
    int epoll = weft__os_poll_open();
    CHECK(epoll >= 0);
    weft__os_fail(OS_POLL, 1, false);
    CHECK_EQ(weft__os_poll_add(epoll, event, 1, 7), -ENOSPC);
    CHECK_EQ(weft__os_poll_add(epoll, event, 1, 7), 0);
    weft__os_close(event);
    weft__os_close(epoll);
}

static void registering_fails_on_demand(void)
{
    weft__os_fail(OS_REGISTER, 1, false);
    CHECK_EQ(weft__os_thread_at_exit(free, NULL), -EAGAIN); /* for the key */
    CHECK_EQ(weft__os_thread_at_exit(free, NULL), 0);       /* with the key */
    weft__os_fail(OS_REGISTER, 1, false);
    CHECK_EQ(weft__os_thread_at_exit(free, NULL), -ENOMEM);
    CHECK_EQ(weft__os_thread_at_exit(free, NULL), 0);
    weft__os_fail(OS_REGISTER, 1, false);
    CHECK_EQ(weft__os_membarrier_register(), -EPERM);
}

static void a_failed_decommit_keeps_the_pages(void)
{
    size_t page = weft__os_page_size();
    char *memory = weft__os_map(page);
    CHECK(memory != NULL);
    *memory = 1;
    weft__os_fail(OS_DECOMMIT, 1, false);
    CHECK_EQ(weft__os_decommit(memory, page), -EAGAIN);
    CHECK_EQ(*memory, 1);
    CHECK_EQ(weft__os_decommit(memory, page), 0);
    CHECK_EQ(*memory, 0);
    weft__os_unmap(memory, page);
}

static void sockets_fail_on_demand(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    int fd = weft__os_socket(AF_INET, SOCK_STREAM);
    CHECK(fd >= 0);
    weft__os_fail(OS_SOCKET, 1, true);
    CHECK_EQ(weft__os_socket(AF_INET, SOCK_STREAM), -EMFILE);
    CHECK_EQ(weft__os_bind(fd, &name, sizeof name), -EADDRINUSE);
    CHECK_EQ(weft__os_listen(fd, 1), -EADDRINUSE);
    CHECK_EQ(weft__os_connect(fd, &name, sizeof name), -EADDRNOTAVAIL);
    CHECK_EQ(weft__os_socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1), -ENOBUFS);
    weft__os_fail(OS_SOCKET, 0, false);
    CHECK_EQ(weft__os_bind(fd, &name, sizeof name), 0);
    weft__os_close(fd);
}

static void files_fail_on_demand(void)
{
    char byte = 0;
    struct stat status;
    struct weft__os_io io = {.kind = IO_READ, .memory = &byte, .length = 1};
    int fd = weft__os_open("/dev/zero", O_RDONLY, 0);
    CHECK(fd >= 0);
    io.fd = fd;
    weft__os_fail(OS_FILE, 1, true);
    CHECK_EQ(weft__os_open("/dev/zero", O_RDONLY, 0), -EMFILE);
    CHECK_EQ(weft__os_io(&io), -EIO);
    CHECK_EQ(weft__os_io_nowait(&io), -EIO);
    CHECK_EQ(weft__os_is_regular(fd), -EIO);
    CHECK_EQ(weft__os_stat("/dev/zero", &status), -EIO);
    CHECK_EQ(weft__os_unlink("/dev/no/such"), -EIO);
    CHECK_EQ(weft__os_rename("/dev/no/such", "/dev/no/other"), -EIO);
    CHECK_EQ(weft__os_read_file("/dev/zero", &byte, 1), -EMFILE);
    CHECK_EQ(weft__os_file_close(fd), -EIO); /* and it is closed */
    weft__os_fail(OS_FILE, 0, false);
    CHECK_EQ(weft__os_file_close(fd), -EBADF);
}

static void pipes_and_names_fail_on_demand(void)
{
    int ends[2], error = 0;
    char byte = 'x';
    struct addrinfo *list = NULL;
    CHECK_EQ(weft__os_pipe(ends), 0);
    weft__os_fail(OS_WRITE, 1, false);
    CHECK_EQ(weft__os_fd_write(ends[1], &byte, 1), -ENOMEM);
    CHECK_EQ(weft__os_fd_write(ends[1], &byte, 1), 1);
    weft__os_fail(OS_READ, 1, false);
    CHECK_EQ(weft__os_fd_read(ends[0], &byte, 1), -EIO);
    CHECK_EQ(weft__os_fd_read(ends[0], &byte, 1), 1);
    weft__os_close(ends[0]);
    weft__os_close(ends[1]);
    weft__os_fail(OS_RESOLVE, 1, false);
    CHECK_EQ(weft__os_getaddrinfo("127.0.0.1", NULL, NULL, &list, &error), EAI_SYSTEM);
    CHECK_EQ(error, -EMFILE);
    CHECK_EQ(weft__os_getaddrinfo("127.0.0.1", NULL, NULL, &list, &error), 0);
    weft__os_freeaddrinfo(list);
}

static void held_resources_are_counted(void)
{
    weft__os_live_count();
    int64_t memory = weft__os_live(LIVE_MEMORY), maps = weft__os_live(LIVE_MAPS);
    size_t page = weft__os_page_size();
    void *held[] = {weft__os_alloc(1), weft__os_alloc_zeroed(1), weft__os_alloc_aligned(64, 64)};
    void *map = weft__os_map(page);
    CHECK_EQ(weft__os_live(LIVE_MEMORY), memory + 3);
    CHECK_EQ(weft__os_live(LIVE_MAPS), maps + 1);
    for (int i = 0; i < 3; i++)
        weft__os_free(held[i]);
    weft__os_free(NULL);
    weft__os_unmap(map, page);
    CHECK_EQ(weft__os_live(LIVE_MEMORY), memory);
    CHECK_EQ(weft__os_live(LIVE_MAPS), maps);
}

enum { THREADS = 4, CALLS = 1000 };

static void *call_many(void *failed)
{
    for (int i = 0; i < CALLS; i++)
        *(int *)failed += weft__failure_due(OS_ALLOC);
    return NULL;
}

static void the_nth_call_of_many_threads_fails(void)
{
    pthread_t threads[THREADS];
    int failed[THREADS] = {0}, sum = 0;
    weft__os_fail(OS_ALLOC, THREADS * CALLS / 2, false);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, call_many, &failed[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        sum += failed[i];
    }
    CHECK_EQ(sum, 1);
    CHECK_EQ(weft__os_calls(OS_ALLOC), THREADS * CALLS);
    weft__os_fail(OS_ALLOC, 0, false);
}

int main(void)
{
    RUN_ALL_PLAIN("no fibers", off_only_counts, nth_fails_once, persistent_fails_from_the_nth_on,
                  a_new_plan_begins_to_count_anew, kinds_do_not_mix, memory_calls_fail_on_demand,
                  other_calls_fail_on_demand, registering_fails_on_demand,
                  a_failed_decommit_keeps_the_pages, sockets_fail_on_demand, files_fail_on_demand,
                  pipes_and_names_fail_on_demand, held_resources_are_counted,
                  the_nth_call_of_many_threads_fails);
    return 0;
}
