/*
 * resolve.c: names to addresses, without a network: numeric names, names of this host, and a
 * resolver that does what the test wants.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include "base/atomic.h"
#include "bodies.h"
#include "everywhere.h"
#include "failing.h"
#include "os/os.h"
#include "seeds.h"

static const struct sockaddr_in *as_ipv4(const weft_address *found)
{
    CHECK_EQ(found->size, sizeof(struct sockaddr_in));
    CHECK_EQ(found->type, SOCK_STREAM);
    const struct sockaddr_in *address = (const struct sockaddr_in *)(const void *)found->bytes;
    CHECK_EQ(address->sin_family, AF_INET);
    return address;
}

static void numbers(void *arg)
{
    weft_address found[4];
    CHECK_EQ(weft_resolve("127.0.0.1", "80", NULL, found, 4, WEFT_NOW), 1);
    CHECK_EQ(ntohl(as_ipv4(found)->sin_addr.s_addr), INADDR_LOOPBACK);
    CHECK_EQ(ntohs(as_ipv4(found)->sin_port), 80);
    CHECK_EQ(weft_resolve("::1", "443", NULL, found, 4, WEFT_NOW), 1);
    char text[WEFT_ADDRESS_TEXT];
    CHECK_EQ(weft_address_format(found, text, sizeof text), 0);
    CHECK(strstr(text, "[::1]:443") != NULL);
    CHECK_EQ(weft_resolve("10.1.2.3", NULL, NULL, found, 4, WEFT_NOW), 1);
    CHECK_EQ(ntohs(as_ipv4(found)->sin_port), 0);
    weft_resolve_hints hints = {.family = AF_INET, .passive = 1};
    CHECK_EQ(weft_resolve(NULL, "8080", &hints, found, 4, WEFT_NOW), 1);
    CHECK_EQ(ntohl(as_ipv4(found)->sin_addr.s_addr), INADDR_ANY);
    hints = (weft_resolve_hints){.numeric = 1};
    CHECK_EQ(weft_resolve("localhost", "80", &hints, found, 4, WEFT_NEVER), -ENOENT);
    CHECK_EQ(weft_resolve("127.0.0.1", "http", &hints, found, 4, WEFT_NEVER), -ENOENT);
}

static void numbers_need_no_lookup(void)
{
    numbers(NULL);
    everywhere(numbers);
}

static void this_machine(void *arg)
{
    weft_address found[8];
    weft_resolve_hints hints = {.family = AF_INET};
    int count = weft_resolve("localhost", "80", &hints, found, 8, WEFT_NEVER);
    CHECK(count >= 1);
    CHECK_EQ(ntohl(as_ipv4(found)->sin_addr.s_addr) >> 24, 127);
}

static void names_of_this_machine(void)
{
    everywhere(this_machine);
}

static void arguments_are_checked(void)
{
    weft_address found[1];
    weft_resolve_hints hints = {.reserved = {1}};
    CHECK_EQ(weft_resolve(NULL, NULL, NULL, found, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_resolve("a", NULL, NULL, NULL, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_resolve("a", NULL, NULL, found, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_resolve("a", NULL, &hints, found, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_resolve("localhost", "99999", NULL, found, 1, WEFT_NEVER), -ESRCH);
    CHECK_EQ(weft_resolve("localhost", "99999999999999999", NULL, found, 1, WEFT_NEVER), -ESRCH);
}

/* Errors of getaddrinfo. */

static int to_return;

static int fails(const char *host, const char *service, const struct addrinfo *hints,
                 struct addrinfo **list)
{
    errno = ECONNREFUSED;
    return to_return;
}

static void errors(void *arg)
{
    static const int pairs[][2] = {
        {EAI_NONAME, -ENOENT},       {EAI_NODATA, -ENOENT},
        {EAI_AGAIN, -EAGAIN},        {EAI_FAIL, -EIO},
        {EAI_MEMORY, -ENOMEM},       {EAI_SERVICE, -ESRCH},
        {EAI_SYSTEM, -ECONNREFUSED}, {EAI_FAMILY, -EAFNOSUPPORT},
        {EAI_SOCKTYPE, -EINVAL},
    };
    weft_address poison, found;
    memset(&poison, 0x55, sizeof poison);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        to_return = pairs[i][0];
        found = poison;
        set_errno(1234);
        CHECK_EQ(weft_resolve("host", "80", NULL, &found, 1, WEFT_NEVER), pairs[i][1]);
        CHECK_EQ(memcmp(&found, &poison, sizeof found), 0);
        CHECK(*weft_resolve_strerror(pairs[i][1]) != '\0');
    }
    CHECK_EQ(get_errno(), 1234);
    CHECK_STR(weft_resolve_strerror(-ENOENT), weft_resolve_strerror(ENOENT));
    CHECK(strcmp(weft_resolve_strerror(-ENOENT), weft_strerror(-ENOENT)) != 0);
}

