/* Dense families: what fields and their absence mean, and what is refused, beside Llama. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/description.h"

#define USUAL                                                                                                          \
    "\"hidden_size\":1024,\"intermediate_size\":8,\"num_hidden_layers\":2,\"num_attention_heads\":16,\"vocab_size\":9"
#define GPT "\"n_embd\":1024,\"n_layer\":2,\"n_head\":16,\"vocab_size\":9"

static void acts(void **state)
{
    static const struct {
        const char   *type, *fields;
        enum act_kind act;
    } cases[] = {
        {"llama", "", ACT_SILU},
        {"llama", "\"hidden_act\":\"swish\"", ACT_SILU},
        {"llama", "\"hidden_act\":\"gelu\"", ACT_GELU},
        {"llama", "\"hidden_act\":\"quick_gelu\"", ACT_GELU_QUICK},
        {"phi", "", ACT_GELU_TANH},
        {"phi", "\"hidden_act\":\"gelu_fast\"", ACT_GELU_TANH},
        {"starcoder2", "", ACT_GELU_TANH},
        {"starcoder2", "\"hidden_act\":\"gelu\"", ACT_GELU},
        {"gpt_neox", "", ACT_GELU},
        {"nemotron", "", ACT_RELU2},
        {"nemotron", "\"hidden_act\":\"relu\"", ACT_RELU},
        {"apertus", "", ACT_XIELU},
        {"gemma", "\"hidden_act\":\"gelu\"", ACT_GELU_TANH},
        {"gemma2", "\"hidden_act\":\"gelu\",\"hidden_activation\":\"gelu_pytorch_tanh\"", ACT_GELU_TANH},
        {"gemma2", "\"hidden_activation\":\"gelu\"", ACT_GELU},
    };
    struct description f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (describe(&f, cases[i].type, USUAL, cases[i].fields))
            fail_msg("%s", f.e.msg);
        if (f.m.layer[0].ffn.act != cases[i].act)
            fail_msg("%s %s: activation %d", cases[i].type, cases[i].fields, f.m.layer[0].ffn.act);
        description_free(&f);
    }
}

/* Biases of q, k, v; of o; of the feed-forward block; of the head. */
static void biases(void **state)
{
    static const struct {
        const char *type, *sizes, *fields;
        int         qkv, o, ff, head;
    } cases[] = {
        {"phi", USUAL, "", 1, 1, 1, 1},
        {"glm", USUAL, "", 1, 0, 0, 0},
        {"glm4", USUAL, "\"attention_bias\":false", 0, 0, 0, 0},
        {"granite", USUAL, "\"attention_bias\":true,\"mlp_bias\":true", 1, 1, 1, 0},
        {"olmo", USUAL, "\"attention_bias\":true,\"mlp_bias\":true", 1, 1, 0, 0},
        {"helium", USUAL ",\"num_key_value_heads\":4", "\"attention_bias\":true,\"mlp_bias\":true", 1, 0, 1, 0},
        {"ernie4_5", USUAL, "", 0, 0, 0, 0},
        {"ernie4_5", USUAL, "\"use_bias\":true", 1, 1, 1, 0},
        {"starcoder2", USUAL, "", 1, 1, 1, 0},
        {"starcoder2", USUAL, "\"use_bias\":false", 0, 0, 0, 0},
        {"stablelm", USUAL ",\"num_key_value_heads\":4", "\"use_qkv_bias\":true", 1, 0, 0, 0},
        {"gpt_neox", USUAL, "", 1, 1, 1, 0},
        {"gpt_neox", USUAL, "\"attention_bias\":false", 0, 0, 1, 0},
        {"nemotron", USUAL, "\"mlp_bias\":true", 0, 0, 1, 0},
        {"gpt2", GPT, "", 1, 1, 1, 0},
        {"gpt_bigcode", GPT, "", 1, 1, 1, 0},
    };
    struct description f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (describe(&f, cases[i].type, cases[i].sizes, cases[i].fields))
            fail_msg("%s", f.e.msg);
        const struct layer_desc *l = &f.m.layer[1];
        if (l->attn.qkv_bias != cases[i].qkv || l->attn.o_bias != cases[i].o || l->ffn.bias != cases[i].ff ||
            f.m.head_bias != cases[i].head)
            fail_msg("%s %s: biases %d %d %d %d", cases[i].type, cases[i].fields, l->attn.qkv_bias, l->attn.o_bias,
                     l->ffn.bias, f.m.head_bias);
        description_free(&f);
    }
}

