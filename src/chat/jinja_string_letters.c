/* Methods of strings that look at letters, change their case, or pad. */
#include "base/num.h"
#include "chat/jinja_methods.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

/* --- tests ------------------------------------------------------------------------------------------------------- */

static struct value every(struct jinja_run *r, struct str s, bool (*test)(uint32_t), bool empty)
{
    uint32_t cp;
    jinja_spend(r, s.n / 8);
    for (size_t i = 0; i < s.n;) {
        i += text_next(s, i, &cp);
        if (!test(cp))
            return value_bool(false);
    }
    return value_bool(s.n ? true : empty);
}

static bool alphanumeric(uint32_t cp)
{
    return text_is_alpha(cp) || text_is_numeric(cp);
}

static bool ascii(uint32_t cp)
{
    return cp < 0x80;
}

#define EVERY(name, test, empty)                                                                                       \
    struct value string_##name(struct jinja_run *r, struct value self, const struct jinja_call *c)                     \
    {                                                                                                                  \
        (void)c;                                                                                                       \
        return every(r, self.u.s, test, empty);                                                                        \
    }

EVERY(isalnum, alphanumeric, false)
EVERY(isalpha, text_is_alpha, false)
EVERY(isascii, ascii, true)
EVERY(isdecimal, text_is_decimal, false)
EVERY(isdigit, text_is_digit, false)
EVERY(isnumeric, text_is_numeric, false)
EVERY(isprintable, text_is_printable, true)
EVERY(isspace, text_is_space, false)

struct value string_islower(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    return jinja_call_row(r, jinja_test_row(STR("lower")), self, c->args);
}

struct value string_isupper(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    return jinja_call_row(r, jinja_test_row(STR("upper")), self, c->args);
}

struct value string_isidentifier(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    uint32_t cp;
    (void)c;
    jinja_spend(r, self.u.s.n / 8);
    for (size_t i = 0, n; i < self.u.s.n; i += n) {
        n = text_next(self.u.s, i, &cp);
        if (!text_is_name(cp, i == 0))
            return value_bool(false);
    }
    return value_bool(self.u.s.n > 0);
}

/* Capitals only where a word begins, small letters only behind. */
struct value string_istitle(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    bool     some = false, inside = false;
    uint32_t cp;
    (void)c;
    jinja_spend(r, self.u.s.n / 8);
    for (size_t i = 0; i < self.u.s.n;) {
        i += text_next(self.u.s, i, &cp);
        bool capital = text_is_upper(cp) || text_is_title(cp);
        if (capital == inside && text_is_cased(cp))
            return value_bool(false);
        some |= capital;
        inside = text_is_cased(cp);
    }
    return value_bool(some);
}

/* --- case
 * -------------------------------------------------------------------------------------------------------------------
 */

/* Every character by `pick`, which also sees whether a cased one stands before. */
static struct value map_case(struct jinja_run *r, struct value self, enum text_case (*pick)(uint32_t cp, bool inside))
{
    struct buf b;
    bool       inside = false;
    uint32_t   cp;
    jinja_spend(r, self.u.s.n / 8);
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < self.u.s.n;) {
        i += text_next(self.u.s, i, &cp);
        text_put_case(&b, cp, pick(cp, inside));
        inside = text_is_cased(cp);
    }
    struct value v = jinja_take(r, &b);
    v.markup = self.markup;
    return v;
}

static enum text_case pick_title(uint32_t cp, bool inside)
{
    (void)cp;
    return inside ? TEXT_LOWER : TEXT_TITLE;
}

static enum text_case pick_swapped(uint32_t cp, bool inside)
{
    (void)inside;
    return text_is_upper(cp) ? TEXT_LOWER : TEXT_UPPER;
}

struct value string_title(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    (void)c;
    return map_case(r, self, pick_title);
}

struct value string_swapcase(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    (void)c;
    return map_case(r, self, pick_swapped);
}

struct value string_casefold(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    struct buf b;
    uint32_t   cp;
    (void)c;
    jinja_spend(r, self.u.s.n / 8);
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < self.u.s.n;) {
        i += text_next(self.u.s, i, &cp);
        text_put_folded(&b, cp);
    }
    struct value v = jinja_take(r, &b);
    v.markup = self.markup;
    return v;
}

/* --- padding ----------------------------------------------------------------------------------------------------- */

static void put_fill(struct jinja_run *r, struct buf *b, struct str fill, int64_t n)
{
    if (n > 0 && (uint64_t)n > r->limits.memory / MAX(fill.n, 1))
        jinja_fail_memory(r, true);
    for (; n > 0 && !b->failed && !r->status; n--)
        buf_put(b, fill.p, fill.n);
}

static struct value pad(struct jinja_run *r, struct value self, int64_t before, int64_t after, struct str fill)
{
    struct buf b;
    if (text_count(fill) != 1)
        return jinja_fail(r, "The fill character must be exactly one character long");
    jinja_buf_init(r, &b);
    put_fill(r, &b, fill, before);
    buf_put(&b, self.u.s.p, self.u.s.n);
    put_fill(r, &b, fill, after);
    struct value v = jinja_take(r, &b);
    v.markup = self.markup;
    return v;
}

static int64_t missing(struct jinja_run *r, struct value self, struct value width)
{
    int64_t n = MIN(jinja_arg_int(r, width, 0), INT64_MAX / 2) - (int64_t)text_count(self.u.s);
    return MAX(n, 0);
}

struct value string_ljust(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    return pad(r, self, 0, missing(r, self, c->arg[0]), jinja_arg_str(r, c->arg[1], STR(" ")));
}

struct value string_rjust(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    return pad(r, self, missing(r, self, c->arg[0]), 0, jinja_arg_str(r, c->arg[1], STR(" ")));
}

struct value string_center(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    int64_t n = missing(r, self, c->arg[0]), left = n / 2 + (n & jinja_arg_int(r, c->arg[0], 0) & 1);
    return pad(r, self, left, n - left, jinja_arg_str(r, c->arg[1], STR(" ")));
}

/* Zeros behind the sign. */
struct value string_zfill(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    int64_t    n = missing(r, self, c->arg[0]);
    struct str s = self.u.s;
    size_t     sign = s.n && (s.p[0] == '-' || s.p[0] == '+');
    struct buf b;
    jinja_buf_init(r, &b);
    buf_put(&b, s.p, sign);
    put_fill(r, &b, STR("0"), n);
    buf_put(&b, s.p + sign, s.n - sign);
    struct value v = jinja_take(r, &b);
    v.markup = self.markup;
    return v;
}

struct value string_expandtabs(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    int64_t    size = jinja_arg_int(r, c->arg[0], 8), column = 0;
    uint32_t   cp;
    struct buf b;
    jinja_spend(r, self.u.s.n / 8);
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < self.u.s.n && !b.failed;) {
        size_t  n = text_next(self.u.s, i, &cp);
        int64_t gap = cp == '\t' && size > 0 ? size - column % size : 0;
        if (cp == '\t')
            put_fill(r, &b, STR(" "), gap);
        else
            buf_put(&b, self.u.s.p + i, n);
        column = cp == '\n' || cp == '\r' ? 0 : cp == '\t' ? column + gap : column + 1;
        i += n;
    }
    struct value v = jinja_take(r, &b);
    v.markup = self.markup;
    return v;
}
