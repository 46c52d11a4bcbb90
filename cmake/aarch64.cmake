# Toolchain file: cross build for aarch64 Linux; programs run under qemu-user.
#
#     cmake -S . -B build/aarch64 --toolchain cmake/aarch64.cmake

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)

# C++ is only for the header test, which is left out without it.
find_program(WEFT_AARCH64_CXX aarch64-linux-gnu-g++)
if(WEFT_AARCH64_CXX)
  set(CMAKE_CXX_COMPILER ${WEFT_AARCH64_CXX})
endif()

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
