/* Reading generation requests; contracts in params.h. */
#include "server/params.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/num.h"
#include "server/lora.h"

#define ALL (API_CHAT | API_COMPLETIONS | API_NATIVE)
#define CHATS (API_CHAT | API_TEMPLATE)
#define STOPS_MAX 32
#define STOP_IDS_MAX 256
#define BIAS_MAX 4096

enum kind { KIND_NUM, KIND_INT, KIND_FLAG, KIND_UNSUPPORTED };

static const struct field {
    const char *name;
    unsigned    apis;
    enum kind   kind;
    size_t      offset;
    double      lo, hi;
    const char *neutral;
} fields[] = {
#define NUM(name, apis, member, lo, hi)                                                                                \
    {name, apis, KIND_NUM, offsetof(struct request_params, sampling.member), lo, hi, NULL},
#define INT(name, apis, target, lo, hi) {name, apis, KIND_INT, offsetof(struct request_params, target), lo, hi, NULL},
#define FLAG(name, apis, target) {name, apis, KIND_FLAG, offsetof(struct request_params, target), 0, 0, NULL},
#define UNSUPPORTED(name, apis, neutral) {name, apis, KIND_UNSUPPORTED, 0, 0, 0, neutral},
#include "server/params.def"
};

/* The field, or NULL when it is absent or null. */
static json_t *get(json_t *body, const char *name)
{
    json_t *v = json_object_get(body, name);
    return json_is_null(v) ? NULL : v;
}

static int bad(struct error *e, const char *name, const char *need)
{
    return error_set(e, ERR_INVALID, name, "%s must be %s", name, need);
}

static int read_number(void *at, const struct field *f, const json_t *v, struct error *e)
{
    if (!json_is_number(v))
        return bad(e, f->name, "a number");
    double d = json_number_value(v);
    if (d < f->lo || d > f->hi)
        return error_set(e, ERR_INVALID, f->name, "%s is %g, a number from %g to %g is allowed", f->name, d, f->lo,
                         f->hi);
    *(float *)at = (float)d;
    return 0;
}

static int read_int(void *at, const struct field *f, const json_t *v, struct error *e)
{
    double d = json_number_value(v);
    if (!json_is_number(v) || d != floor(d))
        return bad(e, f->name, "a whole number");
    if (d < f->lo)
        return error_set(e, ERR_INVALID, f->name, "%s is %.0f, at least %.0f is allowed", f->name, d, f->lo);
    if (d > f->hi && f->hi < INT_MAX)
        return error_set(e, ERR_INVALID, f->name, "%s is %.0f, at most %.0f is allowed", f->name, d, f->hi);
    *(int *)at = d > INT_MAX ? INT_MAX : (int)d;
    return 0;
}

static int read_flag(void *at, const struct field *f, const json_t *v, struct error *e)
{
    if (!json_is_boolean(v))
        return bad(e, f->name, "true or false");
    *(bool *)at = json_is_true(v);
    return 0;
}

static int refuse_unless_neutral(const struct field *f, const json_t *v, struct error *e)
{
    json_t *neutral = json_loads(f->neutral, JSON_DECODE_ANY, NULL);
    bool    same = json_equal(v, neutral) ||
                (json_is_number(v) && json_is_number(neutral) && json_number_value(v) == json_number_value(neutral));
    json_decref(neutral);
    return same ? 0 : error_set(e, ERR_INVALID, f->name, "%s is not supported", f->name);
}

static int read_fields(struct request_params *p, json_t *body, enum api api, struct error *e)
{
    int err = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields) && !err; i++) {
        const struct field *f = &fields[i];
        const json_t       *v = get(body, f->name);
        void               *at = (char *)p + f->offset;
        if (!v || !(f->apis & api))
            continue;
        switch (f->kind) {
        case KIND_NUM:
            err = read_number(at, f, v, e);
            break;
        case KIND_INT:
            err = read_int(at, f, v, e);
            break;
        case KIND_FLAG:
            err = read_flag(at, f, v, e);
            break;
        case KIND_UNSUPPORTED:
            err = refuse_unless_neutral(f, v, e);
            break;
        }
    }
    return err;
}

