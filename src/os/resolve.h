/*
 * resolve.h: names of hosts and services. Rules of all calls: os/os.h.
 */
#ifndef WEFT_OS_RESOLVE_H
#define WEFT_OS_RESOLVE_H

struct addrinfo;

/* As getaddrinfo: 0 or EAI_..., and a list that weft__os_freeaddrinfo frees. *error is errno after
 * that call, negative: of meaning for EAI_SYSTEM. Blocks, for many seconds if a name server is
 * silent; not with AI_NUMERICHOST and AI_NUMERICSERV. [OS_RESOLVE] */
int weft__os_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                         struct addrinfo **list, int *error);
void weft__os_freeaddrinfo(struct addrinfo *list);

/* For tests: has another function do what getaddrinfo does; NULL for the real one. */
typedef int weft__os_lookup(const char *host, const char *service, const struct addrinfo *hints,
                            struct addrinfo **list);
void weft__os_getaddrinfo_by(weft__os_lookup *lookup);

#endif
