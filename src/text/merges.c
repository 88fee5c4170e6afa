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

static bool is_part(const struct merges_rule *rule, int32_t id)
{
    return id >= 0 && (!rule->usable || rule->usable[id]);
}

/* The merges that make the token `made`, some places to cut it at a time. */
static int cut_token(struct merges *m, const struct vocab *vocab, const struct merges_rule *rule, int32_t made,
                     struct error *e)
{
    struct str text = vocab_text(vocab, made), part[VOCAB_MANY];
    int32_t    left[VOCAB_MANY], right[VOCAB_MANY];
    int        status = 0;
    for (size_t cut = 1; cut < text.n && !status;) {
        size_t n = 0, kept = 0;
        for (; cut < text.n && n < VOCAB_MANY; cut++)
            if (((unsigned char)text.p[cut] & 0xc0) != 0x80)
                part[n++] = (struct str){text.p, cut};
        vocab_find_many(vocab, part, n, left);
        for (size_t i = 0; i < n; i++) {
            if (!is_part(rule, left[i]))
                continue;
            left[kept] = left[i];
            part[kept++] = (struct str){text.p + part[i].n, text.n - part[i].n};
        }
        vocab_find_many(vocab, part, kept, right);
        for (size_t i = 0; i < kept && !status; i++)
            if (is_part(rule, right[i]))
                status = put(m, (struct merge){left[i], right[i], made}, e);
    }
    return status;
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
        size_t from = m->n;
        status = cut_token(m, vocab, rule, rule->order[i], e);
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
