/* Checks of adapters: their kernels, and whole operations with sets mixed over the rows, over every form of weight.
 *
 *   kernels      against sums in double; the same bits as the scalar level; rows together as rows alone
 *   operations   y without adapters, plus what the set adds, in double; the same bits as the scalar level with one thread,
 *                for any threads, rows of a step and mates; rows without a set as without adapters at all
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/lora.h"
#include "lora_case.h"

static const int64_t ranks[] = {1, 3, 8, 17, 64}, ins[] = {1, 16, 33, 576}, outs[] = {1, 15, 17, 192};

/* --- kernels --------------------------------------------------------------------------------------------------------
 */

static void check_shrink_case(struct kc *k, int64_t n_in, int64_t rank, int64_t n_row)
{
    const struct lora_fns *f = lora_fns_for(k->level);
    struct adapter         a = {0};
    struct lora_pair       p;
    pair_init(k, &a, &p, n_in, 0, 1, rank);
    int64_t       j0 = kc_below(k, (int)rank), j1 = j0 + 1 + kc_below(k, (int)(rank - j0));
    float         s = (float)kc_normal(k);
    struct tensor x = {kc_guard((size_t)(n_row * n_in) * 4), n_row, n_in, n_in};
    struct tensor z = {kc_guard((size_t)(n_row * rank) * 4), n_row, rank, rank};
    float        *want = need((size_t)rank * 4), *one = need((size_t)rank * 4);
    kc_fill(k, x.data, n_row * n_in, 1e20);
    kc_notef(k, "%d inputs, %s, ranks %d to %d of %d, %d rows", (int)n_in, dtype_name(p.a_type), (int)j0, (int)j1,
             (int)rank, (int)n_row);
    f->shrink(&p, j0, j1, x.data, n_in, n_row, s, z.data, rank);
    for (int64_t r = 0; r < n_row; r++) {
        lora_scalar.shrink(&p, j0, j1, tensor_row(x, r), n_in, 1, s, want, rank);
        f->shrink(&p, j0, j1, tensor_row(x, r), n_in, 1, s, one, rank);
        kc_same_floats(k, "against scalar", tensor_row(z, r) + j0, want + j0, j1 - j0);
        kc_same_floats(k, "a row alone", one + j0, want + j0, j1 - j0);
        for (int64_t j = j0; j < j1; j++) {
            double sum = 0, mag = 0;
            for (int64_t i = 0; i < n_in; i++) {
                sum += (double)s * pair_a(&p, j, i) * tensor_row(x, r)[i];
                mag += fabs((double)s * pair_a(&p, j, i) * tensor_row(x, r)[i]);
            }
            double bound = KC_EPS * (4 + (double)n_in / 8) * mag + FLT_MIN * (double)n_in;
            kc_close(k, "product", tensor_row(z, r) + j, &sum, &bound, 1);
        }
    }
    free(want);
    free(one);
    kc_unguard(k, x.data);
    kc_unguard(k, z.data);
    adapter_deinit(k, &a, NULL);
}

static void check_shrink(struct kc *k)
{
    for (size_t i = 0; i < ARRAY_LEN(ins); i++)
        for (size_t r = 0; r < ARRAY_LEN(ranks); r++)
            for (int t = 0; t < 4; t++)
                check_shrink_case(k, ins[i], ranks[r], t ? kc_pick(k, 2, 3, 4, 5, 7, 25) : 1);
}

enum { OUTPUTS_MAX = 3 * LORA_LANES };

