/* See wordlevel.h. */
#include "text/wordlevel.h"

#include "base/num.h"

void wordlevel_init(struct wordlevel *m, const struct vocab *vocab)
{
    *m = (struct wordlevel){.vocab = vocab, .unk_id = -1};
}

int wordlevel_encode(const struct wordlevel *m, struct str piece, struct ids *out, struct error *e)
{
    int32_t id = vocab_find(m->vocab, piece);
    if (id < 0)
        id = m->unk_id;
    if (id < 0)
        return error_set(e, ERR_INVALID, NULL, "the vocabulary has no token for '%.*s' and lacks the unk_token too",
                         (int)MIN(piece.n, (size_t)100), piece.p);
    return ids_push(out, id) ? 0 : error_nomem(e, "token ids");
}
