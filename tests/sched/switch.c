/*
 * switch.c: a fiber keeps its rounding mode and errno when it parks and when it moves to another
 * thread.
 */
#include <fenv.h>

#include "everywhere.h"
#include "fibers.h"

static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

/* Not foldable by the compiler: rounding shows in the last bit. */
static noinline double third(void)
{
    volatile double one = 1.0, three = 3.0;
    return one / three;
}

/* Parks, or moves to another thread for certain. */
static void switch_once(int64_t round, bool hop)
{
    if (hop && round % 10 == 0)
        test_hop();
    else if (round % 2)
        weft_yield();
    else
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
}

struct rounder {
    int mode;
    bool hop;
};

static void keep_mode(void *arg)
{
    const struct rounder *rounder = arg;
    CHECK_EQ(fegetround(), FE_TONEAREST); /* not what the spawner had */
    CHECK_EQ(fesetround(rounder->mode), 0);
    double result = third();
    for (int64_t i = test_scale(200); i > 0; i--) {
        switch_once(i, rounder->hop);
        CHECK_EQ(fegetround(), rounder->mode);
        CHECK(third() == result);
    }
}

static void spawn_rounders(void *arg)
{
    struct rounder rounders[8];
    weft_fiber *fibers[8];
    bool hop = arg != NULL;
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    for (int i = 0; i < 8; i++) {
        rounders[i] = (struct rounder){.mode = modes[i % 4], .hop = hop && i < 2};
        CHECK_EQ(weft_spawn(&fibers[i], keep_mode, &rounders[i], NULL), 0);
    }
    join_all(fibers, 8);
    CHECK_EQ(fegetround(), FE_UPWARD);
}

static void rounding_is_kept(void)
{
    static char hop;
    CHECK(fesetround(FE_DOWNWARD) == 0);
    on_processors(1, spawn_rounders, NULL);
    on_processors(3, spawn_rounders, &hop);
    CHECK_EQ(fegetround(), FE_DOWNWARD);
    CHECK(fesetround(FE_TONEAREST) == 0);
}

enum { HOPPERS = 3 }; /* errno below that: they hop */

static void keep_errno(void *arg)
{
    int mine = (int)(uintptr_t)arg;
    CHECK_EQ(get_errno(), 0);
    set_errno(mine);
    for (int64_t i = test_scale(200); i > 0; i--) {
        switch_once(i, mine < HOPPERS);
        CHECK_EQ(get_errno(), mine);
    }
}

static void errno_is_kept(void *arg)
{
    weft_fiber *fibers[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK_EQ(weft_spawn(&fibers[i], keep_errno, (void *)(1 + i), NULL), 0);
    join_all(fibers, 4);
}

int main(void)
{
    RUN_PLAIN(rounding_is_kept, "holds a processor while others run on another one");
    RUN_PLAIN_ON(errno_is_kept, 3, "holds a processor while others run on another one");
    return 0;
}
