/* Adapters over the hand-made table: pairs for stacks (mlx-lm's switch layout and PEFT's target_parameters), single experts,
 * parts of fused parameters, fused names, planes of heads and a tied head, dense and in every mode. Each product of each
 * matrix must be that of W + s B A, added up in double from the files' values by what the names mean. */
#include <math.h>

#include "../support/table_lora.h"
#include "adapt/fuse.h"

static double *delta_of(struct job *j, const struct weight *w)
{
    double **d = &j->delta[w->index];
    if (!*d)
        *d = calloc((size_t)(w->n_out * w->n_in), sizeof **d);
    assert_non_null(*d);
    return *d;
}

static double at(const struct half *h, int64_t i, int64_t k)
{
    return (double)h->data[h->at + i * h->row + k * h->col];
}

/* delta[row + o] += s B[first + step * o] A for n rows; A [R, n_in], B [.., R]. */
static void change(double *delta, int64_t n_in, int64_t row, int64_t n, struct half a, struct half b, int64_t first,
                   int64_t step)
{
    for (int64_t o = 0; o < n; o++)
        for (int64_t i = 0; i < n_in; i++)
            for (int64_t k = 0; k < R; k++)
                delta[(row + o) * n_in + i] += SCALE * at(&b, first + step * o, k) * at(&a, k, i);
}

static void change_rows(struct job *j, const struct weight *w, int64_t row, int64_t n, struct half a, struct half b,
                        int64_t first, int64_t step)
{
    change(delta_of(j, w), w->n_in, row, n, a, b, first, step);
}

/* --- adapters of mlx-lm ------------------------------------------------------------------------------------------- */

static struct half next(struct half h, int64_t n)
{
    h.at += n;
    return h;
}

static void mlx_linears(struct job *j)
{
    struct table_layer *l = &j->t->layer[0];
    struct half         a, b;
    mlx_pair(j, PAIR(L0 "self_attn.qkv_proj"), T_EMBD, T_Q + 2 * T_KV, &a, &b);
    change_rows(j, &l->qkv, 0, T_Q + 2 * T_KV, a, b, 0, 1);
    mlx_pair(j, PAIR(L0 "self_attn.k_proj"), T_EMBD, T_KV, &a, &b);
    change_rows(j, &l->qkv, T_Q, T_KV, a, b, 0, 1);
    mlx_pair(j, PAIR(L0 "self_attn.v_proj"), T_EMBD, T_KV, &a, &b);
    change_rows(j, &l->qkv, T_Q + T_KV, T_KV, a, b, 0, 1);
    mlx_pair(j, PAIR(L0 "cross.qkv_proj"), T_EMBD, T_Q + 2 * T_KV, &a, &b);
    change_rows(j, &l->q, 0, T_Q, a, b, 0, 1);
    change_rows(j, &l->k, 0, T_KV, a, b, T_Q, 1);
    change_rows(j, &l->v, 0, T_KV, a, b, T_Q + T_KV, 1);
    mlx_pair(j, PAIR(L0 "cross.v_proj"), T_EMBD, T_KV, &a, &b);
    change_rows(j, &l->v, 0, T_KV, a, b, 0, 1);
}

static void mlx_stacks(struct job *j)
{
    struct table_layer *l = &j->t->layer[1];
    struct half         a, b;
    mlx_stack(j, PAIR(L1 "mlp.switch_mlp.down_proj"), T_EXPERTS, T_FF, T_EMBD, &a, &b);
    for (int e = 0; e < T_EXPERTS; e++)
        change_rows(j, &l->down[e], 0, T_EMBD, next(a, e * R * T_FF), next(b, e * T_EMBD * R), 0, 1);
    mlx_stack(j, PAIR(L1 "moe.up_proj"), T_EXPERTS, T_EMBD, T_FF, &a, &b);
    for (int e = 0; e < T_EXPERTS; e++)
        change_rows(j, &l->gate_up[e], T_FF, T_FF, next(a, e * R * T_EMBD), next(b, e * T_FF * R), 0, 1);
    mlx_stack(j, PAIR(L1 "mlp.experts.gate_up_pairs"), T_EXPERTS, T_EMBD, 2 * T_FF, &a, &b);
    for (int e = 0; e < T_EXPERTS; e++) {
        struct half ae = next(a, e * R * T_EMBD), be = next(b, e * 2 * T_FF * R);
        change_rows(j, &l->gate[e], 0, T_FF, ae, be, 0, 2);
        change_rows(j, &l->up[e], 0, T_FF, ae, be, 1, 2);
    }
    mlx_stack(j, PAIR(L1 "mla.embed_q"), T_HEADS, T_NOPE, T_RANK, &a, &b);
    for (int h = 0; h < T_HEADS; h++)
        change_rows(j, &l->embed_q[h], 0, T_RANK, next(a, h * R * T_NOPE), next(b, h * T_RANK * R), 0, 1);
}

