/* Names of modules for adapters: which rows of which matrix each stands for, on a table with every kind of name. */
#include "../support/table.h"

#define L0 "model.layers.0."
#define L1 "model.layers.1."

static struct table t;

static struct param_target target(const char *name)
{
    struct param_target g;
    if (!params_target(&t.m.params, name, &g))
        fail_msg("%s is not found", name);
    return g;
}

static void check_segment(const struct param_target *g, int i, const char *param, int64_t row, int64_t n_row,
                          int64_t from, int64_t step)
{
    const struct param_segment *s = &g->segment[i];
    assert_true(i < g->n);
    assert_string_equal(s->param->name, param);
    assert_ptr_equal(s->param, params_find(&t.m.params, param));
    assert_ptr_equal(s->weight, s->param->weight);
    assert_int_equal(s->row, row);
    assert_int_equal(s->n_row, n_row);
    assert_int_equal(s->from, from);
    assert_int_equal(s->step, step);
}

static void check(const char *name, int n, int n_slice, int64_t n_in, int64_t n_out, unsigned uses)
{
    struct param_target g = target(name);
    assert_int_equal(g.n, n);
    assert_int_equal(g.n_slice, n_slice);
    assert_int_equal(g.n_in, n_in);
    assert_int_equal(g.n_out, n_out);
    assert_int_equal(g.uses, uses);
}

static void test_rows(void **state)
{
    (void)state;
    check(L1 "cross.k_proj", 1, 1, T_EMBD, T_KV, WEIGHT_LINEAR);
    check(L1 "self_attn.qkv_proj", 1, 1, T_EMBD, T_Q + 2 * T_KV, WEIGHT_LINEAR);
    check(L1 "norm", 1, 1, T_EMBD, 1, WEIGHT_VECTOR);
    check(L1 "mlp.switch_mlp.down_proj", 1, T_EXPERTS, T_FF, T_EMBD, WEIGHT_LINEAR);
    check(L1 "mla.embed_q", 1, T_HEADS, T_NOPE, T_RANK, WEIGHT_LINEAR);
    struct param_target g = target(L1 "mlp.switch_mlp.down_proj");
    check_segment(&g, 0, L1 "mlp.switch_mlp.down_proj", 0, T_EMBD, 0, 1);
    for (int i = 0; i < T_EXPERTS; i++)
        assert_ptr_equal(param_target_weight(&g, g.segment, i), &t.layer[1].down[i]);
}

static void test_parts(void **state)
{
    (void)state;
    check(L0 "self_attn.v_proj", 1, 1, T_EMBD, T_KV, WEIGHT_LINEAR);
    struct param_target g = target(L0 "self_attn.v_proj");
    check_segment(&g, 0, L0 "self_attn.qkv_proj", T_Q + T_KV, T_KV, 0, 1);
    assert_ptr_equal(param_target_weight(&g, g.segment, 0), &t.layer[0].qkv);
    check(L0 "moe.up_proj", 1, T_EXPERTS, T_EMBD, T_FF, WEIGHT_LINEAR);
    g = target(L0 "moe.up_proj");
    check_segment(&g, 0, L0 "moe.gate_up_proj", T_FF, T_FF, 0, 1);
    assert_ptr_equal(param_target_weight(&g, g.segment, 2), &t.layer[0].gate_up[2]);
}

static void test_fused(void **state)
{
    (void)state;
    check(L1 "cross.qkv_proj", 3, 1, T_EMBD, T_Q + 2 * T_KV, WEIGHT_LINEAR);
    struct param_target g = target(L1 "cross.qkv_proj");
    check_segment(&g, 0, L1 "cross.q_proj", 0, T_Q, 0, 1);
    check_segment(&g, 1, L1 "cross.k_proj", 0, T_KV, T_Q, 1);
    check_segment(&g, 2, L1 "cross.v_proj", 0, T_KV, T_Q + T_KV, 1);
    check(L1 "mlp.experts.gate_up_proj", 2, T_EXPERTS, T_EMBD, 2 * T_FF, WEIGHT_LINEAR);
    g = target(L1 "mlp.experts.gate_up_pairs");
    check_segment(&g, 0, L1 "mlp.switch_mlp.gate_proj", 0, T_FF, 0, 2);
    check_segment(&g, 1, L1 "mlp.switch_mlp.up_proj", 0, T_FF, 1, 2);
    assert_ptr_equal(param_target_weight(&g, &g.segment[1], 2), &t.layer[1].up[2]);
}

