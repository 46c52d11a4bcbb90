/*
 * tls_keys.c: certificates and keys of a listener, and the reports of those that cannot be used.
 */
#include <sys/stat.h>

#include "certificates.h"
#include "http/tls.h"
#include "seeds.h"

static weft_http_tls given;
static int expected;

static weft_http_tls files(void)
{
    return (weft_http_tls){.certificate = in_folder("chain.pem"), .key = in_folder("key.pem")};
}

static void open_given(void)
{
    struct tls_keys *untouched = (struct tls_keys *)&given, *keys = untouched;
    CHECK_EQ(weft__http_tls_keys_open(&keys, &given), expected);
    if (expected == 0)
        weft__http_tls_keys_close(keys);
    else
        CHECK_PTR(keys, untouched);
}

/* One line on stderr, which begins with `about`, and has `text` in it. */
static void refused(weft_http_tls options, int error, const char *about, const char *text)
{
    given = options;
    expected = error;
    const char *said = test_stderr_of(open_given);
    fputs(said, stdout);
    CHECK_EQ(strncmp(said, "weft: http: ", 12), 0);
    CHECK_EQ(strncmp(said + 12, about, strlen(about)), 0);
    CHECK_EQ(strncmp(said + 12 + strlen(about), ": ", 2), 0);
    CHECK(strstr(said, text) != NULL);
    CHECK_PTR(strchr(said, '\n'), said + strlen(said) - 1);
}

static void refused_in_silence(weft_http_tls options)
{
    given = options;
    expected = -EINVAL;
    CHECK_STR(test_stderr_of(open_given), "");
}

static void good_ones(void)
{
    given = files();
    expected = 0;
    CHECK_STR(test_stderr_of(open_given), "");
    given.min_version = 12;
    CHECK_STR(test_stderr_of(open_given), "");
    given.min_version = 13;
    given.ciphers = "HIGH";
    CHECK_STR(test_stderr_of(open_given), "");
    weft__http_tls_keys_close(NULL);
}

static void what_is_no_option(void)
{
    struct tls_keys *keys;
    CHECK_EQ(weft__http_tls_keys_open(&keys, NULL), -EINVAL);
    weft_http_tls options = files();
    options.certificate = NULL;
    refused_in_silence(options);
    options = files();
    options.key = NULL;
    refused_in_silence(options);
    options = files();
    options.reserved[3] = 1;
    refused_in_silence(options);
    static const int versions[] = {-1, 1, 10, 11, 14};
    for (int i = 0; i < 5; i++) {
        options = files();
        options.min_version = versions[i];
        refused_in_silence(options);
    }
    options = files();
    options.ciphers = "NO-SUCH-CIPHER";
    refused(options, -EINVAL, "NO-SUCH-CIPHER", "no cipher match");
}

static void files_that_are_not_there(void)
{
    weft_http_tls options = files();
    options.certificate = "/no/such/chain.pem";
    refused(options, -ENOENT, options.certificate, weft_strerror(ENOENT));
    options = files();
    options.key = "/no/such/key.pem";
    refused(options, -ENOENT, options.key, weft_strerror(ENOENT));
    options = files();
    options.ocsp = "/no/such/staple.der";
    refused(options, -ENOENT, options.ocsp, weft_strerror(ENOENT));
    options.ocsp = options.key;
    refused(options, -EINVAL, options.ocsp, "there is no OCSP response in it");
    options = files();
    options.certificate = certificates_folder;
    refused(options, -EINVAL, options.certificate, "there is no certificate in it");
}

/* Root may read everything, so the test is another user meanwhile: the folder is root's alone. */
static void files_that_may_not_be_read(void)
{
    weft_http_tls options = files();
    bool root = geteuid() == 0;
    if (root)
        CHECK_EQ(seteuid(65534), 0);
    else
        CHECK_EQ(chmod(options.certificate, 0), 0);
    refused(options, -EACCES, options.certificate, weft_strerror(EACCES));
    if (root)
        CHECK_EQ(seteuid(0), 0);
    else
        CHECK_EQ(chmod(options.certificate, 0600), 0);
}

static void files_that_are_something_else(void)
{
    weft_http_tls options = files();
    FILE *file = new_file("empty.pem");
    fclose(file);
    options.certificate = in_folder("empty.pem");
    refused(options, -EINVAL, options.certificate, "there is no certificate in it");
    options = files();
    options.key = in_folder("empty.pem");
    refused(options, -EINVAL, options.key, "there is no private key in it");
    options.key = in_folder("root.pem");
    refused(options, -EINVAL, options.key, "there is no private key in it");
    options = files();
    options.certificate = in_folder("key.pem");
    refused(options, -EINVAL, options.certificate, "there is no certificate in it");
}

static void the_key_of_another(void)
{
    weft_http_tls options = files();
    options.key = in_folder("other.pem");
    refused(options, -EINVAL, options.key, "the key is not that of the certificate");
    options.key = in_folder("rsa.pem");
    refused(options, -EINVAL, options.key, "the key is not that of the certificate");
}

static void a_key_behind_a_password(void)
{
    weft_http_tls options = files();
    options.key = in_folder("locked.pem");
    refused(options, -EINVAL, options.key, "the key is encrypted");
}

int main(void)
{
    certificates_make();
    RUN_PLAIN(good_ones, "one thread");
    RUN_PLAIN(what_is_no_option, "one thread");
    RUN_PLAIN(files_that_are_not_there, "one thread");
    RUN_PLAIN(files_that_may_not_be_read, "one thread");
    RUN_PLAIN(files_that_are_something_else, "one thread");
    RUN_PLAIN(the_key_of_another, "one thread");
    RUN_PLAIN(a_key_behind_a_password, "one thread");
    certificates_remove();
    return 0;
}
