/* A draft from a tiktoken file: lines of a token in base64, a space, its rank.
 *
 * The file has neither the pattern that cuts a text into words nor the special tokens; both stand in code of the model's
 * repository, so a table here knows the published kinds, by the class that tokenizer_config.json names or by the file's
 * name. Another one is refused. Joining goes by the rank of the joined token. */
#include "text/sources.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/num.h"
#include "text/bytelevel.h"
#include "text/split_patterns.h"

#define TOKENS_MAX 1000000
#define TOKEN_MAX 1024 /* bytes of one */
#define PATTERN_MAX 4096

struct kind {
    const char *class_name, *file; /* NULL: any */
    const char *pattern;
    bool        nfc;
    const char *before;   /* tokens that are put before a text, with spaces between */
    const char *specials; /* tokens after the ranks, with spaces between */
    const char *numbered; /* what stands before the number and "|>" in the tokens after those; NULL: there are none */
    int         first, count; /* the numbers; first -1: each token's own id */
};

#define LLAMA3_SPECIALS                                                                                                \
    "<|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> <|reserved_special_token_1|> "                     \
    "<|finetune_right_pad_id|> <|step_id|> <|start_header_id|> <|end_header_id|> <|eom_id|> <|eot_id|> <|python_tag|>"
#define GLM4_SPECIALS                                                                                                  \
    "<|endoftext|> [MASK] [gMASK] [sMASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|> "              \
    "<|begin_of_image|> <|end_of_image|> <|begin_of_video|> <|end_of_video|>"
/* What o200k_harmony, the encoding of gpt-oss, puts after o200k_base's ranks. */
#define O200K_SPECIALS                                                                                                 \
    "<|startoftext|> <|endoftext|> <|reserved_200000|> <|reserved_200001|> <|return|> <|constrain|> "                  \
    "<|reserved_200004|> <|channel|> <|start|> <|end|> <|message|> <|reserved_200009|> <|reserved_200010|> "           \
    "<|reserved_200011|> <|call|>"
/* Id 100256 and those after 100260 are unused; endofprompt is 100276. */
#define CL100K_SPECIALS                                                                                                \
    "<|dummy_0|> <|endoftext|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|dummy_1|> <|dummy_2|> <|dummy_3|> "      \
    "<|dummy_4|> <|dummy_5|> <|dummy_6|> <|dummy_7|> <|dummy_8|> <|dummy_9|> <|dummy_10|> <|dummy_11|> <|dummy_12|> "  \
    "<|dummy_13|> <|dummy_14|> <|dummy_15|> <|endofprompt|>"

static const struct kind kinds[] = {
    {"QWenTokenizer", NULL, SPLIT_QWEN2, true, "", "<|endoftext|> <|im_start|> <|im_end|>", "<|extra_", 0, 205},
    {"HYTokenizer", NULL, SPLIT_QWEN2, true, "", "<|endoftext|> <|startoftext|> <|bos|> <|eos|> <|pad|>", "<|extra_", 0,
     205},
    {"TikTokenTokenizer", NULL, SPLIT_KIMI, false, "", "", "<|reserved_token_", -1, 256},
    {"ChatGLM4Tokenizer", NULL, SPLIT_LLAMA3, false, "[gMASK] <sop>", GLM4_SPECIALS, NULL, 0, 0},
    {NULL, "tokenizer.model", SPLIT_LLAMA3, false, "<|begin_of_text|>", LLAMA3_SPECIALS, "<|reserved_special_token_", 2,
     247},
    {NULL, "qwen.tiktoken", SPLIT_QWEN2, true, "", "<|endoftext|> <|im_start|> <|im_end|>", "<|extra_", 0, 205},
    {NULL, "o200k_base.tiktoken", SPLIT_O200K, false, "", O200K_SPECIALS, "<|reserved_", -1, 1075},
    {NULL, "cl100k_base.tiktoken", SPLIT_CL100K, false, "", CL100K_SPECIALS, NULL, 0, 0},
    {NULL, "r50k_base.tiktoken", SPLIT_R50K, false, "", "<|endoftext|>", NULL, 0, 0},
};

/* ---- the ranks ---- */

struct ranks {
    struct draft *d;
    struct vocab  vocab; /* the tokens as their bytes are spelled, by rank */
    struct buf    bytes; /* of one token */
    size_t        line;
};

static int bad_line(struct ranks *r, int code, const char *what)
{
    return error_set(r->d->e, code, NULL, "%s: line %zu %s", r->d->path, r->line, what);
}

