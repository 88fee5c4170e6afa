/* Families of state space models: the layers' kinds by every spelling of config.json, their numbers, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "support/description.h"

#define MAMBA2 "\"hidden_size\":32,\"vocab_size\":9,\"num_heads\":8,\"head_dim\":8"
#define HYBRID                                                                                                         \
    "\"hidden_size\":32,\"intermediate_size\":8,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                  \
    "\"vocab_size\":9,\"mamba_n_heads\":4,\"mamba_d_state\":8"
#define NEMOTRON                                                                                                       \
    "\"hidden_size\":32,\"intermediate_size\":8,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                  \
    "\"vocab_size\":9,\"head_dim\":8,\"mamba_num_heads\":4,\"mamba_head_dim\":8,\"n_groups\":2,"                       \
    "\"n_routed_experts\":4"

static char kind_of(const struct layer_desc *l)
{
    if (l->mix == MIX_NONE)
        return l->ff == FF_MOE ? 'E' : '-';
    return l->mix == MIX_ATTN ? '*' : l->mix == MIX_ATTN_MAMBA2 ? 'B' : l->ff == FF_MOE ? 'm' : 'M';
}

/* The kinds of all layers: M Mamba (m with experts), * attention, B both, - feed-forward alone, E experts alone. */
static void check_kinds(const char *type, const char *fields, const char *kinds)
{
    struct description x;
    if (describe(&x, type, fields, ""))
        fail_msg("%s", x.e.msg);
    if (x.m.n_layer != (int)strlen(kinds))
        fail_msg("%s, %s: %d layers, needed %zu", type, fields, x.m.n_layer, strlen(kinds));
    for (int i = 0; i < x.m.n_layer; i++)
        if (kind_of(&x.m.layer[i]) != kinds[i])
            fail_msg("%s, %s: layer %d is '%c', needed '%c'", type, fields, i, kind_of(&x.m.layer[i]), kinds[i]);
    description_free(&x);
}

static void test_kinds(void **state)
{
    (void)state;
    check_kinds("mamba", "\"hidden_size\":32,\"vocab_size\":9,\"num_hidden_layers\":2", "MM");
    check_kinds("mamba2", MAMBA2 ",\"num_hidden_layers\":1", "M");
    check_kinds("jamba", HYBRID ",\"num_hidden_layers\":4,\"attn_layer_period\":4,\"attn_layer_offset\":2", "Mm*m");
    check_kinds("jamba",
                HYBRID ",\"num_hidden_layers\":2,\"num_experts\":1,\"layers_block_type\":[\"attention\",\"mamba\"]",
                "*M");
    check_kinds("bamba", HYBRID ",\"num_hidden_layers\":3,\"attn_layer_indices\":[1]", "M*M");
    check_kinds("bamba",
                HYBRID ",\"num_hidden_layers\":2,\"layers_block_type\":[\"full_attention\",\"linear_attention\"]",
                "*M");
    check_kinds("granitemoehybrid",
                HYBRID ",\"num_hidden_layers\":2,\"num_local_experts\":0,\"layer_types\":[\"mamba\",\"attention\"]",
                "M*");
    check_kinds("falcon_h1", HYBRID ",\"num_hidden_layers\":2,\"mamba_d_ssm\":64", "BB");
    check_kinds("nemotron_h", NEMOTRON ",\"hybrid_override_pattern\":\"M-*E\"", "M-*E");
    check_kinds("nemotron_h",
                NEMOTRON ",\"layers_block_type\":[\"linear_attention\",\"mlp\",\"full_attention\",\"moe\"]", "M-*E");
}

static void check_limit(const char *fields, float lo, float hi)
{
    struct description x;
    char               text[1024];
    snprintf(text, sizeof text, MAMBA2 ",\"num_hidden_layers\":1%s", fields);
    if (describe(&x, "mamba2", text, ""))
        fail_msg("%s", x.e.msg);
    assert_true(x.m.layer[0].mamba2->dt_min == lo && x.m.layer[0].mamba2->dt_max == hi);
    description_free(&x);
}

static void test_time_limits(void **state)
{
    (void)state;
    check_limit("", 0, INFINITY);
    check_limit(",\"time_step_limit\":[0.25,1.5]", 0.25f, 1.5f);
    check_limit(",\"time_step_limit\":[0.0,Infinity]", 0, INFINITY);
    check_limit(",\"time_step_limit\":[0.5,{\"__float__\":\"Infinity\"}]", 0.5f, INFINITY);
}

