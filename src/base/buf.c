/* Growable buffers; contracts in buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_deinit(struct buf *b)
{
    free(b->p);
    *b = (struct buf){.max = b->max};
}

void buf_clear(struct buf *b)
{
    b->n = 0;
    b->failed = b->full = false;
    if (b->p)
        b->p[0] = '\0';
}

bool buf_reserve(struct buf *b, size_t more)
{
    size_t need, cap;
    if (b->failed)
        return false;
    if (!num_add(b->n, more, &need) || need > b->max || !num_add(need, (size_t)1, &need)) {
        b->failed = b->full = true;
        return false;
    }
    if (need <= b->cap)
        return true;
    cap = MAX(b->cap < SIZE_MAX / 2 ? b->cap * 2 : need, (size_t)64);
    cap = MAX(MIN(cap, b->max < SIZE_MAX ? b->max + 1 : b->max), need);
    char *p = realloc(b->p, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
    if (!buf_reserve(b, n))
        return;
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
}

void buf_putc(struct buf *b, char c)
{
    buf_put(b, &c, 1);
}

void buf_puts(struct buf *b, const char *z)
{
    buf_put(b, z, strlen(z));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        b->failed = true;
    else if (buf_reserve(b, (size_t)n)) {
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}
