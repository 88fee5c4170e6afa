/* The pull reader of json.h.
 *
 * j->state says what the grammar allows next:
 *   'v' a value          'a' a value or ']' (just after '[')      'k' a key or '}' (just after '{')
 *   'K' a key (after a comma)      ',' a comma or the closing bracket      'e' only blanks (the value is complete)
 */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"

#define SCRATCH_MAX ((size_t)64 << 20)

void json_init(struct json *j, const char *p, size_t n)
{
    *j = (struct json){.start = p, .p = p, .end = p + n, .state = 'v'};
    buf_init(&j->scratch, SCRATCH_MAX);
}

void json_deinit(struct json *j)
{
    buf_deinit(&j->scratch);
}

static enum json_token fail(struct json *j, const char *why, const char *at)
{
    if (!j->why) {
        j->why = why;
        j->at = at;
    }
    return JSON_ERROR;
}

static void skip_blanks(struct json *j)
{
    const char *p = j->p;
    for (; p < j->end && (unsigned char)*p <= ' '; p++) {
        uint64_t word;
        while (j->end - p > 8 &&
               (memcpy(&word, p, 8), word == 0x2020202020202020u)) /* an indented file is half blanks */
            p += 8;
        if (*p != ' ' && *p != '\n' && *p != '\r' && *p != '\t')
            break;
    }
    j->p = p;
}

static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int d = num_hex_digit(p[i]);
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* One escape at p (after the backslash) into scratch; NULL on a fault. */
static const char *escape(struct json *j, const char *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char       *hit;
    if (p == j->end)
        return NULL;
    if (*p != 'u') {
        hit = *p ? strchr(from, *p) : NULL;
        if (!hit)
            return NULL;
        buf_putc(&j->scratch, to[hit - from]);
        return p + 1;
    }
    int hi = hex4(p + 1, j->end);
    if (hi < 0)
        return NULL;
    p += 5;
    uint32_t cp = (uint32_t)hi;
    if (hi >= 0xd800 && hi < 0xe000) {
        int lo = j->end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, j->end) : -1;
        if (hi >= 0xdc00 || lo < 0xdc00 || lo > 0xdfff)
            return NULL;
        cp = 0x10000 + (((uint32_t)hi - 0xd800) << 10) + ((uint32_t)lo - 0xdc00);
        p += 6;
    }
    char out[4];
    buf_put(&j->scratch, out, (size_t)utf8_encode(cp, out));
    return p;
}

/* The end of the characters from p on that stand for themselves: a quote, a backslash, a control character or the end
 * of the input. Sets *high if some are not ASCII. */
