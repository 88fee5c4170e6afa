/* Checks of attention and of the cache's writing: against double, and that levels, threads, batches, chunks and page
 * sizes give the same bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn_case.h"
#include "base/half.h"
#include "base/num.h"

#define WORK 400000 /* multiply-adds of a case */
#define CASES 100

static enum precision precision_of(const struct attn_case *c)
{
    return c->elem_size == 4 ? PRECISION_EXACT : PRECISION_DEFAULT;
}

/* Scale and integer of element d of a key of an 8-bit cache (docs/order-law.md). */
static float int8_of(const float *x, int n, int d, int8_t *q)
{
    float amax = 0;
    *q = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return NAN;
        amax = fmaxf(amax, fabsf(x[i]));
    }
    if (amax > 0)
        *q = (int8_t)rintf(x[d] * (127 / amax));
    return amax / 127;
}

static float *output(const struct attn_case *c)
{
    return kc_guard((size_t)c->n_row * c->n_head * MAX(c->head_dim, c->v_dim) * sizeof(float));
}

static void check_attention(struct kc *k)
{
    static double want[1024], bound[1024];
    for (int n = kc_cases(k, CASES); n; n--) {
        struct attn_case  c;
        struct attn_cache t;
        attn_case_new(k, &c, WORK);
        struct run_limits lim = attn_case_limits(&c);
        struct cpu       *cpu = kc_cpu_new(k->level, 1 + kc_below(k, 3), precision_of(&c), &lim);
        float            *y = output(&c);
        attn_cache_new(k, &t, &c, cpu, kc_pick(k, 64, 128, 256), 1 + kc_below(k, 64));
        attn_case_run(&c, &t, cpu, 0, c.n_row, y);
        for (int i = 0; i < c.n_row; i++)
            for (int h = 0; h < c.n_head; h++) {
                attn_case_exact(&c, i, h, want, bound);
                kc_close(k, "against double", y + ((int64_t)i * c.n_head + h) * c.v_dim, want, bound, c.v_dim);
            }
        kc_unguard(k, y);
        attn_cache_free(k, &t, &c);
        attn_case_free(k, &c);
        kc_cpu_free(cpu);
    }
}

/* The same case at scalar with one thread, one row a step, a cache of its own; and at the level with several threads,
 * in random steps. */
static void check_attention_same(struct kc *k)
{
    for (int n = kc_cases(k, CASES); n; n--) {
        struct attn_case  c;
        struct attn_cache t, u;
        attn_case_new(k, &c, WORK);
        struct run_limits lim = attn_case_limits(&c);
        struct cpu       *one = kc_cpu_new(CPU_SCALAR, 1, precision_of(&c), &lim);
        struct cpu       *many = kc_cpu_new(k->level, 1 + kc_below(k, 4), precision_of(&c), &lim);
        float            *y = output(&c), *want = output(&c);
        int64_t           cols = (int64_t)c.n_head * c.v_dim;
        attn_cache_new(k, &t, &c, one, 64, 1);
        attn_cache_new(k, &u, &c, many, kc_pick(k, 64, 128, 256, 512), 64);
        for (int i = 0; i < c.n_row; i++)
            attn_case_run(&c, &t, one, i, i + 1, want + i * cols);
        for (int lo = 0, hi; lo < c.n_row; lo = hi) {
            int most = kc_below(k, 2) ? c.n_row : 1 + kc_below(k, 40);
            hi = MIN(c.n_row, lo + most);
            attn_case_run(&c, &u, many, lo, hi, y + lo * cols);
        }
        kc_same_floats(k, "other steps", y, want, c.n_row * cols);
        kc_unguard(k, y);
        kc_unguard(k, want);
        attn_cache_free(k, &t, &c);
        attn_cache_free(k, &u, &c);
        attn_case_free(k, &c);
        kc_cpu_free(one);
        kc_cpu_free(many);
    }
}

/* The element of the cache at p, as bits that a mismatch shows; ~0: what was never written. */
static uint32_t stored(const char *p, int elem_size)
{
    uint32_t bits = ~0u;
    memcpy(&bits, p, (size_t)elem_size);
    return bits;
}

/* The bits that element d of x[n] must have; its scale in an 8-bit cache is compared here. */
static uint32_t needed(struct kc *k, const float *x, int n, int d, int elem_size, const float *scale)
{
    int8_t q;
    if (elem_size == 4)
        return f32_bits(x[d]);
    if (elem_size == 2)
        return 0xffff0000 | f32_to_f16(x[d]);
    float s = int8_of(x, n, d, &q);
    kc_same_floats(k, "scale", scale, &s, 1);
    return 0xffffff00 | (uint8_t)q;
}

