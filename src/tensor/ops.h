/* The operations of a forward pass, at the level where fusing pays, over a backend's table of function pointers.
 *
 * Rules: shapes were checked at load; operations do not allocate (backend.reserve made the scratch), do not read values back
 * and cannot fail half-way. Tensors of one call do not overlap unless said. Within one CPU level and precision each output
 * element is one fixed sequence of float operations on its own operands (the order law, docs/order-law.md): rows, tiles,
 * threads and batch mates never change it.
 *
 *   embed            y[i] = row index[i] of w, as float32
 *   norm             y = the norm of every n columns of x; x may be y. x of several heads: n_col is a multiple of n and each
 *                    piece is normalised by itself (q/k norm)
 *   linear           y = x W^T + bias
 *   add              y += scale x
 *   scale            y *= scale
 *   softcap          y = cap tanh(y / cap)
 *   act              y = act(x); y may be x
 *   act_mul          y = act(gate) * up; y may be gate or up. gate may have fewer columns: each counts for as many of up's
 *                    that stand together (a gate of each head)
 *   clip             y held within +-limit; NaN stays NaN
 *   rope_angles      cs[i] = cos, sin pairs [dims/2][2] of row i's position; once a step per rope kind
 *   rope             rotates the first `dims` features of each head of x in place
 *   kv_write         stores each row's k [n_kv_head * head_dim] and v [n_kv_head * v_dim] at its position of the cache
 *   attention        y [n_head * v_dim] = softmax(scale q K^T) V over keys of the row's sequence at positions <= its own and
 *                    within struct attn's bounds
 *   attention_keys   attention where row i, if its position is at least keys.n_col, sees only the keys at the positions
 *                    keys[i] (int32, ascending, of a latent layer)
 *   index_keys       the positions of the keys.n_col best keys for each row whose position is at least that: by the score
 *                    sum over heads h of weight[h] max(scale q_h k, 0); of equal scores the earlier one, NaN last. a's layer
 *                    has keys of one head
 *   gather_rows      y[j] = x[index[j]]
 *   gather_cols      takes n columns at `first` and again every `step` columns of x, as often as y is wide: one of several
 *                    things that stand together head by head
 *   delta_gates      in place: q and k, every head's x / sqrt(sum(x^2) + eps), q also times scale; a, the decay
 *                    exp(-exp(a_log) softplus(a + dt_bias)); b, its sigmoid
 *   delta            the gated delta rule (Yang et al. 2024; decay per channel: Kimi Team 2025) along each sequence. The state
 *                    S of a head is [k_dim, v_dim], and row by row
 *                        S = S * decay;  S += k ((v - S^T k) b)^T;  y = S^T q
 *                    with decay per head or per channel of k. q, k [n_k_head * k_dim], v, y [n_head * v_dim], b [n_head],
 *                    decay [n_head] or [n_head * k_dim]; y may be v. Value head h goes with key head h / (n_head / n_k_head)
 *   route            the experts of each row by its logits [n_row, n_expert]: id (int32) and weight [n_row, top_k], ids
 *                    ascending. Equal scores go to the lower id; NaN comes after every number. The logits are overwritten
 *   moe              y = the sum over j, ascending, of weight[j] times the output of expert id[j] for x; an id beyond the
 *                    experts stands for the identity
 *   conv             y = a causal convolution of every column along each sequence (its last width - 1 inputs are state), then
 *                    SiLU where it has one; y may be x
 *   mamba1           the selective scan (Gu and Dao 2023) along each sequence, with the state S [n, n_state]:
 *                        S = exp(softplus(dt) A) S + (softplus(dt) x) B^T;  y = S C + D x,  A = -exp(a_log)
 *                    x, dt, y [n], B, C [n_state]; y may be x here and in mamba2
 *   mamba2           likewise (Dao and Gu 2024) with one A and D a head, one B and C [n_state] a group of heads, and dt [n_head]:
 *                    softplus(dt + dt_bias), within [dt_min, dt_max]; x, y [n_head * head_dim]
 *   ngram_ids        ids (int32) [n_table, n_row]: of each row the n-gram that ends with its token, in each table; the tokens
 *                    before are taken from the sequence's state, which then has the row's
 *   scatter_cols     the reverse of gather_cols: n columns of x go to `first`, the next n to `step` further on in y, ...
 *   linear_heads     x and y are n pieces of equal width: the first columns of piece h of y = W_h times those of piece h of x
 *   linear_many      y[k] = x W_k^T + bias_k for n <= 4 weights of one input (n = 1 allowed)
 *   linear_act_mul   y = act(x G^T) * (x U^T); tmp has y's shape
 *   add_norm         x += scale delta, y = norm(x)
 *   rope_kv_write    rope(q), rope(k), kv_write(k, v); cs from rope_angles. k is rotated in place.
 */
#ifndef MLXCEL_TENSOR_OPS_H
#define MLXCEL_TENSOR_OPS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tensor/kinds.h"
#include "tensor/kv.h"
#include "tensor/lora.h"
#include "tensor/step.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

