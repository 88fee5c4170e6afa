/* Checks of attention over chosen keys, of choosing them, and of products with the planes of heads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn_case.h"
#include "base/num.h"

#define WORK 300000 /* multiply-adds of a case */
#define CASES 60

static enum precision precision_of(const struct attn_case *c)
{
    return c->elem_size == 4 ? PRECISION_EXACT : PRECISION_DEFAULT;
}

static void latent_case(struct kc *k, struct attn_case *c)
{
    for (attn_case_new(k, c, WORK); !c->latent; attn_case_new(k, c, WORK))
        attn_case_free(k, c);
    c->window = c->chunk = 0;
    c->position_scale = 0;
}

/* `top` positions up to pos, ascending. */
static void some_keys(struct kc *k, int pos, int top, int32_t *out)
{
    int left = top;
    for (int i = 0; i <= pos && left; i++)
        if (kc_below(k, pos + 1 - i) < left) {
            *out++ = i;
            left--;
        }
}

/* Row i of the case as the only one of a sequence that has the keys of the list. */
static void alone(struct kc *k, const struct attn_case *c, int i, const int32_t *keys, int n, struct cpu *cpu, float *y)
{
    struct attn_case  o = *c;
    struct attn_cache t;
    int64_t           q_cols = (int64_t)c->n_head * c->head_dim;
    int32_t           seq = 0, position = n - 1;
    int               s = c->seq[i];
    o.n_seq = o.n_row = 1;
    o.length[0] = n;
    o.seq = &seq;
    o.position = &position;
    o.q = c->q + i * q_cols;
    o.keys[0] = kc_guard((size_t)n * (size_t)c->head_dim * sizeof(float));
    for (int j = 0; j < n; j++)
        memcpy(o.keys[0] + (int64_t)j * c->head_dim, c->keys[s] + (int64_t)keys[j] * c->head_dim,
               (size_t)c->head_dim * sizeof(float));
    o.values[0] = o.keys[0];
    attn_cache_new(k, &t, &o, cpu, 64, 64);
    attn_case_run(&o, &t, cpu, 0, 1, y);
    attn_cache_free(k, &t, &o);
    kc_unguard(k, o.keys[0]);
}

/* All rows in one step at the level with threads, against each row alone at scalar over a cache of its keys only. */
static void check_attention_keys(struct kc *k)
{
    for (int n = kc_cases(k, CASES); n; n--) {
        struct attn_case  c;
        struct attn_cache t;
        latent_case(k, &c);
        struct run_limits lim = attn_case_limits(&c);
        struct cpu       *one = kc_cpu_new(CPU_SCALAR, 1, precision_of(&c), &lim);
        struct cpu       *many = kc_cpu_new(k->level, 1 + kc_below(k, 4), precision_of(&c), &lim);
        int               top = 1 + kc_below(k, (int)lim.n_key);
        int64_t           cols = (int64_t)c.n_head * c.v_dim, q_cols = (int64_t)c.n_head * c.head_dim;
        int32_t          *keys = kc_guard((size_t)c.n_row * (size_t)top * sizeof *keys);
        int32_t          *all = kc_guard((size_t)lim.n_key * sizeof *all);
        float *y = kc_guard((size_t)(c.n_row * cols) * sizeof *y), *want = kc_guard((size_t)cols * sizeof *want);
        attn_cache_new(k, &t, &c, many, kc_pick(k, 64, 128, 256), 64);
        struct weight sinks;
        struct attn   a = attn_case_attn(&c, &t, &sinks);
        struct step   step = {.n_row = c.n_row, .position = c.position, .seq = c.seq, .n_seq = c.n_seq};
        struct run    r = {.backend = &many->base, .step = &step};
        step.pages = (void *const *const *)t.pages;
        for (int i = 0; i < (int)lim.n_key; i++)
            all[i] = i;
        for (int i = 0; i < c.n_row; i++)
            if (c.position[i] >= top)
                some_keys(k, c.position[i], top, keys + (int64_t)i * top);
        op_attention_keys(&r, &a, (struct tensor){c.q, c.n_row, q_cols, q_cols},
                          (struct tensor){keys, c.n_row, top, top}, (struct tensor){y, c.n_row, cols, cols});
        for (int i = 0; i < c.n_row; i++) {
            bool chosen = c.position[i] >= top;
            alone(k, &c, i, chosen ? keys + (int64_t)i * top : all, chosen ? top : c.position[i] + 1, one, want);
            kc_same_floats(k, chosen ? "chosen keys" : "all keys", y + i * cols, want, cols);
        }
        attn_cache_free(k, &t, &c);
        attn_case_free(k, &c);
        kc_unguard(k, keys);
        kc_unguard(k, all);
        kc_unguard(k, y);
        kc_unguard(k, want);
        kc_cpu_free(one);
        kc_cpu_free(many);
    }
}

