/* A model in two parts, layers [0, k) and [k, n), computes what the whole does, to the last bit, over any checkpoint and with
 * an adapter of the whole model:
 *
 *     check_range DIR [ADAPTER]
 *
 * Every k is tried; where the model cannot be divided there (layers that are one in the files, or that share what an indexer
 * chose), the load says so. Prints at how many places it could be. tests/families drives it. */
#include <stdio.h>
#include <string.h>

#include "support/stage.h"

enum { FIRST = 19 }; /* rows of the first step; the second has the rest */

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "check_range: %s: %s\n", what, why);
    exit(1);
}

/* The logits of both steps. */
static void run(struct stage *a, struct stage *b, float *logits)
{
    struct stage *last = b ? b : a;
    int           n_vocab = last->f.model->desc.n_vocab;
    for (int first = 0; first < STAGE_ROWS; first = first ? STAGE_ROWS : FIRST) {
        int n = first ? STAGE_ROWS - FIRST : FIRST;
        stage_run(a, NULL, first, n);
        if (b)
            stage_run(b, a, first, n);
        for (int i = 0; i < n; i++)
            memcpy(logits + (size_t)(first + i) * (size_t)n_vocab, tensor_row(last->act.logits, i),
                   (size_t)n_vocab * sizeof(float));
    }
}

/* False: layer k belongs to the one before. */
static bool divide(const char *dir, const char *adapter, int k, float *logits)
{
    struct stage a, b;
    struct error e = {0};
    int          err = stage_open(&a, dir, adapter, 1, 0, k, &e), other = 0;
    if (err && err != ERR_INVALID)
        fail("the first part", e.msg);
    other = stage_open(&b, dir, adapter, 1, k, 0, &e);
    if (other && other != ERR_INVALID)
        fail("the second part", e.msg);
    if (!err && !other)
        run(&a, &b, logits);
    stage_close(&a);
    stage_close(&b);
    return !err && !other;
}

static int check(const char *dir, const char *adapter)
{
    struct stage whole;
    struct error e = {0};
    int          n_divided = 0;
    if (stage_open(&whole, dir, adapter, 1, 0, 0, &e))
        fail("the whole", e.msg);
    size_t n = (size_t)whole.f.model->desc.n_vocab * STAGE_ROWS;
    int    n_layer = whole.f.model->desc.n_layer;
    float *wanted = calloc(2 * n, sizeof *wanted), *found = wanted + n;
    if (!wanted)
        fail("the logits", "out of memory");
    run(&whole, NULL, wanted);
    stage_close(&whole);
    for (int k = 1; k < n_layer; k++) {
        if (!divide(dir, adapter, k, found))
            continue;
        n_divided++;
        if (memcmp(found, wanted, n * sizeof *found))
            fail(adapter ? adapter : dir, "the two parts compute something else than the whole");
    }
    free(wanted);
    return n_divided;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: check_range DIR [ADAPTER]\n");
        return 2;
    }
    int n = check(argv[1], NULL);
    if (argc == 3 && check(argv[1], argv[2]) != n)
        fail(argv[2], "the model can be divided elsewhere with it");
    printf("%d\n", n);
    return 0;
}
