/* Experts: the operation moe of ops.h. Only the experts that some row has chosen are touched.
 *
 * The pairs (row, expert) of a block of rows are sorted by expert, so that the rows of an expert stand together, and each
 * expert's rows are cut into units, each a small job of linear_job.h. Two runs of the pool share all units' tiles: gate and
 * up, which read the rows where they are, then down, whose outputs stand where the pairs do. At last every row adds its own
 * experts' outputs in order of expert id: y = 0, then y = y + w e, product and sum rounded. So neither the rows beside
 * it nor how they are cut can change what a row becomes.
 *
 * Where adapters change the experts, they are computed one after the other by the linear operations, which know adapters:
 * the same sums. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/linear_job.h"
#include "cpu/rows.h"

#define PAIRS_MAX 4096 /* of a block of rows, about: their inputs, gates and outputs have room */
#define PARALLEL_MIN 16384

/* Rows of an expert that are computed together. */
struct unit {
    int32_t expert, n;
    int32_t pair; /* the first, as sorted */
    int32_t record;
};

/* A block of rows [row, row + n_row) of an operation. */
struct block {
    struct cpu       *cpu;
    const struct moe *m;
    struct tensor     x, id;
    int64_t           row, n_row;
    int32_t          *start;   /* [n_expert + 2] where the sorted pairs of an expert begin; the end of all */
    int32_t          *row_of;  /* [pairs] the row of x of a sorted pair */
    int32_t          *unit_of; /* [pairs] likewise its unit */
    int32_t          *place;   /* [n_row][top_k] where a pair stands; -1: the identity */
    struct unit      *unit;
    int32_t           n_unit, n_pair;
    struct tensor     in, gate, up; /* [pairs] inputs, and later outputs; act(gate) * up; up */
    void             *acts;
    int64_t           n_record;
};

/* --- scratch ---------------------------------------------------------------------------------------------------- */

static int64_t block_rows(const struct cpu *c)
{
    return MAX(MIN(c->lim.n_row, PAIRS_MAX / MAX(c->lim.top_k, 1)), 1);
}

