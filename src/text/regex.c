/* See regex.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/alphabet.h"
#include "text/pattern.h"

#define EXPRESSION_MAX ((size_t)4 << 20)
#define STEPS_MIN 1000000u           /* backtracking steps of one match, plus some for each character of the text */
#define SECONDS_MIN 1.0              /* time for all texts of a run, plus one for each MB */
#define HEAP_KIB_MIN ((size_t)65536) /* PCRE2's memory where it runs without JIT, plus half a KiB a character */
#define HEAP_KIB_MAX ((size_t)2 << 20)
#define STACK_MIN ((size_t)64 << 10) /* of JIT's code */
#define STACK_MAX ((size_t)16 << 20)
#define SURROGATES 0xd800u
#define SURROGATES_END 0xe000u

_Static_assert(PATTERN_SETS_MAX <= ALPHABET_SETS_MAX, "every pattern's sets fit an alphabet");

struct regex {
    pcre2_code     *code;
    bool            jit;
    bool            wide;   /* over UTF-8 itself, without an alphabet */
    bool            atomic; /* holds atomic groups */
    struct alphabet alphabet;
};

/* --- compilation ------------------------------------------------------------------------------------------------ */

/* A set as a class over the letters. */
static void put_class(struct buf *out, const struct alphabet *a, size_t set)
{
    bool any = false;
    for (int l = 0, end; l < a->n_letters; l = end + 1) {
        end = l;
        if (!alphabet_member(a, l, set))
            continue;
        while (end + 1 < a->n_letters && alphabet_member(a, end + 1, set))
            end++;
        buf_printf(out, any ? "\\x%02x-\\x%02x" : "[\\x%02x-\\x%02x", l, end);
        any = true;
    }
    buf_puts(out, any ? "]" : "(?!)");
}

/* A set as a class over characters; surrogates occur in no text and may not occur in the class. */
static void put_wide_class(struct buf *out, const struct charset *s)
{
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        uint32_t lo = s->v[i].lo, hi = s->v[i].hi;
        if (lo >= SURROGATES && lo < SURROGATES_END)
            lo = SURROGATES_END;
        if (hi >= SURROGATES && hi < SURROGATES_END)
            hi = SURROGATES - 1;
        if (lo > hi)
            continue;
        buf_printf(out, any ? "\\x{%x}-\\x{%x}" : "[\\x{%x}-\\x{%x}", lo, hi);
        any = true;
    }
    buf_puts(out, any ? "]" : "(?!)");
}

/* a: NULL for a wide expression. A callout comes first: at every place of the text PCRE2 asks at_place. */
static void put_expression(struct buf *out, const struct pattern *p, const struct alphabet *a)
{
    buf_puts(out, "(?C)(?:");
    const char *s = buf_cstr(&p->structure), *end = s + p->structure.n;
    while (s < end) {
        if (*s != PATTERN_SET_MARK) {
            buf_putc(out, *s++);
            continue;
        }
        size_t set = 0;
        for (s++; *s != ';'; s++)
            set = set * 10 + (size_t)(*s - '0');
        s++;
        if (a)
            put_class(out, a, set);
        else
            put_wide_class(out, &p->sets[set]);
    }
    buf_putc(out, ')');
}

static int compile(struct regex *re, const struct buf *expression, struct str source, struct error *e)
{
    int                    code;
    PCRE2_SIZE             where;
    PCRE2_UCHAR            why[120];
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context || expression->failed) {
        pcre2_compile_context_free(context);
        return error_nomem(e, "a regular expression");
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    re->code = pcre2_compile((PCRE2_SPTR)buf_cstr(expression), expression->n,
                             PCRE2_DOTALL | (re->wide ? PCRE2_UTF : PCRE2_NEVER_UTF), &code, &where, context);
    pcre2_compile_context_free(context);
    if (!re->code) {
        pcre2_get_error_message(code, why, sizeof why);
        return error_set(e, ERR_LIMIT, NULL, "the regular expression '%.*s' is beyond PCRE2: %s",
                         (int)MIN(source.n, (size_t)300), source.p, (const char *)why);
    }
    /* The compiled code of PCRE2 10.42 goes back into atomic groups: (?>a+|a)a matches in "aaa". */
    re->jit = !re->atomic && pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) == 0;
    return 0;
}

