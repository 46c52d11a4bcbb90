/*
 * cxx_names.c: an exception of C++ where the runtime of C++ knows types, but has no function that
 * demangles their names.
 */
#include "cxx_lean.h"

/* As std::type_info is laid out. */
struct type {
    void *table;
    const char *name;
};

static const struct type *current;

const struct type *__cxa_current_exception_type(void); /* NOLINT(bugprone-reserved-identifier) */
const struct type *__cxa_current_exception_type(void)  /* NOLINT(bugprone-reserved-identifier) */
{
    return current;
}

static void the_exception_has_its_mangled_name(void)
{
    static const struct type plain = {NULL, "5Error"}, hidden = {NULL, "*5Error"};
    current = &plain;
    CHECK_STR(recovered(), "an exception of C++, of type 5Error");
    current = &hidden;
    CHECK_STR(recovered(), "an exception of C++, of type 5Error");
    current = NULL; /* of another language, or forced */
    CHECK_STR(recovered(), "an exception of C++");
}

char *__cxa_demangle(const char *, char *, size_t *, int *) __attribute__((weak)); /* NOLINT */

int main(void)
{
    if (__cxa_demangle != NULL)
        test_skip("a sanitizer links more of C++");
    RUN_PLAIN(the_exception_has_its_mangled_name, "nothing to order");
    return 0;
}
