/* Bracketed classes of a pattern: sets of characters with ranges, nested classes, POSIX brackets and intersections.
 * Contracts in pattern_int.h. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/casefold.h"
#include "text/pattern_int.h"
#include "text/property.h"

#define CLASS_DEPTH_MAX 16

static bool read_class(struct reader *r, struct charset *s, bool *negate, int depth);

/* Whether "[:" begins a POSIX bracket: ":]" comes before the next ']'. */
static bool at_posix(const struct reader *r)
{
    if (!pattern_at(r, "[:"))
        return false;
    const char *close = memchr(r->p + 2, ']', (size_t)(r->end - r->p) - 2);
    return close && close > r->p + 2 && close[-1] == ':';
}

/* [:alpha:] or [:^alpha:] */
static bool posix_bracket(struct reader *r, struct charset *s)
{
    char        name[24];
    const char *end;
    r->p += 2;
    bool negate = pattern_accept(r, "^");
    end = memchr(r->p, ':', (size_t)(r->end - r->p));
    int n = end - r->p < 16 ? snprintf(name, sizeof name, "[%.*s]", (int)(end - r->p), r->p) : 0;
    if (!n || end[1] != ']' || !pattern_add_property(r, name, negate, s))
        return pattern_refuse(r, ERR_FORMAT, "has an unknown POSIX bracket");
    r->p = end + 2;
    return true;
}

static bool class_char(struct reader *r, uint32_t *cp)
{
    if (pattern_accept(r, "\\"))
        return pattern_char_escape(r, true, cp);
    if (r->p == r->end) {
        pattern_refuse(r, ERR_FORMAT, "has a class without an end");
        return false;
    }
    r->p += utf8_decode(r->p, (size_t)(r->end - r->p), cp);
    return true;
}

/* A minus that stands for itself: before the end of the class or of a side of an intersection. */
static bool at_last_minus(const struct reader *r)
{
    return pattern_at(r, "-]") || pattern_at(r, "-&&");
}

/* A character, or a range that begins with it. */
static bool char_or_range(struct reader *r, struct charset *s)
{
    struct charset ignored = {0};
    uint32_t       lo, hi;
    if (!class_char(r, &lo))
        return false;
    hi = lo;
    if (pattern_at(r, "-") && !at_last_minus(r)) {
        const char *from = ++r->p;
        bool        kind = pattern_at(r, "[");
        if (pattern_accept(r, "\\"))
            kind = pattern_class_escape(r, &ignored);
        charset_deinit(&ignored);
        r->p = from;
        if (kind)
            return pattern_refuse(r, ERR_FORMAT, "has a range that ends in a class");
        if (!class_char(r, &hi))
            return false;
    }
    if (hi < lo)
        return pattern_refuse(r, ERR_FORMAT, "has a range whose ends are in the wrong order");
    charset_add(s, lo, hi);
    return true;
}

/* One element of a class. */
static bool class_item(struct reader *r, struct charset *s, int depth)
{
    const char *from = r->p;
    bool        negate, kind = true;
    if (at_posix(r)) {
        if (!posix_bracket(r, s))
            return false;
    } else if (pattern_accept(r, "[")) {
        struct charset inner = {0};
        bool           ok = read_class(r, &inner, &negate, depth + 1);
        charset_sort(&inner);
        if (negate)
            charset_negate(&inner);
        charset_add_set(s, &inner);
        charset_deinit(&inner);
        return ok; /* a minus after it stands for itself */
    } else
        kind = pattern_accept(r, "\\") && pattern_class_escape(r, s);
    if (r->status)
        return false;
    if (!kind) {
        r->p = from;
        return char_or_range(r, s);
    }
    if (pattern_at(r, "-") && !at_last_minus(r))
        return pattern_refuse(r, ERR_FORMAT, "has a range that begins with a class");
    return true;
}

/* One side of an intersection, sorted. */
static bool class_side(struct reader *r, struct charset *s, int depth)
{
    while (r->p < r->end && *r->p != ']' && !pattern_at(r, "&&"))
        if (!class_item(r, s, depth))
            return false;
    charset_sort(s);
    return r->p < r->end || pattern_refuse(r, ERR_FORMAT, "has a class without an end");
}

/* A class after its '[', as what it would hold without its '^'. */
static bool read_class(struct reader *r, struct charset *s, bool *negate, int depth)
{
    bool ok = true;
    *negate = pattern_accept(r, "^");
    if (depth > CLASS_DEPTH_MAX)
        return pattern_refuse(r, ERR_LIMIT, "nests classes deeper than %d levels", CLASS_DEPTH_MAX);
    if (pattern_at(r, "]")) { /* as the first it stands for itself, if the class ends later */
        if (!memchr(r->p + 1, ']', (size_t)(r->end - r->p) - 1))
            return pattern_refuse(r, ERR_FORMAT, "has an empty class");
        ok = char_or_range(r, s);
    }
    ok = ok && class_side(r, s, depth);
    while (ok && pattern_accept(r, "&&")) {
        struct charset side = {0};
        ok = class_side(r, &side, depth);
        charset_intersect(s, &side);
        charset_deinit(&side);
    }
    return ok && pattern_accept(r, "]");
}

/* Adds to `choice` the strings that equal a character of the class. */
static bool add_strings(struct reader *r, const struct charset *s, struct node *choice)
{
    const struct fold_string *f;
    for (size_t i = 0; (f = fold_string(i)) != NULL; i++) {
        bool any = false;
        for (int k = 0; k < FOLD_CHARS_MAX && f->chars[k]; k++)
            any |= charset_has(s, f->chars[k]);
        struct node *list = any ? pattern_node(r, NODE_LIST) : NULL;
        for (int k = 0; list && k < f->n; k++) {
            struct charset one = {0};
            charset_add(&one, f->text[k], f->text[k]);
            charset_fold(&one);
            struct node *n = pattern_set_node(r, &one);
            if (n)
                pattern_append(list, n);
        }
        if (list)
            pattern_append(choice, list);
    }
    return !r->status;
}

struct node *pattern_class(struct reader *r)
{
    struct charset s = {0};
    struct node   *choice = NULL, *n;
    bool           negate, ok, fold = r->options & OPTION_FOLD;
    r->in_class = true;
    ok = read_class(r, &s, &negate, 1);
    r->in_class = false;
    if (ok && fold)
        charset_fold(&s);
    if (ok && fold && !negate && !r->behind) {
        choice = pattern_node(r, NODE_CHOICE);
        ok = choice && add_strings(r, &s, choice);
    }
    if (ok && fold)
        charset_fold_strings(&s);
    if (negate)
        charset_negate(&s);
    if (!ok) {
        charset_deinit(&s);
        return NULL;
    }
    if (!(n = pattern_set_node(r, &s)) || !choice || !choice->child)
        return n;
    n->next = choice->child;
    choice->child = n;
    return choice;
}
