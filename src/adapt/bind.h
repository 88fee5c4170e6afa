/* Binding: every pair of an adapter's files found in a model's parameter table, checked against the layer's logical
 * shape (never packed widths or numbers of groups), and turned into matrices of one orientation.
 *
 * Behind this step a pair is delta W = scale * B A with A [rank, n_in] and B [n_out, rank], added to the rows
 * [row, row + n_out) of one bound weight, whatever layout the file has and however the model stores the parameter: a
 * fused projection gives a pair for each part, a stack of experts one for each expert. Orientation follows from the
 * layout and the parameter's role, never from which shape would fit, so that a square layer cannot be misread.
 *
 * Values. PEFT's files speak of the original model. Where the MLX layout stores something else (norms with their 1, matrices
 * times the model's factors), a pair has the factor of its outputs and a replaced parameter is changed likewise; the files
 * of mlx-lm speak of the MLX layout already.
 *
 * Embeddings. W is [V, D]; the pair of an embedding changes the lookup and, when the head is tied, the head, for
 * mlx-lm's adapters and for PEFT's alike: an adapter is a change of a parameter, so that run time and fused agree.
 * (PEFT itself differs from its own merge there: at run time it leaves a tied head alone.) A lm_head pair on a tied
 * head changes the head only. PEFT's pairs of both change each its own use; the same pair twice (ensure_weight_tying) is one.
 */
#ifndef MLXCEL_ADAPT_BIND_H
#define MLXCEL_ADAPT_BIND_H

#include "adapt/file.h"
#include "model/model.h"
#include "model/target.h"

/* A view of a matrix inside an adapter's tensor, at any address; strides in elements. */
struct adapter_matrix {
    const void *data;
    enum dtype  dtype; /* F32, F16, BF16 */
    int64_t     n_row, n_col;
    int64_t     row, col; /* from one to the next */
};
float adapter_matrix_at(const struct adapter_matrix *m, int64_t i, int64_t j);
void  adapter_matrix_row(const struct adapter_matrix *m, int64_t i, float *out); /* [n_col] */

/* What a module's name (ours, or one that a wrapper of the model has put a prefix to) means to the model. */
bool adapter_resolve(const struct model *m, const char *name, struct param_target *t);

/* Whether only a model can tell which way round the file's stacks are. */
bool adapter_stacks_need_model(const struct adapter_file *f);

/* A module's pair, one expert's (0 without a stack), as A [rank, inputs] and B [outputs, rank]; an embedding's inputs
 * are its features, its outputs its rows. */
void adapter_module_pair(const struct adapter_module *m, bool embedding, int64_t expert, struct adapter_matrix *a,
                         struct adapter_matrix *b);

/* delta weight[row + o][col + i] = scale * sum over j of b[o][j] a[j][i]. */
struct adapter_pair {
    const struct adapter_module *module;
    const struct param          *param;  /* the weight's row of the table */
    struct weight               *weight; /* one of param's: with a stack, the expert's */
    int64_t                      row, col;
    struct adapter_matrix        a, b; /* [rank, n_in - col at most], [n_out - row at most, rank] */
    unsigned                     uses; /* WEIGHT_LINEAR, WEIGHT_EMBED: where it acts */
    double                       scale;
    struct adapter_matrix        magnitude, extra; /* [b.n_row, 1], the module's; data NULL without */
};

/* A parameter that the adapter puts in the place of the model's. */
struct adapter_replaced {
    const struct param *param;  /* with `bias` the bias's own row of the table */
    struct weight      *weight; /* param's, or one of its stack */
    const char         *name;   /* of the tensor, as in the file */
    const void         *data; /* the file's or the binding's: as many elements as the weight, or with `bias` its bias */
    enum dtype          dtype;
    bool                bias; /* the weight's bias, not the weight */
};

/* How many values that is. The bias of a norm is as long as its row, not as it has rows. */
static inline int64_t adapter_replaced_size(const struct adapter_replaced *r)
{
    return r->bias ? r->param->shape[r->param->n_dim - 1] : r->weight->n_out * r->weight->n_in;
}

struct adapter_made; /* values that are not the file's */

struct adapter_binding {
    struct adapter_pair     *pair; /* by weight->index, then row, then the module's name */
    size_t                   n_pair;
    struct adapter_replaced *replaced; /* by weight->index */
    size_t                   n_replaced;
    struct adapter_made     *made;
    size_t                   n_aside; /* modules and parameters of layers that the model did not load */
};

/* Checks and binds all of f; what does not fit goes to *faults, with 0 returned, and is left out of *b. f (and m) must
 * outlive the binding. Settles which way round PEFT's stacks are (layout of f's modules) and
 * adds to f's warnings. Fails itself only for want of memory. m needs no backend; a model opened by headers alone serves
 * for checking. */
int  adapter_bind(struct adapter_binding *b, struct adapter_file *f, const struct model *m, struct faults *faults,
                  struct error *e);
void adapter_binding_deinit(struct adapter_binding *b); /* fine on a zeroed one */

#endif
