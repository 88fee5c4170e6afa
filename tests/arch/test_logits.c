/* Every fixture of tests/data/arch through the forward pass: the exact logits are the reference's, at every CPU level
 * this machine has, for the whole prompt at once and for pieces of seven rows. test_arch.py asks the same of the
 * program; this one also runs under the sanitizers, and without a command line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>

#include "base/num.h"
#include "cache/pages.h"
#include "formats/safetensors.h"
#include "support/fixture.h"

#define FIXTURES "tests/data/arch"
#define PAGE_TOKENS 64
#define TOLERANCE 1e-3 /* of the standard deviation of the reference's logits */

/* expected.safetensors, read whole. */
struct expected {
    char              *file;
    struct safetensors s;
    const int32_t     *tokens; /* [n]: copied, the file need not be aligned */
    float             *logits; /* [n][n_vocab] */
    int                n, n_vocab;
};

static void *copy_of(const struct safetensors *s, const char *name, int64_t *shape)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct tensor_view *t = &s->tensors[i];
        if (strcmp(t->name, name))
            continue;
        void *copy = malloc(t->size);
        assert_non_null(copy);
        memcpy(shape, t->shape, sizeof t->shape);
        return memcpy(copy, t->data, t->size);
    }
    fail_msg("expected.safetensors has no %s", name);
    return NULL;
}

static void expected_read(struct expected *x, const char *dir)
{
    char         path[512];
    int64_t      shape[TENSOR_DIMS_MAX];
    struct error e = {0};
    snprintf(path, sizeof path, "%s/expected.safetensors", dir);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(f);
    rewind(f);
    x->file = malloc(size);
    assert_non_null(x->file);
    assert_int_equal(fread(x->file, 1, size, f), size);
    fclose(f);
    assert_int_equal(safetensors_parse(&x->s, x->file, size, path, &e), 0);
    x->tokens = copy_of(&x->s, "tokens", shape);
    x->logits = copy_of(&x->s, "logits", shape);
    x->n = (int)shape[0];
    x->n_vocab = (int)shape[1];
}

static void expected_free(struct expected *x)
{
    free((void *)x->tokens);
    free(x->logits);
    safetensors_deinit(&x->s);
    free(x->file);
}

static double deviation(const float *v, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i];
    for (size_t i = 0; i < n; i++)
        squares += ((double)v[i] - sum / (double)n) * ((double)v[i] - sum / (double)n);
    return sqrt(squares / (double)n);
}

/* The logits of x's tokens, `chunk` rows a step, into out[n][n_vocab]. */
static void compute(const struct fixture *f, const struct expected *x, int chunk, float *out)
{
    struct run_limits  lim = f->model->limits;
    struct activations act;
    struct page_pool  *pool;
    struct page_table  pages = {0};
    struct error       e = {0};
    int32_t           *position = malloc((size_t)x->n * sizeof *position), *seq = calloc((size_t)x->n, sizeof *seq);
    void              *state = state_new(f->model);
    assert_true(position && seq);
    for (int i = 0; i < x->n; i++)
        position[i] = i;
    lim.n_row = chunk;
    lim.n_key = x->n;
    assert_int_equal(f->backend->reserve(f->backend, &lim, &e), 0);
    assert_int_equal(activations_init(&act, f->model, chunk, chunk, &e), 0);
    assert_int_equal(page_pool_new(&pool, f->model->page_bytes, PAGE_TOKENS, 100, &e), 0);
    assert_int_equal(page_table_grow(&pages, pool, x->n, &e), 0);
    for (int done = 0; done < x->n; done += chunk) {
        int                n = MIN(chunk, x->n - done);
        void *const *const table = pages.v;
        struct step        step = {.n_row = n,
                                   .token = x->tokens + done,
                                   .position = position + done,
                                   .seq = seq,
                                   .pages = &table,
                                   .state = &state,
                                   .n_seq = 1,
                                   .n_logit = n,
                                   .logit_row = position};
        struct run         run = {.backend = f->backend, .step = &step};
        model_forward(f->model, &run, &act);
        model_logits(f->model, &run, &act, 0, n);
        for (int i = 0; i < n; i++)
            memcpy(out + (size_t)(done + i) * (size_t)x->n_vocab, tensor_row(act.logits, i),
                   (size_t)x->n_vocab * sizeof(float));
    }
    page_table_deinit(&pages, pool);
    page_pool_free(pool);
    activations_deinit(&act);
    free(position);
    free(seq);
    free(state);
}

static void check(const char *dir, enum cpu_level level)
{
    struct expected x;
    struct fixture  f;
    expected_read(&x, dir);
    size_t n = (size_t)x.n * (size_t)x.n_vocab;
    double limit = TOLERANCE * deviation(x.logits, n);
    float *found = malloc(n * sizeof *found);
    assert_non_null(found);
    fixture_open(&f, dir, 1, (int)level, PRECISION_EXACT, PAGE_TOKENS);
    assert_int_equal(f.model->desc.n_vocab, x.n_vocab);
    const int chunks[] = {x.n, 7};
    for (size_t c = 0; c < 2; c++) {
        compute(&f, &x, chunks[c], found);
        for (size_t i = 0; i < n; i++)
            if (!(fabs((double)found[i] - (double)x.logits[i]) <= limit))
                fail_msg("%s, level %s, %d rows a step: position %zu, id %zu is %g, needed %g +- %g", dir,
                         cpu_level_name(level), chunks[c], i / (size_t)x.n_vocab, i % (size_t)x.n_vocab,
                         (double)found[i], (double)x.logits[i], limit);
    }
    fixture_close(&f);
    free(found);
    expected_free(&x);
}

static void test_level(void **state)
{
    enum cpu_level level = *(const enum cpu_level *)*state;
    struct dirent *entry;
    int            n = 0;
    if (!cpu_level_runs(level))
        skip();
    DIR *d = opendir(FIXTURES);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        char dir[512];
        snprintf(dir, sizeof dir, FIXTURES "/%s", entry->d_name);
        if (entry->d_name[0] != '.') {
            check(dir, level);
            n++;
        }
    }
    closedir(d);
    assert_true(n > 0);
}

int main(void)
{
    static enum cpu_level levels[CPU_LEVELS];
    struct CMUnitTest     tests[CPU_LEVELS];
    for (int i = 0; i < CPU_LEVELS; i++) {
        levels[i] = (enum cpu_level)i;
        tests[i] = (struct CMUnitTest){cpu_level_name(levels[i]), test_level, NULL, NULL, &levels[i]};
    }
    return cmocka_run_group_tests_name("logits of every fixture", tests, NULL, NULL);
}
