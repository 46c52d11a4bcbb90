/*
 * file.c: files in every way that weft has for them: what is written can be read, and counts and
 * errors are those of the system calls.
 */
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "io/modes.h"
#include "seeds.h"

enum { SIZE = 100000 };

/* Reading and writing. */

static void read_and_write(void *arg)
{
    static const char text[] = "what is written is read";
    char path[64], other[80], back[sizeof text];
    struct stat status;
    snprintf(path, sizeof path, "weft-file-%d", (int)getpid());
    snprintf(other, sizeof other, "%s-renamed", path);
    int fd = weft_file_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(weft_file_write(fd, text, 5, WEFT_NEVER), 5);
    CHECK_EQ(weft_file_write(fd, text + 5, sizeof text - 5, WEFT_NEVER), sizeof text - 5);
    CHECK_EQ(weft_file_read(fd, back, sizeof back, WEFT_NEVER), 0); /* the position is the end */
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    CHECK_EQ(weft_file_read(fd, back, 7, WEFT_NEVER), 7);
    CHECK_EQ(weft_file_read(fd, back + 7, sizeof back, WEFT_NEVER), sizeof text - 7);
    CHECK_STR(back, text);
    memset(back, 0, sizeof back);
    CHECK_EQ(weft_file_pread(fd, back, 7, 5, weft_after(60 * WEFT_S)), 7);
    CHECK_EQ(memcmp(back, text + 5, 7), 0);
    CHECK_EQ(weft_file_pwrite(fd, "WHAT", 4, 0, WEFT_NEVER), 4);
    CHECK_EQ(weft_file_pread(fd, back, 4, 0, WEFT_NEVER), 4);
    CHECK_EQ(memcmp(back, "WHAT", 4), 0);
    CHECK_EQ(weft_file_sync(fd, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_sync_data(fd, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_stat(path, &status), 0);
    CHECK_EQ(status.st_size, sizeof text);
    CHECK_EQ(status.st_mode & 0777, 0600);
    CHECK_EQ(weft_file_rename(path, other), 0);
    CHECK_EQ(weft_file_stat(path, &status), -ENOENT);
    CHECK_EQ(weft_file_unlink(other), 0);
    CHECK_EQ(weft_file_unlink(other), -ENOENT);
    CHECK_EQ(weft_file_close(fd), 0);
    CHECK_EQ(weft_file_close(fd), -EBADF);
}

static void what_is_written_is_read(void)
{
    in_all_modes(2, read_and_write);
    everywhere(read_and_write);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void pieces(void *arg)
{
    int fd = file_of(SIZE);
    char first[10], second[20], third[30];
    struct iovec list[] = {{first, 10}, {second, 20}, {third, 30}};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_file_preadv(fd, list, 3, 1000, WEFT_NEVER), 60);
        check_content(first, 10, 1000);
        check_content(second, 20, 1010);
        check_content(third, 30, 1030);
        CHECK_EQ(lseek(fd, 500, SEEK_SET), 500);
        CHECK_EQ(weft_file_preadv(fd, list, 3, -1, WEFT_NEVER), 60);
        check_content(third, 30, 530);
        CHECK_EQ(lseek(fd, 0, SEEK_CUR), 560);
        CHECK_EQ(weft_file_preadv(fd, list, 3, SIZE - 15, WEFT_NEVER), 15);
        CHECK_EQ(weft_file_preadv(fd, list, 3, SIZE, WEFT_NEVER), 0);
    }
    memset(second, 'x', 20);
    CHECK_EQ(weft_file_pwritev(fd, list, 3, 2000, WEFT_NEVER), 60);
    CHECK_EQ(weft_file_pread(fd, third, 30, 2005, WEFT_NEVER), 30);
    CHECK_EQ(memcmp(third + 5, second, 20), 0);
    CHECK_EQ(weft_file_preadv(fd, list, 0, 0, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_close(fd), 0);
}

static void pieces_are_read_in_their_order(void)
{
    in_all_modes(2, pieces);
    pieces(NULL);
}

/* A half-cached file is read in full. */
static void read_half_cached(void *arg)
{
    int fd = file_of(SIZE);
    static char memory[SIZE + 10];
    CHECK_EQ(fsync(fd), 0);
    CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0); /* no read-ahead */
    CHECK_EQ(pread(fd, memory, 8192, 4096), 8192);
    CHECK_EQ(weft_file_pread(fd, memory, SIZE - 4096, 4096, WEFT_NEVER), SIZE - 4096);
    check_content(memory, SIZE - 4096, 4096);
    CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    CHECK_EQ(pread(fd, memory, 8192, 0), 8192);
    memset(memory, 0, sizeof memory);
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    CHECK_EQ(weft_file_read(fd, memory, sizeof memory, WEFT_NEVER), SIZE);
    check_content(memory, SIZE, 0);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), SIZE);
    CHECK_EQ(weft_file_close(fd), 0);
}

