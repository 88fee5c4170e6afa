/* The order law with adapters: a sequence with a set of adapters gives the same bytes alone and beside sequences with other
 * sets or none, in chunks of any size, with any number of threads, at every level; a sequence without a set those of the
 * model alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "support/lanes.h"

enum { ADAPTERS = 3, SETS = 6, LENGTH = 40 };

static const char *const    models[] = {"tests/data/arch/llama-q4-g32-f16", "tests/data/arch/qwen2-untied-f16",
                                        "tests/data/arch/qwen3-untied-bf16", "tests/data/arch/llama-mixed-f32"};
static const enum precision precisions[] = {PRECISION_DEFAULT, PRECISION_HIGH, PRECISION_EXACT};
static const enum dtype     types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

/* Adapters of all weights of a rig's model and the sets under test; the first is NULL. */
struct adapters {
    struct arena     arena;
    struct lora      lora[ADAPTERS];
    struct lora_set *set[SETS];
    struct weight  **replaced;
    int              n_replaced;
};

static void *need(struct adapters *a, size_t n, size_t size)
{
    void *p = arena_calloc(&a->arena, n, size);
    assert_non_null(p);
    return p;
}

/* n values of about the size 1/4, as a type. */
static void *values(struct adapters *a, enum dtype type, int64_t n)
{
    float *v = need(a, (size_t)n, sizeof *v);
    void  *p = need(a, (size_t)n, dtype_size(type));
    for (int64_t i = 0; i < n; i++)
        v[i] = ((float)rnd(2001) - 1000) / 4000;
    quant_narrow(type, v, n, p);
    return p;
}

static float *positive(struct adapters *a, int64_t n, float least)
{
    float *v = values(a, DTYPE_F32, n);
    for (int64_t i = 0; i < n; i++)
        v[i] += least + 0.25f;
    return v;
}

/* The lanes of b beyond n_out count for nothing, so they need no zeros. */
static struct lora_pair *pair_new(struct adapters *a, const struct weight *w, int64_t rank)
{
    struct lora_pair *p = need(a, 1, sizeof *p);
    *p = (struct lora_pair){.n_in = w->n_in,
                            .n_out = w->n_out,
                            .rank = rank,
                            .a_type = types[rnd(3)],
                            .b_type = types[rnd(3)],
                            .scale = 0.5f,
                            .uses = WEIGHT_LINEAR | WEIGHT_EMBED};
    int64_t padded = (w->n_in + LORA_LANES - 1) / LORA_LANES * LORA_LANES,
            tiles = (w->n_out + LORA_LANES - 1) / LORA_LANES;
    char *rows = need(a, (size_t)(rank * padded), dtype_size(p->a_type));
    for (int64_t j = 0; j < rank; j++)
        memcpy(rows + (size_t)(j * padded) * dtype_size(p->a_type), values(a, p->a_type, w->n_in),
               (size_t)w->n_in * dtype_size(p->a_type));
    p->a = rows;
    p->b = values(a, p->b_type, tiles * rank * LORA_LANES);
    return p;
}

static struct weight *vector_new(struct adapters *a, struct backend *b, const struct weight *w)
{
    struct weight *v = need(a, 1, sizeof *v);
    *v = *w;
    v->dtype = DTYPE_F32;
    v->data = positive(a, w->n_in, 0.5f);
    v->packed = NULL;
    assert_int_equal(b->prepare(b, v, WEIGHT_VECTOR, NULL), 0);
    a->replaced[a->n_replaced++] = v;
    return v;
}

/* Adapter 0 has pairs, 1 pairs of other ranks, biases and norms, 2 DoRA. */
static void adapter_make(struct adapters *a, int i, const struct params *p, struct backend *b)
{
    const struct lora_delta **table = need(a, (size_t)p->n_weight, sizeof *table);
    for (size_t k = 0; k < p->n; k++) {
        const struct weight *w = p->v[k].weight;
        struct lora_delta   *d = need(a, 1, sizeof *d);
        if (p->v[k].role == ROLE_BIAS || (p->v[k].role == ROLE_NORM && i != 1))
            continue;
        table[w->index] = d;
        if (p->v[k].role == ROLE_NORM) {
            d->replace = vector_new(a, b, w);
            continue;
        }
        d->n_pair = 1;
        d->pair = pair_new(a, w, i == 0 ? 8 : 3 + (int)rnd(6));
        if (i == 1 && rnd(2))
            d->bias = values(a, DTYPE_F32, w->n_out);
        if (i == 2) {
            struct lora_dora *v = need(a, 1, sizeof *v);
            *v = (struct lora_dora){.m = positive(a, w->n_out, 0.5f),
                                    .ww = positive(a, w->n_out, 1),
                                    .wd = values(a, DTYPE_F32, w->n_out),
                                    .dd = positive(a, w->n_out, 0)};
            d->dora = v;
        }
    }
    a->lora[i] = (struct lora){.n_weight = p->n_weight, .delta = table, .rank = 8};
}

static struct lora_set *set_new(struct adapters *a, int n, const int *which, const float *scale)
{
    struct lora_set *s = need(a, 1, sizeof *s + (size_t)n * sizeof *s->use);
    s->n = n;
    s->rank = 8 * n;
    for (int i = 0; i < n; i++)
        s->use[i] = (struct lora_use){&a->lora[which[i]], scale[i]};
    return s;
}

