/* Opening and closing a model; contracts in mlxcel.h. */
#include <stdlib.h>
#include <string.h>

#include "adapt/fuse.h"
#include "api/api.h"
#include "arch/arch.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/pyjson.h"

#define CONTEXT_DEFAULT 8192
#define CONTEXT_MAX (1 << 24)
#define PARALLEL_MAX 256
#define CHUNK_DEFAULT 512
#define CHUNK_MAX 8192
#define PAGE_TOKENS_MAX 4096
#define EOS_MAX 1024 /* ids of one file; each is looked for in the list so far */

const char *mlxcel_version(void)
{
    return MLXCEL_VERSION;
}

void mlxcel_free(void *p)
{
    free(p);
}

int api_result(int code, const struct error *e, struct mlxcel_error *out)
{
    if (code)
        error_export(e, out);
    return code;
}

static int check_range(const char *field, int v, int lo, int hi, struct error *e)
{
    if (v >= lo && v <= hi)
        return 0;
    return error_set(e, ERR_INVALID, field, "%s is %d, a number from %d to %d is needed", field, v, lo, hi);
}

/* enum mlxcel_cache_type: names, and bytes of an element (tensor/kv.h). */
static const struct {
    const char *name;
    int         elem_size;
} cache_types[] = {{"auto", 0}, {"f16", 2}, {"f32", 4}, {"q8_0", 1}};

static int check_cache_types(const struct mlxcel_options *o, struct error *e)
{
    int err = check_range("cache_type_k", o->cache_type_k, 0, MLXCEL_CACHE_Q8_0, e);
    if (!err)
        err = check_range("cache_type_v", o->cache_type_v, 0, MLXCEL_CACHE_Q8_0, e);
    if (err)
        return err;
    bool        exact = o->precision == MLXCEL_PRECISION_EXACT;
    int         type[2] = {o->cache_type_k, o->cache_type_v}, chosen = exact ? MLXCEL_CACHE_F32 : MLXCEL_CACHE_F16;
    const char *k = cache_types[type[0]].name, *v = cache_types[type[1]].name;
    for (int i = 0; i < 2; i++) {
        type[i] = type[i] == MLXCEL_CACHE_AUTO ? chosen : type[i];
        if (exact && type[i] != MLXCEL_CACHE_F32)
            return error_set(e, ERR_INVALID, i ? "cache-type-v" : "cache-type-k",
                             "cache-type-%c is %s, but precision exact keeps the cache in f32", i ? 'v' : 'k',
                             i ? v : k);
    }
    if (type[0] != type[1])
        return error_set(e, ERR_INVALID, "cache-type-v",
                         "cache-type-k is %s and cache-type-v is %s, but keys and values are stored alike: give both "
                         "the same type",
                         k, v);
    return 0;
}

static const char *cache_type_name(int elem_size)
{
    size_t i = ARRAY_LEN(cache_types) - 1;
    while (i && cache_types[i].elem_size != elem_size)
        i--;
    return cache_types[i].name;
}

static int check_options(const struct mlxcel_options *o, struct error *e)
{
    int err = check_range("threads", o->threads, 0, POOL_THREADS_MAX, e);
    if (!err)
        err = check_range("precision", o->precision, 0, MLXCEL_PRECISION_EXACT, e);
    if (!err)
        err = check_cache_types(o, e);
    if (!err)
        err = check_range("context", o->context, 0, CONTEXT_MAX, e);
    if (!err)
        err = check_range("parallel", o->parallel, 0, PARALLEL_MAX, e);
    if (!err)
        err = check_range("chunk", o->chunk, 0, CHUNK_MAX, e);
    if (!err)
        err = check_range("page_tokens", o->page_tokens, 0, PAGE_TOKENS_MAX, e);
    if (!err && o->page_tokens % KV_TILE)
        err = error_set(e, ERR_INVALID, "page_tokens", "page_tokens is %d, a multiple of %d is needed", o->page_tokens,
                        KV_TILE);
    return err;
}

int mlxcel_check_options(const struct mlxcel_options *options, struct mlxcel_error *err)
{
    struct error e = {0};
    return api_result(check_options(options, &e), &e, err);
}

static int open_backend(struct mlxcel *m, const struct mlxcel_options *o, struct error *e)
{
    struct cpu_options c = {.threads = o->threads,
                            .level = -1,
                            .precision = (enum precision)o->precision,
                            .kv_elem_size = cache_types[MAX(o->cache_type_k, o->cache_type_v)].elem_size};
    if (o->cpu_level) {
        char known[CPU_LEVEL_LIST_SIZE];
        c.level = cpu_level_from_name(o->cpu_level);
        if (c.level < 0)
            return error_set(e, ERR_INVALID, "cpu-level", "unknown CPU level \"%s\"; known: %s", o->cpu_level,
                             cpu_level_list(false, known));
    }
    return cpu_backend_new(&m->backend, &c, e);
}

