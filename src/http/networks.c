/*
 * networks.c: a list of networks: the proxies that are trusted.
 *
 * A network is the first bits of an address of one family. IPv4 in IPv6 (::ffff:a.b.c.d) is IPv4 on
 * either side of a comparison: 10.0.0.0/8 contains ::ffff:10.1.2.3, and ::/0 contains no IPv4
 * address. The list is searched from first to last: trusted proxies are few.
 *
 * "10.1.2.3/8" is refused. It is a slip for 10.0.0.0/8 or for 10.1.2.3, and a wrong guess would
 * trust strangers.
 */
#include "http/networks.h"

#include <errno.h>
#include <string.h>

#include "http/sys.h"

struct network {
    uint8_t ip[16];
    uint8_t family, bits;
};

struct networks {
    bool unix_sockets;
    int count;
    struct network list[];
};

static bool has_bit(const uint8_t *ip, int bit)
{
    return (ip[bit / 8] >> (7 - bit % 8) & 1) != 0;
}

/* Parses "0" to "128", without a sign or leading zeros. -1 if it is none. */
static int read_bits(const char *text)
{
    int bits = 0;
    if (*text == '\0' || strlen(text) > 3 || (*text == '0' && text[1] != '\0'))
        return -1;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        bits = bits * 10 + (*text - '0');
    }
    return bits;
}

static bool read_network(char *text, struct network *network)
{
    struct peer peer;
    char *slash = strchr(text, '/');
    bool was_ipv6 = strchr(text, ':') != NULL;
    if (slash != NULL)
        *slash = '\0';
    if (!weft__http_peer_parse(text, &peer))
        return false;
    int size = peer.family == 4 ? 32 : 128, bits = size;
    if (slash != NULL) {
        bits = read_bits(slash + 1);
        if (peer.family == 4 && was_ipv6)
            bits -= 96;
    }
    if (bits < 0 || bits > size)
        return false;
    for (int bit = bits; bit < size; bit++)
        if (has_bit(peer.ip, bit))
            return false;
    *network = (struct network){.family = peer.family, .bits = (uint8_t)bits};
    memcpy(network->ip, peer.ip, sizeof network->ip);
    return true;
}

/* Copies the next word to `word`, cut to its room. Returns what follows it; NULL at the end. */
static const char *next_word(const char *text, char *word, size_t room)
{
    static const char between[] = ", \t";
    text += strspn(text, between);
    size_t size = strcspn(text, between), kept = size < room ? size : room - 1;
    memcpy(word, text, kept);
    word[kept] = '\0';
    return size > 0 ? text + size : NULL;
}

int weft__http_networks_open(struct networks **out, const char *text)
{
    char word[64]; /* a longer word is no network, cut or whole */
    size_t most = 0;
    for (const char *at = text; (at = next_word(at, word, sizeof word)) != NULL;)
        most++;
    size_t size = sizeof(struct networks) + most * sizeof(struct network);
    struct networks *networks = weft__http_allocate(size);
    if (networks == NULL)
        return -ENOMEM;
    memset(networks, 0, size);
    bool right = most > 0;
    for (const char *at = text; right && (at = next_word(at, word, sizeof word)) != NULL;) {
        if (strcmp(word, "unix") == 0)
            networks->unix_sockets = true;
        else
            right = read_network(word, &networks->list[networks->count++]);
    }
    if (!right) {
        weft__http_free(networks);
        return -EINVAL;
    }
    *out = networks;
    return 0;
}

void weft__http_networks_close(struct networks *networks)
{
    weft__http_free(networks);
}

static bool has(const struct network *network, const struct peer *peer)
{
    int bytes = network->bits / 8, rest = network->bits % 8;
    if (network->family != peer->family || memcmp(network->ip, peer->ip, (size_t)bytes) != 0)
        return false;
    return rest == 0 || (network->ip[bytes] ^ peer->ip[bytes]) >> (8 - rest) == 0;
}

bool weft__http_networks_have(const struct networks *networks, const struct peer *peer)
{
    if (networks == NULL)
        return false;
    if (peer->family == 0)
        return networks->unix_sockets;
    struct peer plain = *peer;
    weft__http_peer_unmap(&plain);
    for (int i = 0; i < networks->count; i++)
        if (has(&networks->list[i], &plain))
            return true;
    return false;
}