static void adapters_init(struct adapters *a, const struct rig *r)
{
    const struct params *p = &r->f.model->params;
    *a = (struct adapters){0};
    arena_init(&a->arena, 1 << 30);
    a->replaced = need(a, p->n * ADAPTERS, sizeof(struct weight *));
    rng_state = 4;
    for (int i = 0; i < ADAPTERS; i++)
        adapter_make(a, i, p, r->f.backend);
    a->set[1] = set_new(a, 1, (int[]){0}, (float[]){1});
    a->set[2] = set_new(a, 1, (int[]){1}, (float[]){0.5f});
    a->set[3] = set_new(a, 2, (int[]){0, 1}, (float[]){1, 1});
    a->set[4] = set_new(a, 1, (int[]){2}, (float[]){-0.5f});
    a->set[5] = set_new(a, 3, (int[]){0, 1, 2}, (float[]){0.25f, 1, 1});
}

static void adapters_deinit(struct adapters *a, const struct rig *r)
{
    for (int i = 0; i < a->n_replaced; i++)
        r->f.backend->release(r->f.backend, a->replaced[i]);
    arena_deinit(&a->arena);
}

/* The plainest run: alone, one row a step, one thread. */
static void reference(struct lane *l, const char *model, enum precision p, int set, int n, uint32_t seed)
{
    struct rig      r;
    struct adapters a;
    const int       one = 1;
    rig_open(&r, model, 1, -1, p, KV_TILE, n);
    adapters_init(&a, &r);
    lane_init(l, &r, n, seed);
    l->set = a.set[set];
    while (l->done < n)
        step(&r, l, &one, 1);
    page_table_deinit(&l->pages, r.pool);
    adapters_deinit(&a, &r);
    rig_close(&r);
}

static bool same_logits(const struct lane *x, const struct lane *y, int n_vocab)
{
    return memcmp(x->logits, y->logits, (size_t)x->n * (size_t)n_vocab * sizeof(float)) == 0;
}

/* Seven sequences of the sets 0, 1, ... 5, 0 whose prompts and single rows are mixed at random; `most` rows a step. */
static void mixed(const char *model, enum precision p, int threads, int level, int most)
{
    enum { LANES = SETS + 1 };
    struct lane     want[LANES], got[LANES];
    struct rig      r;
    struct adapters a;
    char            what[256];
    for (int i = 0; i < LANES; i++)
        reference(&want[i], model, p, i % SETS, LENGTH - 3 * i, 5);
    rig_open(&r, model, threads, level, p, KV_TILE, LENGTH);
    adapters_init(&a, &r);
    for (int i = 0; i < LANES; i++) {
        lane_init(&got[i], &r, want[i].n, 5);
        got[i].set = a.set[i % SETS];
        if (i > 0 && i < SETS) /* the sets do something */
            assert_false(same_logits(&want[i], &want[i - 1], r.n_vocab));
    }
    rng_state = (uint32_t)most;
    for (bool more = true; more;) {
        int rows[LANES], room = 1 + (int)rnd((uint32_t)most);
        more = false;
        for (int i = 0; i < LANES; i++) {
            int left = got[i].n - got[i].done, want_rows = rnd(2) ? 1 : (int)rnd(20);
            rows[i] = MIN(MIN(left, room), want_rows);
            room -= rows[i];
            more |= left > rows[i];
        }
        step(&r, got, rows, LANES);
    }
    for (int i = 0; i < LANES; i++) {
        snprintf(what, sizeof what, "%s: %d threads, at most %d rows, set %d", model, threads, most, i % SETS);
        assert_same(&got[i], &want[i], r.n_vocab, what);
        lane_deinit(&got[i], &r);
        free(want[i].tokens);
        free(want[i].logits);
    }
    adapters_deinit(&a, &r);
    rig_close(&r);
}

static void test_mixed(void **state)
{
    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(models); m++)
        for (int threads = 1; threads <= 3; threads++)
            mixed(models[m], precisions[(m + (size_t)threads) % 3], threads, -1, threads == 2 ? 8 : ROWS_MAX);
}

/* bfloat16 pairs are products of one level only. */
static void test_levels(void **state)
{
    (void)state;
    for (int level = 0; level < CPU_LEVELS; level++)
        for (size_t m = 0; m < 2 && cpu_level_runs((enum cpu_level)level); m++)
            mixed(models[m], PRECISION_DEFAULT, 2, level, 33);
}

/* A lane alone in chunks of every size. */
static void test_chunks(void **state)
{
    struct lane     want;
    struct rig      r;
    struct adapters a;
    (void)state;
    reference(&want, models[0], PRECISION_DEFAULT, 5, LENGTH, 7);
    rig_open(&r, models[0], 3, -1, PRECISION_DEFAULT, KV_TILE, LENGTH);
    adapters_init(&a, &r);
    for (int chunk = 1; chunk <= LENGTH; chunk++) {
        struct lane l;
        lane_init(&l, &r, LENGTH, 7);
        l.set = a.set[5];
        while (l.done < l.n) {
            int rows = MIN(chunk, l.n - l.done);
            step(&r, &l, &rows, 1);
        }
        assert_same(&l, &want, r.n_vocab, "chunks");
        lane_deinit(&l, &r);
    }
    adapters_deinit(&a, &r);
    rig_close(&r);
    free(want.tokens);
    free(want.logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