/* The score of key j for row i in double, and how far it may err. */
static double index_score(const struct attn_case *c, const float *weight, int i, int j, double *bound)
{
    const float *key = c->keys[c->seq[i]] + (int64_t)j * c->head_dim;
    double       sum = 0;
    *bound = 0;
    for (int h = 0; h < c->n_head; h++) {
        const float *q = c->q + ((int64_t)i * c->n_head + h) * c->head_dim;
        double       dot = 0, size = 0, w = weight[(int64_t)i * c->n_head + h];
        for (int d = 0; d < c->head_dim; d++) {
            dot += (double)q[d] * key[d];
            size += fabs((double)q[d] * key[d]);
        }
        sum += w * fmax(dot * c->scale, 0);
        *bound += fabs(w) * size * c->scale * (c->head_dim + c->n_head + 4) * KC_EPS + 0x1p-120;
    }
    return sum;
}

/* Every key left out has no higher score than every chosen one, and equal scores go to the earlier key. */
static void check_choice(struct kc *k, const struct attn_case *c, const float *weight, int i, const int32_t *keys,
                         int top)
{
    double least = INFINITY, slack = 0, most = -INFINITY;
    for (int j = 0, at = 0; j <= c->position[i]; j++) {
        double bound, score = index_score(c, weight, i, j, &bound);
        slack = fmax(slack, bound);
        if (at < top && keys[at] == j) {
            at++;
            least = fmin(least, score);
        } else
            most = fmax(most, score);
        if (j == c->position[i])
            kc_expect(k, at == top, "row %d: %d of %d chosen keys are positions in ascending order", i, at, top);
    }
    kc_expect(k, most <= least + 2 * slack, "row %d: left out %g, chosen %g", i, most, least);
}

