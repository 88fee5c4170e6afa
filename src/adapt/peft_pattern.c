/* PEFT's rank_pattern and alpha_pattern: the first key k for which Python's re.match finds `(.*\.)?(k)$` in a module's
 * name has that module's number. Most keys are plain names, in which only the dots mean anything; the others are given
 * to PCRE2. Keys and names come from strangers, so all matching of one map has a budget. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "adapt/file_int.h"

#define STEPS_MAX 2000        /* of PCRE2, for one name */
#define REGEX_COST 1000       /* of one name, against 1 for a plain key */
#define BUDGET ((int64_t)1e8) /* some seconds */
#define KEY_MAX ((size_t)4096)

struct adapter_pattern {
    const char *key;
    size_t      n; /* bytes of key */
    double      value;
    pcre2_code *code; /* NULL: a plain key */
};

static bool is_plain(const char *key)
{
    return key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")] == '\0';
}

/* The end of name, from its beginning or behind a dot, is key, in which a dot is any character. */
static bool plain_match(struct str key, struct str name)
{
    if (!key.n || key.n > name.n || (key.p[key.n - 1] != '.' && key.p[key.n - 1] != name.p[name.n - 1]))
        return false;
    const char *end = name.p + (name.n - key.n);
    if (key.n < name.n && end[-1] != '.')
        return false;
    for (size_t i = 0; i < key.n; i++)
        if (key.p[i] != '.' && key.p[i] != end[i])
            return false;
    return true;
}

static bool regex_match(const pcre2_code *code, const char *name)
{
    pcre2_match_data    *match = pcre2_match_data_create(1, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    bool                 hit = false;
    if (match && limits) {
        pcre2_set_match_limit(limits, STEPS_MAX);
        pcre2_set_depth_limit(limits, STEPS_MAX);
        hit = pcre2_match(code, (PCRE2_SPTR)name, strlen(name), 0, 0, match, limits) >= 0;
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(match);
    return hit;
}

static bool compile(struct adapter_reader *r, struct config *map, struct adapter_pattern *p)
{
    char       *text;
    int         code;
    PCRE2_SIZE  at;
    PCRE2_UCHAR why[128] = "";
    if (asprintf(&text, "(.*\\.)?(%s)$", p->key) < 0) {
        r->nomem = true;
        return false;
    }
    p->code = strlen(p->key) > KEY_MAX
                  ? NULL
                  : pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                                  PCRE2_ANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);
    if (!p->code) {
        if (strlen(p->key) <= KEY_MAX)
            pcre2_get_error_message(code, why, sizeof why);
        config_fault(map, ERR_FORMAT, p->key, "is no regular expression that can be read%s%s", *why ? ": " : "", why);
    }
    free(text);
    return p->code != NULL;
}

void adapter_patterns_read(struct adapter_reader *r, struct adapter_patterns *p, const char *key, double lo, double hi)
{
    struct config *map = config_object(r->config, key);
    size_t         n = 0;
    for (const char *k = map ? config_next_key(map, NULL) : NULL; k; k = config_next_key(map, k))
        n++;
    if (!n)
        return;
    p->v = calloc(n, sizeof *p->v);
    if (!p->v) {
        r->nomem = true;
        return;
    }
    for (const char *k = config_next_key(map, NULL); k; k = config_next_key(map, k)) {
        struct adapter_pattern *q = &p->v[p->n];
        q->key = k;
        q->n = strlen(k);
        q->value = config_num_or(map, k, lo, hi, NAN);
        if (is_plain(k) || compile(r, map, q))
            p->n++;
    }
}

double adapter_patterns_find(struct adapter_patterns *p, const char *name, double dflt)
{
    struct str s = str_of(name);
    for (size_t i = 0; i < p->n && !p->stopped; i++) {
        p->spent += p->v[i].code ? REGEX_COST : 1;
        p->stopped = p->spent > BUDGET;
        if (p->v[i].code ? regex_match(p->v[i].code, name) : plain_match((struct str){p->v[i].key, p->v[i].n}, s))
            return p->v[i].value;
    }
    return dflt;
}

void adapter_patterns_deinit(struct adapter_patterns *p)
{
    for (size_t i = 0; i < p->n; i++)
        pcre2_code_free(p->v[i].code);
    free(p->v);
}