/* Embeddings: a [rows, R], b [R, width]; the tied head's own pair is a linear's. */
static void mlx_embedding(struct job *j)
{
    struct half a, b;
    b = (struct half){put(j, "model.embed_tokens.lora_a", 2, T_VOCAB, R, 0), 0, R, 1};
    a = (struct half){put(j, "model.embed_tokens.lora_b", 2, R, T_EMBD, 0), 0, T_EMBD, 1};
    change_rows(j, &j->t->embed, 0, T_VOCAB, a, b, 0, 1);
    j->head = calloc((size_t)T_VOCAB * T_EMBD, sizeof *j->head);
    assert_non_null(j->head);
    mlx_pair(j, PAIR("lm_head"), T_EMBD, T_VOCAB, &a, &b);
    change(j->head, T_EMBD, 0, T_VOCAB, a, b, 0, 1);
}

static void fill_layers(struct job *j)
{
    mlx_linears(j);
    mlx_stacks(j);
}

static void fill_mlx(struct job *j)
{
    fill_layers(j);
    mlx_embedding(j);
}

/* --- DoRA --------------------------------------------------------------------------------------------------------- */

/* Magnitudes of n rows of w, from `first` of a tensor. */
static void set_magnitude(struct job *j, const struct weight *w, int64_t row, int64_t n, const float *m, int64_t first)
{
    double **v = &j->magnitude[w->index];
    if (!*v)
        *v = calloc((size_t)w->n_out, sizeof **v);
    assert_non_null(*v);
    for (int64_t o = 0; o < n; o++)
        (*v)[row + o] = (double)m[first + o];
}

/* A part of a fused parameter and a fused name over several: each row of a weight is scaled by its own module. */
static void fill_dora(struct job *j)
{
    struct table_layer *l = &j->t->layer[0];
    struct half         a, b;
    mlx_pair(j, PAIR(L0 "self_attn.k_proj"), T_EMBD, T_KV, &a, &b);
    change_rows(j, &l->qkv, T_Q, T_KV, a, b, 0, 1);
    set_magnitude(j, &l->qkv, T_Q, T_KV, put(j, L0 "self_attn.k_proj.m", 1, T_KV, 0, 0), 0);
    mlx_pair(j, PAIR(L0 "cross.qkv_proj"), T_EMBD, T_Q + 2 * T_KV, &a, &b);
    const float *m = put(j, L0 "cross.qkv_proj.m", 1, T_Q + 2 * T_KV, 0, 0);
    change_rows(j, &l->q, 0, T_Q, a, b, 0, 1);
    change_rows(j, &l->k, 0, T_KV, a, b, T_Q, 1);
    change_rows(j, &l->v, 0, T_KV, a, b, T_Q + T_KV, 1);
    set_magnitude(j, &l->q, 0, T_Q, m, 0);
    set_magnitude(j, &l->k, 0, T_KV, m, T_Q);
    set_magnitude(j, &l->v, 0, T_KV, m, T_Q + T_KV);
}

/* --- replaced parameters ------------------------------------------------------------------------------------------ */

