/* The rules of Hugging Face PEFT's LoRA files.
 *
 *     {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": false, "rank_pattern": {}, ...}
 *     base_model.model.X.lora_A.weight [r, in], X.lora_B.weight [out, r], X.lora_B.bias [out] (lora_bias)
 *     X.lora_embedding_A [r, V], X.lora_embedding_B [D, r]
 *     X.lora_magnitude_vector [out] (use_dora), with or without .weight
 *     X.base_layer.lora_A.weight: target_parameters, the parameter of X that was wrapped before (below)
 *     X.base_layer.weight: a copy of the base's; X.base_layer.bias: a trained bias (bias = "all" or "lora_only")
 *     X.weight, X.bias: modules_to_save, embeddings that were saved along, biases
 *
 * Some writers leave the adapter's name in: .lora_A.default.weight, .modules_to_save.default.weight. The product's
 * factor is lora_alpha / r, with use_rslora lora_alpha / sqrt(r), r and lora_alpha by module.
 *
 * target_parameters name parameters of modules that are no layers: stacked experts. A module of which several are
 * adapted is wrapped once for each, in the order in which it declares them, and the last wrapper has the plain name.
 * All that declare both a gate_up_proj and a down_proj declare them in this order.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "adapt/file_int.h"
#include "base/num.h"

#define PREFIX "base_model.model."
#define TARGETS_MAX 8 /* parameters of one module */
#define NAMES_MAX 512 /* of a list, each of which is looked for in every tensor's name */

/* --- the config --------------------------------------------------------------------------------------------------- */

/* Features that change the forward pass and that are not built. */
static const struct {
    const char *field, *name;
} unbuilt[] = {
    {"alora_invocation_tokens", "activated LoRA (aLoRA)"},
    {"use_qalora", "QALoRA"},
    {"arrow_config", "Arrow routing"},
    {"layer_replication", "replicated layers"},
    {"trainable_token_indices", "trainable tokens"},
    {"use_bdlora", "block-diagonal LoRA"},
    {"kasa_config", "KaSA"},
    {"monteclora_config", "MonteCLoRA"},
};

static bool is_set(struct config *c, const char *key)
{
    switch (config_kind(c, key)) {
    case CONFIG_MISSING:
        return false;
    case CONFIG_BOOL:
        return config_bool_or(c, key, false);
    case CONFIG_ARRAY:
        return config_array_len(c, key) > 0;
    default:
        return true;
    }
}

