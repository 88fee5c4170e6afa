/* See wordpiece.h. A token cannot be longer than the longest of the vocabulary, which bounds the work on long words. */
#include "text/wordpiece.h"

#include "base/num.h"
#include "base/utf8.h"

void wordpiece_init(struct wordpiece *m, const struct vocab *vocab)
{
    *m = (struct wordpiece){.vocab = vocab, .prefix = STR("##"), .max_chars = 100, .unk_id = -1};
}

static int unknown(const struct wordpiece *m, struct str piece, struct ids *out, struct error *e)
{
    if (m->unk_id < 0)
        return error_set(e, ERR_INVALID, NULL, "the vocabulary has no token for '%.*s' and lacks the unk_token too",
                         (int)MIN(piece.n, (size_t)100), piece.p);
    return ids_push(out, m->unk_id) ? 0 : error_nomem(e, "token ids");
}

/* The longest token that the text has at its beginning, after its first `fixed` bytes, which belong to every token.
 * Sets *id, -1 if there is none; returns its length. */
static size_t longest(const struct wordpiece *m, struct str text, size_t fixed, int32_t *id)
{
    size_t n = text.n;
    if (n > m->vocab->longest)
        for (n = m->vocab->longest; n > fixed && ((unsigned char)text.p[n] & 0xc0) == 0x80;)
            n--;
    *id = -1;
    while (n > fixed && (*id = vocab_find(m->vocab, (struct str){text.p, n})) < 0)
        for (n--; n > fixed && ((unsigned char)text.p[n] & 0xc0) == 0x80;)
            n--;
    return n;
}

/* The word is copied behind room for the prefix, which is then written over what is done. */
int wordpiece_encode(const struct wordpiece *m, struct str piece, struct buf *word, struct ids *out, struct error *e)
{
    size_t before = out->n;
    if (utf8_count(piece.p, piece.n) > m->max_chars)
        return unknown(m, piece, out, e);
    buf_clear(word);
    buf_put(word, m->prefix.p, m->prefix.n);
    buf_put(word, piece.p, piece.n);
    if (word->failed)
        return error_nomem(e, "a long text");
    for (size_t start = 0, fixed, len; start < piece.n; start += len - fixed) {
        int32_t id;
        char   *at = word->p + start;
        fixed = start ? m->prefix.n : 0;
        if (start)
            memcpy(at, m->prefix.p, m->prefix.n);
        else
            at += m->prefix.n;
        len = longest(m, (struct str){at, fixed + piece.n - start}, fixed, &id);
        if (id < 0) {
            out->n = before;
            return unknown(m, piece, out, e);
        }
        if (!ids_push(out, id))
            return error_nomem(e, "token ids");
    }
    return 0;
}