/* Outputs lo .. hi - 1 of n. */
static void check_expand_case(struct kc *k, int64_t rank, int64_t n_row, int n, int lo, int hi)
{
    const struct lora_fns *f = lora_fns_for(k->level);
    struct adapter         a = {0};
    struct lora_pair       p;
    pair_init(k, &a, &p, 1, lo, hi - lo, rank);
    float *z = kc_guard((size_t)(n_row * rank) * 4), *y = kc_guard((size_t)(n_row * n) * 4),
          *had = need((size_t)(n_row * n) * 4);
    kc_fill(k, z, n_row * rank, 1e20);
    kc_fill(k, y, n_row * n, 1e20);
    if (lo > 0) { /* what a pair does not change keeps even its NaN */
        y[0] = NAN;
        z[0] = INFINITY;
    }
    memcpy(had, y, (size_t)(n_row * n) * 4);
    kc_notef(k, "%s, rank %d, %d rows, outputs %d to %d of %d", dtype_name(p.b_type), (int)rank, (int)n_row, lo, hi, n);
    f->expand(p.b_type, p.b, LORA_LANES, rank * LORA_LANES, rank, z, rank, n_row, &(struct lora_out){y, n, n, lo, hi});
    for (int64_t r = 0; r < n_row; r++) {
        float want[OUTPUTS_MAX];
        memcpy(want, had + r * n, (size_t)n * sizeof *want);
        lora_scalar.expand(p.b_type, p.b, LORA_LANES, rank * LORA_LANES, rank, z + r * rank, rank, 1,
                           &(struct lora_out){want, n, n, lo, hi});
        kc_same_floats(k, "against scalar", y + r * n, want, n);
        kc_same_floats(k, "outputs before", y + r * n, had + r * n, lo);
        kc_same_floats(k, "outputs behind", y + r * n + hi, had + r * n + hi, n - hi);
        for (int o = lo; o < hi && isfinite(z[r * rank]); o++) {
            double sum = had[r * n + o], mag = fabs(sum);
            for (int64_t j = 0; j < rank; j++) {
                sum += (double)z[r * rank + j] * pair_b(&p, o, j);
                mag += fabs((double)z[r * rank + j] * pair_b(&p, o, j));
            }
            double bound = KC_EPS * (4 + (double)rank / 2) * mag + FLT_MIN * (double)rank;
            kc_close(k, "sum", y + r * n + o, &sum, &bound, 1);
        }
    }
    free(had);
    kc_unguard(k, y);
    kc_unguard(k, z);
    adapter_deinit(k, &a, NULL);
}

static void check_expand(struct kc *k)
{
    for (size_t r = 0; r < ARRAY_LEN(ranks); r++)
        for (int t = 0; t < 8; t++) {
            int rows = t ? kc_pick(k, 2, 3, 4, 5, 8, 9, 25) : 1, n = 1 + kc_below(k, OUTPUTS_MAX), lo = kc_below(k, n);
            check_expand_case(k, ranks[r], rows, OUTPUTS_MAX, 0, OUTPUTS_MAX);
            check_expand_case(k, ranks[r], rows, n, lo, lo + 1 + kc_below(k, n - lo));
        }
}

/* --- operations -----------------------------------------------------------------------------------------------------
 */

enum { ADAPTERS = 3, SETS = 6 };

/* Some weights of one input, adapters of them, and sets of the adapters. */
struct model {
    int              n;
    struct product   p[WEIGHTS_MAX];
    struct adapter   adapter[ADAPTERS];
    struct lora_set *set[SETS]; /* the first is NULL */
};

static struct lora_set *set_new(const struct model *m, int n, const int *which, const float *scale)
{
    struct lora_set *s = need(sizeof *s + (size_t)n * sizeof *s->use);
    s->n = n;
    for (int i = 0; i < n; i++) {
        s->use[i] = (struct lora_use){&m->adapter[which[i]].lora, scale[i]};
        s->rank += m->adapter[which[i]].lora.rank;
    }
    return s;
}

