/* The tests: what may stand behind `is`, and in select, reject and their attribute forms. */
#include "chat/jinja_rows.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

#define TEST(name) static struct value name(struct jinja_run *r, struct value v, const struct jinja_call *c)
/* A test that only looks at the value. */
#define TEST_OF(name, condition)                                                                                       \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        (void)r;                                                                                                       \
        (void)c;                                                                                                       \
        return value_bool(condition);                                                                                  \
    }

TEST_OF(is_defined, v.type != VALUE_UNDEFINED)
TEST_OF(is_undefined, v.type == VALUE_UNDEFINED)
TEST_OF(is_none, v.type == VALUE_NONE)
TEST_OF(is_boolean, v.type == VALUE_BOOL)
TEST_OF(is_true, v.type == VALUE_BOOL && v.u.b)
TEST_OF(is_false, v.type == VALUE_BOOL && !v.u.b)
TEST_OF(is_integer, v.type == VALUE_INT || v.type == VALUE_BIG)
TEST_OF(is_float, v.type == VALUE_FLOAT)
TEST_OF(is_number, value_is_number(v))
TEST_OF(is_string, v.type == VALUE_STRING)
TEST_OF(is_mapping, v.type == VALUE_DICT)
TEST_OF(is_escaped, v.type == VALUE_STRING && v.markup)
TEST_OF(is_callable, jinja_callable(v))

/* It has a length and items by index or key. */
TEST_OF(is_sequence, v.type == VALUE_STRING || v.type == VALUE_BYTES || v.type == VALUE_LIST || v.type == VALUE_TUPLE ||
                         v.type == VALUE_DICT || v.type == VALUE_RANGE || v.type == VALUE_UNDEFINED)
TEST_OF(is_iterable, v.type == VALUE_STRING || v.type == VALUE_BYTES || v.type == VALUE_LIST || v.type == VALUE_TUPLE ||
                         v.type == VALUE_DICT || v.type == VALUE_RANGE || v.type == VALUE_UNDEFINED ||
                         v.type == VALUE_VIEW || v.type == VALUE_ITERATOR || v.type == VALUE_LOOP)

static struct value is_row(struct jinja_run *r, struct value v, const struct jinja_row *(*find)(struct str))
{
    if (v.type == VALUE_LIST || v.type == VALUE_DICT)
        return jinja_fail_type(r, "unhashable type", v);
    return value_bool(v.type == VALUE_STRING && find(v.u.s));
}

TEST(is_filter)
{
    (void)c;
    return is_row(r, v, jinja_filter_row);
}

TEST(is_test)
{
    (void)c;
    return is_row(r, v, jinja_test_row);
}

/* The same object: for values without identity, the same type and value. */
TEST(is_sameas)
{
    (void)r;
    struct value w = c->arg[0];
    if (v.type != w.type)
        return value_bool(false);
    if (v.type <= VALUE_STRING)
        return value_bool(value_same_scalar(v, w));
    return value_bool(v.u.dict == w.u.dict);
}

static bool remainder_is(struct jinja_run *r, struct value v, struct value by, int64_t wanted)
{
    struct value rest = jinja_arithmetic(r, TOKEN_MOD, v, by);
    return !r->status && jinja_equal(r, rest, value_int(wanted));
}

TEST(is_odd)
{
    (void)c;
    return value_bool(remainder_is(r, v, value_int(2), 1));
}

TEST(is_even)
{
    (void)c;
    return value_bool(remainder_is(r, v, value_int(2), 0));
}

TEST(is_divisibleby)
{
    return value_bool(remainder_is(r, v, c->arg[0], 0));
}

/* str.islower, str.isupper: some cased character, and all of them so. */
static struct value all_case(struct jinja_run *r, struct value v, bool upper)
{
    struct str s = jinja_text(r, v);
    bool       some = false;
    uint32_t   cp;
    jinja_spend(r, s.n / 8);
    for (size_t i = 0; i < s.n;) {
        i += text_next(s, i, &cp);
        if (text_is_title(cp) || (upper ? text_is_lower(cp) : text_is_upper(cp)))
            return value_bool(false);
        some |= upper ? text_is_upper(cp) : text_is_lower(cp);
    }
    return value_bool(some);
}

TEST(is_lower)
{
    (void)c;
    return all_case(r, v, false);
}

TEST(is_upper)
{
    (void)c;
    return all_case(r, v, true);
}

#define TEST_COMPARE(name, op)                                                                                         \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        return value_bool(jinja_compare(r, op, v, c->arg[0]));                                                         \
    }

TEST_COMPARE(is_eq, TOKEN_EQ)
TEST_COMPARE(is_ne, TOKEN_NE)
TEST_COMPARE(is_lt, TOKEN_LT)
TEST_COMPARE(is_le, TOKEN_LE)
TEST_COMPARE(is_gt, TOKEN_GT)
TEST_COMPARE(is_ge, TOKEN_GE)
TEST_COMPARE(is_in, TOKEN_IN)

static const struct jinja_row tests[] = {
    {"!=", "other", is_ne, false},
    {"<", "other", is_lt, false},
    {"<=", "other", is_le, false},
    {"==", "other", is_eq, false},
    {">", "other", is_gt, false},
    {">=", "other", is_ge, false},
    {"boolean", "", is_boolean, false},
    {"callable", "", is_callable, false},
    {"defined", "", is_defined, false},
    {"divisibleby", "num", is_divisibleby, false},
    {"eq", "other", is_eq, false},
    {"equalto", "other", is_eq, false},
    {"escaped", "", is_escaped, false},
    {"even", "", is_even, false},
    {"false", "", is_false, false},
    {"filter", "", is_filter, false},
    {"float", "", is_float, false},
    {"ge", "other", is_ge, false},
    {"greaterthan", "other", is_gt, false},
    {"gt", "other", is_gt, false},
    {"in", "seq", is_in, false},
    {"integer", "", is_integer, false},
    {"iterable", "", is_iterable, false},
    {"le", "other", is_le, false},
    {"lessthan", "other", is_lt, false},
    {"lower", "", is_lower, false},
    {"lt", "other", is_lt, false},
    {"mapping", "", is_mapping, false},
    {"ne", "other", is_ne, false},
    {"none", "", is_none, false},
    {"number", "", is_number, false},
    {"odd", "", is_odd, false},
    {"sameas", "other", is_sameas, false},
    {"sequence", "", is_sequence, false},
    {"string", "", is_string, false},
    {"test", "", is_test, false},
    {"true", "", is_true, false},
    {"undefined", "", is_undefined, false},
    {"upper", "", is_upper, false},
    {NULL, NULL, NULL, false},
};

const struct jinja_row *jinja_test_row(struct str name)
{
    return jinja_find_row(tests, name);
}
