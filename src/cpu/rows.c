/* Row operations of the CPU backend: norms, sums, activations, rope and the fused forms of them.
 *
 * Every row is computed by one thread with the kernels of rows.h, so results depend neither on threads nor on the other
 * rows. Steps with little work stay on the calling thread: waking the pool costs about as much as PARALLEL_MIN
 * elements.
 */
#include "cpu/rows.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cpu/attn.h"
#include "cpu/kernels.h"

#define PARALLEL_MIN 16384

const struct row_fns *row_fns_for(enum cpu_level level)
{
    return KERNELS_FOR(rows, level);
}

/* The arguments of one operation; `rows` computes rows [lo, hi). */
struct job {
    void (*rows)(const struct job *j, int64_t lo, int64_t hi);
    const struct row_fns *fns;
    struct run           *run;
    const struct norm    *norm;
    struct act            act;
    float                 scale;
    const struct rope    *rope;
    const struct attn    *attn;
    int                   n_head, head_dim;
    const int32_t        *index;
    int64_t               first, step, n; /* of columns */
    struct tensor         a, b, c, y;
};

static void job_part(void *arg, int i, int n)
{
    const struct job *j = arg;
    long              lo, hi;
    pool_share(j->y.n_row, 1, i, n, &lo, &hi);
    j->rows(j, lo, hi);
}

/* Runs the job over the rows of y; cost: about how many simple element operations a row takes. */
static void job_run(struct run *r, struct job *j, int64_t cost)
{
    struct cpu *c = (struct cpu *)r->backend;
    j->run = r;
    j->fns = c->rows;
    if (j->y.n_row > 1 && j->y.n_row * cost >= PARALLEL_MIN)
        pool_run(c->pool, job_part, j);
    else
        j->rows(j, 0, j->y.n_row);
}

/* Row i: its adapters may replace weight and bias. */
static void norm_row(const struct job *j, int64_t i, const float *x, float *y)
{
    const struct norm     *m = j->norm;
    const struct lora_set *set = m->w.index >= 0 ? run_lora(j->run, i) : NULL;
    const float           *w = lora_weight_of(set, &m->w)->packed, *b = lora_bias_of(set, &m->w);
    for (int64_t k = 0, o = 0; k + m->n <= j->y.n_col; k += m->n, o = o + m->n < m->w.n_in ? o + m->n : 0) {
        if (m->kind == NORM_LAYER)
            j->fns->layer_norm(x + k, w ? w + o : NULL, b ? b + o : NULL, m->eps, m->n, y + k);
        else
            j->fns->rms_norm(x + k, w ? w + o : NULL, m->eps, m->n, y + k);
    }
}

static void norm_rows(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        norm_row(j, i, tensor_row(j->a, i), tensor_row(j->y, i));
}

static void cpu_norm(struct run *r, const struct norm *n, struct tensor x, struct tensor y)
{
    struct job j = {.rows = norm_rows, .norm = n, .a = x, .y = y};
    job_run(r, &j, y.n_col);
}

static void add_norm_rows(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        j->fns->add(tensor_row(j->a, i), j->scale, tensor_row(j->b, i), j->b.n_col);
        norm_row(j, i, tensor_row(j->b, i), tensor_row(j->y, i));
    }
}

static void cpu_add_norm(struct run *r, const struct norm *n, float scale, struct tensor delta, struct tensor x,
                         struct tensor y)
{
    struct job j = {.rows = add_norm_rows, .norm = n, .scale = scale, .a = delta, .b = x, .y = y};
    job_run(r, &j, 2 * y.n_col);
}

static void add_rows(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        j->fns->add(tensor_row(j->a, i), j->scale, tensor_row(j->y, i), j->y.n_col);
}

static void cpu_add(struct run *r, float scale, struct tensor x, struct tensor y)
{
    struct job j = {.rows = add_rows, .scale = scale, .a = x, .y = y};
    job_run(r, &j, y.n_col);
}

static void scale_rows(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        j->fns->scale(tensor_row(j->y, i), j->scale, tensor_row(j->y, i), j->y.n_col);
}

static void cpu_scale(struct run *r, float scale, struct tensor y)
{
    struct job j = {.rows = scale_rows, .scale = scale, .y = y};
    job_run(r, &j, y.n_col);
}

static void softcap_rows(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        j->fns->softcap(j->scale, tensor_row(j->y, i), j->y.n_col);
}