/* Adapter 0 is plain, 1 has parts, biases and a weight in the base's place (of float bases), 2 has DoRA. */
static void model_init(struct kc *k, struct model *m, int n, struct quant q, int64_t n_in, int64_t n_out, unsigned uses,
                       struct backend *b)
{
    unsigned replace = q.mode == QUANT_NONE ? LORA_REPLACE : 0;
    memset(m, 0, sizeof *m);
    m->n = n;
    for (int i = 0; i < n; i++) {
        product_init(k, m->p + i, q, i == 0 || n == 2 ? n_out : outs[kc_below(k, 4)], n_in);
        m->p[i].w.index = i;
        prepare(b, &m->p[i].w);
    }
    int64_t r[] = {ranks[kc_below(k, 5)], ranks[kc_below(k, 4)], ranks[kc_below(k, 3)]};
    adapter_init(k, m->adapter, n, m->p, r[0], 0, uses, b);
    adapter_init(k, m->adapter + 1, n, m->p, r[1], LORA_PARTS | LORA_BIAS | LORA_EXTRA | replace, uses, b);
    adapter_init(k, m->adapter + 2, n, m->p, r[2], LORA_DORA | LORA_BIAS, uses, b);
    m->set[1] = set_new(m, 1, (int[]){0}, (float[]){1});
    m->set[2] = set_new(m, 1, (int[]){1}, (float[]){0.5f});
    m->set[3] = set_new(m, 2, (int[]){0, 1}, (float[]){-0.7f, 1});
    m->set[4] = set_new(m, 1, (int[]){2}, (float[]){1.5f});
    m->set[5] = set_new(m, 2, (int[]){0, 2}, (float[]){1, 0.25f});
}

static void model_deinit(struct kc *k, struct model *m, struct backend *b)
{
    for (int i = 0; i < ADAPTERS; i++)
        adapter_deinit(k, m->adapter + i, b);
    for (int i = 0; i < SETS; i++)
        free(m->set[i]);
    for (int i = 0; i < m->n; i++) {
        b->release(b, &m->p[i].w);
        product_deinit(m->p + i);
    }
}

static struct backend *adapted_backend(enum cpu_level level, int threads, enum precision precision, int64_t n_in)
{
    struct backend   *b = backend_new(level, threads, precision, ROWS, n_in);
    struct run_limits lim = {
        .n_row = ROWS, .n_in = n_in, .n_head = 1, .n_kv_head = 1, .head_dim = 64, .n_key = 64, .n_rank = 4 * 64};
    if (b->reserve(b, &lim, NULL))
        exit(2);
    return b;
}

/* Each of the rows has a sequence of its own. */
struct mix {
    int32_t                seq[ROWS];
    const struct lora_set *set[ROWS];
};

static void mix_init(struct kc *k, struct mix *x, const struct model *m)
{
    int length = kc_pick(k, 1, 2, 5, 9), set = 0;
    for (int i = 0; i < ROWS; i++) {
        if (i % length == 0)
            set = kc_below(k, SETS);
        x->seq[i] = i;
        x->set[i] = m->set[set];
    }
}

/* All products of the model, `rows` rows at a time: y[weight][ROWS][n_out]. mix NULL: without adapters. silu: only y[0]. */
static void products(struct kc *k, struct backend *b, const struct model *m, const struct mix *mix, int64_t rows,
                     bool silu, float *const *y)
{
    const struct weight *w[WEIGHTS_MAX];
    int64_t              n_in = m->p[0].w.n_in;
    for (int i = 0; i < m->n; i++)
        w[i] = &m->p[i].w;
    for (int64_t at = 0, n; at < ROWS; at += n) {
        n = MIN(rows, ROWS - at);
        struct step   s = {.n_row = (int)n, .seq = mix ? mix->seq : NULL, .lora = mix ? mix->set + at : NULL};
        struct run    r = {.backend = b, .step = &s};
        struct tensor x = {kc_guard((size_t)(n * n_in) * 4), n, n_in, n_in}, t[WEIGHTS_MAX];
        memcpy(x.data, m->p[0].x + at * n_in, (size_t)(n * n_in) * 4);
        for (int i = 0; i < m->n; i++)
            t[i] = (struct tensor){kc_guard((size_t)(n * w[i]->n_out) * 4), n, w[i]->n_out, w[i]->n_out};
        if (silu)
            op_linear_act_mul(&r, (struct act){.kind = ACT_SILU}, w[0], w[1], x, t[1], t[0]);
        else if (m->n == 1)
            op_linear(&r, w[0], x, t[0]);
        else
            op_linear_many(&r, m->n, w, x, t);
        for (int i = 0; i < m->n; i++) {
            memcpy(y[i] + at * w[i]->n_out, t[i].data, (size_t)(n * w[i]->n_out) * 4);
            kc_unguard(k, t[i].data);
        }
        kc_unguard(k, x.data);
    }
}

