/* PEFT's rank_pattern and alpha_pattern: the first key k for which Python's re.match finds `(.*\.)?(k)$` in a module's
 * name has that module's number. Most keys are plain names, in which only the dots mean anything; the others are given
 * to PCRE2. Keys and names come from strangers, so all matching of one map has a budget. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "adapt/file_int.h"

#define STEPS_FEW 2000 /* of PCRE2, for one name: mostly enough */
#define STEPS_MANY 200000
#define STEPS_OF_COST 2       /* a plain key costs 1 */
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

/* What pcre2_match returns, PCRE2_ERROR_MATCHLIMIT behind so many steps. */
static int regex_match(struct adapter_patterns *p, const pcre2_code *code, const char *name, uint32_t steps)
{
    pcre2_match_data    *match = pcre2_match_data_create(1, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    int                  rc = PCRE2_ERROR_NOMEMORY;
    if (match && limits) {
        pcre2_set_match_limit(limits, steps);
        pcre2_set_depth_limit(limits, steps);
        rc = pcre2_match(code, (PCRE2_SPTR)name, strlen(name), 0, 0, match, limits);
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(match);
    p->spent += steps / STEPS_OF_COST;
    p->nomem |= rc == PCRE2_ERROR_NOMEMORY;
    return rc;
}

/* What cannot be told stops all matching: a wrong answer would be a wrong scale. */
static bool matches(struct adapter_patterns *p, const struct adapter_pattern *q, struct str name)
{
    if (!q->code) {
        p->spent++;
        return plain_match((struct str){q->key, q->n}, name);
    }
    int rc = regex_match(p, q->code, name.p, STEPS_FEW);
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT)
        rc = regex_match(p, q->code, name.p, STEPS_MANY);
    p->stopped |= rc < 0 && rc != PCRE2_ERROR_NOMATCH;
    return rc >= 0;
}

static bool compile(struct adapter_reader *r, struct config *map, struct adapter_pattern *p)
{
    char       *text;
    int         code = 0;
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
    r->nomem |= !p->code && code == PCRE2_ERROR_HEAP_FAILED;
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
        p->stopped = p->spent > BUDGET;
        if (matches(p, &p->v[i], s))
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
