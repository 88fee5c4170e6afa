/* Added tokens that tokenizer_config.json has and tokenizer.json lacks, as transformers' AutoTokenizer adds them: a text is
 * then one token in prompts though tokenizer.json alone would split it. See docs/decisions/0005-tokenizer-config.md for
 * what is followed and what is not.
 *
 * A token is taken if its text is in the vocabulary, so that it keeps its id, or if the id that it would get, the next
 * free one, is the one that the file names. */
#include <stdlib.h>

#include "base/num.h"
#include "base/pyjson.h"
#include "text/tokenizer_int.h"

struct missing {
    const struct tokenizer *t;
    json_t                 *list;   /* as tokenizer.json's added_tokens */
    json_t                 *listed; /* an object with their contents as keys */
    struct added_numbering  numbering;
    bool                    failed;
};

static bool flag(const json_t *o, const char *key, bool otherwise)
{
    const json_t *v = json_object_get(o, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static void append(struct missing *m, json_int_t id, struct str text, bool single, bool lstrip, bool rstrip,
                   bool normalized, bool special)
{
    json_t *o = json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", text.p, text.n, "single_word",
                          single, "lstrip", lstrip, "rstrip", rstrip, "normalized", normalized, "special", special);
    m->failed |=
        json_array_append_new(m->list, o) != 0 || json_object_setn_new(m->listed, text.p, text.n, json_null()) != 0;
}

/* o: a text, or an object with one and flags. id: the one that the file names, -1 if none. special: whatever o says. */
static void offer(struct missing *m, const json_t *o, json_int_t id, bool special)
{
    const json_t *content = json_is_object(o) ? json_object_get(o, "content") : o;
    struct str    text = {json_string_value(content), json_string_length(content)};
    if (!json_is_string(content) || !text.n || vocab_find(&m->t->added_index, text) >= 0 ||
        json_object_getn(m->listed, text.p, text.n))
        return;
    if (id != m->numbering.next && vocab_find(&m->t->vocab, text) < 0)
        return;
    special |= flag(o, "special", false);
    append(m, added_number(&m->numbering, text), text, flag(o, "single_word", false), flag(o, "lstrip", false),
           flag(o, "rstrip", false), flag(o, "normalized", !special), special);
}

/* added_tokens_decoder: {"ID": {"content", flags}}, in the order of the ids. */
static void offer_decoder(struct missing *m, const json_t *table)
{
    const char *key;
    json_t     *o;
    json_object_foreach((json_t *)table, key, o)
    {
        const json_t *content = json_object_get(o, "content");
        struct str    text = {json_string_value(content), json_string_length(content)};
        if (json_is_string(content) && vocab_find(&m->t->vocab, text) >= 0)
            offer(m, o, -1, false);
    }
    for (bool more = json_object_size(table) > 0; more && !m->failed;) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)m->numbering.next);
        int64_t before = m->numbering.next;
        offer(m, json_object_get(table, name), before, false);
        more = m->numbering.next > before;
    }
}

/* A list of tokens, or an object whose members are. */
static void offer_each(struct missing *m, const json_t *tokens)
{
    const char *key;
    json_t     *o;
    size_t      i;
    json_object_foreach((json_t *)tokens, key, o) offer(m, o, -1, true);
    json_array_foreach((json_t *)tokens, i, o) offer(m, o, -1, true);
}

static void offer_all(struct missing *m, const json_t *config)
{
    offer_decoder(m, json_object_get(config, "added_tokens_decoder"));
    for (size_t i = 0; i < NAMED_COUNT; i++)
        offer(m, json_object_get(config, named_keys[i]), -1, true);
    offer_each(m, json_object_get(config, "extra_special_tokens"));
    offer_each(m, json_object_get(config, "additional_special_tokens"));
}

int tokenizer_missing(const struct tokenizer *t, const json_t *config, struct buf *out, size_t *own, struct error *e)
{
    struct missing m = {.t = t, .list = json_array(), .listed = json_object()};
    char          *text = NULL;
    m.failed = !m.list || !m.listed;
    added_numbering_init(&m.numbering, &t->vocab, t->vocab.count);
    for (size_t i = 0; i < t->added.n && !m.failed; i++) {
        const struct added_token *a = &t->added.v[i];
        int32_t                   id = tokenizer_find(t, a->content);
        m.numbering.greatest = MAX(m.numbering.greatest, id);
        append(&m, id, a->content, a->single_word, a->lstrip, a->rstrip, a->normalized, a->special);
    }
    added_next_list(&m.numbering);
    *own = json_array_size(m.list);
    if (!m.failed)
        offer_all(&m, config);
    if (!m.failed && json_array_size(m.list) > *own) {
        text = json_dumps(m.list, JSON_COMPACT);
        m.failed = !text;
        buf_puts(out, text ? text : "");
    }
    free(text);
    json_decref(m.list);
    json_decref(m.listed);
    return m.failed || out->failed ? error_nomem(e, "a tokenizer") : 0;
}
