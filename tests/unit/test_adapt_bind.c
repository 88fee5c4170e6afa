/* Binding adapters to a table that has every kind of parameter: each layout's delta lands where the module's rows are.
 * test_adapt_bind_refused.c has what does not fit. */
#include "../support/bound.h"

/* --- deltas ------------------------------------------------------------------------------------------------------- */

/* Element [o][i] of what the adapter adds to the weight, over all its pairs. */
static double delta_of(const struct adapter_binding *b, const struct weight *w, int64_t o, int64_t i)
{
    double sum = 0;
    for (size_t k = 0; k < b->n_pair; k++) {
        const struct adapter_pair *p = &b->pair[k];
        if (p->weight != w || o < p->row || o >= p->row + p->b.n_row || i < p->col || i >= p->col + p->a.n_col)
            continue;
        assert_int_equal(p->a.n_row, p->b.n_col);
        for (int64_t j = 0; j < p->a.n_row; j++)
            sum += p->scale * (double)adapter_matrix_at(&p->b, o - p->row, j) *
                   (double)adapter_matrix_at(&p->a, j, i - p->col);
    }
    return sum;
}

/* Element (i, j) of a tensor of two dimensions that the test has written, n columns wide. */
static double stored(const char *name, int64_t i, int64_t j, int64_t n)
{
    return (double)adapter_value(name, i * n + j);
}

/* Element [o][i] of the module's delta by the format's own definition: x lora_a lora_b, or lora_B lora_A x. */
typedef double module_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in);

static double mlx_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    (void)n_in;
    snprintf(a, sizeof a, "%s.lora_a", name);
    snprintf(b, sizeof b, "%s.lora_b", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * stored(a, i, j, 4) * stored(b, j, o, n_out);
    return sum;
}

static double mlx_embedding_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    (void)n_out; /* lookup: lora_a[id] lora_b */
    return mlx_delta(name, i, o, n_in, 0);
}

static double peft_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    (void)n_out;
    snprintf(a, sizeof a, BASE "%s.lora_A.weight", name);
    snprintf(b, sizeof b, BASE "%s.lora_B.weight", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * stored(b, o, j, 4) * stored(a, j, i, n_in);
    return sum;
}

static double peft_embedding_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    (void)n_in;
    snprintf(a, sizeof a, BASE "%s.lora_embedding_A", name);
    snprintf(b, sizeof b, BASE "%s.lora_embedding_B", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * stored(a, j, o, n_out) * stored(b, i, j, 4);
    return sum;
}

/* The weight's rows [row, row + n) change by the module's rows from, from + step, ...; its other rows do not. */
static void check_delta(const struct bound *b, const struct weight *w, int64_t row, int64_t n, int64_t from,
                        int64_t step, module_delta *f, const char *name, int64_t n_out)
{
    for (int64_t o = 0; o < w->n_out; o++)
        for (int64_t i = 0; i < w->n_in; i++) {
            bool   inside = o >= row && o < row + n;
            double want = inside ? f(name, from + (o - row) * step, i, n_out, w->n_in) : 0;
            double got = delta_of(&b->b, w, o, i);
            if (!(want - got < 1e-5 && got - want < 1e-5))
                fail_msg("%s [%d][%d]: %g, not %g", name, (int)o, (int)i, got, want);
        }
}

static void good(struct bound *b, const char *config, const char *spec)
{
    struct error e = {0};
    if (bind(b, config, spec, &e))
        fail_msg("%s", e.msg);
}