static int read_seed(struct request_params *p, json_t *body, struct error *e)
{
    json_t *v = get(body, "seed");
    if (v && !json_is_integer(v))
        return bad(e, "seed", "a whole number");
    if (v && json_integer_value(v) >= 0)
        p->sampling.seed = (uint64_t)json_integer_value(v);
    else if (getrandom(&p->sampling.seed, sizeof p->sampling.seed, 0) < 0)
        p->sampling.seed = 0;
    return 0;
}

static int read_stop(struct request_params *p, json_t *body, struct error *e)
{
    json_t *v = get(body, "stop");
    size_t  n = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;
    if (!v)
        return 0;
    if (n > STOPS_MAX)
        return error_set(e, ERR_INVALID, "stop", "stop has %zu strings, at most %d are allowed", n, STOPS_MAX);
    p->stop = calloc(n + 1, sizeof *p->stop);
    if (!p->stop)
        return error_nomem(e, "the request");
    for (size_t i = 0; i < n; i++) {
        p->stop[i] = json_string_value(json_is_array(v) ? json_array_get(v, i) : v);
        if (!p->stop[i])
            return bad(e, "stop", "a string or a list of strings");
    }
    p->sampling.stop = p->stop;
    p->sampling.n_stop = n;
    return 0;
}

static int read_stop_ids(struct request_params *p, json_t *body, int n_vocab, struct error *e)
{
    json_t *v = get(body, "stop_token_ids"), *id;
    size_t  i;
    if (!v)
        return 0;
    if (!json_is_array(v))
        return bad(e, "stop_token_ids", "a list of token ids");
    if (json_array_size(v) > STOP_IDS_MAX)
        return error_set(e, ERR_INVALID, "stop_token_ids", "stop_token_ids has %zu ids, at most %d are allowed",
                         json_array_size(v), STOP_IDS_MAX);
    p->stop_ids = calloc(json_array_size(v) + 1, sizeof *p->stop_ids);
    if (!p->stop_ids)
        return error_nomem(e, "the request");
    json_array_foreach(v, i, id)
    {
        if (!json_is_integer(id))
            return bad(e, "stop_token_ids", "a list of token ids");
        if (json_integer_value(id) < 0 || json_integer_value(id) >= n_vocab)
            return error_set(e, ERR_INVALID, "stop_token_ids",
                             "stop_token_ids names token %lld, outside the vocabulary (0 to %d)",
                             (long long)json_integer_value(id), n_vocab - 1);
        p->stop_ids[i] = (int32_t)json_integer_value(id);
    }
    p->sampling.stop_ids = p->stop_ids;
    p->sampling.n_stop_ids = json_array_size(v);
    return 0;
}

static int add_bias(struct request_params *p, int64_t token, const json_t *value, int n_vocab, struct error *e)
{
    if (token < 0 || token >= n_vocab)
        return error_set(e, ERR_INVALID, "logit_bias", "logit_bias names token %lld, outside the vocabulary (0 to %d)",
                         (long long)token, n_vocab - 1);
    if (!json_is_number(value) && !json_is_false(value))
        return bad(e, "logit_bias", "numbers by token id (false bans a token)");
    if (p->sampling.n_logit_bias == BIAS_MAX)
        return error_set(e, ERR_INVALID, "logit_bias", "logit_bias has more than %d entries", BIAS_MAX);
    p->bias[p->sampling.n_logit_bias++] = (struct mlxcel_logit_bias){
        .token = (int32_t)token, .bias = json_is_false(value) ? -INFINITY : (float)json_number_value(value)};
    return 0;
}

