/* The pre-tokenizers ByteLevel, Split, Digits, Metaspace, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer,
 * CharDelimiterSplit, FixedLength and Sequence of these, as a list of four kinds of steps: most are a Split with a fixed
 * pattern. */
#include "text/pretok.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"
#include "text/bytelevel.h"
#include "text/component_char.h"
#include "text/growth.h"

#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#define FIXED_LENGTH_MAX 65535 /* of a quantifier */

enum kind {
    SPLIT,
    PREFIX, /* puts `text` before pieces that do not begin with it */
    SPACES, /* writes every space as `text` */
    SPELL   /* the spelling of bytes */
};

enum behavior { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };
static const char *const behaviors[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};

struct pretok_step {
    enum kind     kind;
    struct finder find; /* SPLIT */
    enum behavior behavior;
    bool          invert;
    struct str    text;       /* PREFIX, SPACES */
    bool          first_only; /* PREFIX: only at the beginning of the whole input */
};

/* --- loading ---------------------------------------------------------------------------------------------------- */

static struct pretok_step *add_step(struct pretok *p, struct component *c, enum kind kind)
{
    struct pretok_step *v = vec_room(p->v, p->n, &p->cap, sizeof *v);
    if (!v) {
        error_nomem(c->e, "a tokenizer");
        return NULL;
    }
    p->v = v;
    p->v[p->n] = (struct pretok_step){.kind = kind};
    return &p->v[p->n++];
}

static int add_split(struct pretok *p, struct component *c, const char *pattern, enum behavior behavior, bool invert)
{
    struct pretok_step *s = add_step(p, c, SPLIT);
    if (!s)
        return ERR_NOMEM;
    s->behavior = behavior;
    s->invert = invert;
    return finder_regex(&s->find, c, str_of(pattern));
}

/* Writes the characters of a set as what stands in a class. */
static void put_ranges(struct buf *pattern, enum component_set set)
{
    size_t                   n;
    const struct char_range *v = component_ranges(set, &n);
    for (size_t i = 0; i < n; i++)
        buf_printf(pattern, "\\x{%x}-\\x{%x}", v[i].lo, v[i].hi);
}

/* Words, and runs of what is neither word nor white space. */
static int load_whitespace(struct pretok *p, struct component *c)
{
    struct buf pattern;
    int        status;
    buf_init(&pattern, SIZE_MAX - 1);
    for (int other = 0; other < 2; other++) {
        buf_puts(&pattern, other ? "|[^\\s[\\w&&[^" : "[[\\w&&[^");
        put_ranges(&pattern, COMPONENT_WORD_LESS);
        buf_puts(&pattern, "]]");
        put_ranges(&pattern, COMPONENT_WORD_MORE);
        buf_puts(&pattern, "]+");
    }
    status = pattern.failed ? error_nomem(c->e, "a tokenizer") : add_split(p, c, buf_cstr(&pattern), REMOVED, true);
    buf_deinit(&pattern);
    return status;
}

/* At the characters of a set. */
static int add_split_set(struct pretok *p, struct component *c, enum component_set set, enum behavior behavior)
{
    struct buf pattern;
    int        status;
    buf_init(&pattern, SIZE_MAX - 1);
    buf_puts(&pattern, "[");
    put_ranges(&pattern, set);
    buf_puts(&pattern, "]");
    status = pattern.failed ? error_nomem(c->e, "a tokenizer") : add_split(p, c, buf_cstr(&pattern), behavior, false);
    buf_deinit(&pattern);
    return status;
}

static int load_behavior(struct component *c, const json_t *o, enum behavior *out)
{
    struct str name = {0};
    int        status = field_str(c, o, "behavior", &name);
    if (status || !name.p)
        return status;
    for (size_t i = 0; i < ARRAY_LEN(behaviors); i++)
        if (str_is(name, behaviors[i])) {
            *out = (enum behavior)i;
            return 0;
        }
    return component_malformed(c, "has an unknown \"behavior\"");
}

