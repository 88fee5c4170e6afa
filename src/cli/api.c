/* See api.h. */
#include "cli/api.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/num.h"
#include "cli/adapters.h"
#include "cli/input.h"
#include "cli/output.h"

#define CHUNK_MAX 8192 /* rows of one step at most; a greater --chunk asks for no more than that */

_Static_assert((int)MLXCEL_EINTERNAL == (int)ERR_INTERNAL && (int)MLXCEL_ECANCELLED == (int)ERR_CANCELLED &&
                   (int)MLXCEL_EUSAGE == (int)ERR_USAGE,
               "the API's codes are the library's");

int api_fault(const struct mlxcel_error *fault, struct error *e)
{
    return error_set(e, fault->code, fault->param, "%s", fault->message);
}

static int precision_of(const struct options *o)
{
    if (o->exact || strcmp(o->precision, "exact") == 0)
        return MLXCEL_PRECISION_EXACT;
    return strcmp(o->precision, "high") == 0 ? MLXCEL_PRECISION_HIGH : MLXCEL_PRECISION_DEFAULT;
}

int api_cache_type(const char *name)
{
    static const char *const names[] = {
        [MLXCEL_CACHE_F16] = "f16", [MLXCEL_CACHE_F32] = "f32", [MLXCEL_CACHE_Q8_0] = "q8_0"};
    for (int i = MLXCEL_CACHE_F16; i <= MLXCEL_CACHE_Q8_0; i++)
        if (!strcmp(name, names[i]))
            return i;
    return MLXCEL_CACHE_AUTO;
}

int api_options(const struct options *o, struct mlxcel_options *out, struct error *e)
{
    struct mlxcel_error fault = {0};
    *out = (struct mlxcel_options){
        .threads = (int)o->threads,
        .cpu_level = strcmp(o->cpu_level, "auto") == 0 ? NULL : o->cpu_level,
        .precision = precision_of(o),
        .cache_type_k = api_cache_type(o->cache_type_k),
        .cache_type_v = api_cache_type(o->cache_type_v),
        .context = (int)o->context,
        .chunk = (int)MIN(o->chunk, CHUNK_MAX),
        .log = err_log_line,
        .log_level = o->verbose ? MLXCEL_LOG_DEBUG : MLXCEL_LOG_WARNING,
    };
    if (mlxcel_check_options(out, &fault))
        return error_set(e, ERR_USAGE, fault.param, "%s", fault.message);
    return adapters_options(o, out, e);
}

/* Said here, before anything is loaded: the server could only tell it as a load that failed. */
static int check_kwargs(const char *text, struct error *e)
{
    struct error why = {0};
    json_t      *v = NULL;
    bool         good = !input_json(&v, str_of(text), "", &why) && json_is_object(v);
    json_decref(v);
    if (good || why.code == ERR_NOMEM)
        return good ? 0 : error_nomem(e, "the command line");
    return error_set(e, ERR_USAGE, NULL,
                     "--chat-template-kwargs takes a JSON object, such as {\"enable_thinking\": false}, not \"%s\"",
                     text);
}

int api_chat_options(const struct options *o, struct mlxcel_options *out, struct error *e)
{
    int rc = api_options(o, out, e);
    if (rc)
        return rc;
    out->chat_template = o->chat_template;
    out->chat_template_file = o->chat_template_file;
    out->chat_template_kwargs = o->chat_template_kwargs;
    return o->chat_template_kwargs ? check_kwargs(o->chat_template_kwargs, e) : 0;
}

int api_open(struct mlxcel **out, const char *model, const struct mlxcel_options *options, struct error *e)
{
    struct mlxcel_error fault = {0};
    return mlxcel_open(out, model, options, &fault) ? api_fault(&fault, e) : 0;
}

int api_directory(const char *model, char dir[PATH_MAX], struct error *e)
{
    struct mlxcel_error fault = {0};
    struct stat         st;
    char               *path = NULL;
    bool                literal = stat(model, &st) == 0 && S_ISDIR(st.st_mode);
    if (!literal && mlxcel_resolve(model, &path, &fault))
        return api_fault(&fault, e);
    int n = snprintf(dir, PATH_MAX, "%s", literal ? model : path);
    mlxcel_free(path);
    return n < PATH_MAX ? 0 : error_set(e, ERR_LIMIT, NULL, "the path %s is too long", model);
}

int api_tokenizer(const struct options *o, struct tokenizer **out, struct error *e)
{
    struct log log = err_log(o->verbose);
    char       dir[PATH_MAX];
    int        rc = api_directory(o->model, dir, e);
    return rc ? rc : tokenizer_load(out, dir, &log, e);
}
