/* See finder.h. */
#include "text/finder.h"

#include <jansson.h>

int finder_regex(struct finder *f, struct component *c, struct str pattern)
{
    int status = matcher_new(&f->matcher, pattern, c->e);
    if (!status && !f->matcher)
        status = regex_new(&f->regex, pattern, c->e);
    if (status)
        error_prefix(c->e, "%s", c->role);
    return status;
}

int finder_load(struct finder *f, struct component *c, const json_t *pattern)
{
    struct str regex = {0};
    int        status = field_str(c, pattern, "Regex", &regex);
    if (status)
        return status;
    if (regex.p)
        return finder_regex(f, c, regex);
    if ((status = field_text(c, pattern, "String", &f->literal)) == 0 && !f->literal.n)
        status = component_malformed(c, "has an empty pattern");
    return status;
}

void finder_deinit(struct finder *f)
{
    matcher_free(f->matcher);
    regex_free(f->regex);
    *f = (struct finder){0};
}

int finder_begin(struct finder_run *r, const struct finder *f, struct str text, struct error *e)
{
    r->f = f;
    r->text = text;
    r->from = 0;
    return f->regex ? regex_begin(&r->regex, f->regex, text, e) : 0;
}

int finder_next(struct finder_run *r, bool *found, size_t *start, size_t *end, struct error *e)
{
    if (r->f->regex)
        return regex_next(&r->regex, found, start, end, e);
    if (r->f->matcher) {
        *found = matcher_next(r->f->matcher, r->text, r->from, start, end);
        r->from = *end;
        return 0;
    }
    struct str  literal = r->f->literal;
    const char *hit = memmem(r->text.p + r->from, r->text.n - r->from, literal.p, literal.n);
    *found = hit != NULL;
    if (hit) {
        *start = (size_t)(hit - r->text.p);
        r->from = *end = *start + literal.n;
    }
    return 0;
}
