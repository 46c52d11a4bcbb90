/*
 * own_code.h: marks where the code of each file of weft begins and ends, so that an address can be
 * recognised as weft's.
 *
 * The build includes this first in every C file of the library (CMakeLists.txt), and in nothing
 * else. In each section for code, a label stands before and one behind the code of the file:
 * subsections are laid out in the order of their numbers, and compilers use subsection 0. The
 * labels go as a pair into the section weft_ranges, whose bounds the linker defines: see
 * os/linux/backtrace.c. They are stored as distances, so that nothing has to be relocated.
 *
 * So the build turns off what puts code elsewhere (-ffunction-sections, -flto). Where the labels
 * enclose nothing all the same, no crash is isolated (sched/fiber/crash.c).
 */
#ifndef WEFT_BASE_OWN_CODE_H
#define WEFT_BASE_OWN_CODE_H

#define OWN_CODE(section)                                 \
    __asm__(".pushsection " section ",\"ax\",%progbits\n" \
            "9990:\n"                                     \
            ".subsection 1\n"                             \
            "9991:\n"                                     \
            ".popsection\n"                               \
            ".pushsection weft_ranges,\"a\",%progbits\n"  \
            ".balign 4\n"                                 \
            ".long 9990b - ., 9991b - .\n"                \
            ".popsection\n")

OWN_CODE(".text");
OWN_CODE(".text.unlikely");
OWN_CODE(".text.hot");
OWN_CODE(".text.startup");

#endif
