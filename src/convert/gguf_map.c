/* Which tensor of a GGUF file becomes which parameter: one table, by which names are translated, shapes are checked and
 * missing tensors are found.
 *
 * llama-type files store the rows of q and k (weights and biases) so that the two values which rope rotates together
 * are neighbours; `heads` of the plane undoes that. qwen2 and qwen3 files keep the model's own order.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "convert/import.h"

enum size { NONE, HIDDEN, FF, Q, KV, HEAD, VOCAB };
enum presence { ALWAYS, FREE, BIAS_QKV, BIAS_O, BIAS_FF, QK_NORM };
enum order { KEPT, Q_HEADS, KV_HEADS };

struct rule {
    const char   *from, *to; /* without "blk.N." and "model.layers.N." */
    enum size     rows, cols;
    enum presence presence;
    enum order    order;
};

static const struct rule whole[] = {
    {"token_embd.weight", "model.embed_tokens.weight", VOCAB, HIDDEN, ALWAYS, KEPT},
    {"output_norm.weight", "model.norm.weight", HIDDEN, NONE, ALWAYS, KEPT},
    {"output.weight", "lm_head.weight", VOCAB, HIDDEN, FREE, KEPT},
};

static const struct rule layer[] = {
    {"attn_norm.weight", "input_layernorm.weight", HIDDEN, NONE, ALWAYS, KEPT},
    {"attn_q.weight", "self_attn.q_proj.weight", Q, HIDDEN, ALWAYS, Q_HEADS},
    {"attn_q.bias", "self_attn.q_proj.bias", Q, NONE, BIAS_QKV, Q_HEADS},
    {"attn_k.weight", "self_attn.k_proj.weight", KV, HIDDEN, ALWAYS, KV_HEADS},
    {"attn_k.bias", "self_attn.k_proj.bias", KV, NONE, BIAS_QKV, KV_HEADS},
    {"attn_v.weight", "self_attn.v_proj.weight", KV, HIDDEN, ALWAYS, KEPT},
    {"attn_v.bias", "self_attn.v_proj.bias", KV, NONE, BIAS_QKV, KEPT},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", HEAD, NONE, QK_NORM, KEPT},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", HEAD, NONE, QK_NORM, KEPT},
    {"attn_output.weight", "self_attn.o_proj.weight", HIDDEN, Q, ALWAYS, KEPT},
    {"attn_output.bias", "self_attn.o_proj.bias", HIDDEN, NONE, BIAS_O, KEPT},
    {"ffn_norm.weight", "post_attention_layernorm.weight", HIDDEN, NONE, ALWAYS, KEPT},
    {"ffn_gate.weight", "mlp.gate_proj.weight", FF, HIDDEN, ALWAYS, KEPT},
    {"ffn_gate.bias", "mlp.gate_proj.bias", FF, NONE, BIAS_FF, KEPT},
    {"ffn_up.weight", "mlp.up_proj.weight", FF, HIDDEN, ALWAYS, KEPT},
    {"ffn_up.bias", "mlp.up_proj.bias", FF, NONE, BIAS_FF, KEPT},
    {"ffn_down.weight", "mlp.down_proj.weight", HIDDEN, FF, ALWAYS, KEPT},
    {"ffn_down.bias", "mlp.down_proj.bias", HIDDEN, NONE, BIAS_FF, KEPT},
};

static int64_t size_of(const struct import *m, enum size s)
{
    const int64_t sizes[] = {[NONE] = 0,
                             [HIDDEN] = m->hidden,
                             [FF] = m->n_ff,
                             [Q] = m->n_head * m->head_dim,
                             [KV] = m->n_kv_head * m->head_dim,
                             [HEAD] = m->head_dim,
                             [VOCAB] = m->n_vocab};
    return sizes[s];
}

/* Whether this model has the tensor; FREE ones may be there or not. */
static bool wanted(const struct import *m, enum presence p)
{
    bool llama = strcmp(m->arch, "llama") == 0;
    switch (p) {
    case ALWAYS:
    case FREE:
        return true;
    case BIAS_QKV:
        return m->attention_bias || strcmp(m->arch, "qwen2") == 0;
    case BIAS_O:
        return m->attention_bias && strcmp(m->arch, "qwen2") != 0;
    case BIAS_FF:
        return m->mlp_bias && llama;
    case QK_NORM:
        return strcmp(m->arch, "qwen3") == 0;
    }
    return false;
}

static int64_t heads_of(const struct import *m, enum order order)
{
    if (strcmp(m->arch, "llama") != 0 || order == KEPT)
        return 0;
    return order == Q_HEADS ? m->n_head : m->n_kv_head;
}

/* The rule for a tensor's name and its layer (-1: none); NULL when the model has no such tensor. */
static const struct rule *find_rule(const struct import *m, const char *name, int64_t *n)
{
    char        digits[24];
    const char *dot;
    *n = -1;
    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        if (strcmp(name, whole[i].from) == 0)
            return &whole[i];
    if (strncmp(name, "blk.", 4) != 0 || !(dot = strchr(name + 4, '.')) || (size_t)(dot - name) - 4 >= sizeof digits)
        return NULL;
    memcpy(digits, name + 4, (size_t)(dot - name) - 4);
    digits[dot - name - 4] = '\0';
    if (!num_parse_i64(digits, n) || *n < 0 || *n >= m->n_layer)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(layer); i++)
        if (strcmp(dot + 1, layer[i].from) == 0 && wanted(m, layer[i].presence))
            return &layer[i];
    return NULL;
}

/* ---- planes ---- */

