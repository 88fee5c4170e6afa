/* Where the planes of every parameter are in the files: under its own name, or as one of the description's rules says
 * (desc.h: layout_rule). Resolved once, by the binder; everything that concerns weights asks here and not the files. */
#ifndef MLXCEL_MODEL_LAYOUT_H
#define MLXCEL_MODEL_LAYOUT_H

#include "formats/checkpoint.h"
#include "model/desc.h"
#include "tensor/weight.h"

struct param;
struct params;

/* TILES: the scales of FP8 weights, .weight_scale_inv (quant.h: QUANT_FP8). NOTE: what the original's quantizers put beside
 * a weight and nobody needs: the shape of packed codes, the scale of activations. */
enum plane { PLANE_WEIGHT, PLANE_SCALES, PLANE_BIASES, PLANE_TILES, PLANE_NOTE, PLANES };

struct param_source {
    const char                *name; /* of the tensors, but for their suffix ('#' numbers them); NULL: in no file */
    const struct layout_rule  *rule; /* NULL: stored as the MLX layout has it */
    int                        n;    /* tensors of each plane: 1, or (apart) one for each matrix of a stack */
    bool                       apart;
    const struct tensor_view **plane[PLANES];  /* [n], NULL where one is missing; NULL: no such plane */
    const char                *suffix[PLANES]; /* of those planes */
    /* The matrices as they are stored, [n_row, n_col] each; a vector, or a bias of a stack's matrix, is one row. In one
     * tensor the i-th begins at row i * pitch + lead. */
    int64_t n_row, n_col, pitch, lead;
    /* Output o of the parameter's matrix is the output first + o * step of the stored one; those are its rows, or its columns
     * where it is transposed (as the rule says, but for mxfp4's _blocks, which never are). */
    bool         transposed;
    int64_t      first, step;
    struct quant quant; /* as stored; filled by binding, like the next two */
    enum dtype   dtype;
    /* The marker of a rule that would count if the files showed this to be the original layout; they show nothing, or both
     * (mixed). NULL: nothing is in doubt. */
    const char *unmarked;
    bool        mixed;
    bool        packed;    /* codes of 4 bits less 8, without biases: .weight_packed of compressed-tensors */
    bool        one_scale; /* FP8 with one scale for the whole matrix */
    bool        made;      /* the parameter's planes are not bytes of the files but made of them (planes.h) */
};

/* Fills p->source of every row. uses [checkpoint_count] counts for each tensor how many pieces of it were found to be
 * parameters' (LAYOUT_WHOLE: all of it). leftover: the first tensor that stands beside what it was made into, and how many
 * more. False when out of memory. */
#define LAYOUT_WHOLE 255
struct layout_leftover {
    const char *name, *param;
    size_t      n;
};
bool layout_resolve(struct params *p, const struct model_desc *m, const struct checkpoint *c, unsigned char *uses,
                    struct layout_leftover *leftover);

/* The tensor called name, or as the description's prefixes spell it; NULL. */
const struct tensor_view *layout_find(const struct model_desc *m, const struct checkpoint *c, const char *name);

/* The k-th name, k from 0, by which the description may know what a file or an adapter calls `name`: itself, then what its
 * prefixes make of it. Written to out when it is not `name`. NULL after the last. */
#define LAYOUT_NAME 512
const char *layout_spelling(const struct model_desc *m, const char *name, int k, char out[LAYOUT_NAME]);

/* The shape that a tensor of the row's plane .weight needs, stored dense; returns its dimensions. */
int layout_shape(const struct param *p, int64_t shape[4]);

/* Where the first rule for the row has it, "NAME.#.w1"; NULL when there is none. */
const char *layout_other_name(const struct model_desc *m, const struct param *p, char out[LAYOUT_NAME]);

/* The number of the layer that the name belongs to; -1: of none. */
int layout_layer(const struct model_desc *m, const char *name);

/* Whether a matrix's tensors may be called by its name and this, ".scales". */
bool layout_is_plane(const char *suffix);

/* How the row is stored, for people: "mlp.experts.#.up_proj", "mlp.gate_up_proj, part 1 of 2, transposed". False: as the MLX
 * layout has it. */
#define LAYOUT_TEXT (LAYOUT_NAME + 64 + TENSOR_SHAPE_TEXT)
bool layout_text(const struct param *p, char out[LAYOUT_TEXT]);

/* Whether its tensors are those of the MLX layout, names, shapes and all. */
bool layout_is_mlx(const struct param *p);

/* Whether a rule changes values. */
static inline bool layout_has_arithmetic(const struct layout_rule *rule)
{
    return rule->scale || rule->plus != 0;
}

/* The rule that changes the row's values, whatever layout its files have; NULL: none does. */
const struct layout_rule *layout_arithmetic(const struct model_desc *m, const struct param *p);

/* Whether the original model has the row's matrices as [.., in, out]. */
bool layout_is_transposed(const struct model_desc *m, const struct param *p);

/* n values of output o of the original model become those of the MLX layout. */
void layout_values(const struct layout_rule *rule, int64_t o, float *x, int64_t n);

/* The rule's factor of output o, and before which output it ends. */
float layout_factor(const struct layout_rule *rule, int64_t o, int64_t *end);

/* Declares the names of `from` as targets of adapters (target.h), each for the rows that are stored in it. Between
 * params_add and params_finish. */
void layout_targets(struct params *p, const struct model_desc *m);

#endif
