/* What can be said without loading weights into memory: describe, list, families, resolve. Each answer is a JSON text. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "arch/arch.h"
#include "hub/store.h"
#include "model/block.h"

static int give_json(json_t *j, char **text, struct error *e)
{
    *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(j);
    return *text ? 0 : error_nomem(e, "the answer");
}

static void keep_warning(void *ctx, enum log_level level, const char *msg)
{
    if (level == LOG_WARNING)
        json_array_append_new(ctx, json_string(msg));
}

static json_t *shape_of(const struct param *p)
{
    json_t *a = json_array();
    for (int i = 0; i < p->n_dim; i++)
        json_array_append_new(a, json_integer(p->shape[i]));
    return a;
}

/* Bytes of a token in each type of cache. */
static json_t *cache_bytes(const struct model *m)
{
    return json_pack("{s:I, s:I, s:I}", "f32", (json_int_t)model_kv_bytes_per_token(m, 4), "f16",
                     (json_int_t)model_kv_bytes_per_token(m, 2), "q8_0", (json_int_t)model_kv_bytes_per_token(m, 1));
}

static json_t *describe(struct model *m, json_t *warnings)
{
    json_t *modes = json_object(), *tensors = json_array();
    int64_t bytes = 0;
    char    text[QUANT_TEXT], place[LAYOUT_TEXT];
    for (size_t i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];
        int64_t             count = param_elements(p);
        const struct quant *q = &p->source.quant;
        const char         *mode = q->mode == QUANT_NONE ? dtype_name(p->source.dtype) : quant_text(q, text);
        if (!p->bytes) /* files may be without it */
            continue;
        json_object_set_new(modes, mode, json_integer(json_integer_value(json_object_get(modes, mode)) + count));
        json_array_append_new(tensors, json_pack("{s:s, s:o, s:s, s:s*, s:I}", "name", p->name, "shape", shape_of(p),
                                                 "stored_as", mode, "stored_in", layout_text(p, place) ? place : NULL,
                                                 "bytes", (json_int_t)p->bytes));
        bytes += (int64_t)p->bytes;
    }
    return json_pack("{s:s, s:s, s:i, s:I, s:I, s:o, s:I, s:o, s:I, s:I, s:I, s:i, s:i, s:b, s:o, s:o}", "model_type",
                     m->desc.model_type, "blocks", model_blocks(&m->desc, &m->arena), "layers", m->desc.n_layer,
                     "parameters", (json_int_t)m->n_parameter, "bytes", (json_int_t)bytes, "modes", modes,
                     "kv_bytes_per_token", (json_int_t)model_kv_bytes_per_token(m, 2), "cache_types", cache_bytes(m),
                     "state_bytes", (json_int_t)m->limits.n_state, "snapshot_bytes",
                     (json_int_t)engine_snapshot_bytes(m), "context", (json_int_t)m->desc.n_context, "hidden_size",
                     m->desc.n_embd, "vocab_size", m->desc.n_vocab, "tied", (int)m->tied, "tensors", tensors,
                     "warnings", json_incref(warnings));
}

int mlxcel_describe(const char *model, char **json, struct mlxcel_error *err)
{
    struct error         e = {0};
    struct model        *m = NULL;
    char                *path = NULL;
    json_t              *warnings = json_array();
    struct log           log = {.write = keep_warning, .ctx = warnings, .level = LOG_WARNING};
    struct model_options o = {.page_tokens = KV_TILE, .headers_only = true, .log = &log};
    int                  code = warnings ? api_resolve(model, &path, &e) : error_nomem(&e, "the answer");
    if (!code)
        code = model_load(&m, path, arch_describe, NULL, &o, &e);
    if (!code)
        code = give_json(describe(m, warnings), json, &e);
    model_free(m);
    free(path);
    json_decref(warnings);
    return api_result(code, &e, err);
}

int mlxcel_list(char **json, struct mlxcel_error *err)
{
    struct error       e = {0};
    struct store_roots roots;
    struct store_list  l = {0};
    json_t            *a = json_array();
    int                code = store_roots_from_env(&roots, &e);
    if (!code)
        code = store_list(&roots, &l, &e);
    for (size_t i = 0; !code && i < l.n; i++)
        json_array_append_new(a, json_pack("{s:s, s:s, s:I, s:s}", "name", l.v[i].name, "path", l.v[i].path, "bytes",
                                           (json_int_t)l.v[i].bytes, "model_type", l.v[i].model_type));
    if (!code) {
        store_list_deinit(&l);
        code = give_json(a, json, &e);
    } else
        json_decref(a);
    return api_result(code, &e, err);
}

int mlxcel_families(char **json, struct mlxcel_error *err)
{
    struct error         e = {0};
    size_t               n;
    const struct family *f = arch_families(&n);
    json_t              *a = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_pack("{s:s, s:s?, s:s, s:s}", "model_type", f[i].model_type, "parent",
                                           f[i].parent, "summary", f[i].summary, "blocks", f[i].blocks));
    return api_result(give_json(a, json, &e), &e, err);
}

int api_resolve(const char *model, char **path, struct error *e)
{
    struct store_roots roots;
    int                err = store_roots_from_env(&roots, e);
    return err ? err : store_resolve(&roots, model, path, e);
}

int mlxcel_resolve(const char *model, char **path, struct mlxcel_error *err)
{
    struct error e = {0};
    return api_result(api_resolve(model, path, &e), &e, err);
}
