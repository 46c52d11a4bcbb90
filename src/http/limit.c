/*
 * limit.c: how many connections an address has: a table of those that have any.
 *
 * An IPv4 address counts by itself; of IPv6 the first 64 bits do, since a client has as many addresses in its network as it
 * likes; an IPv4 address in the form of IPv6 (::ffff:a.b.c.d) is the IPv4 address. The table has a chain for each value of a
 * hash with a random key: who chooses his addresses cannot make one chain long. It is bounded by the number of
 * connections. One lock: it is held for some ten nanoseconds, once at the start and once at the end of a connection.
 */
#include "http/limit.h"

#include <string.h>

#include <weft/mutex.h>

#include "http/sys.h"

struct guest {
    struct guest *next;
    uint64_t key[2];
    int64_t count;
};

struct limits {
    weft_mutex lock;
    int64_t most;
    uint64_t seed;
    uint64_t mask;
    struct guest *chains[];
};

struct limits *weft__http_limits_open(int64_t most, int64_t connections)
{
    uint64_t size = 64;
    while (size < 65536 && (int64_t)size < connections)
        size *= 2;
    size_t bytes = sizeof(struct limits) + size * sizeof(struct guest *);
    struct limits *limits = weft__http_allocate(bytes);
    if (limits == NULL)
        return NULL;
    memset(limits, 0, bytes);
    limits->most = most;
    limits->seed = weft__http_random();
    limits->mask = size - 1;
    return limits;
}

void weft__http_limits_close(struct limits *limits)
{
    if (limits == NULL)
        return;
    for (uint64_t i = 0; i <= limits->mask; i++)
        must(limits->chains[i] == NULL);
    weft__http_free(limits);
}

static void key_of(const struct peer *peer, uint64_t key[2])
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    uint32_t ipv4;
    if (peer->family == 4 || memcmp(peer->ip, mapped, sizeof mapped) == 0) {
        memcpy(&ipv4, peer->family == 4 ? peer->ip : peer->ip + 12, sizeof ipv4);
        key[0] = 4;
        key[1] = ipv4;
    } else {
        key[0] = 6 + ((uint64_t)peer->scope << 8);
        memcpy(&key[1], peer->ip, sizeof key[1]);
    }
}

static struct guest **chain_of(struct limits *limits, const uint64_t key[2])
{
    uint64_t hash = (key[0] ^ limits->seed) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 29) ^ key[1] ^ (limits->seed << 17)) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 32;
    return &limits->chains[hash & limits->mask];
}

static struct guest **find(struct limits *limits, const uint64_t key[2])
{
    struct guest **at = chain_of(limits, key);
    while (*at != NULL && ((*at)->key[0] != key[0] || (*at)->key[1] != key[1]))
        at = &(*at)->next;
    return at;
}

bool weft__http_limits_enter(struct limits *limits, const struct peer *peer)
{
    if (limits == NULL || peer->family == 0)
        return true;
    uint64_t key[2];
    key_of(peer, key);
    weft_mutex_lock(&limits->lock);
    struct guest **at = find(limits, key);
    bool welcome = true;
    if (*at == NULL) {
        struct guest *guest = weft__http_allocate(sizeof *guest);
        if (guest != NULL)
            *guest = (struct guest){.key = {key[0], key[1]}, .count = 1};
        *at = guest;
        welcome = guest != NULL;
    } else if ((*at)->count < limits->most) {
        (*at)->count++;
    } else {
        welcome = false;
    }
    weft_mutex_unlock(&limits->lock);
    return welcome;
}

void weft__http_limits_leave(struct limits *limits, const struct peer *peer)
{
    if (limits == NULL || peer->family == 0)
        return;
    uint64_t key[2];
    key_of(peer, key);
    weft_mutex_lock(&limits->lock);
    struct guest **at = find(limits, key);
    must(*at != NULL && (*at)->count > 0);
    if (--(*at)->count == 0) {
        struct guest *gone = *at;
        *at = gone->next;
        weft__http_free(gone);
    }
    weft_mutex_unlock(&limits->lock);
}
