/* GGUF files that cannot be imported are refused by name and leave nothing behind; what can appears whole. */
#include <dirent.h>
#include <math.h>

#include "../support/gguf_tiny.h"
#include "convert/convert.h"

static const struct convert_options keep = {0}, replace = {.force = true};

/* The directory's entries but "." and ".."; what a failed run leaves behind counts. */
static int entries(void)
{
    DIR *d = opendir(dir);
    int  n = -2;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void refused(struct tiny t, int code, const char *words)
{
    char         in[PATH_MAX], out[PATH_MAX];
    struct error e = {0};
    if (!t.arch)
        t.arch = "llama";
    if (!t.embedding_type)
        t.embedding_type = GGML_Q8_0;
    if (!t.weight_type)
        t.weight_type = GGML_Q4_1;
    make(&t, "bad.gguf");
    snprintf(in, sizeof in, "%s/bad.gguf", dir);
    snprintf(out, sizeof out, "%s/never", dir);
    int before = entries(), got = convert_gguf(in, out, &keep, &e);
    if (got != code || !strstr(e.msg, words))
        fail_msg("%d '%s' lacks %d '%s'", got, e.msg, code, words);
    assert_int_equal(entries(), before);
}

static void refusals_name_what_it_is(void **state)
{
    (void)state;
    refused((struct tiny){.arch = "gemma3"}, ERR_UNSUPPORTED, "architecture 'gemma3'");
    refused((struct tiny){.weight_type = GGML_Q5_0}, ERR_UNSUPPORTED, "tensor blk.0.attn_k.weight is of type Q5_0");
    refused((struct tiny){.extra = "blk.0.ffn_gate_exps.weight"}, ERR_UNSUPPORTED,
            "tensor blk.0.ffn_gate_exps.weight is none");
    refused((struct tiny){.extra = "blk.2.attn_norm.weight"}, ERR_UNSUPPORTED, "tensor blk.2.attn_norm.weight is none");
    refused((struct tiny){.extra = "blk.0.attn_q_norm.weight"}, ERR_UNSUPPORTED,
            "blk.0.attn_q_norm.weight is none that a llama");
    refused((struct tiny){.extra = "output.weight"}, ERR_MISFIT, "tensor output.weight is [64], [40, 64] is needed");
    refused((struct tiny){.skip = "blk.1.ffn_up.weight"}, ERR_MISFIT, "tensor blk.1.ffn_up.weight is missing");
    refused((struct tiny){.skip = "token_embd.weight"}, ERR_MISFIT, "token_embd.weight is missing");
    refused((struct tiny){.arch = "qwen2"}, ERR_MISFIT, "tensor blk.0.attn_k.bias is missing");
    refused((struct tiny){.scale = INFINITY}, ERR_FORMAT, "whose scale is not finite");
    refused((struct tiny){.scaling = "yarn"}, ERR_UNSUPPORTED, "llama.rope.scaling.type is 'yarn'");
    refused((struct tiny){.rope_factor = -1}, ERR_UNSUPPORTED, "rope_freqs.weight");
    refused((struct tiny){.scaling = "linear", .rope_factor = 8}, ERR_UNSUPPORTED,
            "together with tensor rope_freqs.weight");
    refused((struct tiny){.pre = "klingon"}, ERR_UNSUPPORTED, "tokenizer.ggml.pre 'klingon' is not known");
    refused((struct tiny){.odd_key = "llama.attention.value_length"}, ERR_UNSUPPORTED,
            "llama.attention.value_length is 7");
    refused((struct tiny){.odd_key = "llama.expert_count"}, ERR_UNSUPPORTED, "llama.expert_count is 7");
    refused((struct tiny){.skip = "output_norm.weight"}, ERR_MISFIT, "output_norm.weight is missing");
    refused((struct tiny){.empty = true}, ERR_MISFIT, "token_embd.weight is empty");
    refused((struct tiny){.no_end = true}, ERR_FORMAT, "tokenizer.ggml.eom_token_id");
}

static void refused_tokenizer(const char *const *tokens, size_t n, const char *const *merges, size_t n_merges,
                              const char *words)
{
    struct gguf_build g;
    struct tiny       t = {.arch = "llama", .weight_type = GGML_Q4_1, .embedding_type = GGML_Q8_0};
    char              in[PATH_MAX], out[PATH_MAX];
    struct error      e = {0};
    gguf_build_init(&g);
    add_values(&g, &t);
    gguf_build_str(&g, "tokenizer.ggml.model", "gpt2");
    gguf_build_str(&g, "tokenizer.ggml.pre", "gpt-2");
    gguf_build_strs(&g, "tokenizer.ggml.tokens", tokens, n);
    gguf_build_strs(&g, "tokenizer.ggml.merges", merges, n_merges);
    gguf_build_int(&g, "tokenizer.ggml.bos_token_id", 2);
    add(&g, &t, "token_embd.weight", t.embedding_type, VOCAB, HIDDEN);
    add(&g, &t, "output_norm.weight", GGML_F32, HIDDEN, 0);
    add_layers(&g, &t);
    gguf_build_write(&g, dir, "bad.gguf");
    snprintf(in, sizeof in, "%s/bad.gguf", dir);
    snprintf(out, sizeof out, "%s/never", dir);
    int before = entries(), got = convert_gguf(in, out, &keep, &e);
    if (!got || !strstr(e.msg, words))
        fail_msg("%d '%s' lacks '%s'", got, e.msg, words);
    assert_int_equal(entries(), before);
}

static void hostile_tokenizers(void **state)
{
    const char *many[VOCAB + 1];
    char        names[VOCAB + 1][8];
    (void)state;
    for (int i = 0; i <= VOCAB; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        many[i] = names[i];
    }
    refused_tokenizer(many, VOCAB + 1, NULL, 0, "tokenizer.ggml.tokens has 41 elements, the embedding 40 rows");
    refused_tokenizer((const char *[]){"a", "b", "a"}, 3, NULL, 0, "element 2 of tokenizer.ggml.tokens occurs twice");
    refused_tokenizer((const char *[]){"a", "\xff", "c"}, 3, NULL, 0,
                      "element 1 of tokenizer.ggml.tokens is not UTF-8");
    const char *tokens[] = {"a", "b", "ab"};
    refused_tokenizer(tokens, 3, (const char *[]){"a b", "ab"}, 2, "element 1 of tokenizer.ggml.merges");
    refused_tokenizer(tokens, 3, (const char *[]){"b a"}, 1, "element 0 of tokenizer.ggml.merges");
    refused_tokenizer(tokens, 3, (const char *[]){""}, 1, "element 0 of tokenizer.ggml.merges");
    refused_tokenizer(tokens, 2, NULL, 0, "tokenizer.ggml.bos_token_id");
}

/* Stops when told of the first progress (*ctx 0), or of the last. */
static bool stop(void *ctx, size_t done, size_t total)
{
    return *(const int *)ctx ? done < total : false;
}

static void a_stopped_import_leaves_nothing(void **state)
{
    char        in[PATH_MAX], out[PATH_MAX];
    struct tiny t = {.arch = "llama", .weight_type = GGML_Q4_1, .embedding_type = GGML_Q8_0, .no_tokenizer = true};
    (void)state;
    make(&t, "in.gguf");
    snprintf(in, sizeof in, "%s/in.gguf", dir);
    snprintf(out, sizeof out, "%s/stopped", dir);
    for (int late = 0; late < 2; late++) {
        struct convert_options o = {.progress = stop, .ctx = &late};
        struct error           e = {0};
        int                    before = entries();
        assert_int_equal(convert_gguf(in, out, &o, &e), ERR_CANCELLED);
        assert_int_equal(entries(), before);
    }
}

static void output_appears_whole(void **state)
{
    char         in[PATH_MAX], out[PATH_MAX], other[PATH_MAX];
    struct error e = {0};
    struct stat  before, after;
    struct tiny  t = {.arch = "llama", .weight_type = GGML_Q4_1, .embedding_type = GGML_Q8_0, .no_tokenizer = true};
    (void)state;
    make(&t, "in.gguf");
    snprintf(in, sizeof in, "%s/in.gguf", dir);
    snprintf(out, sizeof out, "%s/whole/", dir); /* a slash at the end is fine */
    snprintf(other, sizeof other, "%s/other", dir);
    assert_int_equal(convert_gguf(in, out, &keep, &e), 0);
    assert_int_equal(stat(tmp_path(dir, "whole/config.json"), &before), 0);
    assert_int_not_equal(stat(tmp_path(dir, "whole/tokenizer.json"), &after), 0);
    assert_int_equal(convert_gguf(in, out, &keep, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "--force"));
    int n = entries();
    assert_int_equal(convert_gguf(in, out, &replace, &e), 0);
    assert_int_equal(entries(), n); /* the replaced one is gone */
    assert_int_equal(stat(tmp_path(dir, "whole/config.json"), &after), 0);
    assert_int_not_equal(before.st_ino, after.st_ino);
    mkdir(other, 0755); /* --force does not remove what is no model */
    assert_int_equal(convert_gguf(in, other, &keep, &e), ERR_INVALID);
    tmp_puts(other, "letter.txt", "dear");
    assert_int_equal(convert_gguf(in, other, &replace, &e), ERR_INVALID);
    assert_int_equal(stat(tmp_path(other, "letter.txt"), &after), 0);
    assert_int_equal(convert_gguf(tmp_path(dir, "none.gguf"), "x", &keep, &e), ERR_NOT_FOUND);
    snprintf(other, sizeof other, "%s/none/out", dir);
    assert_int_equal(convert_gguf(in, other, &keep, &e), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_what_it_is),
        cmocka_unit_test(hostile_tokenizers),
        cmocka_unit_test(output_appears_whole),
        cmocka_unit_test(a_stopped_import_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
