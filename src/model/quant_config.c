/* Comparing declared with found; contracts in quant_config.h. The format of `quantization` (mlx-lm): group_size, bits, mode
 * for all, and per module path an object of the same fields, true or false. */
#include "model/quant_config.h"

#include <stdio.h>
#include <string.h>

static struct config *declared(struct config *c)
{
    struct config *q = config_object(c, "quantization");
    return q ? q : config_object(c, "quantization_config");
}

/* Hugging Face's storage of FP8 weights with scales for tiles of 128 x 128; the planes show it. */
static bool is_fp8(struct config *q)
{
    return q && config_kind(q, "quant_method") == CONFIG_STR && !strcmp(config_str(q, "quant_method"), "fp8");
}

int quant_config_check(struct config *c, struct error *e)
{
    struct config *q = config_has(c, "quantization") ? NULL : config_object(c, "quantization_config");
    if (is_fp8(q)) {
        int n = config_array_len(q, "weight_block_size");
        for (int i = 0; i < n; i++)
            config_array_int(q, "weight_block_size", i, 128, 128);
    } else if (q && config_has(q, "quant_method"))
        config_fault(q, ERR_UNSUPPORTED, "quant_method",
                     "is \"%s\"; only MLX's own quantization is supported (convert the original model with mlx-lm)",
                     config_str_or(q, "quant_method", ""));
    return config_report(c, e);
}

static void text_of(char out[64], const struct quant *q)
{
    if (q->mode == QUANT_NONE)
        snprintf(out, 64, "dense");
    else
        snprintf(out, 64, "%s %d bits group %d", quant_mode_name(q->mode), q->bits, q->group);
}

/* mode, bits and group_size of one object; what is missing is mlx-lm's default. */
static struct quant declared_form(struct config *o)
{
    struct quant q = quant_default(quant_mode_from_name(config_str_or(o, "mode", "affine")));
    q.bits = (int)config_int_or(o, "bits", 1, 32, q.bits);
    q.group = (int)config_int_or(o, "group_size", 1, 1 << 20, q.group);
    return q;
}

/* What q declares for module `name`; all: the fields for every module. false: nothing is declared. */
static bool expected(struct config *q, const char *name, const struct quant *all, struct quant *out)
{
    *out = *all;
    if (config_kind(q, name) == CONFIG_BOOL) {
        if (!config_bool_or(q, name, true))
            *out = (struct quant){0};
        return true;
    }
    struct config *o = config_kind(q, name) == CONFIG_OBJECT ? config_object(q, name) : NULL;
    if (!o)
        return false;
    *out = declared_form(o);
    return true;
}

void quant_config_compare(struct config *c, const struct params *p, const struct log *log)
{
    struct config *q = declared(c);
    struct quant   all, want;
    char           say[64], found[64], first[512] = "";
    int            n = 0;
    if (!q || is_fp8(q))
        return;
    all = declared_form(q);
    for (size_t i = 0; i < p->n; i++) {
        const struct param *row = &p->v[i];
        if (row->n_dim != 2 || !row->bytes)
            continue;
        bool own = expected(q, row->name, &all, &want);
        if (!own && row->quant.mode == QUANT_NONE)
            continue; /* a module without scales is dense unless it is named */
        if (want.mode == row->quant.mode && want.bits == row->quant.bits && want.group == row->quant.group)
            continue;
        if (want.mode == QUANT_NONE && row->quant.mode == QUANT_NONE)
            continue;
        text_of(say, &want);
        text_of(found, &row->quant);
        if (!n++)
            snprintf(first, sizeof first, "%s is declared %s but stored %s", row->name, say, found);
    }
    if (n == 1)
        log_warning(log, "config.json: %s; the stored form is used", first);
    else if (n)
        log_warning(log, "config.json: %s, and %d more layers differ; the stored form is used", first, n - 1);
}
