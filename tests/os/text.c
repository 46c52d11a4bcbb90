/*
 * text.c: reports and warnings are cut off where they do not fit, and code addresses have names
 * where there are any.
 */
#include "os/text.h"

#include "base/assert.h"
#include "kernel.h"
#include "os/os.h"

/* dladdr knows nothing of the address (0), or of the name of its file (1), as in a static
 * program. */
FAKE_WITH(int, dladdr, (const void *address, Dl_info *info), (address, info),
          (info->dli_fname = NULL, info->dli_fbase = NULL, fake_dladdr.error))

static void pieces_make_a_text(void)
{
    char bytes[16];
    struct text text = {bytes, sizeof bytes, 0};
    weft__text_add(&text, "%s", ""); /* adds nothing */
    CHECK_EQ(text.used, 0);
    weft__text_add(&text, "%d, ", 12);
    weft__text_add(&text, "%s", "thirteen");
    CHECK_EQ(text.used, 12);
    CHECK_STR(bytes, "12, thirteen");
    weft__text_add(&text, "%s", ", fourteen");
    CHECK_EQ(text.used, 15);
    CHECK_STR(bytes, "12, thirteen, f");
    weft__text_add(&text, "%s", "more"); /* there is no room at all */
    CHECK_EQ(text.used, 15);
    CHECK_STR(bytes, "12, thirteen, f");
}

static void write_text(void)
{
    char bytes[16];
    struct text text = {bytes, sizeof bytes, 0};
    weft__text_add(&text, "said");
    weft__text_write(&text);
    CHECK_EQ(text.used, 0);
    weft__text_write(&text);
}

static void a_text_is_one_write(void)
{
    CHECK_STR(test_stderr_of(write_text), "said");
}

static char many[2000];

static void warn_much(void)
{
    memset(many, 'x', sizeof many - 1);
    weft__warn("%s", many);
}

static void warn_nothing(void)
{
    weft__warn("%s", "");
}

static void warnings_are_lines(void)
{
    CHECK_STR(test_stderr_of(warn_nothing), "weft: \n");
    const char *said = test_stderr_of(warn_much);
    size_t length = strlen(said);
    CHECK(length < sizeof many && length > 500);
    CHECK_EQ(strncmp(said, "weft: xxx", 9), 0);
    CHECK_STR(said + length - 2, "x\n");
    CHECK_EQ(strspn(said + 6, "x"), length - 7);
}

static void addresses_have_names(void)
{
    char text[256], expected[64];
    void *known = (void *)(uintptr_t)getppid; /* libc exports it */
    void *nowhere = (void *)(uintptr_t)16;
    size_t length = weft__os_address_text(known, text, sizeof text);
    CHECK_EQ(strlen(text), length);
    CHECK(strstr(text, "getppid+0x0)[") != NULL);
    length = weft__os_address_text(&many, text, sizeof text); /* in the program, without a name */
    CHECK_EQ(strlen(text), length);
    CHECK(strstr(text, "(+0x") != NULL);
    snprintf(expected, sizeof expected, "[%p]", nowhere);
    CHECK_EQ(weft__os_address_text(nowhere, text, sizeof text), strlen(expected));
    CHECK_STR(text, expected);
    KERNEL_SAYS(dladdr, 1, 1); /* in a program that was started without its name */
    snprintf(expected, sizeof expected, "[%p]", known);
    CHECK_EQ(weft__os_address_text(known, text, sizeof text), strlen(expected));
    CHECK_STR(text, expected);
    CHECK_EQ(weft__os_address_text(known, text, 8), 7);
    CHECK_EQ(strlen(text), 7);
}

static void code_is_told_apart(void)
{
    void *libc = (void *)(uintptr_t)puts, *weft = (void *)(uintptr_t)weft__text_add;
    void *program = (void *)(uintptr_t)warn_much;
    CHECK(weft__os_own_code(weft) && !weft__os_own_code(program) && !weft__os_own_code(libc));
    CHECK(!weft__os_libc_code(weft) && !weft__os_libc_code(program));
    CHECK(!weft__os_libc_code((void *)(uintptr_t)16));
#if !WEFT_ASAN && !WEFT_TSAN /* there both are the sanitizer's */
    CHECK(weft__os_libc_code(libc));
    KERNEL_SAYS(dladdr, 1, 3); /* there is one file, with the program's code in it */
    CHECK(!weft__os_libc_code(libc));
    for (uint32_t i = 0; i < 3; i++) { /* it cannot be known */
        KERNEL_SAYS_AFTER(dladdr, i, 0, 1);
        CHECK(!weft__os_libc_code(libc));
    }
#endif
}

int main(void)
{
    RUN_ALL_PLAIN("no fibers", pieces_make_a_text, a_text_is_one_write, warnings_are_lines,
                  addresses_have_names, code_is_told_apart);
    return 0;
}
