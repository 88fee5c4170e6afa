/* Requests and replies over libmicrohttpd; contracts in http.h. */
#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pyjson.h"
#include "server/routes.h"
#include "server/server_int.h"

#define CONNECTIONS_MAX 512
#define HEADERS_MAX ((size_t)64 << 10)
#define STACK_BYTES ((size_t)4 << 20)
#define JSON_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(9))

/* ---- replies ---- */

static void queue(struct http *h, int status, struct MHD_Response *r, const char *type)
{
    if (!r) {
        h->queued = MHD_NO;
        return;
    }
    if (type)
        MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Access-Control-Allow-Origin", "*");
    if (status == 503)
        MHD_add_response_header(r, "Retry-After", "5");
    if (status == 401)
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (status == 413 || atomic_load(&h->server->stopping))
        MHD_add_response_header(r, "Connection", "close");
    h->status = status;
    h->queued = MHD_queue_response(h->connection, (unsigned)status, r);
    MHD_destroy_response(r);
}

void http_reply_text(struct http *h, const char *type, const char *text)
{
    queue(h, 200, MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY), type);
}

void http_reply_json(struct http *h, int status, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_FLAGS) : NULL;
    json_decref(value);
    if (!text) {
        static const char oom[] = "{\"error\":{\"code\":500,\"message\":\"out of memory\",\"type\":\"server_error\"}}";
        queue(h, 500, MHD_create_response_from_buffer(sizeof oom - 1, (void *)oom, MHD_RESPMEM_PERSISTENT),
              "application/json; charset=utf-8");
        return;
    }
    queue(h, status, MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE),
          "application/json; charset=utf-8");
}

static json_t *error_value(int status, const char *type, const char *message)
{
    return json_pack("{s:{s:i, s:s, s:s}}", "error", "code", status, "message", message, "type", type);
}

void http_reply_fault(struct http *h, int status, const char *type, const char *message)
{
    http_reply_json(h, status, error_value(status, type, message));
}

json_t *http_error_value(const struct error *e)
{
    int     kind = e->code == ERR_CONTEXT ? ERR_INVALID : e->code;
    json_t *v = error_value(error_http_status(e->code), error_api_type(kind), e->msg);
    json_t *inner = json_object_get(v, "error");
    if (e->param[0])
        json_object_set_new(inner, "param", json_string(e->param));
    if (kind != e->code) /* OpenAI's code for it is a word */
        json_object_set_new(inner, "code", json_string(error_api_type(e->code)));
    return v;
}

void http_reply_error(struct http *h, const struct error *e)
{
    http_reply_json(h, error_http_status(e->code), http_error_value(e));
}

static json_t *body_of(struct http *h, json_type type, const char *what)
{
    struct error e;
    json_t      *v = NULL;
    int          err = pyjson_parse(&v, buf_str(&h->body), "the request body", &e); /* bounds what a tree may hold */
    buf_deinit(&h->body);                                                           /* an answer may take long */
    if (!err && json_typeof(v) == type)
        return v;
    if (!err)
        error_set(&e, ERR_INVALID, NULL, "the request body must be a JSON %s", what);
    else if (err != ERR_NOMEM)
        e.code = ERR_INVALID;
    json_decref(v);
    http_reply_error(h, &e);
    return NULL;
}

json_t *http_body_object(struct http *h)
{
    return body_of(h, JSON_OBJECT, "object");
}

json_t *http_body_array(struct http *h)
{
    return body_of(h, JSON_ARRAY, "array");
}

void http_reply_options(struct http *h, const char *allow)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    if (r) {
        MHD_add_response_header(r, "Allow", allow);
        MHD_add_response_header(r, "Access-Control-Allow-Methods", allow);
        MHD_add_response_header(r, "Access-Control-Allow-Headers", "*");
    }
    queue(h, 204, r, NULL);
}

void http_reply_not_allowed(struct http *h, const char *allow)
{
    json_t *v = error_value(405, "invalid_request_error", "the method is not allowed here; see the Allow header");
    char   *text = v ? json_dumps(v, JSON_FLAGS) : NULL;
    json_decref(v);
    struct MHD_Response *r = text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (r)
        MHD_add_response_header(r, "Allow", allow);
    queue(h, 405, r, "application/json; charset=utf-8");
}

