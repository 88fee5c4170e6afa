/* A draft from a SentencePiece model (tokenizer.model).
 *
 * LlamaTokenizer, CodeLlamaTokenizer and GemmaTokenizer have fixed components and take only the pieces from the file. The
 * generic class, which all others get, follows the file's own settings. Byte-pair encoding by scores becomes merges in
 * order of the pieces' scores; the three classes take the order of the ids, as transformers does. A unigram model is read
 * as such whatever the class: transformers reads one as byte-pair encoding for those three, which no such model was
 * trained for. */
#include "text/sources.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/decimal.h"
#include "text/spm.h"

#define PATTERN_MAX ((size_t)1 << 20)
#define TEXT_MAX ((size_t)128 << 20)
#define INFILL 4 /* tokens that CodeLlama adds */

#define SPACE "\xe2\x96\x81" /* U+2581, which SentencePiece writes for a space */

struct source {
    struct draft       *d;
    struct spm          m;
    const struct vocab *vocab; /* the pieces, some of them renamed for the generic class */
    struct vocab        renamed;
    struct buf          normalizer, pre_tokenizer; /* the beginning of a Sequence */
    struct buf          decoder;
    struct draft_token *extra; /* pieces to be found in a text as they are */
    size_t              n_extra;
    bool                add_bos;
};

/* ---- the model ---- */

/* by_id: every piece takes part, in the order of the ids; else the normal ones, in the order of their scores. */
static int derive(struct source *s, bool by_id, struct merges *merges)
{
    const struct spm  *m = &s->m;
    int32_t           *order = malloc(m->n * sizeof *order);
    float             *scores = malloc(m->n * sizeof *scores);
    uint8_t           *normal = malloc(m->n);
    struct merges_rule rule = {.order = order, .n_order = m->n};
    int                status = order && scores && normal ? 0 : draft_nomem(s->d);
    for (size_t i = 0; i < m->n && !status; i++) {
        order[i] = (int32_t)i;
        scores[i] = m->pieces[i].score;
        normal[i] = m->pieces[i].kind == SPM_NORMAL;
    }
    if (!status && (status = by_id ? merges_derive(merges, s->vocab, &rule, s->d->e)
                                   : merges_derive_by_score(merges, s->vocab, scores, normal, s->d->e)) != 0)
        error_prefix(s->d->e, "%s", s->d->path);
    free(order);
    free(scores);
    free(normal);
    return status;
}

/* unk: whether an unknown character becomes the unknown piece, or nothing. */
static int put_bpe(struct source *s, bool by_id, bool unk, bool byte_fallback, bool ignore_merges)
{
    struct buf   *b = &s->d->text;
    struct merges merges = {0};
    int           status = derive(s, by_id, &merges);
    if (!status) {
        buf_printf(
            b,
            "{\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":%s,\"ignore_merges\":%s,\"unk_token\":",
            byte_fallback ? "true" : "false", ignore_merges ? "true" : "false");
        if (unk)
            draft_put_text(b, vocab_text(s->vocab, s->m.unk_id));
        else
            buf_puts(b, "null");
        buf_putc(b, ',');
        draft_put_vocab(s->d, s->vocab);
        buf_putc(b, ',');
        draft_put_merges(s->d, s->vocab, &merges);
        buf_putc(b, '}');
    }
    merges_deinit(&merges);
    return status;
}

/* A score in digits that the reader of tokenizer.json, which rounds twice, reads as just that number. */
static void put_score(struct buf *b, double score)
{
    char text[40];
    for (int digits = 15; digits <= 20; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, score);
        if (decimal_read(str_of(text)) == score)
            break;
    }
    buf_puts(b, text);
}

static void put_unigram(struct source *s)
{
    struct buf *b = &s->d->text;
    buf_printf(b, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":%d,\"byte_fallback\":%s,\"vocab\":[", s->m.unk_id,
               s->m.byte_fallback ? "true" : "false");
    for (size_t i = 0; i < s->m.n; i++) {
        buf_puts(b, i ? ",[" : "[");
        draft_put_text(b, vocab_text(s->vocab, (int64_t)i));
        buf_putc(b, ',');
        put_score(b, (double)s->m.pieces[i].score);
        buf_putc(b, ']');
    }
    buf_puts(b, "]}");
}

