/* What `quantize` does not store as it was asked to, family by family: mlx-lm's quant_predicate of the same model_type, and
 * routers that it keeps as bare arrays, which it never quantizes. */
#include <string.h>

#include "arch/family.h"
#include "base/num.h"

static const struct quantize_rule bare_gate[] = {{"*.mlp.gate", 0}, {0}};
static const struct quantize_rule bare_mixer_gate[] = {{"*.mixer.gate", 0}, {0}};
static const struct quantize_rule gate[] = {{"*.mlp.gate", 8}, {0}};
static const struct quantize_rule gates[] = {{"*.mlp.gate", 8}, {"*.shared_expert_gate", 8}, {0}};
static const struct quantize_rule router_gate[] = {{"*.router.gate", 8}, {0}};
static const struct quantize_rule gate_proj[] = {{"*.mlp.gate.gate_proj", 8}, {0}};
static const struct quantize_rule router[] = {{"*.router", 8}, {0}};
static const struct quantize_rule router_layer[] = {{"*.router.layer", 8}, {0}};
static const struct quantize_rule feed_forward_gate[] = {{"*.feed_forward.gate", 8}, {0}};
static const struct quantize_rule classifier[] = {{"*.classifier", 8}, {0}};
static const struct quantize_rule block_sparse_gate[] = {{"*.block_sparse_moe.gate", 8}, {0}};

static const struct quantize_rule granite[] = {
    {"*.block_sparse_moe.router.layer", 8}, {"*.self_attn.o_proj", 8}, {"*.mlp.down_proj", 8}, {"lm_head", 8}, {0}};

static const struct {
    const char                 *model_type;
    const struct quantize_rule *rules;
} table[] = {
    {"afmoe", router_gate},
    {"bailing_moe", gate_proj},
    {"deepseek", bare_gate},
    {"deepseek_v2", bare_gate},
    {"deepseek_v3", bare_gate},
    {"deepseek_v32", bare_gate},
    {"dots1", bare_gate},
    {"exaone_moe", bare_gate},
    {"glm4_moe", bare_gate},
    {"glm4_moe_lite", bare_gate},
    {"glm_moe_dsa", bare_gate},
    {"gpt_oss", router},
    {"granite", granite},
    {"granitemoe", granite},
    {"granitemoehybrid", router_layer},
    {"jamba", router},
    {"joyai_llm_flash", bare_gate},
    {"kimi_k2", bare_gate},
    {"kimi_k25", bare_gate},
    {"kimi_linear", gate},
    {"lfm2_moe", feed_forward_gate},
    {"longcat_flash", classifier},
    {"longcat_flash_ngram", classifier},
    {"minimax_m2", block_sparse_gate},
    {"nemotron_h", bare_mixer_gate},
    {"qwen3_5", gates},
    {"qwen3_5_moe", gates},
    {"qwen3_5_moe_text", gates},
    {"qwen3_5_text", gates},
    {"qwen3_moe", gate},
    {"qwen3_next", gates},
    {"solar_open", bare_gate},
};

const struct quantize_rule *arch_quantize_rules(const char *model_type)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (!strcmp(table[i].model_type, model_type))
            return table[i].rules;
    return NULL;
}
