/*
 * measure.c: checks that memory and descriptors stay flat.
 *
 * Flat means: the lowest value of the last third of the phases is not above the highest value of
 * the first third by more than a tolerance. A leak grows with time, so its lowest value at the end
 * is above every value at the beginning; caches fill up in the first third. Fewer than four phases
 * are too short for a verdict.
 *
 * The tolerances. Heap, stopped: weft has freed everything; the rest belongs to libc (state of the
 * resolver, of threads) and is constant to some kilobytes. Heap, drained: also weft's caches, which
 * grow with the number of processors and with the most objects alive at once, both drawn at random.
 * Resident: glibc keeps up to 40 MB of thread stacks and the free parts of each arena; touched
 * parts stay resident even when trimmed. Before each measurement malloc_trim gives free memory
 * back.
 *
 * Sanitizers keep freed memory by design and have a heap of their own: there only descriptors are
 * compared, and LeakSanitizer finds leaks. An emulator's own memory grows with the threads that
 * come and go: there only the heap is compared.
 */
#include "measure.h"

#include "base/compiler.h"
#include "system.h"

#define SANITIZED (WEFT_ASAN || WEFT_TSAN)

enum {
    PHASES_MOST = 1 << 14,
    PHASES_LEAST = 4,
    RUNTIME_DESCRIPTORS = 8, /* of the poller, the ring, the signals */
};

#define MEGABYTE ((int64_t)1024 * 1024)

static const int64_t heap_tolerance[SERIES] = {4 * MEGABYTE, MEGABYTE / 16};
static const int64_t resident_tolerance[SERIES] = {24 * MEGABYTE, 8 * MEGABYTE};
static const char *const names[SERIES] = {"drained", "stopped"};

static struct {
    struct measure taken[PHASES_MOST];
    int count;
} all[SERIES];

static int descriptors_before;

void measure_begin(void)
{
    memset(all, 1, sizeof all); /* so that its pages exist from the start */
    all[DRAINED].count = all[STOPPED].count = 0;
    descriptors_before = open_descriptors();
}

/* Reads a number from /proc/self/status. */
static int64_t status_number(const char *label)
{
    char line[256];
    long long number = -1;
    FILE *file = fopen("/proc/self/status", "re");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, label, strlen(label)) == 0)
            number = strtoll(line + strlen(label), NULL, 10);
    fclose(file);
    CHECK(number >= 0);
    return number;
}

bool measure_take(enum series series, struct measure *measure)
{
    heap_trim();
    *measure = (struct measure){.resident = status_number("VmRSS:") * 1024,
                                .heap = SANITIZED ? 0 : (int64_t)heap_in_use(),
                                .descriptors = open_descriptors(),
                                .threads = (int)status_number("Threads:")};
    if (all[series].count < PHASES_MOST)
        all[series].taken[all[series].count++] = *measure;
    int most = descriptors_before + (series == DRAINED ? RUNTIME_DESCRIPTORS : 0);
    if (measure->descriptors <= most)
        return true;
    fprintf(stderr, "soak: %d descriptors are open (%s), and at the beginning it were %d\n",
            measure->descriptors, names[series], descriptors_before);
    return false;
}

/* The highest value of the first third and the lowest of the last. */
static bool is_flat(enum series series, bool heap)
{
    const struct measure *taken = all[series].taken;
    int count = all[series].count;
    int64_t most = 0, least = INT64_MAX;
    for (int i = 0; i < count; i++) {
        int64_t value = heap ? taken[i].heap : taken[i].resident;
        if (i <= count / 3 && value > most)
            most = value;
        if (i >= count - count / 3 && value < least)
            least = value;
    }
    int64_t tolerance = heap ? heap_tolerance[series] : resident_tolerance[series];
    bool flat = least <= most + tolerance;
    fprintf(flat ? stdout : stderr,
            "soak: %s memory when %s: at most %lld KB in the first third of %d phases, at least "
            "%lld KB in the last: %s\n",
            heap ? "heap" : "resident", names[series], (long long)most / 1024, count,
            (long long)least / 1024, flat ? "flat" : "GROWN");
    return flat;
}

bool measure_verdict(void)
{
    bool flat = true;
    if (SANITIZED) {
        printf("soak: memory is not compared under a sanitizer\n");
        return true;
    }
    for (int series = 0; series < SERIES; series++) {
        if (all[series].count < PHASES_LEAST) {
            printf("soak: too few phases to compare memory when %s\n", names[series]);
            continue;
        }
        flat &= test_emulated() || is_flat((enum series)series, false);
        flat &= is_flat((enum series)series, true);
    }
    return flat;
}
