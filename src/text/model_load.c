/* Reading of tokenizer.json's model. Its fields are walked once, in any order: the small ones are kept, the vocabulary
 * and the merges go to where their form says they belong (an object: tokens and ids; a list: Unigram's pieces), and when
 * all is read the model of the kind that the file names is made of them. Files from before 2020 do not name it; then the
 * fields tell, as they do for the reference. */
#include "text/tokenizer_load.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "text/decimal.h"

#define TEXT_MAX ((size_t)1 << 20) /* bytes of unk_token and its like */

/* What the small fields say. */
struct fields {
    const struct model_kind *kind; /* NULL: not told */
    struct str               unk, prefix, suffix;
    int64_t                  unk_id, max_chars; /* -1: not told */
    bool                     has_prefix;        /* the field is there, maybe null */
    bool                     byte_fallback, fuse_unk, ignore_merges;
};

/* --- values of fields ------------------------------------------------------------------------------------------- */

static int wrong(struct loader *l, const char *name, const char *needed)
{
    return error_set(l->e, ERR_FORMAT, name, "%s: model: \"%s\" is not %s", l->path, name, needed);
}

static int want_bool(struct loader *l, enum json_token t, const char *name, bool *out)
{
    if (t != JSON_TRUE && t != JSON_FALSE && t != JSON_NULL)
        return wrong(l, name, "true or false");
    *out = t == JSON_TRUE;
    return 0;
}

/* A copy; p stays NULL for a null. */
static int want_text(struct loader *l, enum json_token t, const char *name, struct str *out)
{
    *out = (struct str){0};
    if (t == JSON_NULL)
        return 0;
    if (t != JSON_STRING)
        return wrong(l, name, "a string");
    if (l->j->text.n > TEXT_MAX)
        return wrong(l, name, "of a sensible length");
    *out = (struct str){arena_strdup(&l->t->arena, l->j->text.p, l->j->text.n), l->j->text.n};
    return out->p ? 0 : loader_nomem(l);
}

static int want_count(struct loader *l, enum json_token t, const char *name, int64_t *out)
{
    *out = -1;
    if (t == JSON_NULL)
        return 0;
    if (t != JSON_INT || l->j->i < 0)
        return wrong(l, name, "an integer from 0 on");
    *out = l->j->i;
    return 0;
}

/* The share of merges that are left out at random, which is for training. It is not done here: the same text always
 * gives the same ids, and a file that asks for it is told so. */
static int want_dropout(struct loader *l, enum json_token t)
{
    bool number = t == JSON_INT || t == JSON_REAL;
    if (t != JSON_NULL && !(number && l->j->d >= 0 && l->j->d <= 1))
        return wrong(l, "dropout", "null or from 0 to 1");
    if (number && l->j->d > 0)
        log_warning(l->log, "%s: model: \"dropout\" is ignored: every merge counts", l->path);
    return 0;
}

static int want_type(struct loader *l, enum json_token t, struct fields *f)
{
    if (t != JSON_STRING)
        return wrong(l, "type", "a string");
    f->kind = model_kind_of(l->j->text);
    return f->kind ? 0
                   : error_set(l->e, ERR_UNSUPPORTED, "model", "%s: model " QUOTED " is not supported", l->path,
                               QUOTE(l->j->text));
}

/* --- vocabulary and merges -------------------------------------------------------------------------------------- */

/* One of Unigram's pieces, ["text", score], after the bracket. */
static int read_piece(struct loader *l, struct unigram *m)
{
    struct vocab *v = &l->t->vocab;
    if (json_next(l->j) != JSON_STRING)
        return loader_malformed(l, "model: a piece in \"vocab\" is not a string and a number");
    if (!vocab_put(v, (int32_t)v->size, l->j->text))
        return loader_nomem(l);
    enum json_token t = json_next(l->j);
    if ((t != JSON_INT && t != JSON_REAL) || !isfinite(l->j->d))
        return loader_malformed(l, "model: a piece in \"vocab\" is not a string and a number");
    if (!unigram_add(m, decimal_read(l->j->text)))
        return loader_nomem(l);
    return json_next(l->j) == JSON_ARRAY_END
               ? 0
               : loader_malformed(l, "model: a piece in \"vocab\" is not a string and a number");
}