static bool finite_row(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) < 1e25f)) /* with some room for products */
            return false;
    return true;
}

/* Row r of weight i, whose product without adapters and bias is `base`. */
static void check_row(struct kc *k, const struct model *m, const struct lora_set *set, int i, int64_t r,
                      const float *base, const float *y)
{
    const struct weight *w = &m->p[i].w;
    double               truth[192], mag[192], bound[192];
    const float         *x = m->p[0].x + r * w->n_in;
    if (!finite_row(x, w->n_in))
        return;
    for (int64_t o = 0; o < w->n_out; o++) {
        truth[o] = base[o];
        mag[o] = fabs(truth[o]);
    }
    adapted_row(set, w, x, truth, mag);
    for (int64_t o = 0; o < w->n_out; o++)
        bound[o] = KC_EPS * (40 + (double)w->n_in / 8) * mag[o] + 1e-30;
    kc_close(k, "against its adapters", y, truth, bound, w->n_out);
}

/* The products without adapters and biases, of row r of weight i with the weight that its set puts there. */
static void base_row(struct kc *k, struct backend *b, const struct model *m, const struct lora_set *set, int i,
                     int64_t r, float *y)
{
    struct weight w = *lora_weight_of(set, &m->p[i].w);
    struct step   s = {.n_row = 1};
    struct run    run = {.backend = b, .step = &s};
    w.bias = NULL;
    (void)k;
    op_linear(&run, &w, (struct tensor){m->p[0].x + r * w.n_in, 1, w.n_in, w.n_in},
              (struct tensor){y, 1, w.n_out, w.n_out});
}

static void check_values(struct kc *k, struct backend *b, const struct model *m, const struct mix *mix, float *const *y,
                         float *const *plain)
{
    float base[192];
    for (int i = 0; i < m->n; i++)
        for (int64_t r = 0, n = m->p[i].w.n_out; r < ROWS; r++) {
            if (!mix->set[r])
                kc_same_floats(k, "a row without adapters", y[i] + r * n, plain[i] + r * n, n);
            base_row(k, b, m, mix->set[r], i, r, base);
            check_row(k, m, mix->set[r], i, r, base, y[i] + r * n);
        }
}

static void outputs_new(const struct model *m, float *y[WEIGHTS_MAX])
{
    for (int i = 0; i < m->n; i++)
        y[i] = need((size_t)(ROWS * m->p[i].w.n_out) * sizeof **y);
}

static void outputs_free(const struct model *m, float *y[WEIGHTS_MAX])
{
    for (int i = 0; i < m->n; i++)
        free(y[i]);
}

/* The weights of the model packed for another backend. */
static void model_prepare(struct model *m, struct backend *from, struct backend *to)
{
    for (int i = 0; i < m->n; i++) {
        from->release(from, &m->p[i].w);
        prepare(to, &m->p[i].w);
    }
    for (int a = 0; a < ADAPTERS; a++)
        for (int i = 0; i < m->n; i++)
            if (m->adapter[a].delta[i].replace) {
                from->release(from, &m->adapter[a].replace[i].w);
                prepare(to, &m->adapter[a].replace[i].w);
            }
}

/* bf16 products differ between levels. */
static bool scalar_bits(const struct kc *k, const struct model *m, enum precision precision)
{
    bool pairs = m->p[0].w.quant.mode == QUANT_NONE && precision == PRECISION_DEFAULT && k->level == CPU_AVX512BF16;
    return !pairs;
}

