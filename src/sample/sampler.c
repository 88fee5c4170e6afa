/* The sampler of sampler.h.
 *
 * A candidate is one 64-bit key: the logit, mapped to an integer of the same order, above the complement of the id.
 * Greater key = more likely, and among equals the lower id; keys are unique, so every selection and sort has one
 * answer. The only structure over keys is a binary heap with its least key on top. It gives top-k, as a heap of the k
 * greatest seen so far, so that blocks of logits without anything above its top are skipped; and it sorts, since heap
 * sort with the least on top leaves descending order.
 *
 * Top-p without top-k needs no sort of the vocabulary either: all tokens below a share (1-p)/n of the mass hold less
 * than 1-p together, so the nucleus never reaches them; only the few others are gathered and sorted.
 *
 * Bias and penalties touch few logits: those are changed in place, remembered, and put back after the draw, so that the
 * log-probabilities come from the raw row.
 */
#include "sample/sampler.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"

#define BLOCK 256 /* logits that are skipped together; weights that are summed together */

struct touched {
    int32_t token;
    float   raw;
};

struct sampler {
    struct mlxcel_params      p; /* stop strings and ids are not kept */
    struct mlxcel_logit_bias *bias;
    int                       n_vocab, top_k; /* top_k: n_vocab when off */
    bool                      top_p, min_p, penalties;
    uint64_t                 *keys;    /* [top_k] candidates */
    double                   *sums;    /* of the weights of each BLOCK candidates */
    uint32_t                 *counts;  /* [n_vocab] occurrences in the window; all 0 between picks */
    struct touched           *touched; /* logits that bias and penalties changed, in order */
    size_t                    n_touched;
    uint64_t                  top_keys[SAMPLER_PROBS_MAX];
    struct mlxcel_prob        top[SAMPLER_PROBS_MAX];
};

/* ---- keys ---- */

/* What counts of a logit: NaN is -infinity, +infinity the greatest finite number (so that differences stay numbers). */
static float clean(float x)
{
    return x > -INFINITY ? MIN(x, FLT_MAX) : -INFINITY;
}

static uint64_t key_make(float logit, int32_t token)
{
    uint32_t bits;
    float    x = clean(logit) + 0.0f; /* -0 becomes +0 */
    memcpy(&bits, &x, sizeof bits);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | ~(uint32_t)token;
}

static float key_logit(uint64_t key)
{
    uint32_t bits = (uint32_t)(key >> 32);
    float    x;
    bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int32_t key_token(uint64_t key)
{
    return (int32_t) ~(uint32_t)key;
}

/* Moves the key at i down until the heap h[n] (least on top) holds again. */
static void sift_down(uint64_t *h, int n, int i)
{
    uint64_t key = h[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && h[child + 1] < h[child])
            child++;
        if (key <= h[child])
            break;
        h[i] = h[child];
    }
    h[i] = key;
}

static void heapify(uint64_t *h, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sift_down(h, n, i);
}

/* Sorts a heap in descending order. */
static void heap_sort(uint64_t *h, int n)
{
    while (n-- > 1) {
        uint64_t least = h[0];
        h[0] = h[n];
        h[n] = least;
        sift_down(h, n, 0);
    }
}

/* ---- scanning a row ---- */

/* The greatest of x[BLOCK]; NaN is passed over. Sixteen chains, so that the compiler can use vectors. */
static float block_max(const float *x)
{
    float lane[16];
    for (int j = 0; j < 16; j++)
        lane[j] = -INFINITY;
    for (int i = 0; i < BLOCK; i += 16)
        for (int j = 0; j < 16; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] = MAX(lane[j], lane[j + half]);
    return lane[0];
}

/* The lowest id of the greatest logit; -1 when all are -infinity or NaN. */
static int32_t argmax(const float *logits, int n)
{
    float   max = -INFINITY;
    int32_t best = -1;
    for (int lo = 0; lo < n; lo += BLOCK) {
        if (n - lo >= BLOCK && !(block_max(logits + lo) > max))
            continue;
        for (int i = lo; i < MIN(lo + BLOCK, n); i++)
            if (logits[i] > max) {
                max = logits[i];
                best = i;
            }
    }
    return best;
}