static const char *plain_end(const char *p, const char *end, bool *high)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t       all = 0;
    for (uint64_t word; end - p >= 8; p += 8) {
        memcpy(&word, p, sizeof word);
        uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
        /* The top bit of each byte that is below 0x20, or 0 after the exclusive or: exact for the lowest such byte. */
        if ((((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops)
            break;
        all |= word;
    }
    while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\')
        all |= (uint64_t)(unsigned char)*p++;
    *high = all & tops;
    return p;
}

/* A string whose opening quote is at j->p; sets j->text. */
static bool string(struct json *j)
{
    const char *p = j->p + 1, *run;
    bool        copied = false, high;
    buf_clear(&j->scratch);
    for (;;) {
        run = p;
        p = plain_end(p, j->end, &high);
        size_t n = (size_t)(p - run), valid = high ? utf8_valid_prefix(run, n) : n;
        if (valid < n)
            return fail(j, "invalid UTF-8 in a string", run + valid);
        if (p == j->end)
            return fail(j, "a string that does not end", j->p);
        if (*p == '"')
            break;
        if (*p != '\\')
            return fail(j, "a control character in a string", p);
        const char *at = p;
        buf_put(&j->scratch, run, n);
        copied = true;
        p = escape(j, p + 1);
        if (!p)
            return fail(j, "a bad escape in a string", at);
    }
    if (copied) {
        buf_put(&j->scratch, run, (size_t)(p - run));
        if (j->scratch.failed)
            return fail(j, j->scratch.full ? "a string beyond 64 MiB" : "out of memory", j->p);
        j->text = buf_str(&j->scratch);
    } else
        j->text = (struct str){run, (size_t)(p - run)};
    j->p = p + 1;
    return true;
}

static enum json_token number(struct json *j)
{
    const char *s = j->p, *p = s;
    bool        real = false, neg = false;
    char        tmp[512];
    if (p < j->end && *p == '-') {
        neg = true;
        p++;
    }
    const char *digits = p;
    while (p < j->end && *p >= '0' && *p <= '9')
        p++;
    if (p == digits || (*digits == '0' && p - digits > 1))
        return fail(j, "a malformed number", s);
    if (p < j->end && *p == '.') {
        const char *d = ++p;
        real = true;
        while (p < j->end && *p >= '0' && *p <= '9')
            p++;
        if (p == d)
            return fail(j, "a malformed number", s);
    }
    if (p < j->end && (*p == 'e' || *p == 'E')) {
        real = true;
        p++;
        if (p < j->end && (*p == '+' || *p == '-'))
            p++;
        const char *d = p;
        while (p < j->end && *p >= '0' && *p <= '9')
            p++;
        if (p == d)
            return fail(j, "a malformed number", s);
    }
    j->p = p;
    j->text = (struct str){s, (size_t)(p - s)};
    if (!real && p - digits <= 18) {
        int64_t v = 0;
        for (const char *d = digits; d < p; d++)
            v = v * 10 + (*d - '0');
        j->i = neg ? -v : v;
        j->d = (double)j->i;
        return JSON_INT;
    }
    if ((size_t)(p - s) >= sizeof tmp)
        return fail(j, "a number of more than 511 digits", s);
    memcpy(tmp, s, (size_t)(p - s));
    tmp[p - s] = '\0';
    if (!real) {
        char     *end;
        long long v = strtoll(tmp, &end, 10);
        if (v != INT64_MAX && v != INT64_MIN) {
            j->i = v;
            j->d = (double)v;
            return JSON_INT;
        }
    }
    j->d = strtod(tmp, NULL);
    if (!isfinite(j->d))
        return fail(j, "a number beyond the range of double", s);
    return JSON_REAL;
}

static enum json_token word(struct json *j, const char *w, enum json_token t)
{
    size_t n = strlen(w);
    if ((size_t)(j->end - j->p) < n || memcmp(j->p, w, n))
        return fail(j, "an unknown word where a value belongs", j->p);
    j->p += n;
    return t;
}

static void value_done(struct json *j)
{
    j->state = j->depth ? ',' : 'e';
}

static enum json_token open_level(struct json *j, char c)
{
    if (j->depth == JSON_DEPTH_MAX)
        return fail(j, "nesting deeper than 64 levels", j->p);
    j->open[j->depth++] = c;
    j->p++;
    j->state = c == '{' ? 'k' : 'a';
    return c == '{' ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_token close_level(struct json *j)
{
    char c = *j->p;
    if (!j->depth || j->open[j->depth - 1] != (c == '}' ? '{' : '['))
        return fail(j, "a closing bracket that nothing opened", j->p);
    j->depth--;
    j->p++;
    value_done(j);
    return c == '}' ? JSON_OBJECT_END : JSON_ARRAY_END;
}

static enum json_token value(struct json *j)
{
    enum json_token t;
    char            c = *j->p;
    if (c == '{' || c == '[')
        return open_level(j, c);
    if (c == '"')
        t = string(j) ? JSON_STRING : JSON_ERROR;
    else if (c == '-' || (c >= '0' && c <= '9'))
        t = number(j);
    else if (c == 't')
        t = word(j, "true", JSON_TRUE);
    else if (c == 'f')
        t = word(j, "false", JSON_FALSE);
    else if (c == 'n')
        t = word(j, "null", JSON_NULL);
    else
        t = fail(j, "an unexpected character where a value belongs", j->p);
    value_done(j);
    return t;
}

static enum json_token key(struct json *j)
{
    if (*j->p != '"')
        return fail(j, "an object's key is not a string", j->p);
    if (!string(j))
        return JSON_ERROR;
    skip_blanks(j);
    if (j->p == j->end || *j->p != ':')
        return fail(j, "no colon after a key", j->p);
    j->p++;
    j->state = 'v';
    return JSON_KEY;
}

enum json_token json_next(struct json *j)
{
    if (j->why)
        return JSON_ERROR;
    skip_blanks(j);
    if (j->p == j->end)
        return j->state == 'e' ? JSON_EOF : fail(j, "the text ends early", j->p);
    if (j->state == 'e')
        return fail(j, "text after the end of the value", j->p);
    if (j->state == ',') {
        if (*j->p == '}' || *j->p == ']')
            return close_level(j);
        if (*j->p != ',')
            return fail(j, "no comma between two values", j->p);
        j->p++;
        j->state = j->open[j->depth - 1] == '{' ? 'K' : 'v';
        skip_blanks(j);
        if (j->p == j->end)
            return fail(j, "the text ends early", j->p);
    }
    if ((j->state == 'k' && *j->p == '}') || (j->state == 'a' && *j->p == ']'))
        return close_level(j);
    return j->state == 'k' || j->state == 'K' ? key(j) : value(j);
}

bool json_skip(struct json *j, enum json_token t)
{
    int depth = j->depth - 1;
    if (t != JSON_OBJECT && t != JSON_ARRAY)
        return t != JSON_ERROR;
    while (j->depth > depth)
        if (json_next(j) == JSON_ERROR)
            return false;
    return true;
}

const char *json_token_name(enum json_token t)
{
    static const char *const names[] = {"malformed JSON",
                                        "the end",
                                        "an object",
                                        "the end of an object",
                                        "an array",
                                        "the end of an array",
                                        "a key",
                                        "a string",
                                        "a number",
                                        "a number",
                                        "true",
                                        "false",
                                        "null"};
    return names[t];
}

int json_fault(const struct json *j, struct error *e, const char *file)
{
    size_t line = 1, col = 1;
    for (const char *p = j->start; j->at && p < j->at; p++) {
        col++;
        if (*p == '\n') {
            line++;
            col = 1;
        }
    }
    return error_set(e, ERR_FORMAT, NULL, "%s: not valid JSON at line %zu, column %zu: %s", file, line, col,
                     j->why ? j->why : "no value");
}
