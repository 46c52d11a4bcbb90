/*
 * own_code.h: marks the code of each of weft's files, so that an address can be told to be weft's
 * own.
 *
 * The build includes this first in every C file of the library (CMakeLists.txt), and in nothing
 * else. Labels at the beginning and at the end of what the file has in a section of code
 * (subsections are laid out in the order of their numbers, and compilers use the first) go as a
 * pair into the section weft_ranges, of which the linker gives the bounds: see backtrace.c. So the
 * build turns off what would put code elsewhere (-ffunction-sections, -flto), and where the labels
 * hold nothing none the less, no crash is isolated (crash.c). Distances instead of addresses, so
 * that nothing is to be relocated.
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
