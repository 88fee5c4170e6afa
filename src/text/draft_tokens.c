/* The special and added tokens of a draft, from the files beside the vocabulary, in the order in which transformers adds
 * them: added_tokens_decoder of tokenizer_config.json by its ids, else added_tokens.json; the named ones (bos_token, ...);
 * further named ones ("image_token", ...); additional_special_tokens. special_tokens_map.json counts only where
 * added_tokens_decoder is missing, and then before tokenizer_config.json. */
#include "text/draft.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"

struct reading {
    struct draft *d;
    json_t       *known;   /* contents of the tokens up to added_tokens_decoder's -> their places in d->tokens */
    json_t       *named;   /* contents of the named tokens, as keys */
    bool          decoder; /* there is an added_tokens_decoder */
};

static int malformed(struct reading *r, const char *key)
{
    return error_set(r->d->e, ERR_FORMAT, key, "%s: in the files beside it, %s is malformed", r->d->path, key);
}

int draft_add_token(struct draft *d, const struct draft_token *token)
{
    struct draft_token *v = vec_room(d->tokens, d->n_tokens, &d->cap_tokens, sizeof *v);
    if (!v)
        return draft_nomem(d);
    d->tokens = v;
    d->tokens[d->n_tokens++] = *token;
    return 0;
}

/* Remembers the tokens from place `from` on. */
static int remember(struct reading *r, size_t from)
{
    for (size_t i = from; i < r->d->n_tokens; i++) {
        struct str s = r->d->tokens[i].content;
        if (json_object_setn_new(r->known, s.p, s.n, json_integer((json_int_t)i)))
            return draft_nomem(r->d);
    }
    return 0;
}

/* A token as the files write it: a string, or an object with "content" and flags. `special` and its normalization are
 * what holds where the object does not say. The content is a view of the document. */
static int read_token(struct reading *r, const json_t *v, const char *key, bool special, struct draft_token *out)
{
    const json_t *content = json_is_object(v) ? json_object_get(v, "content") : v;
    const json_t *flag = json_object_get(v, "special");
    if (!json_is_string(content))
        return malformed(r, key);
    *out = (struct draft_token){.content = {json_string_value(content), json_string_length(content)}, .id = -1};
    out->special = json_is_boolean(flag) ? json_is_true(flag) : special;
    out->normalized = !out->special;
    if ((flag = json_object_get(v, "normalized")) && json_is_boolean(flag))
        out->normalized = json_is_true(flag);
    out->single_word = json_is_true(json_object_get(v, "single_word"));
    out->lstrip = json_is_true(json_object_get(v, "lstrip"));
    out->rstrip = json_is_true(json_object_get(v, "rstrip"));
    return 0;
}

/* ---- added_tokens_decoder and added_tokens.json ---- */

