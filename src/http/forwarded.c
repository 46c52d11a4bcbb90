/*
 * forwarded.c: the client's address by X-Forwarded-For or Forwarded (RFC 7239).
 *
 * Each proxy adds the address of its peer at the end; a client may have sent anything before that.
 * So only what trusted proxies have added is true. The chain is read from its end, fields and their
 * elements alike. An element is believed if the one behind it is a trusted proxy's address (the
 * last: if the connection is from one). The chain ends at the first address that is not trusted:
 * the client.
 *
 * An element of Forwarded is split off from the end too, and quotes are counted from there. If they
 * were counted from the beginning, an opening quote that a client sent without its end would
 * swallow what a proxy adds:
 *
 *     Forwarded: for="10.0.0.1;x=                  from the client
 *     Forwarded: for="10.0.0.1;x=, for=192.0.2.7   from the proxy
 *
 * An element that cannot be read ends the chain: "unknown", a name that hides the address ("_x"),
 * an empty element, two of `for`. What is in front of it may be the client's own.
 */
#include "http/forwarded.h"

#include <string.h>
#include <strings.h>

enum { NODE = 64 }; /* room for an address with brackets, a port and a zero */

/* ---- addresses ---- */

/* Parses "" or ":80"; with `hidden` also ":_x", which is no number. */
static bool read_port(const char *text, bool hidden, struct peer *peer)
{
    uint32_t port = 0;
    if (*text == '\0')
        return true;
    if (*text++ != ':' || *text == '\0')
        return false;
    if (hidden && *text == '_')
        return text[1] != '\0';
    size_t size = strlen(text);
    if (size > 5 || strspn(text, "0123456789") != size)
        return false;
    for (; *text != '\0'; text++)
        port = port * 10 + (uint32_t)(*text - '0');
    peer->port = (uint16_t)port;
    return port <= 65535;
}

/* Parses "192.0.2.1", "192.0.2.1:80", "[2001:db8::1]", "[2001:db8::1]:80"; and with `bare`
 * "2001:db8::1". Changes the text. */
static bool read_node(char *text, bool bare, struct peer *peer)
{
    char *port, *host = text;
    bool brackets = *text == '[';
    if (brackets) {
        host++;
        port = strchr(host, ']');
        if (port == NULL)
            return false;
        *port++ = '\0';
    } else {
        port = strchr(text, ':');
        if (port == NULL || (bare && strchr(port + 1, ':') != NULL))
            port = text + strlen(text);
    }
    char rest[NODE];
    memcpy(rest, port, strlen(port) + 1);
    *port = '\0';
    bool ipv6 = strchr(host, ':') != NULL;
    struct peer found;
    if ((brackets && !ipv6) || (ipv6 && !brackets && !bare) || !weft__http_peer_parse(host, &found))
        return false;
    if (!read_port(rest, !bare, &found))
        return false;
    *peer = found;
    return true;
}

static bool is_blank(char character)
{
    return character == ' ' || character == '\t';
}

static void trim(const char **text, size_t *size)
{
    while (*size > 0 && is_blank((*text)[*size - 1]))
        --*size;
    while (*size > 0 && is_blank(**text)) {
        ++*text;
        --*size;
    }
}

/* ---- X-Forwarded-For ---- */

static bool read_plain(const char *element, size_t size, struct peer *peer)
{
    char node[NODE];
    if (size >= sizeof node)
        return false;
    memcpy(node, element, size);
    node[size] = '\0';
    return read_node(node, true, peer);
}

/* ---- Forwarded ---- */

static bool is_in_token(char character)
{
    unsigned char low = (unsigned char)(character | 0x20);
    return (low >= 'a' && low <= 'z') || (character >= '0' && character <= '9') ||
           (character != '\0' && strchr("!#$%&'*+-.^_`|~", character) != NULL);
}

static size_t token_size(const char *text, size_t size)
{
    size_t used = 0;
    while (used < size && is_in_token(text[used]))
        used++;
    return used;
}

/* Parses a token or a quoted text, and decodes it into `node` if it fits. Returns the size of what
 * was read; 0 if it is neither. */
static size_t read_value(const char *text, size_t size, char *node)
{
    size_t used = 0, kept = 0;
    bool quoted = size > 0 && text[0] == '"';
    size_t end = quoted ? size : token_size(text, size);
    for (used = quoted; used < end && !(quoted && text[used] == '"'); used++) {
        if (quoted && text[used] == '\\' && ++used == end)
            return 0;
        if (kept + 1 < NODE)
            node[kept] = text[used];
        kept++;
    }
    if (quoted && used++ == end)
        return 0;
    node[kept < NODE ? kept : 0] = '\0'; /* "", which is no address, if it does not fit */
    return used;
}

/* Parses "for=192.0.2.1;proto=https", which must have `for` once. */
static bool read_pairs(const char *element, size_t size, struct peer *peer)
{
    char node[NODE], value[NODE];
    bool found = false;
    while (size > 0) {
        size_t name = token_size(element, size);
        if (name == 0 || name == size || element[name] != '=')
            return false;
        size_t used = read_value(element + name + 1, size - name - 1, value);
        if (used == 0)
            return false;
        if (name == 3 && strncasecmp(element, "for", 3) == 0) {
            if (found)
                return false;
            found = true;
            memcpy(node, value, sizeof node);
        }
        element += name + 1 + used;
        size -= name + 1 + used;
        trim(&element, &size);
        if (size > 0 && *element != ';')
            return false;
        element += size > 0;
        size -= size > 0;
        trim(&element, &size);
    }
    return found && read_node(node, false, peer);
}

/* ---- the chain ---- */

/* Whether the quote at `at` is escaped: an odd number of backslashes is in front of it. */
static bool is_escaped(const char *text, size_t at)
{
    size_t count = 0;
    while (count < at && text[at - count - 1] == '\\')
        count++;
    return count % 2 != 0;
}

/* Where the last element of a list begins. */
static size_t last_element(const char *list, size_t size, bool quotes)
{
    bool quoted = false;
    size_t at = size;
    for (; at > 0; at--) {
        char character = list[at - 1];
        if (quotes && character == '"' && !(quoted && is_escaped(list, at - 1)))
            quoted = !quoted;
        else if (character == ',' && !quoted)
            break;
    }
    return at;
}

struct walk {
    bool pairs; /* Forwarded */
    const struct networks *trusted;
    struct peer *client;
};

/* Walks a field's elements from the last to the first. Returns false if the chain ends there. */
static bool walk_field(const struct walk *walk, const char *list, size_t size)
{
    for (;;) {
        size_t begin = last_element(list, size, walk->pairs), element_size = size - begin;
        const char *element = list + begin;
        struct peer next;
        trim(&element, &element_size);
        if (!(walk->pairs ? read_pairs : read_plain)(element, element_size, &next))
            return false;
        next.trusted = weft__http_networks_have(walk->trusted, &next);
        *walk->client = next;
        if (!next.trusted)
            return false;
        if (begin == 0)
            return true;
        size = begin - 1; /* without the comma */
    }
}

void weft__http_forwarded(weft_http_forwarding which, const struct field *fields, int count,
                          const struct networks *trusted, struct peer *client)
{
    bool pairs = which == WEFT_HTTP_FORWARDED;
    const char *name = pairs ? "Forwarded" : "X-Forwarded-For";
    struct walk walk = {pairs, trusted, client};
    for (int i = count - 1; i >= 0; i--)
        if (strcasecmp(fields[i].name, name) == 0 &&
            !walk_field(&walk, fields[i].value, fields[i].value_size))
            return;
}
