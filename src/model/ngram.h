/* Embeddings of n-grams beside those of tokens (LongCat, 2025): of the n-gram that ends with a token, hashed into several
 * tables,
 *
 *     x = (embed(t) + sum over tables e of post_proj_e(embedder_e(id_e))) / (1 + tables)
 *
 * with n = 2 for the first emb_split_num tables, 3 for the next, ... (tensor/ops.h: ngram_ids). The tokens before are a
 * recurrent state. */
#ifndef MLXCEL_MODEL_NGRAM_H
#define MLXCEL_MODEL_NGRAM_H

#include "model/block.h"

/* Declares the tables of a description that has them: m->ngram. False when out of memory. */
bool ngram_declare(struct model *m, const struct declare *k);
/* Columns of scratch that ngram_embed takes. */
int64_t ngram_scratch(const struct model_desc *d);
/* x, the embeddings of the step's tokens, becomes what is above. */
void ngram_embed(const struct model *m, struct run *r, struct activations *a, struct tensor x);

#endif
