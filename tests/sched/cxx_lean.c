/*
 * cxx_lean.c: an exception of C++ where the runtime of C++ lacks the functions that name types, as
 * in a statically linked program. The panic's message says only that it is one of C++.
 */
#include "cxx_lean.h"

static void the_exception_has_no_name(void)
{
    CHECK_STR(recovered(), "an exception of C++");
}

int main(void)
{
    RUN_PLAIN(the_exception_has_no_name, "nothing to order");
    return 0;
}
