/* Fused adapters: the weights themselves are changed, once, at load or in a rewritten model.
 *
 *     delta = (s B) A                 in float32: products and sums rounded one by one, over the rank ascending, then
 *                                     the next adapter's on top (what mlx's matrix product computes for one of them)
 *     W'    = T(W + T(delta))         T: rounded to the type of the base's weight, to nearest, ties to even; the sum in
 *                                     float32 first. The fused weight keeps the base's type and bytes.
 *     DoRA  W1 = T(W + T(delta)), W' = T((m / |W1|) W1), |.| of rows, before other adapters are added. mlx-lm computes
 *           the norm in type T and keeps float32; here the norm is exact and the base's type stays.
 *     replaced parameters: rounded to the base's type. A pair's own bias: b' = T(b + T(s extra)).
 *
 * s is the adapter's scale times the user's. Adapters count in order of their contents' hash, then scale, whatever
 * order they are given in; scale 0 leaves one out.
 *
 * Refused by name, before anything is changed: quantized matrices where the user did not ask to decode them; the head's
 * or the lookup's part alone of a tied matrix; two DoRAs on a row, two replacements of a parameter, DoRA of one
 * adapter on what another replaces; a bias for a layer that has none; scales beyond float32. A fused value beyond the
 * range of float16 is refused when it is met.
 */
#ifndef MLXCEL_ADAPT_FUSE_H
#define MLXCEL_ADAPT_FUSE_H

#include "base/log.h"
#include "model/change.h"

struct fuse;

struct fuse_adapter {
    const char *path;
    double      scale; /* the user's factor */
};

struct fuse_options {
    const struct fuse_adapter *adapter;
    size_t                     n;
    bool                       decode;  /* whoever takes the rows decodes quantized matrices; else they are refused */
    int                        threads; /* 0: all */
    const char       *remedy; /* what else can be done about a quantized matrix, behind "with --lora"; or NULL */
    const struct log *log;    /* of warnings */
};

/* The files are opened, and all faults reported, when the change begins. Adapters and log are borrowed until then. */
int                        fuse_new(struct fuse **out, const struct fuse_options *o, struct error *e);
const struct param_change *fuse_change(const struct fuse *f); /* as long as f */
void                       fuse_free(struct fuse *f);         /* NULL is fine; a model that was loaded with it stays */

#endif
