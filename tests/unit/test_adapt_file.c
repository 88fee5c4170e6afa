/* Reading adapters: every format's files in one form, and every fault that needs no model, by its message. */
#include "../support/adapter.h"
#include "../support/scratch.h"

#include <math.h>

#include "adapt/file.h"

#define BASE "base_model.model."
#define Q "model.layers.0.self_attn.q_proj"
#define PAIR Q ".lora_a:F32:64x4 " Q ".lora_b:F32:4x32"
#define PEFT_PAIR BASE Q ".lora_A.weight:F32:4x64 " BASE Q ".lora_B.weight:F32:32x4"

static struct adapter_file *open_good(const char *config, const char *spec)
{
    struct adapter_file *f;
    struct faults        faults = {0};
    struct error         e = {0};
    adapter_write(dir, config, spec);
    assert_int_equal(adapter_file_open(&f, dir, &faults, &e), 0);
    if (faults_report(&faults, &e))
        fail_msg("%s", e.msg);
    faults_deinit(&faults);
    assert_non_null(f);
    return f;
}

static int report(const char *path, struct error *e)
{
    struct adapter_file *f;
    struct faults        faults = {0};
    assert_int_equal(adapter_file_open(&f, path, &faults, e), 0);
    int code = faults_report(&faults, e);
    faults_deinit(&faults);
    adapter_file_free(f);
    return code;
}

static void check_message(const char *path, const char *words)
{
    struct error e = {0};
    if (!report(path, &e))
        fail_msg("accepted, '%s' was expected", words);
    if (!strstr(e.msg, words))
        fail_msg("'%s' lacks '%s'", e.msg, words);
}

static void check_refused(const char *config, const char *spec, const char *words)
{
    adapter_write(dir, config, spec);
    check_message(dir, words);
}

/* --- what is read ------------------------------------------------------------------------------------------------- */

static void test_mlx(void **state)
{
    (void)state;
    struct adapter_file *f = open_good("{\"model\": \"org/base\", \"lora_parameters\": {\"rank\": 4, \"scale\": 20.0, "
                                       "\"dropout\": 0.1}, \"lora_layers\": 4}",
                                       "b.lora_a:F32:64x4 b.lora_b:BF16:4x32 a.lora_a:F16:3x4x64 a.lora_b:F32:3x32x4");
    assert_int_equal(f->format, ADAPTER_FORMAT_MLX_LM);
    assert_int_equal(f->kind, ADAPTER_KIND_LORA);
    assert_string_equal(f->base, "org/base");
    assert_int_equal(f->n_module, 2);
    assert_string_equal(f->module[0].name, "a");
    assert_int_equal(f->module[0].layout, ADAPTER_MLX_SWITCH);
    assert_int_equal(f->module[0].n_expert, 3);
    assert_int_equal(f->module[1].layout, ADAPTER_MLX);
    assert_int_equal(f->module[1].n_expert, 0);
    assert_int_equal(f->module[1].rank, 4);
    assert_true(f->module[1].scale == 20);
    assert_string_equal(f->module[1].a->name, "b.lora_a");
    assert_string_equal(f->module[1].b->name, "b.lora_b");
    adapter_file_free(f);
}

static double scale_of(const char *config, const char *spec)
{
    struct adapter_file *f = open_good(config, spec);
    double               scale = f->module[0].scale;
    adapter_file_free(f);
    return scale;
}

static void test_mlx_scales(void **state)
{
    (void)state;
    assert_true(scale_of("{\"lora_parameters\": {\"rank\": 4, \"scale\": 0.1}}", PAIR) == 0.1);
    assert_true(scale_of("{\"lora_parameters\": {\"rank\": 4, \"alpha\": 16}}", PAIR) == 4);
    assert_true(scale_of("{\"lora_parameters\": {\"rank\": 4, \"lora_alpha\": 2}}", PAIR) == 0.5);
    assert_true(scale_of("{\"lora_parameters\": {\"rank\": 4, \"alpha\": 16, \"scale\": 10}}", PAIR) == 10);
    assert_true(scale_of("{\"rank\": 4, \"alpha\": 16, \"dropout\": 0}", "q.A:F32:64x4 q.B:F32:4x8") == 4);
    assert_true(scale_of("{\"rank\": 4}", "q.A:F32:64x4 q.B:F32:4x8") == 0.1 / 4);
}