static void check_products(struct kc *k, int n, struct quant q, enum precision precision, int64_t n_in, int64_t n_out)
{
    struct model    m;
    struct mix      mix;
    float          *want[WEIGHTS_MAX], *got[WEIGHTS_MAX], *plain[WEIGHTS_MAX];
    int             threads = 1 + kc_below(k, 3), rows[] = {1, 2 + kc_below(k, 8), ROWS};
    struct backend *scalar = adapted_backend(CPU_SCALAR, 1, precision, n_in);
    struct backend *b = adapted_backend(k->level, threads, precision, n_in);
    model_init(k, &m, n, q, n_in, n_out, WEIGHT_LINEAR, scalar);
    mix_init(k, &mix, &m);
    outputs_new(&m, want);
    outputs_new(&m, got);
    outputs_new(&m, plain);
    kc_notef(k, "%d weights, %s, %d bits, %s, precision %d, %d inputs, %d outputs, %d threads", n,
             quant_mode_name(q.mode), q.bits, dtype_name(q.scale_dtype), (int)precision, (int)n_in, (int)n_out,
             threads);
    bool same = scalar_bits(k, &m, precision);
    if (same)
        products(k, scalar, &m, &mix, ROWS, false, want);
    model_prepare(&m, scalar, b);
    if (!same)
        products(k, b, &m, &mix, ROWS, false, want);
    products(k, b, &m, NULL, ROWS, false, plain);
    for (size_t t = 0; t < ARRAY_LEN(rows); t++) {
        products(k, b, &m, &mix, rows[t], false, got);
        for (int i = 0; i < n; i++)
            kc_same_floats(k, rows[t] == 1 ? "rows alone" : "rows together", got[i], want[i], ROWS * m.p[i].w.n_out);
    }
    check_values(k, b, &m, &mix, got, plain);
    outputs_free(&m, want);
    outputs_free(&m, got);
    outputs_free(&m, plain);
    model_deinit(k, &m, b);
    b->free(b);
    scalar->free(scalar);
}

static const struct quant forms[] = {
    {QUANT_AFFINE, 4, 32, DTYPE_F16}, {QUANT_AFFINE, 2, 32, DTYPE_BF16}, {QUANT_AFFINE, 3, 32, DTYPE_F32},
    {QUANT_AFFINE, 5, 32, DTYPE_F16}, {QUANT_AFFINE, 6, 32, DTYPE_BF16}, {QUANT_AFFINE, 8, 32, DTYPE_F32},
    {QUANT_MXFP4, 4, 32, DTYPE_U8},   {QUANT_MXFP8, 8, 32, DTYPE_U8},    {QUANT_NVFP4, 4, 16, DTYPE_U8},
    {QUANT_NONE, 0, 0, DTYPE_F32},    {QUANT_NONE, 0, 0, DTYPE_F16},     {QUANT_NONE, 0, 0, DTYPE_BF16}};

static int64_t some_inputs(struct kc *k, struct quant q)
{
    return q.mode == QUANT_NONE ? ins[kc_below(k, 4)] : kc_pick(k, 32, 64, 576);
}

static void check_linear(struct kc *k)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        for (int p = PRECISION_DEFAULT; p <= PRECISION_EXACT; p++)
            check_products(k, 1, forms[i], (enum precision)p, some_inputs(k, forms[i]), outs[kc_below(k, 4)]);
}

static void check_many(struct kc *k)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        check_products(k, 2 + kc_below(k, 3), forms[i], (enum precision)kc_below(k, 3), some_inputs(k, forms[i]),
                       outs[kc_below(k, 4)]);
}

