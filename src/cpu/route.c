/* Choosing experts: the operation route of ops.h. A row is the work of one thread and plain code for all levels; only the
 * scores come from vector kernels.
 *
 * Order of operations (docs/order-law.md): scores by rows.h's softmax or sigmoid; the choice compares; the weights' sum adds
 * in order of expert id, from zero; then each weight is divided and multiplied. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cpu/kernels.h"
#include "cpu/math.h"
#include "cpu/rows.h"

#define PARALLEL_MIN 16384 /* logits */

/* Whether expert a, of score x, comes before b, of score y, with a > b: NaN comes last, equal scores keep their order. */
static bool beats(float x, float y)
{
    return x > y || (isnan(y) && !isnan(x));
}

/* The ids of the k highest of n scores, the highest first. k <= n. */
static void top(const float *score, int n, int k, int32_t *id)
{
    for (int i = 0; i < n; i++) {
        int at = MIN(i, k);
        if (at == k && !beats(score[i], score[id[k - 1]]))
            continue;
        for (at -= at == k; at > 0 && beats(score[i], score[id[at - 1]]); at--)
            id[at] = id[at - 1];
        id[at] = i;
    }
}

static float group_score(const struct route *m, const float *score, int n)
{
    float best = -INFINITY, second = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (score[i] > best) {
            second = best;
            best = score[i];
        } else if (score[i] > second) {
            second = score[i];
        }
    }
    return m->group == ROUTE_GROUP_BEST2 && n > 1 ? best + second : best;
}

/* Experts outside of the best groups get NaN, which comes last; within them NaN becomes -infinity, which comes before. */
static void close_groups(const struct route *m, float *score)
{
    float   group[ROUTE_GROUPS_MAX];
    bool    open[ROUTE_GROUPS_MAX] = {false};
    int32_t best[ROUTE_GROUPS_MAX];
    int     n = m->n_expert / m->n_group;
    for (int g = 0; g < m->n_group; g++)
        group[g] = group_score(m, score + g * n, n);
    top(group, m->n_group, m->topk_group, best);
    for (int i = 0; i < m->topk_group; i++)
        open[best[i]] = true;
    for (int g = 0; g < m->n_group; g++)
        for (int i = g * n; i < (g + 1) * n; i++)
            score[i] = !open[g] ? NAN : isnan(score[i]) ? -INFINITY : score[i];
}

static void sort_ids(int32_t *id, int n)
{
    for (int i = 1; i < n; i++) {
        int32_t v = id[i];
        int     at = i;
        for (; at > 0 && id[at - 1] > v; at--)
            id[at] = id[at - 1];
        id[at] = v;
    }
}

static void weigh(const struct route *m, const struct row_fns *f, float *w)
{
    float sum = 0;
    if (m->score == ROUTE_TOP_SOFTMAX)
        f->softmax(w, m->top_k, w);
    for (int j = 0; j < m->top_k; j++)
        sum += w[j];
    sum = fmaxf(sum + m->sum_add, m->sum_min);
    for (int j = 0; j < m->top_k; j++)
        w[j] = (m->normalize ? w[j] / sum : w[j]) * m->scale;
}

/* The weight of each of the chosen, the highest first; then they are sorted with them. */
static void mix_sparsely(const struct route *m, const float *logits, int32_t *id, float *w)
{
    float limit = 2 * m->jitter;
    for (int j = 0; j < m->top_k; j++) {
        float max = logits[id[j]], sum = 0;
        for (int i = 0; i < m->n_expert; i++) {
            bool gone = false;
            for (int k = 0; k < j; k++)
                gone |= id[k] == i;
            if (!gone && !((max - logits[i]) / fmaxf(fabsf(logits[i]), max) > limit))
                sum += math_exp(logits[i] - max);
        }
        w[j] = 1 / sum;
    }
    for (int j = 1; j < m->top_k; j++) {
        for (int k = j; k > 0 && id[k - 1] > id[k]; k--) {
            int32_t other = id[k];
            float   weight = w[k];
            id[k] = id[k - 1];
            w[k] = w[k - 1];
            id[k - 1] = other;
            w[k - 1] = weight;
        }
    }
}

static void route_row(const struct route *m, const struct row_fns *f, const float *correction, float *logits,
                      float *choice, int32_t *id, float *w)
{
    const float *by = logits;
    if (m->score == ROUTE_SOFTMAX)
        f->softmax(logits, m->n_expert, logits);
    else if (m->score == ROUTE_SIGMOID)
        f->act(ACT_SIGMOID, NULL, logits, logits, m->n_expert);
    if (correction || m->n_group > 1) {
        for (int i = 0; i < m->n_expert; i++)
            choice[i] = correction ? logits[i] + correction[i] : logits[i];
        if (m->n_group > 1)
            close_groups(m, choice);
        by = choice;
    }
    top(by, m->n_expert, m->top_k, id);
    if (m->score == ROUTE_SPARSE_MIXER) {
        mix_sparsely(m, logits, id, w);
    } else {
        sort_ids(id, m->top_k);
        for (int j = 0; j < m->top_k; j++)
            w[j] = logits[id[j]];
    }
    weigh(m, f, w);
}

/* What corrects the choice of a row: an adapter may have its own. */
static const float *correction_of(const struct run *r, const struct route *m, int64_t row)
{
    if (m->correction.index < 0)
        return NULL;
    return lora_weight_of(run_lora(r, row), &m->correction)->packed;
}

struct job {
    const struct run   *run;
    const struct route *route;
    struct tensor       logits, id, weight;
};

static void part(void *arg, int i, int n)
{
    const struct job *j = arg;
    long              lo, hi;
    float             choice[ROUTE_EXPERTS_MAX];
    pool_share((long)j->logits.n_row, 1, i, n, &lo, &hi);
    for (long r = lo; r < hi; r++)
        route_row(j->route, ((const struct cpu *)j->run->backend)->rows, correction_of(j->run, j->route, r),
                  tensor_row(j->logits, r), choice, (int32_t *)j->id.data + r * j->id.stride, tensor_row(j->weight, r));
}

static void cpu_route(struct run *r, const struct route *m, struct tensor logits, struct tensor id,
                      struct tensor weight)
{
    struct cpu *c = (struct cpu *)r->backend;
    struct job  j = {r, m, logits, id, weight};
    if (logits.n_row > 1 && logits.n_row * m->n_expert >= PARALLEL_MIN)
        pool_run(c->pool, part, &j);
    else
        part(&j, 0, 1);
}

void route_install(struct cpu *c)
{
    c->base.ops.route = cpu_route;
}
