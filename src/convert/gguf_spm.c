/* Merges for a SentencePiece vocabulary in a GGUF file, which has a score for each token. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "convert/import.h"
#include "text/merges.h"
#include "text/spm.h"

#define MERGES_BYTES_MAX (64 << 20)

static int read_scores(const struct gguf *g, int64_t n, float *scores, struct error *e)
{
    const char       *key = "tokenizer.ggml.scores";
    struct gguf_array list;
    int               status = gguf_get_array(g, key, GGUF_KIND_NUM, &list, e);
    if (status)
        return status;
    if (list.left != (uint64_t)n)
        return error_set(e, ERR_MISFIT, key, "%s: %s has %" PRIu64 " elements, tokenizer.ggml.tokens %" PRId64,
                         gguf_name(g), key, list.left, n);
    for (int64_t i = 0; i < n; i++) {
        scores[i] = (float)gguf_next_num(&list);
        if (!isfinite(scores[i]))
            return error_set(e, ERR_FORMAT, key, "%s: element %" PRId64 " of %s is not a finite number", gguf_name(g),
                             i, key);
    }
    return 0;
}

static int put_merges(const struct vocab *vocab, const struct merges *list, json_t *out, struct error *e)
{
    size_t bytes = 0;
    for (size_t i = 0; i < list->n; i++) {
        struct str a = vocab_text(vocab, list->v[i].left), b = vocab_text(vocab, list->v[i].right);
        bytes += a.n + b.n;
        if (i == IMPORT_MERGES_MAX || bytes > MERGES_BYTES_MAX)
            return error_set(e, ERR_LIMIT, NULL, "the vocabulary implies more than %d merges or %d bytes of them",
                             IMPORT_MERGES_MAX, MERGES_BYTES_MAX);
        if (json_array_append_new(out, json_pack("[s# s#]", a.p, (int)a.n, b.p, (int)b.n)))
            return error_nomem(e, "the merges");
    }
    return 0;
}

/* The tokens that take part: normal ones of a length that merges of real vocabularies have. */
static bool takes_part(struct str token, uint8_t type)
{
    return type == SPM_NORMAL && token.n && token.n <= SPM_PIECE_MAX;
}

int import_spm_merges(const struct gguf *g, const struct str *tokens, const uint8_t *types, int64_t n, json_t *merges,
                      struct error *e)
{
    float        *scores = calloc((size_t)n + 1, sizeof *scores);
    uint8_t      *usable = calloc((size_t)n + 1, 1);
    struct merges list = {0};
    struct vocab  vocab;
    int           status = scores && usable ? read_scores(g, n, scores, e) : error_nomem(e, "the merges");
    vocab_init(&vocab);
    for (int64_t i = 0; i < n && !status; i++) {
        usable[i] = takes_part(tokens[i], types[i]);
        if (usable[i] && !vocab_put(&vocab, (int32_t)i, tokens[i]))
            status = error_nomem(e, "the merges");
    }
    if (!status && !vocab_index(&vocab, NULL))
        status = error_nomem(e, "the merges");
    if (!status)
        status = merges_derive_by_score(&list, &vocab, scores, usable, e);
    if (!status)
        status = put_merges(&vocab, &list, merges, e);
    if (status == ERR_LIMIT)
        error_prefix(e, "%s", gguf_name(g));
    merges_deinit(&list);
    vocab_deinit(&vocab);
    free(scores);
    free(usable);
    return status;
}