enum precision {
    PRECISION_DEFAULT, /* activations may be int8 per block of at most 32 inside a quantized matmul */
    PRECISION_HIGH,    /* two int8 terms */
    PRECISION_EXACT    /* dequantized float32 weights, float32 activations and cache */
};

/* Rotary embedding: angle of pair i at position p is p * inv_freq[i]; cos and sin are multiplied by mscale. */
struct rope {
    int          dims; /* rotated features of a head; pairs are (i, i + dims/2), or (2i, 2i+1) when interleaved */
    bool         interleaved;
    float        mscale;
    const float *inv_freq; /* [dims / 2] */
    /* Sequences whose step.length is more than `limit` (0: none are) have other frequencies: long_freq with long_mscale, or,
     * where there are none, those of a base that grows with the length (rope_long_base). */
    int64_t      limit;
    const float *long_freq;
    float        long_mscale;
    double       theta, factor;
};

/* "Dynamic NTK" scaling as in transformers' modeling_rope_utils: the base for `length` tokens, more than limit;
 * dims > 2. */
static inline double rope_long_base(const struct rope *r, int64_t length)
{
    double longer = r->factor * (double)length / (double)r->limit - (r->factor - 1);
    return r->theta * pow(longer, r->dims / (r->dims - 2.0));
}

/* A norm over n columns. Without a weight (index -1) nothing is learned; a LAYER norm's bias is the weight's. The weight may
 * have a multiple of n columns: then it goes over so many pieces, each with its own n of them. */
struct norm {
    enum norm_kind kind;
    int            n;
    float          eps;
    struct weight  w;
};

/* An activation and its numbers.
 *   SWIGLU_CLAMPED   g sigmoid(alpha g) (u + 1), g = min(gate, limit), u = up within +-limit
 *   XIELU            beta x + (alpha_p x^2 where x > 0, alpha_n (e^min(x, eps) - 1 - x) elsewhere), with four weights of one
 *                    value each: p, n, beta and eps; alpha_p = softplus(p), alpha_n = beta + softplus(n) */
struct act {
    enum act_kind        kind;
    float                limit, alpha;
    const struct weight *xielu; /* [4] */
};

/* Static arguments of a layer's attention. */
struct attn {
    int     n_head, n_kv_head, head_dim, v_dim; /* features of a query and key, of a value */
    int     window; /* keys of the last `window` positions alone, the row's own included; 0: all earlier ones */
    int     chunk;  /* keys of the row's own chunk of so many positions alone; 0: no chunks */
    bool    latent; /* values are the first v_dim features of keys, which are of one head */
    float   scale;
    float   softcap;        /* scores become softcap tanh(score / softcap); 0: not */
    float   position_scale; /* queries times 1 + position_scale ln(1 + floor(position / position_unit)); 0: not */
    int64_t position_unit;
    const struct weight *sinks; /* [n_head] a logit of each head that enters the denominator alone; NULL: none */
    struct kv_layer      kv;
};

/* Static arguments of a layer's gated delta rule. */
struct delta {
    int           n_k_head, n_head; /* heads of queries and keys, and of values: a multiple of them */
    int           k_dim, v_dim;     /* k_dim <= DELTA_K_DIM_MAX */
    bool          per_channel;
    float         scale, eps;
    struct weight a_log, dt_bias; /* vectors: [n_head], and like decay */
    size_t        state;          /* where in a sequence's state it begins: delta_state_bytes */
};

/* How a router chooses. In groups (n_group > 1) of n_expert / n_group neighbours, only the experts of the topk_group groups
 * with the highest scores can be chosen. */
struct route {
    int              n_expert, top_k;
    enum route_score score;
    int              n_group, topk_group;
    enum route_group group;
    struct weight
          correction; /* vector [n_expert] added to the scores for the choice alone; index -1, or no values: none */
    bool  normalize;  /* weights are divided by max(their sum + sum_add, sum_min) */
    float sum_add, sum_min;
    float jitter; /* SPARSE_MIXER: logits x beside a best m count while (m - x) / max(|x|, m) <= 2 jitter */
    float scale;  /* multiplies the weights in the end */
};

/* Experts: down(act(gate x) * (up x)), or down(act(up x)) where gate is NULL. */
struct moe {
    int            n_expert, top_k;
    struct weight *gate, *up, *down; /* [n_expert] each */
    struct act     act;
};

/* A convolution of a few inputs along a sequence, each column by itself. */
struct conv {
    int           n, width; /* columns; inputs of an output, 2 .. CONV_WIDTH_MAX */
    bool          silu;
    struct weight w;     /* a vector: [n][width], the oldest input first; its bias [n] or NULL */
    size_t        state; /* where in a sequence's state it begins */
};

/* Static arguments of a layer's selective scan. */
struct mamba1 {
    int           n, n_state; /* channels; numbers of each, at most MAMBA1_STATE_MAX */
    struct weight a_log, d;   /* vectors: [n][n_state], [n] */
    size_t        state;
};