/* linear_act_mul has the bits of linear_many and act_mul. */
static void check_silu_case(struct kc *k, struct quant q, int64_t n_out)
{
    struct model    m;
    struct mix      mix;
    float          *want[WEIGHTS_MAX], *got[WEIGHTS_MAX];
    int64_t         n_in = some_inputs(k, q), n = ROWS * n_out;
    struct backend *b = adapted_backend(k->level, 2, PRECISION_DEFAULT, n_in);
    model_init(k, &m, 2, q, n_in, n_out, WEIGHT_LINEAR, b);
    mix_init(k, &mix, &m);
    outputs_new(&m, want);
    outputs_new(&m, got);
    kc_notef(k, "%s, %d bits, %d inputs, %d outputs", quant_mode_name(q.mode), q.bits, (int)n_in, (int)n_out);
    products(k, b, &m, &mix, ROWS, false, want);
    struct run r = {.backend = b};
    op_act_mul(&r, (struct act){.kind = ACT_SILU}, (struct tensor){want[0], ROWS, n_out, n_out},
               (struct tensor){want[1], ROWS, n_out, n_out}, (struct tensor){want[0], ROWS, n_out, n_out});
    products(k, b, &m, &mix, ROWS, true, got);
    kc_same_floats(k, "all rows", got[0], want[0], n);
    products(k, b, &m, &mix, 1, true, got);
    kc_same_floats(k, "rows alone", got[0], want[0], n);
    outputs_free(&m, want);
    outputs_free(&m, got);
    model_deinit(k, &m, b);
    b->free(b);
}

static void check_silu(struct kc *k)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        check_silu_case(k, forms[i], outs[kc_below(k, 4)]);
}

/* Lookups: rows of an embedding, with pairs that act there or not. */
static void check_embed_case(struct kc *k, struct quant q, int64_t width, unsigned uses, int n_row)
{
    struct model    m;
    struct mix      mix;
    int32_t         token[ROWS];
    struct backend *b = adapted_backend(k->level, 2, PRECISION_DEFAULT, width);
    struct backend *scalar = adapted_backend(CPU_SCALAR, 1, PRECISION_DEFAULT, width);
    model_init(k, &m, 1, q, width, 192, uses, b);
    mix_init(k, &mix, &m);
    for (int i = 0; i < n_row; i++)
        token[i] = kc_below(k, 192);
    struct step   s = {.n_row = n_row, .token = token, .seq = mix.seq, .lora = mix.set};
    struct tensor y = {kc_guard((size_t)(n_row * width) * 4), n_row, width, width},
                  one = {need((size_t)width * 4), 1, width, width};
    op_embed(&(struct run){.backend = b, .step = &s}, &m.p[0].w, s.token, y);
    kc_notef(k, "%s, %d bits, %s, width %d, uses %u, %d rows", quant_mode_name(q.mode), q.bits,
             dtype_name(q.scale_dtype), (int)width, uses, n_row);
    for (int i = 0; i < n_row; i++) {
        double truth[576], mag[576], bound[576];
        weight_row(lora_weight_of(mix.set[i], &m.p[0].w), token[i], one.data);
        for (int64_t c = 0; c < width; c++)
            mag[c] = fabs(truth[c] = tensor_row(one, 0)[c]);
        adapted_lookup(mix.set[i], &m.p[0].w, token[i], truth, mag);
        for (int64_t c = 0; c < width; c++)
            bound[c] = KC_EPS * 100 * mag[c] + 1e-30;
        kc_close(k, "against its adapters", tensor_row(y, i), truth, bound, width);
        struct step alone = {.n_row = 1, .token = token + i, .seq = mix.seq, .lora = mix.set + i};
        op_embed(&(struct run){.backend = scalar, .step = &alone}, &m.p[0].w, alone.token, one);
        kc_same_floats(k, "alone, scalar", tensor_row(y, i), one.data, width);
    }
    kc_unguard(k, y.data);
    free(one.data);
    model_deinit(k, &m, b);
    b->free(b);
    scalar->free(scalar);
}

static void check_embed(struct kc *k)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        check_embed_case(k, forms[i], some_inputs(k, forms[i]), WEIGHT_EMBED | WEIGHT_LINEAR, 1 + kc_below(k, ROWS));
        check_embed_case(k, forms[i], some_inputs(k, forms[i]), WEIGHT_LINEAR, 1 + kc_below(k, ROWS));
    }
}

