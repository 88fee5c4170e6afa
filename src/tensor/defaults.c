/* Composed operations as the composition of primitives: what a backend without a fused form runs, and what the fused
 * forms must equal bit for bit. */
#include "tensor/ops.h"

static void linear_heads(struct run *r, int n, const struct weight *w, struct tensor x, struct tensor y)
{
    for (int h = 0; h < n; h++)
        op_linear(r, &w[h], tensor_cols(x, x.n_col / n * h, w[h].n_in), tensor_cols(y, y.n_col / n * h, w[h].n_out));
}

static void linear_many(struct run *r, int n, const struct weight *const *w, struct tensor x, const struct tensor *y)
{
    for (int i = 0; i < n; i++)
        op_linear(r, w[i], x, y[i]);
}

static void linear_act_mul(struct run *r, struct act act, const struct weight *gate, const struct weight *up,
                           struct tensor x, struct tensor tmp, struct tensor y)
{
    op_linear(r, gate, x, y);
    op_linear(r, up, x, tmp);
    op_act_mul(r, act, y, tmp, y);
}

static void add_norm(struct run *r, const struct norm *n, float scale, struct tensor delta, struct tensor x,
                     struct tensor y)
{
    op_add(r, scale, delta, x);
    op_norm(r, n, x, y);
}

static void rope_kv_write(struct run *r, const struct rope *rope, struct tensor cs, const struct attn *a,
                          struct tensor q, struct tensor k, struct tensor v)
{
    op_rope(r, rope, cs, a->n_head, a->head_dim, q);
    op_rope(r, rope, cs, a->n_kv_head, a->head_dim, k);
    op_kv_write(r, a, k, v);
}

void ops_set_defaults(struct ops *ops)
{
    /* Every row of ops.def that is COMP has a function of its name here. */
#define PRIM(name, params, args)
#define COMP(name, params, args)                                                                                       \
    if (!ops->name)                                                                                                    \
        ops->name = name;
#include "tensor/ops.def"
#undef PRIM
#undef COMP
}
