/*
 * routes.h: finds the routes of a path, in a tree of segments. Knows nothing of requests, so that
 * it can be tested alone.
 */
#ifndef WEFT_HTTP_ROUTES_H
#define WEFT_HTTP_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include <weft/http.h>

#include "http/request.h"

/* In order of preference. */
enum route_kind { ROUTE_TEXT, ROUTE_PARAM, ROUTE_REST, ROUTE_KINDS };

struct route {
    struct route *next; /* of the same form */
    const char *method; /* NULL: all methods without a route of their own */
    weft_http_handler handler;
    void *data;
    const char *names[HTTP_PARAMS]; /* of the parameters, in order */
    int count;
    char texts[]; /* the method and the names */
};

/* A segment of one or more patterns that begin with the same segments. */
struct route_node {
    struct route_node *parent; /* NULL: the root, before the first segment */
    struct route_node *other;  /* the next one in the list of all */
    enum route_kind kind;
    struct route_node **texts; /* children, in order of their texts */
    int count, room;
    struct route_node *param, *rest;
    struct route *routes; /* that end here */
    size_t size;
    char text[]; /* of ROUTE_TEXT; `size` bytes */
};

/* All zero to begin with. */
struct routes {
    struct route_node *root;
    struct route_node *all;
};

/* Returns as weft_http_route. */
int weft__http_routes_add(struct routes *routes, const char *method, const char *pattern,
                          weft_http_handler handler, void *data);
void weft__http_routes_free(struct routes *routes);

/* The position of a search in the tree and in the path. */
struct route_cursor {
    const struct route_node *node;
    const char *at; /* the slash before the next segment or before the rest; or the end */
    enum route_kind kind;
};

/* Begins a search for a path, which must stay valid during the search. */
void weft__http_routes_look(const struct routes *routes, const char *path,
                            struct route_cursor *cursor);
/* The next node with routes that the path matches, the most preferred first; NULL if there are no
 * more. No node is visited twice, whatever the path: the size of the tree bounds a search. */
const struct route_node *weft__http_routes_next(struct route_cursor *cursor);

/* The node's route for a method: the method's own; for HEAD that of GET; the one for all methods.
 * NULL if there is none. */
const struct route *weft__http_routes_of(const struct route_node *node, const char *method);

struct route_value {
    const char *text;
    size_t size;
};
/* Sets the values of the parameters, in order, at the node that was found last. Returns their
 * number. */
int weft__http_routes_values(const struct route_cursor *cursor, struct route_value *values);

#endif
