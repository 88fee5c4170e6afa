/* See attn_case.h. */
#include "attn_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"

static int some_head_dim(struct kc *k)
{
    int d = kc_pick(k, 1, 3, 15, 16, 17, 32, 64, 64, 80, 96, 128, 0);
    return d ? d : 1 + kc_below(k, 300);
}

static void sequences_draw(struct kc *k, struct attn_case *c, int64_t work)
{
    int64_t keys = MAX(8, work / (c->n_head * c->head_dim * 2)); /* rows x keys */
    c->n_seq = 1 + kc_below(k, CASE_SEQS);
    c->n_row = 0;
    for (int s = 0; s < c->n_seq; s++) {
        int64_t share = keys / c->n_seq;
        int     most = (int)MIN(share, 2200);
        int     border = kc_pick(k, 1, 63, 64, 65, 511, 512, 513, 1025, 2200);
        c->length[s] = MIN(most, border);
        if (kc_below(k, 2))
            c->length[s] = 1 + kc_below(k, most);
        c->n_new[s] = (int)MIN(c->length[s], MAX(1, share / c->length[s]));
        if (kc_below(k, 3) == 0)
            c->n_new[s] = 1;
        c->n_new[s] = MIN(c->n_new[s], 150);
        c->n_row += c->n_new[s];
    }
}

/* A key or value of one head that an 8-bit cache holds exactly: integers, 127 among them, times a power of two; or 0. */
static void int8_draw(struct kc *k, float *x, int n, double extreme)
{
    float scale = kc_below(k, 8) ? ldexpf(1, kc_below(k, 20) - 20) : (float)extreme / 128;
    scale = kc_below(k, 16) ? exp2f(floorf(log2f(scale))) : 0;
    for (int i = 0; i < n; i++)
        x[i] = scale * (float)(kc_below(k, 255) - 127);
    x[kc_below(k, n)] = 127 * scale;
}

/* Keys or values of sequence s with dim features, rounded to the cache's type. */
static float *elements(struct kc *k, const struct attn_case *c, int s, int dim, double extreme)
{
    int64_t n = (int64_t)c->length[s] * c->n_kv_head * dim;
    float  *x = kc_guard((size_t)n * sizeof *x);
    kc_fill(k, x, n, extreme);
    for (int64_t i = 0; i < n && c->elem_size == 2; i++)
        x[i] = f16_to_f32(f32_to_f16(x[i]));
    for (int64_t i = 0; i < n && c->elem_size == 1; i += dim)
        int8_draw(k, x + i, dim, extreme);
    return x;
}