/* An entry whose key is a text biases every token of it, as llama-server does. */
static int add_bias_text(struct request_params *p, const char *text, const json_t *value, const struct mlxcel *m,
                         int n_vocab, struct error *e)
{
    int32_t *ids = NULL;
    size_t   n = 0;
    int      err = mlxcel_tokenize(m, text, strlen(text), MLXCEL_PARSE_SPECIAL, &ids, &n, NULL);
    if (err)
        return error_set(e, err, "logit_bias", "logit_bias: \"%s\" cannot be tokenized", text);
    for (size_t i = 0; i < n && !err; i++)
        err = add_bias(p, ids[i], value, n_vocab, e);
    mlxcel_free(ids);
    return err;
}

static int read_bias(struct request_params *p, json_t *body, const struct mlxcel *m, int n_vocab, struct error *e)
{
    json_t     *v = get(body, "logit_bias"), *entry;
    const char *key;
    size_t      i;
    int64_t     id;
    int         err = 0;
    if (!v)
        return 0;
    p->bias = calloc(BIAS_MAX, sizeof *p->bias);
    if (!p->bias)
        return error_nomem(e, "the request");
    p->sampling.logit_bias = p->bias;
    if (json_is_object(v)) {
        json_object_foreach(v, key, entry)
        {
            err = num_parse_i64(key, &id) ? add_bias(p, id, entry, n_vocab, e)
                                          : add_bias_text(p, key, entry, m, n_vocab, e);
            if (err)
                return err;
        }
        return 0;
    }
    if (!json_is_array(v))
        return bad(e, "logit_bias", "an object of token ids, or a list of pairs");
    json_array_foreach(v, i, entry)
    {
        const json_t *what = json_array_get(entry, 0), *value = json_array_get(entry, 1);
        if (json_array_size(entry) != 2 || !(json_is_integer(what) || json_is_string(what)))
            return bad(e, "logit_bias", "an object of token ids, or a list of pairs");
        err = json_is_integer(what) ? add_bias(p, json_integer_value(what), value, n_vocab, e)
                                    : add_bias_text(p, json_string_value(what), value, m, n_vocab, e);
        if (err)
            return err;
    }
    return 0;
}

static int read_count(json_t *body, const char *name, int most, int *out, struct error *e)
{
    json_t *v = get(body, name);
    if (!v)
        return 0;
    if (!json_is_integer(v))
        return bad(e, name, "a whole number");
    if (json_integer_value(v) < 0 || json_integer_value(v) > most)
        return error_set(e, ERR_INVALID, name, "%s is %lld, 0 to %d is allowed", name, (long long)json_integer_value(v),
                         most);
    *out = (int)json_integer_value(v);
    return 0;
}

/* Chat: logprobs true|false with top_logprobs; completions: logprobs 0..20; native: n_probs. */
static int read_logprobs(struct request_params *p, json_t *body, enum api api, struct error *e)
{
    json_t *v = get(body, "logprobs");
    int     n = -1, err;
    if (api == API_NATIVE) {
        err = read_count(body, "n_probs", 20, &n, e);
        p->logprobs = n > 0;
    } else if (api == API_COMPLETIONS && !json_is_boolean(v)) {
        err = read_count(body, "logprobs", 20, &n, e);
        p->logprobs = n >= 0;
    } else {
        if (v && !json_is_boolean(v))
            return bad(e, "logprobs", "true or false");
        p->logprobs = json_is_true(v);
        n = 0;
        err = read_count(body, "top_logprobs", 20, &n, e);
        if (!err && n > 0 && !p->logprobs)
            return error_set(e, ERR_INVALID, "top_logprobs", "top_logprobs needs logprobs to be true");
    }
    p->sampling.n_probs = p->logprobs ? n : -1;
    return err;
}

static int read_lora(struct request_params *p, json_t *body, struct error *e)
{
    json_t *v = get(body, "lora");
    if (!v)
        return 0;
    int err = lora_read_list(v, "lora", &p->lora, &p->sampling.n_lora, e);
    p->sampling.lora = p->lora;
    return err;
}

