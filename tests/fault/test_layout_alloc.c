/* Binding and preparing a checkpoint in the original layout while the n-th allocation fails, for every n: each time one error,
 * and (under the address sanitizer) no leak. The checkpoint has every way in which parameters are made of other tensors. */
#include "../support/layout.h"

#include "../support/fail_alloc.h"
#include "cpu/cpu.h"

enum { F8 = 200, MADE = 12, ROWS = 20, SWEEP_MAX = 100000 }; /* F8: rows of a half of FP8 tiles, which one cuts */

#define TURNS(x, k)                                                                                                    \
    {                                                                                                                  \
        .param = "*." x, .from = "*.gate_up", .transposed = true, .part = k, .parts = 2, .interleaved = true           \
    }

static const struct layout_scale factors[] = {{5, 0.3f}, {O - 5, 7.0f}, {0, 0}};
static const struct layout_rule  rules[] = {
     {.param = "*.mlp.gate", .from = "*.experts.#.gate"},
     {.param = "*.mlp.up", .from = "*.experts.#.up"},
     {.param = "*.f8.gate", .from = "*.f8.whole", .part = 0, .parts = 2},
     {.param = "*.f8.up", .from = "*.f8.whole", .part = 1, .parts = 2},
     TURNS("gate", 0),
     TURNS("up", 1),
     {.param = "*.embed_q", .from = "*.kv_b", .below = "*.unembed_out", .transposed = true, .leftover = true},
     {.param = "*.unembed_out", .from = "*.kv_b", .above = "*.embed_q", .leftover = true},
     {.param = "*.norm", .marker = "*.conv.weight", .plus = 1},
     {.param = "*.in", .from = "*.in_proj", .scale = factors},
     {0}};

static struct weight weights[ROWS][E];

/* The table: stacks of experts one by one, with biases; transposed, in turns, with biases; as mxfp4's blocks; heads of a
 * quantized matrix; norms and a convolution; a scaled matrix; FP8 in tiles and with one scale; packed codes. */
static void declare(struct params *p)
{
    static const char *const stacks[] = {"mlp.gate", "mlp.up", "dense.gate", "dense.up", "blocks.gate", "blocks.up"};
    struct weight(*w)[E] = weights;
    char name[64];
    for (size_t i = 0; i < ARRAY_LEN(stacks); i++, w++) {
        snprintf(name, sizeof name, "model.layers.%%d.%s", stacks[i]);
        params_add_stack(p, SHARD_ROWS, 0, name, E, O, K, "experts", *w);
        snprintf(name, sizeof name, "model.layers.%%d.%s.bias", stacks[i]);
        if (i < 4)
            params_add(p, ROLE_BIAS, SHARD_NONE, 0, name, E, O, "experts", *w);
    }
    params_add_stack(p, SHARD_ROWS, 0, "model.layers.%d.embed_q", E, R, NOPE, "heads", *w++);
    params_add_stack(p, SHARD_ROWS, 0, "model.layers.%d.unembed_out", E, DV, R, "heads", *w++);
    params_add(p, ROLE_NORM, SHARD_NONE, 0, "model.layers.%d.norm", K, 0, "width", *w++);
    params_add_vector(p, 0, "model.layers.%d.conv", ".weight", 3, (const int64_t[]){K, 4, 1}, "width", *w++);
    params_add(p, ROLE_LINEAR, SHARD_NONE, 0, "model.layers.%d.in", O, K, "width", *w++);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, 0, "model.layers.%d.f8.gate", F8, K, "width", *w++);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, 0, "model.layers.%d.f8.up", F8, K, "width", *w++);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, 0, "model.layers.%d.one_scale", O, K, "width", *w++);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, 0, "model.layers.%d.packed", O, K, "width", *w++);
}

static struct cell anywhere(const int64_t *i)
{
    return (struct cell){0, i[0] + i[1]};
}

/* A tensor of zeros. */
static void put_zeros(struct fixture *x, const char *name, enum dtype dtype, int n_dim, int64_t rows, int64_t cols)
{
    struct param p = {.name = name, .n_dim = n_dim, .shape = {rows, cols}};
    char        *data;
    if (n_dim == 1)
        p.shape[0] = cols;
    table_put(&x->f, &p, "", dtype, cols, (size_t)cols * dtype_size(dtype), &data);
    memset(data, 0, x->f.v[x->f.n - 1].size);
}

