/* The forward pass: embed, the layers in order, the head. One function for prefill, decode and mixed batches.
 *
 * How a layer's blocks go together is desc.h's enum wiring. What a block adds is left in a buffer and added to the residual
 * stream x together with the norm that follows (op_add_norm). */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/block.h"
#include "model/ngram.h"

struct plan {
    char  *base; /* NULL while counting */
    size_t used;
    bool   failed;
};

/* A [rows, cols] matrix of float32 from the plan's memory, rows padded to whole cache lines. */
static struct tensor take(struct plan *p, int64_t rows, int64_t cols)
{
    size_t  bytes, total;
    int64_t stride = act_cols(cols);
    if (!num_mul((size_t)rows, (size_t)stride * sizeof(float), &bytes) || !num_add(p->used, bytes, &total)) {
        p->failed = true;
        return (struct tensor){0};
    }
    struct tensor t = {p->base ? p->base + p->used : NULL, rows, cols, stride};
    p->used = total;
    return t;
}

/* The widest scratch of any block of the loaded layers. */
static int64_t scratch_cols(const struct model *m)
{
    int64_t n = ngram_scratch(&m->desc);
    for (int i = m->lo; i < m->hi; i++) {
        const struct layer_desc *d = &m->desc.layer[i];
        const struct block      *blocks[] = {block_of_mix(d->mix), block_of_ff(d->ff), block_of_ff(d->shortcut)};
        for (size_t k = 0; k < ARRAY_LEN(blocks); k++)
            n = MAX(n, blocks[k] ? blocks[k]->scratch(&m->desc, i) : 0);
    }
    return n;
}

static void plan_all(struct plan *p, struct activations *a, const struct model *m, int n_row, int n_logit)
{
    const struct model_desc *d = &m->desc;
    a->x = take(p, n_row, d->n_embd);
    a->y = take(p, n_row, d->n_embd);
    a->delta = take(p, n_row, d->n_embd);
    a->delta2 = take(p, n_row, d->n_embd);
    a->scratch = take(p, n_row, scratch_cols(m));
    a->keys = take(p, n_row, m->n_index_key);
    for (int i = 0; i < d->n_rope; i++)
        a->cs[i] = take(p, n_row, d->rope[i].dims);
    a->rows = take(p, n_logit, d->n_embd);
    a->logits = take(p, n_logit, d->n_vocab);
}

int activations_init(struct activations *a, const struct model *m, int n_row, int n_logit, struct error *e)
{
    struct plan p = {0};
    memset(a, 0, sizeof *a);
    a->n_row = n_row;
    a->n_logit = n_logit;
    plan_all(&p, a, m, n_row, n_logit);
    size_t bytes;
    if (p.failed || !num_align(p.used, 64, &bytes) || !(a->memory = aligned_alloc(64, bytes)))
        return error_set(e, ERR_NOMEM, NULL,
                         "out of memory for the activations of %d rows (%zu bytes); try a smaller --chunk", n_row,
                         p.used);
    p = (struct plan){.base = a->memory};
    plan_all(&p, a, m, n_row, n_logit);
    return 0;
}

void activations_deinit(struct activations *a)
{
    free(a->memory);
    memset(a, 0, sizeof *a);
}

/* The rows of a pass, and what of the blocks' outputs is not yet in x. */
struct stream {
    struct tensor x, y;
    struct tensor delta, delta2; /* of a block; of a second one beside it, or of a shortcut until it is added */
    bool          pending;       /* delta is to be added */
    float         scale;         /* of what is added */
};

/* What a block with the norm n reads: the stream with all that was pending, normed; x itself without a norm. */
static struct tensor enter(struct run *r, struct stream *s, const struct norm *n)
{
    bool pending = s->pending;
    s->pending = false;
    if (n->kind == NORM_NONE) {
        if (pending)
            op_add(r, s->scale, s->delta, s->x);
        return s->x;
    }
    if (pending)
        op_add_norm(r, n, s->scale, s->delta, s->x, s->y);
    else
        op_norm(r, n, s->x, s->y);
    return s->y;
}

