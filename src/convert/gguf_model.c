/* The hyperparameters of a GGUF file: "<architecture>.<name>" values, and the rope scaling.
 *
 * A value that we do not know could change what the model computes. Those that stand in files of supported models are
 * listed; any other is named in a warning.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "convert/import.h"

#define KEY_MAX 160
#define PI 3.14159265358979323846

static const char *const architectures[] = {"llama", "qwen2", "qwen3"};

static const char *const known[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size", /* the embedding's rows decide */
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "expert_count",
    "expert_used_count",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
};

static const char *key_of(const struct import *m, const char *name, char out[KEY_MAX])
{
    snprintf(out, KEY_MAX, "%s.%s", m->arch, name);
    return out;
}

int import_int(const struct import *m, const char *name, int64_t lo, int64_t hi, int64_t dflt, int64_t *out,
               struct error *e)
{
    char key[KEY_MAX];
    if (dflt >= 0 && !gguf_has(m->g, key_of(m, name, key))) {
        *out = dflt;
        return 0;
    }
    return gguf_get_int(m->g, key_of(m, name, key), lo, hi, out, e);
}

int import_num(const struct import *m, const char *name, double dflt, double *out, struct error *e)
{
    char key[KEY_MAX];
    int  status = 0;
    *out = dflt;
    if (gguf_has(m->g, key_of(m, name, key)))
        status = gguf_get_num(m->g, key, out, e);
    if (!status && !(isfinite(*out) && *out > 0))
        status = error_set(e, ERR_FORMAT, key, "%s: %s is %g, a positive number is needed", gguf_name(m->g), key, *out);
    return status;
}

static int read_architecture(struct import *m, struct error *e)
{
    struct str arch;
    int        status = gguf_get_str(m->g, "general.architecture", &arch, e);
    if (status)
        return status;
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++)
        if (str_is(arch, architectures[i])) {
            snprintf(m->arch, sizeof m->arch, "%s", architectures[i]);
            return 0;
        }
    return error_set(e, ERR_UNSUPPORTED, "general.architecture",
                     "%s: architecture '" STR_FMT "' cannot be imported; llama, qwen2 and qwen3 can", gguf_name(m->g),
                     (int)MIN(arch.n, (size_t)64), arch.p);
}

static void warn_of_unknown(const struct import *m)
{
    size_t n = strlen(m->arch);
    for (size_t i = 0; i < gguf_value_count(m->g); i++) {
        const char *key = gguf_key_at(m->g, i);
        bool        found = strncmp(key, m->arch, n) != 0 || key[n] != '.';
        for (size_t k = 0; k < ARRAY_LEN(known) && !found; k++)
            found = strcmp(key + n + 1, known[k]) == 0;
        if (!found)
            log_warning(m->log, "%s: %s is not known and was left out", gguf_name(m->g), key);
    }
}

static int refuse(const struct import *m, const char *name, double found, const char *needed, struct error *e)
{
    char key[KEY_MAX];
    return error_set(e, ERR_UNSUPPORTED, key_of(m, name, key), "%s: %s is %g; only models with %s can be imported",
                     gguf_name(m->g), key_of(m, name, key), found, needed);
}

static int read_heads(struct import *m, struct error *e)
{
    int64_t value_dim, rope_dim, experts;
    int     status;
    if ((status = import_int(m, "attention.head_count", 1, 1 << 14, -1, &m->n_head, e)) ||
        (status = import_int(m, "attention.head_count_kv", 1, 1 << 14, m->n_head, &m->n_kv_head, e)) ||
        (status = import_int(m, "attention.key_length", 1, 1 << 14, MAX(m->hidden / m->n_head, 1), &m->head_dim, e)) ||
        (status = import_int(m, "attention.value_length", 1, 1 << 14, m->head_dim, &value_dim, e)) ||
        (status = import_int(m, "rope.dimension_count", 1, 1 << 14, m->head_dim, &rope_dim, e)) ||
        (status = import_int(m, "expert_count", 0, 1 << 20, 0, &experts, e)))
        return status;
    if (m->head_dim % 2)
        return refuse(m, "attention.key_length", (double)m->head_dim, "an even head dimension", e);
    if (value_dim != m->head_dim)
        return refuse(m, "attention.value_length", (double)value_dim, "equal lengths of keys and values", e);
    if (rope_dim != m->head_dim)
        return refuse(m, "rope.dimension_count", (double)rope_dim, "rope over the whole head", e);
    if (experts)
        return refuse(m, "expert_count", (double)experts, "dense feed-forward blocks", e);
    return 0;
}