static void add_plane(struct import *m, struct plane plane, struct faults *f)
{
    if (m->n_planes == m->planes_cap) {
        size_t        cap = m->planes_cap ? m->planes_cap * 2 : 256;
        struct plane *v = realloc(m->planes, cap * sizeof *v);
        if (!v) {
            f->nomem = 1;
            return;
        }
        m->planes = v;
        m->planes_cap = cap;
    }
    f->nomem |= !plane.view.name;
    m->planes[m->n_planes++] = plane;
    m->bytes += plane.view.size;
}

static void add_dense(struct import *m, const struct gguf_tensor *t, const char *to, enum dtype dtype, int64_t heads,
                      struct faults *f)
{
    struct plane p = {.source = t, .kind = PLANE_DENSE, .heads = heads};
    p.view = (struct tensor_view){.name = to, .dtype = dtype, .n_dim = t->n_dim, .size = t->size};
    memcpy(p.view.shape, t->shape, sizeof t->shape);
    add_plane(m, p, f);
}

/* `to` ends in "weight". */
static void add_quantized(struct import *m, const struct gguf_tensor *t, const char *to, int bits, int64_t heads,
                          struct faults *f)
{
    static const char *const ends[] = {"weight", "scales", "biases"};
    int                      stem = (int)(strlen(to) - strlen("weight"));
    int64_t                  groups = t->shape[1] / IMPORT_GROUP;
    bool                     wide = import_needs_wide(t, f);
    for (int k = 0; k < 3; k++) {
        struct plane p = {.source = t, .kind = (enum plane_kind)(PLANE_CODES + k), .heads = heads};
        p.view = (struct tensor_view){.name = arena_printf(&m->arena, "%.*s%s", stem, to, ends[k]), .n_dim = 2};
        p.view.dtype = k == 0 ? DTYPE_U32 : wide ? DTYPE_F32 : DTYPE_F16;
        p.view.shape[0] = t->shape[0];
        p.view.shape[1] = k == 0 ? groups * bits : groups; /* a group of 32 codes of b bits is b words */
        if (!dtype_bytes(p.view.dtype, p.view.shape, 2, &p.view.size))
            f->nomem = 1;
        add_plane(m, p, f);
    }
}

static void map_tensor(struct import *m, const struct gguf_tensor *t, struct faults *f)
{
    int64_t            n;
    int                bits;
    enum dtype         dense;
    char               type[24], found[TENSOR_SHAPE_TEXT], needed[TENSOR_SHAPE_TEXT];
    const struct rule *r = find_rule(m, t->name, &n);
    if (!r) {
        faults_add(f, ERR_UNSUPPORTED, t->name, "tensor %s is none that a %s model of %" PRId64 " layers has", t->name,
                   m->arch, m->n_layer);
        return;
    }
    if (!import_type_bits(t->type, &bits, &dense) || (bits && r->cols == NONE)) {
        faults_add(f, ERR_UNSUPPORTED, t->name, "tensor %s is of type %s; %s can be imported", t->name,
                   ggml_type_name(t->type, type),
                   r->cols == NONE ? "F32, F16 and BF16" : "Q4_0, Q4_1, Q8_0, F16, BF16 and F32");
        return;
    }
    const int64_t shape[2] = {size_of(m, r->rows), size_of(m, r->cols)};
    int           n_dim = r->cols == NONE ? 1 : 2;
    if (t->n_dim != n_dim || t->shape[0] != shape[0] || (n_dim == 2 && t->shape[1] != shape[1])) {
        faults_add(f, ERR_MISFIT, t->name, "tensor %s is %s, %s is needed by the metadata", t->name,
                   tensor_shape_text(t->shape, t->n_dim, found), tensor_shape_text(shape, n_dim, needed));
        return;
    }
    const char *to = n < 0 ? r->to : arena_printf(&m->arena, "model.layers.%" PRId64 ".%s", n, r->to);
    if (!to)
        f->nomem = 1;
    else if (bits)
        add_quantized(m, t, to, bits, heads_of(m, r->order), f);
    else
        add_dense(m, t, to, dense, heads_of(m, r->order), f);
}

static void need(struct import *m, const char *name, struct faults *f)
{
    if (!gguf_tensor_find(m->g, name))
        faults_add(f, ERR_MISFIT, name, "tensor %s is missing", name);
}

static void find_missing(struct import *m, struct faults *f)
{
    char name[64];
    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        if (whole[i].presence == ALWAYS)
            need(m, whole[i].from, f);
    for (int64_t n = 0; n < m->n_layer; n++)
        for (size_t i = 0; i < ARRAY_LEN(layer); i++)
            if (wanted(m, layer[i].presence)) {
                snprintf(name, sizeof name, "blk.%" PRId64 ".%s", n, layer[i].from);
                need(m, name, f);
            }
}

/* Wider types first, so that every plane lies aligned in the file. */
static int by_width(const void *a, const void *b)
{
    const struct plane *x = a, *y = b;
    size_t              wx = dtype_size(x->view.dtype), wy = dtype_size(y->view.dtype);
    return wx != wy ? (wx > wy ? -1 : 1) : strcmp(x->view.name, y->view.name);
}

int import_map(struct import *m, struct error *e)
{
    struct faults f = {0};
    int           status = 0;
    for (size_t i = 0; i < gguf_tensor_count(m->g) && !status; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->g, i);
        if (strcmp(t->name, "rope_freqs.weight") != 0) /* import_rope has read it */
            map_tensor(m, t, &f);                      /* reads all scales, so it takes a while */
        status = import_progress(m, 0, e);
    }
    if (!status) {
        find_missing(m, &f);
        status = faults_report(&f, e);
        if (status)
            error_prefix(e, "%s", gguf_name(m->g));
    }
    if (!status)
        qsort(m->planes, m->n_planes, sizeof *m->planes, by_width);
    faults_deinit(&f);
    return status;
}