static int read_pieces(struct loader *l)
{
    enum json_token t;
    int             status = 0;
    if (l->has_vocab)
        return loader_malformed(l, "model: \"vocab\" stands twice");
    model_begin(&l->t->model, &model_kind_unigram, &l->t->vocab);
    while (!status && (t = json_next(l->j)) != JSON_ARRAY_END)
        status = t == JSON_ARRAY ? read_piece(l, &l->t->model.unigram)
                                 : loader_malformed(l, "model: \"vocab\" holds something other than pieces");
    if (status)
        return status;
    l->has_vocab = true;
    return vocab_index(&l->t->vocab, NULL) ? 0 : loader_nomem(l);
}

static void begin_bpe(struct loader *l, const struct fields *f)
{
    model_begin(&l->t->model, &model_kind_bpe, &l->t->vocab);
    l->t->model.bpe.prefix = f->prefix;
}

/* Merges are read at once if the vocabulary and the prefix, which they need, are known; else l->merges keeps them for
 * make_bpe. */
static int take_merges(struct loader *l, const struct fields *f, const char *start, enum json_token t)
{
    if (t != JSON_ARRAY || l->has_merges)
        return loader_malformed(l, "model: \"merges\" is not one list");
    l->has_merges = true;
    if (!l->has_vocab || !f->has_prefix || l->t->model.kind)
        return loader_span(l, start, t, &l->merges);
    begin_bpe(l, f);
    return loader_read_merges(l, l->j);
}

/* --- the kinds -------------------------------------------------------------------------------------------------- */

static int missing(struct loader *l, const struct fields *f, const char *name)
{
    return error_set(l->e, ERR_FORMAT, name, "%s: model '%s' has no \"%s\"", l->path, f->kind->name, name);
}

static int32_t unk_of(const struct loader *l, const struct fields *f)
{
    return f->unk.p ? vocab_find(&l->t->vocab, f->unk) : -1;
}

static int make_bpe(struct loader *l, const struct fields *f)
{
    struct bpe *m = &l->t->model.bpe;
    int         status;
    if (!l->has_merges)
        return missing(l, f, "merges");
    if (l->merges.p) {
        begin_bpe(l, f);
        if ((status = loader_read_late_merges(l)) != 0)
            return status;
    }
    m->suffix = f->suffix;
    m->byte_fallback = f->byte_fallback;
    m->fuse_unk = f->fuse_unk;
    m->ignore_merges = f->ignore_merges;
    if (f->unk.p && (m->unk_id = unk_of(l, f)) < 0)
        m->unk_id = BPE_MISSING;
    return bpe_index(m) ? 0 : loader_nomem(l);
}

static int make_unigram(struct loader *l, const struct fields *f)
{
    struct unigram *m = &l->t->model.unigram;
    if (f->unk_id >= (int64_t)m->n)
        return error_set(l->e, ERR_FORMAT, "unk_id", "%s: model: \"unk_id\" is %lld, but \"vocab\" has %zu pieces",
                         l->path, (long long)f->unk_id, m->n);
    m->unk_id = (int32_t)f->unk_id;
    m->byte_fallback = f->byte_fallback;
    return unigram_index(m, l->e) ? error_prefix(l->e, "%s: model", l->path) : 0;
}

static int make_wordpiece(struct loader *l, const struct fields *f)
{
    struct wordpiece *m = &l->t->model.wordpiece;
    if (!f->unk.p || !f->prefix.p || f->max_chars < 0)
        return missing(l, f,
                       !f->unk.p      ? "unk_token"
                       : !f->prefix.p ? "continuing_subword_prefix"
                                      : "max_input_chars_per_word");
    m->unk_id = unk_of(l, f);
    m->prefix = f->prefix;
    m->max_chars = (size_t)f->max_chars;
    return wordpiece_index(m, l->e) ? error_prefix(l->e, "%s: model", l->path) : 0;
}

