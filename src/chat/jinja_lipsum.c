/* The global lipsum: paragraphs of filler text. The words and lengths are drawn from the time of the rendering, so that
 * the same rendering gives the same text.
 */
#include "base/num.h"
#include "chat/jinja_globals.h"
#include "chat/jinja_run.h"

#define PARAGRAPHS_MAX 10000

static const char *const words[] = {
    "lorem",   "ipsum",   "dolor",  "sit",     "amet",     "consectetur", "adipiscing", "elit",    "sed",
    "do",      "eiusmod", "tempor", "ut",      "labore",   "et",          "dolore",     "magna",   "aliqua",
    "enim",    "ad",      "minim",  "veniam",  "quis",     "nostrud",     "ullamco",    "laboris", "nisi",
    "aliquip", "ex",      "ea",     "commodo", "duis",     "aute",        "irure",      "in",      "velit",
    "esse",    "cillum",  "fugiat", "nulla",   "pariatur", "sint",        "occaecat",   "non",     "proident",
    "sunt",    "culpa",   "qui",    "officia", "mollit",   "anim",        "id",         "est",     "laborum",
};

/* A paragraph of n words: sentences of ten to twenty, commas every three to eight. */
static void put_paragraph(struct jinja_run *r, struct buf *b, int64_t n)
{
    int64_t  to_stop = 0, to_comma = 0;
    uint64_t last = ARRAY_LEN(words), pick;
    if (n <= 0)
        buf_putc(b, '.');
    for (int64_t i = 0; i < n && jinja_spend(r, 1) && !b->failed; i++) {
        bool first = to_stop == 0;
        if (first)
            to_stop = 10 + (int64_t)(jinja_random(r) % 10);
        if (to_comma == 0)
            to_comma = 3 + (int64_t)(jinja_random(r) % 5);
        do
            pick = jinja_random(r) % ARRAY_LEN(words);
        while (pick == last);
        last = pick;
        buf_puts(b, i ? " " : "");
        buf_putc(b, (char)(words[pick][0] - (first ? 'a' - 'A' : 0)));
        buf_puts(b, words[pick] + 1);
        bool comma = --to_comma == 0, stop = --to_stop == 0 || i + 1 == n;
        if (comma || stop)
            buf_putc(b, stop ? '.' : ',');
        to_comma = stop ? 0 : to_comma;
    }
}

struct value global_lipsum(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    int64_t n = jinja_arg_int(r, c->arg[0], 5), least = jinja_arg_int(r, c->arg[2], 20),
            most = jinja_arg_int(r, c->arg[3], 100);
    bool       html = c->arg[1].type == VALUE_ABSENT || value_truth(c->arg[1]);
    struct buf b;
    (void)self;
    if (n > 0 && least >= most)
        return jinja_fail(r, "empty range for randrange() (%lld, %lld)", (long long)least, (long long)most);
    if (n > PARAGRAPHS_MAX)
        return jinja_fail_limit(r, "10000 paragraphs of lipsum");
    jinja_buf_init(r, &b);
    for (int64_t i = 0; i < n && !b.failed && jinja_spend(r, 1); i++) {
        buf_puts(&b, i ? (html ? "\n" : "\n\n") : "");
        buf_puts(&b, html ? "<p>" : "");
        put_paragraph(r, &b, least + (int64_t)(jinja_random(r) % (uint64_t)(most - least)));
        buf_puts(&b, html ? "</p>" : "");
    }
    struct value v = jinja_take(r, &b);
    v.markup = html;
    return v;
}
