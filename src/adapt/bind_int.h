/* What the files of adapt/bind.h share. */
#ifndef MLXCEL_ADAPT_BIND_INT_H
#define MLXCEL_ADAPT_BIND_INT_H

#include "adapt/bind.h"

struct adapter_binder {
    struct adapter_binding *b;
    struct adapter_file    *f;
    const struct model     *m;
    struct faults          *faults;
    size_t                  pair_cap, replaced_cap; /* of b's arrays */
    bool                    nomem;
};

/* How the original model's values of p, which PEFT's files hold, become the model's here; NULL: they are the same. */
static inline const struct layout_rule *adapter_arithmetic(const struct adapter_binder *b, const struct param *p)
{
    return b->f->format == ADAPTER_FORMAT_PEFT ? layout_arithmetic(&b->m->desc, p) : NULL;
}

/* Settles which way round all stacks of PEFT's are (bind_stack.c). */
void adapter_settle_stacks(struct adapter_binder *b);

/* Parts PEFT's pairs of an embedding and of its tied head; warns of an embedding without (bind_tied.c). Pairs are sorted. */
void adapter_part_tied(struct adapter_binder *b);
void adapter_warn_of_tied(struct adapter_binder *b);

static inline bool adapter_same_place(const struct adapter_pair *a, const struct adapter_pair *b)
{
    return a->weight == b->weight && a->row == b->row && a->col == b->col;
}

/* Frees what replaced parameters were made into. */
void adapter_free_made(struct adapter_binding *b);

/* The fault of a name that means nothing to the model; what tells the shape it was found with. */
void adapter_unclaimed(struct adapter_binder *b, const struct tensor_view *t, const char *name);

/* A tensor's name for a message that has named the module: without it, when it begins with it. */
const char *adapter_short_name(const struct tensor_view *t, const char *module);

/* Whether all that the name means is of layers that the model did not load: then it is counted and nobody's. */
bool adapter_set_aside(struct adapter_binder *b, const struct param_target *t);

/* Binds replaced parameters and judges copies (bind_param.c). */
void adapter_bind_replaced(struct adapter_binder *b, const struct adapter_param *p);
void adapter_bind_copy(struct adapter_binder *b, const struct adapter_param *p);

/* Whether files may be without the parameter, and these are. */
static inline bool adapter_is_absent(const struct adapter_binder *b, const struct param *p)
{
    return p->optional && !p->bytes && p->layer >= b->m->lo && p->layer < b->m->hi;
}

/* Whether the segment's parameter is bound: layers that the model did not load are not. */
static inline bool adapter_is_loaded(const struct param_segment *s)
{
    return s->param->bytes != 0;
}

#endif
