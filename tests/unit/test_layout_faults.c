/* What does not fit the original layouts' rules is named as the files name it; what is left out on purpose; adapters and
 * people know the original names. */
#include "../support/layout.h"

static void refused(struct fixture *x, const char *const *texts)
{
    struct error e = {0};
    assert_int_not_equal(bind(x, &e), 0);
    for (; *texts; texts++)
        if (!strstr(e.msg, *texts))
            fail_msg("'%s' is not in: %s", *texts, e.msg);
    end(x);
}

static void begin_experts(struct fixture *x, const struct table_form *form)
{
    begin(x);
    add_stacks(x);
    x->m.desc.layout = experts_apart;
    x->m.desc.layout_prefix = renamed;
    put_experts(x, form);
}

static void test_faults(void **state)
{
    struct fixture x;
    (void)state;
    begin_experts(&x, &dense[1]);
    x.f.v[1] = x.f.v[--x.f.n]; /* gate of 1, and up of 2 in its place */
    x.f.v[1].name = "original.layers.0.experts.7.gate.weight";
    refused(&x,
            (const char *const[]){"model.layers.0.experts.1.gate.weight is in no file",
                                  "model.layers.0.experts.2.up.weight is in no file",
                                  "original.layers.0.experts.7.gate.weight (BF16 [32, 96]) is not a parameter", NULL});
    begin_experts(&x, &dense[1]);
    x.f.v[2].dtype = DTYPE_F16;
    refused(&x, (const char *const[]){"original.layers.0.experts.2.gate.weight is F16 [32, 96], but "
                                      "original.layers.0.experts.0.gate.weight is BF16 [32, 96]",
                                      NULL});
    begin_experts(&x, &coded[0]);
    x.f.v[1].name = "spoilt.scales"; /* of expert 0 */
    refused(&x, (const char *const[]){"experts.0.gate.scales is in no file", "spoilt.scales", NULL});
    begin(&x);
    add_stacks(&x);
    x.m.desc.layout = column_turns;
    put(&x, "model.layers.0.mlp.gate_up", "", &dense[1], 3, (int64_t[]){E, 2 * O, K}, of_turns);
    refused(&x, (const char *const[]){"model.layers.0.mlp.gate_up is BF16 [3, 64, 96], needed F32, F16 or BF16 [3, 96, "
                                      "64] (experts of config.json)",
                                      NULL});
}

static void test_more_faults(void **state)
{
    static const struct layout_rule halves_of_one[] = {{.param = "*.gate", .from = "*.gate_up", .part = 0, .parts = 2},
                                                       {.param = "*.up", .from = "*.gate_up", .part = 1, .parts = 2},
                                                       {0}};
    struct fixture                  x;
    (void)state;
    begin(&x); /* what is transposed cannot be quantized along its inputs */
    add_stacks(&x);
    x.m.desc.layout = column_turns;
    put(&x, "model.layers.0.mlp.gate_up", "", &coded[0], 3, (int64_t[]){E, K, 2 * O}, of_columns);
    refused(&x, (const char *const[]){"model.layers.0.mlp.gate_up.weight is U32", "needed F32, F16 or BF16 [3, 96, 64]",
                                      NULL});
    begin(&x); /* one half also stands alone */
    add_stacks(&x);
    x.m.desc.layout = halves_of_one;
    put(&x, "model.layers.0.mlp.gate_up", "", &dense[1], 3, (int64_t[]){E, 2 * O, K}, of_halves);
    put(&x, "model.layers.0.mlp.gate", ".weight", &dense[1], 3, (int64_t[]){E, O, K}, of_halves);
    refused(&x, (const char *const[]){"model.layers.0.mlp.gate_up holds 2 parameters, of which only "
                                      "model.layers.0.mlp.up is not also stored under its own name",
                                      NULL});
    begin(&x); /* rows of heads */
    add_heads(&x);
    put(&x, "model.layers.0.kv_b", ".weight", &coded[0], 2, (int64_t[]){E * (NOPE + DV) - 1, R}, of_heads);
    refused(&x, (const char *const[]){"model.layers.0.kv_b.weight is U32 [155, 8], needed 156 rows (heads of", NULL});
    begin(&x); /* nothing at all: what it is also known by */
    add_heads(&x);
    refused(&x,
            (const char *const[]){"model.layers.0.embed_q.weight is in no file (nor is model.layers.0.kv_b)", NULL});
}

