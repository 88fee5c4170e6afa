/* config.json and generation_config.json from the metadata, in the words of transformers and mlx-lm. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "convert/import.h"

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
    json_t *q = json_pack("{si si ss}", "group_size", IMPORT_GROUP, "bits", usual, "mode", "affine");
    for (size_t i = 0; q && i < m->n_planes; i++) {
        const struct plane *p = &m->planes[i];
        if (p->kind != PLANE_CODES || (p->source->type == GGML_Q8_0) == (usual == 8))
            continue;
        char *module = strndup(p->view.name, strlen(p->view.name) - strlen(".weight"));
        if (!module ||
            json_object_set_new(q, module, json_pack("{si si}", "group_size", IMPORT_GROUP, "bits", 12 - usual))) {
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

/* An id of the tokenizer's metadata, which must be a row of the embedding; -1 when it is missing. */
static int token_id(const struct import *m, const char *key, int64_t *id, struct error *e)
{
    *id = -1;
    return gguf_has(m->g, key) ? gguf_get_int(m->g, key, 0, m->n_vocab - 1, id, e) : 0;
}

/* Sets bos, eos and, for generation_config.json, pad and further tokens that end an answer. */
static int set_ids(const struct import *m, json_t *o, bool generation, struct error *e)
{
    static const struct {
        const char *key, *name;
        bool        config;
    } rows[] = {{"tokenizer.ggml.bos_token_id", "bos_token_id", true},
                {"tokenizer.ggml.eos_token_id", "eos_token_id", true},
                {"tokenizer.ggml.eot_token_id", "eos_token_id", false},
                {"tokenizer.ggml.eom_token_id", "eos_token_id", false},
                {"tokenizer.ggml.padding_token_id", "pad_token_id", false}};
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *old = json_object_get(o, rows[i].name);
        int64_t id;
        int     status = token_id(m, rows[i].key, &id, e);
        if (status)
            return status;
        if (id < 0 || !(generation || rows[i].config))
            continue;
        if (!old)
            failed |= json_object_set_new(o, rows[i].name, json_integer(id));
        else if (json_is_array(old))
            failed |= json_array_append_new(old, json_integer(id));
        else if (json_integer_value(old) != id)
            failed |= json_object_set_new(o, rows[i].name, json_pack("[O I]", old, (json_int_t)id));
    }
    return failed || !o ? error_nomem(e, "the configuration") : 0;
}

static int write_generation_config(const struct import *m, const struct dir_out *out, struct error *e)
{
    json_t *o = json_object();
    int     status = set_ids(m, o, true, e);
    if (!status)
        return import_write_json(out, "generation_config.json", o, true, e);
    json_decref(o);
    return status;
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
    if (!status && !failed)
        status = set_ids(m, c, false, e);
    if (!failed && quantized) /* mlx-lm writes both names */
        failed = json_object_set(c, "quantization", q) || json_object_set(c, "quantization_config", q);
    json_decref(q);
    if (!status && failed)
        status = error_nomem(e, "config.json");
    if (!status)
        return import_write_json(out, "config.json", c, true, e);
    json_decref(c);
    return status;
}
