/* The table of routes (routes.def) and its handlers. */
#ifndef MLXCEL_SERVER_ROUTES_H
#define MLXCEL_SERVER_ROUTES_H

#include "server/http.h"

enum { ROUTE_PUBLIC = 1, ROUTE_BELOW = 2 /* the path is the beginning of those it answers */ };

struct route {
    const char *method, *path;
    void (*handler)(struct http *h);
    unsigned flags;
};

/* Answers a request whose body is complete: until the model is loaded and after the end began, all of them with 503. */
void routes_dispatch(struct http *h);
/* The route of a path for messages about it, any method; NULL when there is none. */
const struct route *routes_find(const char *method, const char *path);

#define ROUTE(method, path, handler, flags) void handler(struct http *h);
#include "server/routes.def"
#undef ROUTE

#endif
