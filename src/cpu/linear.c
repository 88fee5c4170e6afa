/* The linear operations of the CPU backend: embed, linear, linear_many, linear_act_mul.
 *
 * One operation is one run of the pool. Its work is a list of items, one per tile of 16 outputs and chunk of rows,
 * split evenly over the threads:
 *
 *   one row (decode)   every thread quantizes or rounds the row for itself, which is cheaper than waiting for another to do it,
 *                      and streams its tiles from memory once
 *   few rows           the threads convert shares of the rows, meet, and take items; a tile comes from memory while the
 *                      first rows are computed and is in the cache for the next ones
 *   many rows          likewise, but an item unpacks its tile a panel of inputs at a time and uses it for all rows of the
 *                      chunk, whose quantized form stays in the L2 cache
 *
 * Where the step has adapters, the threads also share their products with A before they meet (with one row, too), and each
 * tile is finished by lora_tiles; a tile of a weight that an adapter replaces is computed by runs of rows.
 *
 * Which rows, tiles and threads meet never changes an element's sequence of operations (docs/order-law.md).
 */
#include "cpu/linear_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/rows.h"

#define CHUNK_MIN 16 /* a multiple of LINEAR_GROUP */
#define ROWS_AHEAD                                                                                                     \
    8 /* whose lines are asked for while results are written: rows are far apart, often in the same cache set */
#define CHUNK_BYTES (192 << 10) /* of activations that one chunk of rows may take: about half of an L2 cache */
#define ITEMS_PER_THREAD 4      /* aim of the chunking, so that the threads finish together */

const struct linear_fns *linear_fns_for(enum cpu_level level)
{
#if defined(__x86_64__)
    if (level >= CPU_AVX512VNNI)
        return &linear_avx512vnni;
    if (level >= CPU_AVX512)
        return &linear_avx512;
    if (level >= CPU_AVX2)
        return &linear_avx2;
#elif defined(__aarch64__)
    if (level >= CPU_NEONDOT)
        return &linear_neondot;
    if (level >= CPU_NEON)
        return &linear_neon;
#endif
    (void)level;
    return &linear_scalar;
}

const struct bf16_fns *bf16_fns_for(enum cpu_level level, enum precision p)
{
#if defined(__x86_64__)
    if (level >= CPU_AVX512BF16 && p == PRECISION_DEFAULT)
        return &linear_bf16;
#endif
    (void)level;
    (void)p;
    return NULL;
}

_Static_assert(CHUNK_MIN % LINEAR_GROUP == 0 && LINEAR_ROWS % CHUNK_MIN == 0, "a chunk begins a group");

/* --- scratch --------------------------------------------------------------------------------------------------------
 */

struct scratch { /* of one thread */
    struct panel  panel;
    struct chains chains[LINEAR_ROWS * LINEAR_GEMV_TILES]; /* [rows][tiles side by side] */
};

/* Rows that must have room: whole groups of a step's, or one for every thread when the step has one row. */
static int64_t rows_most(const struct cpu *c)
{
    return MAX((c->lim.n_row + LINEAR_GROUP - 1) / LINEAR_GROUP * LINEAR_GROUP, pool_size(c->pool));
}

static int terms_of(const struct cpu *c)
{
    return c->precision == PRECISION_HIGH ? 2 : 1;
}

/* qblocks of a group of rows, whole cache lines. */
static int64_t group_blocks(const struct cpu *c, int64_t n_in, int group)
{
    return (linear_blocks(n_in) * terms_of(c) * group + 3) / 4 * 4;
}

static int64_t bf16_stride(const struct cpu *c, int64_t n_in)
{
    return c->bf16 ? (n_in + 31) / 32 * 32 : 0; /* whole cache lines */
}

bool linear_acts_size(const struct cpu *c, int64_t rows, int64_t n_in, size_t *size)
{
    return n_in <= INT64_MAX / 256 && num_mul((size_t)rows,
                                              (size_t)group_blocks(c, n_in, 1) * sizeof(struct qblock) +
                                                  (size_t)bf16_stride(c, n_in) * sizeof(uint16_t),
                                              size);
}

