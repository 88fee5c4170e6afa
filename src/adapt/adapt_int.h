/* A loaded adapter, as load.c, values.c, dora.c and set.c see it. */
#ifndef MLXCEL_ADAPT_ADAPT_INT_H
#define MLXCEL_ADAPT_ADAPT_INT_H

#include <stdatomic.h>

#include "adapt/adapt.h"
#include "adapt/bind.h"

/* Memory for what is large, one mapping that is handed out piece by piece, each aligned to 64 bytes and zero. Without
 * memory (p NULL) what is taken is counted and NULL. */
struct adapter_values {
    char  *p;
    size_t used;
    bool   overflow;
    void  *mapping;
    size_t mapped;
};
void *adapter_values_take(struct adapter_values *v, int64_t n, int64_t m, size_t size); /* n * m elements */
/* Gets memory for what has been counted, and begins anew. */
int  adapter_values_alloc(struct adapter_values *v, struct error *e);
void adapter_values_free(struct adapter_values *v);

/* Takes room for one pair and, where there is memory, fills it: the layouts of lora.h. */
void adapter_place_pair(struct adapter_values *v, const struct adapter_pair *p, struct lora_pair *out);

/* Fills v: m, ww, wd, dd of lora_dora, each [base->n_out], from the pairs of one weight, of which `base` has the
 * values. ERR_MISFIT when a norm is not finite. */
int adapter_dora_fill(const struct weight *base, const struct adapter_pair *pair, size_t n, float *v[4],
                      struct error *e);

struct adapter {
    struct lora           lora;
    struct adapter_info   info;
    struct lora_delta    *delta;  /* [n_delta]: what lora.delta points to */
    const struct weight **weight; /* [n_delta]: the model's, by index */
    size_t                n_delta;
    float                 scale; /* the greatest of its pairs, without its sign */
    struct adapter_values values;
    struct weight        *replaced; /* [n_replaced], packed by backend */
    size_t                n_replaced;
    struct backend       *backend;
    struct arena          arena; /* the table, its parts and texts */
    atomic_int            refs;
};

#endif
