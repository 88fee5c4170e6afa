/* Embeddings of n-grams; contracts in ngram.h. */
#include "model/ngram.h"

#include <stdio.h>

#include "base/num.h"

struct ngram_tables {
    struct weight *embed, *proj; /* [n_table] */
    struct ngram   op;
};

static int width(const struct model_desc *d)
{
    return d->n_embd / d->ngram.n_table;
}

bool ngram_declare(struct model *m, const struct declare *k)
{
    const struct ngram_desc *g = &k->d->ngram;
    struct ngram_tables     *t = arena_calloc(&m->arena, 1, sizeof *t);
    struct weight           *w = arena_calloc(&m->arena, 2 * (size_t)g->n_table, sizeof *w);
    if (!t || !w)
        return false;
    *t = (struct ngram_tables){.embed = w, .proj = w + g->n_table};
    t->op = (struct ngram){
        g->n_table,    g->n_split, g->n_table / g->n_split,
        k->d->n_vocab, g->first,   model_add_state(m, (size_t)(g->n_table / g->n_split) * sizeof(int32_t), 0)};
    for (int e = 0; e < g->n_table; e++) {
        char number[16];
        snprintf(number, sizeof number, ".%d", e);
        params_add(k->p, ROLE_EMBED, SHARD_NONE, -1, declare_name(k, NAME_NGRAM_EMBED, number),
                   g->first + 2 * (int64_t)e, width(k->d), "ngram_vocab_size_ratio * vocab_size, hidden_size / tables",
                   &t->embed[e]);
        params_add(k->p, ROLE_LINEAR, SHARD_NONE, -1, declare_name(k, NAME_NGRAM_PROJ, number), k->d->n_embd,
                   width(k->d), "hidden_size, hidden_size / tables", &t->proj[e]);
    }
    m->ngram = t;
    return true;
}

int64_t ngram_scratch(const struct model_desc *d)
{
    return d->ngram.n_table ? act_cols(d->ngram.n_table) + act_cols(width(d)) + act_cols(d->n_embd) : 0;
}

void ngram_embed(const struct model *m, struct run *r, struct activations *a, struct tensor x)
{
    const struct ngram_tables *t = m->ngram;
    int                        n = t->op.n_table;
    a->scratch_used = 0;
    struct tensor rows = act_take(a, x.n_row, act_cols(n)), y = act_take(a, x.n_row, width(&m->desc));
    struct tensor out = act_take(a, x.n_row, x.n_col);
    /* the same room as n rows of ids, one of each table */
    struct tensor ids = {rows.data, n, x.n_row, a->n_row};
    op_ngram_ids(r, &t->op, ids);
    for (int e = 0; e < n; e++) {
        op_embed(r, &t->embed[e], (const int32_t *)(const void *)tensor_row(ids, e), y);
        op_linear(r, &t->proj[e], y, out);
        op_add(r, 1, out, x);
    }
    op_scale(r, 1.0f / (float)(1 + n), x);
}