int regex_new(struct regex **out, struct str pattern, struct error *e)
{
    struct regex   *re = calloc(1, sizeof *re);
    struct pattern *p = malloc(sizeof *p);
    struct buf      expression;
    int             status;
    buf_init(&expression, EXPRESSION_MAX);
    *out = NULL;
    if (!re || !p) {
        free(re);
        free(p);
        return error_nomem(e, "a regular expression");
    }
    status = pattern_parse(p, pattern, e);
    re->wide = p->compares;
    re->atomic = p->atomic;
    if (!status && !re->wide)
        status = alphabet_init(&re->alphabet, p->sets, p->n_sets, &re->wide, e);
    if (!status) {
        put_expression(&expression, p, re->wide ? NULL : &re->alphabet);
        status = compile(re, &expression, pattern, e);
    }
    pattern_deinit(p);
    free(p);
    buf_deinit(&expression);
    if (status)
        regex_free(re);
    else
        *out = re;
    return status;
}

void regex_without_jit(struct regex *re)
{
    re->jit = false;
}

void regex_free(struct regex *re)
{
    if (!re)
        return;
    pcre2_code_free(re->code);
    alphabet_deinit(&re->alphabet);
    free(re);
}

/* --- matching --------------------------------------------------------------------------------------------------- */

void regex_run_init(struct regex_run *r, size_t total)
{
    *r = (struct regex_run){.seconds = SECONDS_MIN + (double)total / 1e6, .began = clock_thread()};
    r->deadline = clock_now() + r->seconds;
    buf_init(&r->subject, SIZE_MAX - 1);
}

void regex_run_deinit(struct regex_run *r)
{
    pcre2_match_data_free(r->match);
    pcre2_match_context_free(r->context);
    pcre2_jit_stack_free(r->stack);
    buf_deinit(&r->subject);
    r->match = r->context = r->stack = NULL;
}

static int translate(struct regex_run *r, struct str text, const struct alphabet *a, struct error *e)
{
    if (!buf_reserve(&r->subject, text.n))
        return error_nomem(e, "matching a regular expression");
    char *to = r->subject.p;
    for (size_t i = 0; i < text.n;) {
        uint32_t cp = (unsigned char)text.p[i];
        int      len = cp < 0x80 ? 1 : utf8_decode(text.p + i, text.n - i, &cp);
        i += (size_t)len;
        *to++ = (char)alphabet_letter(a, cp);
    }
    r->subject.n = (size_t)(to - r->subject.p);
    return 0;
}

/* Whether the run's time is over. The thread's own time counts; the cheaper clock says when to ask for it. */
static bool too_late(struct regex_run *r)
{
    double now = clock_now(), used;
    if (now < r->deadline)
        return false;
    used = clock_thread() - r->began;
    r->deadline = now + r->seconds - used;
    return used >= r->seconds;
}

/* PCRE2 counts its steps anew at every place that it tries, of which one call may see all of the text. */
static int at_place(pcre2_callout_block *block, void *run)
{
    struct regex_run *r = run;
    (void)block;
    return r->n_places++ % 16 == 0 && too_late(r) ? PCRE2_ERROR_CALLOUT : 0;
}

