#!/usr/bin/env bash
# musl.sh: builds weft and its unit tests with musl-gcc on a glibc system, and runs them.
#
#     musl.sh [option of ctest...]
#
# On a system whose libc is musl, weft builds like anywhere else. musl-gcc finds neither the
# kernel's headers nor a libgcc for musl: the script links the headers into a folder and uses the
# libgcc of the glibc system, linked statically; tests/musl/ has the glibc functions that this
# libgcc calls.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v musl-gcc > /dev/null || { echo "musl-gcc is missing: package musl-tools" >&2; exit 1; }
build=build/musl
machine=$(cc -dumpmachine)
mkdir -p "$build/include"
ln -sfn /usr/include/linux "$build/include/linux"
ln -sfn /usr/include/asm-generic "$build/include/asm-generic"
ln -sfn "/usr/include/$machine/asm" "$build/include/asm"
musl-gcc -O2 -Wall -c tests/musl/find_object.c -o "$build/find_object.o"

# The loader shows where the libc is: /lib/ld-musl-<cpu>.so.1 is a link to it.
libc=$(readlink -f "$(echo /lib/ld-musl-*.so.1)")
cmake -S . -B "$build" -G Ninja -DWEFT_WERROR="${WERROR:-OFF}" -DCMAKE_C_COMPILER=musl-gcc \
    -DCMAKE_CXX_COMPILER= -DWEFT_HTTP=OFF -DWEFT_BENCH=OFF \
    -DCMAKE_C_FLAGS="-isystem $PWD/$build/include" \
    -DCMAKE_EXE_LINKER_FLAGS="-static-libgcc -Wl,--eh-frame-hdr -Wl,-rpath,${libc%/*}" \
    -DCMAKE_C_STANDARD_LIBRARIES="$PWD/$build/find_object.o" > "$build/configure.log" ||
    { cat "$build/configure.log"; exit 1; }
targets=()
for test in tests/{base,os,arch,stack,sched,sync}/*.c; do
    [[ $test =~ _(stress|seeds|fault|crash|model)\.c$ ]] && continue
    test=${test#tests/}
    test=${test%.c}
    targets+=("test-${test/\//-}")
done
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target "${targets[@]}"
ctest --test-dir "$build" -L '^unit$' -L '^(base|os|arch|stack|sched|sync)$' --output-on-failure --no-tests=error \
    -j "${JOBS:-$(nproc)}" "$@"
