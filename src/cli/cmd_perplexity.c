/* `perplexity`: how well a model foretells a text, and how far a faster precision is from the exact one.
 *
 * The text's ids are cut into windows of -c tokens, each computed from an empty cache (with the tokenizer's own first
 * token, such as bos, before it, if it has one). Of every window all tokens but its first are foretold:
 *
 *   perplexity   exp of the mean of -ln p(token | the tokens before it in its window)
 *   --kl-against the mean over the same positions of the divergence sum p ln(p / q) between the distributions p of the
 *                other precision and q of this one, and how often both hold the same token likeliest
 *
 * Two models are open while two precisions are compared.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cli/api.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"

struct sums {
    int64_t n, windows;                 /* foretold tokens */
    double  nll, nll_other, kl, kl_max; /* sums, but kl_max */
    int64_t same;                       /* positions where both hold the same token likeliest */
};

struct measure {
    struct mlxcel *m, *other; /* other: of --kl-against, or NULL */
    int            n_vocab;
    float         *logits, *other_logits; /* [window, n_vocab] */
    struct sums    s;
};

/* --- one position ----------------------------------------------------------------------------------------------- */

/* The greatest logit's place; *log_sum is ln of the sum of exp(logits). */
static int log_sum_exp(const float *x, int n, double *log_sum)
{
    int    top = 0;
    double sum = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[top])
            top = i;
    for (int i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)x[top]);
    *log_sum = (double)x[top] + log(sum);
    return top;
}

static void add_position(struct measure *k, const float *q, const float *p, int32_t next)
{
    double log_q, log_p, kl = 0;
    int    top_q = log_sum_exp(q, k->n_vocab, &log_q);
    k->s.n++;
    k->s.nll += log_q - (double)q[next];
    if (!p)
        return;
    int top_p = log_sum_exp(p, k->n_vocab, &log_p);
    for (int i = 0; i < k->n_vocab; i++) {
        double lp = (double)p[i] - log_p;
        kl += exp(lp) * (lp - ((double)q[i] - log_q));
    }
    k->s.nll_other += log_p - (double)p[next];
    k->s.kl += kl;
    k->s.kl_max = MAX(k->s.kl_max, kl);
    k->s.same += top_p == top_q;
}

/* --- windows ---------------------------------------------------------------------------------------------------- */

static int window(struct measure *k, const int32_t *ids, size_t n, size_t first, struct error *e)
{
    struct mlxcel_error fault = {0};
    if (mlxcel_logits(k->m, ids, n, 0, k->logits, &fault) ||
        (k->other && mlxcel_logits(k->other, ids, n, 0, k->other_logits, &fault)))
        return api_fault(&fault, e);
    for (size_t i = first; i + 1 < n; i++) {
        size_t at = i * (size_t)k->n_vocab;
        add_position(k, k->logits + at, k->other ? k->other_logits + at : NULL, ids[i + 1]);
    }
    k->s.windows++;
    if (!isfinite(k->s.nll) || !isfinite(k->s.nll_other) || !isfinite(k->s.kl))
        return error_set(e, ERR_INTERNAL, NULL, "the model computed logits that are not numbers");
    return interrupt_pending() ? error_set(e, ERR_CANCELLED, NULL, "interrupted") : 0;
}

/* The ids that the tokenizer puts before every text, such as bos: what stands before those of the text alone. */
static int leading_ids(struct mlxcel *m, struct ids *lead, struct error *e)
{
    struct mlxcel_error fault = {0};
    int32_t            *with = NULL, *without = NULL;
    size_t              n = 0, k = 0;
    bool                ok = true;
    if (mlxcel_tokenize(m, "a", 1, MLXCEL_ADD_SPECIAL, &with, &n, &fault) ||
        mlxcel_tokenize(m, "a", 1, 0, &without, &k, &fault)) {
        mlxcel_free(with);
        return api_fault(&fault, e);
    }
    for (size_t i = 0; k && i < n && with[i] != without[0] && ok; i++)
        ok = ids_push(lead, with[i]);
    mlxcel_free(with);
    mlxcel_free(without);
    return ok ? 0 : error_nomem(e, "the ids");
}

static int all_windows(struct measure *k, const struct ids *lead, const int32_t *ids, size_t n, size_t size,
                       struct error *e)
{
    size_t   room = size - lead->n, floats;
    int32_t *w = malloc(size * sizeof *w);
    int      err = 0;
    if (num_mul(size, (size_t)k->n_vocab, &floats) && floats <= SIZE_MAX / sizeof *k->logits) {
        k->logits = malloc(floats * sizeof *k->logits);
        k->other_logits = k->other ? malloc(floats * sizeof *k->logits) : NULL;
    }
    if (!w || !k->logits || (k->other && !k->other_logits)) {
        free(w);
        return error_nomem(e, "the logits of a window; a smaller one is chosen with -c");
    }
    for (size_t at = 0; at < n && !err; at += room) {
        size_t m = MIN(n - at, room);
        if (lead->n)
            memcpy(w, lead->v, lead->n * sizeof *w);
        memcpy(w + lead->n, ids + at, m * sizeof *w);
        if (m > 1) /* one token alone foretells nothing */
            err = window(k, w, lead->n + m, lead->n, e);
    }
    free(w);
    return err;
}

