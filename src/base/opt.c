/* Parsing options by table; contracts in opt.h. The help is made in opt_help.c.
 *
 * Defaults, environment and command line go through the same opt_store, so a default is checked like any other value
 * and the three only differ in how a fault names the source.
 */
#include "base/opt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

#define NAME_MAX_LEN 64

const char opt_required[] = "";

/* ---- names ---- */

/* The next spelling of a "a, b, c" list from *p on; false at its end. */
static bool next_name(const char **p, struct str *name)
{
    const char *s = *p + strspn(*p, ", ");
    *name = (struct str){s, strcspn(s, ", ")};
    *p = s + name->n;
    return name->n > 0;
}

/* The spelling that messages use: the first long one, else the first. */
static struct str main_name(const struct opt *o)
{
    const char *p = o->names;
    struct str  name, first = {0};
    while (next_name(&p, &name)) {
        if (!first.n)
            first = name;
        if (name.n > 2 && memcmp(name.p, "--", 2) == 0)
            return name;
    }
    return first;
}

static bool has_name(const struct opt *o, struct str word)
{
    const char *p = o->names;
    struct str  name;
    while (next_name(&p, &name))
        if (str_eq(name, word))
            return true;
    return false;
}

static const struct opt *find(const struct opt_view *view, struct str word, bool any_command)
{
    for (size_t i = 0; i < view->n; i++)
        if ((any_command || view->v[i].commands & view->command) && has_name(&view->v[i], word))
            return &view->v[i];
    return NULL;
}

/* ---- the nearest word ---- */

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b; words beyond NAME_MAX_LEN are far. */
static size_t distance(struct str a, struct str b)
{
    size_t row[3][NAME_MAX_LEN + 1];
    if (a.n > NAME_MAX_LEN || b.n > NAME_MAX_LEN)
        return NAME_MAX_LEN;
    for (size_t j = 0; j <= b.n; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t d = last[j - 1] + (a.p[i - 1] != b.p[j - 1]);
            d = MIN(d, last[j] + 1);
            d = MIN(d, now[j - 1] + 1);
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
                d = MIN(d, before[j - 2] + 1);
            now[j] = d;
        }
    }
    return row[a.n % 3][b.n];
}

/* How far a word may be from what was meant. */
static size_t reach(struct str word)
{
    return word.n < 4 ? 1 : word.n < 9 ? 2 : word.n / 3;
}

/* The distance, where the beginning of a word counts as close to it. */
static size_t far_from(struct str word, struct str name)
{
    bool begins = word.n > 2 && word.n < name.n && memcmp(word.p, name.p, word.n) == 0;
    return begins ? 1 : distance(word, name);
}

const char *opt_nearest(const char *word, const char *const *words, size_t n)
{
    const char *best = NULL;
    size_t      least = reach(str_of(word)) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t d = far_from(str_of(word), str_of(words[i]));
        if (d < least && d < strlen(words[i])) {
            least = d;
            best = words[i];
        }
    }
    return best;
}

static struct str nearest_option(const struct opt_view *view, struct str word)
{
    struct str best = {0}, name;
    size_t     least = reach(word) + 1;
    for (size_t i = 0; i < view->n; i++) {
        const char *p = view->v[i].names;
        while ((view->v[i].commands & view->command) && next_name(&p, &name)) {
            size_t d = far_from(word, name);
            if (name.n > 2 && d < least) {
                least = d;
                best = name;
            }
        }
    }
    return best;
}

static int unknown_option(const struct opt_view *view, struct str word, struct error *e)
{
    struct str near = nearest_option(view, word);
    if (find(view, word, true))
        return error_set(e, ERR_USAGE, NULL, STR_FMT " is not an option of %s", STR_ARG(word), view->name);
    if (near.n)
        return error_set(e, ERR_USAGE, NULL, "unknown option " STR_FMT "; did you mean " STR_FMT "?", STR_ARG(word),
                         STR_ARG(near));
    return error_set(e, ERR_USAGE, NULL, "unknown option " STR_FMT, STR_ARG(word));
}

/* ---- values ---- */

