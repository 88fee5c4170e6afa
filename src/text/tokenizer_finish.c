/* The last steps of making a tokenizer, whatever file it comes from: added tokens get their ids, and the parts are made
 * fit for each other. See tokenizer_int.h. */
#include "base/num.h"
#include "text/tokenizer_int.h"

/* The text that is looked for: normalized if the token is. */
static int set_spelling(struct tokenizer *t, struct added_token *a, struct speller *s, struct error *e)
{
    struct str out;
    size_t     head;
    int        status;
    a->spelling = a->content;
    if (!a->normalized || !t->normalizer.n)
        return 0;
    s->scratch.left = ADDED_SPELLING_MAX;
    status = normalizer_run(&t->normalizer, a->content, &s->scratch, &s->find, &out, &head, e);
    if (status)
        return error_prefix(e, "added token '%.*s'", (int)MIN(a->content.n, (size_t)100), a->content.p);
    if (!str_eq(out, a->content)) {
        a->spelling = (struct str){arena_strdup(&t->arena, out.p, out.n), out.n};
        if (!a->spelling.p)
            return component_nomem(&(struct component){&t->arena, "added_tokens", e});
    }
    return 0;
}

void speller_init(struct speller *s, size_t total)
{
    *s = (struct speller){0};
    normalizer_scratch_init(&s->scratch, total);
    regex_run_init(&s->find.regex, total);
}

void speller_deinit(struct speller *s)
{
    normalizer_scratch_deinit(&s->scratch);
    regex_run_deinit(&s->find.regex);
}

int tokenizer_add(struct tokenizer *t, const struct added_token *a, struct speller *s, struct error *e)
{
    struct added_token mine = *a;
    int                status;
    mine.id = -1;
    if (!a->content.n)
        return 0;
    if ((status = set_spelling(t, &mine, s, e)) != 0)
        return status;
    return added_put(&t->added, &mine) ? 0 : error_nomem(e, "a tokenizer");
}

/* See struct added_numbering for the ids. Of entries with the same text the last one's flags count; but what one of them
 * made special stays so, and what one of them normalized is decoded as that. */
static void resolve_added(struct tokenizer *t, const char *path, const struct log *log)
{
    struct added_numbering numbering;
    added_numbering_init(&numbering, &t->vocab, t->vocab.count);
    for (size_t i = 0; i < t->added.n; i++) {
        const struct added_token *a = &t->added.v[i];
        struct added_token       *last = &t->added.v[vocab_find(&t->added_index, a->content)];
        if (i == t->own_added)
            added_next_list(&numbering);
        last->special |= a->special;
        if (!last->decoded.p || !str_eq(a->spelling, a->content))
            last->decoded = a->spelling;
        if (last->id >= 0)
            continue;
        last->id = added_number(&numbering, a->content);
        t->size = MAX(t->size, last->id + 1);
        if (a->file_id >= 0 && last->id != a->file_id)
            log_warning(log, "%s: added token '%.*s' has id %d in the file but becomes %d", path,
                        (int)MIN(a->content.n, (size_t)100), a->content.p, a->file_id, last->id);
    }
}

int tokenizer_finish(struct tokenizer *t, const char *path, const struct log *log, struct error *e)
{
    for (size_t i = 0; i < t->added.n; i++)
        if (!vocab_put(&t->added_index, (int32_t)i, t->added.v[i].content))
            return error_nomem(e, path);
    if (!vocab_index(&t->added_index, NULL))
        return error_nomem(e, path);
    t->size = (int)t->vocab.size;
    resolve_added(t, path, log);
    if (!added_index(&t->added, (size_t)t->size))
        return error_nomem(e, path);
    if (model_reads_bytes(&t->model))
        pretok_leave_bytes(&t->pretok);
    return 0;
}
