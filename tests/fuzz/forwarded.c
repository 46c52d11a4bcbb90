/*
 * forwarded.c: fields invented by a client, alone and in front of those that proxies add, which
 * count.
 */
#include "http/forwarded.h"

#include "fuzz.h"

static struct networks *trusted;

static struct peer client_of(weft_http_forwarding which, const char *name, char *value, size_t size)
{
    struct field field = {.name = (char *)(uintptr_t)name,
                          .value = value,
                          .name_size = (uint32_t)strlen(name),
                          .value_size = (uint32_t)size};
    struct peer client;
    CHECK(weft__http_peer_parse("10.0.0.1", &client));
    client.trusted = true;
    weft__http_forwarded(which, &field, 1, trusted, &client);
    CHECK(client.family == 4 || client.family == 6);
    CHECK_EQ(client.trusted, weft__http_networks_have(trusted, &client));
    return client;
}

static void check(weft_http_forwarding which, const char *name, const uint8_t *data, size_t size,
                  const char *added)
{
    size_t added_size = strlen(added);
    char *value = malloc(size + added_size + 1);
    CHECK(value != NULL);
    if (size > 0)
        memcpy(value, data, size);
    value[size] = '\0';
    (void)client_of(which, name, value, size);
    memcpy(value + size, added, added_size + 1);
    struct peer client = client_of(which, name, value, size + added_size), expected;
    CHECK(weft__http_peer_parse("192.0.2.1", &expected));
    CHECK(client.family == 4 && memcmp(client.ip, expected.ip, 4) == 0);
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)fuzz_prng(data, size);
    if (trusted == NULL)
        CHECK_EQ(weft__http_networks_open(&trusted, "10.0.0.0/8"), 0);
    check(WEFT_HTTP_X_FORWARDED_FOR, "X-Forwarded-For", data, size, ", 192.0.2.1, 10.0.0.2");
    check(WEFT_HTTP_FORWARDED, "Forwarded", data, size,
          ", for=\"192.0.2.1:80\";by=\"a,\\\"\", for=10.0.0.2");
    return 0;
}