static void refuse(const char *type, const char *fields, const char *first, const char *second)
{
    struct description x;
    if (!describe(&x, type, fields, ""))
        fail_msg("%s, %s: was not refused", type, fields);
    if (!strstr(x.e.msg, first) || !strstr(x.e.msg, second))
        fail_msg("%s, %s: %s", type, fields, x.e.msg);
    description_free(&x);
}

/* intermediate_size is the width of a mixer, whatever expand says (Falcon Mamba 7B: 16). */
static void test_width(void **state)
{
    static const char  fields[] = "\"hidden_size\":32,\"vocab_size\":9,\"num_hidden_layers\":1,\"expand\":16";
    struct description x;
    (void)state;
    for (int said = 0; said < 2; said++) {
        char all[256];
        snprintf(all, sizeof all, "%s%s", fields, said ? ",\"intermediate_size\":64" : "");
        assert_int_equal(describe(&x, "falcon_mamba", all, ""), 0);
        assert_int_equal(x.m.layer[0].mamba1->n, said ? 64 : 512);
        description_free(&x);
    }
}

static void test_refused(void **state)
{
    (void)state;
    refuse("mamba", "\"hidden_size\":32,\"vocab_size\":9,\"num_hidden_layers\":1,\"conv_kernel\":1000", "conv_kernel",
           "1000");
    refuse("mamba", "\"hidden_size\":32,\"vocab_size\":9,\"num_hidden_layers\":1,\"time_step_rank\":\"all\"",
           "time_step_rank", "all");
    refuse("mamba", "\"hidden_size\":32,\"vocab_size\":9,\"num_hidden_layers\":1,\"hidden_act\":\"gelu\"", "hidden_act",
           "gelu");
    refuse("mamba2", MAMBA2 ",\"num_hidden_layers\":1,\"expand\":3", "num_heads", "96");
    refuse("mamba2", MAMBA2 ",\"num_hidden_layers\":1,\"n_groups\":3", "n_groups", "3");
    refuse("mamba2", MAMBA2 ",\"num_hidden_layers\":1,\"state_size\":0", "state_size", "0");
    refuse("mamba2", MAMBA2 ",\"num_hidden_layers\":1,\"time_step_limit\":[1]", "time_step_limit", "1");
    refuse("mamba2", MAMBA2 ",\"num_hidden_layers\":1,\"time_step_limit\":[2,1]", "time_step_limit", "2 to 1");
    refuse("mamba2", MAMBA2 ",\"num_hidden_layers\":1,\"time_step_limit\":[-1,1]", "time_step_limit", "-1");
    refuse("jamba", HYBRID ",\"num_hidden_layers\":2,\"attn_layer_period\":2,\"attn_layer_offset\":2",
           "attn_layer_offset", "2");
    refuse("jamba", HYBRID ",\"num_hidden_layers\":2,\"num_experts\":2,\"num_experts_per_tok\":3",
           "num_experts_per_tok", "3");
    refuse("bamba", HYBRID ",\"num_hidden_layers\":2,\"attn_layer_indices\":[2]", "attn_layer_indices", "2");
    refuse("granitemoehybrid", HYBRID ",\"num_hidden_layers\":2,\"layer_types\":[\"mamba\"]", "layer_types", "1");
    refuse("granitemoehybrid", HYBRID ",\"num_hidden_layers\":1,\"layer_types\":[\"conv\"]", "layer_types", "conv");
    refuse("granitemoehybrid", HYBRID ",\"num_hidden_layers\":1,\"position_embedding_type\":\"alibi\"",
           "position_embedding_type", "alibi");
    refuse("falcon_h1", HYBRID ",\"num_hidden_layers\":1,\"mamba_d_ssm\":64,\"ssm_multipliers\":[1,2]",
           "ssm_multipliers", "2");
    refuse("falcon_h1", HYBRID ",\"num_hidden_layers\":1,\"mamba_d_ssm\":64,\"attention_bias\":true", "attention_bias",
           "true");
    refuse("nemotron_h", NEMOTRON ",\"hybrid_override_pattern\":\"MX\"", "hybrid_override_pattern", "X");
    refuse("nemotron_h", NEMOTRON ",\"hybrid_override_pattern\":\"\"", "hybrid_override_pattern", "0");
    refuse("nemotron_h", NEMOTRON ",\"hybrid_override_pattern\":\"M-\",\"num_hidden_layers\":3",
           "hybrid_override_pattern", "3");
    refuse("nemotron_h", NEMOTRON, "layers_block_type", "missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds), cmocka_unit_test(test_time_limits),
                                       cmocka_unit_test(test_width), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
