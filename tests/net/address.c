/*
 * address.c: addresses: from text to value and back, and what is refused.
 */
#include <sys/socket.h>

#include "net.h"

static void texts_become_addresses_and_texts(void)
{
    static const char *const pairs[][2] = {
        {"tcp:127.0.0.1:80", "tcp:127.0.0.1:80"},
        {"tcp:0.0.0.0:0", "tcp:0.0.0.0:0"},
        {"udp:255.255.255.255:65535", "udp:255.255.255.255:65535"},
        {"tcp:[::1]:0", "tcp:[::1]:0"},
        {"udp:[2001:db8:0:0::1]:53", "udp:[2001:db8::1]:53"},
        {"tcp:[fe80::1%3]:80", "tcp:[fe80::1%3]:80"},
        {"tcp::8080", "tcp:[::]:8080"},
        {"unix:/run/a.sock", "unix:/run/a.sock"},
        {"unix:relative:with:colons", "unix:relative:with:colons"},
        {"unix:@name", "unix:@name"},
        {"unixgram:/run/a.sock", "unixgram:/run/a.sock"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        weft_address address;
        char made[WEFT_ADDRESS_TEXT];
        CHECK_EQ(weft_address_parse(&address, pairs[i][0]), 0);
        CHECK_EQ(weft_address_format(&address, made, sizeof made), 0);
        CHECK_STR(made, pairs[i][1]);
    }
}

static void invalid_texts(void)
{
    static const char *const wrong[] = {
        /* clang-format off */
        "", "tcp", "tcp:", "http:127.0.0.1:80", "127.0.0.1:80", "tcp:127.0.0.1", "tcp:127.0.0.1:",
        "tcp:127.0.0.1:x", "tcp:127.0.0.1:80x", "tcp:127.0.0.1:-1", "tcp:127.0.0.1:65536",
        "tcp:127.0.0.1:99999999999999999999", "tcp:::1:80", "tcp:[::1]", "tcp:[::1]80",
        "tcp:[::1:80", "tcp:[::g]:80", "tcp:[127.0.0.1]:80", "tcp:[fe80::1%nolink0]:80",
        "tcp:[fe80::1%]:80", "unix:",
        /* clang-format on */
    };
    weft_address poison, address;
    memset(&poison, 0x5a, sizeof poison);
    address = poison;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (weft_address_parse(&address, wrong[i]) != -EINVAL)
            test_fail(__FILE__, __LINE__, "taken for an address: %s", wrong[i]);
    char path[256] = "unix:/";
    memset(path + 6, 'x', 200);
    CHECK_EQ(weft_address_parse(&address, path), -ENAMETOOLONG);
    CHECK_EQ(weft_address_parse(&address, "tcp:no.such.name:80"), -EADDRNOTAVAIL);
    CHECK_EQ(weft_address_parse(&address, "tcp:127.0.0.256:80"), -EADDRNOTAVAIL);
    CHECK_EQ(weft_address_parse(NULL, "tcp:127.0.0.1:80"), -EINVAL);
    CHECK_EQ(weft_address_parse(&address, NULL), -EINVAL);
    CHECK(memcmp(&address, &poison, sizeof poison) == 0);
}

static void texts_need_room(void)
{
    weft_address address, none = {0};
    char text[32] = "poison";
    CHECK_EQ(weft_address_parse(&address, "tcp:127.0.0.1:80"), 0);
    CHECK_EQ(weft_address_format(&address, text, 16), -ENOSPC);
    CHECK_STR(text, "poison");
    CHECK_EQ(weft_address_format(&address, text, 17), 0);
    CHECK_EQ(weft_address_format(&none, text, 1), 0);
    CHECK_STR(text, "");
    CHECK_EQ(weft_address_format(NULL, text, sizeof text), -EINVAL);
    CHECK_EQ(weft_address_format(&address, NULL, 1), -EINVAL);
    CHECK_EQ(weft_address_port(&address), 80);
    CHECK_EQ(weft_address_port(&none), 0);
    CHECK_EQ(weft_address_port(NULL), 0);
    CHECK_EQ(weft_address_parse(&address, "udp:[::1]:4242"), 0);
    CHECK_EQ(weft_address_port(&address), 4242);
}

static void the_longest_path_fits(void)
{
    weft_address address;
    char path[] = "unix:/23456789012345678901234567890123456789012345678901234567890123456789012345"
                  "67890123456789012345678901234567";
    char text[WEFT_ADDRESS_TEXT];
    CHECK_EQ(strlen(path), 5 + 107);
    CHECK_EQ(weft_address_parse(&address, path), 0);
    CHECK_EQ(weft_address_format(&address, text, sizeof text), 0);
    CHECK_STR(text, path);
}

static void invalid_values(void)
{
    static char text[WEFT_ADDRESS_TEXT + 8];
    weft_address address;
    char long_name[400];
    memset(long_name, 'a', sizeof long_name);
    memcpy(long_name, "tcp:", 4);
    strcpy(long_name + sizeof long_name - 4, ":80");
    CHECK_EQ(weft_address_parse(&address, long_name), -EINVAL);
    CHECK_EQ(weft_address_parse(&address, "tcp:[fe80::1%99999999999]:80"), -EINVAL);
    CHECK_EQ(weft_address_parse(&address, "tcp:[fe80::1%1]:80"), 0);

    /* Other families, and addresses that are too short for their family. */
    address.size = sizeof address.bytes + 1;
    CHECK_EQ(weft_address_format(&address, text, sizeof text), -EINVAL);
    static const sa_family_t families[] = {AF_INET, AF_INET6, AF_PACKET};
    for (size_t i = 0; i < 3; i++) {
        address = (weft_address){.size = 4, .type = SOCK_STREAM};
        memcpy(address.bytes, &families[i], sizeof families[i]);
        CHECK_EQ(weft_address_format(&address, text, sizeof text), -EINVAL);
    }
    address.size = 0; /* of an unnamed socket */
    CHECK_EQ(weft_address_format(&address, text, sizeof text), 0);
    CHECK_STR(text, "");
}

int main(void)
{
    RUN_PLAIN(texts_become_addresses_and_texts, "nothing here is a fiber");
    RUN_PLAIN(invalid_texts, "nothing here is a fiber");
    RUN_PLAIN(invalid_values, "nothing here is a fiber");
    RUN_PLAIN(texts_need_room, "nothing here is a fiber");
    RUN_PLAIN(the_longest_path_fits, "nothing here is a fiber");
    return 0;
}
