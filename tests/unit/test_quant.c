/* src/quant against MLX's own planes (tests/data/quant, made by tools/make_quant_fixture.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "formats/tensor_view.h"
#include "quant/quant.h"

enum { ROWS = 4, FLOAT_ROWS = 8, K = 256 };

static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const int        widths[] = {2, 3, 4, 5, 6, 8};
static const int        groups[] = {32, 64, 128};

static float widen(enum dtype d, const void *p, int64_t i)
{
    uint16_t h;
    float    f;
    if (d == DTYPE_F32) {
        memcpy(&f, (const char *)p + 4 * i, 4);
        return f;
    }
    memcpy(&h, (const char *)p + 2 * i, 2);
    return d == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

static void read_exactly(FILE *f, void *p, size_t n)
{
    assert_int_equal(fread(p, 1, n, f), n);
}

/* One set of planes: encoding w gives them, and decoding them gives scale * code + bias. */
static void check_case(FILE *f, const struct quant *q, const float *w)
{
    uint8_t codes[ROWS * K], scales[ROWS * 8 * 4], biases[ROWS * 8 * 4], got[3][K], ints[K], packed[K];
    float   out[K];
    size_t  row = quant_row_bytes(q, K), srow = quant_scale_row_bytes(q, K);
    read_exactly(f, codes, ROWS * row);
    read_exactly(f, scales, ROWS * srow);
    read_exactly(f, biases, ROWS * srow);
    for (int r = 0; r < ROWS; r++) {
        const uint8_t *c = codes + (size_t)r * row, *s = scales + (size_t)r * srow, *b = biases + (size_t)r * srow;
        quant_encode_row(q, w + r * K, K, got[0], got[1], got[2]);
        assert_memory_equal(got[1], s, srow);
        assert_memory_equal(got[2], b, srow);
        assert_memory_equal(got[0], c, row);
        quant_codes_row(q, c, K, ints);
        quant_pack_row(q, ints, K, packed);
        assert_memory_equal(packed, c, row);
        quant_decode_row(q, c, s, b, K, out);
        for (int i = 0; i < K; i++) {
            int   bit = i * q->bits;
            int   code = (c[bit / 8] | (bit / 8 + 1 < (int)row ? c[bit / 8 + 1] << 8 : 0)) >> bit % 8;
            float sv = widen(q->scale_dtype, s, i / q->group), bv = widen(q->scale_dtype, b, i / q->group);
            assert_int_equal(ints[i], code & ((1 << q->bits) - 1));
            volatile float prod = sv * (float)ints[i];
            assert_true(out[i] == prod + bv);
        }
        float part[K] = {0}; /* the first elements alone: within a group, a pack and a byte */
        quant_decode_row(q, c, s, b, K - 45, part);
        assert_memory_equal(part, out, (K - 45) * sizeof *out);
        assert_true(part[K - 45] == 0);
    }
}

static void test_planes_of_mlx(void **state)
{
    (void)state;
    FILE *f = fopen("tests/data/quant/affine.bin", "rb");
    assert_non_null(f);
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        uint8_t stored[ROWS * K * 4];
        float   w[ROWS * K];
        read_exactly(f, stored, ROWS * K * dtype_size(types[t]));
        for (int i = 0; i < ROWS * K; i++)
            w[i] = widen(types[t], stored, i);
        for (size_t b = 0; b < ARRAY_LEN(widths); b++)
            for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
                struct quant q = {QUANT_AFFINE, widths[b], groups[g], types[t]};
                check_case(f, &q, w);
            }
    }
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

/* The float modes: planes from w, values from planes. */
static void test_float_planes_of_mlx(void **state)
{
    (void)state;
    static const struct quant modes[] = {
        {QUANT_MXFP4, 4, 32, DTYPE_U8}, {QUANT_MXFP8, 8, 32, DTYPE_U8}, {QUANT_NVFP4, 4, 16, DTYPE_U8}};
    static float w[FLOAT_ROWS * K], values[FLOAT_ROWS * K];
    uint8_t      codes[FLOAT_ROWS * K], scales[FLOAT_ROWS * K / 16];
    FILE        *f = fopen("tests/data/quant/floats.bin", "rb");
    assert_non_null(f);
    read_exactly(f, w, sizeof w);
    for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
        const struct quant *q = &modes[m];
        size_t              row = quant_row_bytes(q, K), srow = quant_scale_row_bytes(q, K);
        read_exactly(f, codes, FLOAT_ROWS * row);
        read_exactly(f, scales, FLOAT_ROWS * srow);
        read_exactly(f, values, sizeof values);
        for (size_t r = 0; r < FLOAT_ROWS; r++) {
            uint8_t got[K], got_scales[K / 16], ints[K], packed[K];
            float   out[K];
            quant_encode_row(q, w + r * K, K, got, got_scales, NULL);
            assert_memory_equal(got_scales, scales + r * srow, srow);
            assert_memory_equal(got, codes + r * row, row);
            quant_codes_row(q, got, K, ints);
            quant_pack_row(q, ints, K, packed);
            assert_memory_equal(packed, got, row);
            quant_decode_row(q, got, got_scales, NULL, K, out);
            for (int i = 0; i < K; i++)
                if (out[i] != values[r * K + (size_t)i])
                    fail_msg("%s, row %zu, %d: %g, wanted %g", quant_mode_name(q->mode), r, i, out[i],
                             values[r * K + (size_t)i]);
        }
    }
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