static void test_linear(void **state)
{
    struct bound b;
    (void)state;
    for (int i = 0; i < 2; i++) {
        load_table(&b.t, i ? &q4 : &dense, 0, T_LAYERS);
        struct table_layer *l = &b.t.layer[1];
        good(&b, MLX_CONFIG, MLX(L1 "cross.q_proj", 64, 40));
        assert_int_equal(b.b.n_pair, 1);
        assert_int_equal(b.b.pair->uses, WEIGHT_LINEAR);
        check_delta(&b, &l->q, 0, T_Q, 0, 1, mlx_delta, L1 "cross.q_proj", T_Q);
        release(&b);
        good(&b, PEFT_CONFIG(""), PEFT(L1 "cross.q_proj", 64, 40));
        check_delta(&b, &l->q, 0, T_Q, 0, 1, peft_delta, L1 "cross.q_proj", T_Q);
        release(&b);
        table_deinit(&b.t);
    }
}

static void test_parts(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &q4, 0, T_LAYERS);
    struct table_layer *l = &b.t.layer[0];
    /* stored as one: a part of it, the whole */
    good(&b, MLX_CONFIG, MLX(L0 "self_attn.v_proj", 64, 24));
    check_delta(&b, &l->qkv, T_Q + T_KV, T_KV, 0, 1, mlx_delta, L0 "self_attn.v_proj", T_KV);
    release(&b);
    good(&b, PEFT_CONFIG(""), PEFT(L0 "self_attn.qkv_proj", 64, 88));
    check_delta(&b, &l->qkv, 0, T_Q + 2 * T_KV, 0, 1, peft_delta, L0 "self_attn.qkv_proj", T_Q + 2 * T_KV);
    release(&b);
    /* stored apart: the fused name */
    good(&b, MLX_CONFIG, MLX(L0 "cross.qkv_proj", 64, 88));
    assert_int_equal(b.b.n_pair, 3);
    check_delta(&b, &l->q, 0, T_Q, 0, 1, mlx_delta, L0 "cross.qkv_proj", 88);
    check_delta(&b, &l->k, 0, T_KV, T_Q, 1, mlx_delta, L0 "cross.qkv_proj", 88);
    check_delta(&b, &l->v, 0, T_KV, T_Q + T_KV, 1, mlx_delta, L0 "cross.qkv_proj", 88);
    release(&b);
    good(&b, PEFT_CONFIG(""), PEFT(L0 "cross.qkv_proj", 64, 88));
    check_delta(&b, &l->v, 0, T_KV, T_Q + T_KV, 1, peft_delta, L0 "cross.qkv_proj", 88);
    release(&b);
    table_deinit(&b.t);
}

static void test_embedding(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, MLX_CONFIG, "model.embed_tokens.lora_a:F32:72x4 model.embed_tokens.lora_b:F32:4x64");
    assert_int_equal(b.b.pair->uses, WEIGHT_EMBED | WEIGHT_LINEAR);
    check_delta(&b, &b.t.embed, 0, T_VOCAB, 0, 1, mlx_embedding_delta, "model.embed_tokens", T_VOCAB);
    release(&b);
    good(&b, PEFT_CONFIG(""),
         BASE "model.embed_tokens.lora_embedding_A:F32:4x72 " BASE "model.embed_tokens.lora_embedding_B:F32:64x4");
    assert_int_equal(b.b.pair->uses, WEIGHT_EMBED | WEIGHT_LINEAR);
    check_delta(&b, &b.t.embed, 0, T_VOCAB, 0, 1, peft_embedding_delta, "model.embed_tokens", T_VOCAB);
    release(&b);
    /* the tied head is a linear layer of its own */
    good(&b, MLX_CONFIG, MLX("lm_head", 64, 72));
    assert_int_equal(b.b.pair->uses, WEIGHT_LINEAR);
    check_delta(&b, &b.t.embed, 0, T_VOCAB, 0, 1, mlx_delta, "lm_head", T_VOCAB);
    release(&b);
    table_deinit(&b.t);
}

/* --- stacks ------------------------------------------------------------------------------------------------------- */