static int load_split(struct pretok *p, struct component *c, const json_t *o)
{
    struct pretok_step *s = add_step(p, c, SPLIT);
    int                 status;
    if (!s)
        return ERR_NOMEM;
    if (!json_object_get(o, "behavior"))
        return component_malformed(c, "has a Split without a \"behavior\"");
    if ((status = load_behavior(c, o, &s->behavior)) != 0 || (status = field_bool(c, o, "invert", &s->invert)) != 0)
        return status;
    return finder_load(&s->find, c, json_object_get(o, "pattern"));
}

static int load_byte_level(struct pretok *p, struct component *c, const json_t *o)
{
    bool prefix = true, regex = true;
    int  status = field_bool(c, o, "add_prefix_space", &prefix);
    if (!status)
        status = field_bool(c, o, "use_regex", &regex);
    if (!status && prefix) {
        struct pretok_step *s = add_step(p, c, PREFIX);
        if (!s)
            return ERR_NOMEM;
        s->text = STR(" ");
    }
    if (!status && regex)
        status = add_split(p, c, GPT2_PATTERN, ISOLATED, false);
    return status || add_step(p, c, SPELL) ? status : ERR_NOMEM;
}

static int load_metaspace(struct pretok *p, struct component *c, const json_t *o)
{
    struct str          text = {0}, scheme = {0};
    bool                split = true, prefix = true;
    struct pretok_step *s = add_step(p, c, SPACES);
    int                 status = s ? field_text(c, o, "replacement", &text) : ERR_NOMEM;
    if (status || (status = field_bool(c, o, "add_prefix_space", &prefix)) != 0 ||
        (status = field_bool(c, o, "split", &split)) != 0 || (status = field_str(c, o, "prepend_scheme", &scheme)) != 0)
        return status;
    if (!text.n)
        return component_malformed(c, "has an empty \"replacement\"");
    if (scheme.p && !str_is(scheme, "first") && !str_is(scheme, "always") && !str_is(scheme, "never"))
        return component_malformed(c, "has an unknown \"prepend_scheme\"");
    s->text = text;
    if (prefix && !(scheme.p && str_is(scheme, "never"))) {
        if (!(s = add_step(p, c, PREFIX)))
            return ERR_NOMEM;
        s->text = text;
        s->first_only = scheme.p && str_is(scheme, "first");
    }
    if (!split)
        return 0;
    if (!(s = add_step(p, c, SPLIT)))
        return ERR_NOMEM;
    s->behavior = MERGED_WITH_NEXT;
    s->find.literal = text;
    return 0;
}

static int load_fixed_length(struct pretok *p, struct component *c, const json_t *o)
{
    char    pattern[40];
    int64_t length = 5;
    int     status = field_int(c, o, "length", &length);
    if (status)
        return status;
    if (length < 1 || length > FIXED_LENGTH_MAX)
        return component_malformed(c, "has a \"length\" that is not from 1 to 65535");
    snprintf(pattern, sizeof pattern, "[\\s\\S]{1,%d}", (int)length);
    return add_split(p, c, pattern, ISOLATED, false);
}

static int load_step(struct component *c, const char *type, const json_t *o, void *ctx)
{
    struct pretok *p = ctx;
    enum behavior  behavior = ISOLATED;
    bool           individual = false;
    int            status = 0;
    if (!strcmp(type, "Split"))
        return load_split(p, c, o);
    if (!strcmp(type, "ByteLevel"))
        return load_byte_level(p, c, o);
    if (!strcmp(type, "Metaspace"))
        return load_metaspace(p, c, o);
    if (!strcmp(type, "FixedLength"))
        return load_fixed_length(p, c, o);
    if (!strcmp(type, "Digits")) {
        status = field_bool(c, o, "individual_digits", &individual);
        return status ? status : add_split_set(p, c, COMPONENT_NUMBER, individual ? ISOLATED : CONTIGUOUS);
    }
    if (!strcmp(type, "Punctuation")) {
        status = load_behavior(c, o, &behavior);
        return status ? status : add_split_set(p, c, COMPONENT_PUNCTUATION, behavior);
    }
    if (!strcmp(type, "Whitespace"))
        return load_whitespace(p, c);
    if (!strcmp(type, "WhitespaceSplit"))
        return add_split(p, c, "\\s", REMOVED, false);
    if (!strcmp(type, "BertPreTokenizer")) {
        status = add_split(p, c, "\\s", REMOVED, false);
        return status ? status : add_split_set(p, c, COMPONENT_PUNCTUATION, ISOLATED);
    }
    if (!strcmp(type, "CharDelimiterSplit")) {
        struct pretok_step *s = add_step(p, c, SPLIT);
        status = s ? field_text(c, o, "delimiter", &s->find.literal) : ERR_NOMEM;
        return status || s->find.literal.n ? status : component_malformed(c, "has an empty \"delimiter\"");
    }
    return component_unsupported(c, type);
}

