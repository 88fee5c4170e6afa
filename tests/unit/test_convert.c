/* The GGUF import on tiny files made here: every stored value must come out exactly, in the model's order of rows, and what
 * the file says of the model and its tokenizer. Refusals: test_convert_refusals.c. */
#include <jansson.h>
#include <math.h>

#include "../support/gguf_tiny.h"
#include "base/file.h"
#include "convert/convert.h"
#include "formats/safetensors.h"
#include "quant/quant.h"
#include "text/tokenizer.h"

/* ---- reading what came out ---- */

static const struct convert_options keep = {0}, replace = {.force = true};

struct result {
    struct gguf       *g;
    struct file_map    map;
    struct safetensors s;
    json_t            *config, *tokenizer;
};

static void convert(const struct tiny *t, struct result *r)
{
    char         in[PATH_MAX], out[PATH_MAX];
    struct error e = {0};
    make(t, "in.gguf");
    snprintf(in, sizeof in, "%s/in.gguf", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    if (convert_gguf(in, out, &replace, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(gguf_open(&r->g, in, &e), 0);
    assert_int_equal(file_map_open(&r->map, tmp_path(out, "model.safetensors"), &e), 0);
    assert_int_equal(safetensors_parse(&r->s, r->map.p, r->map.n, "model.safetensors", &e), 0);
    r->config = json_load_file(tmp_path(out, "config.json"), 0, NULL);
    r->tokenizer = json_load_file(tmp_path(out, "tokenizer.json"), 0, NULL);
    assert_non_null(r->config);
}

static void close_result(struct result *r)
{
    json_decref(r->config);
    json_decref(r->tokenizer);
    safetensors_deinit(&r->s);
    file_map_close(&r->map);
    gguf_close(r->g);
}

static const struct tensor_view *find(const struct result *r, const char *stem, const char *end)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", stem, end);
    for (size_t i = 0; i < r->s.n; i++)
        if (strcmp(r->s.tensors[i].name, name) == 0)
            return &r->s.tensors[i];
    return NULL;
}

/* One element of a GGUF tensor, by the format's definition. */
static double element(const struct gguf_tensor *t, int row, int col)
{
    int            cols = t->n_dim == 2 ? (int)t->shape[1] : 1, j = col % 32;
    const uint8_t *p = (const uint8_t *)t->data + (size_t)row * row_bytes(t->type, cols);
    uint16_t       d, m;
    float          f;
    if (t->type == GGML_F32)
        return (double)(memcpy(&f, p + col * 4, 4), f);
    if (t->type == GGML_F16)
        return (double)(memcpy(&d, p + col * 2, 2), f16_to_f32(d));
    if (t->type == GGML_BF16)
        return (double)(memcpy(&d, p + col * 2, 2), bf16_to_f32(d));
    p += col / 32 * (int)row_bytes(t->type, 32);
    memcpy(&d, p, 2);
    memcpy(&m, p + 2, 2);
    if (t->type == GGML_Q8_0)
        return (double)f16_to_f32(d) * (int8_t)p[2 + j];
    const uint8_t *q = p + (t->type == GGML_Q4_1 ? 4 : 2);
    int            code = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
    return t->type == GGML_Q4_1 ? (double)f16_to_f32(d) * code + (double)f16_to_f32(m)
                                : (double)f16_to_f32(d) * (code - 8);
}

/* One element of the converted parameter, in double: nothing is rounded on the way. */
static double converted(const struct result *r, const char *stem, int row, int col, const char *end)
{
    const struct tensor_view *w = find(r, stem, end), *s = find(r, stem, "scales"), *b = find(r, stem, "biases");
    assert_non_null(w);
    int64_t cols = w->n_dim == 2 ? w->shape[1] : 1;
    float   x, y;
    if (w->dtype != DTYPE_U32) {
        quant_widen(w->dtype, (const char *)w->data + (row * cols + col) * (int64_t)dtype_size(w->dtype), 1, &x);
        return (double)x;
    }
    int            bits = (int)(cols / s->shape[1]);
    size_t         at = (size_t)(row * s->shape[1] + col / 32) * dtype_size(s->dtype);
    const uint8_t *codes = (const uint8_t *)w->data + row * cols * 4;
    int            code = bits == 8 ? codes[col] : codes[col / 2] >> 4 * (col % 2) & 15;
    quant_widen(s->dtype, (const char *)s->data + at, 1, &x);
    quant_widen(b->dtype, (const char *)b->data + at, 1, &y);
    return (double)x * code + (double)y;
}

/* Compares a whole parameter. heads > 0: model row (head, half, pair) stands in the file at (head, pair, half). */
static void check_equal(const struct result *r, const char *from, const char *stem, const char *end, int heads)
{
    const struct gguf_tensor *t = gguf_tensor_find(r->g, from);
    assert_non_null(t);
    int rows = (int)t->shape[0], cols = t->n_dim == 2 ? (int)t->shape[1] : 1, n = heads ? heads : 1, size = rows / n;
    for (int h = 0; h < n; h++)
        for (int i = 0; i < size; i++) {
            int file = heads ? h * size + i % (size / 2) * 2 + i / (size / 2) : i;
            for (int c = 0; c < cols; c++) {
                double want = element(t, file, c), got = converted(r, stem, h * size + i, c, end);
                if (got != want && !(isnan(got) && isnan(want))) /* random float16 bits hold NaN */
                    fail_msg("%s[%d][%d]: %g, not %g", stem, h * size + i, c, got, want);
            }
        }
}

static void check_weights(const struct result *r, bool llama, bool bias)
{
    check_equal(r, "token_embd.weight", "model.embed_tokens", "weight", 0);
    check_equal(r, "output_norm.weight", "model.norm", "weight", 0);
    check_equal(r, "blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj", "weight", llama ? HEADS : 0);
    check_equal(r, "blk.1.attn_k.weight", "model.layers.1.self_attn.k_proj", "weight", llama ? KV_HEADS : 0);
    check_equal(r, "blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj", "weight", 0);
    check_equal(r, "blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj", "weight", 0);
    check_equal(r, "blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj", "weight", 0);
    check_equal(r, "blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj", "weight", 0);
    check_equal(r, "blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj", "weight", 0);
    check_equal(r, "blk.1.attn_norm.weight", "model.layers.1.input_layernorm", "weight", 0);
    check_equal(r, "blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm", "weight", 0);
    if (bias) {
        check_equal(r, "blk.0.attn_q.bias", "model.layers.0.self_attn.q_proj", "bias", llama ? HEADS : 0);
        check_equal(r, "blk.0.attn_k.bias", "model.layers.0.self_attn.k_proj", "bias", llama ? KV_HEADS : 0);
        check_equal(r, "blk.0.attn_v.bias", "model.layers.0.self_attn.v_proj", "bias", 0);
    }
}

/* ---- tests ---- */

static void every_type_is_exact(void **state)
{
    static const uint32_t types[] = {GGML_Q4_0, GGML_Q4_1, GGML_Q8_0, GGML_F16, GGML_F32, GGML_BF16};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        struct tiny t = {.arch = "llama", .weight_type = types[i], .embedding_type = types[(i + 1) % 6], .bias = i % 2};
        struct result r;
        convert(&t, &r);
        check_weights(&r, true, t.bias);
        assert_null(find(&r, "lm_head", "weight"));
        assert_true(json_is_true(json_object_get(r.config, "tie_word_embeddings")));
        assert_true(json_is_true(json_object_get(r.config, "attention_bias")) == t.bias);
        close_result(&r);
    }
}

/* -128 d and -8 d beyond float16: those tensors alone get float32 scales and biases. */
static void large_scales_stay_exact(void **state)
{
    static const struct {
        uint32_t type;
        float    scale;
        bool     wide;
    } rows[] = {{GGML_Q8_0, 511.75f, false},
                {GGML_Q8_0, -512, true},
                {GGML_Q4_0, 8188, false},
                {GGML_Q4_0, 8192, true},
                {GGML_Q4_1, 65504, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tiny t = {
            .arch = "llama", .weight_type = rows[i].type, .embedding_type = GGML_Q4_1, .scale = rows[i].scale};
        struct result r;
        convert(&t, &r);
        check_weights(&r, true, false);
        enum dtype want = rows[i].wide ? DTYPE_F32 : DTYPE_F16;
        assert_int_equal(find(&r, "model.layers.0.mlp.up_proj", "scales")->dtype, want);
        assert_int_equal(find(&r, "model.layers.0.mlp.up_proj", "biases")->dtype, want);
        close_result(&r);
    }
}

static void other_architectures_keep_the_order(void **state)
{
    (void)state;
    struct tiny   qwen2 = {.arch = "qwen2",
                           .pre = "qwen2",
                           .weight_type = GGML_Q8_0,
                           .embedding_type = GGML_Q8_0,
                           .bias = true,
                           .untied = true};
    struct tiny   qwen3 = {.arch = "qwen3", .pre = "qwen2", .weight_type = GGML_F16, .embedding_type = GGML_Q4_0};
    struct result r;
    convert(&qwen2, &r);
    check_weights(&r, false, true);
    check_equal(&r, "output.weight", "lm_head", "weight", 0);
    assert_string_equal(json_string_value(json_object_get(r.config, "model_type")), "qwen2");
    assert_true(json_is_false(json_object_get(r.config, "tie_word_embeddings")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(r.config, "quantization"), "bits")), 8);
    close_result(&r);
    convert(&qwen3, &r);
    check_weights(&r, false, false);
    check_equal(&r, "blk.1.attn_q_norm.weight", "model.layers.1.self_attn.q_norm", "weight", 0);
    close_result(&r);
}

static void config_says_what_the_file_said(void **state)
{
    (void)state;
    struct tiny   t = {.arch = "llama", .weight_type = GGML_Q4_1, .embedding_type = GGML_Q8_0, .rope_factor = 32};
    struct result r;
    convert(&t, &r);
    json_t *c = r.config, *q = json_object_get(c, "quantization"), *rope = json_object_get(c, "rope_scaling");
    static const struct {
        const char *key;
        int         value;
    } ints[] = {{"hidden_size", HIDDEN},
                {"intermediate_size", FF},
                {"num_hidden_layers", LAYERS},
                {"num_attention_heads", HEADS},
                {"num_key_value_heads", KV_HEADS},
                {"head_dim", HEAD},
                {"vocab_size", VOCAB},
                {"max_position_embeddings", 512},
                {"bos_token_id", 1},
                {"eos_token_id", 0}};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        assert_int_equal(json_integer_value(json_object_get(c, ints[i].key)), ints[i].value);
    assert_true(json_real_value(json_object_get(c, "rms_norm_eps")) == 1e-5);
    assert_true(json_number_value(json_object_get(c, "rope_theta")) == 500000);
    assert_int_equal(json_integer_value(json_object_get(q, "bits")), 4);
    assert_int_equal(json_integer_value(json_object_get(q, "group_size")), 32);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(q, "model.embed_tokens"), "bits")), 8);
    assert_null(json_object_get(q, "model.layers.0.mlp.up_proj"));
    assert_string_equal(json_string_value(json_object_get(rope, "rope_type")), "llama3");
    assert_true(json_number_value(json_object_get(rope, "factor")) == 32);
    assert_int_equal(json_integer_value(json_object_get(rope, "original_max_position_embeddings")), 8192);
    json_t *g = json_load_file(tmp_path(dir, "out/generation_config.json"), 0, NULL);
    json_t *ends = json_object_get(g, "eos_token_id");
    assert_int_equal(json_array_size(ends), 2);
    assert_int_equal(json_integer_value(json_array_get(ends, 0)), 0);
    assert_int_equal(json_integer_value(json_array_get(ends, 1)), 9);
    json_decref(g);
    close_result(&r);
    t = (struct tiny){.arch = "llama", .weight_type = GGML_F16, .embedding_type = GGML_F16, .scaling = "linear"};
    convert(&t, &r);
    assert_null(json_object_get(r.config, "quantization"));
    rope = json_object_get(r.config, "rope_scaling");
    assert_string_equal(json_string_value(json_object_get(rope, "rope_type")), "linear");
    assert_true(json_number_value(json_object_get(rope, "factor")) == 4);
    close_result(&r);
}