static void errors_are_errnos(void)
{
    weft__os_getaddrinfo_by(fails);
    everywhere(errors);
    weft__os_getaddrinfo_by(NULL);
}

/* Odd answers of getaddrinfo. */

static int answers_error;

static int answers_with(const char *host, const char *service, const struct addrinfo *hints,
                        struct addrinfo **list)
{
    errno = 0;
    if (hints->ai_flags & AI_NUMERICHOST)
        return host != NULL && strcmp(host, "12.34") == 0 ? EAI_SERVICE : EAI_NONAME;
    if (answers_error != 0)
        return answers_error;
    *list = NULL;
    if (host != NULL && strcmp(host, "none") == 0)
        return 0;
    return getaddrinfo("127.0.0.1", "80", hints, list);
}

static void odd_answers(void *arg)
{
    weft_address found[2];
    answers_error = EAI_SYSTEM; /* without an errno */
    CHECK_EQ(weft_resolve("host", "80", NULL, found, 2, WEFT_NEVER), -EIO);
    answers_error = 0;
    CHECK_EQ(weft_resolve("none", "80", NULL, found, 2, WEFT_NEVER), -ENOENT);
    CHECK_EQ(weft_resolve(NULL, "http", NULL, found, 2, WEFT_NEVER), 1);
    CHECK_EQ(weft_resolve("host", NULL, NULL, found, 2, WEFT_NEVER), 1);
    CHECK_EQ(weft_resolve("host", "http", NULL, found, 2, WEFT_NEVER), 1);
    CHECK_EQ(weft_resolve("12.34", "80", NULL, found, 2, WEFT_NEVER), 1);
    CHECK_EQ(weft_resolve("fe80::x", "80", NULL, found, 2, WEFT_NEVER), 1);
}

static void answers_that_are_none(void)
{
    weft__os_getaddrinfo_by(answers_with);
    everywhere(odd_answers);
    weft__os_getaddrinfo_by(NULL);
    CHECK(strcmp(weft_resolve_strerror(INT32_MIN), weft_strerror(INT32_MIN)) == 0);
}

/* More answers than there is room for, and one that is too long. */
static int answers_many(const char *host, const char *service, const struct addrinfo *hints,
                        struct addrinfo **list)
{
    int error = getaddrinfo("127.0.0.1", "80", hints, list);
    if (error == 0 && (*list)->ai_next == NULL) {
        struct addrinfo *more = NULL;
        error = getaddrinfo("127.0.0.2", "80", hints, &more);
        if (error == 0)
            (*list)->ai_next = more;
    }
    if (error == 0 && !(hints->ai_flags & AI_NUMERICHOST) && hints->ai_family == AF_INET)
        (*list)->ai_addrlen = 1000; /* of a family with longer addresses than today's */
    return error;
}