/* A whole stack, its bias, one expert, a fused name. */
static void fill_full(struct job *j)
{
    struct table_layer *l = &j->t->layer[0];
    const float        *down = put(j, L0 "mlp.switch_mlp.down_proj.weight", 3, T_EXPERTS, T_EMBD, T_FF);
    const float        *bias = put(j, L0 "mlp.switch_mlp.down_proj.bias", 2, T_EXPERTS, T_EMBD, 0);
    const float        *qkv = put(j, L0 "cross.qkv_proj.weight", 2, T_Q + 2 * T_KV, T_EMBD, 0);
    for (int e = 0; e < T_EXPERTS; e++) {
        j->own[l->down[e].index] = down + e * T_EMBD * T_FF;
        j->bias[l->down[e].index] = bias + e * T_EMBD;
    }
    j->own[l->up[1].index] = put(j, L0 "mlp.experts.1.up_proj.weight", 2, T_FF, T_EMBD, 0);
    j->own[l->q.index] = qkv;
    j->own[l->k.index] = qkv + T_Q * T_EMBD;
    j->own[l->v.index] = qkv + (T_Q + T_KV) * T_EMBD;
}

/* --- adapters of PEFT --------------------------------------------------------------------------------------------- */

/* A [R, n_in], B [n_out, R] */
#define PEFT_PAIR(module) PEFT module ".lora_A.weight", PEFT module ".lora_B.weight"

static void peft_pair(struct job *j, const char *a_name, const char *b_name, int64_t n_in, int64_t n_out,
                      struct half *a, struct half *b)
{
    *a = (struct half){put(j, a_name, 2, R, n_in, 0), 0, n_in, 1};
    *b = (struct half){put(j, b_name, 2, n_out, R, 0), 0, R, 1};
}

/* target_parameters: A [E * R, n_in] with R rows an expert, B [n_out, R * E] with the expert innermost. */
static void peft_stack(struct job *j, const char *a_name, const char *b_name, int64_t n_in, int64_t n_out,
                       struct half *a, struct half *b)
{
    *a = (struct half){put(j, a_name, 2, T_EXPERTS * R, n_in, 0), 0, n_in, 1};
    *b = (struct half){put(j, b_name, 2, n_out, T_EXPERTS * R, 0), 0, T_EXPERTS * R, T_EXPERTS};
}

