/* A step: the flat list of rows that one forward pass computes. Prefill chunks and decode rows of many sequences share one
 * step; a single request is a batch of one. All arrays live in the backend's memory. Rows of one sequence stand together,
 * in ascending positions without gaps. */
#ifndef MLXCEL_TENSOR_STEP_H
#define MLXCEL_TENSOR_STEP_H

#include <stdint.h>

struct lora_set;

struct step {
    int            n_row;
    const int32_t *token;    /* [n_row] */
    const int32_t *position; /* [n_row] absolute, from 0 */
    const int32_t *seq;      /* [n_row] index into pages */
    /* pages[s][p] is the page that holds positions [p * page_tokens, (p + 1) * page_tokens) of sequence s; pages up to the
     * last row's position exist. */
    void *const *const *pages;
    int                 n_seq;
    /* [n_seq] the recurrent state of each sequence, run_limits.n_state bytes: all zero before position 0, written by the
     * rows in their order. NULL where the model has none. */
    void *const *state;
    /* [n_seq] tokens of each sequence's prompt, fixed when it is admitted (order law g), for ropes that depend on it; NULL:
     * all short. */
    const int32_t *length;
    int            n_logit;
    const int32_t *logit_row; /* [n_logit] ascending rows whose logits are wanted */
    /* [n_seq] the adapters of each sequence's rows (tensor/lora.h), NULL for none; NULL when no sequence has any */
    const struct lora_set *const *lora;
};

#endif
