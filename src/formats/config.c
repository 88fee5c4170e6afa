/* Looking up, checking and wording; contracts in config.h.
 *
 * Views form a list that hangs on the root. A view's prefix is what stands before a key in messages, "config.json: "
 * for the root and "config.json: rope_scaling." for a child.
 */
#include "formats/config.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/num.h"
#include "base/pyjson.h"

#define SIZE_LIMIT ((size_t)16 << 20)
#define VIEWS_MAX ((size_t)64 << 20) /* arena of the views and their prefixes */
#define TEXT_CONFIG "text_config"
#define WANT_MAX 96

struct config {
    json_t        *object; /* borrowed from the root's tree */
    json_t        *text;   /* root only: text_config, or NULL */
    const char    *prefix;
    struct config *root;
    /* of the root alone */
    json_t       *tree;
    struct faults faults;
    struct arena  views;
};

/* --- lookup ------------------------------------------------------------------------------------------------------- */

/* The field's value, NULL when it is missing or null; *inside gets "text_config." when it was found there. */
static json_t *lookup(const struct config *c, const char *key, const char **inside)
{
    json_t *v = c->text ? json_object_get(c->text, key) : NULL;
    *inside = "";
    if (v && !json_is_null(v)) {
        *inside = TEXT_CONFIG ".";
        return v;
    }
    v = json_object_get(c->object, key);
    return v && !json_is_null(v) ? v : NULL;
}

static enum config_kind kind_of(const json_t *v)
{
    if (!v)
        return CONFIG_MISSING;
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return CONFIG_OBJECT;
    case JSON_ARRAY:
        return CONFIG_ARRAY;
    case JSON_STRING:
        return CONFIG_STR;
    case JSON_INTEGER:
        return CONFIG_INT;
    case JSON_REAL:
        return fabs(json_real_value(v)) < 0x1p53 && rint(json_real_value(v)) == json_real_value(v) ? CONFIG_INT
                                                                                                   : CONFIG_NUM;
    case JSON_TRUE:
    case JSON_FALSE:
        return CONFIG_BOOL;
    default:
        return CONFIG_MISSING;
    }
}

/* What a message says was found: "the string 'abc'", "7", "an object". */
static const char *describe(const json_t *v, char out[WANT_MAX])
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_INTEGER:
        snprintf(out, WANT_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        return out;
    case JSON_REAL:
        snprintf(out, WANT_MAX, "%.17g", json_real_value(v));
        return out;
    case JSON_STRING:
        snprintf(out, WANT_MAX, "the string '%.*s'", (int)MIN(json_string_length(v), (size_t)60), json_string_value(v));
        return out;
    default:
        return "null";
    }
}

static void fault_missing(struct config *c, const char *key, const char *want)
{
    faults_add(&c->root->faults, ERR_FORMAT, key, "%s%s is missing, %s is needed", c->prefix, key, want);
}

/* i: index within a list, -1 for the field itself; a value that stands for a list of one has none. */
static void fault_value(struct config *c, const char *inside, const char *key, int i, const json_t *v, const char *want)
{
    char found[WANT_MAX], at[16] = "";
    if (i >= 0 && config_kind(c, key) == CONFIG_ARRAY)
        snprintf(at, sizeof at, "[%d]", i);
    faults_add(&c->root->faults, ERR_FORMAT, key, "%s%s%s%s is %s, %s is needed", c->prefix, inside, key, at,
               describe(v, found), want);
}

static const char *want_int(int64_t lo, int64_t hi, char out[WANT_MAX])
{
    snprintf(out, WANT_MAX, "a whole number from %" PRId64 " to %" PRId64, lo, hi);
    return out;
}