struct acts linear_acts(const struct cpu *c, void *memory, int64_t rows, int64_t n_in, int group)
{
    struct acts a = {.n_in = n_in, .terms = terms_of(c), .group = group, .group_stride = group_blocks(c, n_in, group)};
    a.blocks = linear_blocks(n_in) * a.terms;
    a.bf16 = memory;
    a.bf16_stride = bf16_stride(c, n_in);
    a.base = (struct qblock *)(void *)(a.bf16 + rows * a.bf16_stride);
    return a;
}

int linear_reserve(struct cpu *c, struct error *e)
{
    size_t size = 0, threads = (size_t)pool_size(c->pool);
    if (!linear_acts_size(c, rows_most(c), c->lim.n_in, &size) ||
        !num_add(size, threads * sizeof(struct scratch), &size))
        return error_set(e, ERR_LIMIT, NULL, "steps of %" PRId64 " rows are too large for this machine", c->lim.n_row);
    void *scratch = aligned_alloc(64, size);
    if (!scratch)
        return error_nomem(e, "the scratch of matrix products");
    free(c->linear_scratch);
    c->linear_scratch = scratch;
    return 0;
}

/* --- jobs: contracts in linear_job.h --------------------------------------------------------------------------------
 */

static const struct packed *packed_of(const struct weight *w)
{
    return w->packed;
}

/* The place of a tile in rows from `row` on of product k. What adapters add goes before the bias. */
static struct tile_out out_of(const struct linear_job *j, int k, int64_t tile, int64_t row)
{
    const struct weight *w = j->w[k];
    int64_t              o = tile * LINEAR_TILE;
    return (struct tile_out){.y = tensor_row(j->y[k], row) + o,
                             .stride = j->y[k].stride,
                             .bias = w->bias && !j->lora.touched[k] ? w->bias + o : NULL,
                             .n = (int)MIN(w->n_out - o, LINEAR_TILE)};
}

/* Writes rows row .. row + n - 1 of n_tile tiles of a float product, whose sums are c[n][n_tile]. */
static void finish(const struct linear_job *j, int k, int64_t tile, int n_tile, int64_t row, int64_t n,
                   const struct chains *c)
{
    for (int t = 0; t < n_tile; t++) {
        struct tile_out out = out_of(j, k, tile + t, row);
        for (int64_t r = 0; r < n; r++, out.y += out.stride) {
            const float *sum = c[r * n_tile + t].a;
            if (r + ROWS_AHEAD < n)
                __builtin_prefetch(out.y + ROWS_AHEAD * out.stride, 1);
            for (int o = 0; o < out.n; o++)
                out.y[o] = out.bias ? sum[o] + out.bias[o] : sum[o];
        }
    }
}

static struct chains *zeroed(struct chains *c, int64_t n)
{
    return memset(c, 0, (size_t)n * sizeof *c);
}

/* Tiles of product k, with the weight in the form p. n_tile: as side_by_side says; record: of the row. */
static void one_row(const struct linear_job *j, int k, const struct packed *p, int64_t tile, int n_tile, int record,
                    struct chains *c)
{
    const struct linear_fns *f = j->cpu->linear;
    const unsigned char     *data = packed_tile(p, tile);
    if (packed_is_integer(p)) {
        for (int t = 0; t < n_tile; t++, data += p->tile_size) {
            struct tile_out out = out_of(j, k, tile + t, 0);
            f->stream(p, data, &j->acts, record, 1, &out);
        }
        return;
    }
    if (p->form == LINEAR_DENSE)
        f->dense_gemv(p, data, n_tile, tensor_row(j->x, 0), c);
    else
        j->cpu->bf16->product(p, data, n_tile, 0, linear_pairs(p->n_in), &j->acts, record, 1, zeroed(c, n_tile));
    finish(j, k, tile, n_tile, 0, 1, c);
}

