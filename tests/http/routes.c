/*
 * routes.c: the route of a path, without a server.
 */
#include "http/routes.h"

#include "handler.h"

#include "test.h"

static struct routes routes;

HANDLER(handler)
{
}

static int add(const char *method, const char *pattern)
{
    union {
        const char *text;
        void *data;
    } name = {.text = pattern};
    return weft__http_routes_add(&routes, method, pattern, handler, name.data);
}

/* What answers, as "pattern name=value name=value"; "405" and "404". */
static const char *answer(const char *method, const char *path)
{
    static char text[4096];
    struct route_cursor cursor;
    const struct route_node *node;
    bool known = false;
    weft__http_routes_look(&routes, path, &cursor);
    while ((node = weft__http_routes_next(&cursor)) != NULL) {
        const struct route *route = weft__http_routes_of(node, method);
        struct route_value values[HTTP_PARAMS];
        known = true;
        if (route == NULL)
            continue;
        CHECK_EQ(weft__http_routes_values(&cursor, values), route->count);
        int size = snprintf(text, sizeof text, "%s", (const char *)route->data);
        for (int i = 0; i < route->count; i++)
            size += snprintf(text + size, sizeof text - (size_t)size, " %s=%.*s", route->names[i],
                             (int)values[i].size, values[i].text);
        return text;
    }
    return known ? "405" : "404";
}

struct expected {
    const char *method, *path, *answer;
};

static void check_all(const struct expected *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(answer(all[i].method, all[i].path), all[i].answer) != 0)
            test_fail(__FILE__, __LINE__, "%s %s: %s, not %s", all[i].method, all[i].path,
                      answer(all[i].method, all[i].path), all[i].answer);
}

#define CHECK_ALL(table) check_all(table, sizeof(table) / sizeof(table)[0])

/* Added in both orders: it must not matter. */
static void add_all(const char *const patterns[][2], int count, bool backwards)
{
    for (int i = 0; i < count; i++) {
        const char *const *one = patterns[backwards ? count - 1 - i : i];
        CHECK_EQ(add(one[0], one[1]), 0);
    }
}

static void the_more_exact_is_preferred(void)
{
    static const char *const patterns[][2] = {
        {"GET", "/"},
        {"GET", "/{any...}"},
        {"GET", "/users"},
        {"GET", "/users/"},
        {"GET", "/users/{id}"},
        {"GET", "/users/me"},
        {"GET", "/users/{id}/posts"},
        {"GET", "/users/{name}/posts/{post}"},
        {"GET", "/users/me/posts/last"},
        {"GET", "/static/{path...}"},
        {"GET", "/static/special"},
        {"GET", "/static/{one}/{two}"},
    };
    static const struct expected table[] = {
        {"GET", "/", "/"},
        {"GET", "/users", "/users"},
        {"GET", "/users/", "/users/"},
        {"GET", "/users/7", "/users/{id} id=7"},
        {"GET", "/users/me", "/users/me"},
        {"GET", "/users/mee", "/users/{id} id=mee"},
        {"GET", "/users/7/", "/{any...} any=users/7/"},
        {"GET", "/users/7/posts", "/users/{id}/posts id=7"},
        /* back from the text "me", which has no "posts" that ends there */
        {"GET", "/users/me/posts", "/users/{id}/posts id=me"},
        {"GET", "/users/me/posts/last", "/users/me/posts/last"},
        {"GET", "/users/me/posts/first", "/users/{name}/posts/{post} name=me post=first"},
        {"GET", "/users/7/posts/last", "/users/{name}/posts/{post} name=7 post=last"},
        {"GET", "/users//posts", "/{any...} any=users//posts"},
        {"GET", "/static", "/{any...} any=static"},
        {"GET", "/static/", "/static/{path...} path="},
        {"GET", "/static/special", "/static/special"},
        {"GET", "/static/a", "/static/{path...} path=a"},
        {"GET", "/static/a/b", "/static/{one}/{two} one=a two=b"},
        {"GET", "/static/special/b", "/static/{one}/{two} one=special two=b"},
        {"GET", "/static/a/b/c/", "/static/{path...} path=a/b/c/"},
        {"GET", "/static/a/", "/static/{path...} path=a/"},
        {"GET", "//", "/{any...} any=/"},
        {"GET", "/a//b", "/{any...} any=a//b"},
        {"GET", "*", "404"},
    };
    for (int backwards = 0; backwards < 2; backwards++) {
        add_all(patterns, sizeof patterns / sizeof patterns[0], backwards);
        CHECK_ALL(table);
        weft__http_routes_free(&routes);
    }
}