/* "an integer from 0 to 9", "a number of at least 0.5", ... */
static const char *accepted(const struct opt *o, char *text, size_t size)
{
    const char *what = o->kind == OPT_INT ? "an integer" : "a number";
    if (o->kind == OPT_CHOICE)
        snprintf(text, size, "one of %s", o->meta);
    else if (o->kind == OPT_FLAG)
        snprintf(text, size, "1, true, on or yes, or 0, false, off or no");
    else if (isfinite(o->min) && isfinite(o->max))
        snprintf(text, size, "%s from %.15g to %.15g", what, o->min, o->max);
    else if (isfinite(o->min))
        snprintf(text, size, "%s of at least %.15g", what, o->min);
    else if (isfinite(o->max))
        snprintf(text, size, "%s of at most %.15g", what, o->max);
    else
        snprintf(text, size, "%s", what);
    return text;
}

static bool one_of(const char *words, const char *value)
{
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, "|");
        if (n == strlen(value) && memcmp(p, value, n) == 0)
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

/* Flags that come from the environment; spellings as llama.cpp and Python programs have them. */
static bool parse_switch(const char *value, bool *out)
{
    *out = one_of("1|true|True|on|yes|enabled", value);
    return *out || one_of("0|false|False|off|no|disabled", value);
}

static bool list_add(struct opt_list *list, const char *value, size_t cap, struct arena *a)
{
    if (!list->v)
        list->v = arena_calloc(a, cap, sizeof *list->v);
    if (!list->v)
        return false;
    list->v[list->n++] = value;
    return true;
}

/* Puts the value into the row's member; false when it is not accepted. */
static bool store(const struct opt *o, const char *value, void *values)
{
    void  *at = (char *)values + o->offset;
    double d = 0;
    switch (o->kind) {
    case OPT_FLAG:
    case OPT_STOP:
        return parse_switch(value, at);
    case OPT_INT:
        if (!num_parse_i64(value, at))
            return false;
        d = (double)*(int64_t *)at;
        return d >= o->min && d <= o->max;
    case OPT_REAL:
        if (!num_parse_f64(value, at))
            return false;
        d = *(double *)at;
        return d >= o->min && d <= o->max;
    case OPT_CHOICE:
        *(const char **)at = value;
        return one_of(o->meta, value);
    default:
        *(const char **)at = value;
        return true;
    }
}

static int refuse(const struct opt *o, const char *source, int source_n, const char *value, struct error *e)
{
    char text[256];
    return error_set(e, ERR_USAGE, NULL, "%.*s takes %s, not \"%.200s\"", source_n, source,
                     accepted(o, text, sizeof text), value);
}

/* ---- sources ---- */

static int set_defaults(const struct opt_view *view, void *values, struct error *e)
{
    for (size_t i = 0; i < view->n; i++) {
        const struct opt *o = &view->v[i];
        if (!(o->commands & view->command))
            continue;
        if (o->fallback && o->fallback != OPT_REQUIRED && !store(o, o->fallback, values))
            return error_set(e, ERR_INTERNAL, NULL, "the table's default of %s, %s, is not in its range", o->names,
                             o->fallback);
    }
    return 0;
}

enum giver { GIVEN_NOT, GIVEN_IN_ENV, GIVEN_ON_LINE };

struct parse {
    const struct opt_view *view;
    int                    argc, i;
    char *const           *argv;
    void                  *values;
    unsigned char         *given; /* per row: by what, enum giver */
    bool                   stopped;
    struct arena          *arena;
};

/* Whether the command line has an option that excludes this one. */
static bool excluded(const struct parse *p, const struct opt *o)
{
    const char *list = p->view->exclusive ? p->view->exclusive : "";
    struct str  name;
    bool        among = false, other = false;
    while (next_name(&list, &name)) {
        const struct opt *named = find(p->view, name, false);
        among |= named == o;
        other |= named && named != o && p->given[named - p->view->v] == GIVEN_ON_LINE;
    }
    return among && other;
}

/* Sets what the command line left to the environment. An empty variable counts as unset. */
static int set_from_env(struct parse *p, const char *(*env)(const char *), struct error *e)
{
    for (size_t i = 0; i < p->view->n; i++) {
        const struct opt *o = &p->view->v[i];
        const char       *list = o->env, *value = NULL;
        struct str        name;
        char              var[NAME_MAX_LEN];
        if (!(o->commands & p->view->command) || p->given[i] || excluded(p, o))
            continue;
        while (!value && next_name(&list, &name)) {
            snprintf(var, sizeof var, STR_FMT, STR_ARG(name));
            value = env(var);
            if (value && !*value)
                value = NULL;
        }
        if (!value)
            continue;
        if (!store(o, value, p->values))
            return refuse(o, var, (int)strlen(var), value, e);
        p->given[i] = GIVEN_IN_ENV;
    }
    return 0;
}