static void test_vlm(void **state)
{
    (void)state;
    struct adapter_file *f =
        open_good("{\"rank\": 4, \"alpha\": 16}", "language_model." Q ".A:F32:64x4 language_model." Q ".B:F32:4x8");
    assert_int_equal(f->format, ADAPTER_FORMAT_MLX_VLM);
    assert_string_equal(f->module[0].name, "language_model." Q);
    assert_int_equal(f->module[0].layout, ADAPTER_MLX);
    adapter_file_free(f);
}

static void test_mlx_kinds(void **state)
{
    (void)state;
    struct adapter_file *f = open_good(DORA_CONFIG, PAIR " " Q ".m:F32:32");
    assert_int_equal(f->kind, ADAPTER_KIND_DORA);
    assert_string_equal(f->module[0].magnitude->name, Q ".m");
    adapter_file_free(f);
    f = open_good("{\"num_layers\": null, \"lora_parameters\": {\"rank\": 4, \"scale\": 10.0, \"use_dora\": true}}",
                  PAIR " " Q ".m:F32:32");
    assert_int_equal(f->kind, ADAPTER_KIND_DORA);
    adapter_file_free(f);
    f = open_good(FULL_CONFIG, "model.norm.weight:F32:64 " Q ".weight:BF16:32x64 " Q ".bias:F32:32");
    assert_int_equal(f->kind, ADAPTER_KIND_FULL);
    assert_int_equal(f->n_module, 0);
    assert_int_equal(f->n_replace, 3);
    assert_string_equal(f->replace[0].name, Q ".bias");
    adapter_file_free(f);
}

static void test_old_switch(void **state)
{
    (void)state; /* a of all experts as one matrix */
    struct adapter_file *f = open_good(MLX_CONFIG, "x.lora_a:F32:12x64 x.lora_b:F32:3x32x4");
    assert_int_equal(f->module[0].n_expert, 3);
    assert_int_equal(f->module[0].rank, 4);
    adapter_file_free(f);
}

static void test_peft(void **state)
{
    (void)state;
    struct adapter_file *f = open_good(
        PEFT_CONFIG(", \"base_model_name_or_path\": \"org/base\", \"lora_bias\": true, \"bias\": \"lora_only\", "
                    "\"use_qalora\": false, \"arrow_config\": null, \"alora_invocation_tokens\": null, "
                    "\"modules_to_save\": [\"norm\"], \"some_new_field\": {\"x\": 1}"),
        PEFT_PAIR " " BASE Q ".lora_B.bias:F32:32 " BASE Q ".base_layer.bias:F32:32 " BASE
                  "model.k.lora_A.default.weight:F16:4x64 " BASE "model.k.lora_B.default.weight:F16:8x4 " BASE
                  "model.embed_tokens.lora_embedding_A:F32:4x131 " BASE
                  "model.embed_tokens.lora_embedding_B:F32:64x4 " BASE
                  "model.embed_tokens.base_layer.weight:F32:131x64 " BASE "lm_head.weight:F32:131x64 " BASE
                  "model.norm.modules_to_save.default.weight:F32:64");
    assert_int_equal(f->format, ADAPTER_FORMAT_PEFT);
    assert_string_equal(f->base, "org/base");
    assert_int_equal(f->n_module, 3);
    assert_string_equal(f->module[0].name, "model.embed_tokens");
    assert_int_equal(f->module[0].layout, ADAPTER_PEFT_EMBED);
    assert_string_equal(f->module[1].name, "model.k");
    assert_string_equal(f->module[1].spelled, BASE "model.k");
    assert_string_equal(f->module[2].name, Q);
    assert_string_equal(f->module[2].extra->name, BASE Q ".lora_B.bias");
    assert_true(f->module[2].scale == 2);
    assert_int_equal(f->n_replace, 3);
    assert_string_equal(f->replace[0].name, "lm_head.weight");
    assert_string_equal(f->replace[1].name, Q ".bias");
    assert_string_equal(f->replace[2].name, "model.norm.weight");
    assert_int_equal(f->n_copy, 1);
    assert_string_equal(f->copy[0].name, "model.embed_tokens.weight");
    adapter_file_free(f);
}