/* All inputs of n_tile tiles of a float product for rows row .. row + n - 1, a panel of inputs at a time. */
static void float_rows(const struct linear_job *j, const struct packed *p, const unsigned char *data, int n_tile,
                       int64_t row, int64_t n, struct chains *c)
{
    bool    dense = p->form == LINEAR_DENSE;
    int64_t units = dense ? p->n_in : linear_pairs(p->n_in), panel = dense ? LINEAR_PANEL_K : LINEAR_PANEL_PAIRS;
    zeroed(c, n * n_tile);
    for (int64_t u = 0; u < units; u += panel) {
        int64_t m = MIN(units - u, panel);
        if (dense)
            j->cpu->linear->dense(p, data, u, m, tensor_row(j->x, row), j->x.stride, n, c);
        else
            j->cpu->bf16->product(p, data, n_tile, u, m, &j->acts, row, n, c);
    }
}

/* A tile of integer codes for rows row .. row + n - 1, the first of which begins a group: adapters, whose runs of rows begin
 * anywhere, replace dense weights only. */
static void integer_rows(const struct linear_job *j, const struct packed *p, const unsigned char *data, int64_t row,
                         int64_t n, struct scratch *s, struct tile_out *out)
{
    const struct linear_fns *f = j->cpu->linear;
    int64_t                  few = n <= LINEAR_STREAM ? n : n % f->gemm_rows, many = n - few;
    int64_t                  blocks = linear_blocks(p->n_in);
    for (int64_t b = 0; many && b < blocks; b += LINEAR_PANEL) {
        int64_t m = MIN(blocks - b, LINEAR_PANEL);
        f->unpack(p, data, b, m, &s->panel);
        f->gemm(p, &s->panel, b, m, &j->acts, row, many, s->chains, out);
    }
    out->y += many * out->stride;
    if (few)
        f->stream(p, data, &j->acts, row + many, few, out);
}

static void many_rows(const struct linear_job *j, int k, const struct packed *p, int64_t tile, int n_tile, int64_t row,
                      int64_t n, struct scratch *s)
{
    int together = p->form == LINEAR_BF16 ? n_tile : 1;
    for (int64_t t = tile; t < tile + n_tile; t += together) {
        if (packed_is_integer(p)) {
            struct tile_out out = out_of(j, k, t, row);
            integer_rows(j, p, packed_tile(p, t), row, n, s, &out);
            continue;
        }
        float_rows(j, p, packed_tile(p, t), together, row, n, s->chains);
        finish(j, k, t, together, row, n, s->chains);
    }
}

/* n_tile tiles of product k for rows row .. row + n - 1. */
static void product(const struct linear_job *j, int k, int64_t tile, int n_tile, int64_t row, int64_t n, int member)
{
    struct scratch *s = (struct scratch *)j->cpu->linear_scratch + member;
    for (int64_t at = row, m; at < row + n; at += m) {
        const struct weight *w = j->w[k];
        m = row + n - at;
        if (j->lora.replaced[k])
            w = lora_rows_weight(&j->lora, w, at, &m);
        if (j->x.n_row == 1)
            one_row(j, k, packed_of(w), tile, n_tile, j->shared ? 0 : member, s->chains);
        else
            many_rows(j, k, packed_of(w), tile, n_tile, at, m, s);
    }
    if (j->lora.touched[k])
        lora_tiles(&j->lora, k, j->w[k], tile, n_tile, row, n, j->y[k]);
}

static void act_tiles(const struct linear_job *j, int64_t tile, int n_tile, int64_t row, int64_t n)
{
    int64_t o = tile * LINEAR_TILE, cols = MIN((int64_t)n_tile * LINEAR_TILE, packed_of(j->w[0])->n_out - o);
    for (int64_t r = row; r < row + n; r++) {
        float *y = tensor_row(j->y[0], r) + o;
        j->cpu->rows->act_mul(&j->act, y, tensor_row(j->y[1], r) + o, y, cols);
    }
}

/* How many tiles of a form are computed together, where there are so many. For few rows of integer codes, and for rows with
 * adapters, that is one after the other; what follows, adapters and activation, comes once for all. */
