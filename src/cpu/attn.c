/* Attention of the CPU backend: divides a step into items for the pool and runs the kernels of attn.h.
 *
 * A block is a few consecutive rows of one sequence; with the query heads of one key/value head it shares every tile
 * that it reads. An item is (block, key/value head): it goes through all spans and merges them as it goes. When there
 * are fewer items than keep the threads evenly busy (decoding with few sequences), an item is (block, key/value head,
 * span): it leaves (m, l, o) in `partial`, and after a barrier the spans of each row and head are merged in the same
 * order. Items are claimed from a counter. Each row's float operations are the same whatever the division
 * (docs/order-law.md).
 */
#include "cpu/attn.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/kernels.h"

#define ITEMS_PER_THREAD 4            /* fewer: split by spans */
#define SERIAL_MAX 40000              /* multiply-adds below which waking the pool costs more than it saves */
#define PARTIAL_MAX ((size_t)8 << 20) /* floats */

struct rows_of_seq {
    int            row0, n_row;
    int64_t        pos0;  /* of the first row */
    const int32_t *keys;  /* of one row: its keys are those at these positions, pos0 + 1 of them; NULL: at 0 to pos0 */
    int            span0; /* first span that any row reads */
    int            n_span;
    int64_t        item0;    /* when split: the first item */
    size_t         partial0; /* when split: the first partial */
};

/* Scratch of one thread. */
struct worker {
    struct attn_block b;
    float            *M, *L, *O; /* merged spans */
    struct attn_tile  tile;
};

/* One allocation: this struct and then all arrays. */
struct scratch {
    struct rows_of_seq *blocks;  /* [lim.n_row] */
    struct worker      *workers; /* [threads] */
    int                 row_cap; /* rows of an attn_block */
    float              *partial; /* [partial_cap][v_dim + 2]: m, l, o */
    size_t              partial_cap;
};

struct job {
    const struct cpu  *cpu;
    const struct run  *run;
    const struct step *step;
    const struct attn *a;
    struct scratch    *scratch;
    struct tensor      q, y;
    const int32_t     *keys; /* [n_row][n_key]: see op attention_keys; NULL: all keys */
    int64_t            key_stride, n_key;
    int                group; /* query heads of a key/value head */
    int                n_block;
    bool               split;
    int64_t            n_item;
    _Atomic int64_t    next;
};

const struct attn_fns *attn_fns_for(enum cpu_level level)
{
    return KERNELS_FOR(attn, level);
}

static int64_t first_key(const struct attn *a, int64_t pos)
{
    int64_t window = a->window && pos >= a->window ? pos - a->window + 1 : 0;
    return a->chunk ? MAX(window, pos / a->chunk * a->chunk) : window;
}

static int clamp_key(int64_t j)
{
    return j < 0 ? 0 : j > KV_TILE ? KV_TILE : (int)j;
}

/* Adds the tile of keys [key, key + KV_TILE) to w->b; `next` is where the one after it begins, or key again. */
static void tile_compute(const struct job *j, struct worker *w, const struct rows_of_seq *rows, int h, int64_t key,
                         int64_t next)
{
    const struct kv_layer *kv = &j->a->kv;
    const struct row_fns  *fns = j->cpu->rows;
    struct attn_block     *b = &w->b;
    void *const           *pages = j->step->pages[j->step->seq[rows->row0]];
    if (kv->latent) {
        int64_t n = MIN(KV_TILE, rows->pos0 + rows->n_row - key);
        b->k_scale = b->v_scale = kv->elem_size == 1 ? w->tile.scale : NULL;
        j->cpu->attn->tile(b, w->tile.k, attn_latent_tile(fns, kv, pages, rows->keys, key, (int)n, &w->tile), 4);
        return;
    }
    void *k = kv_k_tile(kv, pages[key / kv->page_tokens], h, key),
         *v = kv_v_tile(kv, pages[key / kv->page_tokens], h, key);
    b->next_k = kv_k_tile(kv, pages[next / kv->page_tokens], h, next);
    b->next_v = kv_v_tile(kv, pages[next / kv->page_tokens], h, next);
    b->k_scale = kv_scales(kv, k, kv->head_dim);
    b->v_scale = kv_scales(kv, v, kv->v_dim);
    if (kv->elem_size == 4 || b->n <= j->cpu->attn->direct_rows) {
        j->cpu->attn->tile(b, k, v, kv->elem_size);
        return;
    }
    attn_widen(fns, kv->elem_size, k, w->tile.k, (size_t)KV_TILE * (size_t)kv->head_dim);
    attn_widen(fns, kv->elem_size, v, w->tile.v, (size_t)KV_TILE * (size_t)kv->v_dim);
    j->cpu->attn->tile(b, w->tile.k, w->tile.v, 4);
}

