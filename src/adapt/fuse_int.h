/* What the files of fused adapters share. Private to src/adapt. */
#ifndef MLXCEL_ADAPT_FUSE_INT_H
#define MLXCEL_ADAPT_FUSE_INT_H

#include "adapt/bind.h"
#include "adapt/fuse.h"

enum fuse_kind { FUSE_REPLACE, FUSE_DORA, FUSE_PAIR, FUSE_EXTRA };

/* One thing that one adapter changes about one parameter. */
struct fuse_term {
    const struct param            *param; /* FUSE_EXTRA: the bias */
    enum fuse_kind                 kind;
    size_t                         adapter; /* its place in the order */
    float                          scale;
    const struct adapter_pair     *pair;     /* but FUSE_REPLACE */
    const struct adapter_replaced *replaced; /* FUSE_REPLACE */
    /* What it changes: rows of the parameter; elements, counted through, of FUSE_REPLACE and FUSE_EXTRA. */
    int64_t first, n;
    float  *a; /* of a pair while its parameter is open: tiles [inputs / 16][rank][16] of A */
};

struct fuse_source {
    struct adapter_file   *file;
    struct adapter_binding binding;
    float                  scale; /* the user's */
    bool                   good;  /* the file was read without a fault */
};

struct fuse {
    struct param_change change;
    struct fuse_options o;
    struct fuse_source *source; /* [o.n], in the order that counts */
    struct fuse_term   *term;   /* by parameter, kind, adapter */
    size_t              n_term, cap_term;
    struct fuse_term   *open; /* of the open parameter, n_open of them */
    size_t              n_open;
};

/* fuse_rows.c: struct param_change's functions but begin, over f->term. */
struct fuse_term *fuse_terms(const struct fuse *f, const struct param *p, size_t *n); /* NULL: none */
int               fuse_open(void *ctx, const struct param *p, struct error *e);
void              fuse_close(void *ctx);
int fuse_rows(const void *ctx, const struct param *p, int64_t first, int64_t n, enum dtype dtype, float *values,
              struct error *e);

#endif
