/* tokenizer.json, tokenizer_config.json and chat_template.jinja from the tokenizer.ggml.* values.
 *
 * GGUF keeps of a byte-level BPE tokenizer the tokens, their types, the merges and one word that names the
 * pre-tokenizer; the rest of tokenizer.json is what the tokenizers of that word's models have. Tokens of the type
 * "control" become special added tokens, "user defined" ones added tokens that are not special; both also stay in the
 * vocabulary, so that their ids hold.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"
#include "convert/import.h"
#include "text/split_patterns.h"
#include "text/spm.h"

/* Far above any real tokenizer; they bound the memory that a hostile file can make us use. */
#define TOKENS_MAX 1000000
#define ADDED_MAX 200000

#define SPM_SPACE "\xe2\x96\x81" /* U+2581, which SentencePiece writes for a space */

struct pre {
    const char *name, *pattern;                  /* the pattern is NULL for GPT-2's, which ByteLevel has built in */
    bool        digits, nfc, ignore_merges, bos; /* bos: what holds when tokenizer.ggml.add_bos_token is missing */
};
static const struct pre pres[] = {
    {"smollm", NULL, true, false, false, false},        {"starcoder", NULL, true, false, false, false},
    {"gpt-2", NULL, false, false, false, false},        {"llama-bpe", SPLIT_LLAMA3, false, false, true, true},
    {"qwen2", SPLIT_QWEN2, false, true, false, false},  {"deepseek-r1-qwen", SPLIT_QWEN2, false, true, false, false},
    {"tekken", SPLIT_TEKKEN, false, false, true, true},
};

/* What SentencePiece's models have: no word but bos is put before a text, and a space. */
static const struct pre spm_pre = {"llama", NULL, false, false, false, true};

struct gguf_vocab {
    const struct import *m;
    const struct pre    *pre;
    bool                 spm; /* SentencePiece's, with scores in the place of merges */
    struct str          *tokens;
    uint8_t             *types; /* [n] */
    int64_t              n;
    json_t              *ids;   /* token -> id */
    json_t              *added; /* added_tokens */
};

/* ---- reading ---- */

static int fault_at(const struct gguf_vocab *v, const char *key, uint64_t i, const char *what, struct error *e)
{
    return error_set(e, ERR_FORMAT, key, "%s: element %" PRIu64 " of %s %s", gguf_name(v->m->g), i, key, what);
}

static int find_pre(struct gguf_vocab *v, struct error *e)
{
    struct str  model, pre = STR("default");
    const char *key = "tokenizer.ggml.pre";
    int         status = gguf_get_str(v->m->g, "tokenizer.ggml.model", &model, e);
    if (!status && gguf_has(v->m->g, key))
        status = gguf_get_str(v->m->g, key, &pre, e);
    if (status)
        return status;
    v->spm = str_is(model, "llama");
    if (v->spm) {
        v->pre = &spm_pre;
        return 0;
    }
    if (!str_is(model, "gpt2"))
        return error_set(e, ERR_UNSUPPORTED, "tokenizer.ggml.model",
                         "%s: tokenizer.ggml.model is '" STR_FMT
                         "'; byte-level BPE ('gpt2') and SentencePiece's ('llama') can be imported",
                         gguf_name(v->m->g), (int)MIN(model.n, (size_t)64), model.p);
    char list[256] = "";
    for (size_t i = 0, n = 0; i < ARRAY_LEN(pres); i++) {
        if (str_is(pre, pres[i].name)) {
            v->pre = &pres[i];
            return 0;
        }
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", pres[i].name);
    }
    return error_set(e, ERR_UNSUPPORTED, key, "%s: %s '" STR_FMT "' is not known; %s can be imported",
                     gguf_name(v->m->g), key, (int)MIN(pre.n, (size_t)64), pre.p, list);
}

static int add_token(struct gguf_vocab *v, int64_t id, int64_t type, struct error *e)
{
    const char *key = "tokenizer.ggml.tokens";
    struct str  t = v->tokens[id];
    if (utf8_valid_prefix(t.p, t.n) != t.n || t.n > INT32_MAX)
        return fault_at(v, key, (uint64_t)id, "is not UTF-8", e);
    if (type == SPM_UNUSED)
        return 0;
    if (json_object_getn(v->ids, t.p, t.n))
        return fault_at(v, key, (uint64_t)id, "occurs twice", e);
    if (json_object_setn_new(v->ids, t.p, t.n, json_integer(id)))
        return error_nomem(e, "the vocabulary");
    if (type != SPM_CONTROL && type != SPM_USER_DEFINED && type != SPM_UNKNOWN)
        return 0;
    if (json_array_size(v->added) == ADDED_MAX)
        return fault_at(v, key, (uint64_t)id, "is one added token too many", e);
    json_t *o = json_pack("{sI ss# sb sb sb sb sb}", "id", (json_int_t)id, "content", t.p, (int)t.n, "single_word", 0,
                          "lstrip", 0, "rstrip", 0, "normalized", 0, "special", type != SPM_USER_DEFINED);
    return json_array_append_new(v->added, o) ? error_nomem(e, "the added tokens") : 0;
}

