/* Growable byte buffers with a maximum that is given at the start, and string views.
 *
 * Failure is sticky: after an allocation failed or the maximum was passed, further writes do nothing and b->failed stays
 * set, so a sequence of writes is checked once at its end. The content is always NUL-terminated.
 */
#ifndef MLXCEL_BASE_BUF_H
#define MLXCEL_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A view of bytes that somebody else owns; not NUL-terminated. */
struct str {
    const char *p;
    size_t      n;
};
#define STR(lit) ((struct str){"" lit, sizeof(lit) - 1})
#define STR_FMT "%.*s"
#define STR_ARG(s) (int)(s).n, (s).p

static inline struct str str_of(const char *z)
{
    return (struct str){z, strlen(z)};
}
static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool str_is(struct str a, const char *z)
{
    return str_eq(a, str_of(z));
}

struct buf {
    char  *p; /* NULL until the first write; use buf_cstr for a string that is never NULL */
    size_t n, cap, max;
    bool   failed;
    bool   full; /* the failure was the maximum, not the allocator */
};

void                      buf_init(struct buf *b, size_t max);
void                      buf_deinit(struct buf *b);
void                      buf_clear(struct buf *b); /* empties, keeps the memory, clears the failure */
bool                      buf_reserve(struct buf *b, size_t more);
void                      buf_put(struct buf *b, const void *p, size_t n);
void                      buf_putc(struct buf *b, char c);
void                      buf_puts(struct buf *b, const char *z);
void                      buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline const char *buf_cstr(const struct buf *b)
{
    return b->p ? b->p : "";
}
static inline struct str buf_str(const struct buf *b)
{
    return (struct str){buf_cstr(b), b->n};
}

#endif
