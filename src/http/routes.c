/*
 * routes.c: the tree of routes, and the search in it.
 *
 * A node stands for a segment after those of its ancestors: a text, a parameter or a rest. A route
 * hangs at the node of its last segment, with its own names for the parameters, so "/users/{id}"
 * and "/users/{name}/posts" share nodes. "/a/" ends with an empty segment, so its node is another
 * one than that of "/a".
 *
 * The search goes down as deep as it can, and back up where it finds no child. It needs no memory
 * for the way back: a node knows its parent, and its segment begins at the slash before. So
 * patterns may be as deep as they like, on any stack. A node can be entered in one way only, so no
 * path makes a search longer than the tree.
 *
 * Rejected: a table of expressions in the order of their adding. It is slow with many routes, and
 * the order would matter.
 */
#include "http/routes.h"

#include <errno.h>
#include <string.h>

#include "http/parse.h"
#include "http/sys.h"

/* ---- patterns ---- */

struct piece {
    enum route_kind kind;
    const char *text; /* or the name of the parameter */
    size_t size;
};

static bool is_name(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '-')
            return false;
    }
    return size > 0;
}

/* Parses the segment behind the slash at *at, and advances to its end. */
static int read_piece(const char **at, struct piece *piece)
{
    const char *text = *at + 1;
    size_t size = strcspn(text, "/");
    *at = text + size;
    if ((size == 1 && text[0] == '.') || (size == 2 && memcmp(text, "..", 2) == 0))
        return -EINVAL; /* decoded paths have none: the route would never match */
    if (memchr(text, '{', size) == NULL && memchr(text, '}', size) == NULL) {
        *piece = (struct piece){ROUTE_TEXT, text, size};
        return 0;
    }
    if (size < 3 || text[0] != '{' || text[size - 1] != '}')
        return -EINVAL;
    *piece = (struct piece){ROUTE_PARAM, text + 1, size - 2};
    if (piece->size > 3 && memcmp(text + size - 4, "...", 3) == 0) {
        piece->kind = ROUTE_REST;
        piece->size -= 3;
        if (**at != '\0')
            return -EINVAL;
    }
    return is_name(piece->text, piece->size) ? 0 : -EINVAL;
}

/* Collects the parameters of a pattern. Returns their number. */
static int read_params(const char *pattern, struct piece *params)
{
    int count = 0;
    const char *at = pattern;
    if (*at != '/')
        return -EINVAL;
    while (*at != '\0') {
        struct piece piece;
        if (read_piece(&at, &piece) != 0)
            return -EINVAL;
        if (piece.kind == ROUTE_TEXT)
            continue;
        for (int i = 0; i < count; i++)
            if (params[i].size == piece.size && memcmp(params[i].text, piece.text, piece.size) == 0)
                return -EINVAL;
        if (count == HTTP_PARAMS)
            return -EINVAL;
        params[count++] = piece;
    }
    return count;
}

/* ---- the tree ---- */

static int compare(const struct route_node *node, const char *text, size_t size)
{
    if (node->size != size)
        return node->size < size ? -1 : 1;
    return memcmp(node->text, text, size);
}