static int read_tokens(struct gguf_vocab *v, struct error *e)
{
    struct gguf_array texts, types = {0};
    const char       *key = "tokenizer.ggml.token_type";
    int               status = gguf_get_array(v->m->g, "tokenizer.ggml.tokens", GGUF_KIND_STR, &texts, e);
    if (!status && gguf_has(v->m->g, key))
        status = gguf_get_array(v->m->g, key, GGUF_KIND_INT, &types, e);
    if (status)
        return status;
    if (texts.left > TOKENS_MAX)
        return fault_at(v, "tokenizer.ggml.tokens", TOKENS_MAX, "is one too many", e);
    if (texts.left > (uint64_t)v->m->n_vocab)
        return error_set(e, ERR_MISFIT, "tokenizer.ggml.tokens",
                         "%s: tokenizer.ggml.tokens has %" PRIu64 " elements, the embedding %" PRId64 " rows",
                         gguf_name(v->m->g), texts.left, v->m->n_vocab);
    if (types.left && types.left != texts.left)
        return error_set(e, ERR_MISFIT, key, "%s: %s has %" PRIu64 " elements, tokenizer.ggml.tokens %" PRIu64,
                         gguf_name(v->m->g), key, types.left, texts.left);
    bool typed = types.left > 0;
    v->n = (int64_t)texts.left;
    v->tokens = calloc((size_t)v->n + 1, sizeof *v->tokens);
    v->types = calloc((size_t)v->n + 1, 1);
    v->ids = json_object();
    v->added = json_array();
    if (!v->tokens || !v->types || !v->ids || !v->added)
        return error_nomem(e, "the vocabulary");
    for (int64_t i = 0; i < v->n && !status; i++) {
        int64_t type = typed ? gguf_next_int(&types) : SPM_NORMAL;
        v->tokens[i] = gguf_next_str(&texts);
        v->types[i] = (uint8_t)MIN(MAX(type, 0), SPM_BYTE + 1);
        status = add_token(v, i, type, e);
    }
    return status;
}

/* Adds merge i, "a b": both parts and their union must be tokens. */
static int add_merge(const struct gguf_vocab *v, json_t *merges, uint64_t i, struct str merge, struct buf *joined,
                     struct error *e)
{
    const char *key = "tokenizer.ggml.merges", *space = merge.n ? memchr(merge.p + 1, ' ', merge.n - 1) : NULL;
    size_t      n = space ? (size_t)(space - merge.p) : 0;
    struct str  a = {merge.p, n}, b = space ? (struct str){space + 1, merge.n - n - 1} : (struct str){0};
    if (i == IMPORT_MERGES_MAX)
        return fault_at(v, key, i, "is one too many", e);
    buf_clear(joined);
    buf_put(joined, a.p, a.n);
    buf_put(joined, b.p, b.n);
    if (joined->failed)
        return error_nomem(e, "the merges");
    if (!space || !json_object_getn(v->ids, a.p, a.n) || !json_object_getn(v->ids, b.p, b.n) ||
        !json_object_getn(v->ids, buf_cstr(joined), joined->n))
        return fault_at(v, key, i, "is not two tokens of the vocabulary, with a space between, that make a third", e);
    json_t *pair = json_pack("[s# s#]", a.p, (int)a.n, b.p, (int)b.n);
    return json_array_append_new(merges, pair) ? error_nomem(e, "the merges") : 0;
}

static int read_merges(const struct gguf_vocab *v, json_t *merges, struct error *e)
{
    struct gguf_array list;
    struct buf        joined;
    int               status = gguf_get_array(v->m->g, "tokenizer.ggml.merges", GGUF_KIND_STR, &list, e);
    buf_init(&joined, INT32_MAX);
    for (uint64_t i = 0, n = status ? 0 : list.left; i < n && !status; i++)
        status = add_merge(v, merges, i, gguf_next_str(&list), &joined, e);
    buf_deinit(&joined);
    return status;
}