/* ---- the classes ---- */

static const char decoder_plain[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" SPACE "\"},\"content\":\" \"}";
static const char byte_fallback[] = ",{\"type\":\"ByteFallback\"}", fuse[] = ",{\"type\":\"Fuse\"}";
static const char strip[] = ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}";

static void put_decoder(struct source *s, bool bytes, bool prefix)
{
    buf_printf(&s->decoder, "{\"type\":\"Sequence\",\"decoders\":[%s%s%s%s]}", decoder_plain,
               bytes ? byte_fallback : "", bytes || prefix ? fuse : "", prefix ? strip : "");
}

static void put_metaspace(struct buf *b, const char *scheme)
{
    buf_printf(b, "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"%s\",\"split\":false}",
               scheme);
}

/* ---- the generic class ---- */

struct symbol {
    struct str text;
    size_t     length, place;
};

static int longest_first(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    return x->length != y->length ? (x->length < y->length) - (x->length > y->length)
                                  : (x->place > y->place) - (x->place < y->place);
}

/* A text as a pattern that matches just it. */
static void put_literal(struct buf *b, struct str text)
{
    static const char meta[] = "\\^$.|?*+()[]{}-&~#";
    for (size_t i = 0; i < text.n; i++) {
        if (memchr(meta, text.p[i], sizeof meta - 1))
            buf_putc(b, '\\');
        buf_putc(b, text.p[i]);
    }
}

/* User-defined pieces are never joined with others: a Split that isolates them, the longest first. */
static int put_user_defined(struct source *s, size_t count)
{
    struct symbol *v = malloc(count * sizeof *v);
    struct buf     pattern;
    size_t         n = 0;
    if (!v)
        return draft_nomem(s->d);
    buf_init(&pattern, PATTERN_MAX);
    for (size_t i = 0; i < s->m.n; i++) {
        struct str text = vocab_text(s->vocab, (int64_t)i);
        if (s->m.pieces[i].kind == SPM_USER_DEFINED)
            v[n++] = (struct symbol){text, utf8_count(text.p, text.n), i};
    }
    qsort(v, n, sizeof *v, longest_first);
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_putc(&pattern, '|');
        put_literal(&pattern, v[i].text);
    }
    free(v);
    buf_puts(&s->pre_tokenizer,
             "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":");
    draft_put_text(&s->pre_tokenizer, buf_str(&pattern));
    buf_puts(&s->pre_tokenizer, "}}");
    int status = draft_check(s->d, &pattern, "the pattern for its user-defined pieces");
    buf_deinit(&pattern);
    return status;
}

static void put_replace(struct buf *b, const char *kind, const char *pattern, const char *content)
{
    buf_printf(b, "%s{\"type\":\"Replace\",\"pattern\":{\"%s\":\"%s\"},\"content\":\"%s\"}",
               b->p && b->p[b->n - 1] == '}' ? "," : "", kind, pattern, content);
}

