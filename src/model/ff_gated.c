/* The gated feed-forward block (SwiGLU): y = (silu(x Wg^T + bg) * (x Wu^T + bu)) Wd^T + bd. Shazeer 2020. */
#include "model/model.h"

void ff_gated_declare(struct params *p, const struct model_desc *d, int i, struct layer *l)
{
    const struct ff_desc *f = &d->layer[i].ffn;
    struct ff_block      *b = &l->ff;
    const char           *why = "intermediate_size, hidden_size";
    params_add(p, ROLE_LINEAR, SHARD_ROWS, i, "model.layers.%d.mlp.gate_proj", f->n_ff, d->n_embd, why, &b->gate);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, i, "model.layers.%d.mlp.up_proj", f->n_ff, d->n_embd, why, &b->up);
    params_add(p, ROLE_LINEAR, SHARD_COLS, i, "model.layers.%d.mlp.down_proj", d->n_embd, f->n_ff,
               "hidden_size, intermediate_size", &b->down);
    if (f->bias) {
        params_add(p, ROLE_BIAS, SHARD_ROWS, i, "model.layers.%d.mlp.gate_proj.bias", f->n_ff, 0, "mlp_bias", &b->gate);
        params_add(p, ROLE_BIAS, SHARD_ROWS, i, "model.layers.%d.mlp.up_proj.bias", f->n_ff, 0, "mlp_bias", &b->up);
        params_add(p, ROLE_BIAS, SHARD_NONE, i, "model.layers.%d.mlp.down_proj.bias", d->n_embd, 0, "mlp_bias",
                   &b->down);
    }
}

void ff_gated_forward(const struct model *m, struct run *r, const struct layer *l, struct activations *a)
{
    const struct ff_block *b = &l->ff;
    int                    n = r->step->n_row;
    struct tensor          gate = tensor_rows(tensor_cols(a->gate, 0, b->gate.n_out), n);
    struct tensor          up = tensor_rows(tensor_cols(a->up, 0, b->up.n_out), n);
    (void)m;
    op_linear_silu_mul(r, &b->gate, &b->up, tensor_rows(a->y, n), up, gate);
    op_linear(r, &b->down, gate, tensor_rows(a->delta, n));
}