/* (m, l, o) of all rows of a block over one span, in w->b. */
static void span_compute(const struct job *j, struct worker *w, const struct rows_of_seq *rows, int h, int64_t span)
{
    const struct attn *a = j->a;
    struct attn_block *b = &w->b;
    int64_t            key = MAX(span * KV_SPAN, first_key(a, rows->pos0) / KV_TILE * KV_TILE);
    int64_t            end = MIN((span + 1) * KV_SPAN, rows->pos0 + rows->n_row);
    for (int i = 0; i < b->n; i++) {
        b->m[i] = -FLT_MAX;
        b->l[i] = 0;
    }
    memset(b->o, 0, (size_t)b->n * a->v_dim * sizeof(float));
    for (; key < end; key += KV_TILE) {
        for (int i = 0; i < b->n; i++) {
            int64_t pos = rows->pos0 + i / j->group;
            b->lo[i] = clamp_key(first_key(a, pos) - key);
            b->hi[i] = clamp_key(pos + 1 - key);
        }
        tile_compute(j, w, rows, h, key, key + KV_TILE < rows->pos0 + rows->n_row ? key + KV_TILE : key);
    }
}

/* What the queries at a position are multiplied with. */
static float query_scale(const struct attn *a, int64_t pos)
{
    return (float)(1 + (double)a->position_scale * log(1 + (double)(pos / a->position_unit)));
}

/* Fills the block with the queries of its rows. */
static void block_load(const struct job *j, struct worker *w, const struct rows_of_seq *rows, int h)
{
    int    dim = j->a->head_dim;
    size_t n = (size_t)j->group * dim; /* the heads of a group stand together */
    w->b.n = rows->n_row * j->group;
    w->b.head_dim = dim;
    w->b.v_dim = j->a->v_dim;
    w->b.v_stride = j->a->kv.latent ? dim : j->a->v_dim;
    w->b.scale = j->a->scale;
    w->b.softcap = j->a->softcap;
    for (int i = 0; i < rows->n_row; i++) {
        float *q = w->b.q + i * n, scale = j->a->position_scale != 0 ? query_scale(j->a, rows->pos0 + i) : 1;
        memcpy(q, tensor_row(j->q, rows->row0 + i) + h * n, n * sizeof(float));
        for (size_t k = 0; k < n && scale != 1; k++)
            q[k] *= scale;
    }
}

/* Adds one span of row i, whose spans begin with `first`, to the merged state. */
static void span_merge(const struct attn_fns *fns, float *M, float *L, float *O, bool first, float m, float l,
                       const float *o, int dim)
{
    if (first) {
        *M = m;
        *L = l;
        memcpy(O, o, dim * sizeof(float));
    } else {
        fns->merge(M, L, O, m, l, o, dim);
    }
}

/* Writes the output of a query head of row i of a block from its merged spans. */
static void head_finish(const struct job *j, const struct rows_of_seq *rows, int i, int head, float M, float L,
                        const float *O)
{
    const struct attn *a = j->a;
    const float       *sinks = NULL;
    if (a->sinks)
        sinks = lora_weight_of(run_lora(j->run, rows->row0 + i), a->sinks)->packed;
    j->cpu->attn->finish(M, L, O, sinks ? sinks + head : NULL,
                         tensor_row(j->y, rows->row0 + i) + (int64_t)head * a->v_dim, a->v_dim);
}

/* Item of a step that is not split: all spans of a block. */
static void item_whole(const struct job *j, struct worker *w, const struct rows_of_seq *rows, int h)
{
    const struct attn *a = j->a;
    int                dim = a->v_dim;
    block_load(j, w, rows, h);
    for (int64_t s = rows->span0; s < rows->span0 + rows->n_span; s++) {
        span_compute(j, w, rows, h, s);
        for (int i = 0; i < w->b.n; i++) {
            int64_t pos = rows->pos0 + i / j->group, first = first_key(a, pos) / KV_SPAN;
            if (s >= first && s <= pos / KV_SPAN)
                span_merge(j->cpu->attn, &w->M[i], &w->L[i], w->O + (int64_t)i * dim, s == first, w->b.m[i], w->b.l[i],
                           w->b.o + (int64_t)i * dim, dim);
        }
    }
    for (int i = 0; i < w->b.n; i++)
        head_finish(j, rows, i / j->group, h * j->group + i % j->group, w->M[i], w->L[i], w->O + (int64_t)i * dim);
}

