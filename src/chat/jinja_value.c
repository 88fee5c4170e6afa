/* Facts about values that need no rendering state; contracts in jinja_value.h. */
#include "chat/jinja_value.h"

#include <math.h>

#include "chat/jinja_big.h"

const char *value_type_name(uint8_t type)
{
    static const char *const names[] = {
        [VALUE_ABSENT] = "absent",
        [VALUE_UNDEFINED] = "Undefined",
        [VALUE_NONE] = "NoneType",
        [VALUE_BOOL] = "bool",
        [VALUE_INT] = "int",
        [VALUE_BIG] = "int",
        [VALUE_FLOAT] = "float",
        [VALUE_STRING] = "str",
        [VALUE_BYTES] = "bytes",
        [VALUE_LIST] = "list",
        [VALUE_TUPLE] = "tuple",
        [VALUE_DICT] = "dict",
        [VALUE_VIEW] = "dict_view",
        [VALUE_ITERATOR] = "generator",
        [VALUE_RANGE] = "range",
        [VALUE_NAMESPACE] = "Namespace",
        [VALUE_FUNCTION] = "function",
        [VALUE_MACRO] = "Macro",
        [VALUE_BLOCK] = "BlockReference",
        [VALUE_SELF] = "TemplateReference",
        [VALUE_LOOP] = "LoopContext",
        [VALUE_CYCLER] = "Cycler",
        [VALUE_JOINER] = "Joiner",
    };
    return names[type];
}

const char *value_owner_name(uint8_t type)
{
    static const char *const names[] = {
        [VALUE_ABSENT] = "absent",
        [VALUE_UNDEFINED] = "jinja2.runtime.Undefined object",
        [VALUE_NONE] = "None",
        [VALUE_BOOL] = "bool object",
        [VALUE_INT] = "int object",
        [VALUE_BIG] = "int object",
        [VALUE_FLOAT] = "float object",
        [VALUE_STRING] = "str object",
        [VALUE_BYTES] = "bytes object",
        [VALUE_LIST] = "list object",
        [VALUE_TUPLE] = "tuple object",
        [VALUE_DICT] = "dict object",
        [VALUE_VIEW] = "dict_view object",
        [VALUE_ITERATOR] = "generator object",
        [VALUE_RANGE] = "range object",
        [VALUE_NAMESPACE] = "jinja2.utils.Namespace object",
        [VALUE_FUNCTION] = "function object",
        [VALUE_MACRO] = "jinja2.runtime.Macro object",
        [VALUE_BLOCK] = "jinja2.runtime.BlockReference object",
        [VALUE_SELF] = "jinja2.runtime.TemplateReference object",
        [VALUE_LOOP] = "jinja2.runtime.LoopContext object",
        [VALUE_CYCLER] = "jinja2.utils.Cycler object",
        [VALUE_JOINER] = "jinja2.utils.Joiner object",
    };
    return names[type];
}

bool value_truth(struct value v)
{
    switch (v.type) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return v.u.b;
    case VALUE_INT:
        return v.u.i != 0;
    case VALUE_FLOAT:
        return v.u.d != 0;
    case VALUE_STRING:
    case VALUE_BYTES:
        return v.u.s.n != 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return v.u.list->n != 0;
    case VALUE_DICT:
        return v.u.dict->n != 0;
    case VALUE_RANGE:
        return v.u.range->n != 0;
    default:
        return true;
    }
}

bool value_is_integral(struct value v)
{
    return v.type == VALUE_BOOL || v.type == VALUE_INT;
}

bool value_is_int(struct value v)
{
    return value_is_integral(v) || v.type == VALUE_BIG;
}

bool value_is_number(struct value v)
{
    return value_is_int(v) || v.type == VALUE_FLOAT;
}

int64_t value_integral(struct value v)
{
    return v.type == VALUE_BOOL ? v.u.b : v.u.i;
}

double value_number(struct value v)
{
    return v.type == VALUE_FLOAT ? v.u.d : v.type == VALUE_BIG ? big_to_double(v.u.big) : (double)value_integral(v);
}

/* An integer of any size against a float. */
static int order_mixed(struct value i, double d)
{
    if (isinf(d))
        return d < 0 ? 1 : -1;
    if (i.type == VALUE_BIG)
        return big_order_double(i.u.big, d);
    int64_t n = value_integral(i);
    if (d < -0x1p63 || d >= 0x1p63)
        return d < 0 ? 1 : -1;
    if (n != (int64_t)d)
        return n < (int64_t)d ? -1 : 1;
    return trunc(d) < d ? -1 : trunc(d) > d;
}

int value_order_numbers(struct value a, struct value b)
{
    bool a_float = a.type == VALUE_FLOAT, b_float = b.type == VALUE_FLOAT;
    if ((a_float && isnan(a.u.d)) || (b_float && isnan(b.u.d)))
        return 2;
    if (a_float && b_float)
        return a.u.d < b.u.d ? -1 : a.u.d > b.u.d;
    if (a_float || b_float)
        return a_float ? -order_mixed(b, a.u.d) : order_mixed(a, b.u.d);
    if (a.type == VALUE_BIG && b.type == VALUE_BIG)
        return big_order(a.u.big, b.u.big);
    if (a.type == VALUE_BIG || b.type == VALUE_BIG) /* it lies beyond all small ones */
        return a.type == VALUE_BIG ? (a.u.big->negative ? -1 : 1) : b.u.big->negative ? 1 : -1;
    return value_integral(a) < value_integral(b) ? -1 : value_integral(a) > value_integral(b);
}

bool value_same_scalar(struct value a, struct value b)
{
    if (value_is_number(a) && value_is_number(b))
        return value_order_numbers(a, b) == 0;
    if (a.type != b.type)
        return false;
    return a.type == VALUE_STRING ? str_eq(a.u.s, b.u.s) : a.type == VALUE_NONE || a.type == VALUE_UNDEFINED;
}