/* One argument that begins with '-'; takes the next one when the option needs a value. */
static int parse_option(struct parse *p, struct error *e)
{
    const char       *arg = p->argv[p->i], *eq = strncmp(arg, "--", 2) == 0 ? strchr(arg, '=') : NULL;
    struct str        word = {arg, eq ? (size_t)(eq - arg) : strlen(arg)};
    const struct opt *o = find(p->view, word, false);
    const char       *value = eq ? eq + 1 : NULL;
    if (!o)
        return unknown_option(p->view, word, e);
    p->given[o - p->view->v] = GIVEN_ON_LINE;
    if (o->kind == OPT_FLAG || o->kind == OPT_STOP) {
        p->stopped = o->kind == OPT_STOP;
        if (value)
            return error_set(e, ERR_USAGE, NULL, STR_FMT " takes no value", STR_ARG(word));
        *(bool *)((char *)p->values + o->offset) = true;
        return 0;
    }
    if (!value && p->i + 1 == p->argc)
        return error_set(e, ERR_USAGE, NULL, STR_FMT " needs a value: %s", STR_ARG(word), o->meta);
    if (!value)
        value = p->argv[++p->i];
    if (o->kind == OPT_LIST) {
        struct opt_list *list = (struct opt_list *)(void *)((char *)p->values + o->offset);
        return list_add(list, value, (size_t)p->argc, p->arena) ? 0 : error_nomem(e, "the command line");
    }
    return store(o, value, p->values) ? 0 : refuse(o, word.p, (int)word.n, value, e);
}

/* The first argument without a name, as its option's value. */
static int set_bare(struct parse *p, const char *value, struct error *e)
{
    struct str        name = str_of(p->view->bare);
    const struct opt *o = find(p->view, name, false);
    if (!o)
        return 0;
    if (p->given[o - p->view->v])
        return error_set(e, ERR_USAGE, NULL, STR_FMT " is given twice: once as \"%.200s\" without its name",
                         STR_ARG(name), value);
    p->given[o - p->view->v] = GIVEN_ON_LINE;
    return store(o, value, p->values) ? 0 : refuse(o, name.p, (int)name.n, value, e);
}

static int check_required(const struct parse *p, struct error *e)
{
    for (size_t i = 0; i < p->view->n; i++) {
        const struct opt *o = &p->view->v[i];
        char              name[ERROR_PARAM_MAX];
        if (!(o->commands & p->view->command) || o->fallback != OPT_REQUIRED || p->given[i])
            continue;
        snprintf(name, sizeof name, STR_FMT, STR_ARG(main_name(o)));
        return error_set(e, ERR_USAGE, name, "%s needs %s %s", p->view->name, name, o->meta);
    }
    return 0;
}

int opt_parse(const struct opt_view *view, int argc, char *const *argv, const char *(*env)(const char *name),
              void *values, struct opt_list *rest, struct arena *a, struct error *e)
{
    struct parse p = {.view = view, .argc = argc, .argv = argv, .values = values, .arena = a};
    bool         ended = false;
    int          rc;
    p.given = arena_calloc(a, view->n + 1, sizeof *p.given);
    if (!p.given)
        return error_nomem(e, "the command line");
    rc = set_defaults(view, values, e);
    for (p.i = 0; p.i < argc && !rc && !p.stopped; p.i++) {
        const char *arg = argv[p.i];
        if (!ended && strcmp(arg, "--") == 0)
            ended = true;
        else if (!ended && arg[0] == '-' && arg[1])
            rc = parse_option(&p, e);
        else if (!list_add(rest, arg, (size_t)argc, a))
            rc = error_nomem(e, "the command line");
    }
    if (!rc && !p.stopped && view->bare && rest->n)
        rc = set_bare(&p, rest->v[0], e);
    if (!rc && !p.stopped && env)
        rc = set_from_env(&p, env, e);
    return rc || p.stopped ? rc : check_required(&p, e);
}