static float *partial_at(const struct job *j, const struct rows_of_seq *rows, int64_t span, int h, int i)
{
    size_t k = (size_t)(span - rows->span0) * j->a->n_kv_head + h;
    return j->scratch->partial + (rows->partial0 + k * rows->n_row * j->group + i) * (size_t)(j->a->v_dim + 2);
}

/* Item of a split step: one span of a block. */
static void item_span(const struct job *j, struct worker *w, const struct rows_of_seq *rows, int h, int64_t span)
{
    int dim = j->a->v_dim;
    block_load(j, w, rows, h);
    span_compute(j, w, rows, h, span);
    for (int i = 0; i < w->b.n; i++) {
        float *p = partial_at(j, rows, span, h, i);
        p[0] = w->b.m[i];
        p[1] = w->b.l[i];
        memcpy(p + 2, w->b.o + (int64_t)i * dim, dim * sizeof(float));
    }
}

/* Merges the spans of one query head of one row of a block. */
static void row_merge(const struct job *j, struct worker *w, const struct rows_of_seq *rows, int row, int head)
{
    int     dim = j->a->v_dim, h = head / j->group, i = row * j->group + head % j->group;
    int64_t pos = rows->pos0 + row, first = first_key(j->a, pos) / KV_SPAN;
    for (int64_t s = first; s <= pos / KV_SPAN; s++) {
        const float *p = partial_at(j, rows, s, h, i);
        span_merge(j->cpu->attn, w->M, w->L, w->O, s == first, p[0], p[1], p + 2, dim);
    }
    head_finish(j, rows, row, head, w->M[0], w->L[0], w->O);
}