static int side_by_side(const struct linear_job *j, const struct packed *p)
{
    return p->form == LINEAR_BF16 || j->x.n_row <= LINEAR_STREAM || j->adapted ? LINEAR_GEMV_TILES : 1;
}

int linear_item(const struct linear_job *j, int64_t item, int64_t max, int member)
{
    int64_t row = item / j->tiles * j->chunk, tile = item % j->tiles, n = MIN(j->x.n_row - row, j->chunk);
    int     k = 0, n_tile = 1;
    while (tile >= packed_of(j->w[k])->n_tile)
        tile -= packed_of(j->w[k++])->n_tile;
    int last = j->gated ? 1 : k; /* gate and up may be stored in different forms */
    if (MIN(max, packed_of(j->w[k])->n_tile - tile) >= LINEAR_GEMV_TILES)
        n_tile = MIN(j->side[k], j->side[last]);
    for (; k <= last; k++)
        product(j, k, tile, n_tile, row, n, member);
    if (j->gated)
        act_tiles(j, tile, n_tile, row, n);
    return n_tile;
}

void linear_convert(const struct linear_job *j, const float *x, int64_t at)
{
    if (j->quantize)
        j->cpu->linear->quantize(&j->acts, at, x);
    if (j->round)
        j->cpu->bf16->round(&j->acts, at, x);
}

/* Whether members wait for each other's share of the inputs before they take tiles. */
static bool job_meets(const struct linear_job *j)
{
    return j->adapted || (j->x.n_row > 1 && (j->quantize || j->round));
}

/* Asks for the beginning of a member's first tile, while it waits for the others. */
static void ask_first(const struct linear_job *j, int member, int n)
{
    long lo, hi;
    int  k = 0;
    pool_share((long)j->tiles, 1, member, n, &lo, &hi);
    for (; lo >= packed_of(j->w[k])->n_tile; k++) {
        lo -= packed_of(j->w[k])->n_tile;
        if (k == j->n - 1)
            return;
    }
    const unsigned char *tile = packed_tile(packed_of(j->w[k]), lo);
    for (int at = 0; at < LINEAR_AHEAD; at += 64)
        __builtin_prefetch(tile + at);
}

static void job_part(void *arg, int i, int n)
{
    const struct linear_job *j = arg;
    long                     lo, hi;
    if (j->x.n_row == 1) {
        linear_convert(j, tensor_row(j->x, 0), i);
    } else if (j->quantize || j->round) {
        pool_share((long)j->x.n_row, 1, i, n, &lo, &hi);
        for (long r = lo; r < hi; r++)
            linear_convert(j, tensor_row(j->x, r), r);
    }
    if (j->adapted) {
        lora_shrink(&j->lora, j->n, j->w, j->x, i, n);
        ask_first(j, i, n);
    }
    if (job_meets(j))
        pool_barrier(j->cpu->pool);
    for (int32_t item, end; pool_take(j->cpu->pool, i, LINEAR_GEMV_TILES, &item, &end);)
        while (item < end)
            item += linear_item(j, item, end - item, i);
}

int64_t linear_chunk(int64_t bytes)
{
    return MIN(MAX(CHUNK_BYTES / MAX(bytes, 1), CHUNK_MIN), LINEAR_ROWS) / CHUNK_MIN * CHUNK_MIN;
}

int64_t linear_demand(struct linear_job *j, int k, const struct weight *w)
{
    const struct packed *p = packed_of(w);
    j->quantize |= packed_is_integer(p);
    j->round |= p->form == LINEAR_BF16;
    j->side[k] = MIN(j->side[k], side_by_side(j, p));
    return p->form == LINEAR_DENSE ? 4 : p->form == LINEAR_BF16 ? 2 : 1;
}

