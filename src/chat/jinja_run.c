/* Faults, limits, scopes and jinja_render; contracts in jinja_run.h and jinja.h. */
#include "chat/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/num.h"

#define OUTPUT_DEFAULT ((size_t)64 << 20)
#define MEMORY_DEFAULT ((size_t)256 << 20)
#define STEPS_DEFAULT 20000000L
#define DEPTH_DEFAULT 2000

static struct value fail(struct jinja_run *r, int code, const char *why)
{
    const struct node *at = r->at;
    if (!r->status && at)
        r->status =
            error_set(r->e, code, NULL, "%s:%u:%u: %s", r->j->name, (unsigned)at->line, (unsigned)at->column, why);
    else if (!r->status)
        r->status = error_set(r->e, code, NULL, "%s: %s", r->j->name, why);
    return value_none();
}

struct value jinja_fail(struct jinja_run *r, const char *fmt, ...)
{
    char    why[ERROR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return fail(r, ERR_INVALID, why);
}

struct value jinja_fail_limit(struct jinja_run *r, const char *what)
{
    char why[200];
    snprintf(why, sizeof why, "the template exceeds the limit of %s", what);
    return fail(r, ERR_LIMIT, why);
}

struct value jinja_fail_memory(struct jinja_run *r, bool limit)
{
    char what[64];
    snprintf(what, sizeof what, "%zu bytes of memory", r->limits.memory);
    if (limit)
        return jinja_fail_limit(r, what);
    if (!r->status)
        r->status = error_nomem(r->e, r->j->name);
    return value_none();
}

struct value jinja_fail_type(struct jinja_run *r, const char *what, struct value v)
{
    if (v.type == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, v);
    return jinja_fail(r, "%s, got %s", what, value_type_name(v.type));
}

bool jinja_spend(struct jinja_run *r, size_t n)
{
    char what[64];
    if (r->status)
        return false;
    if (n > (size_t)r->steps) {
        snprintf(what, sizeof what, "%ld steps", r->limits.steps);
        jinja_fail_limit(r, what);
        return false;
    }
    r->steps -= (long)n;
    return true;
}

bool jinja_enter(struct jinja_run *r)
{
    char what[64];
    if (!jinja_spend(r, 1))
        return false;
    if (r->depth == r->limits.depth) {
        snprintf(what, sizeof what, "%d nested evaluations (recursion depth)", r->limits.depth);
        jinja_fail_limit(r, what);
        return false;
    }
    r->depth++;
    return true;
}

void jinja_leave(struct jinja_run *r)
{
    r->depth--;
}

void *jinja_alloc(struct jinja_run *r, size_t size)
{
    void *p = r->status ? NULL : arena_alloc(&r->arena, size);
    if (!p)
        jinja_fail_memory(r, size / 16 + 1 > (r->arena.max - r->arena.used) / 16);
    return p;
}

uint64_t jinja_random(struct jinja_run *r)
{
    uint64_t x = (uint64_t)r->now + 0x9e3779b97f4a7c15u * ++r->picks;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 31;
}

/* --- scopes ------------------------------------------------------------------------------------------------------ */

struct scope *jinja_scope(struct jinja_run *r, struct scope *outer)
{
    struct scope *s = r->spare_scopes;
    if (s && !r->status)
        r->spare_scopes = s->outer;
    else
        s = jinja_alloc(r, sizeof *s);
    if (s)
        *s = (struct scope){.outer = outer};
    return s;
}

void jinja_scope_end(struct jinja_run *r, struct scope *s)
{
    if (s->kept)
        return;
    for (struct binding *b = s->first, *next; b; b = next) {
        next = b->next;
        b->next = r->spare_bindings;
        r->spare_bindings = b;
    }
    s->outer = r->spare_scopes;
    r->spare_scopes = s;
}

void jinja_scope_keep(struct scope *s)
{
    for (; s && !s->kept; s = s->outer)
        s->kept = true;
}

static struct binding *find(struct jinja_run *r, const struct scope *s, struct str name)
{
    size_t n = 0;
    for (struct binding *b = s->first; b; b = b->next, n++)
        if (str_eq(b->name, name))
            return b;
    jinja_spend(r, n / 4);
    return NULL;
}

bool jinja_bind(struct jinja_run *r, struct scope *s, struct str name, struct value v)
{
    struct binding *b = find(r, s, name);
    if (!b) {
        if ((b = r->spare_bindings))
            r->spare_bindings = b->next;
        else if (!(b = jinja_alloc(r, sizeof *b)))
            return false;
        *b = (struct binding){.next = s->first, .name = name};
        s->first = b;
    }
    b->value = v;
    return true;
}

/* A variable of the caller, converted when first asked for. */
static bool lookup_var(struct jinja_run *r, struct str name, struct value *out)
{
    struct value *known = jinja_dict_text(r, r->known, name);
    const json_t *json = known ? NULL : json_object_getn(r->vars, name.p, name.n);
    if (known)
        *out = *known;
    if (!json)
        return known;
    *out = jinja_from_json(r, json);
    return jinja_dict_set(r, r->known, value_str(name), *out);
}

struct value jinja_lookup(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct str   name = n->name;
    struct value v;
    for (; s; s = s->outer) {
        const struct binding *b = find(r, s, name);
        if (b)
            return b->value;
    }
    if (n->hidden)
        return jinja_undefined(r, value_str(name), VALUE_ABSENT);
    if (lookup_var(r, name, &v))
        return v;
    if (str_is(name, "self"))
        return (struct value){.type = VALUE_SELF};
    const struct jinja_row *row = jinja_global_row(name);
    if (!row)
        return jinja_undefined(r, value_str(name), VALUE_ABSENT);
    struct function *f = jinja_alloc(r, sizeof *f);
    if (!f)
        return value_none();
    *f = (struct function){.row = row};
    return (struct value){.type = VALUE_FUNCTION, .u.function = f};
}

/* --- output ------------------------------------------------------------------------------------------------------ */

void jinja_write(struct jinja_run *r, struct str s)
{
    char what[64];
    if (r->status)
        return;
    buf_put(r->out, s.p, s.n);
    if (!r->out->failed)
        return;
    snprintf(what, sizeof what, "%zu bytes of output", r->limits.output);
    if (r->out == r->result && r->out->full)
        jinja_fail_limit(r, what);
    else
        jinja_fail_memory(r, r->out->full);
}

void jinja_capture_begin(struct jinja_run *r, struct capture *c)
{
    buf_init(&c->text, r->limits.memory - MIN(r->limits.memory, r->captured));
    c->outer = r->out;
    r->out = &c->text;
}

struct value jinja_capture_end(struct jinja_run *r, struct capture *c)
{
    r->out = c->outer;
    r->captured += c->text.n;
    if (!r->status && r->arena.used + r->captured > r->limits.memory)
        jinja_fail_memory(r, true);
    struct value v = jinja_take(r, &c->text);
    v.markup = r->autoescape;
    return v;
}

struct value jinja_capture(struct jinja_run *r, struct scope *s, const struct node *body, enum flow *flow)
{
    struct capture c;
    jinja_capture_begin(r, &c);
    *flow = jinja_exec(r, s, body);
    return jinja_capture_end(r, &c);
}

int jinja_render(const struct jinja *j, const json_t *vars, int64_t now, const struct jinja_limits *limits,
                 struct buf *out, struct error *e)
{
    static const struct jinja_limits defaults = {0};
    const struct jinja_limits       *l = limits ? limits : &defaults;
    struct buf                       text;
    struct jinja_run                 r = {.j = j, .vars = vars, .now = now, .out = &text, .result = &text, .e = e};
    r.limits.output = l->output ? l->output : OUTPUT_DEFAULT;
    r.limits.memory = l->memory ? l->memory : MEMORY_DEFAULT;
    r.limits.steps = r.steps = l->steps > 0 ? l->steps : STEPS_DEFAULT;
    r.limits.depth = l->depth > 0 ? l->depth : DEPTH_DEFAULT;
    arena_init(&r.arena, r.limits.memory);
    buf_init(&text, r.limits.output);
    r.known = jinja_dict(&r);
    r.root = jinja_scope(&r, NULL);
    if (!r.status)
        jinja_exec(&r, r.root, j->body);
    if (!r.status) {
        buf_put(out, text.p, text.n);
        if (out->failed)
            r.status = out->full
                           ? error_set(e, ERR_LIMIT, NULL, "%s: the result is longer than %zu bytes", j->name, out->max)
                           : error_nomem(e, j->name);
    }
    buf_deinit(&text);
    arena_deinit(&r.arena);
    return r.status;
}