/* Position p of the cache of sequence s, head h. */
static void check_cached(struct kc *k, const struct attn_case *c, const struct attn_cache *t, int s, int p, int h)
{
    void   *page = t->pages[s][p / t->kv.page_tokens];
    char   *key = kv_k_tile(&t->kv, page, h, p), *val = kv_v_tile(&t->kv, page, h, p);
    int     j = p % KV_TILE, size = c->elem_size;
    int64_t at = (int64_t)p * c->n_kv_head + h;
    bool    written = p < c->length[s];
    for (int d = 0; d < c->head_dim; d++) {
        int      at_d = c->latent ? j * c->head_dim + d : d * KV_TILE + j;
        uint32_t bits = stored(key + at_d * size, size), want = ~0u;
        float   *scales = kv_scales(&t->kv, key, c->head_dim);
        if (written)
            want = needed(k, &c->keys[s][at * c->head_dim], c->head_dim, d, size, scales ? scales + j : NULL);
        kc_expect(k, bits == want, "position %d key %d: 0x%x, needed 0x%x", p, d, bits, want);
    }
    for (int d = 0; d < c->v_dim && !c->latent; d++) {
        uint32_t bits = stored(val + (j * c->v_dim + d) * size, size), want = ~0u;
        float   *scales = kv_scales(&t->kv, val, c->v_dim);
        if (written)
            want = needed(k, &c->values[s][at * c->v_dim], c->v_dim, d, size, scales ? scales + j : NULL);
        kc_expect(k, bits == want, "position %d value %d: 0x%x, needed 0x%x", p, d, bits, want);
    }
}

/* What lies in the cache after kv_write, and that only the written positions changed. */
static void check_kv_write(struct kc *k)
{
    for (int n = kc_cases(k, CASES); n; n--) {
        struct attn_case  c;
        struct attn_cache t;
        attn_case_new(k, &c, WORK / 8);
        struct run_limits lim = attn_case_limits(&c);
        struct cpu       *cpu = kc_cpu_new(k->level, 1 + kc_below(k, 3), precision_of(&c), &lim);
        int               page_tokens = kc_pick(k, 64, 128);
        attn_cache_new(k, &t, &c, cpu, page_tokens, 1 + kc_below(k, 64));
        for (int s = 0; s < c.n_seq; s++)
            for (int p = 0; p < t.n_page[s] * page_tokens; p++)
                for (int h = 0; h < c.n_kv_head; h++)
                    check_cached(k, &c, &t, s, p, h);
        attn_cache_free(k, &t, &c);
        attn_case_free(k, &c);
        kc_cpu_free(cpu);
    }
}

/* rope_kv_write at the level with threads against rope, rope and kv_write at scalar, row by row: queries, keys, cache.
 */
static void check_rope_kv_write(struct kc *k)
{
    for (int n = kc_cases(k, CASES / 3); n; n--) {
        struct attn_case  c;
        struct attn_cache t, u;
        do {
            attn_case_new(k, &c, WORK / 8);
        } while (c.head_dim < 2 && (attn_case_free(k, &c), true));
        struct run_limits lim = attn_case_limits(&c);
        struct cpu       *one = kc_cpu_new(CPU_SCALAR, 1, precision_of(&c), &lim);
        struct cpu       *many = kc_cpu_new(k->level, 3, precision_of(&c), &lim);
        struct rope       rope = {.dims = 2 * (1 + kc_below(k, c.head_dim / 2)),
                                  .interleaved = kc_below(k, 2),
                                  .mscale = (float)(0.5 + kc_uniform(k))};
        float            *inv_freq = kc_guard((size_t)rope.dims / 2 * sizeof(float)), *q[2], *key[2];
        rope.inv_freq = inv_freq;
        for (int i = 0; i < rope.dims / 2; i++)
            inv_freq[i] = (float)pow(10000, -2.0 * i / rope.dims);
        for (int i = 0; i < 2; i++) {
            q[i] = output(&c);
            key[i] = output(&c);
        }
        attn_cache_new(k, &t, &c, one, 64, 64);
        attn_cache_new(k, &u, &c, many, 64, 64);
        for (int i = 0; i < c.n_row; i++)
            attn_case_rope(&c, &t, one, &rope, false, i, i + 1, q[0], key[0]);
        attn_case_rope(&c, &u, many, &rope, true, 0, c.n_row, q[1], key[1]);
        kc_same_floats(k, "q", q[1], q[0], (int64_t)c.n_row * c.n_head * c.head_dim);
        kc_same_floats(k, "k", key[1], key[0], (int64_t)c.n_row * c.n_kv_head * c.head_dim);
        for (int s = 0; s < c.n_seq; s++)
            for (int p = 0; p < t.n_page[s]; p++)
                kc_same(k, "cache", (char *)u.pages[s][p] + u.kv.offset, (char *)t.pages[s][p] + t.kv.offset,
                        kv_layer_bytes(&t.kv));
        for (int i = 0; i < 2; i++) {
            kc_unguard(k, q[i]);
            kc_unguard(k, key[i]);
        }
        kc_unguard(k, inv_freq);
        attn_cache_free(k, &t, &c);
        attn_cache_free(k, &u, &c);
        attn_case_free(k, &c);
        kc_cpu_free(one);
        kc_cpu_free(many);
    }
}