static void job_run(struct run *r, struct linear_job *j)
{
    int64_t n_in = j->w[0]->n_in, threads = pool_size(j->cpu->pool), bytes = 0;
    if (j->x.n_row == 0)
        return;
    j->adapted = r->step->lora && lora_begin(&j->lora, r, j->n, j->w, j->x.n_row);
    for (int k = 0; k < j->n; k++) {
        j->side[k] = LINEAR_GEMV_TILES;
        bytes = MAX(bytes, n_in * linear_demand(j, k, j->w[k]));
        for (int64_t i = 0; i < j->lora.n_rows && j->lora.replaced[k]; i++)
            bytes = MAX(bytes, n_in * linear_demand(j, k, lora_weight_of(j->lora.rows[i].set, j->w[k])));
        if (k == 0 || !j->gated)
            j->tiles += packed_of(j->w[k])->n_tile;
    }
    j->acts = linear_acts(j->cpu, (struct scratch *)j->cpu->linear_scratch + threads, rows_most(j->cpu), n_in,
                          j->x.n_row == 1 ? 1 : LINEAR_GROUP);
    j->chunk = linear_chunk(bytes);
    while (j->chunk >= 2 * CHUNK_MIN && (j->x.n_row + j->chunk - 1) / j->chunk * j->tiles < ITEMS_PER_THREAD * threads)
        j->chunk = j->chunk / (2 * CHUNK_MIN) * CHUNK_MIN;
    pool_deal(j->cpu->pool, (int32_t)((j->x.n_row + j->chunk - 1) / j->chunk * j->tiles));
    (job_meets(j) ? pool_run : pool_run_some)(j->cpu->pool, job_part, j);
}

/* --- operations -----------------------------------------------------------------------------------------------------
 */

static void cpu_linear(struct run *r, const struct weight *w, struct tensor x, struct tensor y)
{
    struct linear_job j = {.cpu = (struct cpu *)r->backend, .n = 1, .w = &w, .y = &y, .x = x};
    job_run(r, &j);
}

static void cpu_linear_many(struct run *r, int n, const struct weight *const *w, struct tensor x,
                            const struct tensor *y)
{
    struct linear_job j = {.cpu = (struct cpu *)r->backend, .n = n, .w = w, .y = y, .x = x};
    job_run(r, &j);
}

static void cpu_linear_act_mul(struct run *r, struct act act, const struct weight *gate, const struct weight *up,
                               struct tensor x, struct tensor tmp, struct tensor y)
{
    const struct weight *w[] = {gate, up};
    struct tensor        out[] = {y, tmp};
    struct linear_job    j = {
           .cpu = (struct cpu *)r->backend, .n = 2, .w = w, .y = out, .x = x, .gated = true, .act = act};
    job_run(r, &j);
}

struct embed {
    const struct run    *run;
    const struct weight *w;
    const int32_t       *index;
    struct tensor        y;
};

static void embed_rows(const struct embed *m, int64_t lo, int64_t hi)
{
    const struct cpu *c = (const struct cpu *)m->run->backend;
    for (int64_t i = lo; i < hi; i++) {
        const struct lora_set *set = run_lora(m->run, i);
        weight_row(lora_weight_of(set, m->w), m->index[i], tensor_row(m->y, i));
        if (set)
            lora_lookup(c->lora, set, m->w, m->index[i], lora_scratch_row(c, i), tensor_row(m->y, i));
    }
}

static void embed_part(void *arg, int i, int n)
{
    const struct embed *m = arg;
    long                lo, hi;
    pool_share((long)m->y.n_row, 1, i, n, &lo, &hi);
    embed_rows(m, lo, hi);
}

static void cpu_embed(struct run *r, const struct weight *w, const int32_t *index, struct tensor y)
{
    struct embed m = {r, w, index, y};
    if (y.n_row > 8)
        pool_run(((struct cpu *)r->backend)->pool, embed_part, &m);
    else
        embed_rows(&m, 0, y.n_row);
}

void linear_install(struct cpu *c)
{
    c->base.ops.embed = cpu_embed;
    c->base.ops.linear = cpu_linear;
    c->base.ops.linear_many = cpu_linear_many;
    c->base.ops.linear_act_mul = cpu_linear_act_mul;
    c->base.prepare = linear_prepare;
    c->base.release = linear_release;
    c->base.packed_size = linear_packed_size;
}
