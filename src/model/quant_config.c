/* Comparing declared with found; contracts in quant_config.h.
 *
 * The format of `quantization` (mlx-lm): group_size, bits and mode for all, and per module path an object of the same
 * fields, true or false. What holds for all only says how modules are stored that have scales; a module's own entry also
 * says that it has some, or none. Hugging Face's FP8 is declared by quantization_config.quant_method instead.
 */
#include "model/quant_config.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

#define BITS_MAX 32
#define GROUP_MAX (1 << 20)

/* What a wrapper's own top level says goes before what its text_config does. */
static struct config *object(struct config *c, const char *key)
{
    return config_object(config_has(config_top(c), key) ? config_top(c) : c, key);
}

static struct config *declared(struct config *c)
{
    struct config *q = object(c, "quantization");
    return q ? q : object(c, "quantization_config");
}

/* Ways of the original models that are read, and what of MLX they are. */
static const struct method {
    const char     *name;
    enum quant_mode mode;
    int             group; /* 0: the mode's own */
} methods[] = {{"fp8", QUANT_FP8, 0}, {"mxfp4", QUANT_MXFP4, 0}, {"compressed-tensors", QUANT_AFFINE, 32}};

static const struct method *method_of(struct config *q)
{
    const char *name = q && config_kind(q, "quant_method") == CONFIG_STR ? config_str(q, "quant_method") : "";
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (strcmp(name, methods[i].name) == 0)
            return &methods[i];
    return NULL;
}

/* How config.json wants a module stored: the mode's name as it is written there, NULL for dense. */
struct form {
    const char *mode;
    int         bits, group; /* 0: not said, of a mode that does not exist */
};

static struct form form_of_mode(enum quant_mode mode, const char *name)
{
    struct quant q = quant_default(mode);
    return (struct form){name, q.bits, q.group};
}

/* mode, bits and group_size of one object; what is missing is mlx-lm's default. */
static struct form read_form(struct config *o)
{
    const char *mode = config_str_or(o, "mode", "affine");
    struct form f = form_of_mode(quant_mode_from_name(mode), mode);
    f.bits = (int)config_int_or(o, "bits", 1, BITS_MAX, f.bits);
    f.group = (int)config_int_or(o, "group_size", 1, GROUP_MAX, f.group);
    return f;
}

static void check_method(struct config *q, const struct method *m)
{
    int n = m->mode == QUANT_FP8 ? config_array_len(q, "weight_block_size") : 0;
    for (int i = 0; i < n; i++)
        config_array_int(q, "weight_block_size", i, QUANT_FP8_TILE, QUANT_FP8_TILE);
    if (m->mode == QUANT_AFFINE && strcmp(config_str_or(q, "format", ""), "pack-quantized"))
        config_fault(q, ERR_UNSUPPORTED, "format", "is \"%s\", pack-quantized (of 4 bits) is supported",
                     config_str_or(q, "format", ""));
}

/* Reads everything once, for the faults. */
static void check_forms(struct config *q)
{
    read_form(q);
    for (const char *key = config_next_key(q, NULL); key; key = config_next_key(q, key))
        if (config_kind(q, key) == CONFIG_OBJECT)
            read_form(config_object(q, key));
}

int quant_config_check(struct config *c, struct error *e)
{
    struct config *q = declared(c);
    bool           own = q && config_has(c, "quantization");
    if (q && !own && method_of(q))
        check_method(q, method_of(q));
    else if (q && !own && config_has(q, "quant_method"))
        config_fault(q, ERR_UNSUPPORTED, "quant_method",
                     "is \"%s\", but of the original models' quantizations only fp8, mxfp4 and compressed-tensors "
                     "(pack-quantized) are read: take the model from before it was quantized (`mlxcel convert -q`)",
                     config_str_or(q, "quant_method", ""));
    else if (q)
        check_forms(q);
    return config_report(c, e);
}

static void text_of(char out[128], const struct form *f)
{
    if (!f->mode)
        snprintf(out, 128, "dense");
    else if (f->bits && f->group)
        snprintf(out, 128, "%.40s %d bits group %d", f->mode, f->bits, f->group);
    else
        snprintf(out, 128, "%.40s", f->mode);
}

/* The module that holds a row: its own, but for the heads of kv_b_proj. */
static const char *module_of(const struct param *p)
{
    const struct layout_rule *rule = p->source.rule;
    return rule && (rule->below || rule->above) ? p->source.name : p->name;
}

/* What is declared for one module: its own entry of q, else `all`; *own tells which. */
static struct form expected(struct config *q, const char *name, const struct form *all, bool *own)
{
    enum config_kind kind = q ? config_kind(q, name) : CONFIG_MISSING;
    *own = kind == CONFIG_BOOL || kind == CONFIG_OBJECT;
    if (kind == CONFIG_OBJECT)
        return read_form(config_object(q, name));
    return kind == CONFIG_BOOL && !config_bool_or(q, name, true) ? (struct form){0} : *all;
}

static struct form stored(const struct param *p)
{
    const struct quant *q = &p->source.quant;
    if (q->mode == QUANT_NONE)
        return (struct form){0};
    return (struct form){quant_mode_name(q->mode), q->bits, q->group};
}

static bool same(const struct form *a, const struct form *b)
{
    if (!a->mode || !b->mode)
        return a->mode == b->mode;
    return !strcmp(a->mode, b->mode) && a->bits == b->bits && a->group == b->group;
}

void quant_config_compare(struct config *c, const struct params *p, const struct log *log)
{
    struct config       *q = declared(c);
    struct form          all = {0};
    char                 say[128], find[128], first[512] = "";
    size_t               differ = 0, quantized = 0;
    const struct method *m = config_has(c, "quantization") ? NULL : method_of(q);
    if (m)
        all = form_of_mode(m->mode, quant_mode_name(m->mode));
    else if (q)
        all = read_form(q);
    all.group = m && m->group ? m->group : all.group;
    text_of(say, &all);
    for (size_t i = 0; i < p->n; i++) {
        const struct param *row = &p->v[i];
        struct form         found = stored(row);
        bool                own;
        const char         *module = module_of(row);
        if (!param_is_matrix(row) || !row->bytes || (row->source.rule && row->source.rule->above)) /* told of `below` */
            continue;
        struct form want = expected(q, module, &all, &own);
        quantized += found.mode != NULL;
        if (same(&want, &found) || (!own && !found.mode))
            continue;
        if (differ++)
            continue;
        text_of(say, &want);
        text_of(find, &found);
        snprintf(first, sizeof first, "%s is declared %s but stored %s", module, say, find);
    }
    if (differ > 1)
        log_warning(log, "config.json: %s, and %zu more layers differ; the stored form is used", first, differ - 1);
    else if (differ)
        log_warning(log, "config.json: %s; the stored form is used", first);
    else if (all.mode && !quantized)
        log_warning(log, "config.json: the layers are declared %s but all stored dense; the stored form is used", say);
}
