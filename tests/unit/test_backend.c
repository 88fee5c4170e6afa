/* The CPU backend: what it refuses, and what packing takes. kernelcheck has its arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/cpu.h"

static struct backend *backend(enum precision precision)
{
    struct backend    *b = NULL;
    struct cpu_options o = {.threads = 2, .level = -1, .precision = precision};
    assert_int_equal(cpu_backend_new(&b, &o, NULL), 0);
    return b;
}

static void test_levels(void **state)
{
    (void)state;
    for (int l = -1; l <= CPU_LEVELS; l++) {
        struct backend    *b = NULL;
        struct cpu_options o = {.threads = 1, .level = l};
        struct error       e = {0};
        int                rc = cpu_backend_new(&b, &o, &e);
        if (l >= 0 && !cpu_level_runs((enum cpu_level)l)) {
            assert_int_equal(rc, ERR_INVALID);
            assert_null(b);
            assert_string_equal(e.param, "cpu-level");
            if (l < CPU_LEVELS) {
                assert_non_null(strstr(e.msg, cpu_level_name((enum cpu_level)l)));
                assert_non_null(strstr(e.msg, cpu_level_name(cpu_level_detect())));
            }
            continue;
        }
        assert_int_equal(rc, 0);
        assert_int_equal(cpu_backend_level(b), l < 0 ? cpu_level_detect() : (enum cpu_level)l);
        assert_int_equal(cpu_backend_threads(b), 1);
        b->free(b);
    }
}

static void test_threads(void **state)
{
    (void)state;
    struct backend    *b = NULL;
    struct cpu_options o = {.threads = POOL_THREADS_MAX + 1, .level = -1};
    struct error       e = {0};
    assert_int_equal(cpu_backend_new(&b, &o, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "257"));
}

static void test_every_operation_is_there(void **state)
{
    (void)state;
    struct backend *b = backend(PRECISION_DEFAULT);
#define PRIM(name, params, args) assert_true(b->ops.name != NULL);
#define COMP PRIM
#include "tensor/ops.def"
#undef PRIM
#undef COMP
    b->free(b);
}

/* Bytes that packing [40, 128] takes: 3 tiles of 16 outputs behind a small head; nothing is held on to when refused. */
static void test_packed_size(void **state)
{
    (void)state;
    static const struct {
        int            bits;
        enum dtype     dtype;
        enum precision precision;
        size_t         tile;
    } cases[] = {
        {4, DTYPE_F16, PRECISION_DEFAULT, 16 * 128 / 2 + 2 * 2 * 16 * 2},
        {3, DTYPE_F32, PRECISION_DEFAULT, 16 * 128 * 3 / 8 + 2 * 2 * 16 * 4},
        {6, DTYPE_BF16, PRECISION_HIGH, 16 * 128 * 6 / 8 + 2 * 2 * 16 * 2},
        {8, DTYPE_F16, PRECISION_EXACT, 16 * 128 * 4},
        {0, DTYPE_BF16, PRECISION_DEFAULT, 16 * 128 * 2},
        {0, DTYPE_F32, PRECISION_EXACT, 16 * 128 * 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct backend *b = backend(cases[i].precision);
        void           *planes = calloc(40 * 128, 4);
        struct weight   w = {.name = "w", .n_out = 40, .n_in = 128, .dtype = cases[i].dtype, .data = planes};
        assert_non_null(planes);
        w.scales = w.biases = planes;
        if (cases[i].bits)
            w.quant = (struct quant){QUANT_AFFINE, cases[i].bits, 64, cases[i].dtype};
        size_t size = b->packed_size(b, &w, WEIGHT_LINEAR | WEIGHT_EMBED);
        assert_in_range(size, 3 * cases[i].tile, 3 * cases[i].tile + 192);
        assert_int_equal(b->packed_size(b, &w, WEIGHT_EMBED), 0);
        assert_int_equal(b->prepare(b, &w, WEIGHT_EMBED, NULL), 0);
        assert_null(w.packed);
        assert_int_equal(b->prepare(b, &w, WEIGHT_LINEAR, NULL), 0);
        assert_non_null(w.packed);
        b->release(b, &w);
        assert_null(w.packed);
        b->free(b);
        free(planes);
    }
}

static void test_vectors(void **state)
{
    (void)state;
    static const uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x7c00};
    static const float    want[] = {1, -2, 0x1p-24f, __builtin_inff()};
    struct backend       *b = backend(PRECISION_DEFAULT);
    struct weight         w = {.name = "norm", .n_out = 1, .n_in = 4, .dtype = DTYPE_F16, .data = half};
    struct error          e = {0};
    assert_int_equal(b->packed_size(b, &w, WEIGHT_VECTOR), sizeof want);
    assert_int_equal(b->prepare(b, &w, WEIGHT_VECTOR, &e), 0);
    assert_memory_equal(w.packed, want, sizeof want);
    b->release(b, &w);
    w.quant = (struct quant){QUANT_AFFINE, 4, 32, DTYPE_F16};
    assert_int_equal(b->prepare(b, &w, WEIGHT_VECTOR, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "norm"));
    assert_null(w.packed);
    b->free(b);
}

/* Sizes that overflow are refused before anything is allocated or read. */
static void test_too_large(void **state)
{
    (void)state;
    struct backend   *b = backend(PRECISION_DEFAULT);
    struct weight     w = {.name = "huge", .n_out = INT64_MAX / 2, .n_in = INT64_MAX / 2, .dtype = DTYPE_F32};
    struct error      e = {0};
    struct run_limits lim = {.n_row = INT64_MAX / 64, .n_in = 4096, .n_head = 1, .n_kv_head = 1, .head_dim = 64};
    assert_int_equal(b->packed_size(b, &w, WEIGHT_LINEAR), SIZE_MAX);
    assert_int_equal(b->packed_size(b, &w, WEIGHT_VECTOR), SIZE_MAX);
    assert_int_equal(b->prepare(b, &w, WEIGHT_LINEAR, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "huge"));
    assert_int_equal(b->prepare(b, &w, WEIGHT_VECTOR, &e), ERR_LIMIT);
    assert_int_equal(b->reserve(b, &lim, &e), ERR_LIMIT);
    b->free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_every_operation_is_there),
        cmocka_unit_test(test_packed_size),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