/* Norms whose weight an adapter replaces, in rows of several heads, too. */
static void check_norm_case(struct kc *k, int64_t n, int heads)
{
    enum { SEQS = 3 };
    float                   *w[2], *x = need((size_t)(ROWS * heads * n) * 4), *d = need((size_t)(ROWS * heads * n) * 4);
    struct weight            base = {.name = "w", .n_out = 1, .n_in = n, .dtype = DTYPE_F32}, other = base;
    struct lora_delta        delta = {.replace = &other};
    const struct lora_delta *table[] = {&delta};
    struct lora              lora = {1, table, 0};
    struct lora_set         *set = need(sizeof *set + sizeof *set->use);
    const struct lora_set   *sets[SEQS] = {NULL, set, NULL};
    struct backend          *b = adapted_backend(k->level, 3, PRECISION_DEFAULT, n);
    int32_t                  seq[ROWS], row_of[ROWS];
    set->n = 1;
    set->use[0] = (struct lora_use){&lora, 1};
    for (int i = 0; i < 2; i++) {
        w[i] = need((size_t)n * 4);
        kc_fill(k, w[i], n, 3);
        (i ? &other : &base)->data = w[i];
        if (b->prepare(b, i ? &other : &base, WEIGHT_VECTOR, NULL))
            exit(2);
    }
    const struct norm norms[2] = {{NORM_RMS, (int)n, 1e-5f, base}, {NORM_RMS, (int)n, 1e-5f, other}};
    kc_fill(k, x, ROWS * heads * n, 3);
    kc_fill(k, d, ROWS * heads * n, 3);
    for (int i = 0; i < ROWS; i++) {
        seq[i] = kc_below(k, SEQS);
        row_of[i] = kc_below(k, ROWS);
    }
    struct step s = {.n_row = ROWS, .seq = seq, .lora = sets}, none = {.n_row = ROWS};
    struct run  r = {.backend = b, .step = &s, .row_of = kc_below(k, 2) ? row_of : NULL},
               plain = {.backend = b, .step = &none};
    struct tensor tx = {x, ROWS, heads * n, heads * n}, td = {d, ROWS, heads * n, heads * n}, ty = tx, tw[2];
    ty.data = need((size_t)(ROWS * heads * n) * 4);
    for (int i = 0; i < 2; i++) {
        tw[i] = ty;
        tw[i].data = need((size_t)(ROWS * heads * n) * 4);
        op_norm(&plain, &norms[i], tx, tw[i]);
    }
    op_norm(&r, &norms[0], tx, ty);
    kc_notef(k, "%d heads of %d", heads, (int)n);
    for (int i = 0; i < ROWS; i++)
        kc_same_floats(k, "norm", tensor_row(ty, i), tensor_row(tw[seq[r.row_of ? row_of[i] : i] == 1], i), heads * n);
    op_add_norm(&r, &norms[0], 1, td, tx, ty);
    for (int i = 0; i < 2; i++)
        op_norm(&plain, &norms[i], tx, tw[i]);
    for (int i = 0; i < ROWS; i++)
        kc_same_floats(k, "add_norm", tensor_row(ty, i), tensor_row(tw[seq[r.row_of ? row_of[i] : i] == 1], i),
                       heads * n);
    void *all[] = {w[0], w[1], x, d, set, ty.data, tw[0].data, tw[1].data};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
    b->release(b, &base);
    b->release(b, &other);
    b->free(b);
}

static void check_norm(struct kc *k)
{
    check_norm_case(k, 576, 1);
    check_norm_case(k, 33, 1);
    check_norm_case(k, 64, 3);
}

const struct check lora_checks[] = {
    {"lora_shrink", check_shrink, NULL}, {"lora_expand", check_expand, NULL},
    {"lora_linear", check_linear, NULL}, {"lora_many", check_many, NULL},
    {"lora_silu", check_silu, NULL},     {"lora_embed", check_embed, NULL},
    {"lora_norm", check_norm, NULL},     {NULL, NULL, NULL},
};