static void what_has_no_route(void)
{
    CHECK_STR(answer("GET", "/"), "404");
    CHECK_EQ(add("GET", "/a/{x}/c"), 0);
    static const struct expected table[] = {
        {"GET", "/", "404"},       {"GET", "/a", "404"},
        {"GET", "/a/", "404"},     {"GET", "/a/b", "404"},
        {"GET", "/a/b/", "404"},   {"GET", "/a//c", "404"},
        {"GET", "/a/b/cc", "404"}, {"GET", "/a/b/c/", "404"},
        {"GET", "/A/b/c", "404"},  {"GET", "/a/b/c", "/a/{x}/c x=b"},
    };
    CHECK_ALL(table);
    weft__http_routes_free(&routes);
}

static void methods_choose(void)
{
    static const char *const patterns[][2] = {
        {"GET", "/a/{x}"},   {"POST", "/a/b"}, {NULL, "/any"},
        {"GET", "/any"},     {"GET", "/head"}, {"HEAD", "/head"},
        {NULL, "/x/{y...}"}, {"PUT", "/x/1"},  {"DELETE", "/a/{x}"},
    };
    static const struct expected table[] = {
        {"GET", "/a/b", "/a/{x} x=b"},    {"POST", "/a/b", "/a/b"},
        {"HEAD", "/a/b", "/a/{x} x=b"},   {"DELETE", "/a/b", "/a/{x} x=b"},
        {"POST", "/a/c", "405"},          {"get", "/a/c", "405"},
        {"PUT", "/a/b", "405"},           {"PUT", "/any", "/any"},
        {"HEAD", "/head", "/head"},       {"PUT", "/x/1", "/x/1"},
        {"GET", "/x/1", "/x/{y...} y=1"},
    };
    for (int backwards = 0; backwards < 2; backwards++) {
        add_all(patterns, sizeof patterns / sizeof patterns[0], backwards);
        CHECK_ALL(table);
        weft__http_routes_free(&routes);
    }
}

static void get_answers_head_unless_there_is_one(void)
{
    struct route_cursor cursor;
    CHECK_EQ(add("GET", "/a"), 0);
    CHECK_EQ(add(NULL, "/a"), 0);
    weft__http_routes_look(&routes, "/a", &cursor);
    const struct route_node *node = weft__http_routes_next(&cursor);
    CHECK(node != NULL);
    CHECK_STR(weft__http_routes_of(node, "HEAD")->method, "GET");
    CHECK_PTR(weft__http_routes_of(node, "POST")->method, NULL);
    CHECK_EQ(add("HEAD", "/a"), 0);
    CHECK_STR(weft__http_routes_of(node, "HEAD")->method, "HEAD");
    CHECK_PTR(weft__http_routes_next(&cursor), NULL);
    weft__http_routes_free(&routes);
}

