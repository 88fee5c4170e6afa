/* A draft's life, its files, and the text it ends as. See draft.h. */
#include "text/draft.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/pyjson.h"
#include "base/vec.h"
#include "text/added.h"

#define ARENA_MAX ((size_t)256 << 20)
#define FILE_MAX ((size_t)64 << 20)
#define TEXT_MAX ((size_t)256 << 20)

/* ---- life ---- */

/* *out: an empty object when there is no such file. */
static int read_object(struct draft *d, const char *name, json_t **out)
{
    struct error mine = {0};
    const char  *path = arena_printf(&d->arena, "%s/%s", d->dir, name);
    int          status = path ? pyjson_load(out, path, FILE_MAX, &mine) : error_nomem(&mine, "a tokenizer");
    if (status == ERR_NOT_FOUND)
        status = (*out = json_object()) ? 0 : error_nomem(&mine, "a tokenizer");
    if (!status && !json_is_object(*out))
        status = error_set(&mine, ERR_FORMAT, NULL, "%s: not a JSON object", path);
    if (status && d->e)
        *d->e = mine;
    return status;
}

int draft_open(struct draft *d, const char *dir, struct error *e)
{
    int status;
    *d = (struct draft){.dir = dir, .path = dir, .e = e};
    arena_init(&d->arena, ARENA_MAX);
    buf_init(&d->text, TEXT_MAX);
    if ((status = read_object(d, "tokenizer_config.json", &d->config)) ||
        (status = read_object(d, "special_tokens_map.json", &d->special)) ||
        (status = read_object(d, "added_tokens.json", &d->added)) ||
        (status = read_object(d, "config.json", &d->model)))
        return status;
    return draft_choose_class(d);
}

void draft_close(struct draft *d)
{
    json_decref(d->config);
    json_decref(d->special);
    json_decref(d->added);
    json_decref(d->model);
    free(d->tokens);
    buf_deinit(&d->text);
    arena_deinit(&d->arena);
    *d = (struct draft){0};
}

int draft_nomem(struct draft *d)
{
    if (d->arena.full)
        return error_set(d->e, ERR_LIMIT, NULL, "%s: the texts of its tokens take more than %zu bytes", d->path,
                         ARENA_MAX);
    return error_nomem(d->e, d->path);
}

int draft_check(struct draft *d, const struct buf *b, const char *what)
{
    if (b->full)
        return error_set(d->e, ERR_LIMIT, NULL, "%s: %s takes more than %zu bytes", d->path, what, b->max);
    return b->failed ? draft_nomem(d) : 0;
}

int draft_setting(const struct draft *d, const char *key)
{
    const json_t *v = json_object_get(d->config, key);
    return json_is_boolean(v) ? json_is_true(v) : -1;
}

bool draft_flag(const struct draft *d, const char *key, bool otherwise)
{
    int v = draft_setting(d, key);
    return v < 0 ? otherwise : v;
}

bool draft_is_class(const struct draft *d, const char *name)
{
    return d->class_name && !strcmp(d->class_name, name);
}

struct str draft_copy(struct draft *d, struct str s)
{
    return (struct str){arena_strdup(&d->arena, s.p, s.n), s.n};
}

/* ---- writing ---- */

static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

void draft_put_text(struct buf *b, struct str text)
{
    buf_putc(b, '"');
    for (size_t i = 0, n; i < text.n; i += n) {
        for (n = 0; i + n < text.n && is_plain(text.p[i + n]);)
            n++;
        buf_put(b, text.p + i, n);
        if (i + n == text.n)
            break;
        buf_printf(b, "\\u%04x", (unsigned char)text.p[i + n++]);
    }
    buf_putc(b, '"');
}

void draft_put_vocab(struct draft *d, const struct vocab *vocab)
{
    struct buf *b = &d->text;
    const char *comma = "";
    buf_puts(b, "\"vocab\":{");
    for (size_t id = 0; id < vocab->size; id++) {
        struct str text = vocab_text(vocab, (int64_t)id);
        if (!text.p || vocab_find(vocab, text) != (int32_t)id)
            continue;
        buf_puts(b, comma);
        draft_put_text(b, text);
        buf_printf(b, ":%zu", id);
        comma = ",";
    }
    buf_putc(b, '}');
}

void draft_put_merges(struct draft *d, const struct vocab *vocab, const struct merges *merges)
{
    struct buf *b = &d->text;
    buf_puts(b, "\"merges\":[");
    for (size_t i = 0; i < merges->n && !b->failed; i++) {
        buf_puts(b, i ? ",[" : "[");
        draft_put_text(b, vocab_text(vocab, merges->v[i].left));
        buf_putc(b, ',');
        draft_put_text(b, vocab_text(vocab, merges->v[i].right));
        buf_putc(b, ']');
    }
    buf_putc(b, ']');
}

void draft_around_by_flags(const struct draft *d, bool bos, struct draft_parts *parts)
{
    if (draft_flag(d, "add_bos_token", bos))
        parts->before[0] = d->named[NAMED_BOS];
    if (draft_flag(d, "add_eos_token", false))
        parts->after[0] = d->named[NAMED_EOS];
}