void attn_case_new(struct kc *k, struct attn_case *c, int64_t work)
{
    int group = kc_pick(k, 1, 1, 2, 3, 4, 5, 7, 8, 50);
    memset(c, 0, sizeof *c);
    c->latent = kc_below(k, 4) == 0;
    c->n_kv_head = 1 + kc_below(k, group == 50 || c->latent ? 1 : 3);
    c->n_head = c->n_kv_head * group;
    c->head_dim = some_head_dim(k);
    c->v_dim = c->latent ? 1 + kc_below(k, c->head_dim) : kc_below(k, 3) ? c->head_dim : some_head_dim(k);
    c->window = kc_below(k, 3) ? 0 : kc_pick(k, 1, 2, 63, 64, 65, 200, 512, 700);
    c->chunk = kc_below(k, 4) ? 0 : kc_pick(k, 1, 2, 63, 64, 65, 200, 512, 700);
    c->scale = (float)(1 / sqrt(c->head_dim));
    c->softcap = kc_below(k, 3) ? 0 : (float)kc_pick(k, 1, 15, 50);
    c->position_scale = kc_below(k, 4) ? 0 : 0.1f;
    c->position_unit = kc_pick(k, 1, 10, 100);
    if (kc_below(k, 3) == 0) {
        c->sinks = kc_guard((size_t)c->n_head * sizeof *c->sinks);
        kc_fill(k, c->sinks, c->n_head, 200);
    }
    c->elem_size = kc_pick(k, 1, 2, 4);
    sequences_draw(k, c, work);
    c->seq = kc_guard((size_t)c->n_row * sizeof *c->seq);
    c->position = kc_guard((size_t)c->n_row * sizeof *c->position);
    for (int s = 0, row = 0; s < c->n_seq; s++) {
        c->keys[s] = elements(k, c, s, c->head_dim, 60);
        c->values[s] = elements(k, c, s, c->v_dim, 60000);
        for (int64_t i = 0; i < c->length[s] && c->latent; i++)
            memcpy(c->values[s] + i * c->v_dim, c->keys[s] + i * c->head_dim, (size_t)c->v_dim * sizeof(float));
        float *last = c->values[s] + ((int64_t)c->length[s] * c->n_kv_head - 1) * c->v_dim;
        if (kc_below(k, 4) == 0 && !c->latent) /* the last row of the sequence alone may see it */
            for (int d = 0; d < (c->elem_size == 1 ? c->v_dim : 1); d++)
                last[d] = NAN;
        for (int i = 0; i < c->n_new[s]; i++, row++) {
            c->seq[row] = s;
            c->position[row] = c->length[s] - c->n_new[s] + i;
        }
    }
    int64_t n = (int64_t)c->n_row * c->n_head * c->head_dim;
    c->q = kc_guard((size_t)n * sizeof *c->q);
    kc_fill(k, c->q, n, 60);
    kc_notef(k,
             "heads %d/%d dim %d/%d latent %d window %d chunk %d cap %g beta %g sinks %d rows %d seqs %d (last: %d "
             "keys, %d new) "
             "elem %d",
             c->n_head, c->n_kv_head, c->head_dim, c->v_dim, c->latent, c->window, c->chunk, (double)c->softcap,
             (double)c->position_scale, c->sinks != NULL, c->n_row, c->n_seq, c->length[c->n_seq - 1],
             c->n_new[c->n_seq - 1], c->elem_size);
}

void attn_case_free(struct kc *k, struct attn_case *c)
{
    for (int s = 0; s < c->n_seq; s++) {
        kc_unguard(k, c->keys[s]);
        kc_unguard(k, c->values[s]);
    }
    if (c->sinks)
        kc_unguard(k, c->sinks);
    kc_unguard(k, c->q);
    kc_unguard(k, c->seq);
    kc_unguard(k, c->position);
}

struct attn attn_case_attn(const struct attn_case *c, const struct attn_cache *t, struct weight *sinks)
{
    *sinks = (struct weight){.n_out = 1, .n_in = c->n_head, .packed = c->sinks};
    return (struct attn){.n_head = c->n_head,
                         .n_kv_head = c->n_kv_head,
                         .head_dim = c->head_dim,
                         .v_dim = c->v_dim,
                         .window = c->window,
                         .chunk = c->chunk,
                         .latent = c->latent,
                         .scale = c->scale,
                         .softcap = c->softcap,
                         .position_scale = c->position_scale,
                         .position_unit = c->position_unit,
                         .sinks = c->sinks ? sinks : NULL,
                         .kv = t->kv};
}

static struct tensor matrix(float *p, int64_t rows, int64_t cols)
{
    return (struct tensor){p, rows, cols, cols};
}

