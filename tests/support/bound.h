/* Tests of adapt/bind.h: an adapter of a spec (adapter.h) bound to the hand-made table (table.h). */
#ifndef TESTS_SUPPORT_BOUND_H
#define TESTS_SUPPORT_BOUND_H

#include "adapt/bind.h"
#include "adapter.h"
#include "table.h"

#define BASE "base_model.model."
#define L0 "model.layers.0."
#define L1 "model.layers.1."
#define SCALE 2.0 /* of every config here */

/* Pairs of rank 4 of a module. */
#define MLX(name, in, out) name ".lora_a:F32:" #in "x4 " name ".lora_b:F32:4x" #out
#define PEFT(name, in, out) BASE name ".lora_A.weight:F32:4x" #in " " BASE name ".lora_B.weight:F32:" #out "x4"

static char *dir, *adapter_dir;

struct bound {
    struct table           t;
    struct adapter_file   *f;
    struct adapter_binding b;
};

static inline void load_table(struct table *t, const struct table_form *form, int lo, int hi)
{
    struct table_files f;
    struct error       e = {0};
    table_init(t);
    table_make(&f, t, form);
    table_write(&f, dir);
    if (table_bind(t, dir, false, lo, hi, &e))
        fail_msg("%s", e.msg);
}

static inline int bind(struct bound *b, const char *config, const char *spec, struct error *e)
{
    struct faults faults = {0};
    adapter_write(adapter_dir, config, spec);
    assert_int_equal(adapter_file_open(&b->f, adapter_dir, &faults, e), 0);
    assert_non_null(b->f);
    assert_int_equal(faults.n, 0);
    assert_int_equal(adapter_bind(&b->b, b->f, &b->t.m, &faults, e), 0);
    int code = faults_report(&faults, e);
    faults_deinit(&faults);
    return code;
}

static inline void release(struct bound *b)
{
    adapter_binding_deinit(&b->b);
    adapter_file_free(b->f);
}

static const struct table_form dense = {{0}, DTYPE_F32};
static const struct table_form q4 = {{QUANT_AFFINE, 4, 32, DTYPE_F16}, DTYPE_F16};

static inline int set_up(void **state)
{
    (void)state;
    dir = tmp_make();
    adapter_dir = tmp_make();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    tmp_remove(dir);
    tmp_remove(adapter_dir);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
