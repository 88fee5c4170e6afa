/* A tokenizer's life and its facts. See tokenizer.h. */
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "text/sources.h"
#include "text/tokenizer_int.h"

#define ARENA_MAX ((size_t)256 << 20)

bool ids_push(struct ids *ids, int32_t id)
{
    int32_t *v = vec_room(ids->v, ids->n, &ids->cap, sizeof *v);
    if (!v)
        return false;
    ids->v = v;
    ids->v[ids->n++] = id;
    return true;
}

bool plain_spans_push(struct plain_spans *s, size_t start, size_t end)
{
    struct plain_span *v = vec_room(s->v, s->n, &s->cap, sizeof *v);
    if (!v)
        return false;
    s->v = v;
    s->v[s->n++] = (struct plain_span){start, end};
    return true;
}

void plain_spans_deinit(struct plain_spans *s)
{
    free(s->v);
    *s = (struct plain_spans){0};
}

void ids_deinit(struct ids *ids)
{
    free(ids->v);
    *ids = (struct ids){0};
}

/* --- life ------------------------------------------------------------------------------------------------------- */

struct tokenizer *tokenizer_new(void)
{
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    arena_init(&t->arena, ARENA_MAX);
    vocab_init(&t->vocab);
    vocab_init(&t->added_index);
    t->own_added = SIZE_MAX;
    t->eos = -1;
    return t;
}

/* own: see struct tokenizer's own_added. */
static int load_text(struct tokenizer **out, struct str text, size_t own, const char *path, const struct log *log,
                     struct error *e)
{
    struct tokenizer *t = tokenizer_new();
    int               status;
    *out = NULL;
    if (!t)
        return error_nomem(e, "a tokenizer");
    t->own_added = own;
    status = tokenizer_read_text(t, text, path, log, e);
    if (status)
        tokenizer_free(t);
    else
        *out = t;
    return status;
}

int tokenizer_load_text(struct tokenizer **out, struct str text, const char *path, const struct log *log,
                        struct error *e)
{
    return load_text(out, text, SIZE_MAX, path, log, e);
}

/* Reads the file again with another list of added tokens: of members of the same name, the last counts. The first
 * `own` tokens are the file's. What there is to warn of, the first time has told. */
static int load_again(struct tokenizer **out, struct str file, struct str added, size_t own, const char *path,
                      struct error *e)
{
    struct buf text;
    size_t     n = file.n;
    while (n && file.p[n - 1] != '}')
        n--;
    buf_init(&text, SIZE_MAX - 1);
    buf_put(&text, file.p, n - 1);
    buf_puts(&text, ",\"added_tokens\":");
    buf_put(&text, added.p, added.n);
    buf_putc(&text, '}');
    tokenizer_free(*out);
    *out = NULL;
    int status = text.failed ? error_nomem(e, "a tokenizer") : load_text(out, buf_str(&text), own, path, NULL, e);
    buf_deinit(&text);
    return status;
}

/* tokenizer.json, and what tokenizer_config.json adds. */
static int load_both(struct tokenizer **out, const char *dir, struct str file, const char *path, const struct log *log,
                     struct error *e)
{
    struct json_t *config = NULL;
    struct buf     added;
    size_t         own;
    int            status = tokenizer_load_text(out, file, path, log, e);
    buf_init(&added, ARENA_MAX);
    if (!status)
        status = tokenizer_read_config(*out, dir, &config, e);
    if (!status && config)
        status = tokenizer_missing(*out, config, &added, &own, e);
    if (!status && added.n)
        status = load_again(out, file, buf_str(&added), own, path, e);
    if (!status && added.n)
        status = tokenizer_read_config(*out, dir, NULL, e);
    if (status) {
        tokenizer_free(*out);
        *out = NULL;
    }
    json_decref(config);
    buf_deinit(&added);
    return status;
}

static int load_json(struct tokenizer **out, const char *dir, const struct log *log, struct error *e)
{
    struct file_map f;
    char           *path = NULL;
    *out = NULL;
    if (asprintf(&path, "%s/tokenizer.json", dir) < 0)
        return error_nomem(e, "a tokenizer");
    int status = file_map_open(&f, path, e);
    if (!status) {
        status = load_both(out, dir, (struct str){f.p, f.n}, path, log, e);
        file_map_close(&f);
    }
    free(path);
    return status;
}

/* From another file. The named special tokens are the draft's, which knows what the class defaults to. */
static int load_other(struct tokenizer **out, const char *dir, const struct log *log, struct error *e)
{
    struct draft d;
    int          status = draft_open(&d, dir, e);
    *out = NULL;
    if (!status)
        status = sources_draft(&d);
    if (!status)
        status = tokenizer_load_text(out, buf_str(&d.text), d.path, log, e);
    for (int i = 0; i < NAMED_COUNT && !status; i++) {
        struct str *name = &(*out)->special[i];
        if (d.named[i].p &&
            !(*name = (struct str){arena_strdup(&(*out)->arena, d.named[i].p, d.named[i].n), d.named[i].n}).p)
            status = error_nomem(e, "a tokenizer");
    }
    if (status) {
        tokenizer_free(*out);
        *out = NULL;
    }
    draft_close(&d);
    return status;
}

int tokenizer_load(struct tokenizer **out, const char *dir, const struct log *log, struct error *e)
{
    struct error mine = {0};
    int          status = load_json(out, dir, log, &mine);
    if (status == ERR_NOT_FOUND) {
        status = load_other(out, dir, log, &mine);
        if (!status && (status = tokenizer_read_config(*out, dir, NULL, &mine)) != 0) {
            tokenizer_free(*out);
            *out = NULL;
        }
    }
    if (status) {
        if (e)
            *e = mine;
        return status;
    }
    if ((*out)->special[NAMED_EOS].p)
        (*out)->eos = tokenizer_find(*out, (*out)->special[NAMED_EOS]);
    return 0;
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t)
        return;
    vocab_deinit(&t->vocab);
    vocab_deinit(&t->added_index);
    added_deinit(&t->added);
    normalizer_deinit(&t->normalizer);
    pretok_deinit(&t->pretok);
    model_deinit(&t->model);
    postproc_deinit(&t->postproc);
    arena_deinit(&t->arena);
    free(t);
}

/* --- facts ------------------------------------------------------------------------------------------------------ */

int tokenizer_size(const struct tokenizer *t)
{
    return t->size;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    const struct added_token *a = added_of(&t->added, id);
    return a && a->special;
}

int32_t tokenizer_find(const struct tokenizer *t, struct str token)
{
    int32_t i = vocab_find(&t->added_index, token);
    return i >= 0 ? t->added.v[i].id : vocab_find(&t->vocab, token);
}

struct str tokenizer_spelling(const struct tokenizer *t, int64_t id)
{
    const struct added_token *a = added_of(&t->added, id);
    return a ? a->decoded : vocab_text(&t->vocab, id);
}

struct str tokenizer_token(const struct tokenizer *t, int32_t id)
{
    const struct added_token *a = added_of(&t->added, id);
    return a ? a->content : vocab_text(&t->vocab, id);
}

bool tokenizer_next_added(const struct tokenizer *t, struct str text, size_t *at, int32_t *id)
{
    const struct added_token *a = added_find(&t->added.contents, text, at);
    if (a)
        *id = a->id;
    return a;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}