/* The k greatest keys above -infinity, descending; returns how many there are. */
static int select_top(const float *logits, int n, int k, uint64_t *keys)
{
    int   have = 0;
    float floor = -INFINITY; /* logit of the least key kept: an equal one has a higher id and does not enter */
    for (int lo = 0; lo < n; lo += BLOCK) {
        if (n - lo >= BLOCK && !(block_max(logits + lo) > floor))
            continue;
        for (int i = lo; i < MIN(lo + BLOCK, n); i++) {
            if (!(logits[i] > floor))
                continue;
            uint64_t key = key_make(logits[i], i);
            if (have < k) {
                keys[have++] = key;
                if (have == k)
                    heapify(keys, k);
            } else if (key > keys[0]) {
                keys[0] = key;
                sift_down(keys, k, 0);
            }
            if (have == k)
                floor = key_logit(keys[0]);
        }
    }
    if (have < k)
        heapify(keys, have);
    heap_sort(keys, have);
    return have;
}

/* exp(d) for d <= 0, as every sum here takes it. */
static double weight(double d)
{
    return d > -87.0 ? (double)expf((float)d) : 0.0;
}

/* Sum of exp(logit - max) over a row. */
static double row_mass(const float *logits, int n, double max)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += weight((double)clean(logits[i]) - max);
    return sum;
}

/* All keys whose logit is at least `least` (and above -infinity), by ascending id. */
static int gather(const float *logits, int n, double least, uint64_t *keys)
{
    int have = 0;
    for (int i = 0; i < n; i++)
        if (logits[i] > -INFINITY && (double)logits[i] >= least)
            keys[have++] = key_make(logits[i], i);
    return have;
}

/* ---- bias and penalties ---- */

static void touch(struct sampler *s, float *logits, int32_t token, float value)
{
    s->touched[s->n_touched++] = (struct touched){token, logits[token]};
    logits[token] = value;
}

static void restore(struct sampler *s, float *logits)
{
    while (s->n_touched) {
        struct touched t = s->touched[--s->n_touched];
        logits[t.token] = t.raw;
    }
}

/* Each distinct token of the window once: a negative logit is multiplied by the repetition penalty, a positive one
 * divided; then the presence penalty and, per occurrence, the frequency penalty are subtracted. */
static void penalise(struct sampler *s, float *logits, const int32_t *history, size_t n)
{
    const struct mlxcel_params *p = &s->p;
    float                       repetition = p->repetition_penalty > 0 ? p->repetition_penalty : 1;
    if (p->penalty_window >= 0 && n > (size_t)p->penalty_window) {
        history += n - (size_t)p->penalty_window;
        n = (size_t)p->penalty_window;
    }
    for (size_t i = 0; i < n; i++)
        if (history[i] >= 0 && history[i] < s->n_vocab)
            s->counts[history[i]]++;
    for (size_t i = 0; i < n; i++) {
        int32_t  t = history[i];
        uint32_t count = t >= 0 && t < s->n_vocab ? s->counts[t] : 0;
        if (!count)
            continue;
        s->counts[t] = 0;
        float x = logits[t] <= 0 ? logits[t] * repetition : logits[t] / repetition;
        touch(s, logits, t, x - (float)count * p->frequency_penalty - p->presence_penalty);
    }
}

/* ---- filters and the draw ---- */

static double key_mass(const uint64_t *keys, int n, double max)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += weight((double)key_logit(keys[i]) - max);
    return sum;
}

/* Length of the shortest beginning of the sorted keys that holds at least `mass` (in units of exp(-max)). */
static int cut_top_p(const uint64_t *keys, int n, double max, double mass)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += weight((double)key_logit(keys[i]) - max);
        if (sum >= mass)
            return i + 1;
    }
    return n;
}

/* The least logit that min-p keeps. */
static double min_p_least(const struct sampler *s, double max)
{
    return s->min_p ? max + log((double)s->p.min_p) : -INFINITY;
}

static int cut_min_p(const struct sampler *s, int n, double max)
{
    double least = min_p_least(s, max);
    while (n > 1 && (double)key_logit(s->keys[n - 1]) < least)
        n--;
    return n;
}

/* The filters fill s->keys with what top-k, top-p and min-p leave and set *max to the greatest logit. They return the
 * number of keys, 0 when every logit is -infinity or NaN. */
static int filter_top_k(struct sampler *s, const float *logits, double *max)
{
    int n = select_top(logits, s->n_vocab, s->top_k, s->keys);
    if (!n)
        return 0;
    *max = (double)key_logit(s->keys[0]);
    if (s->top_p)
        n = cut_top_p(s->keys, n, *max, (double)s->p.top_p * key_mass(s->keys, n, *max));
    return cut_min_p(s, n, *max);
}

