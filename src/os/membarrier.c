/*
 * membarrier.c: the choice of a barrier and its heavy half: os/membarrier.h.
 */
#include "os/membarrier.h"

#include "os/os.h"

struct weft__barrier weft__barrier = {.symmetric = true};

void weft__barrier_choose(bool allowed)
{
    weft__barrier.symmetric = !allowed || weft__os_membarrier_register() != 0;
}

void weft__barrier_heavy(void)
{
    if (weft__barrier.symmetric)
        atomic_u32_add_seq_cst(&weft__barrier.word, 1);
    else
        weft__os_membarrier();
}
