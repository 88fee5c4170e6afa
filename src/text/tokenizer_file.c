/* Reading of tokenizer.json: the top level. The model is read on the way; the other components are small and come after
 * it, in an order of their own, since the added tokens need the model and the normalizer. */
#include "base/json.h"
#include "text/tokenizer_load.h"

#define ID_LIMIT_MIN ((int64_t)1 << 20)
#define FILE_MAX ((size_t)512 << 20)

const char *const loader_part_names[PART_COUNT] = {"added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                                                   "decoder"};

int loader_malformed(struct loader *l, const char *what)
{
    return l->j->why ? json_fault(l->j, l->e, l->path) : error_set(l->e, ERR_FORMAT, NULL, "%s: %s", l->path, what);
}

int loader_nomem(struct loader *l)
{
    if (l->t->arena.full)
        return error_set(l->e, ERR_LIMIT, NULL, "%s: the texts of its components take more than %zu bytes", l->path,
                         l->t->arena.max);
    return error_nomem(l->e, l->path);
}

int loader_span(struct loader *l, const char *start, int t, struct str *out)
{
    if (!json_skip(l->j, (enum json_token)t))
        return loader_malformed(l, "");
    *out = (struct str){start, (size_t)(l->j->p - start)};
    return 0;
}

static int read_top(struct loader *l)
{
    enum json_token t = json_next(l->j);
    int             status = 0;
    if (t != JSON_OBJECT)
        return loader_malformed(l, "not a JSON object");
    while (!status && (t = json_next(l->j)) == JSON_KEY) {
        struct str  key = l->j->text, ignored;
        int         part = 0;
        bool        model = str_is(key, "model");
        const char *start = l->j->p;
        while (part < PART_COUNT && !str_is(key, loader_part_names[part]))
            part++;
        t = json_next(l->j);
        if (t == JSON_ERROR)
            status = loader_malformed(l, "");
        else
            status = model ? loader_read_model(l, t)
                           : loader_span(l, start, t, part < PART_COUNT ? &l->parts[part] : &ignored);
    }
    if (!status && (t != JSON_OBJECT_END || json_next(l->j) != JSON_EOF))
        status = loader_malformed(l, "malformed JSON");
    if (!status && !l->has_model)
        status = loader_malformed(l, "there is no \"model\"");
    return status;
}

int tokenizer_read_text(struct tokenizer *t, struct str text, const char *path, const struct log *log, struct error *e)
{
    static const enum part order[PART_COUNT] = {NORMALIZER, PRE_TOKENIZER, POST_PROCESSOR, DECODER, ADDED_TOKENS};
    struct error           mine = {0};
    struct json            j;
    struct loader          l = {.t = t, .log = log, .path = path, .e = e ? e : &mine, .j = &j};
    int                    status;
    if (text.n > FILE_MAX)
        return error_set(e, ERR_LIMIT, NULL, "%s is larger than the limit of %zu bytes", path, FILE_MAX);
    l.id_limit = MAX(ID_LIMIT_MIN, (int64_t)text.n);
    json_init(&j, text.p, text.n);
    buf_init(&l.key, FILE_MAX);
    status = read_top(&l);
    for (int i = 0; i < PART_COUNT && !status; i++)
        status = loader_read_part(&l, order[i]);
    if (!status)
        status = tokenizer_finish(t, path, log, l.e);
    json_deinit(&j);
    buf_deinit(&l.key);
    return status;
}