/* The members of the normalizer's Sequence, in SentencePiece's order. */
static void put_normalizers(struct source *s, bool legacy)
{
    struct buf *b = &s->normalizer;
    if (s->m.charsmap.n) {
        buf_puts(b, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        base64_encode(s->m.charsmap.p, s->m.charsmap.n, b);
        buf_puts(b, "\"}");
    }
    if (s->m.remove_extra_whitespaces) {
        put_replace(b, "Regex", "\\\\A +| +\\\\z", "");
        put_replace(b, "Regex", " {2,}", " ");
    }
    if (s->m.escape_whitespaces)
        put_replace(b, "String", " ", SPACE);
    if (s->m.add_dummy_prefix && legacy)
        put_replace(b, "Regex", "\\\\A" SPACE, SPACE SPACE);
}

/* Pieces are called what added_tokens_decoder calls their ids, unless another piece that keeps its name is called so; in
 * a unigram model the reference leaves the names and adds the tokens. */
static int rename_pieces(struct source *s)
{
    const json_t *table = json_object_get(s->d->config, "added_tokens_decoder");
    s->vocab = &s->m.vocab;
    if (!json_object_size(table) || s->m.type == SPM_UNIGRAM)
        return 0;
    for (size_t i = 0; i < s->m.n; i++) {
        char          key[32];
        struct str    text = vocab_text(&s->m.vocab, (int64_t)i);
        const json_t *name;
        snprintf(key, sizeof key, "%zu", i);
        name = json_object_get(json_object_get(table, key), "content");
        if (json_is_string(name)) {
            struct str other = {json_string_value(name), json_string_length(name)};
            int32_t    owner = vocab_find(&s->m.vocab, other);
            snprintf(key, sizeof key, "%d", owner);
            if (owner < 0 || json_object_get(table, key))
                text = other;
        }
        if (!vocab_put(&s->renamed, (int32_t)i, text))
            return draft_nomem(s->d);
    }
    if (!vocab_index(&s->renamed, NULL))
        return draft_nomem(s->d);
    s->vocab = &s->renamed;
    return 0;
}

static int generic(struct source *s)
{
    struct spm   *m = &s->m;
    struct draft *d = s->d;
    const json_t *setting = json_object_get(d->config, "legacy");
    bool          legacy = !setting || json_is_true(setting); /* null is false */
    size_t        user_defined = 0;
    int           status = rename_pieces(s);
    for (size_t i = 0; i < m->n; i++)
        user_defined += m->pieces[i].kind == SPM_USER_DEFINED;
    put_normalizers(s, legacy);
    if (m->add_dummy_prefix)
        put_metaspace(&s->pre_tokenizer, legacy ? "always" : "first");
    if (m->add_dummy_prefix && user_defined)
        buf_putc(&s->pre_tokenizer, ',');
    if (!status && user_defined)
        status = put_user_defined(s, user_defined);
    put_decoder(s, m->byte_fallback, m->add_dummy_prefix);
    d->raw_decoder = m->add_dummy_prefix;
    d->named[NAMED_UNK] = vocab_text(s->vocab, m->unk_id);
    if (m->bos_id >= 0 && vocab_find(s->vocab, m->bos) >= 0)
        d->named[NAMED_BOS] = m->bos;
    if (m->eos_id >= 0 && vocab_find(s->vocab, m->eos) >= 0)
        d->named[NAMED_EOS] = m->eos;
    if (status || m->type == SPM_BPE)
        return status ? status : put_bpe(s, false, true, m->byte_fallback, user_defined > 0);
    put_unigram(s);
    return 0;
}

/* ---- the three classes with fixed components ---- */

static int llama(struct source *s, bool code)
{
    static const char *const infill[INFILL] = {SPACE "<PRE>", SPACE "<MID>", SPACE "<SUF>", SPACE "<EOT>"};
    struct draft            *d = s->d;
    bool                     prefix = draft_flag(d, "add_prefix_space", true);
    bool                     first = code || !draft_flag(d, "legacy", false);
    put_metaspace(&s->pre_tokenizer, !prefix ? "never" : first ? "first" : "always");
    put_decoder(s, true, prefix || code);
    d->named[NAMED_UNK] = STR("<unk>");
    d->named[NAMED_BOS] = STR("<s>");
    d->named[NAMED_EOS] = STR("</s>");
    for (size_t i = 0; code && i < INFILL; i++)
        if (vocab_find(s->vocab, str_of(infill[i])) >= 0)
            s->extra[s->n_extra++] = (struct draft_token){.content = str_of(infill[i]), .special = true, .id = -1};
    s->add_bos = code;
    return put_bpe(s, true, code, true, false);
}

static int gemma(struct source *s)
{
    struct draft *d = s->d;
    buf_puts(&s->normalizer, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}");
    put_decoder(s, true, false);
    d->named[NAMED_UNK] = STR("<unk>");
    d->named[NAMED_BOS] = STR("<bos>");
    d->named[NAMED_EOS] = STR("<eos>");
    d->named[NAMED_PAD] = STR("<pad>");
    d->named[NAMED_MASK] = STR("<mask>");
    return put_bpe(s, true, true, true, false);
}

/* ---- the whole ---- */

/* The pieces that are looked for in a text as they are: the control pieces, and the user-defined ones where no Split
 * isolates them. */
static int collect_extra(struct source *s, bool user_defined)
{
    s->extra = calloc(s->m.n + INFILL, sizeof *s->extra);
    if (!s->extra)
        return draft_nomem(s->d);
    for (size_t i = 0; i < s->m.n; i++) {
        uint8_t kind = s->m.pieces[i].kind;
        if (kind == SPM_CONTROL || (kind == SPM_USER_DEFINED && user_defined))
            s->extra[s->n_extra++] = (struct draft_token){
                .content = vocab_text(&s->m.vocab, (int64_t)i), .special = kind == SPM_CONTROL, .id = -1};
    }
    return 0;
}

/* Classes with components of their own in transformers that are not built. */
static const char *const other_classes[] = {
    "AlbertTokenizer",      "BarthezTokenizer",   "BigBirdTokenizer", "CamembertTokenizer", "CpmTokenizer",
    "DebertaV2Tokenizer",   "LayoutXLMTokenizer", "MBart50Tokenizer", "MBartTokenizer",     "MLukeTokenizer",
    "NllbTokenizer",        "PegasusTokenizer",   "PLBartTokenizer",  "ReformerTokenizer",  "RemBertTokenizer",
    "SeamlessM4TTokenizer", "T5Tokenizer",        "UdopTokenizer",    "XGLMTokenizer",      "XLMRobertaTokenizer",
    "XLNetTokenizer"};

static int check_class(struct draft *d)
{
    for (size_t i = 0; i < ARRAY_LEN(other_classes); i++)
        if (draft_is_class(d, other_classes[i]))
            return error_set(d->e, ERR_UNSUPPORTED, "tokenizer_class",
                             "%s: the class %s is not supported without a tokenizer.json", d->path, d->class_name);
    return 0;
}

static int fill(struct source *s)
{
    struct draft *d = s->d;
    bool          code = draft_is_class(d, "CodeLlamaTokenizer"), gemmas = draft_is_class(d, "GemmaTokenizer");
    bool          fixed = s->m.type == SPM_BPE && (code || gemmas || draft_is_class(d, "LlamaTokenizer"));
    int           status;
    if ((status = check_class(d)) || (status = collect_extra(s, fixed)))
        return status;
    s->vocab = &s->m.vocab;
    status = !fixed ? generic(s) : gemmas ? gemma(s) : llama(s, code);
    return status ? status : draft_read_tokens(d, s->extra, s->n_extra);
}

int sentencepiece_draft(struct draft *d, struct str file)
{
    struct source      s = {.d = d};
    struct draft_parts parts = {0};
    int                status;
    vocab_init(&s.renamed);
    buf_init(&s.normalizer, TEXT_MAX);
    buf_init(&s.pre_tokenizer, TEXT_MAX);
    buf_init(&s.decoder, TEXT_MAX);
    buf_puts(&s.normalizer, "{\"type\":\"Sequence\",\"normalizers\":[");
    buf_puts(&s.pre_tokenizer, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    status = spm_read(&s.m, file, d->path, d->e);
    if (!status)
        status = fill(&s);
    buf_puts(&s.normalizer, "]}");
    buf_puts(&s.pre_tokenizer, "]}");
    if (!status && (status = draft_check(d, &s.normalizer, "the normalizer that it implies")) == 0 &&
        (status = draft_check(d, &s.pre_tokenizer, "the pre_tokenizer that it implies")) == 0)
        status = draft_check(d, &s.decoder, "the decoder that it implies");
    if (!status) {
        parts.normalizer = buf_cstr(&s.normalizer);
        parts.pre_tokenizer = buf_cstr(&s.pre_tokenizer);
        parts.decoder = buf_cstr(&s.decoder);
        draft_around_by_flags(d, s.add_bos, &parts);
        status = draft_finish(d, s.vocab, &parts);
    }
    spm_deinit(&s.m);
    vocab_deinit(&s.renamed);
    free(s.extra);
    buf_deinit(&s.normalizer);
    buf_deinit(&s.pre_tokenizer);
    buf_deinit(&s.decoder);
    return status;
}
