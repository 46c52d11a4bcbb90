/*
 * cxx_lean.c: an exception of C++ in a program whose runtime of C++ has only a part of what weft would like to ask:
 * as one that is linked statically, without what names types. The message says what can be known.
 */
#include "cxx_lean.h"

static void what_is_caught_has_no_name(void)
{
    CHECK_STR(recovered(), "an exception of C++");
}

int main(void)
{
    RUN_PLAIN(what_is_caught_has_no_name, "nothing to order");
    return 0;
}
