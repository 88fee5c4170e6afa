/* Family functions: what the spellings of config.json make of a description. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"

/* The sliding windows of a model of three layers whose config.json has `fields` as well. */
static void check_windows(const char *type, const char *fields, int first, int second, int third)
{
    const int         needed[3] = {first, second, third};
    char              text[512];
    struct config    *c = NULL;
    struct error      e = {0};
    struct arena      a;
    struct model_desc m;
    snprintf(text, sizeof text,
             "{\"model_type\":\"%s\",\"hidden_size\":32,\"intermediate_size\":8,\"num_hidden_layers\":3,"
             "\"num_attention_heads\":4,\"vocab_size\":9,%s}",
             type, fields);
    arena_init(&a, 1 << 20);
    if (config_parse(&c, str_of(text), "config.json", &e) || arch_describe(&m, c, &a, &e))
        fail_msg("%s", e.msg);
    for (int i = 0; i < 3; i++)
        if (m.layer[i].attn.window != needed[i])
            fail_msg("%s, %s: layer %d has the window %d, needed %d", type, fields, i, m.layer[i].attn.window, needed[i]);
    config_free(c);
    arena_deinit(&a);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
