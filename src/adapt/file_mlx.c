/* The rules of mlx-lm's adapters, of mlx-vlm's newer ones, which are the same, and of its older ones.
 *
 *     mlx-lm          {"fine_tune_type": "lora" | "dora" | "full", "lora_parameters": {"rank": r, "scale": s, ...}}
 *                     X.lora_a, X.lora_b, with DoRA X.m; "full": parameters by their own names. The product's factor is
 *                     s as it stands; in an older form without scale, alpha / r.
 *     mlx-vlm, older  {"rank": r, "alpha": x}; X.A, X.B; the factor is x / r, and 0.1 / r without alpha
 *
 * Which layers were trained (num_layers, in older files lora_layers, and keys) is told by the tensors.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "adapt/file_int.h"
#include "base/num.h"

/* Required numbers, which are 0 and NAN after a fault. */
static int64_t read_rank(struct config *c)
{
    if (config_has(c, "rank"))
        return config_int_or(c, "rank", 1, ADAPTER_RANK_MAX, 0);
    config_int(c, "rank", 1, ADAPTER_RANK_MAX);
    return 0;
}

static double read_scale(struct config *c, const char *key)
{
    if (config_has(c, key))
        return config_num_or(c, key, -ADAPTER_SCALE_MAX, ADAPTER_SCALE_MAX, NAN);
    config_num(c, key, -ADAPTER_SCALE_MAX, ADAPTER_SCALE_MAX);
    return NAN;
}

static double per_rank(double alpha, int64_t rank)
{
    return rank ? alpha / (double)rank : NAN;
}

/* --- mlx-lm ------------------------------------------------------------------------------------------------------- */

static void read_kind(struct adapter_reader *r)
{
    static const char *const names[] = {"lora", "dora", "full"};
    const char              *type = config_str_or(r->config, "fine_tune_type", "lora");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(type, names[i]) == 0) {
            r->f->kind = (enum adapter_kind)i;
            return;
        }
    config_fault(r->config, ERR_UNSUPPORTED, "fine_tune_type", "is \"%s\", \"lora\", \"dora\" or \"full\" is needed",
                 type);
}

static void read_mlx(struct adapter_reader *r)
{
    r->f->base = config_str_or(r->config, "model", NULL);
    read_kind(r);
    if (r->f->kind == ADAPTER_KIND_FULL)
        return;
    struct config *p = config_object(r->config, "lora_parameters");
    if (!p) {
        if (!config_has(r->config, "lora_parameters"))
            config_fault(r->config, ERR_FORMAT, "lora_parameters",
                         "is missing, an object with rank and scale is needed");
        return;
    }
    if (!config_has(r->config, "fine_tune_type") && config_bool_or(p, "use_dora", false)) /* mlx-lm-lora's way */
        r->f->kind = ADAPTER_KIND_DORA;
    r->f->rank = read_rank(p);
    const char *alpha = config_has(p, "lora_alpha") ? "lora_alpha" : "alpha";
    if (config_has(p, "scale") || !config_has(p, alpha))
        r->scale = read_scale(p, "scale");
    else
        r->scale = per_rank(read_scale(p, alpha), r->f->rank);
}

static void name_mlx(struct adapter_reader *r, struct adapter_piece *p)
{
    struct str module = str_of(p->tensor->name);
    if (r->f->kind == ADAPTER_KIND_FULL) {
        p->part = PART_REPLACE;
        p->name = p->spelled = p->tensor->name;
        return;
    }
    p->layout = ADAPTER_MLX;
    p->part = adapter_cut(&module, ".lora_a")   ? PART_A
              : adapter_cut(&module, ".lora_b") ? PART_B
              : adapter_cut(&module, ".m")      ? PART_MAGNITUDE
                                                : PART_NONE;
    if (!p->part || !module.n)
        adapter_unknown(r, p);
    else
        p->name = p->spelled = adapter_text(r, module);
}

static double common_scale(struct adapter_reader *r, const struct adapter_module *m, int64_t *rank)
{
    (void)m;
    *rank = r->f->rank;
    return r->scale;
}

const struct adapter_rules adapter_rules_mlx = {"lora_a", "lora_b", read_mlx, name_mlx, common_scale};

/* --- mlx-vlm ------------------------------------------------------------------------------------------------------ */

static void read_vlm(struct adapter_reader *r)
{
    r->f->rank = read_rank(r->config);
    r->scale = per_rank(config_has(r->config, "alpha") ? read_scale(r->config, "alpha") : 0.1, r->f->rank);
    if (r->f->rank > 1)
        adapter_warn(
            r,
            "%s: its factor is read as alpha / rank, as mlx-vlm reads it since 0.4.5; one that was trained by an "
            "older mlx-vlm, which took alpha alone, needs the scale %" PRId64,
            r->f->path, r->f->rank);
}

static void name_vlm(struct adapter_reader *r, struct adapter_piece *p)
{
    struct str module = str_of(p->tensor->name);
    p->layout = ADAPTER_MLX;
    p->part = adapter_cut(&module, ".A") ? PART_A : adapter_cut(&module, ".B") ? PART_B : PART_NONE;
    if (!p->part || !module.n)
        adapter_unknown(r, p);
    else
        p->name = p->spelled = adapter_text(r, module);
}

const struct adapter_rules adapter_rules_vlm = {"A", "B", read_vlm, name_vlm, common_scale};