#define RANK8 BASE Q ".lora_A.weight:F32:8x64 " BASE Q ".lora_B.weight:F32:32x8"

static void test_peft_scales(void **state)
{
    (void)state;
    assert_true(scale_of(PEFT_CONFIG(", \"use_rslora\": true"), PEFT_PAIR) == 4);
    assert_true(scale_of(PEFT_CONFIG(", \"rank_pattern\": {\"q_proj\": 8}"), RANK8) == 1);
    assert_true(
        scale_of(PEFT_CONFIG(", \"rank_pattern\": {\"k_proj\": 2, \"q_proj\": 8}, \"alpha_pattern\": {\"q_proj\": 32}"),
                 RANK8) == 4);
    assert_true(scale_of(PEFT_CONFIG(", \"use_rslora\": true, \"rank_pattern\": {\"layers.0.self_attn.q_proj\": 8}"),
                         RANK8) == 8 / sqrt(8));
    /* the first key that matches counts, the whole name or from a dot on, as a regular expression */
    assert_true(scale_of(PEFT_CONFIG(", \"alpha_pattern\": {\"proj\": 1, \"q_.roj\": 3, \"q_proj\": 5}"), PEFT_PAIR) ==
                0.75);
    assert_true(scale_of(PEFT_CONFIG(", \"alpha_pattern\": {\"_proj\": 1}"), PEFT_PAIR) == 2);
    assert_true(scale_of(PEFT_CONFIG(", \"alpha_pattern\": {\"layers\\\\.[0-3]\\\\..*\": 6}"), PEFT_PAIR) == 1.5);
    assert_true(scale_of(PEFT_CONFIG(", \"alpha_pattern\": {\"^model.layers.0.self_attn.q_proj\": 6}"), PEFT_PAIR) ==
                1.5);
    assert_true(scale_of(PEFT_CONFIG(", \"alpha_pattern\": {\"^layers.0.self_attn.q_proj\": 6}"), PEFT_PAIR) == 2);
    assert_true(scale_of(PEFT_CONFIG(", \"alpha_pattern\": {\"k_proj|q_proj\": 6}"), PEFT_PAIR) == 1.5);
    assert_true(scale_of(PEFT_CONFIG(", \"alpha_pattern\": {\"(?P<x>q)_proj\": 6}"), PEFT_PAIR) == 1.5);
}

#define X "model.layers.0.mlp.experts"

static void test_peft_parameters(void **state)
{
    (void)state;
    struct adapter_file *f =
        open_good(PEFT_CONFIG(", \"target_parameters\": [\"mlp.experts.down_proj\", \"mlp.experts.gate_up_proj\"]"),
                  BASE X ".lora_A.weight:F32:12x32 " BASE X ".lora_B.weight:F32:64x12 " BASE X
                         ".base_layer.lora_A.weight:F32:12x64 " BASE X ".base_layer.lora_B.weight:F32:128x12");
    assert_int_equal(f->n_module, 2);
    assert_string_equal(f->module[0].name, X ".down_proj");
    assert_int_equal(f->module[0].layout, ADAPTER_PEFT_STACK);
    assert_int_equal(f->module[0].n_expert, 3);
    assert_int_equal(f->module[0].rank, 4);
    assert_int_equal(f->module[0].a->shape[1], 32);
    assert_string_equal(f->module[1].name, X ".gate_up_proj");
    assert_string_equal(f->module[1].spelled, BASE X ".base_layer");
    adapter_file_free(f);
    f = open_good(PEFT_CONFIG(", \"target_parameters\": [\"q_proj.weight\"]"), PEFT_PAIR);
    assert_string_equal(f->module[0].name, Q);
    assert_int_equal(f->module[0].layout, ADAPTER_PEFT);
    adapter_file_free(f);
}