int regex_begin(struct regex_run *r, const struct regex *re, struct str text, struct error *e)
{
    buf_clear(&r->subject);
    if (!r->match)
        r->match = pcre2_match_data_create(1, NULL);
    if (!r->context)
        r->context = pcre2_match_context_create(NULL);
    if (!r->match || !r->context)
        return error_nomem(e, "matching a regular expression");
    pcre2_set_match_limit(r->context, (uint32_t)MIN(STEPS_MIN + 8 * text.n, (size_t)UINT32_MAX));
    pcre2_set_heap_limit(r->context, (uint32_t)MIN(HEAP_KIB_MIN + text.n / 2, (size_t)HEAP_KIB_MAX));
    pcre2_set_callout(r->context, at_place, r);
    r->re = re;
    r->text = text;
    r->from = r->seen_char = r->seen_byte = 0;
    r->last_end = (size_t)-1;
    return re->wide ? 0 : translate(r, text, &re->alphabet, e);
}

/* What is matched: the text, or a letter a character. */
static struct str subject(const struct regex_run *r)
{
    return r->re->wide ? r->text : buf_str(&r->subject);
}

/* One call of PCRE2, which gets more stack where its compiled code lacks some, and then none of that code. */
static int match(struct regex_run *r, size_t from)
{
    struct str s = subject(r);
    int        code = PCRE2_ERROR_JIT_STACKLIMIT;
    if (r->re->jit)
        code = pcre2_jit_match(r->re->code, (PCRE2_SPTR)s.p, s.n, from, 0, r->match, r->context);
    if (r->re->jit && code == PCRE2_ERROR_JIT_STACKLIMIT && !r->stack &&
        (r->stack = pcre2_jit_stack_create(STACK_MIN, STACK_MAX, NULL)) != NULL) {
        pcre2_jit_stack_assign(r->context, NULL, r->stack);
        code = pcre2_jit_match(r->re->code, (PCRE2_SPTR)s.p, s.n, from, 0, r->match, r->context);
    }
    if (code == PCRE2_ERROR_JIT_STACKLIMIT)
        code = pcre2_match(r->re->code, (PCRE2_SPTR)s.p, s.n, from, PCRE2_NO_JIT | PCRE2_NO_UTF_CHECK, r->match,
                           r->context);
    return code;
}

/* The first match that begins at `from` or later. */
static int search(struct regex_run *r, size_t from, bool *found, size_t *start, size_t *end, struct error *e)
{
    int code = match(r, from);
    *found = code >= 0;
    switch (code) {
    case PCRE2_ERROR_NOMATCH:
        return 0;
    case PCRE2_ERROR_NOMEMORY:
        return error_nomem(e, "matching a regular expression");
    case PCRE2_ERROR_CALLOUT:
        return error_set(e, ERR_LIMIT, NULL, "the tokenizer's regular expression takes too long on this text");
    default:
        if (code < 0)
            return error_set(e, ERR_LIMIT, NULL,
                             "the tokenizer's regular expression needs too many steps on this text (PCRE2 error %d)",
                             code);
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->match);
        *start = at[0];
        *end = at[1];
        return 0;
    }
}

/* The byte at which character `at` begins; the places asked for never go back. */
static size_t byte_of(struct regex_run *r, size_t at)
{
    size_t i = r->seen_byte, left = at - r->seen_char;
    if (r->re->wide || r->subject.n == r->text.n)
        return at;
    while (left--)
        for (i++; i < r->text.n && ((unsigned char)r->text.p[i] & 0xc0) == 0x80;)
            i++;
    r->seen_char = at;
    r->seen_byte = i;
    return i;
}

int regex_next(struct regex_run *r, bool *found, size_t *start, size_t *end, struct error *e)
{
    for (;;) {
        size_t a = 0, b = 0;
        if (r->from > subject(r).n) {
            *found = false;
            return 0;
        }
        int status = search(r, r->from, found, &a, &b, e);
        if (status || !*found)
            return status;
        if (a == b && b == r->last_end) {
            for (r->from++; r->re->wide && r->from < r->text.n && ((unsigned char)r->text.p[r->from] & 0xc0) == 0x80;)
                r->from++;
            continue;
        }
        r->from = r->last_end = b;
        *start = byte_of(r, a);
        *end = byte_of(r, b);
        return 0;
    }
}