static int add_eos(struct ids *ids, int32_t id, struct error *e)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->v[i] == id)
            return 0;
    return ids_push(ids, id) ? 0 : error_nomem(e, "the list of end tokens");
}

/* eos_token_id of one file: a number or a list. */
static int eos_of_config(struct mlxcel *m, struct config *c, struct error *e)
{
    int n = config_array_len(c, "eos_token_id"), err = 0;
    if (n > EOS_MAX) {
        config_fault(c, ERR_LIMIT, "eos_token_id", "has %d ids, at most %d are allowed", n, EOS_MAX);
        n = 0;
    }
    for (int i = 0; i < n && !err; i++) {
        int64_t id = config_array_int(c, "eos_token_id", i, 0, INT32_MAX);
        err = add_eos(&m->eos, (int32_t)id, e);
    }
    return err ? err : config_report(c, e);
}

/* All ids that end an answer: of config.json and, where texts are wanted at all, of generation_config.json and the
 * tokenizer's eos_token (chat models often end their turn with a token that only the last names). */
static int collect_eos(struct mlxcel *m, struct error *e)
{
    struct config *g = NULL;
    int            err = eos_of_config(m, m->model->config, e);
    if (err || !m->tokenizer)
        return err;
    err = config_load(&g, m->path, "generation_config.json", e);
    if (!err) {
        err = eos_of_config(m, g, e);
        config_free(g);
    } else if (err == ERR_NOT_FOUND)
        err = 0;
    if (!err && tokenizer_eos(m->tokenizer) >= 0)
        err = add_eos(&m->eos, tokenizer_eos(m->tokenizer), e);
    return err;
}

/* The variables that all chats give to the template. */
static int read_variables(struct mlxcel *m, const char *text, struct error *e)
{
    static const char name[] = "chat_template_kwargs";
    if (pyjson_parse_with(&m->variables, str_of(text), 0, name, e))
        return e->code;
    if (json_is_object(m->variables))
        return 0;
    return error_set(e, ERR_INVALID, name, "%s must be a JSON object", name);
}

static int open_text(struct mlxcel *m, const struct mlxcel_options *o, struct error *e)
{
    int err = tokenizer_load(&m->tokenizer, m->path, &m->log, e);
    if (err)
        return err;
    if (tokenizer_size(m->tokenizer) > m->model->desc.n_vocab)
        return error_set(e, ERR_MISFIT, "vocab_size",
                         "the tokenizer's greatest id is %d, but the model's vocabulary has %d rows (vocab_size of "
                         "config.json); they are not of one model",
                         tokenizer_size(m->tokenizer) - 1, m->model->desc.n_vocab);
    struct chat_template_choice choice = {.name = o->chat_template, .file = o->chat_template_file};
    bool                        chosen = choice.name || choice.file;
    err = chat_template_load(&m->chat, m->path, &choice, e);
    return err == ERR_NOT_FOUND && !chosen ? 0 : err;
}

static int open_adapters(struct mlxcel *m, const struct mlxcel_options *o, struct error *e)
{
    int err = registry_new(&m->registry, m->model, m->backend, e);
    return err ? err : registry_load_all(m->registry, o->lora, o->n_lora, &m->log, e);
}

/* Lists what is to be fused; returns how many. */
static size_t fused_of(const struct mlxcel_options *o, struct fuse_adapter *v)
{
    size_t n = 0;
    for (size_t i = 0; i < o->n_lora; i++)
        if (o->lora[i].fuse && !o->lora[i].idle)
            v[n++] = (struct fuse_adapter){o->lora[i].path, o->lora[i].scale == 0 ? 1 : (double)o->lora[i].scale};
    return n;
}

/* Loads the weights, with the adapters that are to be fused into them. */
static int open_weights(struct mlxcel *m, struct model_options *mo, const struct mlxcel_options *o, struct error *e)
{
    struct fuse_options  f = {.threads = cpu_backend_threads(m->backend), .log = &m->log};
    struct fuse_adapter *v = malloc((o->n_lora + 1) * sizeof *v);
    struct fuse         *fuse = NULL;
    int                  err = v ? 0 : error_nomem(e, "the list of adapters");
    f.adapter = v;
    f.n = v ? fused_of(o, v) : 0;
    if (f.n)
        err = fuse_new(&fuse, &f, e);
    mo->change = fuse ? fuse_change(fuse) : NULL;
    if (!err)
        err = model_load(&m->model, m->path, arch_describe, m->backend, mo, e);
    fuse_free(fuse);
    free(v);
    return err;
}

