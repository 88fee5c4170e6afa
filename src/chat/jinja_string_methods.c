/* Methods of strings: searching, cutting, splitting; and their table. Those that test, pad or change letters stand in
 * jinja_string_letters.c. Names, arguments and results are those of Python's str. */
#include "base/num.h"
#include "chat/jinja_filters.h"
#include "chat/jinja_methods.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

#define METHOD(name) static struct value name(struct jinja_run *r, struct value self, const struct jinja_call *c)

/* --- strip ------------------------------------------------------------------------------------------------------- */

static struct value strip(struct jinja_run *r, struct value self, const struct jinja_call *c, enum text_side sides)
{
    bool       white = c->arg[0].type == VALUE_ABSENT || c->arg[0].type == VALUE_NONE;
    struct str set = white ? STR("") : jinja_arg_str(r, c->arg[0], STR(""));
    jinja_spend(r, self.u.s.n / 16);
    return value_markup(text_strip(self.u.s, white ? NULL : &set, sides), self.markup);
}

METHOD(strip_both)
{
    return strip(r, self, c, TEXT_BOTH);
}

METHOD(strip_left)
{
    return strip(r, self, c, TEXT_LEFT);
}

METHOD(strip_right)
{
    return strip(r, self, c, TEXT_RIGHT);
}

METHOD(remove_prefix)
{
    struct str prefix = jinja_arg_str(r, c->arg[0], STR("")), s = self.u.s;
    return text_starts(s, prefix) ? value_markup(text_slice(s, prefix.n, s.n), self.markup) : self;
}

METHOD(remove_suffix)
{
    struct str suffix = jinja_arg_str(r, c->arg[0], STR("")), s = self.u.s;
    return text_ends(s, suffix) ? value_markup(text_slice(s, 0, s.n - suffix.n), self.markup) : self;
}

/* Charges a search from the end, whose time may be the product of both lengths. */
static bool spend_search(struct jinja_run *r, struct str s, struct str needle)
{
    return jinja_spend(r, (s.n / 64 + 1) * (needle.n / 64 + 1));
}

/* --- search ------------------------------------------------------------------------------------------------------ */

/* The part [start, end) that find, count, startswith, ... look at; *first: its first code point's index. False: the
 * start lies beyond the end of the string. */
static bool window(struct jinja_run *r, struct str s, struct value start, struct value end, struct str *part,
                   int64_t *first)
{
    int64_t n = (int64_t)text_count(s), from = jinja_arg_int(r, start, 0), to = jinja_arg_int(r, end, n);
    jinja_spend(r, s.n / 4);
    from = MAX(from < 0 ? from + n : from, 0);
    to = MIN(MAX(to < 0 ? to + n : to, 0), n);
    *first = from;
    if (from > n || from > to)
        return false;
    size_t a = text_offset(s, (size_t)from);
    *part = text_slice(s, a, a + text_offset(text_slice(s, a, s.n), (size_t)(to - from)));
    return !r->status;
}

static int64_t search(struct jinja_run *r, struct value self, const struct jinja_call *c, bool last)
{
    struct str part, needle = jinja_arg_str(r, c->arg[0], STR(""));
    int64_t    first;
    if (!window(r, self.u.s, c->arg[1], c->arg[2], &part, &first) || (last && !spend_search(r, part, needle)))
        return -1;
    long at = last ? text_rfind(part, needle) : text_find(part, needle);
    return at < 0 ? -1 : first + (int64_t)text_count(text_slice(part, 0, (size_t)at));
}

METHOD(find)
{
    return value_int(search(r, self, c, false));
}

METHOD(find_last)
{
    return value_int(search(r, self, c, true));
}

static struct value found_or_fail(struct jinja_run *r, int64_t at)
{
    return at < 0 ? jinja_fail(r, "substring not found") : value_int(at);
}

METHOD(index_of)
{
    return found_or_fail(r, search(r, self, c, false));
}

METHOD(index_last)
{
    return found_or_fail(r, search(r, self, c, true));
}

METHOD(count)
{
    struct str part, needle = jinja_arg_str(r, c->arg[0], STR(""));
    int64_t    first, n = 0;
    if (!window(r, self.u.s, c->arg[1], c->arg[2], &part, &first))
        return value_int(0);
    if (!needle.n)
        return value_int((int64_t)text_count(part) + 1);
    for (long at; (at = text_find(part, needle)) >= 0; n++)
        part = text_slice(part, (size_t)at + needle.n, part.n);
    return value_int(n);
}