static void put_stacks(struct fixture *x)
{
    static const char *const name[] = {"gate", "up"};
    put_experts(x, &coded[0]);
    for (int i = 0; i < 2 * E; i++)
        put(x, arena_printf(&x->f.arena, "original.layers.0.experts.%d.%s", i / 2, name[i % 2]), ".bias", &dense[0], 1,
            (int64_t[]){O}, anywhere);
    put(x, "original.layers.0.dense.gate_up", "", &dense[1], 3, (int64_t[]){E, K, 2 * O}, anywhere);
    put(x, "original.layers.0.dense.gate_up", "_bias", &dense[0], 2, (int64_t[]){E, 2 * O}, anywhere);
    put(x, "model.layers.0.blocks.gate_up", "", &coded[2], 3, (int64_t[]){E, 2 * O, K}, anywhere);
    struct tensor_view *blocks = &x->f.v[x->f.n - 2];
    blocks[0].name = "model.layers.0.blocks.gate_up_blocks";
    blocks[1].name = "model.layers.0.blocks.gate_up_scales";
    blocks[0].dtype = DTYPE_U8;
    blocks[0].n_dim = 4;
    blocks[0].shape[2] = K / 32;
    blocks[0].shape[3] = 16;
}

static void write_files(void)
{
    struct fixture x;
    begin(&x);
    put_stacks(&x);
    put(&x, "model.layers.0.kv_b", ".weight", &coded[0], 2, (int64_t[]){E * (NOPE + DV), R}, anywhere);
    put(&x, "model.layers.0.norm", ".weight", &dense[1], 1, (int64_t[]){K}, of_vector);
    put(&x, "model.layers.0.conv", ".weight", &dense[1], 3, (int64_t[]){K, 1, 4}, anywhere);
    put(&x, "model.layers.0.in_proj", ".weight", &dense[1], 2, (int64_t[]){O, K}, anywhere);
    put_zeros(&x, "model.layers.0.f8.whole.weight", DTYPE_F8_E4M3, 2, 2 * F8, K);
    put_zeros(&x, "model.layers.0.f8.whole" PLANE_FP8_SCALES, DTYPE_F32, 2, 4, 1);
    put_zeros(&x, "model.layers.0.one_scale.weight", DTYPE_F8_E4M3, 2, O, K);
    put_zeros(&x, "model.layers.0.one_scale" PLANE_FP8_SCALES, DTYPE_F32, 1, 1, 1);
    put_zeros(&x, "model.layers.0.packed.weight_packed", DTYPE_I32, 2, O, K / 8);
    put_zeros(&x, "model.layers.0.packed.weight_scale", DTYPE_BF16, 2, O, K / 32);
    table_write(&x.f, dir);
    arena_deinit(&x.m.arena);
}

static int open_model(struct model *m, struct error *e)
{
    struct faults f = {0};
    layout_targets(&m->params, &m->desc);
    int err = params_finish(&m->params, e);
    if (!err)
        err = checkpoint_open(&m->checkpoint, dir, false, NULL, NULL, e);
    if (!err) {
        params_bind(&m->params, &m->desc, m->checkpoint, 0, LAYERS, &f);
        err = faults_report(&f, e);
    }
    faults_deinit(&f);
    return err;
}

static int load(int *made, struct error *e)
{
    struct fixture     x;
    struct cpu_options o = {.threads = 1, .level = -1};
    begin(&x);
    memset(weights, 0, sizeof weights);
    x.m.desc.layout = rules;
    x.m.desc.layout_prefix = renamed;
    declare(&x.m.params);
    int err = open_model(&x.m, e);
    *made = 0;
    for (size_t i = 0; i < x.m.params.n; i++)
        *made += x.m.params.v[i].source.made;
    if (!err)
        err = cpu_backend_new(&x.m.backend, &o, e);
    if (!err)
        err = params_prepare(&x.m.params, x.m.backend, NULL, e);
    arena_deinit(&x.f.arena);
    end(&x);
    return err;
}

static void test_every_allocation(void **state)
{
    long n = 0;
    int  code, made;
    (void)state;
    write_files();
    do {
        struct error e = {0};
        failed = false;
        countdown = ++n;
        code = load(&made, &e);
        countdown = -1;
        if (code && (code != ERR_NOMEM || !failed || !e.msg[0]))
            fail_msg("allocation %ld: code %d: %s", n, code, e.msg);
        if (failed && !code)
            fail_msg("allocation %ld failed and nobody said so", n);
    } while (failed && n < SWEEP_MAX);
    assert_int_equal(code, 0);
    assert_int_equal(made, MADE);
    print_message("%ld allocations\n", n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    countdown = -1;
    return cmocka_run_group_tests(tests, setup, teardown);
}