/* ---- the added tokens' ids, as the document's reader will give them ---- */

struct numbering {
    struct vocab index; /* the tokens' contents -> their place in `ids` */
    int32_t     *ids;
};

static int number_tokens(struct draft *d, const struct vocab *vocab, struct numbering *n)
{
    struct added_numbering numbering;
    added_numbering_init(&numbering, vocab, vocab_texts(vocab));
    vocab_init(&n->index);
    n->ids = malloc((d->n_tokens + 1) * sizeof *n->ids);
    for (size_t i = 0; i < d->n_tokens; i++)
        if (!n->ids || !vocab_put(&n->index, (int32_t)i, d->tokens[i].content))
            return draft_nomem(d);
    if (!vocab_index(&n->index, NULL))
        return draft_nomem(d);
    for (size_t i = 0; i < d->n_tokens; i++)
        n->ids[i] = -1;
    for (size_t i = 0; i < d->n_tokens; i++) {
        int32_t *id = &n->ids[vocab_find(&n->index, d->tokens[i].content)];
        if (*id < 0)
            *id = added_number(&numbering, d->tokens[i].content);
    }
    return 0;
}

static int32_t number_of(const struct numbering *n, const struct vocab *vocab, struct str token)
{
    int32_t i = vocab_find(&n->index, token);
    return i >= 0 ? n->ids[i] : vocab_find(vocab, token);
}

/* ---- the end of the document ---- */

static void put_added(struct draft *d, const struct numbering *n)
{
    static const char *const words[] = {"false", "true"};
    struct buf              *b = &d->text;
    buf_puts(b, ",\"added_tokens\":[");
    for (size_t i = 0; i < d->n_tokens; i++) {
        const struct draft_token *t = &d->tokens[i];
        int64_t                   id = t->id >= 0 ? t->id : n->ids[vocab_find(&n->index, t->content)];
        buf_printf(b, "%s{\"id\":%lld,\"content\":", i ? "," : "", (long long)id);
        draft_put_text(b, t->content);
        buf_printf(b, ",\"single_word\":%s,\"lstrip\":%s,\"rstrip\":%s,\"normalized\":%s,\"special\":%s}",
                   words[t->single_word], words[t->lstrip], words[t->rstrip], words[t->normalized], words[t->special]);
    }
    buf_putc(b, ']');
}

/* The post-processor: a template in which the tokens are named by numbers. */
static int put_post_processor(struct draft *d, const struct numbering *n, const struct vocab *vocab,
                              const struct draft_parts *parts)
{
    struct buf *b = &d->text;
    struct str  around[2 * DRAFT_AROUND_MAX];
    int         count = 0, before = 0;
    for (; parts->before[before].p; before++)
        around[count++] = parts->before[before];
    for (int i = 0; parts->after[i].p; i++)
        around[count++] = parts->after[i];
    buf_puts(b, ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    for (int i = 0; i <= count; i++) {
        if (i == before)
            buf_printf(b, "%s{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}", i ? "," : "");
        if (i < count)
            buf_printf(b, "%s{\"SpecialToken\":{\"id\":\"%d\",\"type_id\":0}}", i || !before ? "," : "", i);
    }
    buf_puts(b, "],\"special_tokens\":{");
    for (int i = 0; i < count; i++) {
        int32_t id = number_of(n, vocab, around[i]);
        if (id < 0)
            return error_set(d->e, ERR_FORMAT, NULL,
                             "%s: there is no token '%.*s', which is to stand around every text", d->path,
                             (int)MIN(around[i].n, (size_t)100), around[i].p);
        buf_printf(b, "%s\"%d\":{\"id\":\"%d\",\"ids\":[%d],\"tokens\":[", i ? "," : "", i, i, id);
        draft_put_text(b, around[i]);
        buf_puts(b, "]}");
    }
    buf_puts(b, "}}");
    return 0;
}

int draft_finish(struct draft *d, const struct vocab *vocab, const struct draft_parts *parts)
{
    struct numbering n = {0};
    int              status = number_tokens(d, vocab, &n);
    if (!status) {
        buf_printf(&d->text, ",\"normalizer\":%s", parts->normalizer ? parts->normalizer : "null");
        buf_printf(&d->text, ",\"pre_tokenizer\":%s", parts->pre_tokenizer ? parts->pre_tokenizer : "null");
        buf_printf(&d->text, ",\"decoder\":%s", parts->decoder ? parts->decoder : "null");
        status = put_post_processor(d, &n, vocab, parts);
    }
    if (!status) {
        put_added(d, &n);
        buf_putc(&d->text, '}');
        status = draft_check(d, &d->text, "the tokenizer.json that it implies");
    }
    for (int i = 0; i < NAMED_COUNT && !status; i++)
        if (d->named[i].p && !(d->named[i] = draft_copy(d, d->named[i])).p)
            status = draft_nomem(d);
    vocab_deinit(&n.index);
    free(n.ids);
    return status;
}
