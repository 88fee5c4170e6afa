/* The registry of families: one row each, sorted by model_type. */
#include <stdio.h>
#include <string.h>

#include "arch/family.h"
#include "base/num.h"

static const struct family families[] = {
    {"afmoe", "qwen3", "Arcee Trinity", "attention, experts", arch_afmoe},
    {"apertus", "llama", "Apertus", "attention", arch_apertus},
    {"bailing_moe", "llama", "Ling, Ring", "attention, experts", arch_bailing_moe},
    {"bamba", "llama", "Bamba (IBM): Mamba 2 and attention", "attention, Mamba 2", arch_bamba},
    {"cohere", "llama", "Command R, R+", "attention", arch_cohere},
    {"cohere2", "cohere", "Command R7B, A", "attention", arch_cohere2},
    {"deepseek", "llama", "DeepSeek MoE 16B", "attention, experts", arch_deepseek},
    {"deepseek_v2", NULL, "DeepSeek-V2 and its Lite and Coder", "latent attention, experts", arch_deepseek_v2},
    {"deepseek_v3", "deepseek_v2", "DeepSeek-V3, R1, Moonlight", "latent attention, experts", arch_deepseek_v3},
    {"deepseek_v32", "deepseek_v3", "DeepSeek-V3.2", "latent attention, experts", arch_deepseek_v32},
    {"dots1", "qwen3", "dots.llm1", "attention, experts", arch_dots1},
    {"ernie4_5", "llama", "ERNIE 4.5 (dense)", "attention", arch_ernie4_5},
    {"ernie4_5_moe", "ernie4_5", "ERNIE 4.5 MoE (text)", "attention, experts", arch_ernie4_5_moe},
    {"exaone4", "olmo2", "EXAONE 4", "attention", arch_exaone4},
    {"exaone_moe", "exaone4", "K-EXAONE", "attention, experts", arch_exaone_moe},
    {"falcon_h1", "llama", "Falcon-H1: Mamba 2 beside attention", "attention beside Mamba 2", arch_falcon_h1},
    {"falcon_mamba", "mamba", "Falcon Mamba", "Mamba", arch_falcon_mamba},
    {"gemma", "llama", "Gemma 1", "attention", arch_gemma},
    {"gemma2", "gemma", "Gemma 2", "attention", arch_gemma2},
    {"gemma3", "gemma3_text", "Gemma 3 (language part)", "attention", arch_gemma3},
    {"gemma3_text", "gemma2", "Gemma 3 (text)", "attention", arch_gemma3_text},
    {"glm", "llama", "GLM-4 9B, GLM-Edge", "attention", arch_glm},
    {"glm4", "glm", "GLM-4 0414", "attention", arch_glm4},
    {"glm4_moe", "llama", "GLM 4.5, 4.6", "attention, experts", arch_glm4_moe},
    {"glm4_moe_lite", "deepseek_v3", "GLM-4.7-Flash", "latent attention, experts", arch_glm4_moe_lite},
    {"glm_moe_dsa", "deepseek_v32", "GLM-5", "latent attention, experts", arch_glm_moe_dsa},
    {"gpt2", NULL, "GPT-2 and models of its shape", "attention", arch_gpt2},
    {"gpt_bigcode", "gpt2", "SantaCoder, StarCoder, Granite Code", "attention", arch_gpt_bigcode},
    {"gpt_neox", "llama", "GPT-NeoX, Pythia", "attention", arch_gpt_neox},
    {"gpt_oss", "llama", "gpt-oss 20B, 120B", "attention, experts", arch_gpt_oss},
    {"granite", "llama", "Granite 3", "attention", arch_granite},
    {"granitemoe", "granite", "Granite 3 MoE", "attention, experts", arch_granitemoe},
    {"granitemoehybrid", "llama", "Granite 4: Mamba 2 and attention, dense or with experts",
     "attention, Mamba 2, experts", arch_granitemoehybrid},
    {"helium", "llama", "Helium", "attention", arch_helium},
    {"hunyuan_v1_dense", "llama", "Hunyuan (dense)", "attention", arch_hunyuan_v1_dense},
    {"internlm2", "llama", "InternLM 2", "attention", arch_internlm2},
    {"internlm3", "llama", "InternLM 3", "attention", arch_internlm3},
    {"jamba", "llama", "Jamba: Mamba and attention, with experts", "attention, Mamba, experts", arch_jamba},
    {"joyai_llm_flash", "deepseek_v3", "JoyAI-LLM-Flash", "latent attention, experts", arch_deepseek_v3},
    {"kimi_k2", "deepseek_v3", "Kimi K2", "latent attention, experts", arch_deepseek_v3},
    {"kimi_k25", "deepseek_v3", "Kimi K2.5 (language part)", "latent attention, experts", arch_kimi_k25},
    {"kimi_linear", NULL, "Kimi Linear 48B-A3B", "latent attention, Kimi delta attention, experts", arch_kimi_linear},
    {"lfm2", NULL, "LFM2", "attention, short convolution", arch_lfm2},
    {"lfm2_moe", "lfm2", "LFM2 8B-A1B", "attention, short convolution, experts", arch_lfm2_moe},
    {"llama", NULL, "Llama 1-3, SmolLM, Yi and other Llama-shaped models", "attention", arch_llama},
    {"longcat_flash", "deepseek_v3", "LongCat-Flash", "latent attention, experts", arch_longcat_flash},
    {"longcat_flash_ngram", "longcat_flash", "LongCat-Flash with embeddings of n-grams", "latent attention, experts",
     arch_longcat_flash_ngram},
    {"mamba", NULL, "Mamba", "Mamba", arch_mamba},
    {"mamba2", NULL, "Mamba 2", "Mamba 2", arch_mamba2},
    {"mimo", "qwen2", "MiMo", "attention", arch_mimo},
    {"minicpm", "llama", "MiniCPM 1, 2, 4", "attention", arch_minicpm},
    {"minicpm3", "deepseek_v2", "MiniCPM3", "latent attention", arch_minicpm3},
    {"minimax_m2", "llama", "MiniMax M2", "attention, experts", arch_minimax_m2},
    {"ministral3", "mistral", "Ministral 3 (text)", "attention", arch_ministral3},
    {"mistral", "llama", "Mistral 7B, Nemo, Small (text)", "attention", arch_mistral},
    {"mistral3", "mistral", "Mistral Small 3, Ministral 3 (language part)", "attention", arch_mistral3},
    {"mixtral", "mistral", "Mixtral 8x7B, 8x22B", "attention, experts", arch_mixtral},
    {"nemotron", "llama", "Nemotron 4, Minitron", "attention", arch_nemotron},
    {"nemotron_h", NULL, "Nemotron-H, Nemotron 3: Mamba 2 and attention, dense or with experts",
     "attention, Mamba 2, experts", arch_nemotron_h},
    {"olmo", "llama", "OLMo 1", "attention", arch_olmo},
    {"olmo2", "llama", "OLMo 2", "attention", arch_olmo2},
    {"olmo3", "olmo2", "OLMo 3", "attention", arch_olmo3},
    {"olmoe", "olmo2", "OLMoE", "attention, experts", arch_olmoe},
    {"phi", "llama", "Phi 1, 1.5, 2", "attention", arch_phi},
    {"phi3", "llama", "Phi 3, 3.5, 4", "attention", arch_phi3},
    {"phimoe", "llama", "Phi 3.5 MoE", "attention, experts", arch_phimoe},
    {"qwen2", "llama", "Qwen 1.5 (dense), 2, 2.5", "attention", arch_qwen2},
    {"qwen2_moe", "qwen2", "Qwen 1.5 MoE, Qwen 2 57B-A14B", "attention, experts", arch_qwen2_moe},
    {"qwen3", "llama", "Qwen 3 (dense)", "attention", arch_qwen3},
    {"qwen3_5", "qwen3_next", "Qwen 3.5 (dense, text)", "attention, gated delta net", arch_qwen3_5},
    {"qwen3_5_moe", "qwen3_5", "Qwen 3.5 with experts (text)", "attention, gated delta net, experts", arch_qwen3_5_moe},
    {"qwen3_5_moe_text", "qwen3_5_moe", "Qwen 3.5 with experts, its text part alone",
     "attention, gated delta net, experts", arch_qwen3_5_moe},
    {"qwen3_5_text", "qwen3_5", "Qwen 3.5, its text part alone", "attention, gated delta net", arch_qwen3_5},
    {"qwen3_moe", "qwen3", "Qwen 3 30B-A3B, 235B-A22B, Coder", "attention, experts", arch_qwen3_moe},
    {"qwen3_next", "qwen2_moe", "Qwen3-Next 80B-A3B", "attention, gated delta net, experts", arch_qwen3_next},
    {"seed_oss", "llama", "Seed-OSS", "attention", arch_seed_oss},
    {"smollm3", "llama", "SmolLM 3", "attention", arch_smollm3},
    {"solar_open", "glm4_moe", "Solar Open", "attention, experts", arch_solar_open},
    {"stablelm", "llama", "StableLM 3B, 2", "attention", arch_stablelm},
    {"starcoder2", "llama", "StarCoder 2", "attention", arch_starcoder2},
    {"youtu", "deepseek_v3", "Youtu-LLM", "latent attention", arch_youtu},
    {"youtu_llm", "deepseek_v3", "Youtu-LLM", "latent attention", arch_youtu},
    {"youtu_vl", "youtu", "Youtu-VL (language part)", "latent attention", arch_youtu_vl},
};

