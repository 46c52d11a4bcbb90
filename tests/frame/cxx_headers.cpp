// frame.cxx_headers: weft used from C++: a fiber is spawned, does its work, and is waited for.

#include <weft/weft.h>

static void set_to_seven(void *number)
{
    weft_yield();
    *static_cast<int *>(number) = 7;
}

static void finish(void *wg)
{
    weft_wg_done(static_cast<weft_wg *>(wg));
}

int main()
{
    int number = 0;
    weft_spawn_options options = {};
    options.name = "from C++";

    weft_fiber *fiber = nullptr;
    if (weft_spawn(&fiber, set_to_seven, &number, &options) != 0)
        return 1;
    if (weft_join(fiber) != 0 || number != 7)
        return 2;

    weft_wg wg = WEFT_WG_INIT;
    if (weft_wg_add(&wg, 1) != 0 || weft_go(finish, &wg) != 0)
        return 3;
    if (weft_wg_wait_until(&wg, WEFT_NEVER) != 0)
        return 4;
    return weft_shutdown(WEFT_NEVER) == 0 ? 0 : 5;
}
