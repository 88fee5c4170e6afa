/* Contracts in pieces.h. */
#include "cli/pieces.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "cli/output.h"
#include "text/detok.h"
#include "text/unicode.h"

json_t *pieces_json(const struct tokenizer *t, const struct token_pieces *p)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < p->n; i++) {
        const struct token_piece *v = &p->v[i];
        struct str                text = tokenizer_token(t, v->id);
        json_t                   *o =
            json_pack("{s:i, s:s%, s:I, s:I, s:b}", "id", (int)v->id, "piece", text.n ? text.p : "", text.n, "start",
                      (json_int_t)v->start, "end", (json_int_t)v->end, "special", (int)tokenizer_is_special(t, v->id));
        if (json_array_append_new(array, o)) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* Characters that do not show, or change how others do. */
static bool hidden(uint32_t cp)
{
    const unsigned sets = 1u << UNICODE_CC | 1u << UNICODE_CF | 1u << UNICODE_CO | 1u << UNICODE_CN | 1u << UNICODE_ZS |
                          1u << UNICODE_ZL | 1u << UNICODE_ZP;
    return cp != ' ' && unicode_is(cp, sets);
}

/* Appends text in quotes: \n, \r, \t, \", \\, \uXXXX or \UXXXXXXXX for what would not show, \xXX for a byte that is a
 * part of a character. */
static void quote(struct str text, struct buf *out)
{
    static const char escapes[] = "\nn\rr\tt\"\"\\\\";
    buf_putc(out, '"');
    for (size_t i = 0; i < text.n;) {
        uint32_t    cp;
        int         n = utf8_decode(text.p + i, text.n - i, &cp);
        const char *known = NULL;
        for (const char *e = escapes; *e && !known; e += 2)
            known = n == 1 && *e == text.p[i] ? e : NULL;
        if (n <= 0)
            buf_printf(out, "\\x%02X", (unsigned char)text.p[i]);
        else if (known)
            buf_printf(out, "\\%c", known[1]);
        else if (hidden(cp))
            buf_printf(out, cp > 0xffff ? "\\U%08X" : "\\u%04X", (unsigned)cp);
        else
            buf_put(out, text.p + i, (size_t)n);
        i += n > 0 ? (size_t)n : 1;
    }
    buf_putc(out, '"');
}

static bool colours(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return out_is_terminal() && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

int pieces_print(const struct tokenizer *t, const struct token_pieces *p, struct error *e)
{
    bool       columns = out_is_terminal(), coloured = colours();
    struct buf text, line;
    int        rc = 0;
    buf_init(&text, (size_t)1 << 30);
    buf_init(&line, (size_t)1 << 30);
    for (size_t i = 0; i < p->n && !rc; i++) {
        const struct token_piece *v = &p->v[i];
        char                      range[50];
        buf_clear(&text);
        buf_clear(&line);
        rc = tokenizer_token_bytes(t, v->id, &text);
        snprintf(range, sizeof range, "%zu..%zu", v->start, v->end);
        buf_printf(&line, columns ? "%8d  %-15s  " : "%d\t%s\t", v->id, range);
        if (coloured)
            buf_puts(&line, i % 2 ? "\033[33m" : "\033[36m");
        quote(buf_str(&text), &line);
        buf_puts(&line, coloured ? "\033[0m\n" : "\n");
        if (!rc)
            rc = out_buf(&line, e);
    }
    buf_deinit(&text);
    buf_deinit(&line);
    return rc == ERR_NOMEM ? error_nomem(e, "the pieces") : rc;
}
