/* Drafts from vocab.json with merges.txt (byte-level BPE, as GPT-2 came) and from vocab.txt (WordPiece, as BERT came).
 *
 * The rest is the class's: a table has the components and the default special tokens of those that transformers builds
 * from such files. A checkpoint that names no class has GPT-2's or BERT's. */
#include "text/sources.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/split_patterns.h"
#include "text/unicode.h"

#define PART_MAX 4096
#define VOCAB_MAX 2000000

/* ---- vocab.json and merges.txt ---- */

struct bpe_class {
    const char *name;
    const char *pattern;             /* NULL: GPT-2's, which ByteLevel has built in */
    bool        nfc, digits, around; /* around: cls_token and sep_token stand around every text */
    const char *named[NAMED_COUNT];
};

#define END "<|endoftext|>"
static const struct bpe_class bpe_classes[] = {
    {"GPT2Tokenizer", NULL, false, false, false, {END, END, END}},
    {"CodeGenTokenizer", NULL, false, false, false, {END, END, END}},
    {"GPTNeoXTokenizer", NULL, true, false, false, {END, END, END, NULL, "<|padding|>"}},
    {"Qwen2Tokenizer", SPLIT_QWEN2, true, false, false, {NULL, END, END, NULL, END}},
    {"Qwen3_5Tokenizer", SPLIT_QWEN3_5, true, false, false, {NULL, END, END, NULL, END}},
    {"CohereTokenizer",
     NULL,
     true,
     true,
     false,
     {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>"}},
    {"RobertaTokenizer", NULL, false, false, true, {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
};

static int refuse_class(struct draft *d, const char *known)
{
    return error_set(d->e, ERR_UNSUPPORTED, "tokenizer_class",
                     "%s: the class %s is not supported without a tokenizer.json; from this file come %s", d->path,
                     d->class_name, known);
}

static const struct bpe_class *find_bpe_class(struct draft *d)
{
    struct buf known;
    if (!d->class_name)
        return &bpe_classes[0];
    for (size_t i = 0; i < ARRAY_LEN(bpe_classes); i++)
        if (!strcmp(d->class_name, bpe_classes[i].name))
            return &bpe_classes[i];
    buf_init(&known, 1000);
    for (size_t i = 0; i < ARRAY_LEN(bpe_classes); i++)
        buf_printf(&known, "%s%s", i ? ", " : "", bpe_classes[i].name);
    refuse_class(d, buf_cstr(&known));
    buf_deinit(&known);
    return NULL;
}

static void set_named(struct draft *d, const char *const *named)
{
    for (int i = 0; i < NAMED_COUNT; i++)
        if (named[i])
            d->named[i] = str_of(named[i]);
}

/* The vocabulary, for the ids of the tokens around it; the document gets the file's own text. */
static int read_vocab_json(struct draft *d, struct str file, struct vocab *vocab)
{
    struct json j;
    struct buf  key;
    int         status = 0;
    json_init(&j, file.p, file.n);
    buf_init(&key, file.n + 1);
    if (json_next(&j) != JSON_OBJECT && !j.why)
        status = error_set(d->e, ERR_FORMAT, NULL, "%s: not a JSON object", d->path);
    while (!status && json_next(&j) == JSON_KEY) {
        buf_clear(&key);
        buf_put(&key, j.text.p, j.text.n);
        if (json_next(&j) != JSON_INT || j.i < 0 || j.i >= VOCAB_MAX)
            status = j.why ? 0
                           : error_set(d->e, ERR_FORMAT, NULL, "%s: the id of '%.*s' is not an integer from 0 to %d",
                                       d->path, (int)MIN(key.n, (size_t)100), buf_cstr(&key), VOCAB_MAX - 1);
        else if (key.failed || !vocab_put(vocab, (int32_t)j.i, buf_str(&key)))
            status = draft_nomem(d);
    }
    if (!status && json_next(&j) != JSON_EOF)
        status =
            j.why ? json_fault(&j, d->e, d->path) : error_set(d->e, ERR_FORMAT, NULL, "%s: malformed JSON", d->path);
    json_deinit(&j);
    buf_deinit(&key);
    if (!status && !vocab_index(vocab, NULL))
        status = draft_nomem(d);
    return status;
}

static int check_line(struct draft *d, const char *path, size_t line, struct str s)
{
    return utf8_valid_prefix(s.p, s.n) == s.n
               ? 0
               : error_set(d->e, ERR_FORMAT, NULL, "%s: line %zu is not UTF-8", path, line);
}

/* merges.txt: one merge a line, two parts with one space between; lines that begin with "#version" are none. */
static int put_merges_file(struct draft *d)
{
    struct file_map f = {0};
    struct buf     *b = &d->text;
    const char     *path = arena_printf(&d->arena, "%s/merges.txt", d->dir), *comma = "";
    int             status = path ? file_map_open(&f, path, d->e) : draft_nomem(d);
    if (status)
        return status;
    buf_puts(b, "\"merges\":[");
    for (size_t at = 0, line = 1; at < f.n && !status; line++) {
        const char *end = memchr(f.p + at, '\n', f.n - at);
        struct str  s = {f.p + at, end ? (size_t)(end - f.p) - at : f.n - at};
        at += s.n + 1;
        if (s.n && s.p[s.n - 1] == '\r')
            s.n--;
        if (s.n >= 8 && !memcmp(s.p, "#version", 8))
            continue;
        const char *space = memchr(s.p, ' ', s.n);
        size_t      left = space ? (size_t)(space - s.p) : s.n;
        if (!space || memchr(space + 1, ' ', s.n - left - 1)) {
            status =
                error_set(d->e, ERR_FORMAT, NULL, "%s: line %zu is not two parts with one space between", path, line);
            break;
        }
        if ((status = check_line(d, path, line, s)) != 0)
            break;
        buf_printf(b, "%s[", comma);
        draft_put_text(b, (struct str){s.p, left});
        buf_putc(b, ',');
        draft_put_text(b, (struct str){space + 1, s.n - left - 1});
        buf_putc(b, ']');
        comma = ",";
    }
    buf_putc(b, ']');
    file_map_close(&f);
    return status;
}

static void put_pre_tokenizer(const struct bpe_class *c, bool prefix, struct buf *b)
{
    buf_puts(b, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    if (c->digits)
        buf_puts(b, "{\"type\":\"Digits\",\"individual_digits\":true},");
    if (c->pattern) {
        buf_puts(b, "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":");
        draft_put_text(b, str_of(c->pattern));
        buf_puts(b, "}},");
    }
    buf_printf(b, "{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":%s}]}", prefix ? "true" : "false",
               c->pattern ? "false" : "true");
}

static int put_bpe_rest(struct draft *d, const struct bpe_class *c, const struct vocab *vocab)
{
    struct draft_parts parts = {.normalizer = c->nfc ? "{\"type\":\"NFC\"}" : NULL,
                                .decoder = "{\"type\":\"ByteLevel\"}"};
    struct buf         pre;
    int                status;
    buf_init(&pre, PART_MAX);
    put_pre_tokenizer(c, draft_flag(d, "add_prefix_space", false), &pre);
    parts.pre_tokenizer = buf_cstr(&pre);
    if (c->around) {
        parts.before[0] = d->named[NAMED_CLS];
        parts.after[0] = d->named[NAMED_SEP];
    } else
        draft_around_by_flags(d, false, &parts);
    if ((status = draft_check(d, &pre, "the pre_tokenizer that it implies")) == 0)
        status = draft_finish(d, vocab, &parts);
    buf_deinit(&pre);
    return status;
}

int vocab_json_draft(struct draft *d, struct str file)
{
    const struct bpe_class *c = find_bpe_class(d);
    struct vocab            vocab;
    int                     status;
    if (!c)
        return ERR_UNSUPPORTED;
    vocab_init(&vocab);
    status = read_vocab_json(d, file, &vocab);
    if (!status) {
        buf_puts(&d->text, "{\"model\":{\"type\":\"BPE\",\"vocab\":");
        buf_put(&d->text, file.p, file.n);
        buf_putc(&d->text, ',');
        status = put_merges_file(d);
        buf_putc(&d->text, '}');
    }
    set_named(d, c->named);
    if (!status)
        status = draft_read_tokens(d, NULL, 0);
    if (!status)
        status = put_bpe_rest(d, c, &vocab);
    vocab_deinit(&vocab);
    return status;
}

/* ---- vocab.txt ---- */

/* Without the white space (Unicode's) at its end. */
static struct str trim_end(struct str s)
{
    for (size_t at = s.n; at; s.n = at) {
        uint32_t cp;
        do
            at--;
        while (at && ((unsigned char)s.p[at] & 0xc0) == 0x80);
        if (utf8_decode(s.p + at, s.n - at, &cp) <= 0 || !(unicode_class(cp) & UNICODE_SPACE))
            break;
    }
    return s;
}

/* One token a line, its id is the line's number from 0; white space at its end does not belong to it. Of equal tokens
 * the last one counts. */
static int read_vocab_txt(struct draft *d, struct str file, struct vocab *vocab)
{
    int32_t id = 0;
    for (size_t at = 0; at < file.n; id++) {
        const char *end = memchr(file.p + at, '\n', file.n - at);
        struct str  s = {file.p + at, end ? (size_t)(end - file.p) - at : file.n - at};
        at += s.n + 1;
        if (id >= VOCAB_MAX)
            return error_set(d->e, ERR_LIMIT, NULL, "%s: there are more than %d tokens", d->path, VOCAB_MAX);
        int status = check_line(d, d->path, (size_t)id + 1, s);
        if (status || !vocab_put(vocab, id, trim_end(s)))
            return status ? status : draft_nomem(d);
    }
    return vocab_index(vocab, NULL) ? 0 : draft_nomem(d);
}

static int put_word_piece(struct draft *d, const struct vocab *vocab)
{
    struct buf *b = &d->text;
    struct str  unk = d->named[NAMED_UNK].p ? d->named[NAMED_UNK] : STR("[UNK]");
    if (vocab_find(vocab, unk) < 0)
        return error_set(d->e, ERR_FORMAT, "unk_token", "%s: there is no token '%.*s' for unknown words", d->path,
                         (int)MIN(unk.n, (size_t)100), unk.p);
    buf_puts(b, "{\"model\":{\"type\":\"WordPiece\",\"continuing_subword_prefix\":\"##\","
                "\"max_input_chars_per_word\":100,\"unk_token\":");
    draft_put_text(b, unk);
    buf_putc(b, ',');
    draft_put_vocab(d, vocab);
    buf_putc(b, '}');
    return 0;
}

static int put_bert_rest(struct draft *d, const struct vocab *vocab)
{
    static const char *const words[] = {"false", "true"};
    int                      strip = draft_setting(d, "strip_accents");
    struct draft_parts       parts = {.pre_tokenizer = "{\"type\":\"BertPreTokenizer\"}",
                                      .decoder = "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}"};
    parts.normalizer = arena_printf(&d->arena,
                                    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":%s,"
                                    "\"strip_accents\":%s,\"lowercase\":%s}",
                                    words[draft_flag(d, "tokenize_chinese_chars", true)],
                                    strip < 0 ? "null" : words[strip], words[draft_flag(d, "do_lower_case", true)]);
    parts.before[0] = d->named[NAMED_CLS];
    parts.after[0] = d->named[NAMED_SEP];
    return parts.normalizer ? draft_finish(d, vocab, &parts) : draft_nomem(d);
}

int vocab_txt_draft(struct draft *d, struct str file)
{
    static const char *const named[NAMED_COUNT] = {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    struct vocab             vocab;
    int                      status;
    if (d->class_name && !draft_is_class(d, "BertTokenizer"))
        return refuse_class(d, "BertTokenizer");
    vocab_init(&vocab);
    set_named(d, named);
    if ((status = read_vocab_txt(d, file, &vocab)) == 0 && (status = draft_read_tokens(d, NULL, 0)) == 0 &&
        (status = put_word_piece(d, &vocab)) == 0)
        status = put_bert_rest(d, &vocab);
    vocab_deinit(&vocab);
    return status;
}
