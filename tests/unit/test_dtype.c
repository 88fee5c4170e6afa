/* Element types, and the 16-bit float conversions over all their values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/half.h"
#include "formats/dtype.h"
#include "formats/tensor_view.h"

static void names_round_trip(void **state)
{
    (void)state;
    for (int d = DTYPE_NONE + 1; d < DTYPE_COUNT; d++) {
        assert_int_equal(dtype_from_name(str_of(dtype_name((enum dtype)d))), d);
        assert_true(dtype_bits((enum dtype)d) > 0);
    }
    assert_int_equal(dtype_from_name(STR("bf16")), DTYPE_NONE);
    assert_int_equal(dtype_from_name(STR("none")), DTYPE_NONE);
    assert_int_equal(dtype_from_name(STR("")), DTYPE_NONE);
    assert_string_equal(dtype_name((enum dtype)999), "none");
    assert_string_equal(dtype_name(DTYPE_F8_E8M0), "F8_E8M0");
}

static void sizes(void **state)
{
    (void)state;
    assert_int_equal(dtype_size(DTYPE_BF16), 2);
    assert_int_equal(dtype_size(DTYPE_F4), 0);
}

static void bytes_are_checked(void **state)
{
    (void)state;
    size_t n = 77;
    assert_true(dtype_bytes(DTYPE_F32, (int64_t[]){2, 3}, 2, &n));
    assert_int_equal(n, 24);
    assert_true(dtype_bytes(DTYPE_F32, NULL, 0, &n));
    assert_int_equal(n, 4);
    assert_true(dtype_bytes(DTYPE_F32, (int64_t[]){0, INT64_MAX}, 2, &n));
    assert_int_equal(n, 0);
    assert_true(dtype_bytes(DTYPE_F4, (int64_t[]){3, 2}, 2, &n));
    assert_int_equal(n, 3);
    assert_false(dtype_bytes(DTYPE_F4, (int64_t[]){3}, 1, &n));
    assert_false(dtype_bytes(DTYPE_U8, (int64_t[]){INT64_MAX, 2, 0}, 3, &n));
    assert_false(dtype_bytes(DTYPE_F32, (int64_t[]){INT64_MAX / 2}, 1, &n));
    assert_false(dtype_bytes(DTYPE_F32, (int64_t[]){-1}, 1, &n));
}

static void shape_text(void **state)
{
    (void)state;
    char               out[TENSOR_SHAPE_TEXT];
    struct tensor_view t = {.n_dim = 2, .shape = {32000, 4096}};
    assert_string_equal(tensor_view_shape_text(&t, out), "[32000, 4096]");
    assert_int_equal(tensor_view_elements(&t), 32000 * 4096);
    assert_string_equal(tensor_shape_text(NULL, 0, out), "[]");
    int64_t big[8] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    assert_int_equal(strlen(tensor_shape_text(big, 8, out)), 8 * 19 + 7 * 2 + 2);
}

/* Every float16 survives the way to float32 and back; between two neighbours the nearer wins, at the middle the even
 * one. */
static void f16_all(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00) {
            assert_true(isnan(f));
            assert_true((f32_to_f16(f) & 0x7fff) > 0x7c00);
            continue;
        }
        assert_int_equal(f32_to_f16(f), h);
        if ((h & 0x7fff) >= 0x7c00)
            continue;
        float next = (h & 0x7fff) == 0x7bff ? (h & 0x8000 ? -65536.0f : 65536.0f) : f16_to_f32((uint16_t)(h + 1));
        float middle = (f + next) / 2;
        assert_int_equal(f32_to_f16(middle), h & 1 ? h + 1 : h);
        assert_int_equal(f32_to_f16(nextafterf(middle, f)), h);
        assert_int_equal(f32_to_f16(nextafterf(middle, next)), h + 1);
    }
    assert_int_equal(f32_to_f16(1.0f), 0x3c00);
    assert_int_equal(f32_to_f16(-2.5f), 0xc100);
    assert_int_equal(f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(f32_to_f16(0x1p-149f), 0);
    assert_true(f16_to_f32(0x0001) == 0x1p-24f);
    assert_true(f16_to_f32(0x3555) == 0x1.554p-2f);
}

static void bf16_all(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = bf16_to_f32((uint16_t)h);
        if (isnan(f)) {
            assert_true(isnan(bf16_to_f32(f32_to_bf16(f))));
            continue;
        }
        assert_int_equal(f32_to_bf16(f), h);
        if (isinf(f))
            continue;
        assert_int_equal(f32_to_bf16(f32_from_bits(h << 16 | 0x8000)), h & 1 ? h + 1 : h);
        assert_int_equal(f32_to_bf16(f32_from_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(f32_to_bf16(f32_from_bits(h << 16 | 0x8001)), h + 1);
    }
    assert_true(isnan(bf16_to_f32(f32_to_bf16(f32_from_bits(0x7f800001)))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_round_trip), cmocka_unit_test(sizes),   cmocka_unit_test(bytes_are_checked),
        cmocka_unit_test(shape_text),       cmocka_unit_test(f16_all), cmocka_unit_test(bf16_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