static void test_peft_dora(void **state)
{
    (void)state;
    struct adapter_file *f = open_good(PEFT_CONFIG(", \"use_dora\": true"), PEFT_PAIR
                                       " " BASE Q ".lora_magnitude_vector:F32:32 " BASE "k.lora_A.weight:F32:4x64 " BASE
                                       "k.lora_B.weight:F32:8x4 " BASE "k.lora_magnitude_vector.default.weight:F32:8");
    assert_int_equal(f->kind, ADAPTER_KIND_DORA);
    assert_int_equal(f->module[0].magnitude->shape[0], 8);
    assert_int_equal(f->module[1].magnitude->shape[0], 32);
    adapter_file_free(f);
}

static void test_warnings(void **state)
{
    (void)state;
    struct adapter_file *f = open_good(PEFT_CONFIG(", \"init_lora_weights\": \"pissa_niter_16\""), PEFT_PAIR);
    assert_int_equal(f->n_warning, 1);
    assert_non_null(strstr(f->warning[0], "init_lora_weights is \"pissa_niter_16\", which trains over a changed base"));
    adapter_file_free(f);
    f = open_good(PEFT_CONFIG(", \"init_lora_weights\": \"gaussian\""), PEFT_PAIR);
    assert_int_equal(f->n_warning, 0);
    adapter_file_free(f);
}