int import_model(struct import *m, struct error *e)
{
    const struct gguf_tensor *embedding, *q, *ff;
    int                       status = read_architecture(m, e);
    if (status || (status = import_int(m, "block_count", 1, 10000, -1, &m->n_layer, e)) ||
        (status = import_int(m, "embedding_length", 1, 1 << 20, -1, &m->hidden, e)) ||
        (status = import_int(m, "feed_forward_length", 1, 1 << 24, -1, &m->n_ff, e)) ||
        (status = import_int(m, "context_length", 1, (int64_t)1 << 31, -1, &m->n_context, e)) ||
        (status = read_heads(m, e)) ||
        (status = import_num(m, "attention.layer_norm_rms_epsilon", 1e-6, &m->norm_eps, e)) ||
        (status = import_num(m, "rope.freq_base", 10000, &m->rope_theta, e)) || (status = import_rope(m, e)))
        return status;
    embedding = gguf_tensor_find(m->g, "token_embd.weight");
    if (!embedding || embedding->shape[0] < 1)
        return error_set(e, ERR_MISFIT, "token_embd.weight", "%s: the tensor token_embd.weight is %s", gguf_name(m->g),
                         embedding ? "empty" : "missing");
    q = gguf_tensor_find(m->g, "blk.0.attn_q.bias");
    ff = gguf_tensor_find(m->g, "blk.0.ffn_up.bias");
    m->n_vocab = embedding->shape[0];
    m->tied = !gguf_tensor_find(m->g, "output.weight");
    m->attention_bias = q != NULL;
    m->mlp_bias = ff != NULL;
    warn_of_unknown(m);
    return 0;
}

/* ---- rope scaling ---- */

/* What llama3 scaling divides the frequency of pair i by (Llama 3.1's rule: long wavelengths by factor, short ones not
 * at all, between them a blend; low and high count wavelengths in the original context). */
static double llama3_factor(const struct import *m, const struct import_rope *r, int64_t i)
{
    double wavelength = 2 * PI * pow(m->rope_theta, 2 * (double)i / (double)m->head_dim);
    double turns = r->original / wavelength;
    double blend = (turns - r->low) / (r->high - r->low);
    if (turns > r->high)
        return 1;
    if (turns < r->low)
        return r->factor;
    return 1 / ((1 - blend) / r->factor + blend);
}

/* The tensor holds the factors only; the three other numbers are those of every published Llama 3 model, which is
 * checked. */
static int read_rope_factors(struct import *m, const struct gguf_tensor *t, struct error *e)
{
    struct import_rope r = {.type = "llama3", .low = 1, .high = 4};
    int64_t            original, n = m->head_dim / 2;
    bool               plain = true, fits = true;
    int status = import_int(m, "rope.scaling.original_context_length", 1, (int64_t)1 << 31, 8192, &original, e);
    if (status)
        return status;
    if (t->type != GGML_F32 || t->n_dim != 1 || t->shape[0] != n)
        return error_set(e, ERR_MISFIT, t->name, "%s: tensor %s is not F32 [%lld]", gguf_name(m->g), t->name,
                         (long long)n);
    float *factors = arena_alloc(&m->arena, t->size);
    if (!factors)
        return error_nomem(e, t->name);
    memcpy(factors, t->data, t->size);
    r.original = (double)original;
    r.factor = (double)factors[n - 1];
    for (int64_t i = 0; i < n; i++) {
        plain &= factors[i] == 1;
        fits &= fabs((double)factors[i] / llama3_factor(m, &r, i) - 1) < 1e-4;
    }
    if (plain)
        return 0;
    if (!fits)
        return error_set(
            e, ERR_UNSUPPORTED, t->name,
            "%s: the factors of tensor %s are not those of llama3 rope scaling with low 1, high 4 and context %lld",
            gguf_name(m->g), t->name, (long long)original);
    m->rope = r;
    return 0;
}

int import_rope(struct import *m, struct error *e)
{
    const struct gguf_tensor *factors = gguf_tensor_find(m->g, "rope_freqs.weight");
    struct str                type = STR("none");
    char                      key[KEY_MAX];
    double                    old;
    int                       status = import_num(m, "rope.scale_linear", 1, &old, e);
    if (!status && gguf_has(m->g, key_of(m, "rope.scaling.type", key)))
        status = gguf_get_str(m->g, key, &type, e);
    if (!status)
        status = import_num(m, "rope.scaling.factor", old, &m->rope.factor, e);
    if (status)
        return status;
    if (str_is(type, "none") && old != 1)
        type = STR("linear");
    if (!str_is(type, "none") && !str_is(type, "linear"))
        return error_set(e, ERR_UNSUPPORTED, key, "%s: %s is '" STR_FMT "'; none and linear can be imported",
                         gguf_name(m->g), key, (int)MIN(type.n, (size_t)64), type.p);
    if (str_is(type, "linear") && m->rope.factor != 1)
        m->rope.type = "linear";
    if (!factors)
        return 0;
    if (m->rope.type)
        return error_set(e, ERR_UNSUPPORTED, factors->name,
                         "%s: linear rope scaling together with tensor %s cannot be imported", gguf_name(m->g),
                         factors->name);
    return read_rope_factors(m, factors, e);
}