void attn_cache_new(struct kc *k, struct attn_cache *t, const struct attn_case *c, struct cpu *cpu, int page_tokens,
                    int chunk)
{
    int64_t k_cols = (int64_t)c->n_kv_head * c->head_dim, v_cols = (int64_t)c->n_kv_head * c->v_dim;
    t->kv = (struct kv_layer){.n_kv_head = c->n_kv_head,
                              .head_dim = c->head_dim,
                              .v_dim = c->v_dim,
                              .latent = c->latent,
                              .elem_size = c->elem_size,
                              .page_tokens = page_tokens,
                              .offset = 64 * (size_t)kc_below(k, 3)};
    for (int s = 0; s < c->n_seq; s++) {
        t->n_page[s] = (c->length[s] + page_tokens - 1) / page_tokens;
        t->pages[s] = kc_guard((size_t)t->n_page[s] * sizeof(void *));
        for (int p = 0; p < t->n_page[s]; p++)
            t->pages[s][p] = kc_guard(t->kv.offset + kv_layer_bytes(&t->kv));
    }
    struct weight sinks;
    struct attn   a = attn_case_attn(c, t, &sinks);
    int32_t       seq[64], position[64];
    for (int s = 0; s < c->n_seq; s++)
        for (int at = 0; at < c->length[s]; at += chunk) {
            struct step step = {.n_row = MIN(chunk, c->length[s] - at), .position = position, .seq = seq};
            struct run  r = {.backend = &cpu->base, .step = &step};
            step.pages = (void *const *const *)t->pages;
            for (int i = 0; i < step.n_row; i++) {
                seq[i] = s;
                position[i] = at + i;
            }
            op_kv_write(&r, &a, matrix(c->keys[s] + at * k_cols, step.n_row, k_cols),
                        matrix(c->values[s] + at * v_cols, step.n_row, v_cols));
        }
}

void attn_cache_free(struct kc *k, struct attn_cache *t, const struct attn_case *c)
{
    for (int s = 0; s < c->n_seq; s++) {
        for (int p = 0; p < t->n_page[s]; p++)
            kc_unguard(k, t->pages[s][p]);
        kc_unguard(k, t->pages[s]);
    }
}

void attn_case_run(const struct attn_case *c, const struct attn_cache *t, struct cpu *cpu, int lo, int hi, float *y)
{
    int64_t       cols = (int64_t)c->n_head * c->head_dim, y_cols = (int64_t)c->n_head * c->v_dim;
    struct weight sinks;
    struct attn   a = attn_case_attn(c, t, &sinks);
    struct step   step = {.n_row = hi - lo, .position = c->position + lo, .seq = c->seq + lo, .n_seq = c->n_seq};
    struct run    r = {.backend = &cpu->base, .step = &step};
    step.pages = (void *const *const *)t->pages;
    op_attention(&r, &a, matrix(c->q + lo * cols, hi - lo, cols), matrix(y, hi - lo, y_cols));
}

/* Row i's keys or values. */
static const float *case_row(const struct attn_case *c, float *const *x, int dim, int i)
{
    return x[c->seq[i]] + (int64_t)c->position[i] * c->n_kv_head * dim;
}

void attn_case_rope(const struct attn_case *c, const struct attn_cache *t, struct cpu *cpu, const struct rope *rope,
                    bool fused, int lo, int hi, float *q, float *k)
{
    int64_t       q_cols = (int64_t)c->n_head * c->head_dim, k_cols = (int64_t)c->n_kv_head * c->head_dim, n = hi - lo;
    int64_t       v_cols = (int64_t)c->n_kv_head * c->v_dim;
    struct weight sinks;
    struct attn   a = attn_case_attn(c, t, &sinks);
    struct step   step = {.n_row = hi - lo, .position = c->position + lo, .seq = c->seq + lo, .n_seq = c->n_seq};
    struct run    r = {.backend = &cpu->base, .step = &step};
    float        *angles = kc_guard((size_t)n * rope->dims * sizeof(float));
    float        *values = kc_guard((size_t)n * v_cols * sizeof(float));
    struct tensor cs = matrix(angles, n, rope->dims), v = matrix(values, n, v_cols);
    struct tensor qt = matrix(q + lo * q_cols, n, q_cols), kt = matrix(k + lo * k_cols, n, k_cols);
    step.pages = (void *const *const *)t->pages;
    memcpy(qt.data, c->q + lo * q_cols, (size_t)(n * q_cols) * sizeof(float));
    for (int i = 0; i < n; i++) {
        memcpy(tensor_row(kt, i), case_row(c, c->keys, c->head_dim, lo + i), (size_t)k_cols * sizeof(float));
        memcpy(tensor_row(v, i), case_row(c, c->values, c->v_dim, lo + i), (size_t)v_cols * sizeof(float));
    }
    op_rope_angles(&r, rope, cs);
    if (fused) {
        op_rope_kv_write(&r, rope, cs, &a, qt, kt, v);
    } else {
        op_rope(&r, rope, cs, c->n_head, c->head_dim, qt);
        op_rope(&r, rope, cs, c->n_kv_head, c->head_dim, kt);
        op_kv_write(&r, &a, kt, v);
    }
    kc_unguard(NULL, angles);
    kc_unguard(NULL, values);
}