/* Rotated features of a head of 64 (or what the family says), the base, neighbouring pairs. */
static void ropes(void **state)
{
    static const struct {
        const char *type, *fields;
        int         dims, interleaved;
        double      theta;
    } cases[] = {
        {"phi", "", 32, 0, 1e4},
        {"phi", "\"partial_rotary_factor\":0.375", 24, 0, 1e4},
        {"glm", "", 64, 1, 1e4},
        {"glm4", "\"partial_rotary_factor\":1.0,\"head_dim\":32", 32, 1, 1e4},
        {"stablelm", "\"num_key_value_heads\":16", 16, 0, 1e4},
        {"gpt_neox", "", 16, 0, 1e4},
        {"gpt_neox", "\"rotary_pct\":1.0,\"rotary_emb_base\":500", 64, 0, 500},
        {"gpt_neox", "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":300,\"partial_rotary_factor\":0.5}",
         32, 0, 300},
        {"nemotron", "", 32, 0, 1e4},
        {"helium", "\"num_key_value_heads\":4", 128, 1, 1e5},
        {"ernie4_5", "", 128, 1, 5e5},
        {"ernie4_5", "\"head_dim\":null", 64, 1, 5e5},
        {"apertus", "", 64, 0, 1.2e7},
        {"starcoder2", "\"rope_theta\":1000", 64, 0, 1000},
    };
    struct description f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (describe(&f, cases[i].type, USUAL, cases[i].fields))
            fail_msg("%s", f.e.msg);
        const struct rope_desc *r = &f.m.rope[f.m.layer[0].attn.rope];
        if (r->dims != cases[i].dims || r->interleaved != cases[i].interleaved || r->theta < cases[i].theta ||
            r->theta > cases[i].theta)
            fail_msg("%s %s: %d of a head, interleaved %d, base %g", cases[i].type, cases[i].fields, r->dims,
                     r->interleaved, r->theta);
        description_free(&f);
    }
}

/* The rope that Apertus has when config.json says nothing is scaled. */
static void apertus_rope(void **state)
{
    struct description f;
    (void)state;
    assert_int_equal(describe(&f, "apertus", USUAL, ""), 0);
    assert_int_equal(f.m.rope[0].scaling, ROPE_LLAMA3);
    description_free(&f);
    assert_int_equal(describe(&f, "apertus", USUAL, "\"rope_parameters\":{\"rope_type\":\"default\"}"), 0);
    assert_int_equal(f.m.rope[0].scaling, ROPE_DEFAULT);
    description_free(&f);
}

static void numbers(void **state)
{
    struct description f;
    (void)state;
    assert_int_equal(describe(&f, "granite", USUAL,
                              "\"embedding_multiplier\":12,\"residual_multiplier\":0.25,\"logits_scaling\":8,"
                              "\"attention_multiplier\":0.5"),
                     0);
    assert_true(f.m.embed_scale == 12 && f.m.residual_scale == 0.25f && f.m.logit_scale == 0.125f &&
                f.m.layer[1].attn.scale == 0.5f);
    description_free(&f);
    assert_int_equal(describe(&f, "gpt2", GPT, "\"scale_attn_by_inverse_layer_idx\":true"), 0);
    assert_true(f.m.layer[0].attn.scale == 0.125f && f.m.layer[1].attn.scale == 0.0625f);
    assert_int_equal(f.m.n_position, 1024);
    assert_int_equal(f.m.layer[0].ffn.n_ff, 4096);
    description_free(&f);
    assert_int_equal(describe(&f, "gpt_bigcode", GPT, "\"n_inner\":null,\"scale_attn_weights\":false"), 0);
    assert_true(f.m.layer[0].attn.scale == 1.0f && f.m.layer[0].attn.n_kv_head == 1);
    description_free(&f);
    assert_int_equal(describe(&f, "olmo", USUAL, "\"clip_qkv\":null"), 0);
    assert_true(f.m.layer[0].attn.qkv_clip == 0.0f && f.m.norm.no_weight);
    description_free(&f);
}