static int64_t padded(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* Records of an expert's rows begin a group. */
static int64_t records_most(const struct cpu *c, int64_t pairs)
{
    return pairs + MIN(pairs, c->lim.n_expert) * LINEAR_GROUP;
}

static struct tensor take_rows(char *memory, size_t *size, int64_t n_row, int64_t n_col, bool *fits)
{
    void *data = memory_take(memory, size, (size_t)n_row, (size_t)n_col * sizeof(float), fits);
    return (struct tensor){data, n_row, n_col, n_col};
}

/* Lays the scratch out at `memory` (NULL: counts only); false when the size overflows. */
static bool lay_out(const struct cpu *c, char *memory, struct block *j, size_t *size)
{
    int64_t rows = block_rows(c), pairs = rows * c->lim.top_k;
    int64_t n_in = padded(c->lim.n_expert_in), n_ff = padded(c->lim.n_expert_ff);
    size_t  acts = 0;
    bool    fits = true;
    *size = 0;
    j->n_record = records_most(c, pairs);
    j->start = memory_take(memory, size, (size_t)c->lim.n_expert + 2, sizeof *j->start, &fits);
    j->row_of = memory_take(memory, size, (size_t)pairs, sizeof *j->row_of, &fits);
    j->place = memory_take(memory, size, (size_t)pairs, sizeof *j->place, &fits);
    j->unit_of = memory_take(memory, size, (size_t)pairs, sizeof *j->unit_of, &fits);
    j->unit = memory_take(memory, size, (size_t)pairs, sizeof *j->unit, &fits);
    j->in = take_rows(memory, size, pairs, n_in, &fits);
    j->gate = take_rows(memory, size, pairs, n_ff, &fits);
    j->up = take_rows(memory, size, pairs, n_ff, &fits);
    fits &= linear_acts_size(c, j->n_record, MAX(n_in, n_ff), &acts);
    j->acts = memory_take(memory, size, acts, 1, &fits);
    return fits;
}

int moe_reserve(struct cpu *c, struct error *e)
{
    struct block j;
    size_t       size;
    if (!c->lim.n_expert)
        return 0;
    if (c->lim.n_expert_in > INT64_MAX / 256 || c->lim.n_expert_ff > INT64_MAX / 256 || !lay_out(c, NULL, &j, &size))
        return error_set(e, ERR_LIMIT, NULL, "steps of %" PRId64 " rows are too large for this machine's experts",
                         c->lim.n_row);
    void *scratch = aligned_alloc(64, size);
    if (!scratch)
        return error_nomem(e, "the scratch of experts");
    free(c->moe_scratch);
    c->moe_scratch = scratch;
    return 0;
}

/* --- sorting ---------------------------------------------------------------------------------------------------- */

static int32_t id_at(const struct block *j, int64_t row, int k)
{
    return ((const int32_t *)j->id.data)[(j->row + row) * j->id.stride + k];
}

/* Sorts the pairs by expert, those of an expert by row. */
static void sort_pairs(struct block *j)
{
    int n = j->m->n_expert, k = j->m->top_k;
    memset(j->start, 0, (size_t)(n + 2) * sizeof *j->start);
    for (int64_t r = 0; r < j->n_row; r++)
        for (int i = 0; i < k; i++)
            if (id_at(j, r, i) < n)
                j->start[id_at(j, r, i) + 2]++;
    for (int i = 2; i < n + 2; i++) /* start[e + 1] is where e begins, and below moves to where it ends */
        j->start[i] += j->start[i - 1];
    for (int64_t r = 0; r < j->n_row; r++) {
        for (int i = 0; i < k; i++) {
            int32_t e = id_at(j, r, i), at = e < n ? j->start[e + 1]++ : -1;
            j->place[r * k + i] = at;
            if (at >= 0)
                j->row_of[at] = (int32_t)(j->row + r);
        }
    }
    j->n_pair = j->start[n];
}

/* Cuts the experts' rows into units of at most `most`. */
static void make_units(struct block *j, int64_t most)
{
    int32_t record = 0;
    j->n_unit = 0;
    for (int e = 0; e < j->m->n_expert; e++) {
        for (int32_t at = j->start[e], n; at < j->start[e + 1]; at += n) {
            n = (int32_t)MIN(j->start[e + 1] - at, most);
            for (int32_t i = 0; i < n; i++)
                j->unit_of[at + i] = j->n_unit;
            j->unit[j->n_unit++] = (struct unit){e, n, at, record};
            record += (n + LINEAR_GROUP - 1) / LINEAR_GROUP * LINEAR_GROUP;
        }
    }
}

/* --- products of all units -------------------------------------------------------------------------------------- */

/* One run of the pool: gate and up, or down. */
struct stage {
    const struct block  *b;
    int                  n;
    const struct weight *w[2];            /* stacks */
    struct tensor        y[2];            /* of pairs */
    struct tensor        x;               /* likewise */
    bool                 gathers, copies; /* x is the block's: pairs take its rows; as they are, too */
    const struct act    *act;             /* of the one product; NULL: none */
    struct linear_job    job;             /* what all units have in common */
};

static struct tensor rows_from(struct tensor t, int64_t row, int64_t n)
{
    return (struct tensor){tensor_row(t, row), n, t.n_col, t.stride};
}

/* The records of a unit: row 0 is record 0. A single row's blocks stand side by side. */
static struct acts unit_acts(const struct stage *s, const struct unit *u)
{
    struct acts a = s->job.acts;
    a.base += u->record / LINEAR_GROUP * a.group_stride;
    a.bf16 += u->record * a.bf16_stride;
    if (u->n == 1)
        a.group = 1;
    return a;
}

/* y = act(y) of n tiles, where experts have no gate. */
static void act_tiles(const struct stage *s, struct tensor y, int64_t tile, int n)
{
    int64_t o = tile * LINEAR_TILE, cols = MIN((int64_t)n * LINEAR_TILE, y.n_col - o);
    for (int64_t r = 0; r < y.n_row; r++)
        s->b->cpu->rows->act(s->act->kind, NULL, tensor_row(y, r) + o, tensor_row(y, r) + o, cols);
}

/* Tiles [tile, tile + max) of a unit, or fewer; returns how many. */
static int unit_tiles(const struct stage *s, const struct unit *u, int64_t tile, int64_t max, int member)
{
    struct linear_job    j = s->job;
    const struct weight *w[2];
    struct tensor        y[2];
    j.w = w;
    j.y = y;
    j.x = rows_from(s->x, u->pair, u->n);
    j.acts = unit_acts(s, u);
    j.chunk = u->n;
    for (int k = 0; k < s->n; k++) {
        w[k] = s->w[k] + u->expert;
        y[k] = rows_from(s->y[k], u->pair, u->n);
        j.side[k] = LINEAR_GEMV_TILES;
        linear_demand(&j, k, w[k]);
    }
    int n = linear_item(&j, tile, max, member);
    if (s->act)
        act_tiles(s, y[0], tile, n);
    return n;
}

/* The inputs of a pair, in every form that some expert wants. */
static void convert_pair(const struct stage *s, int64_t pair)
{
    const struct block *b = s->b;
    const struct unit  *u = b->unit + b->unit_of[pair];
    struct linear_job   j = s->job;
    const float        *x = s->gathers ? tensor_row(b->x, b->row_of[pair]) : tensor_row(s->x, pair);
    j.acts = unit_acts(s, u);
    linear_convert(&j, x, pair - u->pair);
    if (s->copies)
        memcpy(tensor_row(s->x, pair), x, (size_t)s->x.n_col * sizeof *x);
}

static void stage_part(void *arg, int i, int n)
{
    const struct stage *s = arg;
    struct pool        *pool = s->b->cpu->pool;
    long                lo, hi;
    pool_share(s->b->n_pair, 1, i, n, &lo, &hi);
    for (long p = lo; p < hi; p++)
        convert_pair(s, p);
    pool_barrier(pool);
    for (int32_t item, end; pool_take(pool, i, LINEAR_GEMV_TILES, &item, &end);)
        while (item < end)
            item += unit_tiles(s, s->b->unit + item / s->job.tiles, item % s->job.tiles, end - item, i);
}

/* What the experts that have rows want of them; returns the bytes of a row. */
static int64_t stage_demand(struct stage *s)
{
    const struct block *b = s->b;
    int64_t             most = 0, n_in = s->w[0]->n_in;
    for (int e = 0; e < b->m->n_expert; e++) {
        for (int k = 0; k < s->n && b->start[e] < b->start[e + 1]; k++) {
            int64_t bytes = linear_demand(&s->job, k, s->w[k] + e);
            s->copies |= bytes == sizeof(float) && s->gathers; /* a dense product reads floats */
            most = MAX(most, bytes * n_in);
        }
    }
    return most;
}

static void stage_run(struct stage *s, struct block *b)
{
    const struct packed *p;
    s->b = b;
    s->job.cpu = b->cpu;
    s->job.n = s->n;
    s->job.shared = true;
    int64_t bytes = stage_demand(s);
    make_units(b, linear_chunk(bytes));
    if (!b->n_unit)
        return;
    p = s->w[0][b->unit->expert].packed;
    s->job.tiles = p->n_tile;
    s->job.acts = linear_acts(b->cpu, b->acts, b->n_record, s->w[0]->n_in, LINEAR_GROUP);
    pool_deal(b->cpu->pool, (int32_t)(b->n_unit * s->job.tiles));
    pool_run(b->cpu->pool, stage_part, s);
}

static void run_units(struct block *b, struct tensor in, struct tensor gate, struct tensor up)
{
    const struct moe *m = b->m;
    struct stage      first = {.n = 2, .w = {m->gate, m->up}, .y = {gate, up}, .x = in, .gathers = true};
    struct stage      second = {.n = 1, .w = {m->down}, .y = {in}, .x = gate};
    first.job.gated = m->gate != NULL;
    first.job.act = m->act;
    if (!m->gate) {
        first.n = 1;
        first.w[0] = m->up;
        first.act = &m->act;
    }
    stage_run(&first, b);
    stage_run(&second, b);
}

/* --- with adapters ---------------------------------------------------------------------------------------------- */

static bool stack_changed(const struct lora_set *set, const struct weight *w, int n)
{
    for (int i = 0; w && i < set->n; i++)
        for (int e = 0; e < n; e++)
            if (lora_delta_of(set, i, w + e))
                return true;
    return false;
}

/* Whether an adapter of the step changes some expert. */
static bool experts_changed(const struct step *s, const struct moe *m)
{
    for (int i = 0; s->lora && i < s->n_seq; i++)
        if (s->lora[i] &&
            (stack_changed(s->lora[i], m->gate, m->n_expert) || stack_changed(s->lora[i], m->up, m->n_expert) ||
             stack_changed(s->lora[i], m->down, m->n_expert)))
            return true;
    return false;
}

static void run_each(struct run *r, const struct block *b, struct tensor in, struct tensor gate, struct tensor up)
{
    const struct moe *m = b->m;
    for (int64_t p = 0; p < b->n_pair; p++)
        memcpy(tensor_row(in, p), tensor_row(b->x, b->row_of[p]), (size_t)in.n_col * sizeof(float));
    for (int e = 0; e < m->n_expert; e++) {
        int64_t       at = b->start[e], n = b->start[e + 1] - at;
        struct tensor x = rows_from(in, at, n), h = rows_from(gate, at, n);
        if (!n)
            continue;
        r->row_of = b->row_of + at;
        if (m->gate) {
            op_linear_act_mul(r, m->act, m->gate + e, m->up + e, x, rows_from(up, at, n), h);
        } else {
            op_linear(r, m->up + e, x, h);
            op_act(r, m->act, h, h);
        }
        op_linear(r, m->down + e, h, x);
    }
    r->row_of = NULL;
}

/* --- the sum ---------------------------------------------------------------------------------------------------- */

struct sum {
    const struct block *b;
    struct tensor       out, weight, y;
};

static void sum_row(const struct sum *s, int64_t r)
{
    const struct block   *b = s->b;
    const struct row_fns *f = b->cpu->rows;
    const float          *w = tensor_row(s->weight, b->row + r);
    float                *y = tensor_row(s->y, b->row + r);
    memset(y, 0, (size_t)s->y.n_col * sizeof *y);
    for (int k = 0; k < b->m->top_k; k++) {
        int32_t at = b->place[r * b->m->top_k + k];
        f->add(at < 0 ? tensor_row(b->x, b->row + r) : tensor_row(s->out, at), w[k], y, s->y.n_col);
    }
}

static void sum_part(void *arg, int i, int n)
{
    const struct sum *s = arg;
    long              lo, hi;
    pool_share((long)s->b->n_row, 1, i, n, &lo, &hi);
    for (long r = lo; r < hi; r++)
        sum_row(s, r);
}

/* --- the operation ---------------------------------------------------------------------------------------------- */

static void cpu_moe(struct run *r, const struct moe *m, struct tensor x, struct tensor id, struct tensor weight,
                    struct tensor y)
{
    struct cpu  *c = (struct cpu *)r->backend;
    struct block b = {.cpu = c, .m = m, .x = x, .id = id};
    size_t       size;
    bool         changed = experts_changed(r->step, m);
    lay_out(c, c->moe_scratch, &b, &size);
    struct tensor in = {b.in.data, b.in.n_row, m->up->n_in, b.in.stride};
    struct tensor gate = {b.gate.data, b.gate.n_row, m->up->n_out, b.gate.stride}, up = gate;
    up.data = b.up.data;
    for (; b.row < x.n_row; b.row += b.n_row) {
        b.n_row = MIN(x.n_row - b.row, block_rows(c));
        sort_pairs(&b);
        if (changed)
            run_each(r, &b, in, gate, up);
        else
            run_units(&b, in, gate, up);
        struct sum s = {&b, in, weight, y};
        if (b.n_row > 1 && b.n_row * m->top_k * y.n_col >= PARALLEL_MIN)
            pool_run(c->pool, sum_part, &s);
        else
            sum_part(&s, 0, 1);
    }
}

void moe_install(struct cpu *c)
{
    c->base.ops.moe = cpu_moe;
}
