/* Requests and replies, over libmicrohttpd: everything above this file speaks JSON values and text pieces.
 *
 * A handler gets a struct http with the whole body read, and ends by exactly one http_reply_* or http_stream call. It runs on
 * the connection's own thread and may block.
 */
#ifndef MLXCEL_SERVER_HTTP_H
#define MLXCEL_SERVER_HTTP_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "mlxcel.h"

#define HTTP_BODY_MAX ((size_t)32 << 20)
#define HTTP_TOO_LARGE "the request body is larger than 32 MiB"

struct server;
struct route;
struct MHD_Connection;

struct http {
    struct server         *server;
    struct MHD_Connection *connection;
    const struct route    *route;
    const char            *method, *path;
    struct buf             body;
    bool                   too_large;
    size_t                 n_dropped; /* bytes of a body that is too large */
    bool                   counted;   /* in server.n_running */
    int                    status;    /* of the reply, for the log */
    int                    queued;    /* what libmicrohttpd said to it */
};

/* Starts and stops listening. */
int  http_start(struct server *s, struct error *e);
void http_quiesce(struct server *s); /* accepts no new connections */
void http_stop(struct server *s);    /* after that: closes all connections, waits for their threads */

/* Replies with a text. */
void http_reply_text(struct http *h, const char *type, const char *text);
/* Replies with a JSON value, whose reference is taken (NULL: out of memory, a 500). */
void http_reply_json(struct http *h, int status, json_t *value);
/* Replies with the error object {"error": {"code", "message", "type", "param"?}} and the status of its code. */
void    http_reply_error(struct http *h, const struct error *e);
json_t *http_error_value(const struct error *e); /* that object; NULL: out of memory */
/* The same with a status and type of its own. */
void http_reply_fault(struct http *h, int status, const char *type, const char *message);
/* 204 to OPTIONS, with what the path allows; 405 with the same. */
void http_reply_options(struct http *h, const char *allow);
void http_reply_not_allowed(struct http *h, const char *allow);

/* Replies with Server-Sent Events. next appends the next bytes of the stream to out, blocking until there are some, and
 * returns false at the end (after appending the last ones). done frees ctx when the stream ended or the client left. */
typedef bool http_next(void *ctx, struct buf *out);
void         http_stream(struct http *h, http_next *next, void (*done)(void *ctx), void *ctx);

/* The client's socket, and whether the client has closed its side of it. */
int  http_socket(const struct http *h);
bool http_socket_closed(int fd);

/* The body as a JSON object or array (a new reference), once: its text is freed. NULL after replying with 400. */
json_t *http_body_object(struct http *h);
json_t *http_body_array(struct http *h);

#endif
