/* What is not stored as all else is, family by family. `quantize`: mlx-lm's quant_predicate of the same model_type, and routers
 * that it keeps as bare arrays, which it never quantizes. Dense types: its cast_predicate, what keeps its own. */
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

/* "mlp.down_proj" ends the experts' switch_mlp.down_proj, too. */
static const struct quantize_rule granite[] = {
    {"*.block_sparse_moe.router.layer", 8}, {"*.self_attn.o_proj", 8}, {"*mlp.down_proj", 8}, {"lm_head", 8}, {0}};

static const char *const correction[] = {"*.e_score_correction_bias", NULL};
static const char *const expert_bias[] = {"*.expert_bias", NULL};
static const char *const decay[] = {"*.A_log", NULL};
static const char *const correction_decay[] = {"*.e_score_correction_bias", "*.A_log", NULL};
static const char *const correction_decay_dt[] = {"*.e_score_correction_bias", "*.A_log", "*.dt_bias", NULL};

static const struct {
    const char                 *model_type;
    const struct quantize_rule *rules;
    const char *const          *kept; /* of type */
} table[] = {
    {"afmoe", router_gate, expert_bias},
    {"bailing_moe", gate_proj, expert_bias},
    {"deepseek", bare_gate, NULL},
    {"deepseek_v2", bare_gate, NULL},
    {"deepseek_v3", bare_gate, correction},
    {"deepseek_v32", bare_gate, correction},
    {"dots1", bare_gate, NULL},
    {"ernie4_5_moe", NULL, correction}, /* mlx-lm leaves it out */
    {"exaone_moe", bare_gate, correction},
    {"glm4_moe", bare_gate, correction},
    {"glm4_moe_lite", bare_gate, correction},
    {"glm_moe_dsa", bare_gate, correction},
    {"gpt_oss", router, NULL},
    {"granite", granite, NULL},
    {"granitemoe", granite, NULL},
    {"granitemoehybrid", router_layer, NULL},
    {"jamba", router, NULL},
    {"joyai_llm_flash", bare_gate, correction},
    {"kimi_k2", bare_gate, correction},
    {"kimi_k25", bare_gate, correction},
    {"kimi_linear", gate, correction_decay_dt},
    {"lfm2_moe", feed_forward_gate, expert_bias},
    {"longcat_flash", classifier, correction},
    {"longcat_flash_ngram", classifier, correction},
    {"minimax_m2", block_sparse_gate, correction},
    {"nemotron_h", bare_mixer_gate, correction_decay},
    {"qwen3_5", gates, decay},
    {"qwen3_5_moe", gates, decay},
    {"qwen3_5_moe_text", gates, decay},
    {"qwen3_5_text", gates, decay},
    {"qwen3_moe", gate, NULL},
    {"qwen3_next", gates, NULL},
    {"solar_open", bare_gate, correction},
};

void arch_storage(struct model_desc *m)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (!strcmp(table[i].model_type, m->model_type)) {
            m->quantize = table[i].rules;
            m->keep_dtype = table[i].kept;
        }
}