static int filter_all(struct sampler *s, const float *logits, double *max)
{
    int32_t best = argmax(logits, s->n_vocab);
    if (best < 0)
        return 0;
    *max = (double)clean(logits[best]);
    if (!s->top_p)
        return gather(logits, s->n_vocab, min_p_least(s, *max), s->keys);
    double top_p = (double)s->p.top_p, mass = row_mass(logits, s->n_vocab, *max);
    int    n = gather(logits, s->n_vocab, *max + log((1 - top_p) * mass / s->n_vocab), s->keys);
    heapify(s->keys, n);
    heap_sort(s->keys, n);
    return cut_min_p(s, cut_top_p(s->keys, n, *max, top_p * mass), *max);
}

/* Draws from the n > 0 candidates by inverse distribution: the first whose running sum passes u times the whole. The
 * sums of blocks are kept, so that the second walk computes the weights of one block only. */
static int32_t draw(struct sampler *s, int n, double max, double u)
{
    double per_t = 1 / (double)s->p.temperature, sum = 0, run = 0;
    int    block = 0, n_blocks = (n + BLOCK - 1) / BLOCK, last = 0;
    for (int b = 0; b < n_blocks; b++) {
        double part = 0;
        for (int i = b * BLOCK; i < MIN((b + 1) * BLOCK, n); i++)
            part += weight(((double)key_logit(s->keys[i]) - max) * per_t);
        s->sums[b] = part;
        sum += part;
    }
    while (block < n_blocks - 1 && run + s->sums[block] <= u * sum)
        run += s->sums[block++];
    for (int i = block * BLOCK; i < MIN((block + 1) * BLOCK, n); i++) {
        double w = weight(((double)key_logit(s->keys[i]) - max) * per_t);
        if (w > 0)
            last = i; /* the answer when rounding leaves run short of u * sum */
        run += w;
        if (run > u * sum)
            break;
    }
    return key_token(s->keys[last]);
}

/* Log-softmax of the raw row for the token and the n_probs most likely. */
static void report(struct sampler *s, const float *logits, struct sample *out)
{
    int    best = argmax(logits, s->n_vocab);
    double max = best < 0 ? 0 : (double)clean(logits[best]);
    double log_sum = max + log(row_mass(logits, s->n_vocab, max));
    out->prob = (struct mlxcel_prob){out->token, (float)((double)clean(logits[out->token]) - log_sum)};
    if (s->p.n_probs == 0)
        return;
    out->n_top = select_top(logits, s->n_vocab, MIN(s->p.n_probs, s->n_vocab), s->top_keys);
    for (int i = 0; i < out->n_top; i++)
        s->top[i] =
            (struct mlxcel_prob){key_token(s->top_keys[i]), (float)((double)key_logit(s->top_keys[i]) - log_sum)};
    out->top = s->top;
}

int sampler_pick(struct sampler *s, float *logits, const int32_t *history, size_t n_history, uint64_t index,
                 struct sample *out)
{
    for (size_t i = 0; i < s->p.n_logit_bias; i++)
        touch(s, logits, s->bias[i].token, logits[s->bias[i].token] + s->bias[i].bias);
    if (s->penalties)
        penalise(s, logits, history, n_history);
    int32_t token = -1;
    if (s->p.temperature > 0) {
        double max;
        int    n = s->top_k < s->n_vocab ? filter_top_k(s, logits, &max) : filter_all(s, logits, &max);
        if (n)
            token = draw(s, n, max, rng_uniform(s->p.seed, (uint32_t)s->p.choice, index));
    } else {
        token = argmax(logits, s->n_vocab);
    }
    restore(s, logits);
    *out = (struct sample){.token = token};
    if (token < 0)
        return ERR_INTERNAL;
    if (s->p.n_probs >= 0)
        report(s, logits, out);
    return 0;
}

/* ---- life ---- */

static int check_range(float x, const char *field, double lo, double hi, struct error *e)
{
    if (isfinite(x) && (double)x >= lo && (double)x <= hi)
        return 0;
    if (hi < (double)FLT_MAX)
        return error_set(e, ERR_INVALID, field, "%s is %g, needed a number from %g to %g", field, (double)x, lo, hi);
    if (lo > -(double)FLT_MAX)
        return error_set(e, ERR_INVALID, field, "%s is %g, needed a finite number of at least %g", field, (double)x,
                         lo);
    return error_set(e, ERR_INVALID, field, "%s is %g, needed a finite number", field, (double)x);
}