static int read_stream_options(struct request_params *p, json_t *body, struct error *e)
{
    json_t *v = get(body, "stream_options");
    if (!v)
        return 0;
    json_t *usage = json_is_object(v) ? get(v, "include_usage") : NULL;
    if (!json_is_object(v) || (usage && !json_is_boolean(usage)))
        return bad(e, "stream_options", "an object whose include_usage is true or false");
    p->include_usage = json_is_true(usage);
    return 0;
}

/* A flag of a chat's text, from the request or else, as vLLM allows, from the template's variables. */
static int read_chat_flag(json_t *body, const char *name, bool *value, bool *given, struct error *e)
{
    json_t *v = get(body, name);
    if (!v)
        v = get(get(body, "chat_template_kwargs"), name);
    if (v && !json_is_boolean(v))
        return bad(e, name, "true or false");
    *given = v != NULL;
    if (v)
        *value = json_is_true(v);
    return 0;
}

/* How a chat's text ends: with the beginning of an answer, in the middle of the last message, or behind it. */
static int read_ending(struct request_params *p, json_t *body, struct error *e)
{
    bool given;
    int  err = read_chat_flag(body, "continue_final_message", &p->continue_final_message, &given, e);
    p->add_generation_prompt = !p->continue_final_message;
    if (!err)
        err = read_chat_flag(body, "add_generation_prompt", &p->add_generation_prompt, &given, e);
    if (!err && p->add_generation_prompt && p->continue_final_message)
        err = error_set(e, ERR_INVALID, "continue_final_message",
                        "continue_final_message and add_generation_prompt cannot both be true");
    return err;
}

/* Tools are not supported, but a list that the model is told not to use may be there: it is left out, as in llama-server. */
static int read_tools(json_t *body, const char *list, const char *choice, struct error *e)
{
    json_t     *tools = get(body, list);
    const char *word = json_string_value(get(body, choice));
    if (tools && !json_is_array(tools))
        return bad(e, list, "a list");
    if (json_array_size(tools) && !(word && !strcmp(word, "none")))
        return error_set(e, ERR_INVALID, list, "%s are not supported", list);
    return 0;
}

static int read_chat(struct request_params *p, json_t *body, struct error *e)
{
    int err = read_ending(p, body, e);
    if (!err)
        err = read_tools(body, "tools", "tool_choice", e);
    return err ? err : read_tools(body, "functions", "function_call", e);
}

int params_read(struct request_params *p, json_t *body, enum api api, const struct mlxcel *m, int n_vocab,
                struct error *e)
{
    json_t *cache = get(body, "cache_prompt"), *model = get(body, "model");
    memset(p, 0, sizeof *p);
    mlxcel_params_chat(&p->sampling);
    p->sampling.penalty_window = 64;
    p->n = 1;
    p->parse_special = true;
    int err = read_fields(p, body, api, e);
    if (!err && (api & CHATS))
        err = read_chat(p, body, e);
    if (err || api == API_TEMPLATE)
        return err;
    err = read_seed(p, body, e);
    if (!err)
        err = read_stop(p, body, e);
    if (!err)
        err = read_stop_ids(p, body, n_vocab, e);
    if (!err)
        err = read_bias(p, body, m, n_vocab, e);
    if (!err)
        err = read_logprobs(p, body, api, e);
    if (!err)
        err = read_stream_options(p, body, e);
    if (!err)
        err = read_lora(p, body, e);
    if (!err && model && !json_is_string(model)) /* what it names: lora_choose_model */
        err = bad(e, "model", "a string");
    if (!err && cache && !json_is_boolean(cache))
        err = bad(e, "cache_prompt", "true or false");
    p->sampling.no_cache_prompt = json_is_false(cache);
    p->sampling.top_k = MAX(p->sampling.top_k, 0);
    if (!err && json_is_number(get(body, "top_p")) && p->sampling.top_p == 0)
        p->sampling.top_p = 1e-6f; /* the most likely token alone; 0 in mlxcel_params is "off" */
    return err;
}

void params_deinit(struct request_params *p)
{
    free(p->stop);
    free(p->bias);
    free(p->stop_ids);
    free(p->lora);
    free(p->model);
    memset(p, 0, sizeof *p);
}