static void tokenizer_is_rebuilt(void **state)
{
    (void)state;
    struct tiny   t = {.arch = "llama", .weight_type = GGML_Q4_1, .embedding_type = GGML_Q8_0};
    struct result r;
    convert(&t, &r);
    json_t *model = json_object_get(r.tokenizer, "model"), *added = json_object_get(r.tokenizer, "added_tokens");
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    assert_int_equal(json_object_size(vocab), 10); /* without the unused one */
    assert_int_equal(json_integer_value(json_object_get(vocab, "\"\\\n")), 8);
    assert_string_equal(json_string_value(json_array_get(json_array_get(merges, 1), 0)), "ab");
    assert_int_equal(json_array_size(added), 3);
    assert_true(json_is_true(json_object_get(json_array_get(added, 0), "special")));
    assert_true(json_is_false(json_object_get(json_array_get(added, 2), "special")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(added, 2), "content")), "<think>");
    assert_true(json_is_null(json_object_get(r.tokenizer, "post_processor")));
    json_t *pre = json_array_get(json_object_get(json_object_get(r.tokenizer, "pre_tokenizer"), "pretokenizers"), 0);
    assert_string_equal(json_string_value(json_object_get(pre, "type")), "Digits");
    json_t *c = json_load_file(tmp_path(dir, "out/tokenizer_config.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(c, "bos_token")), "<|bos|>");
    assert_string_equal(json_string_value(json_object_get(c, "eos_token")), "<|end|>");
    json_decref(c);
    struct buf text;
    buf_init(&text, 1000);
    assert_int_equal(file_read(&text, tmp_path(dir, "out/chat_template.jinja"), NULL), 0);
    assert_string_equal(buf_cstr(&text), "{{ messages }}\n");
    buf_deinit(&text);
    close_result(&r);
    t.pre = "llama-bpe"; /* begins texts with bos unless the file says otherwise */
    convert(&t, &r);
    json_t *post = json_object_get(r.tokenizer, "post_processor");
    assert_string_equal(json_string_value(json_object_get(post, "type")), "TemplateProcessing");
    assert_int_equal(json_array_size(json_object_get(post, "single")), 2);
    assert_true(json_is_true(json_object_get(json_object_get(r.tokenizer, "model"), "ignore_merges")));
    close_result(&r);
}

/* A GGUF file with SentencePiece's vocabulary: scores in the place of merges, bytes for what has no piece. */
static int import_spm(const char *name, float last_score, size_t n_scores, struct error *e)
{
    static const char *const tokens[] = {"<unk>",
                                         "<s>",
                                         "</s>",
                                         "<0xC3>",
                                         "<0xA9>",
                                         "\xe2\x96\x81",
                                         "a",
                                         "b",
                                         "ab",
                                         "bb",
                                         "abb",
                                         ("\xe2\x96\x81"
                                          "a"),
                                         "<tool>",
                                         "ba"};
    static const int32_t     types[] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 4, 5};
    float                    scores[] = {0, 0, 0, 0, 0, -9, -9, -9, -1, 0, -2, -4, 0, last_score};
    struct gguf_build        g;
    struct tiny              t = {.arch = "llama", .weight_type = GGML_Q4_1, .embedding_type = GGML_Q8_0};
    char                     in[PATH_MAX], out[PATH_MAX];
    gguf_build_init(&g);
    add_values(&g, &t);
    gguf_build_str(&g, "tokenizer.ggml.model", "llama");
    gguf_build_strs(&g, "tokenizer.ggml.tokens", tokens, 14);
    gguf_build_ints(&g, "tokenizer.ggml.token_type", types, 14);
    gguf_build_floats(&g, "tokenizer.ggml.scores", scores, n_scores);
    gguf_build_int(&g, "tokenizer.ggml.bos_token_id", 1);
    gguf_build_int(&g, "tokenizer.ggml.eos_token_id", 2);
    add(&g, &t, "token_embd.weight", t.embedding_type, VOCAB, HIDDEN);
    add(&g, &t, "output_norm.weight", GGML_F32, HIDDEN, 0);
    add_layers(&g, &t);
    gguf_build_write(&g, dir, "spm.gguf");
    snprintf(in, sizeof in, "%s/spm.gguf", dir);
    snprintf(out, sizeof out, "%s/%s", dir, name);
    return convert_gguf(in, out, &keep, e);
}