static void run_block(const struct model *m, struct run *r, const struct block *b, const void *state,
                      const struct norm *post, struct activations *a, struct tensor x, struct tensor y)
{
    a->scratch_used = 0;
    b->forward(m, r, state, a, x, y);
    if (post->kind != NORM_NONE)
        op_norm(r, post, y, y);
}

static void run_layer(const struct model *m, struct run *r, int i, struct activations *a, struct stream *s)
{
    const struct layer      *l = &m->layer[i];
    const struct layer_desc *d = &m->desc.layer[i];
    const struct block      *mix = block_of_mix(d->mix), *ff = block_of_ff(d->ff);
    struct tensor            y = {0};
    if (mix) {
        y = enter(r, s, &l->mix_norm);
        run_block(m, r, mix, l->mix, &l->mix_post, a, y, s->delta);
        s->pending = true;
    }
    if (ff && mix && d->wiring == WIRE_PARALLEL) {
        if (l->ff_norm.kind != NORM_NONE)
            op_norm(r, &l->ff_norm, s->x, y = s->y);
        run_block(m, r, ff, l->ff, &l->ff_post, a, y, s->delta2);
        op_add(r, 1, s->delta2, s->delta);
    } else if (ff) {
        y = enter(r, s, &l->ff_norm);
        run_block(m, r, ff, l->ff, &l->ff_post, a, y, s->delta);
        if (d->shortcut)
            run_block(m, r, block_of_ff(d->shortcut), l->shortcut, &(struct norm){.kind = NORM_NONE}, a, y, s->delta2);
        if (i > m->lo && m->desc.layer[i - 1].shortcut)
            op_add(r, 1, s->delta2, s->delta);
        s->pending = true;
    }
}

static void embed(const struct model *m, struct run *r, struct activations *a, const struct stream *s)
{
    op_embed(r, &m->embed, r->step->token, s->x);
    if (m->ngram)
        ngram_embed(m, r, a, s->x);
    if (m->desc.embed_scale != 1)
        op_scale(r, m->desc.embed_scale, s->x);
    if (m->desc.n_position) {
        op_embed(r, &m->position, r->step->position, s->y);
        op_add(r, 1, s->y, s->x);
    }
}

void model_forward(const struct model *m, struct run *r, struct activations *a)
{
    int           n = r->step->n_row;
    struct stream s = {
        tensor_rows(a->x, n),  tensor_rows(a->y, n), tensor_rows(a->delta, n), tensor_rows(a->delta2, n), false,
        m->desc.residual_scale};
    for (int i = 0; i < m->desc.n_rope; i++)
        op_rope_angles(r, &m->rope[i], tensor_rows(a->cs[i], n));
    if (m->lo == 0)
        embed(m, r, a, &s);
    for (int i = m->lo; i < m->hi; i++)
        run_layer(m, r, i, a, &s);
    enter(r, &s, &(struct norm){.kind = NORM_NONE});
}

void model_logits(const struct model *m, struct run *r, struct activations *a, int first, int n)
{
    struct tensor rows = tensor_rows(a->rows, n), logits = tensor_rows(a->logits, n);
    op_gather_rows(r, r->step->logit_row + first, tensor_rows(a->x, r->step->n_row), rows);
    r->row_of = r->step->logit_row + first;
    if (m->norm.kind != NORM_NONE)
        op_norm(r, &m->norm, rows, rows);
    op_linear(r, m->tied ? &m->embed : &m->head, rows, logits);
    if (m->desc.logit_scale != 1)
        op_scale(r, m->desc.logit_scale, logits);
    if (m->desc.logit_softcap > 0)
        op_softcap(r, m->desc.logit_softcap, logits);
    r->row_of = NULL;
}