/* Scales at the ends of their range; what MLX stores modulo 256 stays at the least. */
static void test_float_ends(void **state)
{
    (void)state;
    struct quant q = {QUANT_MXFP4, 4, 32, DTYPE_U8};
    float        w[32] = {1e-40f}, out[32];
    uint8_t      codes[16], scale;
    quant_encode_row(&q, w, 32, codes, &scale, NULL);
    assert_int_equal(scale, 0);
    quant_decode_row(&q, codes, &scale, NULL, 32, out);
    assert_true(out[0] >= 0 && out[0] < 1e-38f);
    assert_true(quant_e8m0_value(0) == 0x1p-127f);
    assert_true(quant_e8m0_value(255) > 3.4e38f);
    assert_true(quant_e4m3_value(0x7e) == 448 && quant_e4m3_value(0xff) == -480 && quant_e4m3_value(1) == 0x1p-9f);
}

/* Bit order, by hand: widths that do not divide a byte. */
static void test_bit_order(void **state)
{
    (void)state;
    static const struct {
        int     bits, n;
        uint8_t codes[8], bytes[5];
    } cases[] = {
        {3, 8, {0, 1, 2, 3, 4, 5, 6, 7}, {0x88, 0xc6, 0xfa}},
        {5, 8, {0, 1, 2, 3, 4, 5, 6, 7}, {0x20, 0x88, 0x41, 0x8a, 0x39}},
        {6, 4, {0, 1, 2, 3}, {0x40, 0x20, 0x0c}},
        {4, 3, {1, 2, 3}, {0x21, 0x03}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct quant q = {QUANT_AFFINE, cases[i].bits, 32, DTYPE_F16};
        uint8_t      out[8];
        size_t       bytes = (size_t)(cases[i].n * cases[i].bits + 7) / 8;
        quant_pack_row(&q, cases[i].codes, cases[i].n, out);
        assert_memory_equal(out, cases[i].bytes, bytes);
        quant_codes_row(&q, cases[i].bytes, cases[i].n, out);
        assert_memory_equal(out, cases[i].codes, (size_t)cases[i].n);
    }
}

static void test_names(void **state)
{
    (void)state;
    for (int m = QUANT_NONE + 1; m < QUANT_FP8; m++)
        assert_int_equal(quant_mode_from_name(quant_mode_name((enum quant_mode)m)), m);
    assert_int_equal(quant_mode_from_name("gptq"), QUANT_NONE);
    assert_int_equal(quant_mode_from_name("none"), QUANT_NONE);
    assert_int_equal(quant_mode_from_name("fp8"), QUANT_NONE); /* no mode of MLX */
}

static struct tensor_view view(const char *name, enum dtype d, int64_t rows, int64_t cols)
{
    return (struct tensor_view){
        .name = name, .file = "model.safetensors", .dtype = d, .n_dim = 2, .shape = {rows, cols}};
}

static void test_from_planes(void **state)
{
    (void)state;
    for (size_t b = 0; b < ARRAY_LEN(widths); b++)
        for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
            struct tensor_view w = view("a.weight", DTYPE_U32, 5, 128 * widths[b] / 32);
            struct tensor_view s = view("a.scales", types[g], 5, 128 / groups[g]), c = s;
            struct faults      f = {0};
            struct quant       q;
            assert_int_equal(quant_from_planes(&q, &w, &s, &c, 128, &f), 0);
            assert_int_equal(q.mode, QUANT_AFFINE);
            assert_int_equal(q.bits, widths[b]);
            assert_int_equal(q.group, groups[g]);
            assert_int_equal(q.scale_dtype, types[g]);
            assert_int_equal(quant_row_bytes(&q, 128), w.shape[1] * 4);
            faults_deinit(&f);
        }
}

