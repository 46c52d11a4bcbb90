/*
 * histogram.c: counts of times in classes that are a sixteenth of their value wide.
 */
#include <string.h>

#include "flood.h"

enum { PARTS = 16, CLASSES = 64 * PARTS };

static int class_of(int64_t value)
{
    if (value < PARTS)
        return value < 0 ? 0 : (int)value;
    int exponent = 63 - __builtin_clzll((unsigned long long)value); /* at least 4 */
    return (exponent - 3) * PARTS + (int)((value >> (exponent - 4)) & (PARTS - 1));
}

/* The lowest value above the class. */
static int64_t limit_of(int number)
{
    int exponent = number / PARTS + 3, part = number % PARTS;
    if (number < PARTS)
        return number + 1;
    return (int64_t)(PARTS + part + 1) << (exponent - 4);
}

void histogram_add(struct histogram *histogram, int64_t nanoseconds)
{
    histogram->counts[class_of(nanoseconds)]++;
    histogram->total++;
    if (nanoseconds > histogram->most)
        histogram->most = nanoseconds;
}

int64_t histogram_quantile(const struct histogram *histogram, double share)
{
    double wanted = share * (double)histogram->total;
    int64_t seen = 0;
    for (int number = 0; number < CLASSES && histogram->total > 0; number++) {
        seen += histogram->counts[number];
        if ((double)seen >= wanted) {
            int64_t limit = limit_of(number);
            return limit < histogram->most ? limit : histogram->most;
        }
    }
    return histogram->most;
}

void histogram_clear(struct histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
}