static void test_slices(void **state)
{
    (void)state;
    for (int i = 0; i < T_EXPERTS; i++) {
        char name[128];
        snprintf(name, sizeof name, "%smlp.experts.%d.up_proj", L1, i);
        check(name, 1, 1, T_EMBD, T_FF, WEIGHT_LINEAR);
        struct param_target g = target(name);
        check_segment(&g, 0, L1 "mlp.switch_mlp.up_proj", 0, T_FF, 0, 1);
        assert_ptr_equal(param_target_weight(&g, g.segment, 0), &t.layer[1].up[i]);
        snprintf(name, sizeof name, "%smoe.%d.up_proj", L0, i);
        g = target(name);
        check_segment(&g, 0, L0 "moe.gate_up_proj", T_FF, T_FF, 0, 1);
        assert_ptr_equal(param_target_weight(&g, g.segment, 0), &t.layer[0].gate_up[i]);
    }
}

static void test_heads(void **state)
{
    (void)state;
    struct param_target g = target(L0 "mla.kv_b_proj");
    check(L0 "mla.kv_b_proj", 2 * T_HEADS, 1, T_RANK, T_HEADS * (T_NOPE + T_V), WEIGHT_LINEAR);
    check_segment(&g, 2, L0 "mla.embed_q", 0, T_NOPE, T_NOPE + T_V, 1);
    check_segment(&g, 3, L0 "mla.unembed_out", 0, T_V, 2 * T_NOPE + T_V, 1);
    assert_true(g.segment[2].transposed && !g.segment[3].transposed);
    assert_ptr_equal(param_target_weight(&g, &g.segment[2], 0), &t.layer[0].embed_q[1]);
    assert_ptr_equal(param_target_weight(&g, &g.segment[1], 0), &t.layer[0].unembed_out[0]);
}

static void test_tied_head(void **state)
{
    (void)state;
    check("lm_head", 1, 1, T_EMBD, T_VOCAB, WEIGHT_LINEAR);
    check("model.embed_tokens", 1, 1, T_EMBD, T_VOCAB, WEIGHT_LINEAR | WEIGHT_EMBED);
    struct param_target g = target("lm_head");
    check_segment(&g, 0, "model.embed_tokens", 0, T_VOCAB, 0, 1);
    assert_null(params_find(&t.m.params, "lm_head"));
}

static void test_nothing(void **state)
{
    static const char *const names[] = {
        "",
        "model.layers.0",
        "model.layers.2.cross.q_proj",
        L0 "cross.q_proj.weight",
        L0 "mlp.switch_mlp.down_proj.bias",
        L0 "self_attn.o_proj",
        L0 "mlp.experts.3.up_proj",
        L0 "mlp.experts.00.up_proj",
        L0 "mlp.experts.01.up_proj",
        L0 "mlp.experts.-1.up_proj",
        L0 "mlp.experts.4294967296.up_proj",
        L0 "mlp.experts.#.up_proj",
        L0 "mlp.experts..up_proj",
        L0 "mlp.experts.1",
        L0 "mlp.switch_mlp.1.up_proj",
        "model.layers.#.cross.q_proj",
        "model.layers.00.cross.q_proj",
    };
    struct param_target g;
    char                many[2000];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (params_target(&t.m.params, names[i], &g))
            fail_msg("%s is found", names[i]);
    memset(many, '1', sizeof many - 1);
    for (size_t i = 0; i < sizeof many; i += 2)
        many[i] = '.';
    many[sizeof many - 1] = '\0';
    assert_false(params_target(&t.m.params, many, &g));
}

/* Every declaration may be the one that finds no memory: then params_finish says so. */
static void test_memory(void **state)
{
    (void)state;
    bool done = false;
    for (size_t max = 64; !done; max += 512) {
        struct arena        a;
        struct params       p = {.arena = &a};
        struct weight       e = {0}, w[3] = {{0}};
        struct error        err = {0};
        struct param_target g;
        arena_init(&a, max);
        params_add(&p, ROLE_EMBED, SHARD_ROWS, -1, "embed", 8, 8, "n", &e);
        params_add_stack(&p, SHARD_ROWS, 0, "l.%d.stack", 3, 8, 8, "n", w);
        params_part(&p, 0, "l.%d.#.part", w, 0, 4);
        params_tied_head(&p, "lm_head", &e);
        done = params_finish(&p, &err) == 0;
        assert_int_equal(err.code, done ? 0 : ERR_NOMEM);
        if (done)
            assert_true(params_target(&p, "l.0.2.part", &g) && params_target(&p, "lm_head", &g));
        arena_deinit(&a);
    }
}

static int setup(void **state)
{
    (void)state;
    table_init(&t);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    table_deinit(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_parts),  cmocka_unit_test(test_fused),
        cmocka_unit_test(test_slices),  cmocka_unit_test(test_heads),  cmocka_unit_test(test_tied_head),
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
