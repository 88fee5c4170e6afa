/* Reading of the small components of tokenizer.json: normalizer, pre-tokenizer, post-processor, decoder, added tokens.
 */
#include "base/pyjson.h"
#include "text/tokenizer_load.h"

#define PART_MAX ((size_t)64 << 20) /* bytes; 200,000 added tokens, indented, take about 40 MB */

/* --- added tokens ----------------------------------------------------------------------------------------------- */

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

static int read_one_added(struct loader *l, const json_t *o, struct speller *s)
{
    struct component   c = {&l->t->arena, "added_tokens", l->e};
    struct added_token a = {.id = -1};
    int64_t            id = -1;
    int                status;
    if (field_text(&c, o, "content", &a.content) || field_int(&c, o, "id", &id) ||
        field_bool(&c, o, "single_word", &a.single_word) || field_bool(&c, o, "lstrip", &a.lstrip) ||
        field_bool(&c, o, "rstrip", &a.rstrip) || field_bool(&c, o, "special", &a.special))
        return error_prefix(l->e, "%s", l->path);
    a.normalized = !a.special;
    if (field_bool(&c, o, "normalized", &a.normalized))
        return error_prefix(l->e, "%s", l->path);
    if (!a.content.n)
        return 0;
    a.file_id = (int32_t)id;
    if ((status = check_added(l, &a, id)) != 0)
        return status;
    return tokenizer_add(l->t, &a, s, l->e) ? error_prefix(l->e, "%s", l->path) : 0;
}

static int read_added(struct loader *l, const json_t *list)
{
    struct speller s;
    size_t         i;
    json_t        *o;
    int            status = 0;
    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list))
        return loader_malformed(l, "\"added_tokens\" is not a list");
    speller_init(&s, l->parts[ADDED_TOKENS].n);
    json_array_foreach((json_t *)list, i, o)
    {
        if ((status = read_one_added(l, o, &s)) != 0)
            break;
    }
    speller_deinit(&s);
    return status;
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
