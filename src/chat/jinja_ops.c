/* Arithmetic as Python does it. Contracts in jinja_run.h.
 *
 * + also joins strings and lists, * also repeats them, % also formats. A markup string joined with a plain one escapes
 * the plain one, as Python's Markup does.
 */
#include <math.h>

#include "base/num.h"
#include "chat/jinja_run.h"

/* Quotient and remainder rounded towards minus infinity. */
static void floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    *quotient = a / b;
    *rest = a % b;
    if (*rest && (*rest < 0) != (b < 0)) {
        *quotient -= 1;
        *rest += b;
    }
}

/* a op b in 64 bits; false when that is not the way. */
static bool integers(enum token_type op, int64_t a, int64_t b, int64_t *result)
{
    int64_t quotient, rest;
    switch (op) {
    case TOKEN_ADD:
        return num_add(a, b, result);
    case TOKEN_SUB:
        return num_sub(a, b, result);
    case TOKEN_MUL:
        return num_mul(a, b, result);
    case TOKEN_FLOORDIV:
    case TOKEN_MOD:
        if (!b || b == -1) /* INT64_MIN / -1 would trap */
            return false;
        floor_divide(a, b, &quotient, &rest);
        *result = op == TOKEN_MOD ? rest : quotient;
        return true;
    default:
        return false;
    }
}

static struct value floats(struct jinja_run *r, enum token_type op, double a, double b)
{
    double rest, quotient;
    switch (op) {
    case TOKEN_ADD:
        return value_float(a + b);
    case TOKEN_SUB:
        return value_float(a - b);
    case TOKEN_MUL:
        return value_float(a * b);
    case TOKEN_POW:
        if (a == 0 && b < 0)
            return jinja_fail(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(b) && b != floor(b))
            return jinja_fail(r, "a negative number cannot be raised to a fraction");
        rest = pow(a, b);
        return isinf(rest) && isfinite(a) && isfinite(b) ? jinja_fail(r, "Numerical result out of range")
                                                         : value_float(rest);
    default:
        if (b == 0)
            return jinja_fail(r, op == TOKEN_DIV ? "float division by zero" : "float floor division by zero");
        if (op == TOKEN_DIV)
            return value_float(a / b);
        rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0))
            rest += b;
        if (op == TOKEN_MOD)
            return value_float(rest != 0 ? rest : copysign(0, b));
        quotient = round((a - rest) / b);
        return value_float(quotient != 0 ? quotient : copysign(0, a / b));
    }
}

static struct value join_strings(struct jinja_run *r, struct value a, struct value b)
{
    bool       markup = a.markup || b.markup;
    struct str left = markup ? jinja_escaped(r, a) : a.u.s, right = markup ? jinja_escaped(r, b) : b.u.s;
    char      *p = jinja_alloc(r, left.n + right.n);
    if (!p || !jinja_spend(r, (left.n + right.n) / 64))
        return value_none();
    if (left.n)
        memcpy(p, left.p, left.n);
    if (right.n)
        memcpy(p + left.n, right.p, right.n);
    return (struct value){.type = a.type, .markup = markup, .u.s = {p, left.n + right.n}};
}

static struct value join_lists(struct jinja_run *r, struct value a, struct value b)
{
    struct list *list = jinja_list(r, a.u.list->n + b.u.list->n);
    if (!list)
        return value_none();
    if (a.u.list->n)
        memcpy(list->v, a.u.list->v, a.u.list->n * sizeof *list->v);
    if (b.u.list->n)
        memcpy(list->v + a.u.list->n, b.u.list->v, b.u.list->n * sizeof *list->v);
    return a.type == VALUE_LIST ? value_list(list) : value_tuple(list);
}

static struct value repeat_string(struct jinja_run *r, struct value s, size_t times)
{
    struct buf b;
    size_t     total;
    if (!num_mul(s.u.s.n, times, &total) || total > r->limits.memory)
        return jinja_fail_memory(r, true);
    jinja_buf_init(r, &b);
    for (; total && times && !b.failed && jinja_spend(r, 1); times--)
        buf_put(&b, s.u.s.p, s.u.s.n);
    struct value v = jinja_take(r, &b);
    v.type = s.type;
    v.markup = s.markup;
    return v;
}

static struct value repeat(struct jinja_run *r, struct value v, int64_t times)
{
    size_t n;
    times = MAX(times, 0);
    if (v.type == VALUE_STRING || v.type == VALUE_BYTES)
        return repeat_string(r, v, (size_t)times);
    if (!num_mul(v.u.list->n, (size_t)times, &n))
        return jinja_fail_memory(r, true);
    struct list *list = jinja_list(r, n);
    for (size_t i = 0; list && i < n; i++)
        list->v[i] = v.u.list->v[i % v.u.list->n];
    return v.type == VALUE_LIST ? value_list(list) : value_tuple(list);
}

static bool is_sequence(struct value v)
{
    return v.type == VALUE_STRING || v.type == VALUE_BYTES || v.type == VALUE_LIST || v.type == VALUE_TUPLE;
}

struct value jinja_arithmetic(struct jinja_run *r, enum token_type op, struct value a, struct value b)
{
    int64_t result;
    if (a.type == VALUE_STRING && op == TOKEN_MOD)
        return jinja_percent(r, a, b);
    if (a.type == VALUE_UNDEFINED || b.type == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, a.type == VALUE_UNDEFINED ? a : b);
    if (value_is_integral(a) && value_is_integral(b) && integers(op, value_integral(a), value_integral(b), &result))
        return value_int(result);
    if (value_is_int(a) && value_is_int(b))
        return jinja_big_arithmetic(r, op, a, b);
    if (value_is_number(a) && value_is_number(b)) {
        if ((a.type == VALUE_BIG && isinf(value_number(a))) || (b.type == VALUE_BIG && isinf(value_number(b))))
            return jinja_fail(r, "int too large to convert to float");
        return floats(r, op, value_number(a), value_number(b));
    }
    if (op == TOKEN_ADD && a.type == b.type && (a.type == VALUE_STRING || a.type == VALUE_BYTES))
        return join_strings(r, a, b);
    if (op == TOKEN_ADD && a.type == b.type && is_sequence(a))
        return join_lists(r, a, b);
    if (op == TOKEN_MUL && is_sequence(a) && value_is_integral(b))
        return repeat(r, a, value_integral(b));
    if (op == TOKEN_MUL && is_sequence(b) && value_is_integral(a))
        return repeat(r, b, value_integral(a));
    if (op == TOKEN_ADD && a.type == VALUE_STRING && !a.markup)
        return jinja_fail(r, "can only concatenate str (not \"%s\") to str", value_type_name(b.type));
    return jinja_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'",
                      jinja_token_name(&(struct token){.type = op}), value_type_name(a.type), value_type_name(b.type));
}