static void fill_peft(struct job *j)
{
    struct table_layer *l = j->t->layer;
    struct half         a, b;
    peft_stack(j, PEFT_PAIR(L0 "mlp.experts.base_layer"), T_EMBD, 2 * T_FF, &a, &b);
    for (int e = 0; e < T_EXPERTS; e++) {
        change_rows(j, &l[0].gate[e], 0, T_FF, next(a, e * R * T_EMBD), next(b, e), 0, 1);
        change_rows(j, &l[0].up[e], 0, T_FF, next(a, e * R * T_EMBD), next(b, e), T_FF, 1);
    }
    peft_stack(j, PEFT_PAIR(L0 "mlp.experts"), T_FF, T_EMBD, &a, &b);
    for (int e = 0; e < T_EXPERTS; e++)
        change_rows(j, &l[0].down[e], 0, T_EMBD, next(a, e * R * T_FF), next(b, e), 0, 1);
    peft_pair(j, PEFT_PAIR(L1 "mlp.experts.2.up_proj"), T_EMBD, T_FF, &a, &b);
    change_rows(j, &l[1].up[2], 0, T_FF, a, b, 0, 1);
    peft_pair(j, PEFT_PAIR(L1 "moe.0.up_proj"), T_EMBD, T_FF, &a, &b);
    change_rows(j, &l[1].gate_up[0], T_FF, T_FF, a, b, 0, 1);
    peft_pair(j, PEFT_PAIR(L1 "self_attn.q_proj"), T_EMBD, T_Q, &a, &b);
    change_rows(j, &l[1].qkv, 0, T_Q, a, b, 0, 1);
    peft_pair(j, PEFT_PAIR(L1 "mla.kv_b_proj"), T_RANK, T_HEADS * (T_NOPE + T_V), &a, &b);
    for (int h = 0; h < T_HEADS; h++) {
        int64_t from = h * (T_NOPE + T_V);
        double *q = delta_of(j, &l[1].embed_q[h]);
        for (int64_t i = 0; i < T_RANK; i++) /* embed_q[h] = the transpose of the head's rows */
            for (int64_t c = 0; c < T_NOPE; c++)
                for (int64_t k = 0; k < R; k++)
                    q[i * T_NOPE + c] += SCALE * at(&b, from + c, k) * at(&a, k, i);
        change_rows(j, &l[1].unembed_out[h], 0, T_V, a, b, from + T_NOPE, 1);
    }
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* What the backend gave for input x must be y of W + SET_SCALE * delta; j NULL: of W. eps: of the weight's values. */
static void check_product(const struct job *j, const struct weight *w, const float *x, const float *y, double eps)
{
    const double *delta = j ? j->delta[w->index] : NULL, *magnitude = j ? j->magnitude[w->index] : NULL;
    const double *head = j && w == &j->t->embed ? j->head : NULL;
    const float  *bias = j && j->bias[w->index] ? j->bias[w->index] : w->bias;
    const float  *own = j ? j->own[w->index] : NULL;
    float         row[2 * T_EMBD];
    for (int64_t o = 0; o < w->n_out; o++) {
        double want = 0, size = 1e-3, norm = 0;
        weight_row(w, o, row);
        for (int64_t i = 0; i < w->n_in; i++) {
            double v = own ? (double)own[o * w->n_in + i] : (double)row[i];
            v += delta ? SET_SCALE * delta[o * w->n_in + i] : 0;
            v += head ? SET_SCALE * head[o * w->n_in + i] : 0;
            want += v * (double)x[i];
            size += fabs(v * (double)x[i]);
            norm += v * v;
        }
        if (magnitude && magnitude[o] != 0)
            want *= magnitude[o] / sqrt(norm);
        want += bias ? (double)bias[o] : 0;
        if (fabs((double)y[o] - want) > eps * (size + fabs(want)))
            fail_msg("%s, output %d: %g, needed %g", w->name, (int)o, (double)y[o], want);
    }
}

static void check_lookup(const struct job *j, struct run *r, struct step *s)
{
    static float   y[T_VOCAB][T_EMBD];
    static int32_t token[T_VOCAB], zero[T_VOCAB];
    const double  *delta = j->delta[j->t->embed.index];
    float          row[T_EMBD];
    for (int i = 0; i < T_VOCAB; i++)
        token[i] = i;
    s->n_row = T_VOCAB;
    s->token = token;
    s->seq = zero;
    op_embed(r, &j->t->embed, token, (struct tensor){y, T_VOCAB, T_EMBD, T_EMBD});
    for (int i = 0; i < T_VOCAB; i++) {
        weight_row(&j->t->embed, i, row);
        for (int k = 0; k < T_EMBD; k++)
            assert_true(fabs((double)y[i][k] - (double)row[k] - (delta ? SET_SCALE * delta[i * T_EMBD + k] : 0)) <
                        1e-5);
    }
}

/* Every matrix of the table, with the adapter and without. */
static void check_all(const struct job *j, const struct adapter_set *set)
{
    static const int32_t   seq[N_X] = {0, 1};
    const struct lora_set *sets[2] = {set ? set->lora : NULL, NULL};
    struct step            s = {.n_row = N_X, .seq = seq, .n_seq = 2, .lora = sets};
    struct run             r = {.backend = j->t->m.backend, .step = &s};
    struct params         *p = &j->t->m.params;
    float                  x[N_X][T_EMBD], y[N_X][2 * T_EMBD];
    for (int i = 0; i < N_X * T_EMBD; i++)
        x[i / T_EMBD][i % T_EMBD] = table_value(2000, i);
    for (size_t i = 0; i < p->n; i++)
        for (int k = 0; param_is_matrix(&p->v[i]) && p->v[i].bytes && k < param_stack(&p->v[i]); k++) {
            const struct weight *w = &p->v[i].weight[k];
            op_linear(&r, w, (struct tensor){x, N_X, w->n_in, T_EMBD}, (struct tensor){y, N_X, w->n_out, 2 * T_EMBD});
            check_product(set ? j : NULL, w, x[0], y[0], 1e-6);
            check_product(NULL, w, x[1], y[1], 1e-6);
        }
    if (set)
        check_lookup(j, &r, &s);
}

struct files {
    void (*fill)(struct job *j);
    const char *config, *tensors;
};

static const struct files mlx = {fill_mlx, mlx_config, "adapters.safetensors"},
                          peft = {fill_peft, peft_config, "adapter_model.safetensors"},
                          full = {fill_full, full_config, "adapters.safetensors"},
                          dora = {fill_dora, dora_config, "adapters.safetensors"};

static void run_job(const struct table_form *form, const struct files *files)
{
    struct table        t;
    struct job          j;
    struct error        e = {0};
    struct adapter     *a = NULL;
    struct adapter_set *set = NULL;
    prepare(&t, form, 0, T_LAYERS);
    job_init(&j, &t);
    files->fill(&j);
    if (load(&j, files->config, files->tensors, &a, &e))
        fail_msg("%s", e.msg);
    check_all(&j, NULL);
    assert_int_equal(adapter_set_new(&set, &(struct adapter_use){a, SET_SCALE}, 1, &e), 0);
    check_all(&j, set);
    adapter_set_unref(set);
    adapter_unref(a);
    job_deinit(&j);
    close_table(&t);
}

/* The adapter fused into the weights of a second table: as beside them, but for the rounding to the weights' type. */
static void run_fused(const struct table_form *form, const struct files *files)
{
    struct table t, fused;
    struct job   j;
    struct fuse *f = NULL;
    struct step  s = {.n_row = 1};
    float        x[T_EMBD], y[2 * T_EMBD];
    prepare(&t, form, 0, T_LAYERS);
    job_init(&j, &t);
    files->fill(&j);
    struct fuse_adapter adapter = {write_adapter(&j, files->config, files->tensors), SET_SCALE};
    assert_int_equal(fuse_new(&f, &(struct fuse_options){.adapter = &adapter, .n = 1, .threads = 1}, NULL), 0);
    prepare_changed(&fused, form, 0, T_LAYERS, fuse_change(f));
    struct run r = {.backend = fused.m.backend, .step = &s};
    for (int i = 0; i < T_EMBD; i++)
        x[i] = table_value(2000, i);
    for (size_t i = 0; i < t.m.params.n; i++)
        for (int k = 0; param_is_matrix(&t.m.params.v[i]) && k < param_stack(&t.m.params.v[i]); k++) {
            const struct weight *w = &t.m.params.v[i].weight[k];
            op_linear(&r, &fused.m.params.v[i].weight[k], (struct tensor){x, 1, w->n_in, T_EMBD},
                      (struct tensor){y, 1, w->n_out, 2 * T_EMBD});
            check_product(&j, w, x, y, form->dtype == DTYPE_F32 ? 2e-6 : 0x1p-7);
        }
    job_deinit(&j);
    close_table(&fused);
    close_table(&t);
    fuse_free(f);
}

static void test_fused(void **state)
{
    static const struct files layers = {fill_layers, mlx_config, "adapters.safetensors"};
    (void)state;
    for (int i = 0; i < 2; i++) { /* what is quantized cannot be fused */
        run_fused(&forms[i], &layers);
        run_fused(&forms[i], &peft);
        run_fused(&forms[i], &dora);
        run_fused(&forms[i], &full);
    }
}

static void run_forms(const struct files *files)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        run_job(&forms[i], files);
}

