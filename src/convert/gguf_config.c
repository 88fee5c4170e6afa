/* config.json and generation_config.json from the metadata, in the words of transformers and mlx-lm. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "convert/import.h"

#define GROUP 32

double import_short(double float32)
{
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, float32);
        if (strtof(text, NULL) == (float)float32)
            break;
    }
    return strtod(text, NULL);
}

int import_write_json(const struct dir_out *out, const char *name, json_t *value, bool indent, struct error *e)
{
    size_t flags = JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9) | (indent ? JSON_INDENT(4) : JSON_COMPACT);
    char  *text = value ? json_dumps(value, flags) : NULL;
    size_t n = text ? strlen(text) : 0;
    int    status = 0;
    json_decref(value);
    if (!text)
        return error_nomem(e, name);
    text[n] = '\n'; /* in the place of the NUL */
    status = dir_out_write(out, name, text, n + 1, e);
    free(text);
    return status;
}

/* {"group_size", "bits", "mode"} for the model, and an entry for every module that differs; NULL when out of memory. */
static json_t *quantization(const struct import *m, bool *any)
{
    int usual = 8;
    *any = false;
    for (size_t i = 0; i < m->n_planes; i++)
        if (m->planes[i].kind == PLANE_CODES) {
            *any = true;
            if (m->planes[i].source->type != GGML_Q8_0)
                usual = 4;
        }
    json_t *q = json_pack("{si si ss}", "group_size", GROUP, "bits", usual, "mode", "affine");
    for (size_t i = 0; q && i < m->n_planes; i++) {
        const struct plane *p = &m->planes[i];
        if (p->kind != PLANE_CODES || (p->source->type == GGML_Q8_0) == (usual == 8))
            continue;
        char *module = strndup(p->view.name, strlen(p->view.name) - strlen(".weight"));
        if (!module || json_object_set_new(q, module, json_pack("{si si}", "group_size", GROUP, "bits", 12 - usual))) {
            json_decref(q);
            q = NULL;
        }
        free(module);
    }
    return q;
}

static int set_rope(const struct import *m, json_t *c)
{
    const struct import_rope *r = &m->rope;
    int                       failed = json_object_set_new(c, "rope_theta", json_real(import_short(m->rope_theta)));
    if (!r->type)
        return failed;
    json_t *o = json_pack("{ss sf}", "rope_type", r->type, "factor", import_short(r->factor));
    if (strcmp(r->type, "llama3") == 0) {
        failed |= json_object_set_new(o, "low_freq_factor", json_real(r->low));
        failed |= json_object_set_new(o, "high_freq_factor", json_real(r->high));
        failed |= json_object_set_new(o, "original_max_position_embeddings", json_integer((json_int_t)r->original));
    }
    return failed | json_object_set_new(c, "rope_scaling", o);
}

static const char *class_of(const char *arch)
{
    return strcmp(arch, "qwen2") == 0   ? "Qwen2ForCausalLM"
           : strcmp(arch, "qwen3") == 0 ? "Qwen3ForCausalLM"
                                        : "LlamaForCausalLM";
}

/* An id of the tokenizer's metadata; -1 when it is missing. Whether it is in the vocabulary is checked with the
 * tokenizer. */
static int64_t token_id(const struct import *m, const char *key)
{
    int64_t id;
    return gguf_get_int(m->g, key, 0, INT32_MAX, &id, NULL) ? -1 : id;
}

static int set_id(json_t *o, const char *key, int64_t id)
{
    return id < 0 ? 0 : json_object_set_new(o, key, json_integer(id));
}

static int write_generation_config(const struct import *m, const struct dir_out *out, struct error *e)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    json_t                  *o = json_object(), *list = json_array();
    int                      failed = !o || !list;
    int64_t                  ids[3];
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        ids[i] = token_id(m, ends[i]);
        if (ids[i] >= 0 && (i < 1 || ids[i] != ids[0]) && (i < 2 || ids[i] != ids[1]))
            failed |= json_array_append_new(list, json_integer(ids[i]));
    }
    failed |= set_id(o, "bos_token_id", token_id(m, "tokenizer.ggml.bos_token_id"));
    if (json_array_size(list) == 1)
        failed |= json_object_set(o, "eos_token_id", json_array_get(list, 0));
    else if (json_array_size(list) > 1)
        failed |= json_object_set(o, "eos_token_id", list);
    failed |= set_id(o, "pad_token_id", token_id(m, "tokenizer.ggml.padding_token_id"));
    json_decref(list);
    if (failed) {
        json_decref(o);
        o = NULL;
    }
    return import_write_json(out, "generation_config.json", o, true, e);
}

int import_write_config(const struct import *m, const struct dir_out *out, struct error *e)
{
    int     status = write_generation_config(m, out, e);
    bool    quantized;
    json_t *q = quantization(m, &quantized);
    json_t *c = json_pack(
        "{s[s] ss sb ss sI sI sI sb sI sI sI sI sf sb sI}", "architectures", class_of(m->arch), "model_type", m->arch,
        "attention_bias", m->attention_bias, "hidden_act", "silu", "head_dim", (json_int_t)m->head_dim, "hidden_size",
        (json_int_t)m->hidden, "intermediate_size", (json_int_t)m->n_ff, "mlp_bias", m->mlp_bias,
        "max_position_embeddings", (json_int_t)m->n_context, "num_attention_heads", (json_int_t)m->n_head,
        "num_hidden_layers", (json_int_t)m->n_layer, "num_key_value_heads", (json_int_t)m->n_kv_head, "rms_norm_eps",
        import_short(m->norm_eps), "tie_word_embeddings", m->tied, "vocab_size", (json_int_t)m->n_vocab);
    int failed = !c || !q || set_rope(m, c);
    if (!failed) {
        failed |= set_id(c, "bos_token_id", token_id(m, "tokenizer.ggml.bos_token_id"));
        failed |= set_id(c, "eos_token_id", token_id(m, "tokenizer.ggml.eos_token_id"));
    }
    if (!failed && quantized) /* mlx-lm writes both names */
        failed = json_object_set(c, "quantization", q) || json_object_set(c, "quantization_config", q);
    json_decref(q);
    if (failed) {
        json_decref(c);
        c = NULL;
    }
    if (!status)
        return import_write_json(out, "config.json", c, true, e);
    json_decref(c);
    return status;
}