static double switch_delta(const char *name, int e, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    snprintf(a, sizeof a, "%s.lora_a", name);
    snprintf(b, sizeof b, "%s.lora_b", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * (double)adapter_value(b, (e * n_out + o) * 4 + j) *
               (double)adapter_value(a, (e * 4 + j) * n_in + i);
    return sum;
}

/* A expert by expert, B with the expert innermost. */
static double stack_delta(const char *name, int e, int64_t o, int64_t i, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    snprintf(a, sizeof a, BASE "%s.lora_A.weight", name);
    snprintf(b, sizeof b, BASE "%s.lora_B.weight", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * stored(b, o, j * T_EXPERTS + e, 4 * T_EXPERTS) * stored(a, e * 4 + j, i, n_in);
    return sum;
}

static void near(double got, double want)
{
    if (!(got - want < 1e-5 && want - got < 1e-5))
        fail_msg("%g, not %g", got, want);
}

static void test_switch(void **state)
{
    struct bound      b;
    const char *const name = L1 "mlp.switch_mlp.up_proj";
    (void)state;
    load_table(&b.t, &q4, 0, T_LAYERS);
    for (int old = 0; old < 2; old++) {
        good(&b, MLX_CONFIG,
             old ? L1 "mlp.switch_mlp.up_proj.lora_a:F32:12x64 " L1 "mlp.switch_mlp.up_proj.lora_b:F32:3x32x4"
                 : L1 "mlp.switch_mlp.up_proj.lora_a:F32:3x4x64 " L1 "mlp.switch_mlp.up_proj.lora_b:F32:3x32x4");
        assert_int_equal(b.b.n_pair, T_EXPERTS);
        for (int e = 0; e < T_EXPERTS; e++)
            for (int64_t o = 0; o < T_FF; o++)
                for (int64_t i = 0; i < T_EMBD; i++)
                    near(delta_of(&b.b, &b.t.layer[1].up[e], o, i), switch_delta(name, e, o, i, T_FF, T_EMBD));
        release(&b);
    }
    table_deinit(&b.t);
}

#define X L1 "mlp.experts"

static void test_peft_stack(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, PEFT_CONFIG(", \"target_parameters\": [\"experts.gate_up_proj\", \"experts.down_proj\"]"),
         BASE X ".lora_A.weight:F32:12x32 " BASE X ".lora_B.weight:F32:64x12 " BASE X
                ".base_layer.lora_A.weight:F32:12x64 " BASE X ".base_layer.lora_B.weight:F32:64x12");
    assert_int_equal(b.b.n_pair, 3 * T_EXPERTS);
    struct table_layer *l = &b.t.layer[1];
    for (int e = 0; e < T_EXPERTS; e++)
        for (int64_t o = 0; o < 64; o++)
            for (int64_t i = 0; i < 64; i++) {
                const char *const wrapped = X ".base_layer"; /* 2 * T_FF rows, gates before ups */
                if (i < T_FF)
                    near(delta_of(&b.b, &l->down[e], o, i), stack_delta(X, e, o, i, T_FF));
                near(delta_of(&b.b, o < T_FF ? &l->gate[e] : &l->up[e], o % T_FF, i),
                     stack_delta(wrapped, e, o, i, T_EMBD));
            }
    release(&b);
    /* gates and ups row by row */
    good(&b, PEFT_CONFIG(", \"target_parameters\": [\"experts.gate_up_pairs\"]"),
         BASE X ".lora_A.weight:F32:12x64 " BASE X ".lora_B.weight:F32:64x12");
    for (int e = 0; e < T_EXPERTS; e++)
        for (int64_t o = 0; o < 64; o++)
            for (int64_t i = 0; i < 64; i++)
                near(delta_of(&b.b, o % 2 ? &l->up[e] : &l->gate[e], o / 2, i), stack_delta(X, e, o, i, T_EMBD));
    release(&b);
    /* square, so that its version tells that A reads what the parameter has first, the outputs */
    for (int k = 0; k < 3; k++) {
        static const char *const version[] = {"0.18.1", "0.19.0", "0.19.1"};
        char                     config[256];
        snprintf(config, sizeof config, "%s%s\"}",
                 "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, \"target_parameters\": "
                 "[\"experts.gate_up_pairs\"], \"peft_version\": \"",
                 version[k]);
        good(&b, config, BASE X ".lora_A.weight:F32:12x64 " BASE X ".lora_B.weight:F32:64x12");
        for (int64_t o = 0; o < 64; o++)
            near(delta_of(&b.b, o % 2 ? &l->up[2] : &l->gate[2], o / 2, 7),
                 k < 2 ? stack_delta(X, 2, 7, o, T_EMBD) : stack_delta(X, 2, o, 7, T_EMBD));
        release(&b);
    }
    /* beside others that are not square, these tell */
    good(&b, PEFT_CONFIG(", \"target_parameters\": [\"experts.gate_up_pairs\", \"experts.down_proj\"]"),
         BASE X ".lora_A.weight:F32:12x64 " BASE X ".lora_B.weight:F32:32x12 " BASE X
                ".base_layer.lora_A.weight:F32:12x64 " BASE X ".base_layer.lora_B.weight:F32:64x12");
    for (int64_t o = 0; o < 64; o++) {
        near(delta_of(&b.b, &l->down[2], o, 7), stack_delta(X, 2, 7, o, T_EMBD));
        near(delta_of(&b.b, o % 2 ? &l->up[2] : &l->gate[2], o / 2, 7), stack_delta(X ".base_layer", 2, 7, o, T_EMBD));
    }
    release(&b);
    /* one expert's own module */
    good(&b, PEFT_CONFIG(""), PEFT(L1 "mlp.experts.2.down_proj", 32, 64));
    assert_int_equal(b.b.n_pair, 1);
    check_delta(&b, &l->down[2], 0, T_EMBD, 0, 1, peft_delta, L1 "mlp.experts.2.down_proj", T_EMBD);
    release(&b);
    table_deinit(&b.t);
}

/* Heads of kv_b_proj: its rows are some heads' columns, others' rows. */
static void test_heads(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, PEFT_CONFIG(""), PEFT(L0 "mla.kv_b_proj", 64, 104));
    assert_int_equal(b.b.n_pair, 2 * T_HEADS);
    for (int h = 0; h < T_HEADS; h++) {
        const int64_t from = h * (T_NOPE + T_V);
        for (int64_t i = 0; i < T_RANK; i++) {
            for (int64_t o = 0; o < T_NOPE; o++)
                near(delta_of(&b.b, &b.t.layer[0].embed_q[h], i, o),
                     peft_delta(L0 "mla.kv_b_proj", from + o, i, 104, T_RANK));
            for (int64_t o = 0; o < T_V; o++)
                near(delta_of(&b.b, &b.t.layer[0].unembed_out[h], o, i),
                     peft_delta(L0 "mla.kv_b_proj", from + T_NOPE + o, i, 104, T_RANK));
        }
    }
    release(&b);
    table_deinit(&b.t);
}

