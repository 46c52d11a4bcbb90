/*
 * fuzz.h: the interface of the fuzz targets.
 *
 * A target is a file of this folder with the function below; it gets arbitrary bytes, and checks
 * what must hold for every input. The bytes are what a client would send, and nothing else: other
 * choices of a target (pieces, limits) come from fuzz_prng, which the bytes decide. So the files of
 * a corpus can be read, and sent to a server.
 *
 * corpus/<target>/ has one file for each kind of input. The suite replays them (replay.c:
 * fuzz.<target>), and `make fuzz` starts from them. An input that breaks a target is added to the
 * corpus, with a name.
 */
#ifndef WEFT_TESTS_FUZZ_FUZZ_H
#define WEFT_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "test.h"

/* The entry point of libFuzzer. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline struct prng fuzz_prng(const uint8_t *data, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 0x100000001b3;
    struct prng prng;
    prng_seed(&prng, hash);
    /* A failed check dies by a signal, so that libFuzzer keeps the input. */
    test_on_fail = abort;
    return prng;
}

#endif
