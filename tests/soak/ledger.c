/*
 * ledger.c: the books of the soak: see ledger.h.
 */
#include "ledger.h"

#include <sys/mman.h>

#include "base/atomic.h"
#include "test.h"

enum {
    ENTRIES = 1 << 19, /* per book */
    RESERVE = 1 << 14, /* space for the rounds in progress */
    OUTCOME_BITS = 8,
    INDEX_BITS = 56,
};

struct entry {
    atomic_u32 counts; /* a byte for each outcome */
    const char *what;
};

static struct {
    struct entry *entries;
    atomic_u64 entered;
    atomic_u64 before; /* in earlier phases; the watchdog reads it at any time */
} books[BOOKS];

static const char *const names[BOOKS] = {"tasks", "messages", "timers", "events"};
static const char *const outcomes[OUTCOMES] = {"happened", "was dropped", "was refused"};
static atomic_u64 settlements;

void ledger_begin(void)
{
    for (int i = 0; i < BOOKS; i++) {
        books[i].entries = mmap(NULL, ENTRIES * sizeof(struct entry), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        CHECK(books[i].entries != MAP_FAILED);
    }
}

bool ledger_room(void)
{
    for (int i = 0; i < BOOKS; i++)
        if (atomic_u64_load_relaxed(&books[i].entered) > ENTRIES - RESERVE)
            return false;
    return true;
}

uint64_t ledger_enter(enum book book, const char *what)
{
    uint64_t index = atomic_u64_add_relaxed(&books[book].entered, 1);
    CHECK(index < ENTRIES);
    books[book].entries[index].what = what;
    return (uint64_t)book << INDEX_BITS | index;
}

static struct entry *entry_of(uint64_t id)
{
    uint64_t book = id >> INDEX_BITS, index = id & (((uint64_t)1 << INDEX_BITS) - 1);
    CHECK(book < BOOKS && index < atomic_u64_load_relaxed(&books[book].entered));
    return &books[book].entries[index];
}

void ledger_book_out(uint64_t id, enum outcome outcome)
{
    (void)atomic_u32_add_relaxed(&entry_of(id)->counts, 1u << (OUTCOME_BITS * outcome));
    (void)atomic_u64_add_relaxed(&settlements, 1);
}

bool ledger_is_booked_out(uint64_t id)
{
    return atomic_u32_load_relaxed(&entry_of(id)->counts) != 0;
}

uint64_t ledger_progress(void)
{
    uint64_t sum = atomic_u64_load_relaxed(&settlements);
    for (int i = 0; i < BOOKS; i++)
        sum +=
            atomic_u64_load_relaxed(&books[i].before) + atomic_u64_load_relaxed(&books[i].entered);
    return sum;
}

static uint32_t count_of(const struct entry *entry, enum outcome outcome)
{
    return (atomic_u32_load_relaxed(&entry->counts) >> (OUTCOME_BITS * outcome)) &
           ((1u << OUTCOME_BITS) - 1);
}

static bool is_balanced(const struct entry *entry)
{
    uint32_t sum = 0;
    for (int i = 0; i < OUTCOMES; i++)
        sum += count_of(entry, (enum outcome)i);
    return sum == 1;
}

struct ledger_sums ledger_sums(enum book book)
{
    struct ledger_sums sums = {.entered = atomic_u64_load_relaxed(&books[book].entered)};
    for (uint64_t i = 0; i < sums.entered; i++)
        for (int outcome = 0; outcome < OUTCOMES; outcome++)
            sums.booked_out[outcome] += count_of(&books[book].entries[i], (enum outcome)outcome);
    return sums;
}

const char *ledger_name(enum book book)
{
    return names[book];
}

static void name_entry(int book, uint64_t index)
{
    const struct entry *entry = &books[book].entries[index];
    fprintf(stderr, "soak: %s %llu (%s):", names[book], (unsigned long long)index, entry->what);
    if (atomic_u32_load_relaxed(&entry->counts) == 0)
        fprintf(stderr, " lost");
    for (int i = 0; i < OUTCOMES; i++)
        if (count_of(entry, (enum outcome)i) > 0)
            fprintf(stderr, " %s %u times", outcomes[i], count_of(entry, (enum outcome)i));
    fprintf(stderr, "\n");
}

uint64_t ledger_report(unsigned most)
{
    uint64_t wrong = 0;
    for (int book = 0; book < BOOKS; book++) {
        uint64_t entered = atomic_u64_load_relaxed(&books[book].entered), here = 0;
        for (uint64_t i = 0; i < entered; i++)
            if (!is_balanced(&books[book].entries[i]) && here++ < most)
                name_entry(book, i);
        if (here > 0)
            fprintf(stderr, "soak: %llu of %llu %s not booked out exactly once\n",
                    (unsigned long long)here, (unsigned long long)entered, names[book]);
        wrong += here;
    }
    return wrong;
}

void ledger_clear(void)
{
    for (int i = 0; i < BOOKS; i++) {
        uint64_t entered = atomic_u64_load_relaxed(&books[i].entered);
        memset(books[i].entries, 0, entered * sizeof(struct entry));
        (void)atomic_u64_add_relaxed(&books[i].before, entered);
        atomic_u64_store_relaxed(&books[i].entered, 0);
    }
}