static int by_id(const void *a, const void *b)
{
    const struct draft_token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int sort(struct reading *r, size_t from)
{
    if (r->d->n_tokens > from)
        qsort(r->d->tokens + from, r->d->n_tokens - from, sizeof *r->d->tokens, by_id);
    return remember(r, from);
}

static int read_decoder(struct reading *r, const json_t *table)
{
    size_t      from = r->d->n_tokens;
    const char *key;
    json_t     *v;
    int         status;
    json_object_foreach((json_t *)table, key, v)
    {
        struct draft_token t = {0};
        int64_t            id;
        if (!num_parse_i64(key, &id) || id < 0 || !json_is_object(v))
            return malformed(r, "added_tokens_decoder");
        if ((status = read_token(r, v, "added_tokens_decoder", false, &t)) != 0)
            return status;
        t.id = id;
        t.normalized &= !r->d->raw_decoder;
        if (t.content.n && (status = draft_add_token(r->d, &t)) != 0)
            return status;
    }
    return sort(r, from);
}

/* {"content": id, ...}; a token is special if a name or the list of further special tokens has it. */
static int read_added_file(struct reading *r, const json_t *table)
{
    size_t      from = r->d->n_tokens, n;
    const char *key;
    json_t     *v;
    int         status;
    json_object_keylen_foreach((json_t *)table, key, n, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return malformed(r, "added_tokens.json");
        struct draft_token t = {.content = {key, n}, .normalized = !r->d->raw_decoder, .id = json_integer_value(v)};
        if (t.content.n && (status = draft_add_token(r->d, &t)) != 0)
            return status;
    }
    return sort(r, from);
}

/* ---- named tokens ---- */

static const json_t *lookup(const struct reading *r, const char *key)
{
    const json_t *v = r->decoder ? NULL : json_object_get(r->d->special, key);
    return v ? v : json_object_get(r->d->config, key);
}

/* Adds a named token, also where one of the same content was added that way before: the last one's flags count. A known
 * one just becomes special. */
static int add_named(struct reading *r, const struct draft_token *token)
{
    struct str    s = token->content;
    const json_t *at = json_object_getn(r->known, s.p, s.n);
    if (!s.n)
        return 0;
    if (json_object_setn_new(r->named, s.p, s.n, json_true()))
        return draft_nomem(r->d);
    if (!at)
        return draft_add_token(r->d, token);
    struct draft_token *old = &r->d->tokens[json_integer_value(at)];
    if (!old->special) {
        old->special = true;
        old->normalized &= r->decoder;
    }
    return 0;
}

static int read_named(struct reading *r, int i)
{
    const json_t      *v = lookup(r, named_keys[i]);
    struct str        *name = &r->d->named[i];
    struct draft_token t = {.content = *name, .special = true, .id = -1};
    int                status;
    if (json_is_null(v))
        *name = t.content = (struct str){0};
    else if (v && (status = read_token(r, v, named_keys[i], true, &t)) != 0)
        return status;
    t.special = true;
    *name = t.content;
    return add_named(r, &t);
}

static bool is_further_name(const char *key, const json_t *v)
{
    size_t n = strlen(key);
    for (int i = 0; i < NAMED_COUNT; i++)
        if (!strcmp(key, named_keys[i]))
            return false;
    return n > 6 && !strcmp(key + n - 6, "_token") &&
           (json_is_string(v) || json_is_string(json_object_get(v, "content")));
}

/* Keys such as "image_token", and an extra_special_tokens that is an object of such. */
static int read_further(struct reading *r, const json_t *table, bool all)
{
    const char        *key;
    json_t            *v;
    struct draft_token t = {0};
    int                status = 0;
    json_object_foreach((json_t *)table, key, v)
    {
        if (!all && !is_further_name(key, v))
            continue;
        if ((status = read_token(r, v, key, true, &t)) != 0 || (status = add_named(r, &t)) != 0)
            break;
    }
    return status;
}

/* ---- the rest ---- */

/* Adds a token that has no name. A known one stays as it is, but added_tokens.json has no flags, so there it becomes
 * special. */
static int add_further(struct reading *r, struct draft_token token)
{
    struct str    s = token.content;
    const json_t *at = json_object_getn(r->known, s.p, s.n);
    if (!s.n)
        return 0;
    if (at && !r->decoder && token.special) {
        r->d->tokens[json_integer_value(at)].special = true;
        r->d->tokens[json_integer_value(at)].normalized = false;
    }
    token.special |= json_object_getn(r->named, s.p, s.n) != NULL;
    return at ? 0 : draft_add_token(r->d, &token);
}

static int read_list(struct reading *r, const json_t *list)
{
    size_t             i;
    json_t            *v;
    struct draft_token t = {0};
    int                status = 0;
    json_array_foreach((json_t *)list, i, v)
    {
        if ((status = read_token(r, v, "additional_special_tokens", true, &t)) != 0)
            break;
        t.special = true;
        if ((status = add_further(r, t)) != 0)
            break;
    }
    return status;
}

static int read_extra(struct reading *r, const struct draft_token *extra, size_t n_extra)
{
    const struct draft *d = r->d;
    const json_t       *list = json_object_get(d->config, "extra_special_tokens");
    bool named = json_object_size(list) > 0; /* then the vocabulary file's list goes before the other one */
    int  status = 0;
    if (!json_is_array(list))
        list = named && n_extra ? NULL : json_object_get(d->config, "additional_special_tokens");
    if (!list && !n_extra && !r->decoder)
        list = json_object_get(d->special, "additional_special_tokens");
    if (list && !json_is_null(list) && !json_is_array(list))
        return malformed(r, "additional_special_tokens");
    if (list)
        return read_list(r, list);
    for (size_t i = 0; i < n_extra && !status; i++)
        status = add_further(r, extra[i]);
    return status;
}

int draft_read_tokens(struct draft *d, const struct draft_token *extra, size_t n_extra)
{
    const json_t  *decoder = json_object_get(d->config, "added_tokens_decoder");
    struct reading r = {d, json_object(), json_object(), decoder != NULL};
    int            status = r.known && r.named ? 0 : draft_nomem(d);
    if (!status)
        status = remember(&r, 0);
    if (!status && decoder && !json_is_object(decoder))
        status = malformed(&r, "added_tokens_decoder");
    if (!status)
        status = decoder ? read_decoder(&r, decoder) : read_added_file(&r, d->added);
    for (int i = 0; i < NAMED_COUNT && !status; i++)
        status = read_named(&r, i);
    if (!status)
        status = read_further(&r, d->config, false);
    if (!status)
        status = read_further(&r, json_object_get(d->config, "extra_special_tokens"), true);
    if (!status)
        status = read_extra(&r, extra, n_extra);
    json_decref(r.known);
    json_decref(r.named);
    return status;
}
