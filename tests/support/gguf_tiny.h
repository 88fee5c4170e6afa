/* A tiny GGUF model of random weights in a folder of its own, with what a test wants otherwise: the imports' tests share it. */
#ifndef MLXCEL_TESTS_GGUF_TINY_H
#define MLXCEL_TESTS_GGUF_TINY_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../support/gguf_build.h"
#include "../support/scratch.h"
#include "base/half.h"
#include "base/rng.h"

enum { HIDDEN = 64, FF = 96, HEADS = 4, KV_HEADS = 2, HEAD = 16, VOCAB = 40, LAYERS = 2 };

/* What a tiny model deviates in from the usual one. */
struct tiny {
    const char *arch, *pre;
    uint32_t    weight_type, embedding_type;
    float       scale; /* of the largest block */
    bool        bias, untied, no_tokenizer, no_end, empty;
    const char *skip, *extra; /* a tensor to leave out; one to add */
    const char *scaling;      /* rope scaling type */
    float       rope_factor;  /* of rope_freqs.weight */
    const char *odd_key;
};

static inline size_t row_bytes(uint32_t type, int cols)
{
    struct ggml_type_info info;
    assert_true(ggml_type_info(type, &info));
    return (size_t)(cols / info.block_elements * info.block_bytes);
}

/* Random rows of a type; scales are small, subnormal, negative, and once `scale`. */
static inline void *random_rows(uint32_t type, int rows, int cols, uint64_t seed, float scale)
{
    static const float scales[] = {0.01f, -0.3f, 0x1p-24f, 3 * 0x1p-24f, 0, -0.0f, 1.5f};
    size_t   bytes = row_bytes(type, cols) * (size_t)rows, block = row_bytes(type, type <= 1 || type == 30 ? cols : 32);
    uint8_t *p = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(rng_uniform(seed, 0, i) * 256);
    for (size_t at = 0, i = 0; at < bytes && type > 1 && type != 30; at += block, i++) {
        uint16_t d = f32_to_f16(i == 5 && scale != 0 ? scale : scales[i % 7]), m = f32_to_f16(scales[(i + 3) % 7]);
        memcpy(p + at, &d, 2);
        if (type == GGML_Q4_1)
            memcpy(p + at + 2, &m, 2);
    }
    for (size_t i = 0; i < bytes && type == GGML_F32; i += 4) {
        float f = (float)rng_uniform(seed, 1, i) - 0.5f;
        memcpy(p + i, &f, 4);
    }
    return p;
}

static inline void add(struct gguf_build *g, const struct tiny *t, const char *name, uint32_t type, int rows, int cols)
{
    uint64_t seed = 5381;
    if (t->skip && strcmp(t->skip, name) == 0)
        return;
    for (const char *p = name; *p; p++)
        seed = seed * 33 + (uint64_t)*p;
    void *p = cols ? random_rows(type, rows, cols, seed, t->scale) : random_rows(GGML_F32, rows, 1, seed, 0);
    gguf_build_tensor(g, name, cols ? type : (uint32_t)GGML_F32, (uint64_t)rows, (uint64_t)cols, p,
                      cols ? row_bytes(type, cols) * (size_t)rows : (size_t)rows * 4);
    free(p);
}

static inline void add_layers(struct gguf_build *g, const struct tiny *t)
{
    static const struct {
        const char *name;
        int         rows, cols;
    } parts[] = {{"attn_norm.weight", HIDDEN, 0},
                 {"ffn_norm.weight", HIDDEN, 0},
                 {"attn_q.weight", HEADS * HEAD, HIDDEN},
                 {"attn_k.weight", KV_HEADS * HEAD, HIDDEN},
                 {"attn_v.weight", KV_HEADS * HEAD, HIDDEN},
                 {"attn_output.weight", HIDDEN, HEADS * HEAD},
                 {"ffn_gate.weight", FF, HIDDEN},
                 {"ffn_up.weight", FF, HIDDEN},
                 {"ffn_down.weight", HIDDEN, FF},
                 {"attn_q.bias", HEADS * HEAD, 0},
                 {"attn_k.bias", KV_HEADS * HEAD, 0},
                 {"attn_v.bias", KV_HEADS * HEAD, 0},
                 {"attn_output.bias", HIDDEN, 0},
                 {"attn_q_norm.weight", HEAD, 0},
                 {"attn_k_norm.weight", HEAD, 0}};
    char name[64];
    for (int n = 0; n < LAYERS; n++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            bool bias = strstr(parts[i].name, ".bias"), norm = strstr(parts[i].name, "_norm") && parts[i].rows == HEAD;
            if ((bias && !t->bias) || (norm && strcmp(t->arch, "qwen3") != 0) ||
                (strcmp(parts[i].name, "attn_output.bias") == 0 && strcmp(t->arch, "qwen2") == 0))
                continue;
            snprintf(name, sizeof name, "blk.%d.%s", n, parts[i].name);
            add(g, t, name, t->weight_type, parts[i].rows, parts[i].cols);
        }
}

