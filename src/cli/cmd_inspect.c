/* `inspect`: whether a model will fit into memory, before it is loaded.
 *
 * What it needs is the weights, which are packed into about their own size, the cache of keys and values at the context
 * that -c asks for, the recurrent state of the sequences where the model has one, and a little for the program itself. What there is comes from /proc/meminfo (MemAvailable: without
 * swapping) and the limit of the control group.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "cli/api.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/table.h"

#define CONTEXT_DEFAULT_MAX 8192          /* as struct mlxcel_options has it */
#define PROGRAM_BYTES ((int64_t)60 << 20) /* activations, tokenizer, code: what is promised at most */

/* The number in kB after `key` in /proc/meminfo, in bytes; -1 if it is not there. */
static int64_t memory_available(void)
{
    FILE     *f = fopen("/proc/meminfo", "re");
    char      line[128];
    long long kb, found = -1;
    while (f && found < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kb) == 1)
            found = kb * 1024;
    if (f)
        fclose(f);
    return found;
}

/* A file that holds one number; -1 when it does not ("max") or is not there. */
static int64_t number_in(const char *path)
{
    FILE     *f = fopen(path, "re");
    long long v;
    bool      ok = f && fscanf(f, "%lld", &v) == 1;
    if (f)
        fclose(f);
    return ok ? v : -1;
}

static int64_t available_bytes(void)
{
    int64_t free_now = memory_available();
    int64_t limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
    if (limit >= 0 && used >= 0 && (free_now < 0 || limit - used < free_now))
        free_now = MAX(limit - used, 0);
    return free_now;
}

struct budget {
    const char *model_type;
    int64_t     context, weights, kv, state, total, available;
    bool        fits;
};

/* context: of all requests together; 0: the default for each. cache_type: as in `cache_types` of the facts. */
static bool budget_of(const json_t *facts, int64_t context, int64_t parallel, const char *cache_type, struct budget *b)
{
    int64_t       own = json_integer_value(json_object_get(facts, "context"));
    int64_t       per_token = json_integer_value(json_object_get(json_object_get(facts, "cache_types"), cache_type));
    const char   *type = json_string_value(json_object_get(facts, "model_type"));
    struct budget r = {.model_type = type ? type : "", .available = available_bytes()};
    r.context = context ? context : parallel * (own ? MIN(own, CONTEXT_DEFAULT_MAX) : CONTEXT_DEFAULT_MAX);
    r.weights = json_integer_value(json_object_get(facts, "bytes"));
    if (!num_mul(r.context, per_token, &r.kv) ||
        !num_mul(parallel, json_integer_value(json_object_get(facts, "state_bytes")), &r.state) ||
        !num_add(r.state, json_integer_value(json_object_get(facts, "snapshot_bytes")), &r.state) ||
        !num_add(r.weights, r.kv, &r.total) || !num_add(r.total, r.state, &r.total) ||
        !num_add(r.total, PROGRAM_BYTES, &r.total))
        return false;
    r.fits = r.available < 0 || r.total <= r.available;
    *b = r;
    return true;
}

static int print_json(const struct budget *b, struct error *e)
{
    json_t *available = b->available < 0 ? json_null() : json_integer(b->available);
    return output_json(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:b}", "model_type", b->model_type, "context",
                                 (json_int_t)b->context, "weights_bytes", (json_int_t)b->weights, "kv_bytes",
                                 (json_int_t)b->kv, "state_bytes", (json_int_t)b->state, "total_bytes",
                                 (json_int_t)b->total, "available_bytes", available, "fits", b->fits),
                       e);
}

static void print_text(const struct budget *b)
{
    char size[SIZE_TEXT];
    out_printf("model type  %s\n", b->model_type);
    out_printf("weights     %s\n", size_text(b->weights, size));
    out_printf("cache       %s for %lld tokens\n", size_text(b->kv, size), (long long)b->context);
    if (b->state)
        out_printf("state       %s, with snapshots for prompts that begin alike\n", size_text(b->state, size));
    out_printf("total       %s, with %s for the program\n", size_text(b->total, size),
               size_text(PROGRAM_BYTES, (char[SIZE_TEXT]){0}));
    out_printf("available   %s\n", b->available < 0 ? "unknown" : size_text(b->available, size));
    out_printf("fits        %s\n", b->fits ? "yes" : "no");
}

/* The type of cache that a load with these options would have. */
static int cache_type(const struct options *o, const char **type, struct error *e)
{
    struct mlxcel_options options = {.cache_type_k = api_cache_type(o->cache_type_k),
                                     .cache_type_v = api_cache_type(o->cache_type_v)};
    struct mlxcel_error   fault = {0};
    *type = options.cache_type_k == MLXCEL_CACHE_AUTO ? "f16" : o->cache_type_k;
    return mlxcel_check_options(&options, &fault) ? error_set(e, ERR_USAGE, fault.param, "%s", fault.message) : 0;
}

int cmd_inspect(const struct options *o, struct error *e)
{
    struct mlxcel_error fault = {0};
    struct budget       b;
    char               *json = NULL;
    const char         *type;
    json_t             *facts;
    int                 rc = cache_type(o, &type, e);
    if (rc)
        return rc;
    if (mlxcel_describe(o->model, &json, &fault))
        return api_fault(&fault, e);
    facts = table_parse(json, e);
    if (!facts)
        rc = e->code;
    else if (!budget_of(facts, o->context, o->parallel, type, &b))
        rc = error_set(e, ERR_LIMIT, NULL, "%s: the cache of %lld tokens has more bytes than can be counted", o->model,
                       (long long)o->context);
    else if (o->json)
        rc = print_json(&b, e);
    else
        print_text(&b);
    json_decref(facts);
    mlxcel_free(json);
    return rc;
}