static int open_engine(struct mlxcel *m, const struct mlxcel_options *o, struct error *e)
{
    int64_t               model_context = m->model->desc.n_context;
    struct engine_options g = {.parallel = o->parallel ? o->parallel : 1,
                               .chunk = o->chunk ? o->chunk : CHUNK_DEFAULT,
                               .page_tokens = o->page_tokens ? o->page_tokens : KV_TILE,
                               .no_prefix_cache = o->no_prefix_cache,
                               .eos = m->eos.v,
                               .n_eos = m->eos.n};
    g.context = o->context ? o->context / g.parallel : (int)MIN(model_context, (int64_t)CONTEXT_DEFAULT);
    if (g.context < 1)
        return error_set(e, ERR_INVALID, "context", "a context of %d tokens leaves none for each of %d sequences",
                         o->context, g.parallel);
    if (m->model->desc.n_position && g.context > m->model->desc.n_position)
        return error_set(e, ERR_CONTEXT, "context",
                         "a context of %d tokens is more than the %lld positions that the model has learned", g.context,
                         (long long)m->model->desc.n_position);
    if (g.context > model_context)
        log_warning(&m->log, "a context of %d tokens is more than the %lld that the model was made for", g.context,
                    (long long)model_context);
    m->engine_options = g;
    return engine_new(&m->engine, m->model, m->tokenizer, &g, e);
}

static int open_model(struct mlxcel *m, const char *model, const struct mlxcel_options *o, struct error *e)
{
    struct model_options mo = {
        .lo = o->layer_lo, .hi = o->layer_hi, .page_tokens = o->page_tokens ? o->page_tokens : KV_TILE, .log = &m->log};
    int err = check_options(o, e);
    if (!err && o->chat_template_kwargs)
        err = read_variables(m, o->chat_template_kwargs, e);
    if (!err)
        err = api_resolve(model, &m->path, e);
    if (err)
        return err;
    const char *base = strrchr(m->path, '/');
    m->name = strdup(base && base[1] ? base + 1 : m->path);
    err = m->name ? open_backend(m, o, e) : error_nomem(e, "the model's name");
    if (!err)
        err = open_weights(m, &mo, o, e);
    if (!err)
        err = open_adapters(m, o, e);
    if (!err && !o->weights_only)
        err = open_text(m, o, e);
    if (!err)
        err = collect_eos(m, e);
    return err ? err : open_engine(m, o, e);
}

static void write_log(void *ctx, enum log_level level, const char *msg)
{
    const struct mlxcel *m = ctx;
    m->log_line(m->log_ctx, (int)level, msg);
}

int mlxcel_open(struct mlxcel **out, const char *model, const struct mlxcel_options *options, struct mlxcel_error *err)
{
    static const struct mlxcel_options defaults;
    struct mlxcel_options              o = options ? *options : defaults;
    struct error                       e = {0};
    double                             start = clock_now();
    struct mlxcel                     *m = calloc(1, sizeof *m);
    int                                code;
    if (!m)
        return api_result(error_nomem(&e, "the model"), &e, err);
    m->log_line = o.log;
    m->log_ctx = o.log_ctx;
    if (o.log)
        m->log = (struct log){.write = write_log, .ctx = m, .level = (enum log_level)o.log_level};
    code = open_model(m, model, &o, &e);
    m->load_seconds = clock_now() - start;
    if (code) {
        mlxcel_close(m);
        return api_result(code, &e, err);
    }
    *out = m;
    return 0;
}

void mlxcel_close(struct mlxcel *m)
{
    if (!m)
        return;
    engine_free(m->engine);
    chat_template_free(m->chat);
    json_decref(m->variables);
    tokenizer_free(m->tokenizer);
    registry_free(m->registry);
    model_free(m->model);
    if (m->backend)
        m->backend->free(m->backend);
    ids_deinit(&m->eos);
    free(m->path);
    free(m->name);
    free(m);
}

void mlxcel_get_info(const struct mlxcel *m, struct mlxcel_info *info)
{
    static const char *const precisions[] = {"default", "high", "exact"};
    const struct model_desc *d = &m->model->desc;
    *info = (struct mlxcel_info){.name = m->name,
                                 .path = m->path,
                                 .model_type = d->model_type,
                                 .cpu_level = cpu_level_name(cpu_backend_level(m->backend)),
                                 .precision = precisions[cpu_backend_precision(m->backend)],
                                 .cache_type = cache_type_name(m->backend->kv_elem_size),
                                 .threads = cpu_backend_threads(m->backend),
                                 .n_layer = d->n_layer,
                                 .layer_lo = m->model->lo,
                                 .layer_hi = m->model->hi,
                                 .n_vocab = d->n_vocab,
                                 .context = m->engine_options.context,
                                 .context_total = m->engine_options.context * m->engine_options.parallel,
                                 .parallel = m->engine_options.parallel,
                                 .context_model = (int)MIN(d->n_context, (int64_t)INT32_MAX),
                                 .n_parameter = m->model->n_parameter,
                                 .weights_bytes = (int64_t)checkpoint_bytes(m->model->checkpoint),
                                 .active_bytes = model_active_bytes(m->model),
                                 .kv_bytes_per_token = model_kv_bytes_per_token(m->model, m->backend->kv_elem_size),
                                 .state_bytes = (int64_t)m->model->limits.n_state,
                                 .lora_bytes = (int64_t)registry_bytes(m->registry),
                                 .load_seconds = m->load_seconds,
                                 .has_tokenizer = m->tokenizer != NULL,
                                 .has_template = m->chat != NULL};
}