/* Takes the next line, without what ends it. */
static struct str take_line(struct str *rest)
{
    const char *end = memchr(rest->p, '\n', rest->n);
    struct str  line = {rest->p, end ? (size_t)(end - rest->p) : rest->n};
    size_t      taken = line.n + (end != NULL);
    rest->p += taken;
    rest->n -= taken;
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    return line;
}

/* Cuts a line into token and rank. */
static bool cut_line(struct str line, struct str *token, int64_t *rank)
{
    const char *space = memchr(line.p, ' ', line.n);
    char        digits[16] = "";
    size_t      n = space ? (size_t)(line.p + line.n - space - 1) : 0;
    if (!n || n >= sizeof digits)
        return false;
    memcpy(digits, space + 1, n);
    *token = (struct str){line.p, (size_t)(space - line.p)};
    return num_parse_i64(digits, rank) && *rank >= 0;
}

static int read_line(struct ranks *r, struct str line)
{
    char       spelled[2 * TOKEN_MAX];
    struct str token;
    int64_t    rank;
    buf_clear(&r->bytes);
    if (!cut_line(line, &token, &rank))
        return bad_line(r, ERR_FORMAT, "is not a token in base64, a space and a rank");
    if (rank >= TOKENS_MAX)
        return bad_line(r, ERR_LIMIT, "has a rank of a million or more");
    if (token.n > (size_t)2 * TOKEN_MAX)
        return bad_line(r, ERR_LIMIT, "has a token of more than 1024 bytes");
    if (!base64_decode(token, &r->bytes) || (!r->bytes.n && !r->bytes.failed))
        return bad_line(r, ERR_FORMAT, "has a token that is not base64 of at least one byte");
    if (r->bytes.failed)
        return draft_nomem(r->d);
    if (r->bytes.n > TOKEN_MAX)
        return bad_line(r, ERR_LIMIT, "has a token of more than 1024 bytes");
    if (vocab_has(&r->vocab, rank))
        return bad_line(r, ERR_FORMAT, "has a rank that stood before");
    size_t n = bytelevel_spell(r->bytes.p, r->bytes.n, spelled);
    return vocab_put(&r->vocab, (int32_t)rank, (struct str){spelled, n}) ? 0 : draft_nomem(r->d);
}

/* Every rank from 0 on and every byte must be there, and no token twice. */
static int check_ranks(struct ranks *r)
{
    const struct vocab *v = &r->vocab;
    struct draft       *d = r->d;
    struct vocab_twice  twice;
    for (size_t i = 0; i < v->size; i++)
        if (!vocab_has(v, (int64_t)i))
            return error_set(d->e, ERR_FORMAT, NULL, "%s: no token has rank %zu, but one has rank %zu", d->path, i,
                             v->size - 1);
    if (!vocab_index(&r->vocab, &twice))
        return draft_nomem(d);
    if (twice.a >= 0)
        return error_set(d->e, ERR_FORMAT, NULL, "%s: ranks %d and %d have the same token", d->path, twice.a, twice.b);
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte, spelled[2];
        if (vocab_find(v, (struct str){spelled, bytelevel_spell(&c, 1, spelled)}) < 0)
            return error_set(d->e, ERR_FORMAT, NULL, "%s: there is no token for the byte 0x%02X", d->path, byte);
    }
    return 0;
}

static int read_ranks(struct ranks *r, struct str file)
{
    int status = 0;
    while (file.n && !status) {
        struct str line = take_line(&file);
        r->line++;
        if (line.n)
            status = read_line(r, line);
    }
    return status ? status : check_ranks(r);
}

bool tiktoken_is(struct str file)
{
    struct str token;
    int64_t    rank;
    if (!cut_line(take_line(&file), &token, &rank) || token.n % 4 || !token.n)
        return false;
    for (size_t i = 0; i < token.n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", token.p[i]) || !token.p[i])
            return false;
    return true;
}

/* ---- what the file does not say ---- */

/* Whether the class, or the one of the repository's own code that auto_map names ("module.Class"), is called so. */
static bool is_class(const struct draft *d, const char *name)
{
    const json_t *map = json_object_get(d->config, "auto_map");
    const json_t *code = json_is_object(map) ? json_object_get(map, "AutoTokenizer") : map;
    const char   *remote = json_string_value(json_is_array(code) ? json_array_get(code, 0) : code);
    const char   *dot = remote ? strrchr(remote, '.') : NULL;
    return draft_is_class(d, name) || (dot && !strcmp(dot + 1, name));
}

static const struct kind *find_kind(struct draft *d)
{
    const char *file = file_base(d->path);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].class_name && is_class(d, kinds[i].class_name))
            return &kinds[i];
    if (d->class_name && !draft_is_class(d, "LlamaTokenizer"))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].file && !strcmp(kinds[i].file, file))
            return &kinds[i];
    return NULL;
}

