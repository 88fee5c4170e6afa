/* The pull reader against jansson: both accept or both refuse, and what both accept is the same value. Known
 * differences: our limits (depth, digits), and what jansson does not take or passes over, see below. */
/* jansson's names of types are also names of our tokens. */
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_ARRAY JANSSON_ARRAY
#define JSON_STRING JANSSON_STRING
#define JSON_INTEGER JANSSON_INTEGER
#define JSON_REAL JANSSON_REAL
#define JSON_TRUE JANSSON_TRUE
#define JSON_FALSE JANSSON_FALSE
#define JSON_NULL JANSSON_NULL
#include <jansson.h>
#undef JSON_OBJECT
#undef JSON_ARRAY
#undef JSON_STRING
#undef JSON_INTEGER
#undef JSON_REAL
#undef JSON_TRUE
#undef JSON_FALSE
#undef JSON_NULL

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct tree {
    json_t *open[JSON_DEPTH_MAX + 1]; /* the containers around the next value */
    bool    in_array[JSON_DEPTH_MAX + 1];
    char   *key[JSON_DEPTH_MAX + 1];
    size_t  key_n[JSON_DEPTH_MAX + 1];
    int     depth;
    json_t *root;
    bool    beyond; /* has an integer beyond int64 or a NUL in a key, which jansson does not take */
};

static void put(struct tree *t, json_t *v)
{
    json_t *in = t->depth ? t->open[t->depth] : NULL;
    if (!in)
        t->root = v;
    else if (t->in_array[t->depth])
        json_array_append_new(in, v);
    else
        json_object_setn_new(in, t->key[t->depth], t->key_n[t->depth], v);
}

static void open_level(struct tree *t, json_t *v, bool array)
{
    put(t, v);
    t->open[++t->depth] = v;
    t->in_array[t->depth] = array;
}

static void set_key(struct tree *t, struct str text)
{
    free(t->key[t->depth]);
    t->key[t->depth] = malloc(text.n + 1);
    memcpy(t->key[t->depth], text.p, text.n);
    t->key_n[t->depth] = text.n;
    t->beyond |= text.n && memchr(text.p, 0, text.n);
}

/* A real without point and exponent was an integer that did not fit. */
static int was_integer(const struct json *j, const char *before)
{
    for (const char *p = before; p < j->p; p++)
        if (*p == '.' || *p == 'e' || *p == 'E')
            return 0;
    return 1;
}

static void build(struct tree *t, struct json *j)
{
    for (;;) {
        const char     *before = j->p;
        enum json_token k = json_next(j);
        if (k == JSON_ERROR || k == JSON_EOF)
            return;
        else if (k == JSON_OBJECT)
            open_level(t, json_object(), false);
        else if (k == JSON_ARRAY)
            open_level(t, json_array(), true);
        else if (k == JSON_OBJECT_END || k == JSON_ARRAY_END)
            t->depth--;
        else if (k == JSON_KEY)
            set_key(t, j->text);
        else if (k == JSON_STRING)
            put(t, json_stringn(j->text.p, j->text.n));
        else if (k == JSON_INT)
            put(t, json_integer(j->i));
        else if (k == JSON_REAL) {
            t->beyond |= was_integer(j, before);
            put(t, json_real(j->d));
        } else
            put(t, k == JSON_NULL ? json_null() : json_boolean(k == JSON_TRUE));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json  j;
    struct tree  t = {0};
    struct error e = {0};
    json_init(&j, (const char *)data, size);
    build(&t, &j);
    bool    accepted = !j.why, nul = size && memchr(data, 0, size); /* jansson passes over NUL bytes */
    json_t *peer = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (accepted && !t.beyond && (!peer || !json_equal(peer, t.root)))
        abort();
    if (!accepted && peer && !nul && !strstr(j.why, "deeper") && !strstr(j.why, "digits"))
        abort();
    if (!accepted && (json_next(&j) != JSON_ERROR || json_fault(&j, &e, "f") != ERR_FORMAT || !e.msg[0]))
        abort();
    json_decref(peer);
    json_decref(t.root);
    for (int i = 0; i <= JSON_DEPTH_MAX; i++)
        free(t.key[i]);
    json_deinit(&j);
    return 0;
}