static struct cell of_conv(const int64_t *i)
{
    return (struct cell){3, i[0] + i[1] + i[2]};
}

/* Norms that are w or 1 + w by the shape of convolutions, of which there is none, or one in each form: said once, not guessed. */
static void test_unmarked(void **state)
{
    static const struct layout_rule rules[] = {{.param = "*.norm", .marker = "*.conv.weight", .plus = 1}, {0}};
    static const int64_t            hf[] = {K, 1, 4}, mlx[] = {K, 4, 1};
    (void)state;
    for (int mixed = 0; mixed < 2; mixed++) {
        struct fixture x;
        const char    *text[] = {"whether model.layers.0.norm.weight and its like hold", "tensors called *.conv.weight",
                              mixed ? "each of the two is" : "no such tensor is", NULL};
        begin(&x);
        x.m.desc.layout = rules;
        for (int i = 0; i < LAYERS; i++) {
            params_add(&x.m.params, ROLE_NORM, SHARD_NONE, i, "model.layers.%d.norm", K, 0, "width", x.w[i]);
            put(&x, arena_printf(&x.f.arena, "model.layers.%d.norm", i), ".weight", &dense[0], 1, (int64_t[]){K},
                of_vector);
            if (!mixed)
                continue;
            params_add_vector(&x.m.params, i, "model.layers.%d.conv", ".weight", 3, mlx, "width", x.w[2 + i]);
            put(&x, arena_printf(&x.f.arena, "model.layers.%d.conv", i), ".weight", &dense[1], 3, i ? hf : mlx,
                of_conv);
        }
        refused(&x, text);
    }
}

/* Made before, or beside what it was made of: the parameter's own tensors win, and the rest is left out with a warning. */
static void test_leftover(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x);
    add_heads(&x);
    put(&x, "model.layers.0.kv_b", ".weight", &dense[1], 2, (int64_t[]){E * (NOPE + DV), R}, of_heads);
    put(&x, "model.layers.0.embed_q", ".weight", &coded[0], 3, (int64_t[]){E, R, NOPE}, of_halves);
    put(&x, "model.layers.0.unembed_out", ".weight", &dense[1], 3, (int64_t[]){E, DV, R}, of_halves);
    bind_well(&x);
    assert_int_equal(x.m.params.leftover.n, 2);
    assert_string_equal(x.m.params.leftover.name, "model.layers.0.kv_b");
    assert_int_equal(x.m.params.v[0].quant.mode, QUANT_AFFINE);
    assert_false(x.m.params.v[0].source.made);
    end(&x);
}