struct bench {
    struct attn_case  c;
    struct attn_cache t;
    struct cpu       *cpu;
    float            *y;
    int               lo;
};

static void bench_run(void *arg)
{
    struct bench *b = arg;
    attn_case_run(&b->c, &b->t, b->cpu, b->lo, b->c.n_row, b->y);
}

/* Heads of SmolLM2 (9/3 x 64) or a Llama 8B (32/8 x 128): `rows` last rows of `keys` keys. */
static void bench_one(struct kc *k, int n_head, int n_kv, int dim, int keys, int rows, int elem_size)
{
    struct bench b = {.c = {.n_head = n_head,
                            .n_kv_head = n_kv,
                            .head_dim = dim,
                            .v_dim = dim,
                            .n_seq = 1,
                            .n_row = rows,
                            .elem_size = elem_size}};
    int64_t      n = (int64_t)keys * n_kv * dim, m = (int64_t)rows * n_head * dim;
    char         what[64];
    b.c.scale = (float)(1 / sqrt(dim));
    b.c.length[0] = keys;
    b.c.keys[0] = kc_guard((size_t)n * sizeof(float));
    b.c.values[0] = kc_guard((size_t)n * sizeof(float));
    b.c.q = kc_guard((size_t)m * sizeof(float));
    b.c.seq = kc_guard((size_t)rows * sizeof(int32_t));
    b.c.position = kc_guard((size_t)rows * sizeof(int32_t));
    for (int64_t i = 0; i < n; i++) {
        b.c.keys[0][i] = (float)(2 * kc_uniform(k) - 1);
        b.c.values[0][i] = (float)(2 * kc_uniform(k) - 1);
    }
    for (int64_t i = 0; i < m; i++)
        b.c.q[i] = (float)(2 * kc_uniform(k) - 1);
    double pairs = 0;
    for (int i = 0; i < rows; i++) {
        b.c.seq[i] = 0;
        b.c.position[i] = keys - rows + i;
        pairs += b.c.position[i] + 1;
    }
    struct run_limits lim = attn_case_limits(&b.c);
    b.cpu = kc_cpu_new(k->level, k->threads, PRECISION_DEFAULT, &lim);
    b.y = output(&b.c);
    attn_cache_new(k, &b.t, &b.c, b.cpu, 256, 64);
    snprintf(what, sizeof what, "attention %d/%d x %d, %d rows, %d keys, %s", n_head, n_kv, dim, rows, keys,
             elem_size == 1 ? "q8_0" : "f16");
    kc_rate(k, what, kc_time(bench_run, &b), rows == 1 ? 2.0 * keys * n_kv * (double)kv_key_bytes(dim, elem_size) : 0,
            pairs * n_head * dim * 4);
    kc_unguard(k, b.y);
    attn_cache_free(k, &b.t, &b.c);
    attn_case_free(k, &b.c);
    kc_cpu_free(b.cpu);
}

static void bench_attention(struct kc *k)
{
    bench_one(k, 9, 3, 64, 512, 512, 2);
    bench_one(k, 9, 3, 64, 128, 1, 2);
    bench_one(k, 9, 3, 64, 512, 1, 2);
    bench_one(k, 9, 3, 64, 8192, 1, 2);
    bench_one(k, 9, 3, 64, 8192, 1, 1);
    bench_one(k, 9, 3, 64, 8192, 128, 2);
    bench_one(k, 9, 3, 64, 8192, 128, 1);
    bench_one(k, 32, 8, 128, 512, 512, 2);
    bench_one(k, 32, 8, 128, 8192, 1, 2);
    bench_one(k, 32, 8, 128, 8192, 1, 1);
}

const struct check attn_checks[] = {
    {"attention", check_attention, bench_attention},
    {"attention_same", check_attention_same, NULL},
    {"kv_write", check_kv_write, NULL},
    {"rope_kv_write", check_rope_kv_write, NULL},
    {NULL, NULL, NULL},
};
