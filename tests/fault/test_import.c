/* Importing a GGUF file, making a sampler and listing the store while the n-th allocation fails, for every n: each time
 * one error, nothing left behind, and (under the address sanitizer) no leak. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "../support/fail_alloc.h"
#include "../support/scratch.h"
#include "convert/convert.h"
#include "hub/store.h"
#include "sample/sampler.h"

#define SWEEP_MAX 200000

static const struct convert_options replace = {.force = true};

static int import(struct error *e)
{
    return convert_gguf("tests/fuzz/corpus/convert/llama-q4_0", tmp_path(dir, "out"), &replace, e);
}

static int import_sentencepiece(struct error *e)
{
    return convert_gguf("tests/fuzz/corpus/convert/llama-spm", tmp_path(dir, "out"), &replace, e);
}

static int sampler(struct error *e)
{
    static const struct mlxcel_logit_bias bias = {1, 1};
    struct mlxcel_params                  p = {.temperature = 1, .penalty_window = -1, .presence_penalty = 1};
    struct sampler                       *s;
    p.logit_bias = &bias;
    p.n_logit_bias = 1;
    int code = sampler_new(&s, &p, 100, e);
    if (!code)
        sampler_free(s);
    return code;
}

static int list(struct error *e)
{
    struct store_roots r = {0};
    struct store_list  l;
    snprintf(r.own, sizeof r.own, "%s", dir);
    int code = store_list(&r, &l, e);
    if (!code)
        store_list_deinit(&l);
    return code;
}

static int resolve(struct error *e)
{
    struct store_roots r = {0};
    char              *path;
    snprintf(r.own, sizeof r.own, "%s", dir);
    int code = store_resolve(&r, "out", &path, e);
    if (!code)
        free(path);
    return code;
}

static int entries(void)
{
    DIR *d = opendir(dir);
    int  n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void sweep(const char *name, int (*call)(struct error *e))
{
    long n = 0;
    int  code, before = entries();
    do {
        struct error e = {0};
        failed = false;
        countdown = ++n;
        code = call(&e);
        countdown = -1;
        if (code) {
            assert_true(failed);
            if (code != ERR_NOMEM)
                fail_msg("%s, allocation %ld: code %d: %s", name, n, code, e.msg);
            assert_int_equal(entries(), before);
        }
    } while ((code || failed) && n < SWEEP_MAX);
    assert_int_equal(code, 0);
    print_message("%s: %ld allocations\n", name, n - 1);
}

static void every_allocation(void **state)
{
    (void)state;
    json_set_alloc_funcs(__wrap_malloc, free);
    assert_int_equal(import(NULL), 0);
    sweep("import", import);
    sweep("import of SentencePiece", import_sentencepiece);
    sweep("sampler", sampler);
    sweep("list", list);
    sweep("resolve", resolve);
}

/* Thousands of small files, each synced. */
static int setup_in_memory(void **state)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation)};
    return cmocka_run_group_tests(tests, setup_in_memory, teardown);
}