int pretok_load(struct pretok *p, struct component *c, const json_t *o)
{
    return component_each(c, o, "pretokenizers", load_step, p);
}

void pretok_leave_bytes(struct pretok *p)
{
    if (p->n && p->v[p->n - 1].kind == SPELL) {
        p->bytes = true;
        p->n--;
    }
}

void pretok_deinit(struct pretok *p)
{
    for (size_t i = 0; i < p->n; i++)
        finder_deinit(&p->v[i].find);
    free(p->v);
    *p = (struct pretok){0};
}

/* --- running ---------------------------------------------------------------------------------------------------- */

void pretok_scratch_init(struct pretok_scratch *s, size_t total)
{
    *s = (struct pretok_scratch){.left = growth_max(total)};
    buf_init(&s->a, SIZE_MAX - 1);
    buf_init(&s->b, SIZE_MAX - 1);
}

void pretok_scratch_deinit(struct pretok_scratch *s)
{
    free(s->now.v);
    free(s->next.v);
    buf_deinit(&s->a);
    buf_deinit(&s->b);
}

static int put_piece(struct pieces *to, size_t start, size_t end, struct error *e)
{
    struct piece *v = vec_room(to->v, to->n, &to->cap, sizeof *v);
    if (!v)
        return error_nomem(e, "a long text");
    to->v = v;
    to->v[to->n++] = (struct piece){start, end};
    return 0;
}

/* A part of a piece that is being split: a match (hit) or what stands between two. Empty ones take part: they keep
 * their neighbours apart. */
struct cutter {
    const struct pretok_step *step;
    struct pieces            *to;
    size_t                    from; /* where the pieces of this split begin in `to` */
    bool                      any, last_hit;
};

static int cut_part(struct cutter *c, size_t start, size_t end, bool hit, struct error *e)
{
    struct pieces *to = c->to;
    bool           join = false;
    int            status = 0;
    switch (c->step->behavior) {
    case REMOVED:
        return hit ? 0 : put_piece(to, start, end, e);
    case ISOLATED:
        return put_piece(to, start, end, e);
    case CONTIGUOUS:
        join = c->any && hit == c->last_hit;
        break;
    case MERGED_WITH_PREVIOUS:
        join = c->any && hit && !c->last_hit;
        break;
    case MERGED_WITH_NEXT:
        join = c->any && c->last_hit && !hit;
        break;
    }
    if (join)
        to->v[to->n - 1].end = end;
    else
        status = put_piece(to, start, end, e);
    c->any = true;
    c->last_hit = hit;
    return status;
}

static void drop_empty(struct pieces *to, size_t from)
{
    size_t n = from;
    for (size_t i = from; i < to->n; i++)
        if (to->v[i].end > to->v[i].start)
            to->v[n++] = to->v[i];
    to->n = n;
}

static int split_piece(const struct pretok_step *s, const struct pieces *in, struct piece p, struct pieces *to,
                       struct finder_run *find, struct error *e)
{
    struct cutter c = {.step = s, .to = to, .from = to->n};
    struct str    text = {in->text.p + p.start, p.end - p.start};
    size_t        done = 0, start = 0, end = 0;
    bool          found = true;
    int           status = finder_begin(find, &s->find, text, e);
    while (!status && (status = finder_next(find, &found, &start, &end, e)) == 0 && found) {
        if (start > done)
            status = cut_part(&c, p.start + done, p.start + start, s->invert, e);
        if (!status)
            status = cut_part(&c, p.start + start, p.start + end, !s->invert, e);
        done = end;
    }
    if (!status && done < text.n)
        status = cut_part(&c, p.start + done, p.end, s->invert, e);
    drop_empty(to, c.from);
    return status;
}

