/* Families with experts: what fields and their absence mean where it is not what their dense kin take it for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"

#define SIZES                                                                                                          \
    "\"hidden_size\":1024,\"intermediate_size\":8,\"num_hidden_layers\":4,\"num_attention_heads\":16,\"vocab_size\":9"

struct fixture {
    struct config    *c;
    struct arena      a;
    struct model_desc m;
    struct error      e;
};

/* The description of {"model_type": type, SIZES, fields}; returns its status. */
static int try(struct fixture *f, const char *type, const char *fields)
{
    char text[1024];
    memset(f, 0, sizeof *f);
    arena_init(&f->a, 1 << 20);
    snprintf(text, sizeof text, "{\"model_type\":\"%s\",%s%s%s}", type, SIZES, *fields ? "," : "", fields);
    assert_int_equal(config_parse(&f->c, str_of(text), "config.json", &f->e), 0);
    return arch_describe(&f->m, f->c, &f->a, &f->e);
}

static void describe(struct fixture *f, const char *type, const char *fields)
{
    if (try(f, type, fields))
        fail_msg("%s %s: %s", type, fields, f->e.msg);
}

static void done(struct fixture *f)
{
    config_free(f->c);
    arena_deinit(&f->a);
}

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
    struct fixture f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        describe(&f, cases[i].type, cases[i].fields);
        for (int k = 0; k < 4; k++)
            if (f.m.layer[k].attn.window != cases[i].window[k])
                fail_msg("%s %s: layer %d has %d", cases[i].type, cases[i].fields, k, f.m.layer[k].attn.window);
        done(&f);
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
    struct fixture f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        describe(&f, cases[i].type, "");
        assert_int_equal(f.m.layer[0].attn.n_kv_head, cases[i].n_kv_head);
        assert_int_equal(f.m.layer[0].attn.head_dim, cases[i].head_dim);
        assert_true(f.m.rope[0].theta == cases[i].theta && f.m.norm.eps == (float)cases[i].eps);
        done(&f);
    }
}

/* Config classes that scale a rope of which the file says nothing. */
static void ropes(void **state)
{
    struct fixture f;
    (void)state;
    describe(&f, "gpt_oss", "");
    assert_true(f.m.rope[0].scaling == ROPE_YARN && f.m.rope[0].factor == 32 && f.m.rope[0].fractional);
    assert_true(f.m.rope[0].mscale > 1.3465 && f.m.rope[0].mscale < 1.3466);
    done(&f);
    describe(&f, "ministral3", "");
    assert_true(f.m.rope[0].scaling == ROPE_YARN && f.m.rope[0].mscale == 1);
    assert_true(f.m.layer[0].attn.position_scale == 0.1f && f.m.layer[0].attn.position_unit == 16384);
    done(&f);
    describe(&f, "ministral3", "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5}");
    assert_true(f.m.rope[0].scaling == ROPE_DEFAULT && f.m.rope[0].theta == 5);
    done(&f);
}

/* hidden_act is the experts', too; and biases of shared experts are no biases of the others. */
static void experts(void **state)
{
    struct fixture f;
    (void)state;
    describe(&f, "mixtral", "\"hidden_act\":\"gelu\"");
    assert_int_equal(f.m.layer[0].moe->act, ACT_GELU);
    done(&f);
    describe(&f, "gpt_oss", "\"hidden_act\":\"silu\"");
    assert_int_equal(f.m.layer[0].moe->act, ACT_SWIGLU_CLAMPED);
    done(&f);
    assert_int_not_equal(try(&f, "mixtral", "\"hidden_act\":\"xielu\""), 0);
    assert_non_null(strstr(f.e.msg, "hidden_act is xielu"));
    done(&f);
    assert_int_not_equal(try(&f, "phimoe", "\"num_experts_per_tok\":1"), 0);
    assert_non_null(strstr(f.e.msg, "num_experts_per_tok is 1; supported: 2"));
    done(&f);
    assert_int_not_equal(try(&f, "qwen3_next", "\"hidden_act\":\"gelu\""), 0);
    assert_non_null(strstr(f.e.msg, "hidden_act is \"gelu\"; supported: silu"));
    done(&f);
    describe(&f, "nemotron_h", "\"hybrid_override_pattern\":\"EEEE\",\"mlp_bias\":true");
    assert_true(f.m.layer[0].moe->shared_bias && !f.m.layer[0].moe->bias);
    done(&f);
    describe(&f, "qwen2_moe", "\"qkv_bias\":false");
    assert_false(f.m.layer[0].attn.qkv_bias);
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(defaults), cmocka_unit_test(ropes),
                                       cmocka_unit_test(experts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
