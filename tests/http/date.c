/*
 * date.c: dates to text and back, without a server. The test sets the time (--wrap).
 */
#include <time.h>

#include "http/date.h"
#include "http/sys.h"
#include "test.h"

enum { DAY = 86400 };

static const int64_t in_2026 = 1767225600; /* it begins */

static int64_t now;

int64_t __wrap_weft__http_seconds(void);
int64_t __wrap_weft__http_seconds(void)
{
    return now;
}

struct dated {
    const char *text;
    int64_t seconds;
};

/* In memory of its own, so that a sanitizer sees a read behind it. */
static int64_t seconds_of(const char *text)
{
    char *copy = strdup(text);
    CHECK(copy != NULL);
    int64_t seconds = weft__http_date_parse(copy);
    free(copy);
    return seconds;
}

static void check_all(const struct dated *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (seconds_of(all[i].text) != all[i].seconds)
            test_fail(__FILE__, __LINE__, "%s: %lld, not %lld", all[i].text,
                      (long long)seconds_of(all[i].text), (long long)all[i].seconds);
}

#define CHECK_ALL(table) check_all(table, sizeof(table) / sizeof(table)[0])

static void dates_are_written_and_read(void)
{
    static const struct dated table[] = {
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Tue, 29 Feb 2000 23:59:59 GMT", 951868799},
        {"Wed, 01 Mar 2000 00:00:00 GMT", 951868800},
        {"Sun, 28 Feb 2100 23:59:59 GMT", 4107542399},
        {"Mon, 01 Mar 2100 00:00:00 GMT", 4107542400},
        {"Fri, 31 Dec 9999 23:59:59 GMT", 253402300799},
        /* before 1970, and as far back as there is a text for it */
        {"Wed, 31 Dec 1969 23:59:59 GMT", -1},
        {"Thu, 01 Mar 1900 00:00:00 GMT", -2203891200},
        {"Mon, 01 Jan 0001 00:00:00 GMT", -62135596800},
        {"Wed, 01 Mar 0000 00:00:00 GMT", -62162035200},
        {"Tue, 29 Feb 0000 23:59:59 GMT", -62162035201},
        {"Sat, 01 Jan 0000 00:00:00 GMT", -62167219200},
    };
    CHECK_ALL(table);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[HTTP_DATE];
        weft__http_date(table[i].seconds, text);
        CHECK_STR(text, table[i].text);
    }
}

/* The C library, which has no locale here, gives the same for each day in 400 years: after these
 * all begins again. */
static void every_day_is_as_the_c_library_says(void)
{
    for (int64_t day = -200 * 365; day < 200 * 365 + 200; day++) {
        time_t seconds = (time_t)(day * DAY + (day + 200 * 365) * 7919 % DAY);
        char text[HTTP_DATE], expected[HTTP_DATE];
        struct tm parts;
        CHECK(gmtime_r(&seconds, &parts) != NULL);
        CHECK_EQ(strftime(expected, sizeof expected, "%a, %d %b %Y %H:%M:%S GMT", &parts),
                 HTTP_DATE - 1);
        weft__http_date(seconds, text);
        CHECK_STR(text, expected);
        CHECK_EQ(weft__http_date_parse(text), seconds);
    }
}

static void older_forms_are_read(void)
{
    static const struct dated table[] = {
        {"Sun Nov  6 08:49:37 1994", 784111777},
        {"Wed Nov 16 08:49:37 1994", 784111777 + 10 * DAY},
        {"Wed Dec 31 23:59:59 1969", -1},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Saturday, 01-Jan-00 00:00:00 GMT", 946684800},
        {"Thursday, 01-Jan-26 00:00:00 GMT", 1767225600},
        /* 50 years ahead, and more: that is the past */
        {"Wednesday, 01-Jan-76 00:00:00 GMT", 3345062400},
        {"Saturday, 01-Jan-77 00:00:00 GMT", 220924800},
    };
    static const struct dated later[] = {
        {"Monday, 01-Jan-80 00:00:00 GMT", 3471292800},
        {"Thursday, 01-Jan-81 00:00:00 GMT", 347155200},
    };
    now = in_2026;
    CHECK_ALL(table);
    now = 1924991999; /* 2030 ends */
    CHECK_ALL(later);
}