/* Appends a piece as PREFIX, SPACES or SPELL rewrites it. */
static int rewrite_piece(const struct pretok_step *s, struct str piece, bool first, struct buf *out, struct error *e)
{
    if (s->kind == PREFIX) {
        bool has = piece.n >= s->text.n && memcmp(piece.p, s->text.p, s->text.n) == 0;
        if (!has && (first || !s->first_only))
            buf_put(out, s->text.p, s->text.n);
        buf_put(out, piece.p, piece.n);
    } else if (s->kind == SPACES) {
        for (size_t i = 0; i < piece.n; i++)
            if (piece.p[i] == ' ')
                buf_put(out, s->text.p, s->text.n);
            else
                buf_putc(out, piece.p[i]);
    } else if (buf_reserve(out, 2 * piece.n))
        out->n += bytelevel_spell(piece.p, piece.n, out->p + out->n);
    if (out->full)
        return growth_passed(e, "pre_tokenizer");
    return out->failed ? error_nomem(e, "a long text") : 0;
}

/* Appends the alignment of a piece that rewrite_piece has just made; old: of the piece. */
static bool align_piece(const struct pretok_step *s, struct str piece, const struct align_span *old, size_t length,
                        struct align *to)
{
    bool ok = true;
    if (s->kind == PREFIX)
        ok = align_push(to, old[0], length - piece.n);
    for (size_t i = 0; i < piece.n && ok; i++) {
        char   spelled[2];
        size_t n = s->kind == SPELL                         ? bytelevel_spell(piece.p + i, 1, spelled)
                   : s->kind == SPACES && piece.p[i] == ' ' ? s->text.n
                                                            : 1;
        ok = align_push(to, old[i], n);
    }
    return ok;
}

/* *head is that of pretok_run. A step that rewrites leaves of it the beginnings of pieces. */
static int run_step(const struct pretok_step *s, const struct pieces *in, size_t *head, struct pieces *to,
                    struct buf *out, struct align *trace, struct finder_run *find, struct error *e)
{
    struct align aligned = {0};
    size_t       head_after = 0;
    int          status = 0;
    to->n = 0;
    to->text = in->text;
    for (size_t i = 0; i < in->n && !status; i++) {
        struct piece p = in->v[i];
        if (s->kind == SPLIT) {
            status = split_piece(s, in, p, to, find, e);
            continue;
        }
        size_t start = out->n;
        bool   first = p.start < *head;
        if (first)
            head_after = start + 1;
        status = rewrite_piece(s, (struct str){in->text.p + p.start, p.end - p.start}, first, out, e);
        if (!status)
            status = put_piece(to, start, out->n, e);
        if (!status && trace &&
            !align_piece(s, (struct str){in->text.p + p.start, p.end - p.start}, trace->v + p.start, out->n - start,
                         &aligned))
            status = error_nomem(e, "a long text");
    }
    if (s->kind != SPLIT) {
        to->text = buf_str(out);
        *head = head_after;
        if (trace) {
            align_deinit(trace);
            *trace = aligned;
        }
    }
    return status;
}

int pretok_run(const struct pretok *p, struct str text, size_t head, struct pretok_scratch *s, struct finder_run *find,
               struct error *e)
{
    struct buf *out = &s->a;
    size_t      longest = 0;
    int         status;
    s->a.max = s->b.max = s->left;
    s->now.text = text;
    s->now.n = 0;
    status = text.n ? put_piece(&s->now, 0, text.n, e) : 0;
    for (size_t i = 0; i < p->n && !status; i++) {
        buf_clear(out);
        status = run_step(&p->v[i], &s->now, &head, &s->next, out, s->trace, find, e);
        struct pieces t = s->now;
        s->now = s->next;
        s->next = t;
        longest = MAX(longest, out->n);
        if (p->v[i].kind != SPLIT)
            out = out == &s->a ? &s->b : &s->a;
    }
    s->left -= MIN(s->left, longest);
    return status;
}