/* The argument is a string or a tuple of them. */
static struct value starts_or_ends(struct jinja_run *r, struct value self, const struct jinja_call *c,
                                   bool (*test)(struct str, struct str))
{
    struct value what = c->arg[0];
    struct str   part;
    int64_t      first;
    bool         inside = window(r, self.u.s, c->arg[1], c->arg[2], &part, &first);
    if (what.type != VALUE_TUPLE)
        return value_bool(test(inside ? part : STR(""), jinja_arg_str(r, what, STR(""))) && inside);
    for (size_t i = 0; inside && i < what.u.list->n && !r->status; i++)
        if (test(part, jinja_arg_str(r, what.u.list->v[i], STR(""))))
            return value_bool(true);
    return value_bool(false);
}

METHOD(starts_with)
{
    return starts_or_ends(r, self, c, text_starts);
}

METHOD(ends_with)
{
    return starts_or_ends(r, self, c, text_ends);
}

METHOD(replace)
{
    struct str old = jinja_arg_str(r, c->arg[0], STR("")), new = jinja_arg_str(r, c->arg[1], STR(""));
    int64_t    count_max = jinja_arg_int(r, c->arg[2], -1);
    if (self.markup)
        new = jinja_escaped(r, c->arg[1]);
    struct value v = r->status ? value_none() : jinja_replace(r, self.u.s, old, new, count_max);
    v.markup = self.markup;
    return v;
}

/* --- split ------------------------------------------------------------------------------------------------------- */

static bool add_part(struct jinja_run *r, struct builder *parts, struct value self, struct str part)
{
    return builder_add(r, parts, value_markup(part, self.markup));
}

/* Runs of white space part, none of them at the ends. */
static void split_words(struct jinja_run *r, struct builder *parts, struct value self, int64_t max)
{
    uint32_t cp;
    for (struct str rest = text_strip(self.u.s, NULL, TEXT_LEFT); rest.n && !r->status; max--) {
        size_t end = 0;
        if (max == 0) {
            add_part(r, parts, self, rest);
            return;
        }
        for (size_t n; end < rest.n; end += n) {
            n = text_next(rest, end, &cp);
            if (text_is_space(cp))
                break;
        }
        add_part(r, parts, self, text_slice(rest, 0, end));
        rest = text_strip(text_slice(rest, end, rest.n), NULL, TEXT_LEFT);
    }
}

static void split_words_last(struct jinja_run *r, struct builder *parts, struct value self, int64_t max)
{
    uint32_t cp;
    for (struct str rest = text_strip(self.u.s, NULL, TEXT_RIGHT); rest.n && !r->status; max--) {
        size_t start = rest.n;
        if (max == 0) {
            add_part(r, parts, self, rest);
            return;
        }
        for (size_t n; start > 0; start -= n) {
            n = text_prev(rest, start, &cp);
            if (text_is_space(cp))
                break;
        }
        add_part(r, parts, self, text_slice(rest, start, rest.n));
        rest = text_strip(text_slice(rest, 0, start), NULL, TEXT_RIGHT);
    }
}

static void split_at(struct jinja_run *r, struct builder *parts, struct value self, struct str sep, int64_t max,
                     bool last)
{
    struct str rest = self.u.s;
    long       at;
    for (; max && !r->status && (at = last ? text_rfind(rest, sep) : text_find(rest, sep)) >= 0; max--) {
        struct str before = text_slice(rest, 0, (size_t)at), after = text_slice(rest, (size_t)at + sep.n, rest.n);
        add_part(r, parts, self, last ? after : before);
        rest = last ? before : after;
        if (last)
            spend_search(r, after, sep);
    }
    add_part(r, parts, self, rest);
}

static struct value split_any(struct jinja_run *r, struct value self, const struct jinja_call *c, bool last)
{
    struct builder parts = {0};
    int64_t        max = jinja_arg_int(r, c->arg[1], -1);
    bool           words = c->arg[0].type == VALUE_ABSENT || c->arg[0].type == VALUE_NONE;
    struct str     sep = words ? STR("") : jinja_arg_str(r, c->arg[0], STR(""));
    if (r->status || !jinja_spend(r, self.u.s.n / 16))
        return value_none();
    if (!words && !sep.n)
        return jinja_fail(r, "empty separator");
    if (!words)
        split_at(r, &parts, self, sep, max, last);
    else if (last)
        split_words_last(r, &parts, self, max);
    else
        split_words(r, &parts, self, max);
    struct list *list = builder_list(r, &parts);
    for (size_t i = 0; list && last && i < list->n / 2; i++) {
        struct value v = list->v[i];
        list->v[i] = list->v[list->n - 1 - i];
        list->v[list->n - 1 - i] = v;
    }
    return value_list(list);
}

METHOD(split)
{
    return split_any(r, self, c, false);
}

METHOD(split_last)
{
    return split_any(r, self, c, true);
}

METHOD(split_lines)
{
    struct builder lines = {0};
    bool           keep = value_truth(c->arg[0]);
    jinja_spend(r, self.u.s.n / 8);
    for (size_t at = 0, next; at < self.u.s.n && !r->status; at = next) {
        size_t end = text_line_end(self.u.s, at, &next);
        add_part(r, &lines, self, text_slice(self.u.s, at, keep ? next : end));
    }
    return value_list(builder_list(r, &lines));
}

