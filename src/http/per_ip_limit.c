/*
 * per_ip_limit.c: how many connections, requests, streams and bytes of bodies each address has: a
 * hash table of the addresses that have any.
 *
 * An IPv4 address counts by itself, also as IPv4 in IPv6 (::ffff:a.b.c.d). Of an IPv6 address the
 * first 64 bits count, since a client has as many addresses in its network as it likes. The number
 * of connections bounds the number of entries. One lock guards the table; it is held for about ten
 * nanoseconds, when what is counted begins and ends.
 *
 * The hash is SipHash-1-3 with a random key. A client chooses its addresses: with a /48 it has
 * 65,536 networks of 64 bits, and must not be able to bring them into one chain, which each accept
 * would search.
 *
 * Private addresses can be exempt: a proxy may be there, which asks for all its clients, and no
 * packet from the Internet has such a source.
 *
 * Rejected: a multiplication by a constant, with a random seed. The upper bits of its input do not
 * reach the bits that choose the chain, whatever the seed, and the last two bytes of a /64 are the
 * upper ones: all networks of a /48 shared a chain.
 */
#include "http/per_ip_limit.h"

#include <string.h>

#include <weft/mutex.h>

#include "http/sys.h"

struct address {
    struct address *next;
    uint64_t key[2];
    int64_t counts[PER_IP_LIMITS];
};

struct per_ip_limits {
    weft_mutex lock;
    struct allowance allowances[PER_IP_LIMITS];
    uint64_t secret[2];
    uint64_t mask;
    struct address *chains[];
};

struct per_ip_limits *weft__http_per_ip_open(const struct allowance allowances[PER_IP_LIMITS],
                                             int64_t connections)
{
    uint64_t size = 64;
    while (size < 16384 && (int64_t)size < connections)
        size *= 2;
    size_t bytes = sizeof(struct per_ip_limits) + size * sizeof(struct address *);
    struct per_ip_limits *limits = weft__http_allocate(bytes);
    if (limits == NULL)
        return NULL;
    memset(limits, 0, bytes);
    memcpy(limits->allowances, allowances, sizeof limits->allowances);
    limits->secret[0] = weft__http_random();
    limits->secret[1] = weft__http_random();
    limits->mask = size - 1;
    return limits;
}

void weft__http_per_ip_close(struct per_ip_limits *limits)
{
    if (limits == NULL)
        return;
    for (uint64_t i = 0; i <= limits->mask; i++)
        must(limits->chains[i] == NULL);
    weft__http_free(limits);
}

static bool is_counted(const struct per_ip_limits *limits, enum per_ip_limit limit,
                       const struct peer *peer)
{
    if (limits == NULL || peer->family == 0 || peer->trusted)
        return false;
    const struct allowance *allowance = &limits->allowances[limit];
    return allowance->max < INT64_MAX &&
           !(allowance->exempts_private && weft__http_peer_is_private(peer));
}

static void key_of(const struct peer *peer, uint64_t key[2])
{
    uint32_t ipv4;
    const uint8_t *ip = weft__http_peer_ipv4(peer);
    if (ip != NULL) {
        memcpy(&ipv4, ip, sizeof ipv4);
        key[0] = 4;
        key[1] = ipv4;
    } else {
        key[0] = 6 + ((uint64_t)peer->scope << 8);
        memcpy(&key[1], peer->ip, sizeof key[1]);
    }
}

static uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32) + v[3];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3 of the two words of a key (Aumasson and Bernstein, 2012). */
static uint64_t hash_of(const uint64_t secret[2], const uint64_t key[2])
{
    uint64_t v[4] = {secret[0] ^ 0x736f6d6570736575u, secret[1] ^ 0x646f72616e646f6du,
                     secret[0] ^ 0x6c7967656e657261u, secret[1] ^ 0x7465646279746573u};
    const uint64_t words[3] = {key[0], key[1], (uint64_t)16 << 56}; /* the last: 16 bytes in all */
    for (int i = 0; i < 3; i++) {
        v[3] ^= words[i];
        sip_round(v);
        v[0] ^= words[i];
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static struct address **chain_of(struct per_ip_limits *limits, const uint64_t key[2])
{
    return &limits->chains[hash_of(limits->secret, key) & limits->mask];
}

int64_t weft__http_per_ip_longest_chain(struct per_ip_limits *limits)
{
    int64_t longest = 0;
    weft_mutex_lock(&limits->lock);
    for (uint64_t i = 0; i <= limits->mask; i++) {
        int64_t size = 0;
        for (const struct address *address = limits->chains[i]; address != NULL;
             address = address->next)
            size++;
        longest = size > longest ? size : longest;
    }
    weft_mutex_unlock(&limits->lock);
    return longest;
}

static struct address **find(struct per_ip_limits *limits, const uint64_t key[2])
{
    struct address **at = chain_of(limits, key);
    while (*at != NULL && ((*at)->key[0] != key[0] || (*at)->key[1] != key[1]))
        at = &(*at)->next;
    return at;
}

static bool has_any(const struct address *address)
{
    bool any = false;
    for (int i = 0; i < PER_IP_LIMITS; i++)
        any = any || address->counts[i] > 0;
    return any;
}

static void drop_empty(struct address **at)
{
    struct address *address = *at;
    if (has_any(address))
        return;
    *at = address->next;
    weft__http_free(address);
}

bool weft__http_per_ip_acquire(struct per_ip_limits *limits, enum per_ip_limit limit,
                               const struct peer *peer, int64_t amount)
{
    if (!is_counted(limits, limit, peer))
        return true;
    uint64_t key[2];
    key_of(peer, key);
    weft_mutex_lock(&limits->lock);
    struct address **at = find(limits, key);
    if (*at == NULL && (*at = weft__http_allocate(sizeof **at)) != NULL)
        **at = (struct address){.key = {key[0], key[1]}};
    bool allowed = *at != NULL && (*at)->counts[limit] <= limits->allowances[limit].max - amount;
    if (allowed)
        (*at)->counts[limit] += amount;
    else if (*at != NULL)
        drop_empty(at);
    weft_mutex_unlock(&limits->lock);
    return allowed;
}

void weft__http_per_ip_release(struct per_ip_limits *limits, enum per_ip_limit limit,
                               const struct peer *peer, int64_t amount)
{
    if (!is_counted(limits, limit, peer))
        return;
    uint64_t key[2];
    key_of(peer, key);
    weft_mutex_lock(&limits->lock);
    struct address **at = find(limits, key);
    must(*at != NULL && (*at)->counts[limit] >= amount);
    (*at)->counts[limit] -= amount;
    drop_empty(at);
    weft_mutex_unlock(&limits->lock);
}