static const char *want_num(double lo, double hi, char out[WANT_MAX])
{
    snprintf(out, WANT_MAX, "a number from %g to %g", lo, hi);
    return out;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static bool to_int(const json_t *v, int64_t lo, int64_t hi, int64_t *out)
{
    if (kind_of(v) != CONFIG_INT)
        return false;
    *out = json_is_integer(v) ? json_integer_value(v) : (int64_t)json_real_value(v);
    return *out >= lo && *out <= hi;
}

static bool to_num(const json_t *v, double lo, double hi, double *out)
{
    const json_t *wrapped = json_object_get(v, "__float__"); /* as transformers 5 writes what JSON lacks */
    const char   *s = json_string_value(wrapped ? wrapped : v);
    if (s && strcmp(s, "Infinity") == 0)
        *out = INFINITY;
    else if (s && strcmp(s, "-Infinity") == 0)
        *out = -INFINITY;
    else if (json_is_number(v))
        *out = json_number_value(v);
    else
        return false;
    return *out >= lo && *out <= hi;
}

enum config_kind config_kind(struct config *c, const char *key)
{
    const char *inside;
    return kind_of(lookup(c, key, &inside));
}

bool config_has(struct config *c, const char *key)
{
    return config_kind(c, key) != CONFIG_MISSING;
}

bool config_is_null(struct config *c, const char *key)
{
    return !config_has(c, key) && (json_object_get(c->object, key) || (c->text && json_object_get(c->text, key)));
}

int64_t config_int_or(struct config *c, const char *key, int64_t lo, int64_t hi, int64_t dflt)
{
    char        want[WANT_MAX];
    const char *inside;
    json_t     *v = lookup(c, key, &inside);
    int64_t     x;
    if (!v)
        return dflt;
    if (to_int(v, lo, hi, &x))
        return x;
    fault_value(c, inside, key, -1, v, want_int(lo, hi, want));
    return dflt;
}

int64_t config_int(struct config *c, const char *key, int64_t lo, int64_t hi)
{
    char want[WANT_MAX];
    if (!config_has(c, key))
        fault_missing(c, key, want_int(lo, hi, want));
    return config_int_or(c, key, lo, hi, lo);
}

double config_num_or(struct config *c, const char *key, double lo, double hi, double dflt)
{
    char        want[WANT_MAX];
    const char *inside;
    json_t     *v = lookup(c, key, &inside);
    double      x;
    if (!v)
        return dflt;
    if (to_num(v, lo, hi, &x))
        return x;
    fault_value(c, inside, key, -1, v, want_num(lo, hi, want));
    return dflt;
}

double config_num(struct config *c, const char *key, double lo, double hi)
{
    char want[WANT_MAX];
    if (!config_has(c, key))
        fault_missing(c, key, want_num(lo, hi, want));
    return config_num_or(c, key, lo, hi, lo);
}

bool config_bool_or(struct config *c, const char *key, bool dflt)
{
    const char *inside;
    json_t     *v = lookup(c, key, &inside);
    if (!v)
        return dflt;
    if (json_is_boolean(v))
        return json_is_true(v);
    fault_value(c, inside, key, -1, v, "true or false");
    return dflt;
}

const char *config_str_or(struct config *c, const char *key, const char *dflt)
{
    const char *inside;
    json_t     *v = lookup(c, key, &inside);
    if (!v)
        return dflt;
    if (json_is_string(v))
        return json_string_value(v);
    fault_value(c, inside, key, -1, v, "a string");
    return dflt;
}

const char *config_str(struct config *c, const char *key)
{
    if (!config_has(c, key))
        fault_missing(c, key, "a string");
    return config_str_or(c, key, "");
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

/* Element i, or the value itself when it is no list and i is 0; NULL beyond the end. */
static json_t *element(struct config *c, const char *key, int i, const char **inside)
{
    json_t *v = lookup(c, key, inside);
    if (json_is_array(v))
        return i >= 0 ? json_array_get(v, (size_t)i) : NULL;
    return i == 0 ? v : NULL;
}

int config_array_len(struct config *c, const char *key)
{
    const char *inside;
    json_t     *v = lookup(c, key, &inside);
    return !v ? -1 : json_is_array(v) ? (int)json_array_size(v) : 1;
}

int64_t config_array_int(struct config *c, const char *key, int i, int64_t lo, int64_t hi)
{
    char        want[WANT_MAX];
    const char *inside;
    int64_t     x;
    json_t     *v = element(c, key, i, &inside);
    if (v && to_int(v, lo, hi, &x))
        return x;
    if (v)
        fault_value(c, inside, key, i, v, want_int(lo, hi, want));
    else
        config_fault(c, ERR_FORMAT, key, "has no element %d", i);
    return lo;
}

double config_array_num(struct config *c, const char *key, int i, double lo, double hi)
{
    char        want[WANT_MAX];
    const char *inside;
    double      x;
    json_t     *v = element(c, key, i, &inside);
    if (v && to_num(v, lo, hi, &x))
        return x;
    if (v)
        fault_value(c, inside, key, i, v, want_num(lo, hi, want));
    else
        config_fault(c, ERR_FORMAT, key, "has no element %d", i);
    return lo;
}

const char *config_array_str(struct config *c, const char *key, int i)
{
    const char *inside;
    json_t     *v = element(c, key, i, &inside);
    if (json_is_string(v))
        return json_string_value(v);
    if (v)
        fault_value(c, inside, key, i, v, "a string");
    else
        config_fault(c, ERR_FORMAT, key, "has no element %d", i);
    return "";
}

bool config_array_bool(struct config *c, const char *key, int i)
{
    const char *inside;
    json_t     *v = element(c, key, i, &inside);
    if (v && !json_is_boolean(v))
        fault_value(c, inside, key, i, v, "true or false");
    else if (!v)
        config_fault(c, ERR_FORMAT, key, "has no element %d", i);
    return json_is_true(v);
}

/* --- views -------------------------------------------------------------------------------------------------------- */

static struct config *child(struct config *c, json_t *object, const char *inside, const char *key)
{
    struct arena  *a = &c->root->views;
    struct config *v = arena_calloc(a, 1, sizeof *v);
    if (v) {
        v->object = object;
        v->root = c->root;
        v->prefix = *key ? arena_printf(a, "%s%s%s.", c->prefix, inside, key) : c->prefix;
    }
    if (v && v->prefix)
        return v;
    c->root->faults.nomem = 1;
    return NULL;
}

struct config *config_object(struct config *c, const char *key)
{
    const char *inside;
    json_t     *v = lookup(c, key, &inside);
    if (!v)
        return NULL;
    if (json_is_object(v))
        return child(c, v, inside, key);
    fault_value(c, inside, key, -1, v, "an object");
    return NULL;
}

struct config *config_top(struct config *c)
{
    return child(c->root, c->root->object, "", "");
}

const char *config_next_key(struct config *c, const char *prev)
{
    void *it = prev ? json_object_iter_next(c->object, json_object_key_to_iter(prev)) : json_object_iter(c->object);
    return it ? json_object_iter_key(it) : NULL;
}

/* --- the root ----------------------------------------------------------------------------------------------------- */

void config_fault(struct config *c, int code, const char *key, const char *fmt, ...)
{
    char        msg[1024];
    const char *inside;
    va_list     ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    lookup(c, key, &inside);
    faults_add(&c->root->faults, code, key, "%s%s%s %s", c->prefix, inside, key, msg);
}

int config_report(struct config *c, struct error *e)
{
    return faults_report(&c->root->faults, e);
}

/* Makes the root; takes the tree. */
static int new_root(struct config **out, json_t *tree, const char *name, struct error *e)
{
    struct config *c = calloc(1, sizeof *c);
    int            status = 0;
    if (!c) {
        json_decref(tree);
        return error_nomem(e, name);
    }
    arena_init(&c->views, VIEWS_MAX);
    c->root = c;
    c->tree = c->object = tree;
    c->prefix = arena_printf(&c->views, "%s: ", name);
    if (!c->prefix)
        status = error_nomem(e, name);
    else if (!json_is_object(tree))
        status = error_set(e, ERR_FORMAT, NULL, "%s is not a JSON object", name);
    else if ((c->text = json_object_get(tree, TEXT_CONFIG)) && json_is_null(c->text))
        c->text = NULL;
    if (!status && c->text && !json_is_object(c->text))
        status = error_set(e, ERR_FORMAT, TEXT_CONFIG, "%s: " TEXT_CONFIG " is not an object", name);
    if (status)
        config_free(c);
    else
        *out = c;
    return status;
}

int config_parse(struct config **out, struct str text, const char *name, struct error *e)
{
    json_t *tree;
    int     status = pyjson_parse(&tree, text, name, e);
    return status ? status : new_root(out, tree, name, e);
}

int config_load(struct config **out, const char *dir, const char *file, struct error *e)
{
    json_t *tree;
    char   *path;
    int     status;
    if (asprintf(&path, "%s/%s", dir, file) < 0)
        return error_nomem(e, file);
    status = pyjson_load(&tree, path, SIZE_LIMIT, e);
    free(path);
    return status ? status : new_root(out, tree, file, e);
}

void config_free(struct config *root)
{
    if (!root)
        return;
    json_decref(root->tree);
    faults_deinit(&root->faults);
    arena_deinit(&root->views);
    free(root);
}
