/* Pairs that do not fit the hand-made table: stacks, parts, fused names and planes of heads each say what they take. */
#include "../support/table_lora.h"

struct misfit {
    const char *module;
    int         n_dim; /* of a and b */
    int64_t     a[3], b[3];
    const char *words; /* that the one fault has */
};

static const struct misfit misfits[] = {
    {L0 "mlp.switch_mlp.down_proj", 3, {2, R, T_FF}, {2, T_EMBD, R}, "each of the 3 experts"},
    {L0 "mlp.switch_mlp.down_proj", 3, {3, R, T_EMBD}, {3, T_EMBD, R}, "takes 32 input features and produces 64"},
    {L0 "mlp.switch_mlp.down_proj", 3, {3, R, T_FF}, {3, T_FF, R}, "takes 32 input features and produces 64"},
    {L0 "mlp.switch_mlp.down_proj", 2, {T_FF, R}, {R, T_EMBD}, "each of the 3 experts"},
    {L0 "cross.q_proj", 3, {1, R, T_EMBD}, {1, T_Q + 1, R}, "takes 64 input features and produces 40"},
    {L0 "self_attn.k_proj", 2, {T_EMBD, R}, {R, T_Q}, L0 "self_attn.k_proj takes 64 input features and produces 24"},
    {L0 "self_attn.qkv_proj", 2, {T_EMBD, R}, {R, T_Q}, "takes 64 input features and produces 88; lora_b is [3, 40]"},
    {L0 "cross.qkv_proj", 2, {T_EMBD, R}, {R, T_Q}, "takes 64 input features and produces 88"},
    {L0 "cross.qkv_proj",
     2,
     {T_Q, R},
     {R, T_Q + 2 * T_KV},
     "takes 64 input features and produces 88; lora_a is [40, 3]"},
    {L0 "mlp.experts.1.up_proj", 2, {T_FF, R}, {R, T_FF}, L0 "mlp.experts.1.up_proj takes 64 input features"},
    {L0 "mlp.experts.3.up_proj", 2, {T_EMBD, R}, {R, T_FF}, L0 "mlp.experts.3.up_proj is no layer of the table model"},
    {L0 "mla.kv_b_proj", 2, {T_RANK, R}, {R, T_NOPE + T_V}, "takes 64 input features and produces 104"},
    {"model.layers.2.cross.q_proj", 2, {T_EMBD, R}, {R, T_Q}, "which has layers 0 to 1"},
    {L0 "norm", 2, {T_EMBD, R}, {R, 1}, "is a vector of the model, which takes no pair"},
};

static void test_misfits(void **state)
{
    (void)state;
    struct table t;
    prepare(&t, &forms[2], 0, T_LAYERS);
    for (size_t i = 0; i < ARRAY_LEN(misfits); i++) {
        const struct misfit *m = &misfits[i];
        struct job           j;
        struct error         e = {0};
        struct adapter      *a = NULL;
        char                 name[2][128];
        job_init(&j, &t);
        snprintf(name[0], sizeof name[0], "%s.lora_a", m->module);
        snprintf(name[1], sizeof name[1], "%s.lora_b", m->module);
        put(&j, name[0], m->n_dim, m->a[0], m->a[1], m->a[2]);
        put(&j, name[1], m->n_dim, m->b[0], m->b[1], m->b[2]);
        assert_int_equal(load(&j, mlx_config, "adapters.safetensors", &a, &e), ERR_MISFIT);
        if (!strstr(e.msg, m->words) || strstr(e.msg, "; adapters.safetensors")) /* one fault */
            fail_msg("%zu: %s", i, e.msg);
        job_deinit(&j);
    }
    close_table(&t);
}

