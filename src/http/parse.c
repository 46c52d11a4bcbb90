/*
 * parse.c: parses the head of a request.
 *
 * A head is read twice. While it comes in, find_end looks for the empty line, eight bytes at a
 * time, from where it stopped before, and refuses every control character on its way: a CR or LF
 * alone, a NUL. When the head is whole its lines are parsed, and judge() decides what they mean
 * together. So the result does not depend on the pieces in which a head came: find_end reports the
 * first fault, and all else is a function of the whole. Behind find_end every CR is followed by an
 * LF, which ends the loops over a line.
 *
 * Where RFC 9110 and RFC 9112 leave a choice:
 *  - A minor version above 1.1 is read as 1.1; another major version is 505.
 *  - The authority of an absolute target wins over Host. A Host that differs from it (which a
 *    client may not send) is 400, since another server may read the request differently; so is an
 *    authority with a user. Schemes are http and https.
 *  - OPTIONS of an absolute target without a path is OPTIONS *.
 *  - A list of transfer codings may have no empty members. If it does not end with one chunked it
 *    is 400, since the end of the body is unknown; if it does, but has others, 501.
 *  - Content-Length is one number: the list of equal ones that a recipient may accept is refused.
 *  - Host may be empty. Percent signs in it and the form [v1.x] of future addresses are refused.
 *  - In a target all visible characters are allowed but '#': browsers send '|' and the like.
 *  - 414 is not used: a line is too long when the head is, 431.
 *
 * Rejected: one pass by a state machine over bytes. Its state would have to be kept between calls,
 * and the bytes changed before the head is known to be whole.
 */
#include "http/parse.h"

#include <string.h>

enum { TOKEN = 1, TARGET = 2, HOST = 4 };

