/* See merges.h. */
#include "text/merges.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"

static int put(struct merges *m, struct merge merge, struct error *e)
{
    if (m->n >= MERGES_MAX)
        return error_set(e, ERR_LIMIT, NULL, "the vocabulary implies more than %d merges", MERGES_MAX);
    struct merge *v = vec_room(m->v, m->n, &m->cap, sizeof *v);
    if (!v)
        return error_nomem(e, "the merges");
    m->v = v;
    m->v[m->n++] = merge;
    return 0;
}

/* The usable token that is spelled so, -1 if there is none. */
static int32_t part(const struct vocab *vocab, const struct merges_rule *rule, const char *p, size_t n)
{
    int32_t id = vocab_find(vocab, (struct str){p, n});
    return id >= 0 && (!rule->usable || rule->usable[id]) ? id : -1;
}

static int by_left_id(const void *a, const void *b)
{
    const struct merge *x = a, *y = b;
    return (x->left > y->left) - (x->left < y->left);
}

int merges_derive(struct merges *m, const struct vocab *vocab, const struct merges_rule *rule, struct error *e)
{
    int status = 0;
    for (size_t i = 0; i < rule->n_order && !status; i++) {
        struct str text = vocab_text(vocab, rule->order[i]);
        size_t     from = m->n;
        for (size_t cut = 1; cut < text.n && !status; cut++) {
            if (((unsigned char)text.p[cut] & 0xc0) == 0x80)
                continue;
            int32_t left = part(vocab, rule, text.p, cut);
            int32_t right = left < 0 ? -1 : part(vocab, rule, text.p + cut, text.n - cut);
            if (right >= 0)
                status = put(m, (struct merge){left, right, rule->order[i]}, e);
        }
        if (rule->by_left_id && m->n - from > 1)
            qsort(m->v + from, m->n - from, sizeof *m->v, by_left_id);
    }
    return status;
}

static int by_score(const void *a, const void *b, void *scores)
{
    const float *s = scores;
    int32_t      x = *(const int32_t *)a, y = *(const int32_t *)b;
    return s[x] != s[y] ? (s[x] < s[y]) - (s[x] > s[y]) : (x > y) - (x < y);
}

int merges_derive_by_score(struct merges *m, const struct vocab *vocab, const float *scores, const uint8_t *usable,
                           struct error *e)
{
    int32_t           *order = malloc((vocab->size + 1) * sizeof *order);
    struct merges_rule rule = {.order = order, .usable = usable};
    if (!order)
        return error_nomem(e, "the merges");
    for (size_t i = 0; i < vocab->size; i++)
        if (usable[i] && vocab_has(vocab, (int64_t)i))
            order[rule.n_order++] = (int32_t)i;
    qsort_r(order, rule.n_order, sizeof *order, by_score, (void *)scores);
    int status = merges_derive(m, vocab, &rule, e);
    free(order);
    return status;
}

void merges_deinit(struct merges *m)
{
    free(m->v);
    *m = (struct merges){0};
}