static void cpu_softcap(struct run *r, float cap, struct tensor y)
{
    struct job j = {.rows = softcap_rows, .scale = cap, .y = y};
    job_run(r, &j, 8 * y.n_col);
}

/* The four numbers of XIELU in row i, whose adapters may replace them. */
static void xielu_numbers(const struct job *j, int64_t i, float p[4])
{
    double v[4];
    for (int k = 0; k < 4; k++)
        v[k] = *(const float *)lora_weight_of(run_lora(j->run, i), &j->act.xielu[k])->packed;
    p[0] = (float)log1p(exp(v[0]));
    p[1] = (float)(v[2] + log1p(exp(v[1])));
    p[2] = (float)v[2];
    p[3] = (float)v[3];
}

static void act_rows(const struct job *j, int64_t lo, int64_t hi)
{
    float p[4] = {0};
    for (int64_t i = lo; i < hi; i++) {
        if (j->act.kind == ACT_XIELU)
            xielu_numbers(j, i, p);
        j->fns->act(j->act.kind, p, tensor_row(j->a, i), tensor_row(j->y, i), j->y.n_col);
    }
}

static void cpu_act(struct run *r, struct act act, struct tensor x, struct tensor y)
{
    struct job j = {.rows = act_rows, .act = act, .a = x, .y = y};
    job_run(r, &j, 4 * y.n_col);
}

/* y = act(gate) * up, each of the n_gate gates for `width` columns. */
static void gates_mul(const struct job *j, const float *gate, int64_t n_gate, int64_t width, const float *up, float *y)
{
    float g[64];
    for (int64_t k = 0; k < n_gate; k++) {
        if (k % (int64_t)ARRAY_LEN(g) == 0)
            j->fns->act(j->act.kind, NULL, gate + k, g, MIN(n_gate - k, (int64_t)ARRAY_LEN(g)));
        j->fns->scale(up + k * width, g[k % (int64_t)ARRAY_LEN(g)], y + k * width, width);
    }
}

static void act_mul_rows(const struct job *j, int64_t lo, int64_t hi)
{
    int64_t width = j->y.n_col / j->a.n_col;
    for (int64_t i = lo; i < hi; i++) {
        if (width == 1)
            j->fns->act_mul(&j->act, tensor_row(j->a, i), tensor_row(j->b, i), tensor_row(j->y, i), j->y.n_col);
        else
            gates_mul(j, tensor_row(j->a, i), j->a.n_col, width, tensor_row(j->b, i), tensor_row(j->y, i));
    }
}

static void cpu_act_mul(struct run *r, struct act act, struct tensor gate, struct tensor up, struct tensor y)
{
    struct job j = {.rows = act_mul_rows, .act = act, .a = gate, .b = up, .y = y};
    job_run(r, &j, 4 * y.n_col);
}

static void clip_rows(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        j->fns->clip(j->scale, tensor_row(j->y, i), j->y.n_col);
}

static void cpu_clip(struct run *r, float limit, struct tensor y)
{
    struct job j = {.rows = clip_rows, .scale = limit, .y = y};
    job_run(r, &j, y.n_col);
}

static void gather(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        memcpy(tensor_row(j->y, i), tensor_row(j->a, j->index[i]), (size_t)j->y.n_col * sizeof(float));
}

static void cpu_gather_rows(struct run *r, const int32_t *index, struct tensor x, struct tensor y)
{
    struct job j = {.rows = gather, .index = index, .a = x, .y = y};
    job_run(r, &j, y.n_col);
}

static void gather_cols(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        const float *x = tensor_row(j->a, i) + j->first;
        float       *y = tensor_row(j->y, i);
        for (int64_t k = 0; k + j->n <= j->y.n_col; k += j->n, x += j->step)
            memcpy(y + k, x, (size_t)j->n * sizeof(float));
    }
}

static void scatter_cols(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        const float *x = tensor_row(j->a, i);
        float       *y = tensor_row(j->y, i) + j->first;
        for (int64_t k = 0; k + j->n <= j->a.n_col; k += j->n, y += j->step)
            memcpy(y, x + k, (size_t)j->n * sizeof(float));
    }
}

static void cpu_scatter_cols(struct run *r, int64_t first, int64_t step, int64_t n, struct tensor x, struct tensor y)
{
    struct job j = {.rows = scatter_cols, .first = first, .step = step, .n = n, .a = x, .y = y};
    job_run(r, &j, x.n_col);
}