static void refused(void **state)
{
    static const struct {
        const char *type, *sizes, *fields, *says;
    } cases[] = {
        {"llama", USUAL, "\"hidden_act\":\"gelu_10\"", "hidden_act is \"gelu_10\"; supported: silu, swish, gelu"},
        {"llama", USUAL, "\"hidden_act\":\"xielu\"", "xielu, which has no gate"},
        {"gpt2", "\"n_embd\":1024,\"n_layer\":2,\"n_head\":15,\"vocab_size\":9", "",
         "n_head is 15, a divisor of n_embd"},
        {"gpt2", GPT, "\"n_positions\":0", "n_positions"},
        {"gpt2", GPT, "\"n_inner\":-1", "n_inner"},
        {"minicpm", USUAL, "\"sparse_config\":{}", "sparse_config is set"},
        {"minicpm", USUAL, "\"num_experts\":8", "num_experts is not 0"},
        {"glm4_moe", USUAL, "\"scoring_func\":\"softmax\"", "scoring_func is \"softmax\"; supported: sigmoid"},
        {"solar_open", USUAL, "\"topk_method\":\"greedy\"", "topk_method is \"greedy\"; supported: noaux_tc"},
        {"afmoe", USUAL, "\"score_func\":\"softmax\"", "score_func is \"softmax\"; supported: sigmoid"},
        {"ernie4_5_moe", USUAL, "\"moe_gate_act\":\"sigmoid\"", "moe_gate_act is \"sigmoid\"; supported: softmax"},
        {"gpt2", GPT, "\"add_cross_attention\":true", "add_cross_attention is true; supported: false"},
        {"gpt2", USUAL, "", "n_embd"},
        {"olmo", USUAL, "\"clip_qkv\":-1", "clip_qkv"},
        {"granite", USUAL, "\"logits_scaling\":0", "logits_scaling"},
        {"apertus", USUAL, "\"post_norm\":true", "post_norm is true; supported: false"},
        {"apertus", USUAL, "\"qk_norm\":false", "qk_norm is false; supported: true"},
        {"starcoder2", USUAL, "\"sliding_window\":0", "sliding_window"},
        {"nemotron", USUAL, "\"norm_eps\":-1", "norm_eps"},
        {"phi", USUAL, "\"partial_rotary_factor\":2", "partial_rotary_factor"},
        {"stablelm", USUAL, "\"num_key_value_heads\":5", "num_key_value_heads (5)"},
    };
    struct description f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!describe(&f, cases[i].type, cases[i].sizes, cases[i].fields))
            fail_msg("%s %s: not refused", cases[i].type, cases[i].fields);
        if (!strstr(f.e.msg, cases[i].says))
            fail_msg("%s %s: %s", cases[i].type, cases[i].fields, f.e.msg);
        description_free(&f);
    }
}

/* What families with experts take for absent is not what their dense kin take. */
static void absent(void **state)
{
    static const struct {
        const char *type, *fields;
        int         n_kv_head;
        double      eps, theta, factor;
        int64_t     original_context;
    } cases[] = {
        {"mixtral", "\"head_dim\":64", 8, 1e-5, 1e6, 1, 0},   {"qwen2_moe", "\"head_dim\":64", 16, 1e-6, 1e4, 1, 0},
        {"qwen3_moe", "\"head_dim\":64", 4, 1e-6, 1e4, 1, 0}, {"gpt_oss", "", 8, 1e-5, 1.5e5, 32, 4096},
        {"ministral3", "", 8, 1e-5, 1e6, 16, 16384},
    };
    struct description f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (describe(&f, cases[i].type, USUAL, cases[i].fields))
            fail_msg("%s %s: %s", cases[i].type, cases[i].fields, f.e.msg);
        assert_int_equal(f.m.layer[0].attn.n_kv_head, cases[i].n_kv_head);
        assert_int_equal(f.m.layer[0].attn.window, strcmp(cases[i].type, "gpt_oss") ? 0 : 128);
        assert_float_equal(f.m.norm.eps, cases[i].eps, 1e-9);
        assert_float_equal(f.m.rope[0].theta, cases[i].theta, 0);
        assert_float_equal(f.m.rope[0].factor, cases[i].factor, 0);
        assert_int_equal(f.m.rope[0].original_context, cases[i].original_context);
        description_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acts),    cmocka_unit_test(biases),  cmocka_unit_test(ropes), cmocka_unit_test(apertus_rope),
        cmocka_unit_test(numbers), cmocka_unit_test(refused), cmocka_unit_test(absent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
