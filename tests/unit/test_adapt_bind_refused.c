/* Adapters that do not fit a table that has every kind of parameter: each is told with the layer and the tensor. */
#include "../support/bound.h"

static void test_refused(void **state)
{
    static const struct {
        const struct table_form *form;
        const char              *config, *spec, *words;
    } cases[] = {
        {&q4, MLX_CONFIG, MLX(L0 "cross.q_proj", 32, 40),
         "adapters.safetensors: " L0 "cross.q_proj takes 64 input features and produces 40; lora_a is [32, 4]"},
        {&q4, MLX_CONFIG, MLX(L0 "cross.q_proj", 8, 40), "produces 40; lora_a is [8, 4]"}, /* its packed width */
        {&q4, MLX_CONFIG, MLX(L0 "cross.q_proj", 64, 39),
         L0 "cross.q_proj takes 64 input features and produces 40; lora_b is [4, 39]"},
        {&q4, MLX_CONFIG, MLX(L0 "cross.q_proj", 63, 39), "; lora_a is [63, 4] and lora_b [4, 39]"},
        {&q4, PEFT_CONFIG(""), PEFT(L0 "cross.q_proj", 63, 40),
         L0 "cross.q_proj takes 64 input features and produces 40; " BASE L0 "cross.q_proj.lora_A.weight is [4, 63]"},
        {&q4, PEFT_CONFIG(""), PEFT(L0 "cross.q_proj", 40, 64), "cross.q_proj.lora_B.weight [64, 4]"},
        {&dense, MLX_CONFIG, MLX(L0 "self_attn.k_proj", 64, 25),
         L0 "self_attn.k_proj takes 64 input features and produces 24; lora_b is [4, 25]"},
        {&dense, MLX_CONFIG, MLX(L0 "self_attn.qkv_proj", 64, 40),
         L0 "self_attn.qkv_proj takes 64 input features and produces 88; lora_b is [4, 40]"},
        {&dense, MLX_CONFIG, MLX(L0 "cross.qkv_proj", 64, 87), "produces 88; lora_b is [4, 87]"},
        {&dense, MLX_CONFIG, "model.embed_tokens.lora_a:F32:71x4 model.embed_tokens.lora_b:F32:4x64",
         "model.embed_tokens holds 72 rows of 64 features; lora_a is [71, 4]"},
        {&dense, MLX_CONFIG, "model.embed_tokens.lora_a:F32:64x4 model.embed_tokens.lora_b:F32:4x72",
         "model.embed_tokens holds 72 rows of 64 features; lora_a is [64, 4] and lora_b [4, 72]"},
        {&dense, PEFT_CONFIG(""),
         BASE "model.embed_tokens.lora_embedding_A:F32:4x71 " BASE "model.embed_tokens.lora_embedding_B:F32:64x4",
         "holds 72 rows of 64 features; " BASE "model.embed_tokens.lora_embedding_A is [4, 71]"},
        {&dense, PEFT_CONFIG(""), PEFT("model.embed_tokens", 64, 72),
         "is an embedding of the model, but has the pair of a linear layer"},
        {&dense, PEFT_CONFIG(""),
         BASE L0 "cross.q_proj.lora_embedding_A:F32:4x40 " BASE L0 "cross.q_proj.lora_embedding_B:F32:64x4",
         "is a linear layer of the model, but has the pair of an embedding"},
        {&dense, MLX_CONFIG,
         L0 "mlp.switch_mlp.up_proj.lora_a:F32:4x4x64 " L0 "mlp.switch_mlp.up_proj.lora_b:F32:4x32x4",
         "each of the 3 experts of " L0
         "mlp.switch_mlp.up_proj takes 64 input features and produces 32; lora_a is [4, 4, 64] and lora_b [4, 32, 4]"},
        {&dense, MLX_CONFIG,
         L0 "mlp.switch_mlp.up_proj.lora_a:F32:3x4x64 " L0 "mlp.switch_mlp.up_proj.lora_b:F32:3x33x4",
         "produces 32; lora_b is [3, 33, 4]"},
        {&dense, MLX_CONFIG, MLX(L0 "mlp.switch_mlp.up_proj", 64, 32), "each of the 3 experts of"},
        {&dense, MLX_CONFIG, L0 "cross.q_proj.lora_a:F32:3x4x64 " L0 "cross.q_proj.lora_b:F32:3x40x4",
         L0 "cross.q_proj takes 64"},
        {&dense, MLX_CONFIG, MLX(L0 "cross.x_proj", 64, 40),
         L0 "cross.x_proj.lora_a is [64, 4], but " L0 "cross.x_proj is no layer of the table model"},
        {&dense, PEFT_CONFIG(""), PEFT("x.y", 64, 40),
         BASE "x.y.lora_A.weight is [4, 64], but x.y is no layer of the table model"},
        {&dense, MLX_CONFIG, MLX("model.layers.2.cross.q_proj", 63, 40),
         "model.layers.2.cross.q_proj is no layer of the table model, which has layers 0 to 1; "
         "model.layers.0.cross.q_proj takes 64 "
         "input features and produces 40"},
        {&dense, MLX_CONFIG, MLX(L0 "mlp.experts.3.up_proj", 64, 32),
         "mlp.experts.3.up_proj is no layer of the table model"},
        {&dense, MLX_CONFIG, MLX(L0 "norm", 64, 64), L0 "norm is a vector of the model, which takes no pair"},
        {&dense, DORA_CONFIG, MLX(L0 "cross.q_proj", 64, 40) " " L0 "cross.q_proj.m:F32:41",
         "cross.q_proj takes 64 input features and produces 40; m is [41], needed [40]"},
        {&dense, PEFT_CONFIG(", \"lora_bias\": true"),
         PEFT(L0 "cross.q_proj", 64, 40) " " BASE L0 "cross.q_proj.lora_B.bias:F32:39",
         "lora_B.bias is [39], needed [40]"},
        {&dense, PEFT_CONFIG(", \"use_dora\": true"),
         BASE "model.embed_tokens.lora_embedding_A:F32:4x72 " BASE "model.embed_tokens.lora_embedding_B:F32:64x4 " BASE
              "model.embed_tokens.lora_magnitude_vector:F32:64",
         "has DoRA on an embedding, whose magnitude PEFT keeps by column; that is not supported"},
        {&dense, DORA_CONFIG,
         L0 "mlp.switch_mlp.up_proj.lora_a:F32:3x4x64 " L0 "mlp.switch_mlp.up_proj.lora_b:F32:3x32x4 " L0
            "mlp.switch_mlp.up_proj.m:F32:32",
         "has DoRA on a stack of experts, which is not supported"},
        {&dense, DORA_CONFIG, MLX(L0 "mla.kv_b_proj", 64, 104) " " L0 "mla.kv_b_proj.m:F32:104",
         "that the model stores head by head"},
        {&dense, DORA_CONFIG,
         MLX(L0 "self_attn.qkv_proj", 64, 88) " " L0 "self_attn.qkv_proj.m:F32:88 " MLX(
             L0 "self_attn.v_proj", 64, 24) " " L0 "self_attn.v_proj.m:F32:24",
         "are both DoRA for the same rows of " L0 "self_attn.qkv_proj"},
        {&q4, FULL_CONFIG, L0 "cross.q_proj.weight:F32:40x64",
         L0 "cross.q_proj.weight replaces " L0
            "cross.q_proj.weight, which is quantized (affine 4 bits group 32) in this model"},
        {&dense, FULL_CONFIG, L0 "cross.q_proj.weight:F32:40x63",
         L0 "cross.q_proj.weight is [40, 63], but " L0 "cross.q_proj.weight is [40, 64]"},
        {&dense, FULL_CONFIG, L0 "norm.weight:F32:63", L0 "norm.weight is [63], but " L0 "norm.weight is [64]"},
        {&dense, FULL_CONFIG, L0 "mlp.switch_mlp.down_proj.bias:F32:64",
         "down_proj.bias is [64], but " L0 "mlp.switch_mlp.down_proj.bias is [3, 64]"},
        {&dense, FULL_CONFIG, L0 "cross.q_proj.bias:F32:40",
         L0 "cross.q_proj.bias is a bias, but the model's layer has none"},
        {&dense, FULL_CONFIG, L0 "cross.q_proj.scales:F32:40x2",
         "is no weight and no bias, and no other tensor of the model is called so"},
        {&dense, FULL_CONFIG, L0 "self_attn.q_proj.weight:F32:40x64",
         "replaces a part of a parameter that the model stores as one"},
        {&dense, FULL_CONFIG, L0 "none.weight:F32:40x64", L0 "none is no layer of the table model"},
        {&dense, FULL_CONFIG, L0 "cross.qkv_proj.weight:F32:88x64 " L0 "cross.q_proj.weight:F32:40x64",
         "both replace " L0 "cross.q_proj"},
        {&dense, FULL_CONFIG, "model.embed_tokens.weight:F32:72x64 lm_head.weight:F32:72x64",
         "differs from the embedding that the adapter brings along, but the model's head is tied to it"},
        {&dense, PEFT_CONFIG(", \"target_parameters\": [\"experts.gate_up_proj\", \"experts.down_proj\"]"),
         BASE L0 "mlp.experts.lora_A.weight:F32:12x64 " BASE L0 "mlp.experts.lora_B.weight:F32:32x12 " BASE L1
                 "mlp.experts.lora_A.weight:F32:12x65 " BASE L1 "mlp.experts.lora_B.weight:F32:32x12",
         L1 "mlp.experts.down_proj takes 32 input features and produces 64; " BASE L1
            "mlp.experts.lora_A.weight is [12, 65]"}, /* A has the outputs, as the other one shows */
        {&dense, PEFT_CONFIG(", \"fan_in_fan_out\": true, \"modules_to_save\": [\"gate_up_proj\"]"),
         PEFT(L0 "cross.q_proj", 64, 40) " " BASE L0 "moe.gate_up_proj.weight:F32:3x64x64",
         "is square, and with fan_in_fan_out nothing tells"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct bound b;
        struct error e = {0};
        load_table(&b.t, cases[i].form, 0, T_LAYERS);
        if (!bind(&b, cases[i].config, cases[i].spec, &e))
            fail_msg("accepted, '%s' was expected", cases[i].words);
        if (!strstr(e.msg, cases[i].words))
            fail_msg("'%s' lacks '%s'", e.msg, cases[i].words);
        release(&b);
        table_deinit(&b.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
