/* The filter before jansson; see pyjson.h. It copies the text and only looks at what stands outside strings. */
#include "base/pyjson.h"

#include <stdint.h>

#include "base/file.h"

#define DEPTH_MAX 64
#define CONTAINERS_MAX 200000 /* an empty array takes 3 bytes of text and some 200 of memory */
#define VALUES_MAX 2000000    /* a number takes 2 bytes of text and some 40 of memory, a member some 200 */
#define INT_DIGITS 19         /* of INT64_MAX */

struct filter {
    const char *p, *end;
    struct buf *out;
    int         depth, containers, values;
};

/* The end of the string whose opening quote is at p. */
static const char *string_end(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\' && p + 1 < end)
            p++;
    return p < end ? p + 1 : end;
}

static bool word_at(const char *p, const char *end, const char *w)
{
    size_t n = strlen(w);
    return (size_t)(end - p) >= n && memcmp(p, w, n) == 0;
}

static bool fits_int64(const char *digits, size_t n)
{
    return n < INT_DIGITS || (n == INT_DIGITS && memcmp(digits, "9223372036854775807", INT_DIGITS) <= 0);
}

/* A number or -Infinity at f->p. */
static void filter_number(struct filter *f)
{
    const char *p = f->p, *digits;
    if (word_at(p, f->end, "-Infinity")) {
        buf_puts(f->out, "\"-Infinity\"");
        f->p += strlen("-Infinity");
        return;
    }
    if (*p == '-')
        p++;
    for (digits = p; p < f->end && *p >= '0' && *p <= '9';)
        p++;
    bool integer = p == f->end || (*p != '.' && *p != 'e' && *p != 'E');
    while (p < f->end && ((*p >= '0' && *p <= '9') || (*p && strchr(".eE+-", *p))))
        p++;
    buf_put(f->out, f->p, (size_t)(p - f->p));
    if (integer && !fits_int64(digits, (size_t)(p - digits)))
        buf_puts(f->out, "e0");
    f->p = p;
}

/* Counts what the character c, outside strings, begins or ends; ERR_LIMIT when it is too much. */
static int count(struct filter *f, char c, const char *name, struct error *e)
{
    bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
    f->depth += opens - closes;
    f->containers += opens;
    f->values += opens || c == ',';
    if (f->depth > DEPTH_MAX)
        return error_set(e, ERR_LIMIT, NULL, "%s: nesting deeper than %d levels", name, DEPTH_MAX);
    if (f->containers > CONTAINERS_MAX)
        return error_set(e, ERR_LIMIT, NULL, "%s: more than %d arrays and objects", name, CONTAINERS_MAX);
    if (f->values > VALUES_MAX)
        return error_set(e, ERR_LIMIT, NULL, "%s: more than %d values", name, VALUES_MAX);
    return 0;
}

static int filter(struct filter *f, const char *name, struct error *e)
{
    while (f->p < f->end) {
        const char *p = f->p;
        char        c = *p;
        if (c == '"') {
            f->p = string_end(p, f->end);
            buf_put(f->out, p, (size_t)(f->p - p));
        } else if (c == '-' || (c >= '0' && c <= '9'))
            filter_number(f);
        else if (word_at(p, f->end, "NaN") || word_at(p, f->end, "Infinity")) {
            f->p += c == 'N' ? 3 : 8;
            buf_printf(f->out, "\"%.*s\"", (int)(f->p - p), p);
        } else {
            int status = count(f, c, name, e);
            if (status)
                return status;
            buf_putc(f->out, c);
            f->p++;
        }
    }
    return f->out->failed ? error_nomem(e, name) : 0;
}

int pyjson_parse_with(json_t **out, struct str text, size_t flags, const char *name, struct error *e)
{
    struct buf    clean;
    json_error_t  why;
    struct filter f = {.p = text.p, .end = text.p + text.n, .out = &clean};
    buf_init(&clean, SIZE_MAX / 4);
    int status = filter(&f, name, e);
    if (!status) {
        *out = json_loadb(buf_cstr(&clean), clean.n, JSON_DECODE_ANY | flags, &why);
        if (!*out)
            status = json_error_code(&why) == json_error_out_of_memory
                         ? error_nomem(e, name)
                         : error_set(e, ERR_FORMAT, NULL, "%s: not valid JSON at line %d, column %d: %s", name,
                                     why.line, why.column, why.text);
    }
    buf_deinit(&clean);
    return status;
}

int pyjson_parse(json_t **out, struct str text, const char *name, struct error *e)
{
    return pyjson_parse_with(out, text, JSON_REJECT_DUPLICATES, name, e);
}

int pyjson_load(json_t **out, const char *path, size_t max, struct error *e)
{
    struct buf text;
    buf_init(&text, max);
    int status = file_read(&text, path, e);
    if (!status)
        status = pyjson_parse(out, buf_str(&text), file_base(path), e);
    buf_deinit(&text);
    return status;
}