/* The text of the token that an id value names; p is NULL when the value is missing. */
static int special_token(const struct gguf_vocab *v, const char *key, struct str *text, int64_t *id, struct error *e)
{
    *text = (struct str){0};
    *id = -1;
    if (!v->n || !gguf_has(v->m->g, key))
        return 0;
    int status = gguf_get_int(v->m->g, key, 0, v->n - 1, id, e);
    if (!status && v->tokens)
        *text = v->tokens[*id];
    return status;
}

static int flag(const struct gguf_vocab *v, const char *key, bool dflt, bool *out, struct error *e)
{
    *out = dflt;
    return gguf_has(v->m->g, key) ? gguf_get_bool(v->m->g, key, out, e) : 0;
}

/* ---- tokenizer.json ---- */

static json_t *byte_level(bool prefix_space, bool use_regex)
{
    return json_pack("{ss sb sb sb}", "type", "ByteLevel", "add_prefix_space", prefix_space, "trim_offsets", 1,
                     "use_regex", use_regex);
}

static json_t *pre_tokenizer(const struct pre *pre, bool prefix_space)
{
    json_t *last = byte_level(prefix_space, !pre->pattern);
    if (pre->pattern)
        return json_pack("{ss s[{ss s{ss} ss sb} o]}", "type", "Sequence", "pretokenizers", "type", "Split", "pattern",
                         "Regex", pre->pattern, "behavior", "Isolated", "invert", 0, last);
    if (pre->digits)
        return json_pack("{ss s[{ss sb} o]}", "type", "Sequence", "pretokenizers", "type", "Digits",
                         "individual_digits", 1, last);
    return last;
}

/* Adds a piece that stands for one special token to the template, and its entry to the table. */
static int add_special(json_t *single, json_t *table, struct str text, int64_t id)
{
    json_t *piece = json_pack("{s{ss# si}}", "SpecialToken", "id", text.p, (int)text.n, "type_id", 0);
    json_t *entry =
        json_pack("{ss# s[I] s[s#]}", "id", text.p, (int)text.n, "ids", (json_int_t)id, "tokens", text.p, (int)text.n);
    return json_array_append_new(single, piece) | json_object_setn_new(table, text.p, text.n, entry);
}

/* *out: the post-processor; JSON null when nothing is added to a text. */
static int post_processor(const struct gguf_vocab *v, json_t **out, struct error *e)
{
    struct str bos, eos;
    int64_t    bos_id, eos_id;
    bool       add_bos, add_eos;
    int        status, failed = 0;
    if ((status = flag(v, "tokenizer.ggml.add_bos_token", v->pre->bos, &add_bos, e)) ||
        (status = flag(v, "tokenizer.ggml.add_eos_token", false, &add_eos, e)) ||
        (status = special_token(v, "tokenizer.ggml.bos_token_id", &bos, &bos_id, e)) ||
        (status = special_token(v, "tokenizer.ggml.eos_token_id", &eos, &eos_id, e)))
        return status;
    add_bos &= bos_id >= 0;
    add_eos &= eos_id >= 0;
    *out = add_bos || add_eos ? json_array() : json_null();
    if (!add_bos && !add_eos)
        return 0;
    json_t *single = *out, *table = json_object();
    if (add_bos)
        failed |= add_special(single, table, bos, bos_id);
    failed |= json_array_append_new(single, json_pack("{s{ss si}}", "Sequence", "id", "A", "type_id", 0));
    if (add_eos)
        failed |= add_special(single, table, eos, eos_id);
    *out = json_pack("{ss so s[{s{ss si}} {s{ss si}}] so}", "type", "TemplateProcessing", "single", single, "pair",
                     "Sequence", "id", "A", "type_id", 0, "Sequence", "id", "B", "type_id", 1, "special_tokens", table);
    return failed || !*out ? error_nomem(e, "the post-processor") : 0;
}

/* SentencePiece's normalizer and decoder. `prefix`: a text begins with a space that it does not have. */
static json_t *spm_normalizer(bool prefix)
{
    json_t *space = json_pack("{ss s{ss} ss}", "type", "Replace", "pattern", "String", " ", "content", SPM_SPACE);
    if (!prefix)
        return space;
    return json_pack("{ss s[{ss ss} o]}", "type", "Sequence", "normalizers", "type", "Prepend", "prepend", SPM_SPACE,
                     space);
}

