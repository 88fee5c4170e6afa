/* Formatting and collecting error sentences; contracts in error.h. */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define FAULTS_NAMED 20
#define FAULTS_MAX 100000

struct fault {
    char *name, *msg;
};

static const struct {
    int         http;
    const char *type;
} facts[ERR_COUNT] = {
    [ERR_OK] = {200, ""},
#define ERROR(name, http, type) [name] = {http, type},
#include "base/errors.def"
#undef ERROR
};

void error_escape(char *dst, size_t cap, const char *src)
{
    size_t n = strlen(src), o = 0;
    for (size_t i = 0; i < n;) {
        char     hex[5];
        uint32_t cp;
        int      len = utf8_decode(src + i, n - i, &cp);
        int      bad = len <= 0 || cp < 0x20 || (cp >= 0x7f && cp < 0xa0);
        size_t   out = bad ? 4 : (size_t)len;
        if (o + out >= cap)
            break;
        if (bad) {
            snprintf(hex, sizeof hex, "\\x%02x", (unsigned char)src[i]);
            memcpy(dst + o, hex, 4);
            i += 1;
        } else {
            memcpy(dst + o, src + i, out);
            i += out;
        }
        o += out;
    }
    dst[o] = '\0';
}

int error_vset(struct error *e, int code, const char *param, const char *fmt, va_list ap)
{
    char raw[ERROR_MSG_MAX * 2];
    if (!e)
        return code;
    vsnprintf(raw, sizeof raw, fmt, ap);
    e->code = code;
    error_escape(e->msg, sizeof e->msg, raw);
    error_escape(e->param, sizeof e->param, param ? param : "");
    return code;
}

int error_set(struct error *e, int code, const char *param, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    error_vset(e, code, param, fmt, ap);
    va_end(ap);
    return code;
}

int error_prefix(struct error *e, const char *fmt, ...)
{
    char    pre[ERROR_MSG_MAX], whole[ERROR_MSG_MAX * 2];
    va_list ap;
    if (!e)
        return ERR_INTERNAL;
    va_start(ap, fmt);
    vsnprintf(pre, sizeof pre, fmt, ap);
    va_end(ap);
    snprintf(whole, sizeof whole, "%s: %s", pre, e->msg);
    error_escape(e->msg, sizeof e->msg, whole);
    return e->code;
}

int error_nomem(struct error *e, const char *what)
{
    return error_set(e, ERR_NOMEM, NULL, "out of memory for %s", what);
}

int error_errno(struct error *e, int en, const char *action, const char *path)
{
    char        text[128];
    const char *why = strerror_r(en, text, sizeof text);
    return error_set(e,
                     en == ENOMEM   ? ERR_NOMEM
                     : en == ENOENT ? ERR_NOT_FOUND
                                    : ERR_IO,
                     NULL, "cannot %s %s: %s", action, path, why);
}

int error_http_status(int code)
{
    return code >= 0 && code < ERR_COUNT ? facts[code].http : 500;
}

const char *error_api_type(int code)
{
    return code >= 0 && code < ERR_COUNT ? facts[code].type : "server_error";
}

void faults_add(struct faults *f, int code, const char *name, const char *fmt, ...)
{
    char    msg[ERROR_MSG_MAX];
    va_list ap;
    if (f->n == FAULTS_MAX)
        return;
    if (f->n == f->cap) {
        size_t        cap = f->cap ? f->cap * 2 : 16;
        struct fault *v = realloc(f->v, cap * sizeof *v);
        if (!v) {
            f->nomem = 1;
            return;
        }
        f->v = v;
        f->cap = cap;
    }
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    struct fault x = {strdup(name), strdup(msg)};
    if (!x.name || !x.msg) {
        free(x.name);
        free(x.msg);
        f->nomem = 1;
        return;
    }
    if (!f->n)
        f->code = code;
    f->v[f->n++] = x;
}

static int by_name(const void *a, const void *b)
{
    const struct fault *x = a, *y = b;
    int                 c = strcmp(x->name, y->name);
    return c ? c : strcmp(x->msg, y->msg);
}

/* Sorts, and keeps one of each: a field that is read for every layer is at fault once. */
static void sort_faults(struct faults *f)
{
    size_t n = 0;
    qsort(f->v, f->n, sizeof *f->v, by_name);
    for (size_t i = 0; i < f->n; i++) {
        struct fault x = f->v[i];
        if (n && !by_name(&f->v[n - 1], &x)) {
            free(x.name);
            free(x.msg);
        } else
            f->v[n++] = x;
    }
    f->n = n;
}

int faults_report(struct faults *f, struct error *e)
{
    char   all[ERROR_MSG_MAX];
    size_t o = 0, i = 0;
    if (f->nomem)
        return error_nomem(e, "the list of faults");
    if (!f->n)
        return 0;
    sort_faults(f);
    for (; i < f->n && i < FAULTS_NAMED; i++) {
        size_t len = strlen(f->v[i].msg) + (i ? 2 : 0);
        if (i && o + len + 32 >= sizeof all)
            break; /* room for "; and N more" */
        o += (size_t)snprintf(all + o, sizeof all - o, "%s%s", i ? "; " : "", f->v[i].msg);
        if (o >= sizeof all)
            o = sizeof all - 1;
    }
    if (i < f->n && o + 32 < sizeof all)
        snprintf(all + o, sizeof all - o, "; and %zu more", f->n - i);
    return error_set(e, f->code, f->v[0].name, "%s", all);
}

void faults_deinit(struct faults *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->v[i].name);
        free(f->v[i].msg);
    }
    free(f->v);
    memset(f, 0, sizeof *f);
}