static void many_answers(void *arg)
{
    weft_address found[3];
    weft_resolve_hints ipv4 = {.family = AF_INET};
    CHECK_EQ(weft_resolve("host", "80", NULL, found, 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_resolve("host", "80", NULL, found, 3, WEFT_NEVER), 2);
    CHECK_EQ(weft_resolve("host", "80", &ipv4, found, 3, WEFT_NEVER), 1);
    struct sockaddr_in name;
    memcpy(&name, found[0].bytes, sizeof name);
    CHECK_EQ(ntohl(name.sin_addr.s_addr), INADDR_LOOPBACK + 1);
}

static void more_answers_than_fit(void)
{
    weft__os_getaddrinfo_by(answers_many);
    everywhere(many_answers);
    weft__os_getaddrinfo_by(NULL);
}

static void look_up_in_child(void)
{
    weft_address found[1];
    CHECK_EQ(weft_resolve("127.0.0.1", "80", NULL, found, 1, WEFT_NEVER), 1); /* needs no fiber */
    CHECK_EQ(weft_resolve("localhost", "80", NULL, found, 1, WEFT_NEVER), -ECHILD);
}

static void a_forked_child_looks_nothing_up(void)
{
    everywhere(numbers); /* the runtime runs */
    in_fork(look_up_in_child);
}

/* A resolver that hangs until the test lets it go on. */

static atomic_u32 hanging, most_hanging, may_go_on;

static int hangs(const char *host, const char *service, const struct addrinfo *hints,
                 struct addrinfo **list)
{
    uint32_t now = atomic_u32_add_seq_cst(&hanging, 1) + 1;
    uint32_t most = atomic_u32_load_relaxed(&most_hanging);
    while (now > most && !atomic_u32_cas_acq_rel(&most_hanging, &most, now))
        continue;
    while (!atomic_u32_load_acquire(&may_go_on))
        usleep(200);
    atomic_u32_sub_seq_cst(&hanging, 1);
    return getaddrinfo("127.0.0.1", service, hints, list);
}

static void let_hang(void)
{
    atomic_u32_store_release(&may_go_on, 0);
    atomic_u32_store_relaxed(&most_hanging, 0);
    weft__os_getaddrinfo_by(hangs);
}

static void let_go_on(void)
{
    atomic_u32_store_release(&may_go_on, 1);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* waits for lookups whose callers have left */
    CHECK_EQ(atomic_u32_load_acquire(&hanging), 0);
    weft__os_getaddrinfo_by(NULL);
}

static void give_up_in_time(void *arg)
{
    weft_address found;
    int64_t deadline = weft_after(3 * WEFT_MS);
    CHECK_EQ(weft_resolve("host", "80", NULL, &found, 1, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
}

static void a_deadline_ends_the_wait(void)
{
    let_hang();
    everywhere(give_up_in_time);
    CHECK(atomic_u32_load_acquire(&hanging) > 0); /* the lookups go on */
    let_go_on();
}

static void resolve_cancelled(void *arg)
{
    weft_address found;
    CHECK_EQ(weft_resolve("host", "80", NULL, &found, 1, WEFT_NEVER), -ECANCELED);
}

static void a_context_ends_the_wait(void)
{
    weft_context *context;
    weft_fiber *fiber;
    let_hang();
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    weft_spawn_options options = {.context = context};
    CHECK_EQ(weft_spawn(&fiber, resolve_cancelled, NULL, &options), 0);
    while (atomic_u32_load_acquire(&hanging) == 0)
        weft_yield();
    weft_context_cancel(context);
    CHECK_EQ(weft_join(fiber), 0);
    weft_context_close(context);
    let_go_on();
}

static atomic_u32 resolved;

static void resolve_one(void *arg)
{
    weft_address found;
    CHECK_EQ(weft_resolve("host", "80", NULL, &found, 1, WEFT_NEVER), 1);
    atomic_u32_add_seq_cst(&resolved, 1);
}

/* WEFT_RESOLVE_MOST lookups at once, the rest in line; fibers run meanwhile on the one
 * processor. */
static void lookups_are_bounded(void *arg)
{
    enum { LOOKUPS = WEFT_RESOLVE_MOST * 3 };
    for (int i = 0; i < LOOKUPS; i++)
        CHECK_EQ(weft_go(resolve_one, NULL), 0);
    while (atomic_u32_load_acquire(&hanging) < WEFT_RESOLVE_MOST)
        weft_sleep(100 * WEFT_US);
    weft_address found;
    CHECK_EQ(weft_resolve("host", "80", NULL, &found, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    atomic_u32_store_release(&may_go_on, 1);
    while (atomic_u32_load_acquire(&resolved) < LOOKUPS)
        weft_sleep(100 * WEFT_US);
    CHECK_EQ(atomic_u32_load_relaxed(&most_hanging), WEFT_RESOLVE_MOST);
}

static void lookups_at_once_are_bounded(void)
{
    let_hang();
    on_processors(1, lookups_are_bounded, NULL);
    let_go_on();
}

static int attempt_result;

static void attempt_resolve(void)
{
    weft_address found;
    weft_resolve_hints hints = {.family = AF_INET};
    attempt_result = weft_resolve("localhost", "80", &hints, &found, 1, WEFT_NEVER);
}

static void attempt(void)
{
    static const int allowed[] = {-ENOMEM, -EAGAIN, -EMFILE, -ENFILE, -ENOSPC, 0};
    failing_while(attempt_resolve);
    failing_check(attempt_result > 0 ? 0 : attempt_result, allowed);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    attempt_resolve();
    CHECK(attempt_result >= 1);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void faults_are_errors(void)
{
    CHECK(failing_each(attempt, 12) > 5);
}

int main(void)
{
    RUN_BOTH(numbers_need_no_lookup);
    RUN_PLAIN(names_of_this_machine, "look-ups that block their threads");
    RUN_BOTH(arguments_are_checked);
    RUN_BOTH(errors_are_errnos);
    RUN_BOTH(answers_that_are_none);
    RUN_BOTH(more_answers_than_fit);
    RUN_PLAIN(a_forked_child_looks_nothing_up, "forks");
    RUN_PLAIN(a_deadline_ends_the_wait, "a look-up that blocks its thread");
    RUN_PLAIN(a_context_ends_the_wait, "stops or configures the runtime");
    RUN_PLAIN(lookups_at_once_are_bounded, "look-ups that block their threads");
    RUN_PLAIN(faults_are_errors, "stops or configures the runtime");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
