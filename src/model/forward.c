/* The forward pass: embed, the layers in order, the head. One function for prefill, decode and mixed batches.
 *
 * A layer is  x += mix(norm(x));  x += ff(norm(x)).  Each addition is done together with the norm that follows it
 * (op_add_rms_norm), so a block leaves its output in a->delta. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/model.h"

struct plan {
    char  *base; /* NULL while counting */
    size_t used;
    bool   failed;
};

/* A [rows, cols] matrix of float32 from the plan's memory, rows padded to whole cache lines. */
static struct tensor take(struct plan *p, int64_t rows, int64_t cols)
{
    size_t  bytes, total;
    int64_t stride = (cols + 15) / 16 * 16;
    if (!num_mul((size_t)rows, (size_t)stride * sizeof(float), &bytes) || !num_add(p->used, bytes, &total)) {
        p->failed = true;
        return (struct tensor){0};
    }
    struct tensor t = {p->base ? p->base + p->used : NULL, rows, cols, stride};
    p->used = total;
    return t;
}

static void plan_all(struct plan *p, struct activations *a, const struct model *m, int n_row, int n_logit)
{
    const struct model_desc *d = &m->desc;
    int64_t                  n_q = 0, n_kv = 0, n_ff = 0;
    for (int i = m->lo; i < m->hi; i++) {
        const struct attn_desc *at = &d->layer[i].attn;
        n_q = MAX(n_q, (int64_t)at->n_head * at->head_dim);
        n_kv = MAX(n_kv, (int64_t)at->n_kv_head * at->head_dim);
        n_ff = MAX(n_ff, (int64_t)d->layer[i].ffn.n_ff);
    }
    a->x = take(p, n_row, d->n_embd);
    a->y = take(p, n_row, d->n_embd);
    a->delta = take(p, n_row, d->n_embd);
    a->q = take(p, n_row, n_q);
    a->a = take(p, n_row, n_q);
    a->k = take(p, n_row, n_kv);
    a->v = take(p, n_row, n_kv);
    a->gate = take(p, n_row, n_ff);
    a->up = take(p, n_row, n_ff);
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

static void mix(const struct model *m, struct run *r, int i, struct activations *a)
{
    switch (m->desc.layer[i].mix) {
    case MIX_ATTN:
        mix_attn_forward(m, r, &m->layer[i], a);
        break;
    }
}

static void feed_forward(const struct model *m, struct run *r, int i, struct activations *a)
{
    switch (m->desc.layer[i].ff) {
    case FF_GATED:
        ff_gated_forward(m, r, &m->layer[i], a);
        break;
    }
}

void model_forward(const struct model *m, struct run *r, struct activations *a)
{
    int           n = r->step->n_row;
    float         eps = m->desc.norm_eps;
    struct tensor x = tensor_rows(a->x, n), y = tensor_rows(a->y, n), delta = tensor_rows(a->delta, n);
    for (int i = 0; i < m->desc.n_rope; i++)
        op_rope_angles(r, &m->rope[i], tensor_rows(a->cs[i], n));
    if (m->lo == 0)
        op_embed(r, &m->embed, x);
    for (int i = m->lo; i < m->hi; i++) {
        if (i == m->lo)
            op_rms_norm(r, &m->layer[i].mix_norm, eps, x, y);
        else
            op_add_rms_norm(r, &m->layer[i].mix_norm, eps, delta, x, y);
        mix(m, r, i, a);
        op_add_rms_norm(r, &m->layer[i].ff_norm, eps, delta, x, y);
        feed_forward(m, r, i, a);
    }
    op_add(r, delta, x);
}

void model_logits(const struct model *m, struct run *r, struct activations *a, int first, int n)
{
    struct tensor rows = tensor_rows(a->rows, n);
    op_gather_rows(r, r->step->logit_row + first, tensor_rows(a->x, r->step->n_row), rows);
    r->row_of = r->step->logit_row + first;
    op_rms_norm(r, &m->norm, m->desc.norm_eps, rows, rows);
    op_linear(r, m->tied ? &m->embed : &m->head, rows, tensor_rows(a->logits, n));
    r->row_of = NULL;
}