static json_t *spm_decoder(bool prefix)
{
    json_t *o = json_pack("{ss s[{ss s{ss} ss} {ss} {ss}]}", "type", "Sequence", "decoders", "type", "Replace",
                          "pattern", "String", SPM_SPACE, "content", " ", "type", "ByteFallback", "type", "Fuse");
    json_t *strip = prefix ? json_pack("{ss ss si si}", "type", "Strip", "content", " ", "start", 1, "stop", 0) : NULL;
    if (prefix && json_array_append_new(json_object_get(o, "decoders"), strip)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* The text of the token for unknown characters; JSON null without one. */
static json_t *spm_unk(const struct gguf_vocab *v)
{
    for (int64_t i = 0; v->spm && i < v->n; i++)
        if (v->types[i] == SPM_UNKNOWN)
            return json_stringn(v->tokens[i].p, v->tokens[i].n);
    return json_null();
}

static int write_tokenizer_json(const struct gguf_vocab *v, const struct dir_out *out, struct error *e)
{
    json_t *merges = json_array(), *post = NULL;
    bool    prefix_space, spm = v->spm;
    int     status = merges ? 0 : error_nomem(e, "the merges");
    if (!status)
        status = spm ? import_spm_merges(v->m->g, v->tokens, v->types, v->n, merges, e) : read_merges(v, merges, e);
    if (!status)
        status = flag(v, "tokenizer.ggml.add_space_prefix", spm, &prefix_space, e);
    if (!status)
        status = post_processor(v, &post, e);
    if (status) {
        json_decref(merges);
        json_decref(post);
        return status;
    }
    json_t *normalizer = spm           ? spm_normalizer(prefix_space)
                         : v->pre->nfc ? json_pack("{ss}", "type", "NFC")
                                       : json_null();
    json_t *model = json_pack("{ss sn so sn sn sb sb sb sO so}", "type", "BPE", "dropout", "unk_token", spm_unk(v),
                              "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", spm, "byte_fallback", spm,
                              "ignore_merges", v->pre->ignore_merges, "vocab", v->ids, "merges", merges);
    json_t *o = json_pack("{ss sn sn sO so so so so so}", "version", "1.0", "truncation", "padding", "added_tokens",
                          v->added, "normalizer", normalizer, "pre_tokenizer",
                          spm ? json_null() : pre_tokenizer(v->pre, prefix_space), "post_processor", post, "decoder",
                          spm ? spm_decoder(prefix_space) : byte_level(true, true), "model", model);
    return import_write_json(out, "tokenizer.json", o, false, e);
}

/* ---- the files beside it ---- */

static int write_tokenizer_config(const struct gguf_vocab *v, const struct dir_out *out, struct error *e)
{
    static const char *const names[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                           {"eos_token", "tokenizer.ggml.eos_token_id"},
                                           {"pad_token", "tokenizer.ggml.padding_token_id"},
                                           {"unk_token", "tokenizer.ggml.unknown_token_id"}};
    int                      status = 0, failed = 0;
    json_t *o = json_pack("{ss sI sb}", "tokenizer_class", "PreTrainedTokenizerFast", "model_max_length",
                          (json_int_t)v->m->n_context, "clean_up_tokenization_spaces", 0);
    for (size_t i = 0; i < ARRAY_LEN(names) && !status; i++) {
        struct str text;
        int64_t    id;
        status = special_token(v, names[i][1], &text, &id, e);
        if (!status && id >= 0)
            failed |= json_object_set_new(o, names[i][0], json_stringn(text.p, text.n));
    }
    if (!status && !failed)
        return import_write_json(out, "tokenizer_config.json", o, true, e);
    json_decref(o);
    return status ? status : error_nomem(e, "tokenizer_config.json");
}

static int write_template(const struct gguf_vocab *v, const struct dir_out *out, struct error *e)
{
    const char *key = "tokenizer.chat_template";
    struct str  text;
    int         status = gguf_has(v->m->g, key) ? gguf_get_str(v->m->g, key, &text, e) : ERR_NOT_FOUND;
    if (status == ERR_NOT_FOUND)
        return 0;
    if (!status && utf8_valid_prefix(text.p, text.n) != text.n)
        status = error_set(e, ERR_FORMAT, key, "%s: %s is not UTF-8", gguf_name(v->m->g), key);
    return status ? status : dir_out_write(out, "chat_template.jinja", text.p, text.n, e);
}

int import_write_tokenizer(const struct import *m, const struct dir_out *out, struct error *e)
{
    struct gguf_vocab v = {.m = m, .pre = &pres[0]};
    if (!gguf_has(m->g, "tokenizer.ggml.model")) {
        log_warning(m->log, "%s: there is no tokenizer in this file", gguf_name(m->g));
        return 0;
    }
    int status = find_pre(&v, e);
    if (!status)
        status = read_tokens(&v, e);
    if (!status)
        status = write_tokenizer_json(&v, out, e);
    if (!status)
        status = write_tokenizer_config(&v, out, e);
    if (!status)
        status = write_template(&v, out, e);
    free(v.tokens);
    free(v.types);
    json_decref(v.ids);
    json_decref(v.added);
    return status;
}