/* --- other things a file can hold --------------------------------------------------------------------------------- */

static void test_vectors(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, DORA_CONFIG, MLX(L0 "cross.qkv_proj", 64, 88) " " L0 "cross.qkv_proj.m:F16:88");
    for (size_t i = 0; i < 3; i++) {
        const struct adapter_pair *p = &b.b.pair[i];
        int64_t from = p->weight == &b.t.layer[0].q ? 0 : p->weight == &b.t.layer[0].k ? T_Q : T_Q + T_KV;
        assert_int_equal(p->magnitude.n_row, p->b.n_row);
        for (int64_t o = 0; o < p->b.n_row; o++)
            assert_true(adapter_matrix_at(&p->magnitude, o, 0) ==
                        dtype_load(DTYPE_F16, b.f->module->magnitude->data, from + o));
    }
    release(&b);
    good(&b, PEFT_CONFIG(", \"lora_bias\": true"),
         PEFT(L0 "self_attn.k_proj", 64, 24) " " BASE L0 "self_attn.k_proj.lora_B.bias:F32:24");
    assert_int_equal(b.b.pair->row, T_Q);
    assert_true(adapter_matrix_at(&b.b.pair->extra, 5, 0) == adapter_value(BASE L0 "self_attn.k_proj.lora_B.bias", 5));
    release(&b);
    table_deinit(&b.t);
}

