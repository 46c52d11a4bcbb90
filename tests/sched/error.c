/*
 * error.c: weft_strerror and weft_version.
 */
#include <limits.h>
#include <string.h>
#include <weft/base.h>

#include "test.h"

static void own_codes_have_own_texts(void)
{
    static const struct {
        int code;
        const char *text;
    } known[] = {
        {0, "success"},
        {EINVAL, "invalid argument"},
        {ENOMEM, "out of memory"},
        {EAGAIN, "a limit is reached, try again later"},
        {ETIMEDOUT, "the deadline passed"},
        {EDEADLK, "this would wait for itself"},
        {EBUSY, "busy"},
        {ECANCELED, "canceled"},
        {ESHUTDOWN, "closed"},
        {ECHILD, "weft does not run in a forked child"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        CHECK_STR(weft_strerror(known[i].code), known[i].text);
        CHECK_STR(weft_strerror(-known[i].code), known[i].text);
    }
}

static void other_codes_have_the_system_s(void)
{
    CHECK_STR(weft_strerror(ENOENT), "No such file or directory");
    CHECK_STR(weft_strerror(-ENOENT), "No such file or directory");
    CHECK_STR(weft_strerror(-EMFILE), strerror(EMFILE)); /* musl has a text of its own */
}

static void unknown_codes_are_unknown(void)
{
    static const int unknown[] = {4000, -4000, 99999, -99999, INT_MAX, -INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        CHECK_STR(weft_strerror(unknown[i]), "unknown error");
}

static void always_a_constant_text(void)
{
    for (int code = -5000; code <= 5000; code++) {
        const char *text = weft_strerror(code);
        CHECK(text != NULL && *text != '\0');
        CHECK_PTR(weft_strerror(code), text);
        CHECK_STR(weft_strerror(-code), text);
    }
}

static void version_is_the_header_s(void)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR,
             WEFT_VERSION_PATCH);
    CHECK_STR(weft_version(), WEFT_VERSION);
    CHECK_STR(weft_version(), text);
}

int main(void)
{
    RUN_ALL_PLAIN("no fibers", own_codes_have_own_texts, other_codes_have_the_system_s,
                  unknown_codes_are_unknown, always_a_constant_text, version_is_the_header_s);
    return 0;
}