/* A range of layers: those before it are neither bound nor unclaimed. */
static void test_range(void **state)
{
    struct fixture x;
    struct faults  f = {0};
    struct error   e = {0};
    (void)state;
    begin(&x);
    add_stacks(&x);
    params_add(&x.m.params, ROLE_NORM, SHARD_NONE, 1, "model.layers.%d.norm", K, 0, "width", x.w[2]);
    x.m.desc.layout = experts_apart;
    x.m.desc.layout_prefix = renamed;
    put_experts(&x, &dense[1]);
    put(&x, "original.layers.1.norm", ".weight", &dense[1], 1, (int64_t[]){K}, of_vector);
    if (params_finish(&x.m.params, &e))
        fail_msg("%s", e.msg);
    table_write(&x.f, dir);
    assert_int_equal(checkpoint_open(&x.m.checkpoint, dir, false, NULL, NULL, &e), 0);
    params_bind(&x.m.params, &x.m.desc, x.m.checkpoint, 1, LAYERS, &f);
    if (faults_report(&f, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(x.m.params.v[0].bytes, 0);
    assert_true(x.m.params.v[2].bytes > 0);
    faults_deinit(&f);
    end(&x);
}

static void test_ignored(void **state)
{
    static const char *const ignore[] = {"model.buffer", NULL};
    (void)state;
    for (int further = 0; further < 2; further++) {
        struct fixture x;
        begin_experts(&x, &dense[1]);
        x.m.desc.ignore = ignore;
        x.m.desc.ignore_further_layers = further;
        kind = 0;
        put(&x, "original.buffer", "", &dense[0], 1, (int64_t[]){K}, of_vector);
        put(&x, "original.layers.2.norm", ".weight", &dense[0], 1, (int64_t[]){K}, of_vector);
        if (further)
            bind_well(&x);
        else
            refused(&x, (const char *const[]){"original.layers.2.norm.weight (F32 [96]) is not a parameter", NULL});
        if (further)
            end(&x);
    }
}

/* A head of its own beside an embedding that is the head, by its declared name and in all its planes; and nothing like it. */
static void test_redundant_head(void **state)
{
    static const struct {
        const char *name, *suffix;
        size_t      form; /* of coded, or dense behind them */
        bool        untied, refused;
    } v[] = {{"model.head", ".weight", ARRAY_LEN(coded), false, false},
             {"original.head", ".weight", ARRAY_LEN(coded), false, false},
             {"original.head", ".weight", 0, false, false},
             {"original.head", ".weight", 2, false, false},
             {"original.head", ".weight", 0, true, true},
             {"original.head", ".bias", ARRAY_LEN(coded), false, true},
             {"original.head.norm", ".weight", ARRAY_LEN(coded), false, true},
             {"original.header", ".weight", ARRAY_LEN(coded), false, true},
             {"head", ".weight", ARRAY_LEN(coded), false, true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        struct fixture x;
        begin_experts(&x, &dense[1]);
        x.m.desc.prefix = "model.";
        x.m.desc.name[NAME_HEAD] = "head";
        x.m.desc.tie = v[i].untied ? TIE_NO : TIE_YES;
        kind = expert = 0;
        put(&x, v[i].name, v[i].suffix, v[i].form < ARRAY_LEN(coded) ? &coded[v[i].form] : &dense[0], 2,
            (int64_t[]){O, K}, of_expert);
        if (v[i].refused) {
            refused(&x, (const char *const[]){v[i].name, "is not a parameter", NULL});
        } else {
            bind_well(&x);
            end(&x);
        }
    }
}

/* --- adapters and people ------------------------------------------------------------------------------------------ */

static void test_targets(void **state)
{
    struct fixture      x;
    struct param_target t;
    (void)state;
    begin_experts(&x, &dense[1]);
    bind_well(&x);
    assert_true(params_target(&x.m.params, "model.layers.0.experts.2.up", &t));
    assert_int_equal(t.slice, 2);
    assert_ptr_equal(t.segment->weight, x.w[1]);
    end(&x);
    begin(&x);
    add_stacks(&x);
    x.m.desc.layout = column_turns;
    put(&x, "model.layers.0.mlp.gate_up", "", &dense[1], 3, (int64_t[]){E, K, 2 * O}, of_columns);
    bind_well(&x);
    assert_true(params_target(&x.m.params, "model.layers.0.mlp.gate_up", &t));
    assert_int_equal(t.n, 2);
    assert_int_equal(t.n_out, 2 * O);
    assert_int_equal(t.n_in, K);
    assert_int_equal(t.segment[1].from, 1);
    assert_int_equal(t.segment[1].step, 2);
    assert_ptr_equal(t.segment[1].weight, x.w[1]);
    char text[LAYOUT_TEXT];
    assert_true(layout_text(&x.m.params.v[1], text));
    assert_string_equal(text, "model.layers.0.mlp.gate_up, transposed, part 2 of 2 in turns");
    end(&x);
}

static void test_spellings(void **state)
{
    struct model_desc m = {.layout_prefix = renamed};
    char              out[LAYOUT_NAME];
    (void)state;
    assert_string_equal(layout_spelling(&m, "original.x", 0, out), "original.x");
    assert_string_equal(layout_spelling(&m, "original.x", 1, out), "model.x");
    assert_null(layout_spelling(&m, "original.x", 2, out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),    cmocka_unit_test(test_more_faults),    cmocka_unit_test(test_leftover),
        cmocka_unit_test(test_ignored),   cmocka_unit_test(test_range),          cmocka_unit_test(test_targets),
        cmocka_unit_test(test_spellings), cmocka_unit_test(test_redundant_head), cmocka_unit_test(test_unmarked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
