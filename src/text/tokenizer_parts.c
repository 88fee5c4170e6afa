/* Reading of the small components of tokenizer.json: normalizer, pre-tokenizer, post-processor, decoder, added tokens.
 */
#include "base/pyjson.h"
#include "text/tokenizer_load.h"

#define PART_MAX ((size_t)64 << 20) /* bytes; 200,000 added tokens, indented, take about 40 MB */

/* --- added tokens ----------------------------------------------------------------------------------------------- */

/* The text that is looked for and decoded: normalized if the token is. */
static int set_spelling(struct loader *l, struct added_token *a)
{
    struct normalizer_scratch s;
    struct finder_run         find = {0};
    struct str                out;
    int                       status;
    a->spelling = a->content;
    if (!a->normalized || !l->t->normalizer.n)
        return 0;
    normalizer_scratch_init(&s);
    regex_run_init(&find.regex, a->content.n);
    status = normalizer_run(&l->t->normalizer, a->content, &s, &find, &out, l->e);
    if (!status && !str_eq(out, a->content)) {
        a->spelling = (struct str){arena_strdup(&l->t->arena, out.p, out.n), out.n};
        if (!a->spelling.p)
            status = loader_nomem(l);
    }
    regex_run_deinit(&find.regex);
    normalizer_scratch_deinit(&s);
    return status;
}

static int check_added(struct loader *l, const struct added_token *a, int64_t id)
{
    if (id < 0 || id >= l->id_limit)
        return error_set(l->e, ERR_LIMIT, NULL,
                         "%s: added token " QUOTED " has id %lld; a file of this size may use ids from 0 to %lld",
                         l->path, QUOTE(a->content), (long long)id, (long long)l->id_limit - 1);
    if (a->content.n > ADDED_TEXT_MAX)
        return error_set(l->e, ERR_LIMIT, NULL, "%s: added token " QUOTED "... is longer than %d bytes", l->path,
                         QUOTE(a->content), ADDED_TEXT_MAX);
    return 0;
}

static int read_added(struct loader *l, const json_t *list)
{
    struct component c = {&l->t->arena, "added_tokens", l->e};
    size_t           i;
    json_t          *o;
    int              status = 0;
    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list))
        return loader_malformed(l, "\"added_tokens\" is not a list");
    json_array_foreach((json_t *)list, i, o)
    {
        struct added_token a = {.id = -1};
        int64_t            id = -1;
        if (field_text(&c, o, "content", &a.content) || field_int(&c, o, "id", &id) ||
            field_bool(&c, o, "single_word", &a.single_word) || field_bool(&c, o, "lstrip", &a.lstrip) ||
            field_bool(&c, o, "rstrip", &a.rstrip) || field_bool(&c, o, "special", &a.special))
            return error_prefix(l->e, "%s", l->path);
        a.normalized = !a.special;
        if (field_bool(&c, o, "normalized", &a.normalized))
            return error_prefix(l->e, "%s", l->path);
        if (!a.content.n)
            continue;
        if ((status = check_added(l, &a, id)) != 0 || (status = set_spelling(l, &a)) != 0)
            return status;
        a.file_id = (int32_t)id;
        if (!added_put(&l->t->added, &a))
            return loader_nomem(l);
    }
    return 0;
}

/* The reference gives a token the id that its text has in the vocabulary, else the next one after all others, whatever
 * the file says; a file it wrote says the same. Of entries with the same text the last one's flags count. */
static void resolve_added(struct loader *l)
{
    struct tokenizer *t = l->t;
    int32_t           next = (int32_t)t->vocab.count;
    for (size_t i = 0; i < t->added.n; i++) {
        const struct added_token *a = &t->added.v[i];
        struct added_token       *last = &t->added.v[vocab_find(&t->added_index, a->content)];
        if (last->id >= 0)
            continue;
        last->id = vocab_find(&t->vocab, a->content);
        if (last->id < 0)
            last->id = next;
        next = MAX(next, last->id + 1);
        t->size = MAX(t->size, last->id + 1);
        if (last->id != a->file_id)
            log_warning(l->log, "%s: added token " QUOTED " has id %d in the file but becomes %d", l->path,
                        QUOTE(a->content), a->file_id, last->id);
    }
}

int loader_index_added(struct loader *l)
{
    struct tokenizer *t = l->t;
    int32_t           a, b;
    for (size_t i = 0; i < t->added.n; i++)
        if (!vocab_put(&t->added_index, (int32_t)i, t->added.v[i].content))
            return loader_nomem(l);
    if (!vocab_index(&t->added_index, &a, &b))
        return loader_nomem(l);
    t->size = (int)t->vocab.size;
    resolve_added(l);
    return added_index(&t->added, (size_t)t->size) ? 0 : loader_nomem(l);
}

/* --- components ------------------------------------------------------------------------------------------------- */

static int load_part(struct loader *l, enum part part, const json_t *o)
{
    struct component c = {&l->t->arena, loader_part_names[part], l->e};
    int              status = 0;
    switch (part) {
    case ADDED_TOKENS:
        return read_added(l, o);
    case NORMALIZER:
        status = normalizer_load(&l->t->normalizer, &c, o);
        break;
    case PRE_TOKENIZER:
        status = pretok_load(&l->t->pretok, &c, o);
        break;
    case POST_PROCESSOR:
        status = postproc_load(&l->t->postproc, &c, o);
        break;
    default:
        status = decoder_load(&l->t->decoder, &c, o);
    }
    return status ? error_prefix(l->e, "%s", l->path) : 0;
}

int loader_read_part(struct loader *l, enum part part)
{
    const char *name = loader_part_names[part];
    struct str  text = l->parts[part];
    json_t     *doc = NULL;
    int         status;
    if (text.n > PART_MAX)
        return error_set(l->e, ERR_LIMIT, NULL, "%s: %s takes %zu bytes; the limit is %zu", l->path, name, text.n,
                         PART_MAX);
    if (text.p && pyjson_parse(&doc, text, name, l->e))
        return error_prefix(l->e, "%s", l->path);
    status = load_part(l, part, doc);
    json_decref(doc);
    return status;
}
