/* Dispatch: which handler answers, who may ask, and the answers that need no handler. */
#include "server/routes.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "server/server_int.h"

#define PUBLIC ROUTE_PUBLIC
#define BELOW ROUTE_BELOW
static const struct route routes[] = {
#define ROUTE(method, path, handler, flags) {method, path, handler, flags},
#include "server/routes.def"
#undef ROUTE
};
#undef PUBLIC
#undef BELOW

static bool path_is(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);
    return r->flags & ROUTE_BELOW ? !strncmp(r->path, path, n) && path[n] : !strcmp(r->path, path);
}

/* HEAD asks for what GET would answer. */
static bool method_is(const struct route *r, const char *method)
{
    return !strcmp(r->method, method) || (!strcmp(method, "HEAD") && !strcmp(r->method, "GET"));
}

const struct route *routes_find(const char *method, const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (path_is(&routes[i], path) && (!method || method_is(&routes[i], method)))
            return &routes[i];
    return NULL;
}

static bool same_secret(const char *a, const char *b)
{
    size_t        n = strlen(a), k = strlen(b);
    unsigned char diff = n != k;
    for (size_t i = 0; i < n; i++)
        diff |= (unsigned char)(a[i] ^ b[k ? i % k : 0]);
    return !diff;
}

static bool may_ask(const struct http *h, const struct route *route)
{
    const char *key = h->server->o.api_key;
    const char *bearer = MHD_lookup_connection_value(h->connection, MHD_HEADER_KIND, "Authorization");
    const char *plain = MHD_lookup_connection_value(h->connection, MHD_HEADER_KIND, "X-Api-Key");
    if (!key || (route && (route->flags & ROUTE_PUBLIC)))
        return true;
    if (bearer && !strncasecmp(bearer, "Bearer ", 7))
        return same_secret(key, bearer + 7);
    return plain && same_secret(key, plain);
}

/* The methods of a path, as the Allow header lists them. */
static const char *allowed(const char *path, char out[64])
{
    out[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (path_is(&routes[i], path))
            snprintf(out + strlen(out), 64 - strlen(out), "%s%s, ", routes[i].method,
                     strcmp(routes[i].method, "GET") ? "" : ", HEAD");
    snprintf(out + strlen(out), 64 - strlen(out), "OPTIONS");
    return out;
}

/* Why the server cannot answer anything now; NULL when it can. */
static const char *unavailable(struct server *s)
{
    switch ((enum server_state)atomic_load(&s->state)) {
    case SERVER_LOADING:
        return "Loading model";
    case SERVER_FAILED:
        return s->load_error.message;
    case SERVER_READY:
        break;
    }
    return atomic_load(&s->stopping) ? "the server is shutting down" : NULL;
}

void routes_dispatch(struct http *h)
{
    const struct route *any = routes_find(NULL, h->path);
    const char         *why = unavailable(h->server);
    char                allow[64];
    h->route = routes_find(h->method, h->path);
    if (any && !strcmp(h->method, "OPTIONS"))
        http_reply_options(h, allowed(h->path, allow)); /* browsers ask without a key */
    else if (!may_ask(h, any))
        http_reply_fault(h, 401, "authentication_error", "Invalid API Key");
    else if (why)
        http_reply_fault(h, 503, "unavailable_error", why);
    else if (!any)
        http_reply_fault(h, 404, "not_found_error", "no such route; docs/server.md lists the routes");
    else if (!h->route)
        http_reply_not_allowed(h, allowed(h->path, allow));
    else if (h->too_large)
        http_reply_fault(h, 413, "invalid_request_error", HTTP_TOO_LARGE);
    else
        h->route->handler(h);
}
