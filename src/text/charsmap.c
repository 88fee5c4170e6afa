/* See charsmap.h. Every step of a search is checked against the bounds: the blob comes from a stranger. */
#include "text/charsmap.h"

#include "base/utf8.h"
#include "text/component_char.h"

#define CLUSTER_MAX 6 /* bytes; clusters of this size or longer are mapped character by character */

static uint32_t read_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

int charsmap_load(struct charsmap *m, struct str blob, struct arena *arena, struct error *e)
{
    size_t n = blob.n >= 4 ? read_u32(blob.p) / 4 : 0;
    if (!n || n > (blob.n - 4) / 4)
        return error_set(e, ERR_FORMAT, "precompiled_charsmap", "\"precompiled_charsmap\" is cut short");
    struct str texts = {blob.p + 4 + 4 * n, blob.n - 4 - 4 * n};
    if (utf8_valid_prefix(texts.p, texts.n) != texts.n)
        return error_set(e, ERR_FORMAT, "precompiled_charsmap", "\"precompiled_charsmap\" holds broken UTF-8");
    uint32_t   *units = arena_alloc(arena, n * sizeof *units);
    const char *copy = arena_strdup(arena, texts.p, texts.n);
    if (!units || !copy)
        return error_nomem(e, "a tokenizer");
    for (size_t i = 0; i < n; i++)
        units[i] = read_u32(blob.p + 4 + 4 * i);
    *m = (struct charsmap){units, n, {copy, texts.n}};
    return 0;
}

static size_t children_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << (unit >> 9 & 1 ? 8 : 0);
}

/* What a value points at. */
static bool text_of(const struct charsmap *m, uint32_t value, struct str *out)
{
    size_t at = value & 0x7fffffffu;
    if (at > m->texts.n || (at < m->texts.n && ((unsigned char)m->texts.p[at] & 0xc0) == 0x80))
        return false;
    *out = (struct str){m->texts.p + at, strnlen(m->texts.p + at, m->texts.n - at)};
    return true;
}

/* Finds the shortest key at the beginning of s. */
static bool find(const struct charsmap *m, struct str s, struct str *out)
{
    size_t node = children_of(m->units[0]);
    for (size_t i = 0; i < s.n && s.p[i]; i++) {
        unsigned char byte = (unsigned char)s.p[i];
        node ^= byte;
        if (node >= m->n_units)
            return false;
        uint32_t unit = m->units[node];
        if ((unit & 0x800000ffu) != byte)
            return false;
        node ^= children_of(unit);
        if (unit >> 8 & 1)
            return node < m->n_units && text_of(m, m->units[node], out);
    }
    return false;
}

void charsmap_run(const struct charsmap *m, struct str text, struct buf *out)
{
    for (size_t at = 0, end; at < text.n; at = end) {
        struct str to;
        end = component_cluster_end(text, at);
        if (end - at < CLUSTER_MAX && find(m, (struct str){text.p + at, end - at}, &to)) {
            buf_put(out, to.p, to.n);
            continue;
        }
        for (size_t len; at < end; at += len) {
            uint32_t   cp;
            struct str c = {text.p + at, len = (size_t)utf8_decode(text.p + at, end - at, &cp)};
            if (!find(m, c, &to))
                to = c;
            buf_put(out, to.p, to.n);
        }
    }
}
