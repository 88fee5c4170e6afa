/* The table of model kinds: each entry hands on to the functions of its kind. Contracts in model.h. */
#include "text/model.h"

#include "base/num.h"

static void init_bpe(struct model *m, const struct vocab *vocab)
{
    bpe_init(&m->bpe, vocab);
}

static void deinit_bpe(struct model *m)
{
    bpe_deinit(&m->bpe);
}

static int encode_bpe(const struct model *m, struct str piece, bool bytes, struct model_scratch *s, struct ids *out,
                      struct error *e)
{
    return bpe_encode(&m->bpe, piece, bytes, &s->bpe, out, e);
}

static void init_unigram(struct model *m, const struct vocab *vocab)
{
    unigram_init(&m->unigram, vocab);
}

static void deinit_unigram(struct model *m)
{
    unigram_deinit(&m->unigram);
}

static int encode_unigram(const struct model *m, struct str piece, bool bytes, struct model_scratch *s, struct ids *out,
                          struct error *e)
{
    (void)bytes;
    return unigram_encode(&m->unigram, piece, &s->unigram, out, e);
}

static void init_wordpiece(struct model *m, const struct vocab *vocab)
{
    wordpiece_init(&m->wordpiece, vocab);
}

static void deinit_wordpiece(struct model *m)
{
    wordpiece_deinit(&m->wordpiece);
}

static int encode_wordpiece(const struct model *m, struct str piece, bool bytes, struct model_scratch *s,
                            struct ids *out, struct error *e)
{
    (void)bytes, (void)s;
    return wordpiece_encode(&m->wordpiece, piece, out, e);
}

static void init_wordlevel(struct model *m, const struct vocab *vocab)
{
    wordlevel_init(&m->wordlevel, vocab);
}

static int encode_wordlevel(const struct model *m, struct str piece, bool bytes, struct model_scratch *s,
                            struct ids *out, struct error *e)
{
    (void)bytes, (void)s;
    return wordlevel_encode(&m->wordlevel, piece, out, e);
}

const struct model_kind model_kind_bpe = {"BPE", init_bpe, deinit_bpe, encode_bpe};
const struct model_kind model_kind_unigram = {"Unigram", init_unigram, deinit_unigram, encode_unigram};
const struct model_kind model_kind_wordpiece = {"WordPiece", init_wordpiece, deinit_wordpiece, encode_wordpiece};
const struct model_kind model_kind_wordlevel = {"WordLevel", init_wordlevel, NULL, encode_wordlevel};

const struct model_kind *model_kind_of(struct str name)
{
    static const struct model_kind *const kinds[] = {&model_kind_bpe, &model_kind_unigram, &model_kind_wordpiece,
                                                     &model_kind_wordlevel};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (str_is(name, kinds[i]->name))
            return kinds[i];
    return NULL;
}

void model_begin(struct model *m, const struct model_kind *kind, const struct vocab *vocab)
{
    model_deinit(m);
    m->kind = kind;
    kind->init(m, vocab);
}

void model_deinit(struct model *m)
{
    if (m->kind && m->kind->deinit)
        m->kind->deinit(m);
    m->kind = NULL;
}

bool model_reads_bytes(const struct model *m)
{
    return m->kind == &model_kind_bpe && !m->bpe.prefix.n && !m->bpe.suffix.n;
}

void model_scratch_init(struct model_scratch *s)
{
    *s = (struct model_scratch){0};
}

void model_scratch_deinit(struct model_scratch *s)
{
    bpe_scratch_deinit(&s->bpe);
    unigram_scratch_deinit(&s->unigram);
}