static void reads_are_not_short(void)
{
    in_all_modes(2, read_half_cached);
}

/* Errors. */

static void errors(void *arg)
{
    char byte = 'x';
    struct stat status;
    struct iovec list = {&byte, 1};
    CHECK_EQ(weft_file_open("weft-no-such-folder/file", O_RDONLY, 0), -ENOENT);
    CHECK_EQ(weft_file_open(NULL, O_RDONLY, 0), -EINVAL);
    CHECK_EQ(weft_file_stat(NULL, &status), -EINVAL);
    CHECK_EQ(weft_file_stat("/", NULL), -EINVAL);
    CHECK_EQ(weft_file_unlink(NULL), -EINVAL);
    CHECK_EQ(weft_file_rename(NULL, "weft"), -EINVAL);
    CHECK_EQ(weft_file_rename("weft", NULL), -EINVAL);
    CHECK_EQ(weft_file_read(-1, &byte, 1, WEFT_NEVER), -EBADF);
    CHECK_EQ(weft_file_sync(-1, WEFT_NEVER), -EBADF);
    int fd = file_of(10);
    CHECK_EQ(weft_file_pread(fd, &byte, 1, -1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_pwrite(fd, &byte, 1, -2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_preadv(fd, &list, -1, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_preadv(fd, &list, 1025, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_preadv(fd, NULL, 1, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_pwritev(fd, &list, 1, -2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_pread(fd, NULL, 1, 0, WEFT_NEVER), -EFAULT);
    CHECK_EQ(weft_file_pread(fd, &byte, 1, 10, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_pread(fd, &byte, 0, 0, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_close(fd), 0);
    fd = weft_file_open("/dev/full", O_WRONLY, 0);
    CHECK(fd >= 0);
    CHECK_EQ(weft_file_write(fd, &byte, 1, WEFT_NEVER), -ENOSPC);
    CHECK_EQ(weft_file_read(fd, &byte, 1, WEFT_NEVER), -EBADF); /* opened for writing */
    CHECK_EQ(byte, 'x');
    CHECK_EQ(weft_file_close(fd), 0);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(weft_file_pread(ends[0], &byte, 1, 0, WEFT_NEVER), -ESPIPE);
    CHECK_EQ(weft_file_read(ends[0], &byte, 0, WEFT_NEVER), 0);
    CHECK_EQ(close(ends[0]), 0);
    CHECK_EQ(weft_file_write(ends[1], &byte, 1, WEFT_NEVER), -EPIPE);
    CHECK_EQ(close(ends[1]), 0);
}

static void errors_are_those_of_the_calls(void)
{
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    in_all_modes(2, errors);
    everywhere(errors);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Deadlines and contexts. A read of a pipe waits. */

struct reader {
    int fd;
    weft_context *context;
    int64_t deadline;
    ssize_t result;
    weft_fiber *fiber;
    char memory[16];
};

static void read_one(void *arg)
{
    struct reader *reader = arg;
    reader->result = weft_file_read(reader->fd, reader->memory, 16, reader->deadline);
}

static void deadline_in_flight(void *arg)
{
    int ends[2];
    char on_stack[64];
    CHECK_EQ(pipe(ends), 0);
    memset(on_stack, 'a', sizeof on_stack);
    int64_t deadline = weft_after(5 * WEFT_MS);
    CHECK_EQ(weft_file_read(ends[0], on_stack, sizeof on_stack, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_file_read(ends[0], on_stack, sizeof on_stack, WEFT_NOW), -ETIMEDOUT);
    /* The kernel no longer uses the memory: the next read gets what is written now. */
    CHECK_EQ(write(ends[1], "bcd", 3), 3);
    CHECK_EQ(on_stack[0], 'a');
    CHECK_EQ(weft_file_read(ends[0], on_stack, 2, WEFT_NOW), 2);
    CHECK_EQ(memcmp(on_stack, "bc", 2), 0);
    CHECK_EQ(weft_file_read(ends[0], on_stack, 2, weft_after(60 * WEFT_S)), 1);
    CHECK_EQ(on_stack[0], 'd');
    close(ends[0]);
    close(ends[1]);
}

static void a_deadline_ends_what_is_in_flight(void)
{
    in_all_modes(2, deadline_in_flight);
    in_all_modes(1, deadline_in_flight);
    everywhere(deadline_in_flight);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static bool poll_one(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return poll(&look, 1, 0) > 0;
}

static void cancel_in_flight(void *arg)
{
    enum { READERS = 100 };
    static struct reader readers[READERS];
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.fd = ends[0], .deadline = WEFT_NEVER};
        weft_spawn_options options = {.context = i % 2 == 0 ? context : NULL};
        CHECK_EQ(weft_spawn(&readers[i].fiber, read_one, &readers[i], &options), 0);
    }
    for (int i = 0; i < 10; i++)
        weft_yield(); /* so that most wait; the result does not need it */
    weft_context_cancel(context);
    for (int i = 0; i < READERS; i += 2) {
        CHECK_EQ(weft_join(readers[i].fiber), 0);
        CHECK_EQ(readers[i].result, -ECANCELED);
    }
    /* The other readers wait on, and each gets a byte. */
    for (int i = 1; i < READERS; i += 2) {
        char byte = (char)i;
        CHECK_EQ(write(ends[1], &byte, 1), 1);
        while (poll_one(ends[0]))
            weft_yield();
    }
    for (int i = 1; i < READERS; i += 2) {
        CHECK_EQ(weft_join(readers[i].fiber), 0);
        CHECK_EQ(readers[i].result, 1);
    }
    weft_context_close(context);
    close(ends[0]);
    close(ends[1]);
}

static void a_context_ends_what_is_in_flight(void)
{
    in_all_modes(2, cancel_in_flight);
}

/* Signals in all threads, all the time, interrupt no call. */

static atomic_u32 storm_over, signals_seen;

static void on_signal(int signal)
{
    atomic_u32_add_relaxed(&signals_seen, 1);
}

static void *storm(void *arg)
{
    while (!atomic_u32_load_acquire(&storm_over)) {
        kill(getpid(), SIGUSR1);
        usleep(50);
    }
    return NULL;
}

static void read_in_storm(void *arg)
{
    int fd = file_of(SIZE), ends[2];
    char memory[4096];
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < (int)test_scale(1000); i++) {
        CHECK_EQ(weft_file_pread(fd, memory, 4096, i % 20 * 4096, WEFT_NEVER), 4096);
        check_content(memory, 4096, (size_t)(i % 20 * 4096));
        CHECK_EQ(weft_file_pwrite(fd, memory, 4096, i % 20 * 4096, WEFT_NEVER), 4096);
        if (i % 10 == 0)
            CHECK_EQ(weft_file_read(ends[0], memory, 1, weft_after(100 * WEFT_US)), -ETIMEDOUT);
    }
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

static void signals_do_not_interrupt(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = on_signal}, before; /* without SA_RESTART */
    CHECK_EQ(sigaction(SIGUSR1, &action, &before), 0);
    CHECK_EQ(pthread_create(&thread, NULL, storm, NULL), 0);
    in_all_modes(2, read_in_storm);
    read_in_storm(NULL);
    atomic_u32_store_release(&storm_over, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(atomic_u32_load_relaxed(&signals_seen) > 0);
    CHECK_EQ(sigaction(SIGUSR1, &before, NULL), 0);
}

/* errno belongs to the caller. */
static void keeps_errno(void *arg)
{
    char byte;
    set_errno(1234);
    CHECK_EQ(weft_file_read(-1, &byte, 1, WEFT_NEVER), -EBADF);
    CHECK_EQ(weft_file_unlink("weft-no-such-file"), -ENOENT);
    CHECK_EQ(get_errno(), 1234);
}

static void errno_is_left_alone(void)
{
    in_all_modes(2, keeps_errno);
    keeps_errno(NULL);
}

int main(void)
{
    RUN_PLAIN(what_is_written_is_read, "stops or configures the runtime");
    RUN_BOTH(pieces_are_read_in_their_order);
    RUN_BOTH(reads_are_not_short);
    RUN_PLAIN(errors_are_those_of_the_calls, "stops or configures the runtime");
    RUN_PLAIN(a_deadline_ends_what_is_in_flight, "stops or configures the runtime");
    RUN_PLAIN(a_context_ends_what_is_in_flight,
              "when the kernel answers is not for the seed to say");
    RUN_PLAIN(signals_do_not_interrupt, "signals of a thread");
    RUN_BOTH(errno_is_left_alone);
    return 0;
}
