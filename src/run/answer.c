/* See answer.h. */
#include "run/answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define HELD_MAX ((size_t)64 << 20)
#define STOPS_MAX 64
#define STOP_BYTES_MAX ((size_t)4096) /* of one stop string: bounds the search behind every token */

int answer_init(struct answer *a, const struct tokenizer *t, bool keep_special, const char *const *stop, size_t n_stop,
                struct error *e)
{
    memset(a, 0, sizeof *a);
    a->has_text = t != NULL;
    if (t)
        detok_init(&a->detok, t, !keep_special);
    buf_init(&a->held, HELD_MAX);
    if (n_stop > STOPS_MAX)
        return error_set(e, ERR_INVALID, "stop", "stop has %zu strings, at most %d are allowed", n_stop, STOPS_MAX);
    a->stop = calloc(n_stop ? n_stop : 1, sizeof *a->stop);
    if (!a->stop)
        return error_nomem(e, "stop strings");
    for (size_t i = 0; i < n_stop; i++) {
        size_t len = stop[i] ? strlen(stop[i]) : 0;
        if (!len)
            continue;
        if (len > STOP_BYTES_MAX)
            return error_set(e, ERR_INVALID, "stop", "stop string %zu has %zu bytes, at most %zu are allowed", i, len,
                             STOP_BYTES_MAX);
        a->stop[a->n_stop] = strdup(stop[i]);
        if (!a->stop[a->n_stop])
            return error_nomem(e, "stop strings");
        a->n_stop++;
        a->stop_max = MAX(a->stop_max, len);
    }
    return 0;
}

void answer_deinit(struct answer *a)
{
    detok_deinit(&a->detok);
    for (size_t i = 0; i < a->n_stop; i++)
        free(a->stop[i]);
    free(a->stop);
    buf_deinit(&a->held);
    memset(a, 0, sizeof *a);
}

/* Position of the earliest stop string in the held text (the longest at equal places), or held.n. */
static size_t find_stop(const struct answer *a, const char **hit)
{
    size_t best = a->held.n;
    *hit = NULL;
    for (size_t i = 0; i < a->n_stop; i++) {
        size_t      len = strlen(a->stop[i]);
        const char *p = a->held.n ? memmem(a->held.p, a->held.n, a->stop[i], len) : NULL;
        size_t      at = p ? (size_t)(p - a->held.p) : best;
        if (p && (at < best || (*hit && at == best && len > strlen(*hit)))) {
            best = at;
            *hit = a->stop[i];
        }
    }
    return best;
}

/* Length of the longest end of the held text that begins a stop string. */
static size_t undecided(const struct answer *a)
{
    size_t most = a->stop_max ? MIN(a->held.n, a->stop_max - 1) : 0;
    for (size_t n = most; n > 0; n--)
        for (size_t i = 0; i < a->n_stop; i++)
            if (strlen(a->stop[i]) > n && !memcmp(a->held.p + a->held.n - n, a->stop[i], n))
                return n;
    return 0;
}

static int emit(struct answer *a, bool last, struct buf *out, const char **hit)
{
    size_t n = find_stop(a, hit), open = last ? a->held.n : a->held.n - undecided(a);
    if (open < n) { /* a stop string may still turn out to begin before the one that is complete */
        n = open;
        *hit = NULL;
    }
    buf_put(out, buf_cstr(&a->held), n);
    if (n) {
        memmove(a->held.p, a->held.p + n, a->held.n - n + 1); /* with the NUL */
        a->held.n -= n;
    }
    if (*hit)
        buf_clear(&a->held);
    return out->failed || a->held.failed ? ERR_NOMEM : 0;
}

int answer_push(struct answer *a, int32_t id, struct buf *out, const char **hit)
{
    *hit = NULL;
    if (!a->has_text)
        return 0;
    int err = detok_push(&a->detok, id, &a->held);
    return err ? err : emit(a, false, out, hit);
}

int answer_finish(struct answer *a, struct buf *out, const char **hit)
{
    *hit = NULL;
    if (!a->has_text)
        return 0;
    int err = detok_finish(&a->detok, &a->held);
    return err ? err : emit(a, true, out, hit);
}