static void test_mlx(void **state)
{
    (void)state;
    run_forms(&mlx);
}

static void test_peft(void **state)
{
    (void)state;
    run_forms(&peft);
}

static void test_dora(void **state)
{
    (void)state;
    run_forms(&dora);
}

static void test_full(void **state)
{
    (void)state;
    run_job(&forms[0], &full);
    run_job(&forms[1], &full);
}

/* An object of layer 1 alone leaves layer 0's pairs aside, whatever their shapes are. */
static void test_range(void **state)
{
    (void)state;
    struct table        t;
    struct job          j;
    struct error        e = {0};
    struct adapter     *a = NULL;
    struct adapter_set *set = NULL;
    prepare(&t, &forms[2], 1, 2);
    job_init(&j, &t);
    fill_mlx(&j);
    put(&j, L0 "cross.q_proj.lora_a", 2, T_EMBD / 2, R, 0);
    put(&j, L0 "cross.q_proj.lora_b", 2, R, 1, 0);
    if (load(&j, mlx_config, "adapters.safetensors", &a, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(adapter_set_new(&set, &(struct adapter_use){a, SET_SCALE}, 1, &e), 0);
    check_all(&j, set);
    adapter_set_unref(set);
    adapter_unref(a);
    job_deinit(&j);
    close_table(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mlx),   cmocka_unit_test(test_peft),
                                       cmocka_unit_test(test_dora),  cmocka_unit_test(test_full),
                                       cmocka_unit_test(test_fused), cmocka_unit_test(test_range)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