/* These begin with a changed base; whether the adapter was converted back when it was saved, nothing tells. */
static void warn_of_init(struct adapter_reader *r)
{
    static const char *const changed[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const char              *init =
        config_kind(r->config, "init_lora_weights") == CONFIG_STR ? config_str(r->config, "init_lora_weights") : "";
    for (size_t i = 0; i < ARRAY_LEN(changed); i++)
        if (strncasecmp(init, changed[i], strlen(changed[i])) == 0)
            adapter_warn(
                r,
                "%s: init_lora_weights is \"%.40s\", which trains over a changed base: over the original weights "
                "the adapter is right only if PEFT converted it when it was saved",
                r->f->path, init);
}

/* of: what a parameter without a module belongs to; NULL: the names are modules. */
static void read_names(struct adapter_reader *r, struct adapter_names *names, const char *key, const char *of)
{
    int n = config_array_len(r->config, key);
    if (n > NAMES_MAX)
        config_fault(r->config, ERR_LIMIT, key, "has %d names, more than %d are not read", n, NAMES_MAX);
    names->v = arena_calloc(&r->f->arena, (size_t)MAX(n, 0) + 1, sizeof *names->v);
    r->nomem |= !names->v;
    for (int i = 0; names->v && i < MIN(n, NAMES_MAX); i++) {
        const char *name = config_array_str(r->config, key, i), *dot = of ? strrchr(name, '.') : NULL;
        names->v[names->n++] = dot  ? (struct adapter_name){{name, (size_t)(dot - name)}, dot + 1}
                               : of ? (struct adapter_name){str_of(of), name}
                                    : (struct adapter_name){str_of(name), NULL};
    }
}

/* "0.18.1", "0.19.2.dev0@3f1c"; what is no version, or null, tells nothing. */
static int64_t read_version(struct config *c)
{
    unsigned    v[3] = {0};
    const char *text = config_kind(c, "peft_version") == CONFIG_STR ? config_str(c, "peft_version") : "";
    bool        known = sscanf(text, "%3u.%3u.%3u", &v[0], &v[1], &v[2]) >= 2;
    return known ? ADAPTER_PEFT_VERSION(v[0], v[1], v[2]) : 0;
}

static void read_peft(struct adapter_reader *r)
{
    struct config *c = r->config;
    const char    *type = config_str_or(c, "peft_type", "LORA"), *bias = config_str_or(c, "bias", "none");
    if (strcmp(type, "LORA") != 0)
        config_fault(c, ERR_UNSUPPORTED, "peft_type", "is \"%s\", only \"LORA\" is supported", type);
    for (size_t i = 0; i < ARRAY_LEN(unbuilt); i++)
        if (is_set(c, unbuilt[i].field))
            config_fault(c, ERR_UNSUPPORTED, unbuilt[i].field, "asks for %s, which is not supported", unbuilt[i].name);
    if (strcmp(bias, "none") && strcmp(bias, "all") && strcmp(bias, "lora_only"))
        config_fault(c, ERR_UNSUPPORTED, "bias", "is \"%s\", \"none\", \"all\" or \"lora_only\" is needed", bias);
    r->f->base = config_str_or(c, "base_model_name_or_path", NULL);
    r->f->kind = config_bool_or(c, "use_dora", false) ? ADAPTER_KIND_DORA : ADAPTER_KIND_LORA;
    r->f->peft_version = read_version(c);
    r->f->ties = config_bool_or(c, "ensure_weight_tying", false);
    r->f->fan_in_fan_out = config_bool_or(c, "fan_in_fan_out", false);
    r->f->rank = config_int_or(c, "r", 1, ADAPTER_RANK_MAX, config_has(c, "r") ? 0 : 8);
    r->peft.bias = strcmp(bias, "none") != 0;
    r->peft.alpha =
        config_num_or(c, "lora_alpha", -ADAPTER_SCALE_MAX, ADAPTER_SCALE_MAX, config_has(c, "lora_alpha") ? NAN : 8);
    r->peft.rslora = config_bool_or(c, "use_rslora", false);
    r->peft.extra = config_bool_or(c, "lora_bias", false);
    if (r->peft.extra && r->f->kind == ADAPTER_KIND_DORA)
        config_fault(c, ERR_UNSUPPORTED, "lora_bias", "is true beside use_dora, which PEFT does not allow");
    adapter_patterns_read(r, &r->peft.rank_pattern, "rank_pattern", 1, ADAPTER_RANK_MAX);
    adapter_patterns_read(r, &r->peft.alpha_pattern, "alpha_pattern", -ADAPTER_SCALE_MAX, ADAPTER_SCALE_MAX);
    read_names(r, &r->peft.targets, "target_parameters", "experts");
    read_names(r, &r->peft.saved, "modules_to_save", NULL);
    warn_of_init(r);
}

static double peft_scale(struct adapter_reader *r, const struct adapter_module *m, int64_t *rank)
{
    double n = rint(adapter_patterns_find(&r->peft.rank_pattern, m->name, (double)r->f->rank));
    double alpha = adapter_patterns_find(&r->peft.alpha_pattern, m->name, r->peft.alpha);
    r->nomem |= r->peft.rank_pattern.nomem || r->peft.alpha_pattern.nomem;
    if ((r->peft.rank_pattern.stopped || r->peft.alpha_pattern.stopped) && !r->peft.stopped) {
        r->peft.stopped = true;
        config_fault(r->config, ERR_LIMIT, r->peft.rank_pattern.stopped ? "rank_pattern" : "alpha_pattern",
                     "holds expressions whose matching takes too long");
    }
    *rank = n >= 1 ? (int64_t)n : 0;
    return *rank ? alpha / (r->peft.rslora ? sqrt(n) : n) : NAN;
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static bool ends_in(struct str s, struct str end)
{
    return end.n && s.n >= end.n && s.p[s.n - 1] == end.p[end.n - 1] && memcmp(s.p + s.n - end.n, end.p, end.n) == 0 &&
           (s.n == end.n || s.p[s.n - end.n - 1] == '.');
}

/* Parameters of a module that are declared before others come first: what goes down, last. */
static int by_declaration(const void *pa, const void *pb)
{
    const char *a = *(const char *const *)pa, *b = *(const char *const *)pb;
    int         d = (strstr(a, "down") || strstr(a, "w2")) - (strstr(b, "down") || strstr(b, "w2"));
    return d ? d : strcmp(a, b);
}

/* The parameters of the module that target_parameters names; a name without a module means one of all experts. */
static int targets_of(const struct adapter_reader *r, struct str module, const char *name[TARGETS_MAX])
{
    const struct adapter_names *t = &r->peft.targets;
    int                         n = 0;
    for (int i = 0; i < t->n && n < TARGETS_MAX; i++)
        if (ends_in(module, t->v[i].module))
            name[n++] = t->v[i].last;
    qsort(name, (size_t)n, sizeof *name, by_declaration);
    return n;
}

/* Names p by the module that carries the pair; base_layer infixes count wrappers. */
static void name_module(struct adapter_reader *r, struct adapter_piece *p, struct str module)
{
    const char *target[TARGETS_MAX];
    int         depth = 0;
    p->spelled = adapter_text(r, module);
    if (module.n > strlen(PREFIX) && memcmp(module.p, PREFIX, strlen(PREFIX)) == 0)
        module = (struct str){module.p + strlen(PREFIX), module.n - strlen(PREFIX)};
    while (adapter_cut(&module, ".base_layer"))
        depth++;
    int n = targets_of(r, module, target);
    if (depth > (n ? n - 1 : 0)) {
        adapter_refuse(r, p, ERR_MISFIT,
                       "is wrapped %d times, but target_parameters of " ADAPTER_CONFIG " names %d parameters of %.*s",
                       depth + 1, n, (int)module.n, module.p);
        return;
    }
    const char *name = n ? target[n - 1 - depth] : NULL;
    if (name && strcmp(name, "weight") != 0) {
        p->layout = ADAPTER_PEFT_STACK;
        p->name = arena_printf(&r->f->arena, STR_FMT ".%s", STR_ARG(module), name);
        r->nomem |= !p->name;
    } else {
        p->name = adapter_text(r, module);
    }
}

/* Modules that are saved whole are matched without regard to dots: "norm" is also the end of "input_layernorm". */
static bool is_saved(const struct adapter_reader *r, struct str module)
{
    for (int i = 0; i < r->peft.saved.n; i++) {
        struct str end = r->peft.saved.v[i].module;
        if (end.n && module.n >= end.n && memcmp(module.p + module.n - end.n, end.p, end.n) == 0)
            return true;
    }
    return false;
}

/* Whether a whole parameter may stand in the file: its module was saved, or it is a trained bias, or an embedding. */
static bool may_replace(const struct adapter_reader *r, struct str module, bool bias)
{
    static const struct str embeddings[] = {{"embed_tokens", 12}, {"lm_head", 7}};
    for (size_t i = 0; i < ARRAY_LEN(embeddings); i++)
        if (ends_in(module, embeddings[i]))
            return true;
    if (!r->config || (bias && r->peft.bias))
        return true;
    for (struct str m = module; m.n;) { /* the module and those around it */
        if (is_saved(r, m))
            return true;
        while (m.n && m.p[m.n - 1] != '.')
            m.n--;
        m.n -= m.n > 0;
    }
    return false;
}

static void name_parameter(struct adapter_reader *r, struct adapter_piece *p, struct str module, bool bias)
{
    bool wrapped = adapter_cut(&module, ".base_layer"), saved = adapter_cut(&module, ".modules_to_save");
    if (module.n > strlen(PREFIX) && memcmp(module.p, PREFIX, strlen(PREFIX)) == 0)
        module = (struct str){module.p + strlen(PREFIX), module.n - strlen(PREFIX)};
    if (wrapped && !(bias && r->peft.bias))
        p->part = PART_COPY;
    else if (wrapped || saved || may_replace(r, module, bias))
        p->part = PART_REPLACE;
    else {
        adapter_unknown(r, p);
        return;
    }
    p->name = arena_printf(&r->f->arena, STR_FMT ".%s", STR_ARG(module), bias ? "bias" : "weight");
    p->spelled = p->tensor->name;
    r->nomem |= !p->name;
}

/* A tensor of a saved module that is called by its name alone: A_log, e_score_correction_bias. */
static void name_bare(struct adapter_reader *r, struct adapter_piece *p)
{
    const char *name = p->tensor->name, *dot = strrchr(name, '.');
    if (!dot || !may_replace(r, (struct str){name, (size_t)(dot - name)}, false)) {
        adapter_unknown(r, p);
        return;
    }
    p->part = PART_REPLACE;
    p->spelled = name;
    p->name = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? name + strlen(PREFIX) : name;
}

static void name_peft(struct adapter_reader *r, struct adapter_piece *p)
{
    struct str module = str_of(p->tensor->name);
    bool       weight = adapter_cut(&module, ".weight"), bias = !weight && adapter_cut(&module, ".bias");
    adapter_cut(&module, ".default");
    p->layout = ADAPTER_PEFT;
    if (weight && adapter_cut(&module, ".lora_A")) {
        p->part = PART_A;
    } else if (weight && adapter_cut(&module, ".lora_B")) {
        p->part = PART_B;
    } else if (bias && adapter_cut(&module, ".lora_B")) {
        p->part = PART_EXTRA;
    } else if (!bias && adapter_cut(&module, ".lora_magnitude_vector")) {
        p->part = PART_MAGNITUDE;
    } else if (!bias && adapter_cut(&module, ".lora_embedding_A")) {
        p->part = PART_A;
        p->layout = ADAPTER_PEFT_EMBED;
    } else if (!bias && adapter_cut(&module, ".lora_embedding_B")) {
        p->part = PART_B;
        p->layout = ADAPTER_PEFT_EMBED;
    }
    if (p->part == PART_EXTRA && r->config && !r->peft.extra)
        adapter_refuse(r, p, ERR_MISFIT, "is a bias of lora_B, but " ADAPTER_CONFIG " has no lora_bias");
    else if (p->part)
        name_module(r, p, module);
    else if (strstr(p->tensor->name, "trainable_tokens"))
        adapter_refuse(r, p, ERR_UNSUPPORTED, "holds trainable tokens, which are not supported");
    else if (weight || bias)
        name_parameter(r, p, module, bias);
    else
        name_bare(r, p);
}

const struct adapter_rules adapter_rules_peft = {"lora_A.weight", "lora_B.weight", read_peft, name_peft, peft_scale};
