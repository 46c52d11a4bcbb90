/*
 * address.c: addresses, there and back.
 */
#include "net.h"

static void there_and_back(const char *text, const char *expected)
{
    weft_address address;
    char made[WEFT_ADDRESS_TEXT];
    CHECK_EQ(weft_address_parse(&address, text), 0);
    CHECK_EQ(weft_address_format(&address, made, sizeof made), 0);
    CHECK_STR(made, expected);
}

static void texts_become_addresses_and_texts(void)
{
    there_and_back("tcp:127.0.0.1:80", "tcp:127.0.0.1:80");
    there_and_back("tcp:0.0.0.0:0", "tcp:0.0.0.0:0");
    there_and_back("udp:255.255.255.255:65535", "udp:255.255.255.255:65535");
    there_and_back("tcp:[::1]:0", "tcp:[::1]:0");
    there_and_back("udp:[2001:db8:0:0::1]:53", "udp:[2001:db8::1]:53");
    there_and_back("tcp:[fe80::1%3]:80", "tcp:[fe80::1%3]:80");
    there_and_back("tcp::8080", "tcp:[::]:8080");
    there_and_back("unix:/run/a.sock", "unix:/run/a.sock");
    there_and_back("unix:relative:with:colons", "unix:relative:with:colons");
    there_and_back("unix:@name", "unix:@name");
    there_and_back("unixgram:/run/a.sock", "unixgram:/run/a.sock");
}

static void what_is_no_address(void)
{
    static const char *const wrong[] = {"",
                                        "tcp",
                                        "tcp:",
                                        "http:127.0.0.1:80",
                                        "127.0.0.1:80",
                                        "tcp:127.0.0.1",
                                        "tcp:127.0.0.1:",
                                        "tcp:127.0.0.1:x",
                                        "tcp:127.0.0.1:80x",
                                        "tcp:127.0.0.1:-1",
                                        "tcp:127.0.0.1:65536",
                                        "tcp:127.0.0.1:99999999999999999999",
                                        "tcp:::1:80",
                                        "tcp:[::1]",
                                        "tcp:[::1]80",
                                        "tcp:[::1:80",
                                        "tcp:[::g]:80",
                                        "tcp:[127.0.0.1]:80",
                                        "tcp:[fe80::1%nolink0]:80",
                                        "tcp:[fe80::1%]:80",
                                        "unix:"};
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

int main(void)
{
    RUN_PLAIN(texts_become_addresses_and_texts, "nothing here is a fiber");
    RUN_PLAIN(what_is_no_address, "nothing here is a fiber");
    RUN_PLAIN(texts_need_room, "nothing here is a fiber");
    RUN_PLAIN(the_longest_path_fits, "nothing here is a fiber");
    return 0;
}
