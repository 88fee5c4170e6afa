/* What `quantize` does not store as it was asked to, family by family: mlx-lm's quant_predicate of the same model_type, and
 * routers that it keeps as bare arrays, which it never quantizes. */
#include <stdio.h>
#include <string.h>

#include "arch/family.h"
#include "base/num.h"

static const struct {
    const char          *model_types; /* each between spaces */
    struct quantize_rule rules[5];    /* the rest is NULL */
} table[] = {
    {" deepseek deepseek_v2 deepseek_v3 deepseek_v32 dots1 exaone_moe glm4_moe glm4_moe_lite glm_moe_dsa "
     "joyai_llm_flash kimi_k2 "
     "kimi_k25 solar_open ",
     {{"*.mlp.gate", 0}}},
    {" nemotron_h ", {{"*.mixer.gate", 0}}},
    {" kimi_linear qwen3_moe ", {{"*.mlp.gate", 8}}},
    {" qwen3_next qwen3_5 qwen3_5_moe ", {{"*.mlp.gate", 8}, {"*.shared_expert_gate", 8}}},
    {" afmoe ", {{"*.router.gate", 8}}},
    {" bailing_moe ", {{"*.mlp.gate.gate_proj", 8}}},
    {" gpt_oss ", {{"*.router", 8}}},
    {" jamba ", {{"*.router", 8}}},
    {" granitemoehybrid ", {{"*.router.layer", 8}}},
    {" lfm2_moe ", {{"*.feed_forward.gate", 8}}},
    {" longcat_flash longcat_flash_ngram ", {{"*.classifier", 8}}},
    {" minimax_m2 ", {{"*.block_sparse_moe.gate", 8}}},
    {" granite ", {{"*.self_attn.o_proj", 8}, {"*.mlp.down_proj", 8}, {"lm_head", 8}}},
    {" granitemoe ",
     {{"*.block_sparse_moe.router.layer", 8}, {"*.self_attn.o_proj", 8}, {"*.mlp.down_proj", 8}, {"lm_head", 8}}},
};

const struct quantize_rule *arch_quantize_rules(const char *model_type)
{
    char word[80];
    snprintf(word, sizeof word, " %s ", model_type);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strstr(table[i].model_types, word))
            return table[i].rules;
    return NULL;
}