/* Merges the query heads of the step's rows. */
static void merge_part(void *arg, int member, int n)
{
    struct job *j = arg;
    int64_t     u, n_head = j->a->n_head;
    (void)n;
    while ((u = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->step->n_row * n_head) {
        const struct rows_of_seq *rows = j->scratch->blocks;
        for (; u >= rows->n_row * n_head; rows++)
            u -= rows->n_row * n_head;
        row_merge(j, &j->scratch->workers[member], rows, (int)(u / n_head), (int)(u % n_head));
    }
}

static void job_part(void *arg, int member, int n)
{
    struct job    *j = arg;
    struct worker *w = &j->scratch->workers[member];
    int            n_kv = j->a->n_kv_head;
    int64_t        i;
    (void)n;
    while ((i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->n_item) {
        if (!j->split) { /* late rows have most keys: they go first */
            item_whole(j, w, &j->scratch->blocks[j->n_block - 1 - i / n_kv], (int)(i % n_kv));
            continue;
        }
        const struct rows_of_seq *rows = j->scratch->blocks;
        while (i >= rows->item0 + (int64_t)rows->n_span * n_kv)
            rows++;
        i -= rows->item0;
        item_span(j, w, rows, (int)(i % n_kv), rows->span0 + i / n_kv);
    }
}

/* Cuts the step's rows into blocks of at most `most` rows. Returns the multiply-adds of the step. */
static int64_t blocks_make(struct job *j, int most)
{
    const struct step  *s = j->step;
    struct rows_of_seq *b = NULL;
    int64_t             work = 0;
    for (int i = 0; i < s->n_row; i++) {
        bool listed = j->keys && s->position[i] >= j->n_key;
        if (!b || b->n_row == most || listed || s->seq[i] != s->seq[i - 1] ||
            s->position[i] != s->position[i - 1] + 1) {
            b = &j->scratch->blocks[j->n_block++];
            *b = (struct rows_of_seq){.row0 = i, .pos0 = s->position[i]};
        }
        if (listed) {
            b->pos0 = j->n_key - 1;
            b->keys = j->keys + i * j->key_stride;
        }
        b->n_row++;
        work += b->pos0 + b->n_row - first_key(j->a, s->position[i]);
    }
    for (int k = 0; k < j->n_block; k++) {
        b = &j->scratch->blocks[k];
        b->span0 = (int)(first_key(j->a, b->pos0) / KV_SPAN);
        b->n_span = (int)((b->pos0 + b->n_row - 1) / KV_SPAN) - b->span0 + 1;
    }
    return work * j->a->n_head * (j->a->head_dim + j->a->v_dim);
}

/* Numbers the items by spans if that pays and the partials fit. */
static void split_plan(struct job *j, int threads)
{
    int64_t item = 0, n_kv = j->a->n_kv_head;
    size_t  partial = 0;
    j->n_item = j->n_block * n_kv;
    if (threads == 1 || j->n_item >= (int64_t)ITEMS_PER_THREAD * threads)
        return;
    for (int k = 0; k < j->n_block; k++) {
        struct rows_of_seq *b = &j->scratch->blocks[k];
        b->item0 = item;
        b->partial0 = partial;
        item += b->n_span * n_kv;
        partial += (size_t)b->n_span * b->n_row * j->a->n_head;
    }
    if (item == j->n_item || partial > j->scratch->partial_cap)
        return;
    j->n_item = item;
    j->split = true;
}

static void attend(struct run *r, const struct attn *a, struct tensor q, struct tensor keys, struct tensor y)
{
    struct cpu *c = (struct cpu *)r->backend;
    struct job  j = {.cpu = c, .run = r, .step = r->step, .a = a, .scratch = c->attn_scratch, .q = q, .y = y};
    j.keys = keys.data;
    j.key_stride = keys.stride;
    j.n_key = keys.n_col;
    int threads = pool_size(c->pool);
    j.group = a->n_head / a->n_kv_head;
    int     most = MAX(1, j.scratch->row_cap / j.group), least = (c->attn->direct_rows + j.group - 1) / j.group;
    int64_t even = (int64_t)r->step->n_row * a->n_kv_head / ((int64_t)ITEMS_PER_THREAD * threads);
    int64_t work = blocks_make(&j, (int)MIN(most, MAX(least, even)));
    bool    serial = work < SERIAL_MAX;
    split_plan(&j, serial ? 1 : threads);
    if (serial)
        job_part(&j, 0, 1);
    else
        pool_run_some(c->pool, job_part, &j);
    if (j.split) {
        atomic_store(&j.next, 0);
        pool_run_some(c->pool, merge_part, &j);
    }
}

static void cpu_attention(struct run *r, const struct attn *a, struct tensor q, struct tensor y)
{
    attend(r, a, q, (struct tensor){0}, y);
}

void attn_install(struct cpu *c)
{
    c->base.ops.attention = cpu_attention;
    c->base.ops.attention_keys = attend;
    c->base.ops.index_keys = attn_index_keys;
}

/* Lays out the scratch in one allocation at p; returns its bytes. */
static size_t scratch_layout(char *p, const struct run_limits *lim, int threads, bool *ok)
{
    size_t          at = 0, dim = lim->head_dim, rows = MAX(ATTN_ROWS, lim->n_head), partials, spans;
    struct scratch *s = memory_take(p, &at, 1, sizeof *s, ok), none;
    s = s ? s : &none;
    spans = (size_t)(lim->n_key + KV_SPAN - 1) / KV_SPAN;
    if (!num_mul(spans, (size_t)lim->n_head + 24 * threads, &partials)) /* split_plan: few blocks, few rows each */
        *ok = false;
    partials = MIN(partials, PARTIAL_MAX / (dim + 2));
    s->row_cap = (int)rows;
    s->partial_cap = threads > 1 ? partials : 0;
    s->blocks = memory_take(p, &at, lim->n_row, sizeof *s->blocks, ok);
    s->workers = memory_take(p, &at, threads, sizeof *s->workers, ok);
    s->partial = memory_take(p, &at, s->partial_cap, (dim + 2) * sizeof(float), ok);
    for (int i = 0; i < threads; i++) {
        struct worker none_worker, *w = s->workers ? &s->workers[i] : &none_worker;
        w->b.q = memory_take(p, &at, rows * dim, sizeof(float), ok);
        w->b.s = memory_take(p, &at, rows * KV_TILE, sizeof(float), ok);
        w->b.m = memory_take(p, &at, rows, sizeof(float), ok);
        w->b.l = memory_take(p, &at, rows, sizeof(float), ok);
        w->b.o = memory_take(p, &at, rows * dim, sizeof(float), ok);
        w->b.lo = memory_take(p, &at, rows, sizeof(int), ok);
        w->b.hi = memory_take(p, &at, rows, sizeof(int), ok);
        w->M = memory_take(p, &at, rows, sizeof(float), ok);
        w->L = memory_take(p, &at, rows, sizeof(float), ok);
        w->O = memory_take(p, &at, rows * dim, sizeof(float), ok);
        w->tile.k = memory_take(p, &at, KV_TILE * dim, sizeof(float), ok);
        w->tile.v = memory_take(p, &at, KV_TILE * dim, sizeof(float), ok);
    }
    return at;
}

int attn_reserve(struct cpu *c, struct error *e)
{
    bool   ok = true;
    int    threads = pool_size(c->pool);
    size_t bytes = scratch_layout(NULL, &c->lim, threads, &ok);
    char  *p = ok ? aligned_alloc(64, bytes) : NULL;
    if (!p)
        return error_nomem(e, "the scratch of attention");
    scratch_layout(p, &c->lim, threads, &ok);
    free(c->attn_scratch);
    c->attn_scratch = p;
    return 0;
}
