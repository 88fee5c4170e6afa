/* The lexer. Two states: text, where only the four tag openings mean anything, and inside a tag, where the closing mark
 * counts only while all brackets are closed ({{ {'a': {}} }} ends at the last pair of braces).
 *
 * White space: '-' beside a mark strips all of it on that side; without a sign, lstrip_blocks removes blanks between
 * the line's beginning and a statement or comment, and trim_blocks removes one newline right after it. Only text of the
 * template is ever trimmed, so it is done here and nowhere else.
 */
#include "chat/jinja_lex.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "chat/jinja.h"
#include "chat/jinja_big.h"
#include "chat/jinja_text.h"

#define BRACKETS_MAX 512

static const char *const spelling[] = {
#define TOKEN(name, text) text,
    JINJA_OPERATORS(TOKEN)
#undef TOKEN
};

struct lexer {
    struct arena *arena;
    struct str    s;  /* with newlines normalised */
    size_t        at; /* next byte */
    const char   *name;
    struct error *e;
    struct token *v;
    size_t        n, cap;
    uint32_t      line; /* of `counted` */
    size_t        counted, line_start;
    bool          line_starting; /* the last match ended a line */
    int           brackets;
    char          open[BRACKETS_MAX];
};

static bool looking_at(const struct lexer *l, size_t at, const char *z)
{
    size_t n = strlen(z);
    return l->s.n - at >= n && memcmp(l->s.p + at, z, n) == 0;
}

/* Moves the line count on to byte `at`. */
static void count_lines(struct lexer *l, size_t at)
{
    for (; l->counted < at; l->counted++)
        if (l->s.p[l->counted] == '\n') {
            l->line++;
            l->line_start = l->counted + 1;
        }
}

static int fault(struct lexer *l, size_t at, const char *why)
{
    count_lines(l, at);
    return error_set(l->e, ERR_FORMAT, NULL, "%s:%u:%zu: %s", l->name, (unsigned)l->line, at - l->line_start + 1, why);
}