static void test_from_float_planes(void **state)
{
    (void)state;
    static const struct {
        int             cols, s_cols;
        enum quant_mode mode;
        int             bits, group;
    } cases[] = {{16, 4, QUANT_MXFP4, 4, 32}, {32, 4, QUANT_MXFP8, 8, 32}, {16, 8, QUANT_NVFP4, 4, 16}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tensor_view w = view("a.weight", DTYPE_U32, 5, cases[i].cols);
        struct tensor_view s = view("a.scales", DTYPE_U8, 5, cases[i].s_cols);
        struct faults      f = {0};
        struct quant       q;
        assert_int_equal(quant_from_planes(&q, &w, &s, NULL, 128, &f), 0);
        assert_int_equal(q.mode, cases[i].mode);
        assert_int_equal(q.bits, cases[i].bits);
        assert_int_equal(q.group, cases[i].group);
        assert_int_equal(quant_row_bytes(&q, 128), cases[i].cols * 4);
        assert_int_equal(quant_scale_row_bytes(&q, 128), cases[i].s_cols);
        faults_deinit(&f);
    }
}

/* Every misfit is one fault of its code whose sentence holds the words. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        enum dtype  w, s, b; /* b DTYPE_NONE: no biases */
        int64_t     cols, s_rows, s_cols, b_cols, K;
        int         code;
        const char *words;
    } cases[] = {
        {DTYPE_I32, DTYPE_F16, DTYPE_F16, 16, 5, 2, 2, 128, ERR_MISFIT, "'a.weight' is I32 [5, 16]"},
        {DTYPE_U32, DTYPE_I8, DTYPE_I8, 16, 5, 2, 2, 128, ERR_MISFIT, "needed scales of type F16, BF16, F32 or U8"},
        {DTYPE_U32, DTYPE_F16, DTYPE_F16, 16, 4, 2, 2, 128, ERR_MISFIT, "'a.scales' is F16 [4, 2] beside 'a.weight'"},
        {DTYPE_U32, DTYPE_F16, DTYPE_NONE, 16, 5, 2, 2, 128, ERR_MISFIT, "needed also a biases plane"},
        {DTYPE_U32, DTYPE_U8, DTYPE_U8, 16, 5, 4, 4, 128, ERR_MISFIT, "no biases plane"},
        {DTYPE_U32, DTYPE_F16, DTYPE_BF16, 16, 5, 2, 2, 128, ERR_MISFIT, "the type and shape of the scales"},
        {DTYPE_U32, DTYPE_F16, DTYPE_F16, 16, 5, 2, 1, 128, ERR_MISFIT, "'a.biases' is F16 [5, 1]"},
        {DTYPE_U32, DTYPE_F16, DTYPE_F16, 28, 5, 2, 2, 128, ERR_MISFIT,
         "does not hold rows of 128 inputs"}, /* 7 bits */
        {DTYPE_U32, DTYPE_F16, DTYPE_F16, 17, 5, 2, 2, 128, ERR_MISFIT, "does not hold"},
        {DTYPE_U32, DTYPE_F16, DTYPE_F16, 16, 5, 8, 8, 128, ERR_MISFIT, "does not hold"}, /* group 16 */
        {DTYPE_U32, DTYPE_F16, DTYPE_F16, 16, 5, 3, 3, 128, ERR_MISFIT, "does not hold"},
        {DTYPE_U32, DTYPE_F16, DTYPE_F16, 16, 5, 0, 0, 128, ERR_MISFIT, "does not hold"},
        {DTYPE_U32, DTYPE_F16, DTYPE_F16, 16, 5, 2, 2, 0, ERR_MISFIT, "does not hold"},
        {DTYPE_U32, DTYPE_F16, DTYPE_F16, INT64_MAX / 2, 5, 2, 2, 128, ERR_MISFIT, "does not hold"},
        {DTYPE_U32, DTYPE_U8, DTYPE_NONE, 32, 5, 8, 0, 128, ERR_MISFIT, "does not hold"}, /* 8 bits in 16s */
        {DTYPE_U32, DTYPE_U8, DTYPE_NONE, 8, 5, 4, 0, 128, ERR_MISFIT, "does not hold"},  /* 2 bits of floats */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tensor_view w = view("a.weight", cases[i].w, 5, cases[i].cols);
        struct tensor_view s = view("a.scales", cases[i].s, cases[i].s_rows, cases[i].s_cols);
        struct tensor_view b = view("a.biases", cases[i].b, 5, cases[i].b_cols);
        struct faults      f = {0};
        struct error       e = {0};
        struct quant       q;
        int                rc = quant_from_planes(&q, &w, &s, cases[i].b == DTYPE_NONE ? NULL : &b, cases[i].K, &f);
        assert_int_equal(rc, cases[i].code);
        assert_int_equal(faults_report(&f, &e), cases[i].code);
        if (!strstr(e.msg, cases[i].words))
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, e.msg, cases[i].words);
        faults_deinit(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planes_of_mlx),
        cmocka_unit_test(test_float_planes_of_mlx),
        cmocka_unit_test(test_float_ends),
        cmocka_unit_test(test_bit_order),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_from_planes),
        cmocka_unit_test(test_from_float_planes),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
