/* See wordpiece.h. Each token is one walk down the tree of them, so that long words take no longer than many short ones. */
#include "text/wordpiece.h"

#include "base/num.h"
#include "base/utf8.h"

void wordpiece_init(struct wordpiece *m, const struct vocab *vocab)
{
    *m = (struct wordpiece){.vocab = vocab, .prefix = STR("##"), .max_chars = 100, .unk_id = -1};
}

void wordpiece_deinit(struct wordpiece *m)
{
    trie_deinit(&m->tokens);
}

int wordpiece_index(struct wordpiece *m, struct error *e)
{
    int status = trie_index(&m->tokens, m->vocab, e);
    m->inside = 0;
    for (size_t i = 0; i < m->prefix.n && !status; i++)
        if ((m->inside = trie_child(&m->tokens, m->inside, (uint8_t)m->prefix.p[i])) == 0)
            break;
    return status;
}

static int unknown(const struct wordpiece *m, struct str piece, struct ids *out, struct error *e)
{
    if (m->unk_id < 0)
        return error_set(e, ERR_INVALID, NULL, "the vocabulary has no token for '%.*s' and lacks the unk_token too",
                         (int)MIN(piece.n, (size_t)100), piece.p);
    return ids_push(out, m->unk_id) ? 0 : error_nomem(e, "token ids");
}

/* The longest token that continues from a node of the tree with the beginning of a text. Sets *id, -1 if there is none;
 * returns how many bytes of the text it has, at least one. */
static size_t longest(const struct wordpiece *m, uint32_t node, struct str text, int32_t *id)
{
    size_t len = 0;
    *id = -1;
    for (size_t i = 0; i < text.n && (node = trie_child(&m->tokens, node, (uint8_t)text.p[i])) != 0; i++)
        if (m->tokens.v[node].id >= 0) {
            *id = m->tokens.v[node].id;
            len = i + 1;
        }
    return len;
}

int wordpiece_encode(const struct wordpiece *m, struct str piece, struct ids *out, struct error *e)
{
    size_t before = out->n;
    if (utf8_count(piece.p, piece.n) > m->max_chars)
        return unknown(m, piece, out, e);
    for (size_t start = 0; start < piece.n;) {
        int32_t id = -1;
        if (!start || m->inside || !m->prefix.n)
            start += longest(m, start ? m->inside : 0, (struct str){piece.p + start, piece.n - start}, &id);
        if (id < 0) {
            out->n = before;
            return unknown(m, piece, out, e);
        }
        if (!ids_push(out, id))
            return error_nomem(e, "token ids");
    }
    return 0;
}