/* What DoRA cannot be put on is said by name. */
static void test_dora_refusals(void **state)
{
    (void)state;
    struct table    t;
    struct job      j;
    struct error    e = {0};
    struct adapter *a = NULL;
    struct half     h[2];
    prepare(&t, &forms[0], 0, T_LAYERS);
    job_init(&j, &t);
    mlx_pair(&j, PAIR(L0 "mla.kv_b_proj"), T_RANK, T_HEADS * (T_NOPE + T_V), &h[0], &h[1]);
    put(&j, L0 "mla.kv_b_proj.m", 1, T_HEADS * (T_NOPE + T_V), 0, 0);
    mlx_stack(&j, PAIR(L0 "mlp.switch_mlp.down_proj"), T_EXPERTS, T_FF, T_EMBD, &h[0], &h[1]);
    put(&j, L0 "mlp.switch_mlp.down_proj.m", 1, T_EMBD, 0, 0);
    assert_int_equal(load(&j, dora_config, "adapters.safetensors", &a, &e), ERR_UNSUPPORTED);
    if (!strstr(e.msg, "kv_b_proj has DoRA or a bias on a layer that the model stores head by head") ||
        !strstr(e.msg, "down_proj has DoRA on a stack of experts"))
        fail_msg("%s", e.msg);
    job_deinit(&j);
    close_table(&t);
}

/* Replaced parameters: stacks and fused names by all their rows, parts not at all. */
static void test_replaced(void **state)
{
    static const struct {
        const char *name;
        int         n_dim;
        int64_t     shape[3];
        const char *refused; /* NULL: it loads */
    } cases[] = {
        {L0 "mlp.switch_mlp.down_proj.weight", 3, {T_EXPERTS, T_EMBD, T_FF}, NULL},
        {L0 "mlp.switch_mlp.down_proj.bias", 2, {T_EXPERTS, T_EMBD}, NULL},
        {L0 "mlp.experts.1.up_proj.weight", 2, {T_FF, T_EMBD}, NULL},
        {L0 "cross.qkv_proj.weight", 2, {T_Q + 2 * T_KV, T_EMBD}, NULL},
        {L0 "mlp.switch_mlp.down_proj.weight", 3, {2, T_EMBD, T_FF}, "down_proj.weight is [2, 64, 32], but"},
        {L0 "mlp.switch_mlp.down_proj.weight", 2, {T_EXPERTS * T_EMBD, T_FF}, "down_proj.weight is [192, 32], but"},
        {L0 "mlp.switch_mlp.down_proj.bias", 1, {T_EMBD}, "down_proj.bias is [64], but"},
        {L0 "cross.qkv_proj.weight", 2, {T_Q, T_EMBD}, "qkv_proj.weight is [40, 64], but"},
        {L0 "self_attn.q_proj.weight", 2, {T_Q, T_EMBD}, "replaces a part of a parameter that the model stores as one"},
        {L0 "moe.up_proj.weight", 3, {T_EXPERTS, T_FF, T_EMBD}, "replaces a part of a parameter"},
        {L0 "mla.kv_b_proj.weight", 2, {T_HEADS * (T_NOPE + T_V), T_RANK}, NULL},
        {L0 "mlp.experts.gate_up_pairs.weight", 3, {T_EXPERTS, 2 * T_FF, T_EMBD}, NULL},
    };
    (void)state;
    struct table t;
    prepare(&t, &forms[0], 0, T_LAYERS);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct job      j;
        struct error    e = {0};
        struct adapter *a = NULL;
        job_init(&j, &t);
        put(&j, cases[i].name, cases[i].n_dim, cases[i].shape[0], cases[i].shape[1], cases[i].shape[2]);
        int err = load(&j, full_config, "adapters.safetensors", &a, &e);
        if (!err != !cases[i].refused || (err && !strstr(e.msg, cases[i].refused)))
            fail_msg("%zu: %s", i, e.msg);
        adapter_unref(a);
        job_deinit(&j);
    }
    close_table(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_misfits), cmocka_unit_test(test_dora_refusals),
                                       cmocka_unit_test(test_replaced)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