/* The classes of each character; those above 0x7f have none. */
static const uint8_t classes[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 7, 2, 1, 7, 3, 7, 7, 6, 6, 7, 7, 6, 7, 7, 2, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2, 6, 2, 6, 2, 2,
    2, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2, 2, 2, 3, 7,
    3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2, 3, 2, 7, 0,
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte is the lowest of a word");

#define EACH_BYTE(byte) (UINT64_MAX / 255 * (byte))

/* A part of the head. */
struct span {
    char *at;
    size_t size;
};

/* What judge() looks at when all fields are known. */
struct facts {
    struct span authority; /* of an absolute target */
    const struct field *host;
    int hosts, lengths;
    int codings, chunked;
    bool bad_coding, chunked_last;
    bool close, persist, upgrade_named, upgrade_given;
    bool expects_other;
};

static bool is_a(char character, int class)
{
    return (classes[(uint8_t)character] & class) != 0;
}

static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

static char lower(char character)
{
    return character >= 'A' && character <= 'Z' ? (char)(character | 0x20) : character;
}

static bool same_word(const char *one, const char *other, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (lower(one[i]) != lower(other[i]))
            return false;
    return true;
}

/* Inlined, so that the compiler knows the size of a literal. */
__attribute__((always_inline)) static inline bool is_word(struct span span, const char *word)
{
    return span.size == strlen(word) && same_word(span.at, word, strlen(word));
}

/* Whether a field has that name; the sizes must be equal. Inlined for the same reason. */
__attribute__((always_inline)) static inline bool is_named(const struct field *field,
                                                           const char *name)
{
    return same_word(field->name, name, strlen(name));
}

static bool is_blank(char character)
{
    return character == ' ' || character == '\t';
}

static bool is_control(char character)
{
    return ((uint8_t)character < 0x20 && character != '\t') || character == 0x7f;
}

/* ---- the end of a head ---- */

/* The next control character except tabs; `bound` if there is none. */
static size_t next_control(const char *data, size_t at, size_t bound)
{
    while (bound - at >= 8) {
        uint64_t word;
        memcpy(&word, data + at, 8);
        /* Sets the high bit of each byte below 0x20, and of 0x7f. A borrow can set only bits above
         * one that is right, and the lowest is used. */
        uint64_t found = ((word - EACH_BYTE(0x20)) | ((word ^ EACH_BYTE(0x7f)) - EACH_BYTE(1))) &
                         ~word & EACH_BYTE(0x80);
        if (found == 0) {
            at += 8;
            continue;
        }
        at += (size_t)__builtin_ctzll(found) / 8;
        if (data[at] != '\t')
            return at;
        at++;
    }
    while (at < bound && !is_control(data[at]))
        at++;
    return at;
}

/* Returns where the empty line ends, for lines that begin at `start`; or 0, -400, -431. */
static int64_t find_end(const char *data, size_t start, size_t size, size_t limit, size_t *seen)
{
    size_t bound = size < limit ? size : limit;
    size_t at = *seen > start ? *seen : start;
    for (;;) {
        at = next_control(data, at, bound);
        if (at == bound)
            break;
        if (data[at] != '\r')
            return -400;
        if (at + 1 == bound)
            break;
        if (data[at + 1] != '\n')
            return -400;
        if (at == start || data[at - 1] == '\n')
            return (int64_t)at + 2;
        at += 2;
    }
    *seen = at;
    return size >= limit ? -431 : 0;
}

/* Returns where the first line begins, behind at most two empty ones; -1 if that is not known yet;
 * -400. */
static int64_t find_start(const char *data, size_t size)
{
    size_t start = 0;
    while (start < 4 && start < size && data[start] == '\r') {
        if (start + 1 == size)
            return -1;
        if (data[start + 1] != '\n')
            return -400;
        start += 2;
    }
    if (start == size)
        return -1;
    return is_a(data[start], TOKEN) ? (int64_t)start : -400;
}

/* ---- the request line ---- */

/* Skips the address in brackets that begins at `at`; NULL if it is none. Its form is enough, since
 * no connection is made to it. */
static const char *skip_brackets(const char *at, const char *end)
{
    int colons = 0;
    for (at++; at < end && *at != ']'; at++) {
        char digit = lower(*at);
        if (!is_digit(digit) && !(digit >= 'a' && digit <= 'f') && digit != ':' && digit != '.')
            return NULL;
        colons += digit == ':';
    }
    return at < end && colons >= 2 ? at + 1 : NULL;
}

/* host [":" port], as in Host and in a target. */
static bool is_authority(const char *at, size_t size, bool needs_host, bool needs_port)
{
    const char *end = at + size, *host = at;
    if (size > 0 && *at == '[') {
        at = skip_brackets(at, end);
        if (at == NULL)
            return false;
    } else {
        while (at < end && is_a(*at, HOST))
            at++;
    }
    if (at == host && (needs_host || at < end))
        return false;
    if (at == end)
        return !needs_port;
    if (*at++ != ':' || end - at > 5 || (needs_port && at == end))
        return false;
    uint32_t port = 0;
    for (; at < end; at++) {
        if (!is_digit(*at))
            return false;
        port = port * 10 + (uint32_t)(*at - '0');
    }
    return port <= 65535;
}

/* Parses a target with scheme and authority, and leaves path and query as the target. Moves the
 * authority one byte to the left, to make room for the slash of a target without a path. */
static bool read_absolute(struct head *head, struct facts *facts)
{
    char *at = head->target, *end = at + head->target_size;
    size_t scheme = head->target_size > 8 && same_word(at, "https://", 8) ? 8 : 7;
    if (head->target_size <= scheme || (scheme == 7 && !same_word(at, "http://", 7)))
        return false;
    char *authority = at + scheme, *path = authority;
    while (path < end && *path != '/' && *path != '?')
        path++;
    size_t size = (size_t)(path - authority);
    if (!is_authority(authority, size, true, false))
        return false;
    memmove(authority - 1, authority, size);
    facts->authority = (struct span){authority - 1, size};
    if (path == end || *path == '?') {
        bool all = path == end && strcmp(head->method, "OPTIONS") == 0;
        *--path = all ? '*' : '/';
    }
    head->target = path;
    head->target_size = (uint32_t)(end - path);
    return true;
}

static bool read_target(struct head *head, struct facts *facts)
{
    char *target = head->target;
    bool connect = head->method_size == 7 && memcmp(head->method, "CONNECT", 7) == 0;
    if (connect) {
        if (!is_authority(target, head->target_size, true, true))
            return false;
    } else if (target[0] == '*') {
        if (head->target_size != 1 || strcmp(head->method, "OPTIONS") != 0)
            return false;
    } else if (target[0] != '/' && !read_absolute(head, facts)) {
        return false;
    }
    char *mark = connect ? NULL : memchr(head->target, '?', head->target_size);
    head->query = mark != NULL ? mark + 1 : head->target + head->target_size;
    return true;
}

/* Parses the request line. Returns where the fields begin; NULL with *status. */
static char *read_line(struct head *head, struct facts *facts, char *at, int *status)
{
    *status = -400;
    head->method = at;
    while (is_a(*at, TOKEN))
        at++;
    head->method_size = (uint32_t)(at - head->method);
    if (*at != ' ')
        return NULL;
    *at++ = '\0';

    head->target = at;
    while (is_a(*at, TARGET))
        at++;
    head->target_size = (uint32_t)(at - head->target);
    if (head->target_size == 0 || *at != ' ')
        return NULL;
    *at++ = '\0';

    /* The line ends with a CR, so no comparison reads beyond it. */
    if (strncmp(at, "HTTP/", 5) != 0 || !is_digit(at[5]) || at[6] != '.' || !is_digit(at[7]) ||
        at[8] != '\r')
        return NULL;
    if (at[5] != '1') {
        *status = -505;
        return NULL;
    }
    head->version = at[7] == '0' ? 10 : 11;
    return read_target(head, facts) ? at + 10 : NULL;
}

/* ---- fields ---- */

/* Parses the field in the line at `at`, of lines that end before `end`. Returns the next line; NULL
 * if it is malformed. */
static char *read_field(struct field *field, char *at, const char *end)
{
    field->name = at;
    while (is_a(*at, TOKEN))
        at++;
    field->name_size = (uint32_t)(at - field->name);
    if (field->name_size == 0 || *at != ':')
        return NULL;
    *at++ = '\0';
    while (is_blank(*at))
        at++;
    char *next = memchr(at, '\r', (size_t)(end - at)), *last = next;
    while (last > at && is_blank(last[-1]))
        last--;
    *last = '\0';
    field->value = at;
    field->value_size = (uint32_t)(last - at);
    return next + 2;
}

/* Takes the next member, perhaps an empty one, and the blanks around it from a list. Returns false
 * if there is none. */
static bool next_member(struct span *list, struct span *member)
{
    if (list->at == NULL)
        return false;
    char *comma = memchr(list->at, ',', list->size);
    size_t size = comma != NULL ? (size_t)(comma - list->at) : list->size;
    *member = (struct span){list->at, size};
    if (comma != NULL)
        *list = (struct span){comma + 1, list->size - size - 1};
    else
        list->at = NULL;
    while (member->size > 0 && is_blank(*member->at)) {
        member->at++;
        member->size--;
    }
    while (member->size > 0 && is_blank(member->at[member->size - 1]))
        member->size--;
    return true;
}

static bool read_length(const struct field *field, int64_t *length)
{
    uint64_t sum = 0;
    if (field->value_size == 0)
        return false;
    for (const char *at = field->value; at < field->value + field->value_size; at++) {
        if (!is_digit(*at) || sum > (uint64_t)INT64_MAX / 10)
            return false;
        sum = sum * 10 + (uint64_t)(*at - '0');
    }
    if (sum > (uint64_t)INT64_MAX)
        return false;
    *length = (int64_t)sum;
    return true;
}

static void note_coding(struct facts *facts, struct span member)
{
    facts->codings++;
    facts->chunked_last = is_word(member, "chunked");
    facts->chunked += facts->chunked_last;
    facts->bad_coding |= member.size == 0;
}

static void note_option(struct facts *facts, struct span member)
{
    if (is_word(member, "close"))
        facts->close = true;
    else if (is_word(member, "keep-alive"))
        facts->persist = true;
    else if (is_word(member, "upgrade"))
        facts->upgrade_named = true;
}

/* Notes what a field means for the connection. Returns false if it is refused. */
static bool note_field(struct head *head, struct facts *facts, const struct field *field)
{
    struct span list = {field->value, field->value_size}, member;
    switch (field->name_size) {
    case 2:
        if (is_named(field, "te"))
            while (next_member(&list, &member))
                head->trailers_wanted |= is_word(member, "trailers");
        break;
    case 4:
        if (is_named(field, "host")) {
            facts->host = field;
            facts->hosts++;
        }
        break;
    case 6:
        if (is_named(field, "expect"))
            while (next_member(&list, &member)) {
                bool known = is_word(member, "100-continue");
                head->expects_continue |= known;
                facts->expects_other |= !known;
            }
        break;
    case 7:
        facts->upgrade_given |= is_named(field, "upgrade");
        break;
    case 10:
        if (is_named(field, "connection"))
            while (next_member(&list, &member))
                note_option(facts, member);
        break;
    case 14:
        if (is_named(field, "content-length"))
            return ++facts->lengths == 1 && read_length(field, &head->length);
        break;
    case 17:
        if (is_named(field, "transfer-encoding"))
            while (next_member(&list, &member))
                note_coding(facts, member);
        break;
    default:
        break;
    }
    return true;
}

/* ---- the whole head ---- */

static bool hosts_agree(const struct head *head, const struct facts *facts)
{
    if (facts->hosts != 1)
        return facts->hosts == 0 && head->version == 10;
    const struct field *host = facts->host;
    if (!is_authority(host->value, host->value_size, false, false))
        return false;
    return facts->authority.at == NULL ||
           (facts->authority.size == host->value_size &&
            same_word(facts->authority.at, host->value, host->value_size));
}

/* Returns 0 or the negative status. */
static int judge(struct head *head, const struct facts *facts)
{
    bool old = head->version == 10;
    if (!hosts_agree(head, facts))
        return -400;
    if (facts->codings > 0) {
        if (facts->lengths > 0 || old || facts->bad_coding || !facts->chunked_last ||
            facts->chunked > 1)
            return -400;
        if (facts->codings > 1)
            return -501;
        head->length = -1;
    }
    if (facts->expects_other && !old)
        return -417;
    head->expects_continue &= !old;
    head->keep_alive = !facts->close && (!old || facts->persist);
    head->upgrade = !old && facts->upgrade_named && facts->upgrade_given;
    return 0;
}

static void clear(struct head *head)
{
    head->method = head->target = NULL;
    head->version = 0;
    head->count = 0;
    head->length = 0;
    head->expects_continue = false;
    head->trailers_wanted = false;
}

int64_t weft__http_parse_head(struct head *head, char *data, size_t size, size_t limit,
                              size_t *seen)
{
    size_t bound = size < limit ? size : limit;
    int64_t start = find_start(data, bound);
    clear(head);
    if (start < 0)
        return start == -400 ? -400 : size >= limit ? -431 : 0;
    int64_t end = find_end(data, (size_t)start, size, limit, seen);
    if (end <= 0)
        return end;

    struct facts facts = {0};
    int status;
    char *at = read_line(head, &facts, data + start, &status), *empty = data + end - 2;
    if (at == NULL) {
        head->method = NULL;
        return status;
    }
    while (at < empty) {
        if (head->count == head->most)
            return -431;
        struct field *field = &head->fields[head->count];
        at = read_field(field, at, empty);
        if (at == NULL || !note_field(head, &facts, field))
            return -400;
        head->count++;
    }
    status = judge(head, &facts);
    return status < 0 ? status : end;
}

/* Skips characters of a class. */
static char *skip(char *at, const char *end, int class)
{
    while (at < end && is_a(*at, class))
        at++;
    return at;
}

/* Whether a part of a line ends at `at`: with a space, or the zero that read_line put in its
 * place. */
static bool is_separated(const char *at, const char *end)
{
    return at < end && (*at == ' ' || *at == '\0');
}

void weft__http_parse_remains(struct head *head, char *data, size_t size)
{
    if (head->method != NULL || size == 0)
        return;
    char *end = data + size - 1, *at = data; /* the last byte becomes a zero */
    for (int i = 0; i < 4 && at < end && (*at == '\r' || *at == '\n'); i++)
        at++;
    char *method = at;
    at = skip(at, end, TOKEN);
    if (at == method || !is_separated(at, end))
        return;
    *at++ = '\0';
    char *target = at;
    at = skip(at, end, TARGET);
    if (at == target)
        return;
    head->method = method;
    head->target = target;
    bool more = is_separated(at, end);
    *at++ = '\0';
    if (more && end - at >= 8 && memcmp(at, "HTTP/1.", 7) == 0 && is_digit(at[7]))
        head->version = at[7] == '0' ? 10 : 11;
}

int64_t weft__http_parse_fields(struct field *fields, int most, int *count, char *data, size_t size,
                                size_t limit, size_t *seen)
{
    int64_t end = find_end(data, 0, size, limit, seen);
    if (end <= 0)
        return end;
    int found = 0;
    char *at = data, *empty = data + end - 2;
    while (at < empty) {
        if (found == most)
            return -431;
        at = read_field(&fields[found++], at, empty);
        if (at == NULL)
            return -400;
    }
    *count = found;
    return end;
}

/* ---- queries ---- */

const struct field *weft__http_find_field(const struct field *fields, int count, const char *name)
{
    size_t size = strlen(name);
    for (int i = 0; i < count; i++)
        if (fields[i].name_size == size && same_word(fields[i].name, name, size))
            return &fields[i];
    return NULL;
}

bool weft__http_field_has(const struct field *fields, int count, const char *name, const char *word)
{
    size_t size = strlen(name);
    for (int i = 0; i < count; i++) {
        if (fields[i].name_size != size || !same_word(fields[i].name, name, size))
            continue;
        struct span list = {fields[i].value, fields[i].value_size}, member;
        while (next_member(&list, &member))
            if (is_word(member, word))
                return true;
    }
    return false;
}

bool weft__http_is_token(const char *text)
{
    const char *at = text;
    while (is_a(*at, TOKEN))
        at++;
    return at > text && *at == '\0';
}

bool weft__http_is_value(const char *text)
{
    while (*text != '\0' && !is_control(*text))
        text++;
    return *text == '\0';
}
