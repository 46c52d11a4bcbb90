/*
 * date.c: dates of HTTP: written as RFC 9110 does, parsed in that form and the two older ones that
 * it requires. Gregorian calendar, UTC; independent of the C library's locale and time zone.
 */
#include "http/date.h"

#include <stdbool.h>
#include <string.h>

#include "http/sys.h"

static const char days[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                 "Thursday", "Friday", "Saturday"};
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct civil {
    int64_t year;
    int month, day; /* from 1 */
};

/* Days since 1970 of a date, and back. Years begin in March here, so that a leap day is the last
 * one of its year; a cycle is 400 years. */
static int64_t days_of(struct civil date)
{
    int64_t year = date.month > 2 ? date.year : date.year - 1;
    int64_t cycle = (year >= 0 ? year : year - 399) / 400;
    int64_t of_cycle = year - cycle * 400;
    int64_t of_year = (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
    return cycle * 146097 + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year - 719468;
}

static struct civil civil_of(int64_t day)
{
    day += 719468;
    int64_t cycle = (day >= 0 ? day : day - 146096) / 146097;
    int64_t of_cycle = day - cycle * 146097;
    int64_t year = (of_cycle - of_cycle / 1460 + of_cycle / 36524 - of_cycle / 146096) / 365;
    int64_t of_year = of_cycle - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    struct civil date = {.year = year + cycle * 400,
                         .month = (int)(month < 10 ? month + 3 : month - 9),
                         .day = (int)(of_year - (153 * month + 2) / 5 + 1)};
    date.year += date.month <= 2;
    return date;
}

static char *put_number(char *to, int64_t number, int digits)
{
    for (int i = digits - 1; i >= 0; i--, number /= 10)
        to[i] = (char)('0' + number % 10);
    return to + digits;
}

static char *put_text(char *to, const char *text, size_t size)
{
    memcpy(to, text, size);
    return to + size;
}

void weft__http_date(int64_t seconds, char *text)
{
    int64_t day = (seconds >= 0 ? seconds : seconds - 86399) / 86400;
    int64_t of_day = seconds - day * 86400, of_week = (day + 4) % 7;
    struct civil date = civil_of(day);
    text = put_text(text, days[of_week >= 0 ? of_week : of_week + 7], 3);
    text = put_text(text, ", ", 2);
    text = put_number(text, date.day, 2);
    text = put_text(text, " ", 1);
    text = put_text(text, months[date.month - 1], 3);
    text = put_text(text, " ", 1);
    text = put_number(text, date.year, 4);
    text = put_text(text, " ", 1);
    text = put_number(text, of_day / 3600, 2);
    text = put_text(text, ":", 1);
    text = put_number(text, of_day / 60 % 60, 2);
    text = put_text(text, ":", 1);
    text = put_number(text, of_day % 60, 2);
    memcpy(text, " GMT", 5);
}

/* Each parses its part at *text and advances, or returns false. */

static bool take(const char **text, const char *part)
{
    size_t size = strlen(part);
    if (strncmp(*text, part, size) != 0)
        return false;
    *text += size;
    return true;
}

static bool take_number(const char **text, int digits, int64_t *number)
{
    int64_t value = 0;
    for (int i = 0; i < digits; i++) {
        char digit = (*text)[i];
        if (i == 0 && digit == ' ' && digits == 2) /* asctime pads with a blank */
            digit = '0';
        if (digit < '0' || digit > '9')
            return false;
        value = value * 10 + (digit - '0');
    }
    *text += digits;
    *number = value;
    return true;
}

static bool take_month(const char **text, int *month)
{
    for (int i = 0; i < 12; i++)
        if (take(text, months[i])) {
            *month = i + 1;
            return true;
        }
    return false;
}

static bool take_day_name(const char **text, bool whole)
{
    char three[4] = "";
    for (int i = 0; i < 7; i++) {
        memcpy(three, days[i], 3);
        if (take(text, whole ? days[i] : three))
            return true;
    }
    return false;
}

static bool take_time(const char **text, int64_t *seconds)
{
    int64_t hour, minute, second;
    if (!take_number(text, 2, &hour) || !take(text, ":") || !take_number(text, 2, &minute) ||
        !take(text, ":") || !take_number(text, 2, &second))
        return false;
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    *seconds = hour * 3600 + minute * 60 + second;
    return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool take_fixed(const char *text, struct civil *date, int64_t *seconds)
{
    int64_t day;
    if (!take_day_name(&text, false) || !take(&text, ", ") || !take_number(&text, 2, &day) ||
        !take(&text, " ") || !take_month(&text, &date->month) || !take(&text, " ") ||
        !take_number(&text, 4, &date->year) || !take(&text, " ") || !take_time(&text, seconds))
        return false;
    date->day = (int)day;
    return take(&text, " GMT") && *text == '\0';
}

/* "Sunday, 06-Nov-94 08:49:37 GMT": a year more than 50 years ahead is in the
 * past. */
static bool take_old(const char *text, struct civil *date, int64_t *seconds)
{
    int64_t day;
    if (!take_day_name(&text, true) || !take(&text, ", ") || !take_number(&text, 2, &day) ||
        !take(&text, "-") || !take_month(&text, &date->month) || !take(&text, "-") ||
        !take_number(&text, 2, &date->year) || !take(&text, " ") || !take_time(&text, seconds))
        return false;
    date->day = (int)day;
    int64_t this_year = civil_of(weft__http_seconds() / 86400).year;
    date->year += this_year - this_year % 100;
    if (date->year > this_year + 50)
        date->year -= 100;
    return take(&text, " GMT") && *text == '\0';
}

/* "Sun Nov  6 08:49:37 1994" */
static bool take_asctime(const char *text, struct civil *date, int64_t *seconds)
{
    int64_t day;
    if (!take_day_name(&text, false) || !take(&text, " ") || !take_month(&text, &date->month) ||
        !take(&text, " ") || !take_number(&text, 2, &day) || !take(&text, " ") ||
        !take_time(&text, seconds) || !take(&text, " ") || !take_number(&text, 4, &date->year))
        return false;
    date->day = (int)day;
    return *text == '\0';
}

int64_t weft__http_date_parse(const char *text)
{
    struct civil date = {0};
    int64_t seconds;
    if (!take_fixed(text, &date, &seconds) && !take_old(text, &date, &seconds) &&
        !take_asctime(text, &date, &seconds))
        return HTTP_NO_DATE;
    int64_t day = days_of(date);
    if (civil_of(day).day != date.day) /* such as the 31st of April */
        return HTTP_NO_DATE;
    return day * 86400 + seconds;
}