static struct value partition_at(struct jinja_run *r, struct value self, struct str sep, long at, bool last)
{
    struct list *list = jinja_list(r, 3);
    struct str   s = self.u.s;
    if (!list)
        return value_none();
    for (int i = 0; i < 3; i++)
        list->v[i] = value_markup(STR(""), self.markup);
    if (at < 0) {
        list->v[last ? 2 : 0] = self;
        return value_tuple(list);
    }
    list->v[0].u.s = text_slice(s, 0, (size_t)at);
    list->v[1].u.s = text_slice(s, (size_t)at, (size_t)at + sep.n);
    list->v[2].u.s = text_slice(s, (size_t)at + sep.n, s.n);
    return value_tuple(list);
}

static struct value partition_any(struct jinja_run *r, struct value self, const struct jinja_call *c, bool last)
{
    struct str sep = jinja_arg_str(r, c->arg[0], STR(""));
    if (!sep.n)
        return jinja_fail(r, "empty separator");
    spend_search(r, self.u.s, sep);
    return partition_at(r, self, sep, last ? text_rfind(self.u.s, sep) : text_find(self.u.s, sep), last);
}

METHOD(partition)
{
    return partition_any(r, self, c, false);
}

METHOD(partition_last)
{
    return partition_any(r, self, c, true);
}

METHOD(join)
{
    struct list *items = jinja_items(r, c->arg[0]);
    struct buf   b;
    jinja_buf_init(r, &b);
    for (size_t i = 0; items && i < items->n && jinja_spend(r, 1); i++) {
        struct value item = items->v[i];
        if (item.type != VALUE_STRING && !self.markup)
            jinja_fail(r, "sequence item %zu: expected str instance, %s found", i, value_type_name(item.type));
        struct str text = self.markup ? jinja_escaped(r, item) : jinja_text(r, item);
        buf_put(&b, self.u.s.p, i ? self.u.s.n : 0);
        buf_put(&b, text.p, text.n);
    }
    struct value v = jinja_take(r, &b);
    v.markup = self.markup;
    return v;
}

METHOD(format)
{
    return jinja_format(r, self, c->args);
}

const struct jinja_row jinja_string_methods[] = {
    {"capitalize", "", filter_capitalize, false},
    {"casefold", "", string_casefold, false},
    {"center", "/width fillchar?", string_center, false},
    {"count", "/sub start? end?", count, false},
    {"encode", "encoding? errors?", string_encode, false},
    {"endswith", "/suffix start? end?", ends_with, false},
    {"expandtabs", "tabsize?", string_expandtabs, false},
    {"find", "/sub start? end?", find, false},
    {"format", "*", format, false},
    {"format_map", "/mapping", string_format_map, false},
    {"index", "/sub start? end?", index_of, false},
    {"isalnum", "", string_isalnum, false},
    {"isalpha", "", string_isalpha, false},
    {"isascii", "", string_isascii, false},
    {"isdecimal", "", string_isdecimal, false},
    {"isdigit", "", string_isdigit, false},
    {"isidentifier", "", string_isidentifier, false},
    {"islower", "", string_islower, false},
    {"isnumeric", "", string_isnumeric, false},
    {"isprintable", "", string_isprintable, false},
    {"isspace", "", string_isspace, false},
    {"istitle", "", string_istitle, false},
    {"isupper", "", string_isupper, false},
    {"join", "/iterable", join, false},
    {"ljust", "/width fillchar?", string_ljust, false},
    {"lower", "", filter_lower, false},
    {"lstrip", "/chars?", strip_left, false},
    {"maketrans", "/x y? z?", string_maketrans, false},
    {"partition", "/sep", partition, false},
    {"removeprefix", "/prefix", remove_prefix, false},
    {"removesuffix", "/suffix", remove_suffix, false},
    {"replace", "/old new count?", replace, false},
    {"rfind", "/sub start? end?", find_last, false},
    {"rindex", "/sub start? end?", index_last, false},
    {"rjust", "/width fillchar?", string_rjust, false},
    {"rpartition", "/sep", partition_last, false},
    {"rsplit", "sep? maxsplit?", split_last, false},
    {"rstrip", "/chars?", strip_right, false},
    {"split", "sep? maxsplit?", split, false},
    {"splitlines", "keepends?", split_lines, false},
    {"startswith", "/prefix start? end?", starts_with, false},
    {"strip", "/chars?", strip_both, false},
    {"swapcase", "", string_swapcase, false},
    {"title", "", string_title, false},
    {"translate", "/table", string_translate, false},
    {"upper", "", filter_upper, false},
    {"zfill", "/width", string_zfill, false},
    {NULL, NULL, NULL, false},
};