static int push(struct lexer *l, enum token_type type, size_t at, struct token **out)
{
    if (l->n == l->cap) {
        size_t        cap = l->cap ? l->cap * 2 : 256;
        struct token *v = arena_calloc(l->arena, cap, sizeof *v);
        if (!v)
            return error_nomem(l->e, l->name);
        if (l->n)
            memcpy(v, l->v, l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    count_lines(l, at);
    struct token *t = &l->v[l->n++];
    *t = (struct token){.type = type, .line = l->line, .column = (uint32_t)(at - l->line_start + 1)};
    if (out)
        *out = t;
    return 0;
}

static int push_text(struct lexer *l, size_t from, size_t to)
{
    struct token *t;
    int           rc;
    if (from == to)
        return 0;
    if ((rc = push(l, TOKEN_TEXT, from, &t)))
        return rc;
    t->text = text_slice(l->s, from, to);
    return 0;
}

static size_t skip_space(const struct lexer *l, size_t at)
{
    uint32_t cp;
    while (at < l->s.n) {
        size_t n = text_next(l->s, at, &cp);
        if (!text_is_space(cp))
            break;
        at += n;
    }
    return at;
}

/* End of the text [from, to) that stands before a tag with this sign. */
static size_t trim_before(const struct lexer *l, size_t from, size_t to, char sign, bool variable)
{
    struct str text = text_slice(l->s, from, to);
    if (sign == '-')
        return from + text_strip(text, NULL, TEXT_RIGHT).n;
    if (sign == '+' || variable)
        return to;
    const char *newline = text.n ? memrchr(text.p, '\n', text.n) : NULL;
    if (!newline && !l->line_starting)
        return to;
    size_t     last = newline ? (size_t)(newline - text.p) + 1 : 0;
    struct str blanks = text_slice(text, last, text.n);
    return text_strip(blanks, NULL, TEXT_LEFT).n ? to : from + last;
}

/* Byte after the closing mark `mark` (two characters, with an optional sign before) at `at`, white space included; 0
 * when there is none. */
static size_t closing(const struct lexer *l, size_t at, const char *mark)
{
    char sign = at < l->s.n ? l->s.p[at] : 0;
    bool variable = mark[0] == '}';
    if (sign == '-' && looking_at(l, at + 1, mark))
        return skip_space(l, at + 3);
    if (sign == '+' && !variable && looking_at(l, at + 1, mark))
        return at + 3;
    if (!looking_at(l, at, mark))
        return 0;
    at += 2;
    return !variable && at < l->s.n && l->s.p[at] == '\n' ? at + 1 : at;
}

/* After "{%" at `at`: the byte behind the word when the tag is exactly `word`, else 0. *sign: the sign before it. */
static size_t tag_word(const struct lexer *l, size_t at, const char *word, char *sign)
{
    at += 2;
    *sign = 0;
    if (at < l->s.n && (l->s.p[at] == '-' || l->s.p[at] == '+'))
        *sign = l->s.p[at++];
    at = skip_space(l, at);
    if (!looking_at(l, at, word))
        return 0;
    return skip_space(l, at + strlen(word));
}

static void leave(struct lexer *l, size_t end)
{
    l->at = end;
    l->line_starting = end > 0 && l->s.p[end - 1] == '\n';
}

/* l->at is behind {% raw %}: everything up to {% endraw %} is text. */
static int lex_raw(struct lexer *l, size_t open)
{
    for (size_t at = l->at; at < l->s.n; at++) {
        char   sign;
        size_t word = looking_at(l, at, "{%") ? tag_word(l, at, "endraw", &sign) : 0;
        size_t end = word ? closing(l, word, "%}") : 0;
        if (!end)
            continue;
        int rc = push_text(l, l->at, trim_before(l, l->at, at, sign, false));
        leave(l, end);
        return rc;
    }
    return fault(l, open, "Missing end of raw directive");
}

static int lex_comment(struct lexer *l, size_t open)
{
    for (size_t at = l->at; at < l->s.n; at++) {
        size_t end = closing(l, at, "#}");
        if (end) {
            leave(l, end);
            return 0;
        }
    }
    return fault(l, open, "Missing end of comment tag");
}

/* --- inside a tag ------------------------------------------------------------------------------------------------ */

/* The escape at s.p[i] (behind the backslash). Returns its length, 0 when it is malformed. */
static size_t unescape(struct buf *b, struct str s, size_t i)
{
    static const char from[] = "\\'\"abfnrtv\n", to[] = "\\'\"\a\b\f\n\r\t\v";
    char              c = s.p[i];
    const char       *simple = strchr(from, c);
    uint32_t          cp = 0;
    if (c && simple) {
        if (c != '\n')
            buf_putc(b, to[simple - from]);
        return 1;
    }
    if (c >= '0' && c <= '7') {
        size_t n = 0;
        for (; n < 3 && i + n < s.n && s.p[i + n] >= '0' && s.p[i + n] <= '7'; n++)
            cp = cp * 8 + (uint32_t)(s.p[i + n] - '0');
        text_put(b, cp);
        return n;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (!digits) {
        buf_putc(b, '\\');
        buf_putc(b, c);
        return c == 'N' ? 0 : 1;
    }
    for (size_t n = 1; n <= digits; n++) {
        int h = i + n < s.n ? num_hex_digit(s.p[i + n]) : -1;
        if (h < 0)
            return 0;
        cp = cp << 4 | (uint32_t)h;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        return 0;
    text_put(b, cp);
    return digits + 1;
}

static int lex_string(struct lexer *l)
{
    size_t        start = l->at, at = start + 1;
    char          quote = l->s.p[start];
    struct token *t;
    struct buf    b;
    bool          escaped = false;
    int           rc;
    while (at < l->s.n && l->s.p[at] != quote) {
        escaped |= l->s.p[at] == '\\';
        at += l->s.p[at] == '\\' ? 2 : 1;
    }
    if (at >= l->s.n)
        return fault(l, start, "a string is not closed");
    if ((rc = push(l, TOKEN_STRING, start, &t)))
        return rc;
    t->text = text_slice(l->s, start + 1, at);
    l->at = at + 1;
    if (!escaped)
        return 0;
    buf_init(&b, JINJA_SOURCE_MAX);
    for (size_t i = 0; i < t->text.n && !rc;) {
        if (t->text.p[i] != '\\') {
            buf_putc(&b, t->text.p[i++]);
            continue;
        }
        size_t n = unescape(&b, t->text, i + 1);
        if (!n)
            rc = fault(l, start + 1 + i,
                       t->text.p[i + 1] == 'N' ? "\\N{...} in strings is not supported"
                                               : "malformed escape in a string");
        i += n + 1;
    }
    char *p = rc ? NULL : arena_strdup(l->arena, buf_cstr(&b), b.n);
    if (!rc && (b.failed || !p))
        rc = error_nomem(l->e, l->name);
    t->text = (struct str){p, b.n};
    buf_deinit(&b);
    return rc;
}

/* Length of digits of `base` with single underscores between them, from `at`. */
static size_t digits(const struct lexer *l, size_t at, int base)
{
    size_t start = at;
    for (; at < l->s.n; at++) {
        char c = l->s.p[at];
        int  h = num_hex_digit(c);
        if (c == '_' && at > start && at + 1 < l->s.n)
            h = num_hex_digit(l->s.p[at + 1]);
        if (h < 0 || h >= base)
            break;
    }
    return at - start;
}

static size_t exponent(const struct lexer *l, size_t at)
{
    if (at >= l->s.n || (l->s.p[at] | 0x20) != 'e')
        return 0;
    size_t sign = at + 1 < l->s.n && (l->s.p[at + 1] == '+' || l->s.p[at + 1] == '-');
    size_t n = digits(l, at + 1 + sign, 10);
    return n ? n + 1 + sign : 0;
}

/* The digits [at, at + n) without underscores, NUL-terminated, in the arena. */
static char *plain_digits(const struct lexer *l, size_t at, size_t n)
{
    char  *out = arena_alloc(l->arena, n + 1);
    size_t k = 0;
    for (size_t i = at; out && i < at + n; i++)
        if (l->s.p[i] != '_')
            out[k++] = l->s.p[i];
    if (out)
        out[k] = '\0';
    return out;
}

static int lex_number(struct lexer *l)
{
    static const char prefixes[] = "bBoOxX";
    size_t            at = l->at, n = digits(l, at, 10), fraction = 0, power;
    bool              after_dot = at > 0 && l->s.p[at - 1] == '.';
    struct token     *t;
    int               rc, base = 10;
    const char       *prefix = l->s.p[at] == '0' && at + 1 < l->s.n ? strchr(prefixes, l->s.p[at + 1]) : NULL;
    if (prefix && *prefix) {
        base = prefix - prefixes < 2 ? 2 : prefix - prefixes < 4 ? 8 : 16;
        size_t skip = at + 2 < l->s.n && l->s.p[at + 2] == '_' ? 3 : 2;
        size_t m = digits(l, at + skip, base);
        if (m) {
            at += skip;
            n = m;
        } else
            base = 10;
    }
    if (base == 10 && !after_dot) {
        if (at + n < l->s.n && l->s.p[at + n] == '.')
            fraction = digits(l, at + n + 1, 10);
        fraction += fraction ? 1 : 0;
        power = exponent(l, at + n + fraction);
    } else
        power = 0;
    bool real = fraction || power;
    if ((rc = push(l, real ? TOKEN_FLOAT : TOKEN_INT, l->at, &t)))
        return rc;
    char *text = plain_digits(l, at, n + fraction + power);
    if (!text)
        return error_nomem(l->e, l->name);
    if (real)
        t->d = strtod(text, NULL);
    t->text = real ? STR("") : str_of(text);
    t->i = base;
    if (!real && (base == 10 ? t->text.n > BIG_DIGITS_MAX : t->text.n > BIG_LIMBS_MAX))
        return fault(l, l->at, "an integer has too many digits");
    l->at = at + n + fraction + power;
    return 0;
}

static int lex_name(struct lexer *l)
{
    size_t        at = l->at;
    uint32_t      cp;
    struct token *t;
    int           rc;
    while (at < l->s.n) {
        size_t n = text_next(l->s, at, &cp);
        if (!text_is_name(cp, false))
            break;
        at += n;
    }
    if ((rc = push(l, TOKEN_NAME, l->at, &t)))
        return rc;
    t->text = text_slice(l->s, l->at, at);
    l->at = at;
    return 0;
}

static int lex_operator(struct lexer *l)
{
    for (int i = 0; i < TOKEN_N_OPERATORS; i++) {
        if (!looking_at(l, l->at, spelling[i]))
            continue;
        char c = spelling[i][0];
        if (c == '{' || c == '[' || c == '(') {
            if (l->brackets == BRACKETS_MAX)
                return error_set(l->e, ERR_LIMIT, NULL, "%s:%u: nested deeper than the limit of %d brackets", l->name,
                                 (unsigned)l->line, BRACKETS_MAX);
            l->open[l->brackets++] = c == '{' ? '}' : c == '[' ? ']' : ')';
        }
        if ((c == '}' || c == ']' || c == ')') && (!l->brackets || l->open[--l->brackets] != c))
            return fault(l, l->at, c == '}' ? "unexpected '}'" : c == ']' ? "unexpected ']'" : "unexpected ')'");
        int rc = push(l, (enum token_type)i, l->at, NULL);
        l->at += strlen(spelling[i]);
        return rc;
    }
    uint32_t cp;
    char     why[64];
    text_next(l->s, l->at, &cp);
    snprintf(why, sizeof why, "unexpected character U+%04X", (unsigned)cp);
    return fault(l, l->at, why);
}

/* Tokens up to and with the closing mark. */
static int lex_tag(struct lexer *l, size_t open, bool variable)
{
    int rc = push(l, variable ? TOKEN_VARIABLE_BEGIN : TOKEN_BLOCK_BEGIN, open, NULL);
    while (!rc) {
        uint32_t cp = 0;
        size_t   end = l->brackets ? 0 : closing(l, l->at, variable ? "}}" : "%}");
        if (end) {
            rc = push(l, variable ? TOKEN_VARIABLE_END : TOKEN_BLOCK_END, l->at, NULL);
            leave(l, end);
            return rc;
        }
        if (l->at >= l->s.n)
            return fault(l, open, variable ? "'{{' is not closed" : "'{%' is not closed");
        size_t n = text_next(l->s, l->at, &cp);
        if (text_is_space(cp))
            l->at += n;
        else if (cp == '"' || cp == '\'')
            rc = lex_string(l);
        else if (cp >= '0' && cp <= '9')
            rc = lex_number(l);
        else if (text_is_name(cp, true))
            rc = lex_name(l);
        else
            rc = lex_operator(l);
    }
    return rc;
}

/* Text up to the next tag, and the tag. */
static int lex_step(struct lexer *l)
{
    size_t start = l->at, at = start;
    char   kind = 0, sign = 0;
    for (; at + 1 < l->s.n; at++) {
        kind = l->s.p[at] == '{' ? l->s.p[at + 1] : 0;
        if (kind == '{' || kind == '%' || kind == '#')
            break;
    }
    if (at + 1 >= l->s.n) {
        l->at = l->s.n;
        return push_text(l, start, l->s.n);
    }
    size_t word = kind == '%' ? tag_word(l, at, "raw", &sign) : 0;
    size_t end = word && (looking_at(l, word, "%}") || looking_at(l, word, "-%}")) ? closing(l, word, "%}") : 0;
    if (end && l->s.p[word] != '-')
        end = word + 2; /* the newline behind {% raw %} stays */
    if (at + 2 < l->s.n && (l->s.p[at + 2] == '-' || l->s.p[at + 2] == '+'))
        sign = l->s.p[at + 2];
    int rc = push_text(l, start, trim_before(l, start, at, sign, kind == '{'));
    if (rc)
        return rc;
    if (end) {
        leave(l, end);
        return lex_raw(l, at);
    }
    l->at = at + 2 + (sign ? 1 : 0);
    l->line_starting = false;
    return kind == '#' ? lex_comment(l, at) : lex_tag(l, at, kind == '{');
}

const char *jinja_token_name(const struct token *t)
{
    static const char *const names[] = {
        [TOKEN_IN] = "in",           [TOKEN_NOT_IN] = "not in",
        [TOKEN_TEXT] = "text",       [TOKEN_VARIABLE_BEGIN] = "{{",
        [TOKEN_VARIABLE_END] = "}}", [TOKEN_BLOCK_BEGIN] = "{%",
        [TOKEN_BLOCK_END] = "%}",    [TOKEN_NAME] = "a name",
        [TOKEN_STRING] = "a string", [TOKEN_INT] = "an integer",
        [TOKEN_FLOAT] = "a float",   [TOKEN_EOF] = "the end of the template",
    };
    return t->type < TOKEN_N_OPERATORS ? spelling[t->type] : names[t->type];
}

/* \r\n and \r become \n, and one newline at the end goes. */
static int normalise(struct lexer *l, struct str source)
{
    char  *p = arena_strdup(l->arena, source.p, source.n);
    size_t n = 0;
    if (!p)
        return error_nomem(l->e, l->name);
    for (size_t i = 0; i < source.n; i++) {
        bool cr = source.p[i] == '\r';
        p[n++] = cr ? '\n' : source.p[i];
        if (cr && i + 1 < source.n && source.p[i + 1] == '\n')
            i++;
    }
    if (n && p[n - 1] == '\n')
        n--;
    p[n] = '\0';
    l->s = (struct str){p, n};
    return 0;
}

int jinja_lex(struct arena *a, struct str source, const char *name, struct token **out, struct error *e)
{
    struct lexer l = {.arena = a, .name = name, .e = e, .line = 1, .line_starting = true};
    int          rc = normalise(&l, source);
    if (!rc && utf8_valid_prefix(l.s.p, l.s.n) != l.s.n)
        rc = fault(&l, utf8_valid_prefix(l.s.p, l.s.n), "not valid UTF-8");
    while (!rc && l.at < l.s.n)
        rc = lex_step(&l);
    if (!rc)
        rc = push(&l, TOKEN_EOF, l.s.n, NULL);
    *out = l.v;
    return rc;
}