static void test_replaced(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, FULL_CONFIG,
         L0 "norm.weight:F32:64 " L0 "cross.qkv_proj.weight:F32:88x64 " L1 "mlp.switch_mlp.down_proj.bias:F32:3x64 " L1
            "mlp.switch_mlp.up_proj.weight:F32:3x32x64 model.embed_tokens.weight:BF16:72x64");
    assert_int_equal(b.b.n_replaced, 1 + 1 + 3 + T_EXPERTS + T_EXPERTS);
    for (size_t i = 0; i < b.b.n_replaced; i++) {
        const struct adapter_replaced *r = &b.b.replaced[i];
        struct table_layer            *l = b.t.layer;
        if (r->weight == &l[0].v)
            assert_true(dtype_load(r->dtype, r->data, 3) == adapter_value(r->name, (T_Q + T_KV) * T_EMBD + 3));
        if (r->weight == &l[1].up[2])
            assert_true(dtype_load(r->dtype, r->data, 3) == adapter_value(r->name, 2 * T_FF * T_EMBD + 3));
        if (r->weight == &l[1].down[1])
            assert_true(r->bias && dtype_load(r->dtype, r->data, 3) == adapter_value(r->name, T_EMBD + 3));
        assert_true(i == 0 || r->weight->index >= r[-1].weight->index);
    }
    release(&b);
    good(&b, FULL_CONFIG, L0 "mlp.experts.gate_up_pairs.weight:F32:3x64x64"); /* the outputs of gate and up in turns */
    assert_int_equal(b.b.n_replaced, 2 * T_EXPERTS);
    for (size_t i = 0; i < b.b.n_replaced; i++) {
        const struct adapter_replaced *r = &b.b.replaced[i];
        int64_t first = r->weight == &b.t.layer[0].gate[2] ? 0 : r->weight == &b.t.layer[0].up[2] ? 1 : -1;
        for (int64_t o = 0; first >= 0 && o < T_FF; o++)
            assert_true(dtype_load(r->dtype, r->data, o * T_EMBD + 5) ==
                        adapter_value(r->name, (2 * 2 * T_FF + 2 * o + first) * T_EMBD + 5));
    }
    release(&b);
    table_deinit(&b.t);
}

/* A copy of the base's embedding that PEFT leaves in the file. */
static void write_copy(const struct table *t, const char *name, float off)
{
    struct adapter_tensors a;
    char                   spec[512];
    snprintf(spec, sizeof spec, PEFT(L0 "cross.q_proj", 64, 40) " %s:F32:72x64", name);
    adapter_begin(&a, spec);
    float *v = (float *)(uintptr_t)adapter_tensor(&a, name)->data;
    for (int64_t i = 0; i < T_VOCAB; i++)
        weight_row(&t->embed, i, v + i * T_EMBD);
    v[100] += off;
    adapter_end(&a, adapter_dir, "adapter_model.safetensors", PEFT_CONFIG(""));
}

static int bind_written(struct bound *b, struct error *e)
{
    struct faults faults = {0};
    assert_int_equal(adapter_file_open(&b->f, adapter_dir, &faults, e), 0);
    assert_int_equal(adapter_bind(&b->b, b->f, &b->t.m, &faults, e), 0);
    int code = faults_report(&faults, e);
    faults_deinit(&faults);
    return code;
}

