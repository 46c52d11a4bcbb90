/*
 * networks.c: the list of trusted proxies.
 */
#include "http/networks.h"

#include <arpa/inet.h>

#include "peer_of.h"
#include "test.h"

static bool has(const char *list, const char *address)
{
    struct networks *networks;
    struct peer peer = peer_of(address);
    CHECK_EQ(weft__http_networks_open(&networks, list), 0);
    bool found = weft__http_networks_have(networks, &peer);
    weft__http_networks_close(networks);
    return found;
}

static void networks_have_addresses(void)
{
    static const struct {
        const char *list, *address;
        bool there;
    } rows[] = {
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.2", false},
        {"127.0.0.1/32", "127.0.0.1", true},
        {"10.0.0.0/8", "10.255.255.255", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/8", "9.255.255.255", false},
        {"172.16.0.0/12", "172.31.255.255", true},
        {"172.16.0.0/12", "172.32.0.0", false},
        {"192.0.2.128/25", "192.0.2.127", false},
        {"192.0.2.128/25", "192.0.2.128", true},
        {"192.0.2.4/31", "192.0.2.5", true},
        {"192.0.2.4/31", "192.0.2.6", false},
        {"0.0.0.0/0", "255.1.2.3", true},
        {"0.0.0.0/0", "2001:db8::1", false},
        {"::/0", "2001:db8::1", true},
        {"::/0", "10.0.0.1", false},
        {"::1", "::1", true},
        {"::1", "::2", false},
        {"::1", "0.0.0.1", false},
        {"2001:db8::/32", "2001:db8:ffff::1", true},
        {"2001:db8::/32", "2001:db9::", false},
        {"2001:db8:0:8000::/49", "2001:db8:0:ffff::", true},
        {"2001:db8:0:8000::/49", "2001:db8:0:7fff::", false},
        /* IPv4 in IPv6 is IPv4, on either side. */
        {"10.0.0.0/8", "::ffff:10.1.2.3", true},
        {"::ffff:10.0.0.0/104", "10.1.2.3", true},
        {"::ffff:10.0.0.0/104", "11.1.2.3", false},
        {"::ffff:10.1.2.3", "10.1.2.3", true},
        {"::/0", "::ffff:10.1.2.3", false},
        /* Lists. */
        {"unix, ::1,10.0.0.0/8\t192.0.2.1", "192.0.2.1", true},
        {" ,10.0.0.0/8, ,::1 ", "::1", true},
        {"unix", "127.0.0.1", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (has(rows[i].list, rows[i].address) != rows[i].there)
            test_fail(__FILE__, __LINE__, "%s in %s: not %d", rows[i].address, rows[i].list,
                      rows[i].there);
}

static void unix_sockets_have_no_address(void)
{
    struct networks *networks;
    struct peer unknown = {.family = 0};
    CHECK(!weft__http_networks_have(NULL, &unknown));
    CHECK_EQ(weft__http_networks_open(&networks, "0.0.0.0/0 ::/0"), 0);
    CHECK(!weft__http_networks_have(networks, &unknown));
    weft__http_networks_close(networks);
    CHECK_EQ(weft__http_networks_open(&networks, "127.0.0.1,unix"), 0);
    CHECK(weft__http_networks_have(networks, &unknown));
    weft__http_networks_close(networks);
    weft__http_networks_close(NULL);
}

static void slips_are_refused(void)
{
    static const char *const lists[] = {
        "",
        ",",
        " ",
        "localhost",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/08",
        "10.0.0.0/8x",
        "10.0.0.1/8",
        "10.0.0/8",
        "10.0.0.256",
        "::1/129",
        "2001:db8::1/32",
        "::ffff:10.0.0.0/95",
        "::ffff:10.0.0.1/104",
        "/8",
        "10.0.0.0/8/8",
        "[::1]",
        "127.0.0.1:80",
        "fe80::1%lo",
        "UNIX",
        "tcp:127.0.0.1:80",
        "127.0.0.1;::1",
        "10.0.0.0/0000000000000000000000000000000000000000000000000000000000000008",
    };
    struct networks *networks;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (weft__http_networks_open(&networks, lists[i]) != -EINVAL)
            test_fail(__FILE__, __LINE__, "\"%s\" was taken", lists[i]);
}

int main(void)
{
    RUN(networks_have_addresses);
    RUN(unix_sockets_have_no_address);
    RUN(slips_are_refused);
    return 0;
}