static void check_index_keys(struct kc *k)
{
    for (int n = kc_cases(k, CASES); n; n--) {
        struct attn_case  c;
        struct attn_cache t, u;
        for (attn_case_new(k, &c, WORK); c.n_kv_head > 1 || c.latent; attn_case_new(k, &c, WORK))
            attn_case_free(k, &c);
        c.window = c.chunk = 0;
        c.softcap = 0;
        for (int s = 0; s < c.n_seq; s++) /* equal keys have equal scores */
            for (int j = 1; j < c.length[s]; j += 3)
                memcpy(c.keys[s] + (int64_t)j * c.head_dim, c.keys[s] + (int64_t)(j - 1) * c.head_dim,
                       (size_t)c.head_dim * sizeof(float));
        struct run_limits lim = attn_case_limits(&c);
        lim.n_index_head = c.n_head;
        lim.index_dim = c.head_dim;
        struct cpu *cpu[2] = {kc_cpu_new(CPU_SCALAR, 1, precision_of(&c), &lim),
                              kc_cpu_new(k->level, 1 + kc_below(k, 4), precision_of(&c), &lim)};
        int         top = 1 + kc_below(k, (int)lim.n_key);
        int64_t     q_cols = (int64_t)c.n_head * c.head_dim;
        size_t      size = (size_t)c.n_row * (size_t)top * sizeof(int32_t);
        int32_t    *keys[2] = {kc_guard(size), kc_guard(size)};
        float      *weight = kc_guard((size_t)c.n_row * (size_t)c.n_head * sizeof *weight);
        kc_fill(k, weight, (int64_t)c.n_row * c.n_head, 4);
        memset(keys[0], 0, size);
        memset(keys[1], 0, size);
        attn_cache_new(k, &t, &c, cpu[0], 64, 1);
        attn_cache_new(k, &u, &c, cpu[1], kc_pick(k, 64, 128, 256), 64);
        for (int v = 0; v < 2; v++) {
            struct attn_cache *cache = v ? &u : &t;
            struct weight      sinks;
            struct attn        a = attn_case_attn(&c, cache, &sinks);
            struct step        step = {.n_row = c.n_row, .position = c.position, .seq = c.seq, .n_seq = c.n_seq};
            struct run         r = {.backend = &cpu[v]->base, .step = &step};
            step.pages = (void *const *const *)cache->pages;
            op_index_keys(&r, &a, (struct tensor){c.q, c.n_row, q_cols, q_cols},
                          (struct tensor){weight, c.n_row, c.n_head, c.n_head},
                          (struct tensor){keys[v], c.n_row, top, top});
        }
        kc_same(k, "other steps", (char *)keys[1], (char *)keys[0], size);
        for (int i = 0; i < c.n_row; i++)
            if (c.position[i] >= top)
                check_choice(k, &c, weight, i, keys[1] + (int64_t)i * top, top);
        attn_cache_free(k, &t, &c);
        attn_cache_free(k, &u, &c);
        attn_case_free(k, &c);
        for (int v = 0; v < 2; v++) {
            kc_unguard(k, keys[v]);
            kc_cpu_free(cpu[v]);
        }
        kc_unguard(k, weight);
    }
}

/* scatter_cols puts back what gather_cols takes. */
static void check_cols(struct kc *k)
{
    for (int n = kc_cases(k, 20); n; n--) {
        int           rows = 1 + kc_below(k, 40), heads = 1 + kc_below(k, 9), dim = 1 + kc_below(k, 40);
        int           part = 1 + kc_below(k, dim), first = kc_below(k, dim - part + 1);
        struct cpu   *cpu = kc_cpu_new(k->level, 3, PRECISION_DEFAULT, &(struct run_limits){.n_row = rows});
        struct step   step = {.n_row = rows};
        struct run    r = {.backend = &cpu->base, .step = &step};
        int64_t       wide = (int64_t)heads * dim, slim = (int64_t)heads * part;
        struct tensor x = {kc_guard((size_t)(rows * wide) * sizeof(float)), rows, wide, wide};
        struct tensor y = {kc_guard((size_t)(rows * wide) * sizeof(float)), rows, wide, wide};
        struct tensor z = {kc_guard((size_t)(rows * slim) * sizeof(float)), rows, slim, slim};
        kc_fill(k, x.data, rows * wide, 1);
        memcpy(y.data, x.data, (size_t)(rows * wide) * sizeof(float));
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < heads; h++)
                memset(tensor_row(y, i) + h * dim + first, 0, (size_t)part * sizeof(float));
        op_gather_cols(&r, first, dim, part, x, z);
        op_scatter_cols(&r, first, dim, part, z, y);
        kc_same_floats(k, "put back", y.data, x.data, rows * wide);
        kc_unguard(k, x.data);
        kc_unguard(k, y.data);
        kc_unguard(k, z.data);
        kc_cpu_free(cpu);
    }
}

const struct check latent_checks[] = {
    {"attention_keys", check_attention_keys, NULL},
    {"index_keys", check_index_keys, NULL},
    {"scatter_cols", check_cols, NULL},
    {NULL, NULL, NULL},
};