/* --- the command ------------------------------------------------------------------------------------------------ */

/* As JSON has it, without infinity. */
static double finite_exp(double x)
{
    return fmin(exp(x), DBL_MAX);
}

static int print(const struct options *o, const struct measure *k, struct error *e)
{
    const struct sums *s = &k->s;
    double             n = (double)s->n, nll = s->nll / n;
    struct mlxcel_info info;
    json_t            *j;
    mlxcel_get_info(k->m, &info);
    if (!o->json) {
        out_printf("perplexity  %.4f over %lld tokens in %lld windows, precision %s\n", exp(nll), (long long)s->n,
                   (long long)s->windows, info.precision);
        if (k->other)
            out_printf(
                "against %s: perplexity %.4f, mean KL divergence %.3e (most %.3e), same likeliest token %.2f%%\n",
                o->kl_against, exp(s->nll_other / n), s->kl / n, s->kl_max, 100 * (double)s->same / n);
        return 0;
    }
    j = json_pack("{s:s, s:s, s:I, s:I, s:f, s:f}", "model", info.name, "precision", info.precision, "tokens",
                  (json_int_t)s->n, "windows", (json_int_t)s->windows, "perplexity", finite_exp(nll), "nll", nll);
    if (j && k->other)
        json_object_update_new(j, json_pack("{s:s, s:f, s:f, s:f, s:f}", "kl_against", o->kl_against,
                                            "perplexity_against", finite_exp(s->nll_other / n), "kl_mean", s->kl / n,
                                            "kl_max", s->kl_max, "top1_agreement", (double)s->same / n));
    return output_json(j, e);
}

static int run(const struct options *o, struct measure *k, struct error *e)
{
    struct mlxcel_error fault = {0};
    struct mlxcel_info  info;
    struct ids          lead = {0};
    struct buf          text;
    int32_t            *ids = NULL;
    size_t              n = 0;
    mlxcel_get_info(k->m, &info);
    k->n_vocab = info.n_vocab;
    int err = input_read(&text, o->prompt_file, e);
    if (!err && mlxcel_tokenize(k->m, buf_cstr(&text), text.n, 0, &ids, &n, &fault))
        err = api_fault(&fault, e);
    for (size_t i = 0; i < n && !err; i++)
        if (ids[i] >= info.n_vocab)
            err = error_set(e, ERR_INVALID, NULL, "the tokenizer gives id %d, outside the model's 0..%d", ids[i],
                            info.n_vocab - 1);
    if (!err && n < 2)
        err =
            error_set(e, ERR_INVALID, NULL, "%s has %zu tokens, at least 2 are needed", input_name(o->prompt_file), n);
    if (!err)
        err = leading_ids(k->m, &lead, e);
    if (!err && lead.n + 2 > (size_t)info.context)
        err = error_set(e, ERR_INVALID, "ctx-size", "windows of %d tokens are too small, at least %zu are needed",
                        info.context, lead.n + 2);
    if (!err)
        err = all_windows(k, &lead, ids, n, (size_t)info.context, e);
    if (!err)
        err = print(o, k, e);
    mlxcel_free(ids);
    ids_deinit(&lead);
    buf_deinit(&text);
    return err;
}

int cmd_perplexity(const struct options *o, struct error *e)
{
    struct mlxcel_options options;
    struct measure        k = {0};
    bool                  compare = strcmp(o->kl_against, "none") != 0;
    int                   err = api_options(o, &options, e);
    if (err)
        return err;
    options.no_prefix_cache = true;
    options.context = (int)o->context;
    err = api_open(&k.m, o->model, &options, e);
    options.cache_type_k = options.cache_type_v = MLXCEL_CACHE_AUTO;
    options.precision = !strcmp(o->kl_against, "exact") ? MLXCEL_PRECISION_EXACT : MLXCEL_PRECISION_HIGH;
    if (!err && compare)
        err = api_open(&k.other, o->model, &options, e);
    interrupt_hold(true);
    if (!err)
        err = run(o, &k, e);
    interrupt_hold(false);
    free(k.logits);
    free(k.other_logits);
    mlxcel_close(k.m);
    mlxcel_close(k.other);
    return err;
}