static void sentencepiece_vocabulary(void **state)
{
    static const struct {
        const char *text;
        int32_t     ids[8];
        size_t      n;
    } cases[] = {{"abb", {1, 5, 10}, 3}, /* a with bb, whose score is the best */
                 {"ab", {1, 5, 8}, 3},   /* so has ab than the space with a */
                 {"a a", {1, 11, 11}, 3},
                 {"\xc3\xa9"
                  "z",
                  {1, 5, 3, 4, 0},
                  5},                                     /* bytes; nothing for z but <unk> */
                 {"a<tool>ba", {1, 11, 12, 5, 7, 6}, 6}}; /* an unused token is not made */
    char              out[PATH_MAX];
    struct tokenizer *t;
    struct error      e = {0};
    (void)state;
    if (import_spm("spm", 0, 14, &e))
        fail_msg("%s", e.msg);
    snprintf(out, sizeof out, "%s/spm", dir);
    assert_int_equal(tokenizer_load(&t, out, NULL, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ids ids = {0};
        assert_int_equal(tokenizer_encode(t, str_of(cases[i].text), 3, &ids, NULL), 0);
        assert_int_equal(ids.n, cases[i].n);
        assert_memory_equal(ids.v, cases[i].ids, ids.n * sizeof *ids.v);
        ids_deinit(&ids);
    }
    tokenizer_free(t);
    assert_int_equal(import_spm("never", NAN, 14, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "element 13 of tokenizer.ggml.scores is not a finite number"));
    assert_int_equal(import_spm("never", 0, 13, &e), ERR_MISFIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_exact),
        cmocka_unit_test(large_scales_stay_exact),
        cmocka_unit_test(other_architectures_keep_the_order),
        cmocka_unit_test(config_says_what_the_file_said),
        cmocka_unit_test(tokenizer_is_rebuilt),
        cmocka_unit_test(sentencepiece_vocabulary),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