/* ---- streams ---- */

/* While we compute the connection is not idle; its clock starts anew when we are done. */
static void stop_clock(struct http *h)
{
    MHD_set_connection_option(h->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
}

static void start_clock(struct http *h)
{
    MHD_set_connection_option(h->connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)h->server->o.timeout);
}

struct stream {
    struct http *http;
    http_next   *next;
    void (*done)(void *ctx);
    void      *ctx;
    struct buf out;
    size_t     sent;
    bool       over;
};

static ssize_t stream_read(void *cls, uint64_t pos, char *to, size_t max)
{
    struct stream *s = cls;
    (void)pos;
    while (s->sent == s->out.n) {
        if (s->over)
            return MHD_CONTENT_READER_END_OF_STREAM;
        buf_clear(&s->out);
        s->sent = 0;
        stop_clock(s->http);
        s->over = !s->next(s->ctx, &s->out);
        start_clock(s->http);
        if (s->out.failed)
            return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t n = s->out.n - s->sent < max ? s->out.n - s->sent : max;
    memcpy(to, s->out.p + s->sent, n);
    s->sent += n;
    return (ssize_t)n;
}

static void stream_free(void *cls)
{
    struct stream *s = cls;
    s->done(s->ctx);
    buf_deinit(&s->out);
    free(s);
}

void http_stream(struct http *h, http_next *next, void (*done)(void *ctx), void *ctx)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s) {
        done(ctx);
        http_reply_json(h, 500, NULL);
        return;
    }
    *s = (struct stream){.http = h, .next = next, .done = done, .ctx = ctx};
    buf_init(&s->out, HTTP_BODY_MAX);
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, stream_read, s, stream_free);
    if (!r) {
        stream_free(s);
        http_reply_json(h, 500, NULL);
        return;
    }
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    queue(h, 200, r, "text/event-stream; charset=utf-8");
}

/* ---- the client's side ---- */

int http_socket(const struct http *h)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(h->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return i ? i->connect_fd : -1;
}

bool http_socket_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return fd < 0 || (poll(&p, 1, 0) > 0 && p.revents);
}

/* ---- requests ---- */

struct lengths {
    const char *first;
    bool        conflict;
};

static enum MHD_Result see_length(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct lengths *l = cls;
    (void)kind;
    if (!strcasecmp(key, "Content-Length")) {
        if (l->first && value && strcmp(l->first, value) != 0)
            l->conflict = true;
        l->first = value;
    }
    return MHD_YES;
}