struct run_limits attn_case_limits(const struct attn_case *c)
{
    int longest = 1;
    for (int s = 0; s < c->n_seq; s++)
        longest = MAX(longest, c->length[s]);
    return (struct run_limits){.n_row = c->n_row,
                               .n_in = 1,
                               .n_out = 1,
                               .n_head = c->n_head,
                               .n_kv_head = c->n_kv_head,
                               .head_dim = MAX(c->head_dim, c->v_dim),
                               .n_key = longest};
}

/* The first key of a row at pos. */
static int first_key(const struct attn_case *c, int pos)
{
    int first = c->window && pos >= c->window ? pos - c->window + 1 : 0;
    return c->chunk ? MAX(first, pos / c->chunk * c->chunk) : first;
}

/* The score of a query at pos and a key, and a bound of its error. */
static double score_exact(const struct attn_case *c, int pos, const float *q, const float *key, double *err)
{
    double dot = 0, size = 0, grown = 1 + c->position_scale * log(1 + (double)(pos / c->position_unit));
    for (int d = 0; d < c->head_dim; d++) {
        dot += (double)q[d] * key[d];
        size += fabs((double)q[d] * key[d]);
    }
    *err = (c->head_dim + 4) * KC_EPS * size * grown * c->scale;
    dot *= grown * c->scale;
    if (c->softcap > 0) {
        *err += 12 * KC_EPS * c->softcap;
        dot = c->softcap * tanh(dot / c->softcap);
    }
    return dot;
}

/* A score's chain errs by at most (dim + 1) eps sum |q k| scale; an error t of the scores changes a weight by a factor
 * within exp(+-2t); exp itself, the differences of scores, the rescaling per tile and span, the sum and the chains of
 * the output (keys long) add relative errors of a few eps each. A sink is one more logit, without a value. */
void attn_case_exact(const struct attn_case *c, int i, int h, double *y, double *bound)
{
    static double score[4096];
    int           s = c->seq[i], dim = c->head_dim, pos = c->position[i], g = h / (c->n_head / c->n_kv_head);
    int           first = first_key(c, pos), n = pos - first + 1;
    const float  *q = c->q + ((int64_t)i * c->n_head + h) * dim;
    double        sink = c->sinks ? c->sinks[h] : -INFINITY, max = sink, least = INFINITY, err = 0, sum = 0, one;
    for (int j = first; j <= pos; j++) {
        score[j - first] = score_exact(c, pos, q, c->keys[s] + ((int64_t)j * c->n_kv_head + g) * dim, &one);
        max = fmax(max, score[j - first]);
        least = fmin(least, score[j - first]);
        err = fmax(err, one);
    }
    double relative = expm1(2 * err) + (n + 8.0 * (n / 64 + 2) + 2 * fmin(max - least, 105)) * KC_EPS;
    memset(y, 0, (size_t)c->v_dim * sizeof *y);
    memset(bound, 0, (size_t)c->v_dim * sizeof *bound);
    sum = exp(sink - max);
    for (int j = 0; j < n; j++)
        sum += score[j] = exp(score[j] - max);
    for (int j = 0; j < n; j++) {
        const float *v = c->values[s] + ((int64_t)(first + j) * c->n_kv_head + g) * c->v_dim;
        for (int d = 0; d < c->v_dim; d++) {
            y[d] += score[j] / sum * v[d];
            bound[d] += (score[j] / sum * 2 * relative + 0x1p-120) * fabs(v[d]);
        }
    }
    for (int d = 0; d < c->v_dim; d++)
        bound[d] += 0x1p-140;
}