static void patterns_that_make_no_sense(void)
{
    static const char *const wrong[] = {
        "",       "a",        "{a}",       "/{",       "/}",          "/{}",
        "/{a",    "/a}",      "/a{b}",     "/{a}b",    "/{a}{b}",     "/{{a}}",
        "/{...}", "/{a...}/", "/{a...}/b", "/{a}/{a}", "/{a}/{a...}", "/{a..}",
        "/{a.b}", "/{a b}",   "/{a....}",  "/a/{b/c}", "/{a:b}",      "/{a[b}",
        "/{a~b}", "/..",      "/a/../b",   "/.",       "/a/./",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (add("GET", wrong[i]) != -EINVAL)
            test_fail(__FILE__, __LINE__, "taken for a pattern: %s", wrong[i]);
    CHECK_EQ(add("", "/"), -EINVAL);
    CHECK_EQ(add("GE T", "/"), -EINVAL);
    CHECK_EQ(add("GET", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}/{q}"),
             -EINVAL);
    CHECK_PTR(routes.root, NULL);
    CHECK_EQ(add("GET", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p...}"), 0);
    CHECK_STR(answer("GET", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"),
              "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p...} a=1 b=2 c=3 d=4 "
              "e=5 f=6 g=7 h=8 i=9 j=10 k=11 l=12 m=13 n=14 o=15 p=16/17");
    weft__http_routes_free(&routes);
}

static void names_of_parameters(void)
{
    CHECK_EQ(add("GET", "/{user_id}/{Post-2}/{azAZ09}/{_}/{-...}"), 0);
    CHECK_STR(answer("GET", "/a/b/c/d/e/f"), "/{user_id}/{Post-2}/{azAZ09}/{_}/{-...} user_id=a "
                                             "Post-2=b azAZ09=c _=d -=e/f");
    weft__http_routes_free(&routes);
}

static void the_same_form_is_taken_once(void)
{
    CHECK_EQ(add("GET", "/a/{x}"), 0);
    CHECK_EQ(add("GET", "/a/{y}"), -EEXIST);
    CHECK_EQ(add("POST", "/a/{y}"), 0);
    CHECK_EQ(add(NULL, "/a/{y}"), 0);
    CHECK_EQ(add(NULL, "/a/{z}"), -EEXIST);
    CHECK_EQ(add("GET", "/a/{x...}"), 0);
    CHECK_EQ(add("GET", "/a/{y...}"), -EEXIST);
    CHECK_EQ(add("GET", "/a/x"), 0);
    CHECK_EQ(add("GET", "/a/x"), -EEXIST);
    CHECK_STR(answer("GET", "/a/1"), "/a/{x} x=1");
    CHECK_STR(answer("POST", "/a/1"), "/a/{y} y=1");
    weft__http_routes_free(&routes);
}

static void many_texts_are_told_apart(void)
{
    static char patterns[1000][16];
    for (int i = 0; i < 1000; i++) {
        int number = i * 7919 % 1000;
        snprintf(patterns[i], sizeof patterns[i], "/n/%d/x", number);
        CHECK_EQ(add("GET", patterns[i]), 0);
    }
    for (int i = 0; i < 1000; i++)
        CHECK_STR(answer("GET", patterns[i]), patterns[i]);
    CHECK_STR(answer("GET", "/n/1000/x"), "404");
    CHECK_STR(answer("GET", "/n/5"), "404");
    weft__http_routes_free(&routes);
}

/* As deep as one likes, and back again from the deepest place: no recursion that would need a
 * stack, and no search that doubles with every segment. */
static void deep_patterns_and_paths(void)
{
    enum { DEEP = 100000 };
    static char texts[2 * DEEP + 2], path[2 * DEEP + 2];
    for (int i = 0; i < DEEP; i++)
        memcpy(texts + (ptrdiff_t)2 * i, "/a", 3);
    CHECK_EQ(add("GET", texts), 0);
    CHECK_EQ(add("GET", "/{rest...}"), 0);
    memcpy(path, texts, sizeof path);
    CHECK_STR(answer("POST", path), "405");
    path[sizeof path - 3] = 'b';
    struct route_cursor cursor;
    struct route_value values[HTTP_PARAMS];
    weft__http_routes_look(&routes, path, &cursor);
    const struct route_node *node = weft__http_routes_next(&cursor);
    CHECK(node != NULL);
    CHECK_EQ(node->kind, ROUTE_REST);
    CHECK_EQ(weft__http_routes_values(&cursor, values), 1);
    CHECK_EQ(values[0].size, strlen(path) - 1);
    CHECK_PTR(weft__http_routes_next(&cursor), NULL);
    weft__http_routes_free(&routes);
}

int main(void)
{
    RUN_PLAIN(the_more_exact_is_preferred, "nothing here is a fiber");
    RUN_PLAIN(what_has_no_route, "nothing here is a fiber");
    RUN_PLAIN(methods_choose, "nothing here is a fiber");
    RUN_PLAIN(get_answers_head_unless_there_is_one, "nothing here is a fiber");
    RUN_PLAIN(patterns_that_make_no_sense, "nothing here is a fiber");
    RUN_PLAIN(names_of_parameters, "nothing here is a fiber");
    RUN_PLAIN(the_same_form_is_taken_once, "nothing here is a fiber");
    RUN_PLAIN(many_texts_are_told_apart, "nothing here is a fiber");
    RUN_PLAIN(deep_patterns_and_paths, "nothing here is a fiber");
    return 0;
}
