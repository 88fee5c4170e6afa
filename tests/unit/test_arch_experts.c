/* Families with experts: what fields and their absence mean where it is not what their dense kin take it for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/description.h"

#define SIZES                                                                                                          \
    "\"hidden_size\":1024,\"intermediate_size\":8,\"num_hidden_layers\":4,\"num_attention_heads\":16,\"vocab_size\":9"

static void windows(void **state)
{
    static const struct {
        const char *type, *fields;
        int         window[4];
    } cases[] = {
        {"mixtral", "", {0}},
        {"mixtral", "\"sliding_window\":5", {5, 5, 5, 5}},
        {"qwen2_moe", "\"sliding_window\":5", {0}},
        {"qwen2_moe", "\"use_sliding_window\":true,\"sliding_window\":5", {5, 0, 5, 0}},
        {"qwen2_moe", "\"use_sliding_window\":true,\"sliding_window\":5,\"max_window_layers\":2", {5, 0, 0, 0}},
        {"qwen3_moe", "\"sliding_window\":5", {0}},
        {"qwen3_moe", "\"use_sliding_window\":true,\"sliding_window\":5,\"max_window_layers\":2", {5, 5, 5, 5}},
    };
    struct description f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        describe_right(&f, cases[i].type, SIZES, cases[i].fields);
        for (int k = 0; k < 4; k++)
            if (f.m.layer[k].attn.window != cases[i].window[k])
                fail_msg("%s %s: layer %d has %d", cases[i].type, cases[i].fields, k, f.m.layer[k].attn.window);
        description_free(&f);
    }
}

/* Which layers have experts, in either spelling. */
static void layers_with_experts(void **state)
{
    static const struct {
        const char *fields;
        bool        experts[4];
    } cases[] = {
        {"", {false, true, true, true}},
        {"\"first_k_dense_replace\":2", {false, false, true, true}},
        {"\"is_moe_layer\":[true,false,false,true],\"first_k_dense_replace\":2", {true, false, false, true}},
        {"\"mlp_layer_types\":[\"dense\",\"sparse\",\"dense\",\"sparse\"]", {false, true, false, true}},
    };
    struct description f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        describe_right(&f, "exaone_moe", SIZES ",\"num_key_value_heads\":4", cases[i].fields);
        for (int k = 0; k < 4; k++)
            if ((f.m.layer[k].ff == FF_MOE) != cases[i].experts[k])
                fail_msg("%s: layer %d", cases[i].fields, k);
        description_free(&f);
    }
}

static void defaults(void **state)
{
    static const struct {
        const char *type;
        int         n_kv_head, head_dim;
        double      theta, eps;
    } cases[] = {
        {"mixtral", 8, 64, 1e6, 1e-5},
        {"qwen2_moe", 16, 64, 1e4, 1e-6},
        {"qwen3_moe", 4, 64, 1e4, 1e-6},
    };
    struct description f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        describe_right(&f, cases[i].type, SIZES, "");
        assert_int_equal(f.m.layer[0].attn.n_kv_head, cases[i].n_kv_head);
        assert_int_equal(f.m.layer[0].attn.head_dim, cases[i].head_dim);
        assert_true(f.m.rope[0].theta == cases[i].theta && f.m.norm.eps == (float)cases[i].eps);
        description_free(&f);
    }
}

/* Config classes that scale a rope of which the file says nothing. */
static void ropes(void **state)
{
    struct description f;
    (void)state;
    describe_right(&f, "gpt_oss", SIZES, "");
    assert_true(f.m.rope[0].scaling == ROPE_YARN && f.m.rope[0].factor == 32 && f.m.rope[0].fractional);
    assert_true(f.m.rope[0].mscale > 1.3465 && f.m.rope[0].mscale < 1.3466);
    description_free(&f);
    describe_right(&f, "ministral3", SIZES, "");
    assert_true(f.m.rope[0].scaling == ROPE_YARN && f.m.rope[0].mscale == 1);
    assert_true(f.m.layer[0].attn.position_scale == 0.1f && f.m.layer[0].attn.position_unit == 16384);
    description_free(&f);
    describe_right(&f, "ministral3", SIZES, "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5}");
    assert_true(f.m.rope[0].scaling == ROPE_DEFAULT && f.m.rope[0].theta == 5);
    description_free(&f);
}

/* hidden_act is the experts', too; and biases of shared experts are no biases of the others. */
static void experts(void **state)
{
    struct description f;
    (void)state;
    describe_right(&f, "mixtral", SIZES, "\"hidden_act\":\"gelu\"");
    assert_int_equal(f.m.layer[0].moe->act, ACT_GELU);
    description_free(&f);
    describe_right(&f, "gpt_oss", SIZES, "\"hidden_act\":\"silu\"");
    assert_int_equal(f.m.layer[0].moe->act, ACT_SWIGLU_CLAMPED);
    description_free(&f);
    assert_int_not_equal(describe(&f, "mixtral", SIZES, "\"hidden_act\":\"xielu\""), 0);
    assert_non_null(strstr(f.e.msg, "hidden_act is xielu"));
    description_free(&f);
    assert_int_not_equal(describe(&f, "phimoe", SIZES, "\"num_experts_per_tok\":1"), 0);
    assert_non_null(strstr(f.e.msg, "num_experts_per_tok is 1; supported: 2"));
    description_free(&f);
    assert_int_not_equal(describe(&f, "qwen3_next", SIZES, "\"hidden_act\":\"gelu\""), 0);
    assert_non_null(strstr(f.e.msg, "hidden_act is \"gelu\"; supported: silu"));
    description_free(&f);
    describe_right(&f, "nemotron_h", SIZES, "\"hybrid_override_pattern\":\"EEEE\",\"mlp_bias\":true");
    assert_true(f.m.layer[0].moe->shared_bias && !f.m.layer[0].moe->bias);
    description_free(&f);
    describe_right(&f, "qwen2_moe", SIZES, "\"qkv_bias\":false");
    assert_false(f.m.layer[0].attn.qkv_bias);
    description_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(layers_with_experts),
                                       cmocka_unit_test(defaults), cmocka_unit_test(ropes), cmocka_unit_test(experts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