static void cpu_gather_cols(struct run *r, int64_t first, int64_t step, int64_t n, struct tensor x, struct tensor y)
{
    struct job j = {.rows = gather_cols, .first = first, .step = step, .n = n, .a = x, .y = y};
    job_run(r, &j, y.n_col);
}

/* The angle is rounded to float32 as the trained models have it; its cosine and sine are then rounded from double, so
 * that they are the same on every machine. */
static void angles_rows(const struct job *j, int64_t lo, int64_t hi)
{
    const struct rope *rope = j->rope;
    const struct step *s = j->run->step;
    for (int64_t i = lo; i < hi; i++) {
        float       *cs = tensor_row(j->y, i), p = (float)s->position[i];
        int64_t      length = s->length ? s->length[s->seq[i]] : 0;
        bool         beyond = rope->limit && length > rope->limit;
        const float *freq = beyond ? rope->long_freq : rope->inv_freq;
        float        mscale = beyond && freq ? rope->long_mscale : rope->mscale;
        double       base = freq ? 0 : rope_long_base(rope, length);
        for (int k = 0; k < rope->dims / 2; k++) {
            double angle = p * (freq ? freq[k] : (float)pow(base, -2.0 * k / rope->dims));
            cs[2 * k] = (float)cos(angle) * mscale;
            cs[2 * k + 1] = (float)sin(angle) * mscale;
        }
    }
}

static void cpu_rope_angles(struct run *r, const struct rope *rope, struct tensor cs)
{
    struct job j = {.rows = angles_rows, .rope = rope, .y = cs};
    job_run(r, &j, 32L * rope->dims);
}

static void rope_row(const struct job *j, int64_t i, int n_head, int head_dim, float *x)
{
    for (int h = 0; h < n_head; h++)
        j->fns->rope(x + (int64_t)h * head_dim, tensor_row(j->c, i), j->rope->dims, j->rope->interleaved);
}

static void rope_rows(const struct job *j, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        rope_row(j, i, j->n_head, j->head_dim, tensor_row(j->y, i));
}

static void cpu_rope(struct run *r, const struct rope *rope, struct tensor cs, int n_head, int head_dim,
                     struct tensor x)
{
    struct job j = {.rows = rope_rows, .rope = rope, .n_head = n_head, .head_dim = head_dim, .c = cs, .y = x};
    job_run(r, &j, (int64_t)n_head * rope->dims);
}

static void rope_kv_write_rows(const struct job *j, int64_t lo, int64_t hi)
{
    const struct attn *a = j->attn;
    for (int64_t i = lo; i < hi; i++) {
        rope_row(j, i, a->n_head, a->head_dim, tensor_row(j->y, i));
        rope_row(j, i, a->n_kv_head, a->head_dim, tensor_row(j->a, i));
    }
    attn_kv_write(j->fns, j->run->step, a, j->a, j->b, lo, hi);
}

static void cpu_rope_kv_write(struct run *r, const struct rope *rope, struct tensor cs, const struct attn *a,
                              struct tensor q, struct tensor k, struct tensor v)
{
    struct job j = {.rows = rope_kv_write_rows, .rope = rope, .attn = a, .a = k, .b = v, .c = cs, .y = q};
    job_run(r, &j, (int64_t)(a->n_head + 6 * a->n_kv_head) * a->head_dim);
}

static void kv_write_rows(const struct job *j, int64_t lo, int64_t hi)
{
    attn_kv_write(j->fns, j->run->step, j->attn, j->a, j->y, lo, hi);
}

static void cpu_kv_write(struct run *r, const struct attn *a, struct tensor k, struct tensor v)
{
    struct job j = {.rows = kv_write_rows, .attn = a, .a = k, .y = v};
    job_run(r, &j, 5L * a->n_kv_head * a->head_dim);
}

void rows_install(struct cpu *c)
{
    struct ops *o = &c->base.ops;
    o->norm = cpu_norm;
    o->add = cpu_add;
    o->scale = cpu_scale;
    o->softcap = cpu_softcap;
    o->act = cpu_act;
    o->act_mul = cpu_act_mul;
    o->clip = cpu_clip;
    o->rope_angles = cpu_rope_angles;
    o->rope = cpu_rope;
    o->kv_write = cpu_kv_write;
    o->gather_rows = cpu_gather_rows;
    o->gather_cols = cpu_gather_cols;
    o->scatter_cols = cpu_scatter_cols;
    o->add_norm = cpu_add_norm;
    o->rope_kv_write = cpu_rope_kv_write;
}
