/* The planes of bound parameters in the form that operations and converters read, whatever form the files have.
 *
 * Mostly they are bytes of the files: a weight points to them. Where the original layout is another (layout.h) they are made
 * of the files', one matrix at a time, into memory: rows that take turns are put together as they are stored; what is
 * transposed, scaled or added to becomes dense. It keeps its stored type, except that float32 has what arithmetic made of it
 * and what was quantized. */
#ifndef MLXCEL_MODEL_PLANES_H
#define MLXCEL_MODEL_PLANES_H

#include "model/params.h"

/* How the planes of a row that is bound come about; fills p->quant, p->dtype, p->source.made and its weights' planes. */
void planes_bind(struct param *p);

/* Matrix i of p with planes to read; of a vector, a bias, or the biases of a stack (i = 0) one row of all values. *memory is
 * to be freed when they have been read; NULL where they are the files' own. */
int planes_open(const struct param *p, int i, struct weight *w, void **memory, struct error *e);
/* The values of a vector, or of the bias of matrix i. out [n of one]. */
void planes_vector(const struct param *p, int i, float *out);

/* Whether the planes of a bound row can be read: not where headers alone were. */
bool planes_are_there(const struct param *p);

/* Calls f for every tensor of a bound row. */
void planes_tensors(const struct param *p, void (*f)(const struct tensor_view *t));
/* Calls f for what matrix i of p has of every tensor. */
void planes_of_matrix(const struct param *p, int i, void (*f)(const struct tensor_view *t));

/* --- planes that a weight has instead of its own until they are dropped, the latest first --- */

/* w gets the planes of `planes`, which stand in `memory`, from now on the table's. */
int  params_hold(struct params *p, struct weight *w, const struct weight *planes, void *memory, struct error *e);
void params_drop(struct params *p); /* the latest */
void params_drop_all(struct params *p);

#endif