static int make_wordlevel(struct loader *l, const struct fields *f)
{
    if (!f->unk.p)
        return missing(l, f, "unk_token");
    l->t->model.wordlevel.unk_id = unk_of(l, f);
    return 0;
}

/* The kind of a file that names none. */
static const struct model_kind *guess(const struct loader *l, const struct fields *f)
{
    if (l->t->model.kind == &model_kind_unigram)
        return &model_kind_unigram;
    if (l->has_merges)
        return &model_kind_bpe;
    return f->prefix.p && f->max_chars >= 0 ? &model_kind_wordpiece : &model_kind_wordlevel;
}

static int make_model(struct loader *l, struct fields *f)
{
    struct model *m = &l->t->model;
    if (!f->kind)
        f->kind = guess(l, f);
    if (!l->has_vocab)
        return missing(l, f, "vocab");
    if ((f->kind == &model_kind_unigram) != (m->kind == &model_kind_unigram))
        return wrong(l, "vocab", f->kind == &model_kind_unigram ? "a list of pieces" : "an object");
    if (f->kind == &model_kind_bpe)
        return make_bpe(l, f);
    if (m->kind != f->kind)
        model_begin(m, f->kind, &l->t->vocab);
    if (f->kind == &model_kind_unigram)
        return make_unigram(l, f);
    return f->kind == &model_kind_wordpiece ? make_wordpiece(l, f) : make_wordlevel(l, f);
}

/* --- the walk --------------------------------------------------------------------------------------------------- */

static int take_field(struct loader *l, struct fields *f, struct str key, const char *start, enum json_token t)
{
    struct str ignored;
    if (str_is(key, "type"))
        return want_type(l, t, f);
    if (str_is(key, "vocab"))
        return t == JSON_OBJECT  ? loader_read_vocab(l)
               : t == JSON_ARRAY ? read_pieces(l)
                                 : wrong(l, "vocab", "an object or a list");
    if (str_is(key, "merges"))
        return take_merges(l, f, start, t);
    if (str_is(key, "unk_token"))
        return want_text(l, t, "unk_token", &f->unk);
    if (str_is(key, "unk_id"))
        return want_count(l, t, "unk_id", &f->unk_id);
    if (str_is(key, "byte_fallback"))
        return want_bool(l, t, "byte_fallback", &f->byte_fallback);
    if (str_is(key, "fuse_unk"))
        return want_bool(l, t, "fuse_unk", &f->fuse_unk);
    if (str_is(key, "ignore_merges"))
        return want_bool(l, t, "ignore_merges", &f->ignore_merges);
    if (str_is(key, "continuing_subword_prefix")) {
        if (f->has_prefix)
            return wrong(l, "continuing_subword_prefix", "there once only");
        f->has_prefix = true;
        return want_text(l, t, "continuing_subword_prefix", &f->prefix);
    }
    if (str_is(key, "end_of_word_suffix"))
        return want_text(l, t, "end_of_word_suffix", &f->suffix);
    if (str_is(key, "max_input_chars_per_word"))
        return want_count(l, t, "max_input_chars_per_word", &f->max_chars);
    if (str_is(key, "dropout"))
        return want_dropout(l, t);
    return loader_span(l, start, t, &ignored);
}

int loader_read_model(struct loader *l, int first)
{
    enum json_token t = (enum json_token)first;
    struct fields   f = {.unk_id = -1, .max_chars = -1};
    int             status = 0;
    if (t != JSON_OBJECT || l->has_model)
        return loader_malformed(l, "\"model\" is not one object");
    l->has_model = true;
    while (!status && (t = json_next(l->j)) == JSON_KEY) {
        char       name[40];
        struct str key = {name, MIN(l->j->text.n, sizeof name)};
        memcpy(name, l->j->text.p, key.n); /* the next token ends the view; longer names are none of ours */
        const char *start = l->j->p;
        t = json_next(l->j);
        status = t == JSON_ERROR ? loader_malformed(l, "") : take_field(l, &f, key, start, t);
    }
    if (!status && t != JSON_OBJECT_END)
        status = loader_malformed(l, "malformed \"model\"");
    return status ? status : make_model(l, &f);
}
