/*
 * date.h: dates of HTTP, from and to text.
 */
#ifndef WEFT_HTTP_DATE_H
#define WEFT_HTTP_DATE_H

#include <stdint.h>

/* Room for "Sun, 06 Nov 1994 08:49:37 GMT" and a zero. */
enum { HTTP_DATE = 30 };
/* Formats seconds since 1970. */
void weft__http_date(int64_t seconds, char *text);
/* Parses any of the three forms of RFC 9110; HTTP_NO_DATE if the text is none. */
#define HTTP_NO_DATE INT64_MIN
int64_t weft__http_date_parse(const char *text);

#endif
