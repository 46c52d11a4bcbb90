/*
 * files_trouble.c: a folder served while others change it, and while something is lacking.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "descriptors.h"
#include "serving.h"

static int swapping;

static void *swap(void *arg)
{
    char one[TREE_PATH], other[TREE_PATH];
    (void)arg;
    strcpy(one, tree_path("root/swapped"));
    strcpy(other, tree_path("root/swapped_out"));
    while (__atomic_load_n(&swapping, __ATOMIC_ACQUIRE))
        CHECK_EQ(syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, 2 /* exchange */), 0);
    return NULL;
}

static void links_swapped_in_during_requests(void)
{
    pthread_t thread;
    tree_folder("beside");
    tree_file("beside/secret", "secret");
    tree_folder("root/swapped");
    tree_file("root/swapped/secret", "inside");
    tree_link("root/swapped_out", "../beside");
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        begin(&plain, "/{path...}");
        files->folder.by_hand |= by_hand;
        swapping = 1;
        CHECK_EQ(pthread_create(&thread, NULL, swap, NULL), 0);
        for (int64_t i = test_scale(2000); i > 0; i--) {
            const struct answer *answer = ask("GET", "/swapped/secret", "");
            CHECK(answer->status == 200 || answer->status == 404);
            if (answer->status == 200)
                CHECK_STR(answer->body, "inside");
        }
        __atomic_store_n(&swapping, 0, __ATOMIC_RELEASE);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        end();
    }
}

static int woken;

static void *write_to_fifo(void *arg)
{
    (void)arg;
    int fd = open(tree_path("root/fifo"), O_WRONLY);
    CHECK(fd >= 0);
    __atomic_store_n(&woken, 1, __ATOMIC_RELEASE);
    close(fd);
    return NULL;
}

/* Who waits to write to a FIFO is not woken by requests for it. */
static void fifos_are_not_opened(void)
{
    pthread_t thread;
    tree_fifo("root/fifo");
    begin(&plain, "/{path...}");
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        files->folder.by_hand |= by_hand;
        woken = 0;
        CHECK_EQ(pthread_create(&thread, NULL, write_to_fifo, NULL), 0);
        for (int i = 0; i < 100; i++)
            expect("/fifo", 404, NULL);
        CHECK_EQ(__atomic_load_n(&woken, __ATOMIC_ACQUIRE), 0);
        int reader = open(tree_path("root/fifo"), O_RDONLY);
        CHECK(reader >= 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        close(reader);
    }
    end();
}

static void without_permission(void)
{
    if (geteuid() == 0) {
        printf("  not as root\n");
        return;
    }
    tree_file("root/forbidden", "x");
    CHECK_EQ(chmod(tree_path("root/forbidden"), 0), 0);
    begin(&plain, "/{path...}");
    expect("/forbidden", 403, NULL);
    CHECK_EQ(ask("HEAD", "/forbidden", "")->status, 403);
    end();
}

/* A file that loses its end while it is sent: the client sees that something is missing. */
static void a_file_cut_short(void)
{
    static char request[] = "GET /cut HTTP/1.1\r\nHost: test\r\n\r\n", bytes[65536];
    tree_file("root/cut", "");
    CHECK_EQ(truncate(tree_path("root/cut"), (off_t)64 << 20), 0);
    begin(&plain, "/{path...}");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&asked_at, sizeof asked_at), 0);
    CHECK_EQ(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
    CHECK_EQ(recv(fd, bytes, 100, MSG_WAITALL), 100); /* the length was announced */
    CHECK_EQ(truncate(tree_path("root/cut"), 1), 0);
    int64_t size = 100;
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        size += got;
    CHECK(got == 0 || errno == ECONNRESET);
    CHECK(size < (64 << 20));
    close(fd);
    expect("/a.txt", 200, "0123456789");
    end();
}

static rlim_t limit_descriptors(rlim_t limit)
{
    struct rlimit limits;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limits), 0);
    rlim_t before = limits.rlim_cur;
    limits.rlim_cur = limit;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limits), 0);
    return before;
}

/* Asks on a connection that stays, and reads the first line. */
static void expect_on(int fd, const char *request, const char *line)
{
    char bytes[4096];
    size_t size = 0;
    CHECK_EQ(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    do {
        ssize_t got = recv(fd, bytes + size, sizeof bytes - 1 - size, 0);
        CHECK(got > 0);
        size += (size_t)got;
        bytes[size] = '\0';
    } while (strstr(bytes, "\r\n\r\n") == NULL);
    *strstr(bytes, "\r\n") = '\0';
    CHECK_STR(bytes, line);
}

/* No descriptor is left for the file: 503, and after that all is well again. */
static void without_descriptors(void)
{
    static const char missing[] = "HEAD /gone HTTP/1.1\r\nHost: test\r\n\r\n";
    static const char there[] = "HEAD /a.txt HTTP/1.1\r\nHost: test\r\n\r\n";
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        begin(&plain, "/{path...}");
        files->folder.by_hand |= by_hand;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        CHECK_EQ(connect(fd, (struct sockaddr *)&asked_at, sizeof asked_at), 0);
        expect_on(fd, missing, "HTTP/1.1 404 Not Found"); /* it is accepted, and nothing is open */
        int free = dup(0);
        CHECK(free >= 0);
        close(free); /* the lowest that is free: all below are in use */
        rlim_t before = limit_descriptors((rlim_t)free);
        expect_on(fd, there, "HTTP/1.1 503 Service Unavailable");
        limit_descriptors(before);
        expect_on(fd, there, "HTTP/1.1 200 OK");
        close(fd);
        end();
    }
}

int main(void)
{
    tree_begin();
    tree_folder("root");
    tree_file("root/a.txt", "0123456789");
    RUN_PLAIN(links_swapped_in_during_requests, "the client is a thread");
    RUN_PLAIN(fifos_are_not_opened, "the client is a thread");
    RUN_PLAIN(without_permission, "the client is a thread");
    RUN_PLAIN(a_file_cut_short, "the client is a thread");
    int descriptors = open_descriptors();
    RUN_PLAIN(without_descriptors, "the client is a thread");
    CHECK_EQ(open_descriptors(), descriptors);
    tree_end();
    return 0;
}
