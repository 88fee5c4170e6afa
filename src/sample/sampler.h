/* Draws the next token from a row of logits, by the request's parameters (struct mlxcel_params of mlxcel.h).
 *
 * The order is llama-server's: logit bias, penalties, top-k, top-p, min-p, temperature, draw. Everything is
 * deterministic: equal logits order by token id, sums are double and in fixed order, and the random number is a pure
 * function of (seed, choice, index), so the tokens do not depend on what else is in the batch.
 */
#ifndef MLXCEL_SAMPLE_SAMPLER_H
#define MLXCEL_SAMPLE_SAMPLER_H

#include "base/error.h"
#include "mlxcel.h"

#define SAMPLER_PROBS_MAX 20

/* Of one sequence: a copy of the parameters and the scratch memory, so that sampler_pick does not allocate. */
struct sampler;

/* ERR_INVALID names the field (also in e->param) whose value is out of range: temperature not finite or below 0, top_k
 * < 0, top_p or min_p outside 0..1, penalties not finite or repetition_penalty < 0,
 * penalty_window < -1, n_probs outside -1..20, choice < 0, a biased id outside the vocabulary, a bias that is neither
 * finite nor -infinity. */
int  sampler_new(struct sampler **out, const struct mlxcel_params *p, int n_vocab, struct error *e);
void sampler_free(struct sampler *s); /* NULL is fine */

struct sample {
    int32_t                   token;
    struct mlxcel_prob        prob; /* of token; set when n_probs >= 0 */
    const struct mlxcel_prob *top;  /* the n_top most likely, descending; good until the next pick */
    int                       n_top;
};

/* logits: [n_vocab], unchanged on return. history: the tokens of prompt and answer so far, of which penalties see the
 * last penalty_window; index: of this token in the answer. Each filter works on what the one before it left,
 * renormalised. Log-probabilities are those of the raw logits. A NaN counts as -infinity. Returns non-zero, with no
 * token, when nothing is left to draw: every logit is NaN, -infinity or banned. */
int sampler_pick(struct sampler *s, float *logits, const int32_t *history, size_t n_history, uint64_t index,
                 struct sample *out);

#endif