/* Two different lengths, or a length beside chunks, are how requests are smuggled: refused before the body is read. */
static bool lengths_conflict(struct MHD_Connection *c)
{
    struct lengths l = {0};
    MHD_get_connection_values(c, MHD_HEADER_KIND, see_length, &l);
    return l.conflict || (l.first && MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Transfer-Encoding"));
}

static bool declared_too_large(struct MHD_Connection *c)
{
    const char *n = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
    return n && (strlen(n) > 18 || strtoull(n, NULL, 10) > HTTP_BODY_MAX);
}

/* The headers are there. What can be refused by them alone is, and the connection ends: its body is not read. */
static void check_headers(struct http *h)
{
    const char *coding = MHD_lookup_connection_value(h->connection, MHD_HEADER_KIND, "Transfer-Encoding");
    if (lengths_conflict(h->connection))
        http_reply_fault(h, 400, "invalid_request_error", "conflicting Content-Length and Transfer-Encoding");
    else if (coding && strcasecmp(coding, "chunked") != 0)
        http_reply_fault(h, 501, "not_supported_error", "the only Transfer-Encoding that is supported is chunked");
    else if (declared_too_large(h->connection))
        http_reply_fault(h, 413, "invalid_request_error", HTTP_TOO_LARGE);
}

/* Keeps a part of the body, or drops it when the whole is too large. False: the client goes on sending after all. */
static bool take_body(struct http *h, const char *data, size_t n)
{
    if (!h->too_large)
        buf_put(&h->body, data, n);
    if (!h->body.failed)
        return true;
    if (!h->too_large)
        buf_deinit(&h->body);
    h->body.failed = h->too_large = true;
    h->n_dropped += n;
    return h->n_dropped <= HTTP_BODY_MAX;
}

static void answer(struct http *h)
{
    stop_clock(h);
    atomic_fetch_add(&h->server->n_running, 1);
    h->counted = true;
    routes_dispatch(h);
    log_info(&h->server->log, "%s %s %d", h->method, h->path, h->status);
    start_clock(h);
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *c, const char *path, const char *method,
                                 const char *version, const char *data, size_t *size, void **req_cls)
{
    struct http *h = *req_cls;
    (void)version;
    if (!h) {
        *req_cls = h = calloc(1, sizeof *h);
        if (!h)
            return MHD_NO;
        *h = (struct http){.server = cls, .connection = c, .method = method, .path = path, .queued = MHD_YES};
        buf_init(&h->body, HTTP_BODY_MAX);
        check_headers(h);
    } else if (*size) {
        if (!take_body(h, data, *size))
            return MHD_NO;
        *size = 0;
    } else
        answer(h);
    return h->queued ? MHD_YES : MHD_NO;
}

static void completed(void *cls, struct MHD_Connection *c, void **req_cls, enum MHD_RequestTerminationCode why)
{
    struct http *h = *req_cls;
    (void)cls;
    (void)c;
    (void)why;
    if (!h)
        return;
    if (h->counted)
        atomic_fetch_sub(&h->server->n_running, 1);
    buf_deinit(&h->body);
    free(h);
    *req_cls = NULL;
}

/* ---- listening ---- */

static int listen_on(const char *host, int port, int *fd, struct error *e)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char             service[16], where[300];
    int              one = 1, en = 0;
    snprintf(service, sizeof service, "%d", port);
    snprintf(where, sizeof where, "%s:%d", host, port);
    int status = getaddrinfo(host, service, &hints, &list);
    if (status)
        return error_set(e, ERR_IO, "host", "cannot listen on %s: %s", where, gai_strerror(status));
    *fd = -1;
    for (struct addrinfo *a = list; a && *fd < 0; a = a->ai_next) {
        int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (s >= 0) {
            setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
            if (!bind(s, a->ai_addr, a->ai_addrlen) && !listen(s, 511)) {
                *fd = s;
                break;
            }
        }
        en = errno;
        if (s >= 0)
            close(s);
    }
    freeaddrinfo(list);
    return *fd >= 0 ? 0 : error_errno(e, en, "listen on", where);
}

static int port_of(int fd)
{
    union {
        struct sockaddr     any;
        struct sockaddr_in  v4;
        struct sockaddr_in6 v6;
    } a = {.v6 = {0}};
    socklen_t n = sizeof a;
    if (getsockname(fd, &a.any, &n))
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

int http_start(struct server *s, struct error *e)
{
    const char *host = s->o.host ? s->o.host : "127.0.0.1";
    int         fd = -1, err = listen_on(host, s->o.port, &fd, e);
    if (err)
        return err;
    s->daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC,
                         0, NULL, NULL, on_access, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                         CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)s->o.timeout,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADERS_MAX, MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES,
                         MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!s->daemon) {
        close(fd);
        return error_set(e, ERR_IO, NULL, "cannot start the HTTP server");
    }
    log_info(&s->log, strchr(host, ':') ? "listening on http://[%s]:%d" : "listening on http://%s:%d", host,
             port_of(fd));
    return 0;
}

void http_quiesce(struct server *s)
{
    s->quiet_fd = MHD_quiesce_daemon(s->daemon);
    if (s->quiet_fd >= 0)
        shutdown(s->quiet_fd, SHUT_RDWR); /* refuses from now on; closed only when no thread can use it any more */
}

void http_stop(struct server *s)
{
    MHD_stop_daemon(s->daemon);
    if (s->quiet_fd >= 0)
        close(s->quiet_fd);
}