static void test_copies(void **state)
{
    static const char *const names[] = {BASE "model.embed_tokens.base_layer.weight", BASE "lm_head.weight"};
    static const char *const words[] = {"is a copy of the base's weight, but this model's differs",
                                        "replaces the head alone, which this model ties to its embedding"};
    struct bound             b;
    (void)state;
    unlink(tmp_path(adapter_dir, "adapters.safetensors"));
    load_table(&b.t, &dense, 0, T_LAYERS);
    for (size_t i = 0; i < 2; i++)
        for (int off = 0; off < 2; off++) {
            struct error e = {0};
            write_copy(&b.t, names[i], off ? 1e-3f : 0);
            assert_int_equal(bind_written(&b, &e) != 0, off);
            assert_int_equal(b.b.n_replaced, 0);
            if (off && !strstr(e.msg, words[i]))
                fail_msg("%s", e.msg);
            release(&b);
        }
    table_deinit(&b.t);
    /* over a quantized base a copy of the original is near to it, and another base's is not */
    load_table(&b.t, &q4, 0, T_LAYERS);
    for (int off = 0; off < 2; off++) {
        struct error e = {0};
        write_copy(&b.t, names[0], off ? 100 : 0.05f);
        assert_int_equal(bind_written(&b, &e) != 0, off);
        release(&b);
    }
    table_deinit(&b.t);
}

/* Names that wrappers of the model give it. */
static void test_wrapped_names(void **state)
{
    static const char *const prefix[] = {"language_model.", "model.language_model.", "language_model.model."};
    struct bound             b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    for (size_t i = 0; i < ARRAY_LEN(prefix); i++) {
        char        spec[256];
        const char *name = &L0 "cross.q_proj"[i ? strlen("model.") : 0];
        snprintf(spec, sizeof spec, "%s%s.lora_a:F32:64x4 %s%s.lora_b:F32:4x40", prefix[i], name, prefix[i], name);
        good(&b, MLX_CONFIG, spec);
        assert_ptr_equal(b.b.pair->weight, &b.t.layer[0].q);
        release(&b);
    }
    good(&b, PEFT_CONFIG(""), PEFT("layers.0.cross.q_proj", 64, 40));
    assert_ptr_equal(b.b.pair->weight, &b.t.layer[0].q);
    release(&b);
    table_deinit(&b.t);
}

/* Of a model whose layers are loaded in part, what is of the others is left aside, and the own must fit. */
static void test_range(void **state)
{
    struct bound b;
    struct error e = {0};
    (void)state;
    load_table(&b.t, &dense, 1, 2);
    good(&b, MLX_CONFIG, MLX(L0 "cross.q_proj", 64, 40) " " MLX(L1 "cross.q_proj", 64, 40));
    assert_int_equal(b.b.n_pair, 1);
    assert_ptr_equal(b.b.pair->weight, &b.t.layer[1].q);
    assert_int_equal(b.b.n_aside, 1);
    release(&b);
    good(&b, FULL_CONFIG, L0 "norm.weight:F32:63 " L0 "cross.q_proj.weight:F32:1x2 " L1 "norm.weight:F32:64");
    assert_int_equal(b.b.n_replaced, 1);
    assert_int_equal(b.b.n_aside, 2);
    release(&b);
    assert_int_equal(bind(&b, MLX_CONFIG, MLX(L0 "cross.q_proj", 63, 40) " " MLX(L1 "cross.q_proj", 63, 40), &e),
                     ERR_MISFIT);
    assert_non_null(
        strstr(e.msg, "adapters.safetensors: " L1 "cross.q_proj takes 64 input features and produces 40; lora_a"));
    assert_null(strstr(e.msg, L0));
    release(&b);
    table_deinit(&b.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_linear),     TEST(test_parts),         TEST(test_embedding), TEST(test_switch),
        TEST(test_peft_stack), TEST(test_heads),         TEST(test_vectors),   TEST(test_replaced),
        TEST(test_copies),     TEST(test_wrapped_names), TEST(test_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