static void a_second_that_is_inserted(void)
{
    static const struct dated table[] = {
        {"Sat, 31 Dec 2016 23:59:60 GMT", 1483228800},
        {"Sat, 31 Dec 2016 23:59:61 GMT", HTTP_NO_DATE},
    };
    CHECK_ALL(table);
}

static void days_that_there_are_not(void)
{
    static const struct dated table[] = {
        {"Sun, 00 Nov 1994 08:49:37 GMT", HTTP_NO_DATE},
        {"Sun, 31 Nov 1994 08:49:37 GMT", HTTP_NO_DATE},
        {"Sun, 32 Dec 1994 08:49:37 GMT", HTTP_NO_DATE},
        {"Sun, 61 Dec 1994 08:49:37 GMT", HTTP_NO_DATE},
        {"Sun, 99 Dec 1994 08:49:37 GMT", HTTP_NO_DATE},
        {"Sun, 30 Feb 2000 08:49:37 GMT", HTTP_NO_DATE},
        {"Sun, 29 Feb 2001 08:49:37 GMT", HTTP_NO_DATE},
        {"Sun, 29 Feb 1900 08:49:37 GMT", HTTP_NO_DATE},
        {"Sunday, 00-Nov-94 08:49:37 GMT", HTTP_NO_DATE},
        {"Sunday, 31-Nov-94 08:49:37 GMT", HTTP_NO_DATE},
        {"Sun Nov  0 08:49:37 1994", HTTP_NO_DATE},
        {"Sun Nov 31 08:49:37 1994", HTTP_NO_DATE},
    };
    CHECK_ALL(table);
}

static void texts_that_are_no_dates(void)
{
    static const char *const table[] = {
        "",
        "soon",
        "784111777",
        "1994-11-06T08:49:37Z",
        "Sun, 06 Nov  994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "sun, 06 nov 1994 08:49:37 gmt",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37  994",
        "Sun Nov  6 08:49:37 1994 GMT",
        " Sun, 06 Nov 1994 08:49:37 GMT",
    };
    now = in_2026;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (seconds_of(table[i]) != HTTP_NO_DATE)
            test_fail(__FILE__, __LINE__, "taken for a date: %s", table[i]);
}

/* Each of the forms, cut off anywhere, with more behind it, and with a character that is none of it
 * anywhere. */
static void every_character_counts(void)
{
    static const char *const forms[] = {
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    };
    now = in_2026;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char text[40];
        size_t size = strlen(forms[i]);
        CHECK_EQ(seconds_of(forms[i]), 784111777);
        for (size_t at = 0; at <= size; at++)
            for (const char *other = "!~"; *other != '\0'; other++) {
                memcpy(text, forms[i], size + 1);
                text[size + 1] = '\0';
                text[at] = *other; /* at the end: one more */
                CHECK_EQ(seconds_of(text), HTTP_NO_DATE);
                text[at] = '\0';
                CHECK_EQ(at < size ? seconds_of(text) : HTTP_NO_DATE, HTTP_NO_DATE);
            }
    }
}

int main(void)
{
    RUN_PLAIN(dates_are_written_and_read, "nothing here is a fiber");
    RUN_PLAIN(every_day_is_as_the_c_library_says, "nothing here is a fiber");
    RUN_PLAIN(older_forms_are_read, "nothing here is a fiber");
    RUN_PLAIN(a_second_that_is_inserted, "nothing here is a fiber");
    RUN_PLAIN(days_that_there_are_not, "nothing here is a fiber");
    RUN_PLAIN(texts_that_are_no_dates, "nothing here is a fiber");
    RUN_PLAIN(every_character_counts, "nothing here is a fiber");
    return 0;
}