static int check_int(int x, const char *field, int lo, int hi, struct error *e)
{
    if (x >= lo && x <= hi)
        return 0;
    if (hi < INT_MAX)
        return error_set(e, ERR_INVALID, field, "%s is %d, needed %d to %d", field, x, lo, hi);
    return error_set(e, ERR_INVALID, field, "%s is %d, needed at least %d", field, x, lo);
}

static int check_params(const struct mlxcel_params *p, int n_vocab, struct error *e)
{
    const double any = (double)FLT_MAX;
    int          rc;
    if ((rc = check_range(p->temperature, "temperature", 0, any, e)) ||
        (rc = check_int(p->top_k, "top_k", 0, INT_MAX, e)) || (rc = check_range(p->top_p, "top_p", 0, 1, e)) ||
        (rc = check_range(p->min_p, "min_p", 0, 1, e)) ||
        (rc = check_range(p->repetition_penalty, "repetition_penalty", 0, any, e)) ||
        (rc = check_range(p->presence_penalty, "presence_penalty", -any, any, e)) ||
        (rc = check_range(p->frequency_penalty, "frequency_penalty", -any, any, e)) ||
        (rc = check_int(p->penalty_window, "penalty_window", -1, INT_MAX, e)) ||
        (rc = check_int(p->choice, "choice", 0, INT_MAX, e)) ||
        (rc = check_int(p->n_probs, "n_probs", -1, SAMPLER_PROBS_MAX, e)))
        return rc;
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        const struct mlxcel_logit_bias *b = &p->logit_bias[i];
        if (b->token < 0 || b->token >= n_vocab)
            return error_set(e, ERR_INVALID, "logit_bias", "logit_bias names token %d, needed an id from 0 to %d",
                             b->token, n_vocab - 1);
        if (isnan(b->bias) || b->bias == INFINITY)
            return error_set(e, ERR_INVALID, "logit_bias",
                             "logit_bias of token %d is %g, needed a finite number or -infinity", b->token,
                             (double)b->bias);
    }
    return 0;
}

/* Memory for the parameters' worst case; false when there is none. */
static bool reserve(struct sampler *s, const struct mlxcel_params *p)
{
    size_t n_vocab = (size_t)s->n_vocab, n_touched = p->n_logit_bias;
    if (s->penalties) {
        n_touched += p->penalty_window < 0 ? n_vocab : MIN(n_vocab, (size_t)p->penalty_window);
        if (!(s->counts = calloc(n_vocab, sizeof *s->counts)))
            return false;
    }
    if (n_touched && !(s->touched = calloc(n_touched, sizeof *s->touched)))
        return false;
    if (p->temperature > 0) {
        s->keys = calloc((size_t)s->top_k, sizeof *s->keys);
        s->sums = calloc((size_t)s->top_k / BLOCK + 1, sizeof *s->sums);
        if (!s->keys || !s->sums)
            return false;
    }
    if (p->n_logit_bias) {
        if (!(s->bias = calloc(p->n_logit_bias, sizeof *s->bias)))
            return false;
        memcpy(s->bias, p->logit_bias, p->n_logit_bias * sizeof *s->bias);
    }
    return true;
}

int sampler_new(struct sampler **out, const struct mlxcel_params *p, int n_vocab, struct error *e)
{
    int rc = check_int(n_vocab, "n_vocab", 1, INT_MAX - BLOCK, e);
    if (rc || (rc = check_params(p, n_vocab, e)))
        return rc;
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return error_nomem(e, "the sampler");
    s->p = *p;
    s->p.logit_bias = NULL;
    s->p.stop = NULL;
    s->p.stop_ids = NULL;
    s->p.n_stop = s->p.n_stop_ids = 0;
    s->n_vocab = n_vocab;
    s->top_k = p->top_k > 0 ? MIN(p->top_k, n_vocab) : n_vocab;
    s->top_p = p->top_p > 0 && p->top_p < 1;
    s->min_p = p->min_p > 0;
    s->penalties = p->penalty_window != 0 && ((p->repetition_penalty > 0 && p->repetition_penalty != 1) ||
                                              p->presence_penalty != 0 || p->frequency_penalty != 0);
    if (!reserve(s, p)) {
        sampler_free(s);
        return error_nomem(e, "the sampler");
    }
    *out = s;
    return 0;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    free(s->keys);
    free(s->sums);
    free(s->counts);
    free(s->touched);
    free(s->bias);
    free(s);
}
