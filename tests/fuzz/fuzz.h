/*
 * fuzz.h: what the fuzz targets share. A target is a file of this folder with the function below; it is given bytes that
 * somebody made up, and checks what must hold of whatever comes of them.
 *
 * The bytes are what a client would send, and nothing else: what a target chooses beside them (pieces, limits) it draws
 * from fuzz_prng, which the bytes decide. So the files of a corpus can be read, and sent to a server.
 *
 * corpus/<target>/ has one file for each kind of thing that a target may be given. They are replayed by the suite
 * (replay.c: fuzz.<target>), and are where `make fuzz` begins. An input that breaks something goes there, with a name.
 */
#ifndef WEFT_TESTS_FUZZ_FUZZ_H
#define WEFT_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "test.h"

/* libFuzzer's name. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline struct prng fuzz_prng(const uint8_t *data, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 0x100000001b3;
    struct prng prng;
    prng_seed(&prng, hash);
    /* A check that fails has to die by a signal: then libFuzzer keeps the input. */
    test_on_fail = abort;
    return prng;
}

#endif
