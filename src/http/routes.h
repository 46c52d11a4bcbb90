/*
 * routes.h: which routes a path has: a tree of segments. Without requests, so that it can be tested alone.
 */
#ifndef WEFT_HTTP_ROUTES_H
#define WEFT_HTTP_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include <weft/http.h>

#include "http/request.h"

/* In the order in which they are preferred. */
enum route_kind { ROUTE_TEXT, ROUTE_PARAM, ROUTE_REST, ROUTE_KINDS };

struct route {
    struct route *next; /* of the same form */
    const char *method; /* NULL: all that have none of their own */
    weft_http_handler handler;
    void *data;
    const char *names[HTTP_PARAMS]; /* of the parameters, in their order */
    int count;
    char texts[]; /* the method and the names */
};

/* A segment of one or more patterns, known by those before it. */
struct route_node {
    struct route_node *parent; /* NULL: the root, which stands before the first segment */
    struct route_node *other;  /* in the list of all */
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

/* Where in the tree, and where in the path, a search is. */
struct route_cursor {
    const struct route_node *node;
    const char
        *at; /* the slash before the next segment, or the end; of a rest: the slash before it */
    enum route_kind kind;
};

/* Begins a search for a path, which stays the caller's. */
void weft__http_routes_look(const struct routes *routes, const char *path,
                            struct route_cursor *cursor);
/* The next node with routes whose form the path has, the most preferred first; NULL if there are no more. No node is
 * looked at twice, however the path was made: a search takes no longer than the tree is large. */
const struct route_node *weft__http_routes_next(struct route_cursor *cursor);

/* Of a node's routes that for a method: its own; of HEAD also that of GET; that for all. NULL. */
const struct route *weft__http_routes_of(const struct route_node *node, const char *method);

struct route_value {
    const char *text;
    size_t size;
};
/* The values of the parameters, in their order, at the node that was found last; their number. */
int weft__http_routes_values(const struct route_cursor *cursor, struct route_value *values);

#endif