/* The same contents have the same hash wherever they lie; another value, name or config has another. */
static void test_hash(void **state)
{
    (void)state;
    struct adapter_tensors t;
    uint64_t               hash[4][2];
    for (int i = 0; i < 4; i++) {
        adapter_begin(&t, i == 2 ? PAIR " r.lora_a:F32:64x4 r.lora_b:F32:4x32" : PAIR);
        if (i == 1)
            ((float *)(uintptr_t)adapter_tensor(&t, Q ".lora_b")->data)[127] += 1;
        adapter_end(&t, dir, "adapters.safetensors", i == 3 ? MLX_CONFIG " " : MLX_CONFIG);
        struct adapter_file *f;
        struct faults        faults = {0};
        assert_int_equal(adapter_file_open(&f, tmp_path(dir, i ? "adapters.safetensors" : ""), &faults, NULL), 0);
        assert_int_equal(faults.n, 0);
        memcpy(hash[i], f->hash, sizeof hash[i]);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(hash[i], hash[k], sizeof hash[i]);
        adapter_file_free(f);
    }
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

/* Files that people name instead of safetensors: each says what to do. */
static void test_foreign_files(void **state)
{
    static const char *const at[][2] = {
        {"adapter_model.bin", "adapter_model.bin is a Python pickle"},
        {"adapters.npz", "adapters.npz is an archive of NumPy"},
        {"adapter.gguf", "adapter.gguf is a GGUF file, which is not supported"},
        {"adapter_config.json", "adapter_config.json is no file of tensors: name the directory that holds it"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        tmp_puts(dir, at[i][0], "x");
        check_message(tmp_path(dir, at[i][0]), at[i][1]);
        unlink(tmp_path(dir, at[i][0]));
    }
    check_message("/nowhere/adapter:0,5",
                  "/nowhere/adapter:0,5 (a scale, where one is taken, is a number behind the last colon)");
}

static void test_missing_files(void **state)
{
    (void)state;
    check_message("/nowhere/adapter", "there is no adapter at /nowhere/adapter");
    check_message(dir, "holds neither adapters.safetensors (mlx-lm) nor adapter_model.safetensors (PEFT)");
    check_message(dir, "adapter_config.json");
    tmp_puts(dir, "adapter_model.bin", "x");
    check_message(dir, "adapter_model.bin is a Python pickle, which is not read since it can run code");
    adapter_write(dir, MLX_CONFIG, PAIR);
    unlink(tmp_path(dir, "adapter_config.json"));
    check_message(dir, "adapter_config.json, which tells the adapter's scale: copy it from where");
    check_message(tmp_path(dir, "adapters.safetensors"), "adapter_config.json");
    tmp_puts(dir, "adapters.safetensors", "12345678");
    tmp_puts(dir, "adapter_config.json", MLX_CONFIG);
    check_message(dir, "adapters.safetensors: ");
}

static void test_configs(void **state)
{
    static const struct {
        const char *config, *words;
    } cases[] = {
        {"[]", "adapter_config.json"},
        {"{", "adapter_config.json"},
        {"{}", "adapter_config.json: lora_parameters is missing, an object with rank and scale is needed"},
        {"{\"lora_parameters\": 3}", "adapter_config.json: lora_parameters is 3, an object is needed"},
        {"{\"lora_parameters\": {\"scale\": 1}}", "adapter_config.json: lora_parameters.rank is missing"},
        {"{\"lora_parameters\": {\"rank\": 0, \"scale\": 1}}", "lora_parameters.rank is 0, a whole number from 1"},
        {"{\"lora_parameters\": {\"rank\": -4, \"scale\": 1}}", "lora_parameters.rank is -4, a whole number from 1"},
        {"{\"lora_parameters\": {\"rank\": 4}}", "adapter_config.json: lora_parameters.scale is missing"},
        {"{\"lora_parameters\": {\"rank\": 4, \"scale\": \"x\"}}", "lora_parameters.scale is the string 'x'"},
        {"{\"lora_parameters\": {\"rank\": 4, \"scale\": 1e999}}", "adapter_config.json"},
        {"{\"lora_parameters\": {\"rank\": 4, \"scale\": 1e39}}",
         "lora_parameters.scale is 9.9999999999999994e+38, a number from -3.40282e+38 to 3.40282e+38"},
        {"{\"lora_parameters\": {\"rank\": 4, \"scale\": Infinity}}",
         "lora_parameters.scale is the string 'Infinity', a number from"},
        {"{\"fine_tune_type\": \"prefix\", \"lora_parameters\": {\"rank\": 4, \"scale\": 1}}",
         "adapter_config.json: fine_tune_type is \"prefix\", \"lora\", \"dora\" or \"full\" is needed"},
        {"{\"lora_parameters\": {\"rank\": 8, \"scale\": 1}}",
         "adapters.safetensors: " Q ".lora_a is [64, 4], rank 4, but adapter_config.json says rank 8"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_refused(cases[i].config, PAIR, cases[i].words);
}

static void test_peft_configs(void **state)
{
    static const struct {
        const char *more, *words;
    } cases[] = {
        {", \"alora_invocation_tokens\": [1, 2]",
         "alora_invocation_tokens asks for activated LoRA (aLoRA), which is not"},
        {", \"use_qalora\": true", "use_qalora asks for QALoRA, which is not supported"},
        {", \"arrow_config\": {\"top_k\": 3}", "arrow_config asks for Arrow routing, which is not supported"},
        {", \"layer_replication\": [[0, 4], [2, 5]]", "layer_replication asks for replicated layers, which is not"},
        {", \"trainable_token_indices\": [3]", "trainable_token_indices asks for trainable tokens, which is not"},
        {", \"use_bdlora\": {\"nblocks\": 2}", "use_bdlora asks for block-diagonal LoRA, which is not supported"},
        {", \"kasa_config\": {}", "kasa_config asks for KaSA, which is not supported"},
        {", \"monteclora_config\": {}", "monteclora_config asks for MonteCLoRA, which is not supported"},
        {", \"bias\": \"some\"", "bias is \"some\", \"none\", \"all\" or \"lora_only\" is needed"},
        {", \"rank_pattern\": {\"q_proj\": 8}",
         "q_proj.lora_A.weight is [4, 64], rank 4, but adapter_config.json says rank 8"},
        {", \"rank_pattern\": {\"q_proj\": 0}", "rank_pattern.q_proj is 0"},
        {", \"alpha_pattern\": {\"(\": 8}", "adapter_config.json: alpha_pattern.( is no regular expression"},
        {", \"use_dora\": true", "q_proj.lora_A.weight stands alone, there is no " BASE Q ".lora_magnitude_vector"},
        {", \"use_dora\": true, \"lora_bias\": true",
         "adapter_config.json: lora_bias is true beside use_dora, which PEFT does not allow"},
        {", \"use_dora\": 3", "use_dora is 3, true or false is needed"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char config[512];
        snprintf(config, sizeof config, PEFT_CONFIG("%s"), cases[i].more);
        check_refused(config, PEFT_PAIR, cases[i].words);
    }
    check_refused("{\"peft_type\": \"LOHA\", \"r\": 4, \"alpha\": 8}", PEFT_PAIR,
                  "peft_type is \"LOHA\", only \"LORA\" is supported");
    check_refused("{\"peft_type\": \"LORA\", \"r\": 0}", PEFT_PAIR, "adapter_config.json: r is 0");
    check_refused("{\"peft_type\": \"LORA\", \"r\": 8}", PEFT_PAIR,
                  BASE Q ".lora_A.weight is [4, 64], rank 4, but adapter_config.json says rank 8");
}

static void test_tensors(void **state)
{
    static const struct {
        const char *config, *spec, *words;
    } cases[] = {
        {MLX_CONFIG, Q ".lora_a:F32:64x4", Q ".lora_a stands alone, there is no " Q ".lora_b"},
        {MLX_CONFIG, Q ".lora_b:F32:4x8", Q ".lora_b stands alone, there is no " Q ".lora_a"},
        {PEFT_CONFIG(""), BASE Q ".lora_A.weight:F32:4x64", "stands alone, there is no " BASE Q ".lora_B.weight"},
        {PEFT_CONFIG(""), BASE "e.lora_embedding_B:F32:64x4", "stands alone, there is no " BASE "e.lora_embedding_A"},
        {MLX_CONFIG, Q ".lora_a:F32:64x4 " Q ".lora_b:F32:5x8",
         Q ".lora_a is [64, 4] and " Q ".lora_b [5, 8], they have no rank in common"},
        {MLX_CONFIG, "x.lora_a:F32:3x4x64 x.lora_b:F32:2x8x4", "they have no rank in common"},
        {MLX_CONFIG, "x.lora_a:F32:13x64 x.lora_b:F32:3x8x4", "they have no rank in common"},
        {MLX_CONFIG, "x.lora_a:F32:3x4x64 x.lora_b:F32:4x8", "they have no rank in common"},
        {PEFT_CONFIG(""), BASE Q ".lora_A.weight:F32:4x64 " BASE Q ".lora_B.weight:F32:32x5",
         "they have no rank in common"},
        {MLX_CONFIG, Q ".lora_a:I32:64x4 " Q ".lora_b:F32:4x8", Q ".lora_a is I32 [64, 4], F32, F16 or BF16 is needed"},
        {MLX_CONFIG, Q ".lora_a:U8:64x4 " Q ".lora_b:F32:4x8", Q ".lora_a is U8 [64, 4], F32, F16 or BF16 is needed"},
        {MLX_CONFIG, Q ".lora_a:F64:64x4 " Q ".lora_b:F32:4x8", Q ".lora_a is F64 [64, 4], F32, F16 or BF16 is needed"},
        {FULL_CONFIG, Q ".weight:U32:64x4", Q ".weight is U32 [64, 4], F32, F16 or BF16 is needed"},
        {MLX_CONFIG, Q ".lora_a:F32:64 " Q ".lora_b:F32:4x8",
         Q ".lora_a is [64], 2 dimensions, or 3 for a stack of experts, are needed"},
        {PEFT_CONFIG(""), BASE Q ".lora_A.weight:F32:4x64x1 " BASE Q ".lora_B.weight:F32:32x4",
         "lora_A.weight is [4, 64, 1], 2 dimensions are needed"},
        {MLX_CONFIG, Q ".lora_a:F32:64x0 " Q ".lora_b:F32:0x8", Q ".lora_a is [64, 0], which holds nothing"},
        {MLX_CONFIG, PAIR " " Q ".m:F32:32",
         Q ".m is a magnitude of DoRA, but adapter_config.json says fine_tune_type \"lora\""},
        {PEFT_CONFIG(""), PEFT_PAIR " " BASE Q ".lora_magnitude_vector:F32:32",
         "lora_magnitude_vector is a magnitude of DoRA, but adapter_config.json has no use_dora"},
        {DORA_CONFIG, PAIR " k.m:F32:32", "k.m stands alone, there is no k.lora_a"},
        {DORA_CONFIG, PAIR, Q ".lora_a stands alone, there is no " Q ".m"},
        {DORA_CONFIG, PAIR " " Q ".m:F32:1x32", Q ".m is [1, 32], one dimension is needed"},
        {MLX_CONFIG, PAIR " " Q ".scales.lora_a:F32:64x4 " Q ".scales.lora_b:F32:4x8",
         Q ".scales.lora_a aims at the scales plane of " Q "; a pair belongs to the layer itself, " Q},
        {MLX_CONFIG, PAIR " " Q ".biases.lora_a:F32:64x4", "aims at the biases plane of " Q},
        {PEFT_CONFIG(""), BASE Q ".weight.lora_A.weight:F32:4x64", "aims at the weight plane of"},
        {MLX_CONFIG, PAIR " " Q ".weight:F32:32x64",
         Q ".weight (F32 [32, 64]) is no tensor of a LoRA adapter of mlx-lm"},
        {MLX_CONFIG, PAIR " " Q ".lora_c:F32:32x64",
         Q ".lora_c (F32 [32, 64]) is no tensor of a LoRA adapter of mlx-lm"},
        {MLX_CONFIG, PAIR " .lora_a:F32:64x4", ".lora_a (F32 [64, 4]) is no tensor of a LoRA adapter of mlx-lm"},
        {PEFT_CONFIG(""), PEFT_PAIR " " BASE Q ".weight:F32:32x64",
         Q ".weight (F32 [32, 64]) is no tensor of a LoRA adapter of peft"},
        {PEFT_CONFIG(""), PEFT_PAIR " " BASE Q ".bias:F32:32",
         Q ".bias (F32 [32]) is no tensor of a LoRA adapter of peft"},
        {PEFT_CONFIG(""), PEFT_PAIR " " BASE Q ".lora_diag:F32:4",
         ".lora_diag (F32 [4]) is no tensor of a LoRA adapter"},
        {PEFT_CONFIG(""), PEFT_PAIR " " BASE "e.token_adapter.trainable_tokens_delta:F32:4x8",
         "holds trainable tokens, which are not supported"},
        {PEFT_CONFIG(""), PEFT_PAIR " " BASE Q ".lora_B.bias:F32:32",
         "lora_B.bias is a bias of lora_B, but adapter_config.json has no lora_bias"},
        {PEFT_CONFIG(""), PEFT_PAIR " " BASE Q ".lora_A.default.weight:F32:4x64",
         BASE Q ".lora_A.default.weight and " BASE Q ".lora_A.weight are both for " Q},
        {PEFT_CONFIG(""), PEFT_PAIR " " BASE Q ".base_layer.lora_A.weight:F32:4x64",
         "is wrapped 2 times, but target_parameters of adapter_config.json names 0 parameters of " Q},
        {PEFT_CONFIG(", \"target_parameters\": [\"experts.down_proj\"]"),
         BASE X ".lora_A.weight:F32:13x64 " BASE X ".lora_B.weight:F32:64x13",
         "lora_A.weight is [13, 64], its rows are no whole number of experts of rank 4"},
        {MLX_CONFIG, "", "holds no adapter: there is not one pair in it"},
        {PEFT_CONFIG(""), BASE "embed_tokens.base_layer.weight:F32:131x64",
         "holds no adapter: there is not one pair in it"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_refused(cases[i].config, cases[i].spec, cases[i].words);
}

/* Not finite, in every type, wherever it stands. */
static void test_infinite(void **state)
{
    static const struct {
        const char *type;
        uint32_t    bits;
        const char *what;
    } cases[] = {{"F32", 0x7f800000, "inf"}, {"F32", 0xff800000, "-inf"}, {"F32", 0x7fc00000, "nan"},
                 {"F32", 0x7f800001, "nan"}, {"F16", 0x7c00, "inf"},      {"F16", 0xfc00, "-inf"},
                 {"F16", 0x7e00, "nan"},     {"BF16", 0x7f80, "inf"},     {"BF16", 0xff80, "-inf"},
                 {"BF16", 0x7fc1, "nan"}};
    static const size_t places[] = {0, 1, 2, 3, 4095, 4096, 8191, 9000, 9002};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t k = 0; k < ARRAY_LEN(places); k++) {
            struct adapter_tensors t;
            char                   spec[256], words[128];
            snprintf(spec, sizeof spec, "q.lora_a:%s:3001x3 q.lora_b:F32:3x8", cases[i].type);
            adapter_begin(&t, spec);
            struct tensor_view *a = adapter_tensor(&t, "q.lora_a");
            size_t              size = dtype_size(a->dtype);
            memcpy((char *)(uintptr_t)a->data + places[k] * size, &cases[i].bits, size);
            adapter_end(&t, dir, "adapters.safetensors", "{\"lora_parameters\": {\"rank\": 3, \"scale\": 1}}");
            snprintf(words, sizeof words, "element %zu of q.lora_a is %s", places[k], cases[i].what);
            if (strcmp(cases[i].what, "nan") == 0) /* its sign is nobody's */
                snprintf(words, sizeof words, "element %zu of q.lora_a is ", places[k]);
            check_message(dir, words);
        }
    /* the greatest finite ones are numbers */
    struct adapter_tensors t;
    adapter_begin(&t, "q.lora_a:F16:64x4 q.lora_b:BF16:4x8");
    memcpy((char *)(uintptr_t)adapter_tensor(&t, "q.lora_a")->data, "\xff\x7b", 2);
    memcpy((char *)(uintptr_t)adapter_tensor(&t, "q.lora_b")->data, "\x7f\x7f", 2);
    adapter_end(&t, dir, "adapters.safetensors", MLX_CONFIG);
    assert_int_equal(report(dir, NULL), 0);
}

/* One report has all faults, sorted by name. */
static void test_all_at_once(void **state)
{
    struct error e = {0};
    (void)state;
    adapter_write(dir, "{\"fine_tune_type\": \"dora\", \"lora_parameters\": {\"rank\": 4}}",
                  "c.lora_a:I32:64x4 c.lora_b:F32:4x8 b.lora_b:F32:4x8 a.x:F32:1");
    report(dir, &e);
    const char *a = strstr(e.msg, "a.x"), *b = strstr(e.msg, "b.lora_b stands alone"),
               *c = strstr(e.msg, "c.lora_a is I32"), *config = strstr(e.msg, "lora_parameters.scale is missing");
    if (!a || !b || !c || !config || a > b || b > c)
        fail_msg("%s", e.msg);
}

/* Lists that would be looked through for every tensor have an end. */
static void test_long_list(void **state)
{
    char  config[8192];
    char *at = config + sprintf(config, "{\"peft_type\": \"LORA\", \"r\": 4, \"modules_to_save\": [\"x0\"");
    (void)state;
    for (int i = 1; i < 513; i++)
        at += sprintf(at, ", \"x%d\"", i);
    strcpy(at, "]}");
    check_refused(config, PEFT_PAIR, "adapter_config.json: modules_to_save has 513 names, more than 512 are not read");
}

/* Expressions that would take for ever are refused: nobody knows what they match. Those that take a while are matched. */
static void test_slow_pattern(void **state)
{
    (void)state;
    check_refused(PEFT_CONFIG(", \"alpha_pattern\": {\"(m|o|d|e|l|.)*(.*)*(.*)*[xyz]\": 6}"), PEFT_PAIR,
                  "adapter_config.json: alpha_pattern holds expressions whose matching takes too long");
    assert_true(scale_of(PEFT_CONFIG(", \"alpha_pattern\": {\".*d.*l.*[0-9].*attn.*z|.*q_pro.\": 6}"), PEFT_PAIR) ==
                1.5);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_mlx),           TEST(test_mlx_scales),  TEST(test_vlm),          TEST(test_mlx_kinds),
        TEST(test_old_switch),    TEST(test_peft),        TEST(test_peft_scales),  TEST(test_peft_parameters),
        TEST(test_peft_dora),     TEST(test_warnings),    TEST(test_hash),         TEST(test_missing_files),
        TEST(test_foreign_files), TEST(test_configs),     TEST(test_peft_configs), TEST(test_tensors),
        TEST(test_infinite),      TEST(test_all_at_once), TEST(test_long_list),    TEST(test_slow_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
