/* Family functions: what the spellings of config.json make of a description. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/description.h"

/* The sliding windows of a model of three layers whose config.json has `fields` as well. */
static void check_windows(const char *type, const char *fields, int first, int second, int third)
{
    const int          needed[3] = {first, second, third};
    struct description d;
    describe_right(&d, type,
                   "\"hidden_size\":32,\"intermediate_size\":8,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
                   "\"num_key_value_heads\":2,\"vocab_size\":9",
                   fields);
    for (int i = 0; i < 3; i++)
        if (d.m.layer[i].attn.window != needed[i])
            fail_msg("%s, %s: layer %d has the window %d, needed %d", type, fields, i, d.m.layer[i].attn.window,
                     needed[i]);
    description_free(&d);
}

static void windows(void **state)
{
    static const char *const qwen[] = {"qwen2", "qwen3"};
    (void)state;
    check_windows("llama", "\"sliding_window\":7", 0, 0, 0);
    check_windows("mistral", "\"sliding_window\":7", 7, 7, 7);
    check_windows("mistral", "\"sliding_window\":null", 0, 0, 0);
    check_windows("mistral", "\"head_dim\":null", 4096, 4096, 4096);
    for (int i = 0; i < 2; i++) {
        check_windows(qwen[i], "\"sliding_window\":7,\"max_window_layers\":0", 0, 0, 0);
        check_windows(qwen[i], "\"use_sliding_window\":false,\"sliding_window\":7,\"max_window_layers\":1", 0, 0, 0);
        check_windows(qwen[i], "\"use_sliding_window\":true,\"sliding_window\":7,\"max_window_layers\":1", 0, 7, 7);
        check_windows(qwen[i], "\"use_sliding_window\":true,\"sliding_window\":null,\"max_window_layers\":1", 0, 0, 0);
        check_windows(qwen[i], "\"use_sliding_window\":true,\"max_window_layers\":2", 0, 0, 4096);
        check_windows(qwen[i],
                      "\"use_sliding_window\":true,\"sliding_window\":7,\"layer_types\":[\"sliding_attention\","
                      "\"full_attention\",\"sliding_attention\"]",
                      7, 0, 7);
    }
}

/* Patterns of windows without and with layer_types. */
static void patterns(void **state)
{
    (void)state;
    check_windows("ministral3", "\"sliding_window\":null", 0, 0, 0);
    check_windows("ministral3", "\"sliding_window\":7", 7, 7, 7);
    check_windows("phi3", "\"sliding_window\":7", 7, 7, 7);
    check_windows("phi3", "\"sliding_window\":null", 0, 0, 0);
    check_windows("mimo", "\"sliding_window\":7,\"use_sliding_window\":false", 0, 0, 0);
    check_windows("gemma2", "\"sliding_window\":7", 7, 0, 7);
    check_windows("gemma2",
                  "\"sliding_window\":7,\"layer_types\":[\"full_attention\",\"full_attention\",\"sliding_attention\"]",
                  0, 0, 7);
    check_windows("gemma3_text", "\"sliding_window\":7", 7, 7, 7);
    check_windows("gemma3_text", "\"sliding_window\":7,\"sliding_window_pattern\":3", 7, 7, 0);
    check_windows("gemma3_text", "\"sliding_window\":7,\"_sliding_window_pattern\":2", 7, 0, 7);
    check_windows("gemma3_text",
                  "\"sliding_window\":7,\"_sliding_window_pattern\":6,\"layer_types\":[\"full_attention\","
                  "\"sliding_attention\",\"full_attention\"]",
                  0, 7, 0);
    check_windows("gemma3", "\"text_config\":{\"model_type\":\"gemma3_text\",\"sliding_window\":7}", 7, 7, 7);
    check_windows("cohere", "\"sliding_window\":7", 0, 0, 0);
    check_windows("cohere2", "\"sliding_window\":7,\"sliding_window_pattern\":2", 7, 0, 7);
    check_windows("cohere2", "\"sliding_window\":7,\"sliding_window_pattern\":1", 0, 0, 0);
    check_windows("exaone4", "\"sliding_window\":7,\"sliding_window_pattern\":\"LGL\"", 7, 0, 0);
    check_windows("exaone4", "\"sliding_window\":7,\"sliding_window_pattern\":2", 7, 0, 7);
    check_windows("exaone4", "\"sliding_window\":null,\"sliding_window_pattern\":0", 0, 0, 0);
    check_windows("olmo3", "\"sliding_window\":7", 7, 7, 7);
    check_windows("smollm3", "\"sliding_window\":7,\"no_rope_layers\":[1,0,1]", 0, 0, 0);
    check_windows("smollm3", "\"sliding_window\":7,\"use_sliding_window\":true,\"no_rope_layers\":[1,0,1]", 0, 7, 0);
}

/* head_dim and num_key_value_heads when config.json lacks them, or has null: as transformers' config classes. */
static void heads(void **state)
{
    static const struct {
        const char *type, *fields;
        int         head_dim, n_kv_head;
    } cases[] = {
        {"llama", "", 16, 64},
        {"llama", "\"head_dim\":null,\"num_key_value_heads\":null", 16, 64},
        {"mistral", "", 16, 8},
        {"qwen2", "", 16, 32},
        {"qwen2", "\"num_key_value_heads\":null", 16, 64},
        {"qwen3", "", 128, 32},
        {"qwen3", "\"num_key_value_heads\":null", 128, 64},
        {"qwen3", "\"head_dim\":16,\"num_key_value_heads\":2", 16, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct description d;
        describe_right(&d, cases[i].type,
                       "\"hidden_size\":1024,\"intermediate_size\":8,\"num_hidden_layers\":1,"
                       "\"num_attention_heads\":64,\"vocab_size\":9",
                       cases[i].fields);
        assert_int_equal(d.m.layer[0].attn.head_dim, cases[i].head_dim);
        assert_int_equal(d.m.layer[0].attn.n_kv_head, cases[i].n_kv_head);
        description_free(&d);
    }
}

/* A type that nobody knows is refused, with the names it may be a slip of. */
static void unknown_types(void **state)
{
    static const char *const cases[][2] = {{"qwen3_moee", "near names: qwen3_moe"},
                                           {"mistal", "near names: mistral"},
                                           {"gemma4", "near names: gemma"},
                                           {"zzz", "see `"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct description d;
        assert_int_equal(describe(&d, cases[i][0], "\"hidden_size\":32", ""), ERR_UNSUPPORTED);
        assert_string_equal(d.e.param, "model_type");
        if (!strstr(d.e.msg, cases[i][1]) || (i == 3 && strstr(d.e.msg, "near")))
            fail_msg("%s: %s", cases[i][0], d.e.msg);
        description_free(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(patterns), cmocka_unit_test(heads),
                                       cmocka_unit_test(unknown_types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
