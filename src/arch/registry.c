/* The registry of families: one row each, sorted by model_type. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "arch/family.h"
#include "base/num.h"

static const struct family families[] = {
    {"llama", NULL, "Llama 1-3, SmolLM, Yi and other Llama-shaped models", arch_llama},
    {"mistral", "llama", "Mistral 7B, Nemo, Small (text)", arch_mistral},
    {"mixtral", "mistral", "Mixtral 8x7B, 8x22B", arch_mixtral},
    {"qwen2", "llama", "Qwen 1.5 (dense), 2, 2.5", arch_qwen2},
    {"qwen3", "llama", "Qwen 3 (dense)", arch_qwen3},
    {"qwen3_moe", "qwen3", "Qwen 3 30B-A3B, 235B-A22B, Coder", arch_qwen3_moe},
};

const struct family *arch_families(size_t *n)
{
    *n = ARRAY_LEN(families);
    return families;
}

static bool is_near(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n >= 4 || (n && (!a[n] || !b[n]));
}

static int unknown(const char *type, struct error *e)
{
    char   near[256] = "", all[512] = "";
    size_t a = 0, o = 0;
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        const char *name = families[i].model_type;
        a += (size_t)snprintf(all + a, sizeof all - a, "%s%s", a ? ", " : "", name);
        a = MIN(a, sizeof all - 1);
        if (is_near(type, name))
            o += (size_t)snprintf(near + o, sizeof near - o, "%s%s", o ? ", " : "", name);
        o = MIN(o, sizeof near - 1);
    }
    return error_set(e, ERR_UNSUPPORTED, "model_type",
                     "config.json: model_type \"%s\" is not supported; %s%s; see `mlxcel arch`", type,
                     o ? "near names: " : "supported: ", o ? near : all);
}

int arch_describe(struct model_desc *m, struct config *c, struct arena *a, struct error *e)
{
    const char *type = config_str(c, "model_type");
    *m = (struct model_desc){.prefix = "", .residual_scale = 1, .embed_scale = 1, .logit_scale = 1};
    desc_names(m->name);
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
        err = config_report(c, e);
        return err ? err : desc_validate(m, e);
    }
    return unknown(type, e);
}