static int unknown_kind(struct draft *d)
{
    struct buf known;
    buf_init(&known, 1000);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        buf_printf(&known, "%s%s", i ? ", " : "", kinds[i].class_name ? kinds[i].class_name : kinds[i].file);
    int status = error_set(d->e, ERR_UNSUPPORTED, "tokenizer_class",
                           "%s: the pattern that belongs to this tiktoken file is not known (tokenizer_class is %s); "
                           "known classes and files: %s",
                           d->path, d->class_name ? d->class_name : "not given", buf_cstr(&known));
    buf_deinit(&known);
    return status;
}

/* Adds the token after the others; a name that added_tokens_decoder has for its id goes before `name`. */
static int add_special(struct draft *d, size_t n_ranks, struct str name)
{
    char          key[32];
    const json_t *given;
    snprintf(key, sizeof key, "%zu", n_ranks + d->n_tokens);
    given = json_object_get(json_object_get(json_object_get(d->config, "added_tokens_decoder"), key), "content");
    if (json_is_string(given))
        name = (struct str){json_string_value(given), json_string_length(given)};
    return draft_add_token(d, &(struct draft_token){.content = name, .special = true, .id = -1});
}

static int add_specials(struct draft *d, const struct kind *k, size_t n_ranks)
{
    int status = 0;
    for (const char *p = k->specials; *p && !status;) {
        size_t n = strcspn(p, " ");
        status = add_special(d, n_ranks, (struct str){p, n});
        p += n + (p[n] == ' ');
    }
    for (int i = 0; k->numbered && i < k->count && !status; i++) {
        int         number = k->first < 0 ? (int)(n_ranks + d->n_tokens) : k->first + i;
        const char *name = arena_printf(&d->arena, "%s%d|>", k->numbered, number);
        status = name ? add_special(d, n_ranks, str_of(name)) : draft_nomem(d);
    }
    return status;
}

static int put_model(struct draft *d, const struct vocab *vocab)
{
    struct merges      merges = {0};
    int32_t           *order = malloc(vocab->size * sizeof *order);
    struct merges_rule rule = {.order = order, .n_order = vocab->size, .by_left_id = true};
    int                status = order ? 0 : draft_nomem(d);
    for (size_t i = 0; i < vocab->size && !status; i++)
        order[i] = (int32_t)i;
    if (!status && (status = merges_derive(&merges, vocab, &rule, d->e)) != 0)
        error_prefix(d->e, "%s", d->path);
    if (!status) {
        buf_puts(&d->text, "{\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,");
        draft_put_vocab(d, vocab);
        buf_putc(&d->text, ',');
        draft_put_merges(d, vocab, &merges);
        buf_putc(&d->text, '}');
    }
    free(order);
    merges_deinit(&merges);
    return status;
}

static int put_rest(struct draft *d, const struct kind *k, const struct vocab *vocab)
{
    struct draft_parts parts = {.normalizer = k->nfc ? "{\"type\":\"NFC\"}" : NULL,
                                .decoder = "{\"type\":\"ByteLevel\"}"};
    struct buf         b;
    int                n = 0, status;
    const char        *p = k->class_name || !json_object_size(d->config) ? k->before : "";
    buf_init(&b, PATTERN_MAX);
    buf_puts(&b,
             "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
             "\"pattern\":{\"Regex\":");
    draft_put_text(&b, str_of(k->pattern));
    buf_puts(&b, "}},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}");
    parts.pre_tokenizer = buf_cstr(&b);
    draft_around_by_flags(d, false, &parts);
    for (; *p; p += parts.before[n].n + (p[parts.before[n].n] == ' '), n++)
        parts.before[n] = (struct str){p, strcspn(p, " ")};
    if ((status = draft_check(d, &b, "its pattern")) == 0)
        status = draft_finish(d, vocab, &parts);
    buf_deinit(&b);
    return status;
}

int tiktoken_draft(struct draft *d, struct str file)
{
    const struct kind *k = find_kind(d);
    struct ranks       r = {.d = d};
    int                status;
    if (!k)
        return unknown_kind(d);
    vocab_init(&r.vocab);
    buf_init(&r.bytes, (size_t)2 * TOKEN_MAX);
    if ((status = read_ranks(&r, file)) == 0 && (status = put_model(d, &r.vocab)) == 0 &&
        (status = add_specials(d, k, r.vocab.size)) == 0 && (status = draft_read_tokens(d, NULL, 0)) == 0)
        status = put_rest(d, k, &r.vocab);
    vocab_deinit(&r.vocab);
    buf_deinit(&r.bytes);
    return status;
}