/* The index of a text among the children: where it is, or where it belongs. */
static int index_of(const struct route_node *node, const char *text, size_t size)
{
    int low = 0, high = node->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (compare(node->texts[middle], text, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct route_node *find_text(const struct route_node *node, const char *text, size_t size)
{
    if (node->count == 0)
        return NULL;
    int index = index_of(node, text, size);
    bool found = index < node->count && compare(node->texts[index], text, size) == 0;
    return found ? node->texts[index] : NULL;
}

static struct route_node *find_child(const struct route_node *node, const struct piece *piece)
{
    if (piece->kind == ROUTE_TEXT)
        return find_text(node, piece->text, piece->size);
    return piece->kind == ROUTE_PARAM ? node->param : node->rest;
}

static struct route_node *node_make(struct routes *routes, struct route_node *parent,
                                    enum route_kind kind, const char *text, size_t size)
{
    struct route_node *node = weft__http_allocate(sizeof *node + size);
    if (node == NULL)
        return NULL;
    *node = (struct route_node){.parent = parent, .other = routes->all, .kind = kind, .size = size};
    if (size > 0)
        memcpy(node->text, text, size);
    routes->all = node;
    return node;
}

static int make_room(struct route_node *node)
{
    if (node->count < node->room)
        return 0;
    int room = node->room == 0 ? 4 : node->room * 2;
    void *texts = weft__http_resize(node->texts, (size_t)room * sizeof(struct route_node *));
    if (texts == NULL)
        return -ENOMEM;
    node->texts = texts;
    node->room = room;
    return 0;
}

static struct route_node *add_child(struct routes *routes, struct route_node *node,
                                    const struct piece *piece)
{
    bool is_text = piece->kind == ROUTE_TEXT;
    if (is_text && make_room(node) != 0)
        return NULL;
    struct route_node *child =
        node_make(routes, node, piece->kind, piece->text, is_text ? piece->size : 0);
    if (child == NULL)
        return NULL;
    if (piece->kind == ROUTE_PARAM)
        node->param = child;
    if (piece->kind == ROUTE_REST)
        node->rest = child;
    if (!is_text)
        return child;
    int index = index_of(node, piece->text, piece->size);
    memmove(node->texts + index + 1, node->texts + index,
            (size_t)(node->count - index) * sizeof(struct route_node *));
    node->texts[index] = child;
    node->count++;
    return child;
}

/* The node of a pattern, made if there is none. On failure the nodes made so far stay: they have no
 * routes, and match nothing. */
static struct route_node *node_of(struct routes *routes, const char *pattern)
{
    if (routes->root == NULL)
        routes->root = node_make(routes, NULL, ROUTE_TEXT, "", 0);
    struct route_node *node = routes->root;
    while (node != NULL && *pattern != '\0') {
        struct piece piece;
        must(read_piece(&pattern, &piece) == 0);
        struct route_node *child = find_child(node, &piece);
        node = child != NULL ? child : add_child(routes, node, &piece);
    }
    return node;
}

/* ---- routes ---- */

static const char *keep_text(char **room, const char *text, size_t size)
{
    char *kept = *room;
    memcpy(kept, text, size);
    kept[size] = '\0';
    *room += size + 1;
    return kept;
}

static struct route *route_make(const char *method, const struct piece *params, int count)
{
    size_t size = method != NULL ? strlen(method) + 1 : 0;
    for (int i = 0; i < count; i++)
        size += params[i].size + 1;
    struct route *route = weft__http_allocate(sizeof *route + size);
    if (route == NULL)
        return NULL;
    *route = (struct route){.count = count};
    char *room = route->texts;
    if (method != NULL)
        route->method = keep_text(&room, method, strlen(method));
    for (int i = 0; i < count; i++)
        route->names[i] = keep_text(&room, params[i].text, params[i].size);
    return route;
}

static bool is_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

int weft__http_routes_add(struct routes *routes, const char *method, const char *pattern,
                          weft_http_handler handler, void *data)
{
    struct piece params[HTTP_PARAMS];
    int count = read_params(pattern, params);
    if (count < 0 || (method != NULL && !weft__http_is_token(method)))
        return -EINVAL;
    struct route_node *node = node_of(routes, pattern);
    if (node == NULL)
        return -ENOMEM;
    for (const struct route *route = node->routes; route != NULL; route = route->next)
        if (is_same(route->method, method))
            return -EEXIST;
    struct route *route = route_make(method, params, count);
    if (route == NULL)
        return -ENOMEM;
    route->handler = handler;
    route->data = data;
    route->next = node->routes;
    node->routes = route;
    return 0;
}

void weft__http_routes_free(struct routes *routes)
{
    while (routes->all != NULL) {
        struct route_node *node = routes->all;
        routes->all = node->other;
        while (node->routes != NULL) {
            struct route *route = node->routes;
            node->routes = route->next;
            weft__http_free(route);
        }
        weft__http_free(node->texts);
        weft__http_free(node);
    }
    routes->root = NULL;
}

static const struct route *route_for(const struct route_node *node, const char *method)
{
    for (const struct route *route = node->routes; route != NULL; route = route->next)
        if (is_same(route->method, method))
            return route;
    return NULL;
}

const struct route *weft__http_routes_of(const struct route_node *node, const char *method)
{
    const struct route *route = route_for(node, method);
    if (route == NULL && strcmp(method, "HEAD") == 0)
        route = route_for(node, "GET");
    return route != NULL ? route : route_for(node, NULL);
}

/* ---- the search ---- */

void weft__http_routes_look(const struct routes *routes, const char *path,
                            struct route_cursor *cursor)
{
    bool is_path = path[0] == '/'; /* the "*" of OPTIONS has no routes */
    *cursor = (struct route_cursor){is_path ? routes->root : NULL, path, ROUTE_TEXT};
}

/* Goes down to a child that matches the next segment, of the kinds from `kind` on. */
static bool enter(struct route_cursor *cursor)
{
    const struct route_node *node = cursor->node, *child = NULL;
    if (*cursor->at == '\0')
        return false;
    const char *segment = cursor->at + 1;
    size_t size = strcspn(segment, "/");
    if (cursor->kind <= ROUTE_TEXT)
        child = find_text(node, segment, size);
    if (child == NULL && cursor->kind <= ROUTE_PARAM && size > 0)
        child = node->param;
    if (child != NULL)
        cursor->at = segment + size;
    else if (cursor->kind <= ROUTE_REST)
        child = node->rest;
    if (child == NULL)
        return false;
    cursor->node = child;
    cursor->kind = ROUTE_TEXT;
    return true;
}

/* The slash of the segment before `at`. */
static const char *segment_before(const char *at)
{
    do
        at--;
    while (*at != '/');
    return at;
}

/* Goes up to the parent, where the search goes on with the kinds after the child's. */
static bool leave(struct route_cursor *cursor)
{
    const struct route_node *node = cursor->node;
    if (node->parent == NULL)
        return false;
    if (node->kind != ROUTE_REST)
        cursor->at = segment_before(cursor->at);
    cursor->node = node->parent;
    cursor->kind = node->kind + 1;
    return true;
}

const struct route_node *weft__http_routes_next(struct route_cursor *cursor)
{
    if (cursor->node == NULL)
        return NULL;
    for (;;) {
        if (enter(cursor)) {
            bool whole = cursor->node->kind == ROUTE_REST || *cursor->at == '\0';
            if (whole && cursor->node->routes != NULL)
                return cursor->node;
        } else if (!leave(cursor)) {
            return NULL;
        }
    }
}

int weft__http_routes_values(const struct route_cursor *cursor, struct route_value *values)
{
    int count = 0;
    for (const struct route_node *node = cursor->node; node->parent != NULL; node = node->parent)
        count += node->kind != ROUTE_TEXT;
    int number = count;
    const char *at = cursor->at;
    for (const struct route_node *node = cursor->node; node->parent != NULL; node = node->parent) {
        if (node->kind == ROUTE_REST) {
            values[--number] = (struct route_value){at + 1, strlen(at + 1)};
            continue;
        }
        const char *end = at;
        at = segment_before(end);
        if (node->kind == ROUTE_PARAM)
            values[--number] = (struct route_value){at + 1, (size_t)(end - at - 1)};
    }
    return count;
}
