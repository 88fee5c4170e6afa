/* Python's bytes, which templates meet only through str.encode: as many of their ways as make encode useful. Contracts
 * in jinja_run.h and jinja_methods.h.
 */
#include "base/num.h"
#include "base/utf8.h"
#include "chat/jinja_methods.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

enum encoding { UTF_8, ASCII, LATIN_1 };

static struct value value_bytes(struct value text)
{
    text.type = text.type == VALUE_STRING ? VALUE_BYTES : text.type;
    text.markup = false;
    return text;
}

/* Lower case, '-' for '_'. */
static bool find_encoding(struct jinja_run *r, struct value v, enum encoding *out)
{
    static const struct {
        const char   *name;
        enum encoding encoding;
    } names[] = {{"utf-8", UTF_8},     {"utf8", UTF_8},     {"ascii", ASCII},       {"us-ascii", ASCII},
                 {"latin-1", LATIN_1}, {"latin1", LATIN_1}, {"iso-8859-1", LATIN_1}};
    struct str name = jinja_arg_str(r, v, STR("utf-8"));
    char       plain[16] = "";
    for (size_t i = 0; i < name.n && i + 1 < sizeof plain; i++)
        plain[i] = name.p[i] == '_' ? '-' : (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] | 0x20 : name.p[i]);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (name.n < sizeof plain && !strcmp(plain, names[i].name)) {
            *out = names[i].encoding;
            return !r->status;
        }
    jinja_fail(r, "unknown encoding: " STR_FMT, STR_ARG(name));
    return false;
}

/* What stands for a character that the encoding lacks; false: nothing does. */
static bool put_instead(struct buf *b, struct str errors, uint32_t cp)
{
    if (str_is(errors, "replace"))
        buf_putc(b, '?');
    else if (str_is(errors, "xmlcharrefreplace"))
        buf_printf(b, "&#%u;", (unsigned)cp);
    else if (str_is(errors, "backslashreplace"))
        buf_printf(b, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
    else
        return str_is(errors, "ignore");
    return true;
}

struct value string_encode(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    struct str    s = self.u.s, errors = jinja_arg_str(r, c->arg[1], STR("strict"));
    enum encoding encoding;
    uint32_t      cp;
    struct buf    b;
    if (!find_encoding(r, c->arg[0], &encoding) || !jinja_spend(r, s.n / 8))
        return value_none();
    if (encoding == UTF_8)
        return value_bytes(self);
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.n;) {
        i += text_next(s, i, &cp);
        if (cp < (encoding == ASCII ? 0x80 : 0x100))
            buf_putc(&b, (char)cp);
        else if (!put_instead(&b, errors, cp))
            jinja_fail(r, "'%s' codec can't encode a character", encoding == ASCII ? "ascii" : "latin-1");
    }
    return value_bytes(jinja_take(r, &b));
}

static struct value bytes_decode(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    struct str    s = self.u.s, errors = jinja_arg_str(r, c->arg[1], STR("strict"));
    enum encoding encoding;
    struct buf    b;
    if (!find_encoding(r, c->arg[0], &encoding) || !jinja_spend(r, s.n / 8))
        return value_none();
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.n;) {
        unsigned char byte = (unsigned char)s.p[i];
        uint32_t      cp = byte;
        int           n = encoding == UTF_8 ? utf8_decode(s.p + i, s.n - i, &cp) : 1;
        bool          valid = n > 0 && (encoding != ASCII || byte < 0x80);
        if (valid)
            text_put(&b, cp);
        else if (str_is(errors, "replace"))
            text_put(&b, 0xfffd);
        else if (str_is(errors, "backslashreplace"))
            buf_printf(&b, "\\x%02x", byte);
        else if (!str_is(errors, "ignore"))
            jinja_fail(r, "the codec can't decode byte 0x%02x in position %zu", byte, i);
        i += valid ? (size_t)n : n < 0 && !str_is(errors, "backslashreplace") ? (size_t)-n : n == 0 ? s.n - i : 1;
    }
    return jinja_take(r, &b);
}

static struct value bytes_hex(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    struct buf b;
    (void)c;
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < self.u.s.n; i++)
        buf_printf(&b, "%02x", (unsigned char)self.u.s.p[i]);
    return jinja_take(r, &b);
}

void jinja_put_bytes(struct buf *b, struct str s)
{
    bool quotes = s.n && memchr(s.p, '\'', s.n) && !memchr(s.p, '"', s.n);
    buf_puts(b, quotes ? "b\"" : "b'");
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '\\' || (c == '\'' && !quotes))
            buf_printf(b, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            buf_puts(b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c >= ' ' && c < 0x7f)
            buf_putc(b, (char)c);
        else
            buf_printf(b, "\\x%02x", c);
    }
    buf_putc(b, quotes ? '"' : '\'');
}

struct list *jinja_byte_list(struct jinja_run *r, struct str s)
{
    struct list *list = jinja_list(r, s.n);
    for (size_t i = 0; list && i < s.n; i++)
        list->v[i] = value_int((unsigned char)s.p[i]);
    return list;
}

const struct jinja_row jinja_bytes_methods[] = {
    {"decode", "encoding? errors?", bytes_decode, false},
    {"hex", "", bytes_hex, false},
    {NULL, NULL, NULL, false},
};