struct mamba2 {
    int           n_head, head_dim, n_state, n_group; /* n_head is a multiple of n_group */
    float         dt_min, dt_max;
    struct weight a_log, dt_bias, d; /* vectors: [n_head] */
    size_t        state;
};

/* Tables of n-grams. Table e is for n - 1 = 1 + e / n_split tokens before the row's and has M = first + 2 e rows; the id is
 * (t + sum over i of back[i] (vocab^(i + 1) mod M)) mod M, where there is no token that is 0. */
struct ngram {
    int     n_table, n_split, n_back; /* n_back: the greatest n - 1 */
    int64_t vocab, first;
    size_t  state; /* where in a sequence's state its n_back last tokens are */
};

struct run;
struct ops {
#define PRIM(name, params, args) void(*name) params;
#define COMP(name, params, args) void(*name) params;
#include "tensor/ops.def"
#undef PRIM
#undef COMP
};

/* The greatest sizes that a run will use: from them the backend makes its scratch. */
struct run_limits {
    int64_t n_row;                       /* rows of one step */
    int64_t n_in, n_out;                 /* of any linear */
    int     n_head, n_kv_head, head_dim; /* of any attention; head_dim: of keys or values, the wider */
    int64_t n_key;                       /* positions of a sequence */
    int     n_index_head, index_dim;     /* of any indexer; 0: none */
    size_t  n_state;                     /* bytes of a sequence's recurrent state (step.h) */
    int     n_expert, top_k;             /* of any mixture of experts; 0: none */
    int64_t n_expert_in, n_expert_ff;    /* the widths of its experts */
    int64_t n_rank; /* of a set of adapters: lora_set.rank; 0 without. reserve again when it grows */
};

/* How a parameter is used; decides its packed form. */
enum weight_use { WEIGHT_LINEAR = 1, WEIGHT_EMBED = 2, WEIGHT_VECTOR = 4 };

struct backend {
    const char *name;
    struct ops  ops;
    int         kv_elem_size; /* bytes of a cache element: 1, 2 or 4 (kv.h) */
    /* Makes w->packed for the uses given (or decides that the planes serve). May run in parallel inside. */
    int (*prepare)(struct backend *b, struct weight *w, unsigned uses, struct error *e);
    void (*release)(struct backend *b, struct weight *w); /* from any thread */
    /* Between steps, also again with greater limits; after a failure the former ones hold. */
    int (*reserve)(struct backend *b, const struct run_limits *lim, struct error *e);
    /* Bytes that prepare would allocate for w, for memory estimates before loading. */
    size_t (*packed_size)(const struct backend *b, const struct weight *w, unsigned uses);
    void (*free)(struct backend *b);
};

/* What one forward pass carries along. */
struct run {
    struct backend    *backend;
    const struct step *step;
    const int32_t     *row_of; /* the step's row that row i of the activations belongs to; NULL: i */
};

/* The adapters of row i of the activations, NULL for none. */
static inline const struct lora_set *run_lora(const struct run *r, int64_t i)
{
    const struct step *s = r->step;
    return s->lora ? s->lora[s->seq[r->row_of ? r->row_of[i] : i]] : NULL;
}

/* Bytes of recurrent states, on every backend, float32 in slices of columns: conv [width - 1][n], the oldest input first;
 * mamba1 [n / 16 rounded up][n_state][16]; mamba2 [n_head][head_dim / 16 rounded up][n_state][16]; delta likewise, by v_dim and
 * k_dim. */
#define STATE_LANES 16
static inline size_t state_slices(int n)
{
    return ((size_t)n + STATE_LANES - 1) / STATE_LANES;
}
static inline size_t delta_state_bytes(const struct delta *d)
{
    return sizeof(float) * STATE_LANES * (size_t)d->n_head * (size_t)d->k_dim * state_slices(d->v_dim);
}
static inline size_t conv_state_bytes(const struct conv *c)
{
    return sizeof(float) * (size_t)(c->width - 1) * (size_t)c->n;
}
static inline size_t mamba1_state_bytes(const struct mamba1 *m)
{
    return sizeof(float) * STATE_LANES * state_slices(m->n) * (size_t)m->n_state;
}
static inline size_t mamba2_state_bytes(const struct mamba2 *m)
{
    return sizeof(float) * STATE_LANES * (size_t)m->n_head * state_slices(m->head_dim) * (size_t)m->n_state;
}

/* Sets every composed operation that the backend left NULL to its default. */
void ops_set_defaults(struct ops *ops);

/* op_linear(r, w, x, y) and so on: call the backend's operation. */
#define PRIM(name, params, args)                                                                                       \
    static inline void op_##name params                                                                                \
    {                                                                                                                  \
        r->backend->ops.name args;                                                                                     \
    }
#define COMP PRIM
#include "tensor/ops.def"
#undef PRIM
#undef COMP

#endif
