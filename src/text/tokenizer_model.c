/* Reading of a model's vocabulary and merges, nearly all of a tokenizer.json: they go from the pull reader straight into
 * their tables. Memory is bounded by the size of the file: ids beyond a limit that follows from it are refused. */
#include "base/json.h"
#include "text/tokenizer_load.h"

/* --- vocabulary ------------------------------------------------------------------------------------------------- */

static int put_token(struct loader *l, struct str text, int64_t id)
{
    struct vocab *v = &l->t->vocab;
    if (id < 0 || id >= l->id_limit)
        return error_set(l->e, ERR_LIMIT, NULL,
                         "%s: token " QUOTED " has id %lld; a file of this size may use ids from 0 to %lld", l->path,
                         QUOTE(text), (long long)id, (long long)l->id_limit - 1);
    return vocab_put(v, (int32_t)id, text) ? 0 : loader_nomem(l);
}

int loader_read_vocab(struct loader *l)
{
    enum json_token    t;
    struct vocab_twice twice;
    int                status = 0;
    if (l->has_vocab)
        return loader_malformed(l, "model: \"vocab\" stands twice");
    while (!status && (t = json_next(l->j)) == JSON_KEY) {
        struct str token = l->j->text;
        t = json_next(l->j);
        if (t != JSON_INT && t != JSON_REAL)
            status = loader_malformed(l, "model: an id in \"vocab\" is not an integer");
        else
            status = put_token(l, token, t == JSON_INT ? l->j->i : INT64_MAX);
    }
    if (status || t != JSON_OBJECT_END)
        return status ? status : loader_malformed(l, "model: malformed \"vocab\"");
    l->has_vocab = true;
    if (!vocab_index(&l->t->vocab, &twice))
        return loader_nomem(l);
    return twice.a < 0
               ? 0
               : error_set(l->e, ERR_FORMAT, NULL, "%s: token " QUOTED " stands twice in the vocabulary, as %d and %d",
                           l->path, QUOTE(twice.text), twice.a, twice.b);
}

/* --- merges ----------------------------------------------------------------------------------------------------- */

static int unknown_merge(struct loader *l, struct str text, const char *what)
{
    return error_set(l->e, ERR_FORMAT, NULL, "%s: merge %zu %s " QUOTED ", which is not in the vocabulary", l->path,
                     l->t->model.bpe.n_pairs, what, QUOTE(text));
}

/* a, b: the texts of left and right. */
static int put_merge(struct loader *l, struct str a, struct str b, int32_t left, int32_t right)
{
    const struct vocab *v = &l->t->vocab;
    size_t              prefix = l->t->model.bpe.prefix.n;
    if (b.n < prefix)
        return unknown_merge(l, b, "lacks the continuing_subword_prefix in");
    buf_clear(&l->key);
    buf_put(&l->key, a.p, a.n);
    buf_put(&l->key, b.p + prefix, b.n - prefix);
    if (l->key.failed)
        return loader_nomem(l);
    /* A trainer numbers what its merges make in their order, and converted files name all merges that make a token one
     * after the other: nearly always it is the token before or the next one. */
    int32_t id = l->last_made;
    if (!str_eq(vocab_text(v, id), buf_str(&l->key)) && !str_eq(vocab_text(v, ++id), buf_str(&l->key)))
        id = vocab_find(v, buf_str(&l->key));
    if (id < 0)
        return unknown_merge(l, buf_str(&l->key), "makes");
    l->last_made = id;
    return bpe_add(&l->t->model.bpe, left, right, id) ? 0 : loader_nomem(l);
}

/* Merges whose parts are looked up together. */
struct batch {
    struct buf texts;
    size_t     end[VOCAB_MANY]; /* of the parts in texts */
    size_t     n;               /* parts */
};

static int put_batch(struct loader *l, struct batch *b)
{
    struct str parts[VOCAB_MANY];
    int32_t    ids[VOCAB_MANY];
    int        status = b->texts.failed ? loader_nomem(l) : 0;
    for (size_t i = 0, at = 0; i < b->n; at = b->end[i++])
        parts[i] = (struct str){buf_cstr(&b->texts) + at, b->end[i] - at};
    if (!status)
        vocab_find_many(&l->t->vocab, parts, b->n, ids);
    for (size_t i = 0; i + 1 < b->n && !status; i += 2) {
        if (ids[i] < 0 || ids[i + 1] < 0)
            status = unknown_merge(l, parts[ids[i] < 0 ? i : i + 1], "has the part");
        else
            status = put_merge(l, parts[i], parts[i + 1], ids[i], ids[i + 1]);
    }
    buf_clear(&b->texts);
    b->n = 0;
    return status;
}

static void add_part(struct batch *b, struct str text)
{
    buf_put(&b->texts, text.p, text.n);
    b->end[b->n++] = b->texts.n;
}

/* "a b", as files before 2024 have it. */
static int merge_of_string(struct loader *l, struct batch *b, struct str s)
{
    const char *space = memchr(s.p, ' ', s.n);
    if (s.n >= 8 && memcmp(s.p, "#version", 8) == 0)
        return 0;
    if (!space || memchr(space + 1, ' ', (size_t)(s.p + s.n - space - 1)))
        return error_set(l->e, ERR_FORMAT, NULL, "%s: merge %zu is not two parts with one space between: " QUOTED,
                         l->path, l->t->model.bpe.n_pairs + b->n / 2, QUOTE(s));
    add_part(b, (struct str){s.p, (size_t)(space - s.p)});
    add_part(b, (struct str){space + 1, (size_t)(s.p + s.n - space - 1)});
    return 0;
}

/* ["a", "b"], after the bracket. */
static int merge_of_pair(struct loader *l, struct batch *b, struct json *j)
{
    for (int i = 0; i < 2; i++) {
        if (json_next(j) != JSON_STRING)
            return loader_malformed(l, "model: a merge is not two strings");
        add_part(b, j->text);
    }
    return json_next(j) == JSON_ARRAY_END ? 0 : loader_malformed(l, "model: a merge is not two strings");
}

/* The list's opening bracket has been read from j. */
int loader_read_merges(struct loader *l, struct json *j)
{
    enum json_token t;
    struct batch    b = {.n = 0};
    int             status = 0;
    buf_init(&b.texts, SIZE_MAX - 1);
    while (!status && (t = json_next(j)) != JSON_ARRAY_END) {
        if (b.n == VOCAB_MANY)
            status = put_batch(l, &b);
        if (!status && t == JSON_STRING)
            status = merge_of_string(l, &b, j->text);
        else if (!status && t == JSON_ARRAY)
            status = merge_of_pair(l, &b, j);
        else if (!status)
            status = loader_malformed(l, "model: \"merges\" holds something other than strings and pairs of strings");
    }
    if (!status)
        status = put_batch(l, &b);
    buf_deinit(&b.texts);
    return status;
}

/* Merges that stand before the vocabulary are read again once it is known; the text has been checked by then. */
int loader_read_late_merges(struct loader *l)
{
    struct json j;
    json_init(&j, l->merges.p, l->merges.n);
    json_next(&j);
    int status = loader_read_merges(l, &j);
    json_deinit(&j);
    return status;
}