static inline void add_tokenizer(struct gguf_build *g, const struct tiny *t)
{
    static const char *const tokens[] = {"<|end|>", "<|bos|>",  "a",      "b",       "c",      "ab",
                                         "abc",     "\xc4\xa0", "\"\\\n", "<think>", "[PAD10]"};
    static const int32_t     types[] = {3, 3, 1, 1, 1, 1, 1, 1, 1, 4, 5};
    static const char *const merges[] = {"a b", "ab c"};
    gguf_build_str(g, "tokenizer.ggml.model", "gpt2");
    gguf_build_str(g, "tokenizer.ggml.pre", t->pre ? t->pre : "smollm");
    gguf_build_strs(g, "tokenizer.ggml.tokens", tokens, 11);
    gguf_build_ints(g, "tokenizer.ggml.token_type", types, 11);
    gguf_build_strs(g, "tokenizer.ggml.merges", merges, 2);
    gguf_build_int(g, "tokenizer.ggml.bos_token_id", 1);
    gguf_build_int(g, "tokenizer.ggml.eos_token_id", 0);
    gguf_build_int(g, "tokenizer.ggml.eot_token_id", 9);
    if (t->no_end)
        gguf_build_int(g, "tokenizer.ggml.eom_token_id", VOCAB); /* not in the vocabulary */
    gguf_build_str(g, "tokenizer.chat_template", "{{ messages }}\n");
}

static inline void key_of(const struct tiny *t, const char *name, char out[64])
{
    snprintf(out, 64, "%s.%s", t->arch, name);
}

static inline void add_values(struct gguf_build *g, const struct tiny *t)
{
    static const struct {
        const char *name;
        uint32_t    value;
    } ints[] = {{"block_count", LAYERS},       {"context_length", 512},         {"embedding_length", HIDDEN},
                {"feed_forward_length", FF},   {"attention.head_count", HEADS}, {"attention.head_count_kv", KV_HEADS},
                {"rope.dimension_count", HEAD}};
    char key[64];
    gguf_build_str(g, "general.architecture", t->arch);
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        key_of(t, ints[i].name, key);
        gguf_build_int(g, key, ints[i].value);
    }
    key_of(t, "attention.layer_norm_rms_epsilon", key);
    gguf_build_float(g, key, 1e-5f);
    key_of(t, "rope.freq_base", key);
    gguf_build_float(g, key, 500000);
    if (t->scaling) {
        key_of(t, "rope.scaling.type", key);
        gguf_build_str(g, key, t->scaling);
        key_of(t, "rope.scaling.factor", key);
        gguf_build_float(g, key, 4);
    }
    if (t->odd_key)
        gguf_build_int(g, t->odd_key, 7);
}

/* The factors that Llama 3.1's published rule gives for theta 500000, low 1, high 4, context 8192. */
static inline void add_rope_factors(struct gguf_build *g, const struct tiny *t)
{
    float f[HEAD / 2];
    for (int i = 0; i < HEAD / 2; i++) {
        double wavelength = 2 * 3.14159265358979323846 / pow(500000, -2.0 * i / HEAD);
        double smooth = (8192 / wavelength - 1) / 3;
        f[i] = wavelength < 8192 / 4.0   ? 1
               : wavelength > 8192 / 1.0 ? t->rope_factor
                                         : (float)(1 / ((1 - smooth) / (double)t->rope_factor + smooth));
    }
    if (t->rope_factor < 0)
        f[1] = 3;
    gguf_build_tensor(g, "rope_freqs.weight", GGML_F32, HEAD / 2, 0, f, sizeof f);
}

static inline void make(const struct tiny *t, const char *name)
{
    struct gguf_build g;
    gguf_build_init(&g);
    add_values(&g, t);
    if (!t->no_tokenizer)
        add_tokenizer(&g, t);
    add(&g, t, "token_embd.weight", t->embedding_type, t->empty ? 0 : VOCAB, HIDDEN);
    add(&g, t, "output_norm.weight", GGML_F32, HIDDEN, 0);
    if (t->untied)
        add(&g, t, "output.weight", t->weight_type, VOCAB, HIDDEN);
    add_layers(&g, t);
    if (t->rope_factor != 0)
        add_rope_factors(&g, t);
    if (t->extra)
        add(&g, t, t->extra, GGML_F32, HIDDEN, 0);
    gguf_build_write(&g, dir, name);
}

#endif