const struct family *arch_families(size_t *n)
{
    *n = ARRAY_LEN(families);
    return families;
}

#define NEAR_MAX 6    /* names that are told */
#define NEAR_PREFIX 4 /* letters that begin alike */
#define TYPE_MAX 63

/* How many letters have to be changed, taken out or put in to make b of a (Levenshtein 1965). */
static int distance(const char *a, const char *b)
{
    int row[TYPE_MAX + 2], n = (int)strlen(b);
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int before = row[0];
        row[0] = i + 1;
        for (int j = 0; j < n; j++) {
            int other = before + (a[i] != b[j]);
            before = row[j + 1];
            row[j + 1] = MIN(other, MIN(row[j], before) + 1);
        }
    }
    return row[n];
}

static bool begin_alike(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n >= NEAR_PREFIX || (n && (!a[n] || !b[n]));
}

/* The names nearest to one that nobody has, those first that differ least. */
static int unknown(const char *type, struct error *e)
{
    const char *near[NEAR_MAX];
    int         far[NEAR_MAX], n = 0;
    char        names[512] = "";
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        const char *name = families[i].model_type;
        int         d = distance(type, name), k = n;
        if (d > 2 && !begin_alike(type, name))
            continue;
        for (; k > 0 && far[k - 1] > d; k--)
            if (k < NEAR_MAX) {
                far[k] = far[k - 1];
                near[k] = near[k - 1];
            }
        if (k < NEAR_MAX) {
            far[k] = d;
            near[k] = name;
            n = MIN(n + 1, NEAR_MAX);
        }
    }
    for (int i = 0; i < n; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "; near names: ", near[i]);
    return error_set(e, ERR_UNSUPPORTED, "model_type",
                     "config.json: model_type \"%s\" is not supported%s; see `mlxcel arch`", type, names);
}

int arch_describe(struct model_desc *m, struct config *c, struct arena *a, struct error *e)
{
    struct config *top = config_top(c); /* a wrapper's own type, not that of its text_config */
    const char    *type = top ? config_str(top, "model_type") : "";
    *m = (struct model_desc){.prefix = "", .residual_scale = 1, .embed_scale = 1, .logit_scale = 1};
    desc_names(m->name);
    if (strlen(type) > TYPE_MAX)
        config_fault(c, ERR_UNSUPPORTED, "model_type", "has %zu letters; no name has more than %d", strlen(type),
                     TYPE_MAX);
    if (config_has(c, "model_file"))
        config_fault(c, ERR_UNSUPPORTED, "model_file", "names Python code, which is never run");
    int err = config_report(c, e);
    if (err)
        return err;
    snprintf(m->model_type, sizeof m->model_type, "%s", type);
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (strcmp(families[i].model_type, type))
            continue;
        families[i].describe(m, c, a);
        arch_storage(m);
        err = config_report(c, e);
        return err ? err : desc_validate(m, e);
    }
    return unknown(type, e);
}
