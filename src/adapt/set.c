/* Sets of adapters: what a sequence runs with. Contracts in adapt.h. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <xxhash.h>

#include "adapt/adapt_int.h"
#include "base/half.h"
#include "base/num.h"

struct set {
    struct adapter_set set; /* first: what the outside sees */
    atomic_int         refs;
    struct adapter   **held; /* [lora->n], in the set's order */
    struct lora_set   *lora;
};

static int compare(const void *pa, const void *pb)
{
    const struct adapter_use *a = pa, *b = pb;
    return adapter_order(a->adapter->info.hash, a->scale, b->adapter->info.hash, b->scale);
}

/* Whether pairs of both change one row of a weight; of a fused one they may have different parts. */
static bool share_rows(const struct lora_delta *x, const struct lora_delta *y)
{
    for (int i = 0; i < x->n_pair; i++)
        for (int k = 0; k < y->n_pair; k++)
            if (x->pair[i].row < y->pair[k].row + y->pair[k].n_out &&
                y->pair[k].row < x->pair[i].row + x->pair[i].n_out)
                return true;
    return false;
}

/* Two adapters that would both scale the same rows of a weight, or both take its place, or of which one scales rows, by
 * their norms, that the other replaces. */
static int check_two(const struct adapter *a, const struct adapter *b, struct error *e)
{
    for (size_t i = 0; i < a->n_delta; i++) {
        const struct lora_delta *x = &a->delta[i], *y = b->lora.delta[a->weight[i]->index];
        const char              *what = !y                                       ? NULL
                                        : x->dora && y->dora && share_rows(x, y) ? "both have DoRA on"
                                        : x->replace && y->replace               ? "both replace"
                                        : x->bias && y->bias                     ? "both replace the bias of"
                                        : x->dora && y->replace                  ? "have DoRA on, and replace,"
                                        : x->replace && y->dora                  ? "replace, and have DoRA on,"
                                                                                 : NULL;
        if (what)
            return error_set(e, ERR_INVALID, "lora", "adapters %s and %s %s %s: only one of them can be used at a time",
                             a->info.path, b->info.path, what, a->weight[i]->name);
    }
    return 0;
}

/* A use alone: its scale, also times those of the adapter's pairs, is a number. */
static int check_scale(const struct adapter_use *u, struct error *e)
{
    const struct adapter *a = u->adapter;
    if (!isfinite(u->scale))
        return error_set(e, ERR_INVALID, "lora", "the scale of adapter %s is %g, it must be finite", a->info.path,
                         (double)u->scale);
    if (!isfinite(u->scale * a->scale))
        return error_set(e, ERR_INVALID, "lora",
                         "the scale of adapter %s is %g, which times its own of %g is beyond float32", a->info.path,
                         (double)u->scale, (double)a->scale);
    return 0;
}

static int check(const struct adapter_use *use, int n, struct error *e)
{
    int64_t rank = 0;
    for (int i = 0; i < n; i++) {
        int err = check_scale(&use[i], e);
        if (err)
            return err;
        rank += use[i].scale != 0 ? use[i].adapter->lora.rank : 0;
    }
    if (rank > INT_MAX)
        return error_set(e, ERR_LIMIT, "lora", "the adapters of one set have rank %" PRId64 " together", rank);
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) {
            int err = use[i].scale != 0 && use[k].scale != 0 ? check_two(use[i].adapter, use[k].adapter, e) : 0;
            if (err)
                return err;
        }
    return 0;
}

/* The key of the sorted uses. */
static void make_key(struct adapter_set *s, const struct adapter_use *use, int n)
{
    XXH128_hash_t key = {0, 0};
    for (int i = 0; i < n; i++) {
        struct {
            uint64_t before[2], hash[2], scale;
        } link = {{key.high64, key.low64},
                  {use[i].adapter->info.hash[0], use[i].adapter->info.hash[1]},
                  f32_bits(use[i].scale)};
        key = XXH3_128bits(&link, sizeof link);
    }
    s->key[0] = key.high64;
    s->key[1] = key.low64 | (key.high64 == 0); /* 0, 0 is the base alone */
}

static void free_set(struct set *s)
{
    free(s->held);
    free(s->lora);
    free(s);
}

static struct set *make(const struct adapter_use *use, int n)
{
    struct set *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->held = calloc((size_t)n, sizeof *s->held);
    s->lora = calloc(1, sizeof *s->lora + (size_t)n * sizeof s->lora->use[0]);
    if (!s->held || !s->lora) {
        free_set(s);
        return NULL;
    }
    atomic_init(&s->refs, 1);
    s->set.lora = s->lora;
    s->lora->n = n;
    for (int i = 0; i < n; i++) {
        adapter_ref(use[i].adapter);
        s->held[i] = use[i].adapter;
        s->lora->use[i] = (struct lora_use){&use[i].adapter->lora, use[i].scale};
        s->lora->rank += use[i].adapter->lora.rank;
    }
    make_key(&s->set, use, n);
    return s;
}

int adapter_set_new(struct adapter_set **out, const struct adapter_use *use, int n, struct error *e)
{
    int err = check(use, n, e), kept = 0;
    *out = NULL;
    if (err)
        return err;
    struct adapter_use *sorted = calloc((size_t)MAX(n, 1), sizeof *sorted);
    if (!sorted)
        return error_nomem(e, "a set of adapters");
    for (int i = 0; i < n; i++)
        if (use[i].scale != 0)
            sorted[kept++] = use[i];
    qsort(sorted, (size_t)kept, sizeof *sorted, compare);
    struct set *s = kept ? make(sorted, kept) : NULL;
    free(sorted);
    if (kept && !s)
        return error_nomem(e, "a set of adapters");
    *out = s ? &s->set : NULL;
    return 0;
}

void adapter_set_ref(struct adapter_set *s)
{
    if (s)
        atomic_fetch_add_explicit(&((struct set *)s)->refs, 1, memory_order_relaxed);
}

void adapter_set_unref(struct adapter_set *s)
{
    struct set *own = (struct set *)s;
    if (!s || atomic_fetch_sub_explicit(&own->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < own->lora->n; i++)
        adapter_unref(own->held[i]);
    free_set(own);
}
