/* Fields of config.json that have two spellings: the rotary ones and the element type. Contracts in config.h.
 *
 * Old transformers: rope_theta beside rope_scaling (null or an object), partial_rotary_factor beside them, torch_dtype.
 * New: one object rope_parameters that holds rope_theta, partial_rotary_factor and what rope_scaling held, or one such
 * object for each layer type; dtype. A rope_scaling that is not null counts instead of rope_parameters; what stands inside
 * the object counts before what stands beside it.
 * Where an object gives both type and rope_type (Qwen2-VL: "mrope" and "default"), rope_type is the one that counts.
 */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "formats/config.h"

/* rope_parameters may hold one object per layer type; we know it by a member that is an object. */
static bool is_per_layer_type(struct config *fields)
{
    for (const char *k = config_next_key(fields, NULL); k; k = config_next_key(fields, k))
        if (config_kind(fields, k) == CONFIG_OBJECT)
            return true;
    return false;
}

/* The object that counts for the layer type, NULL where there is none; *own: it is not for other layer types. */
static struct config *rope_object(struct config *c, const char *layer_type, bool *own)
{
    struct config *p = config_object(c, "rope_scaling");
    if (p)
        return p;
    p = config_object(c, "rope_parameters");
    *own = p && is_per_layer_type(p);
    if (!*own)
        return p;
    if (!layer_type) {
        config_fault(c, ERR_UNSUPPORTED, "rope_parameters",
                     "holds one object per layer type; all layers of this family rotate alike");
        return NULL;
    }
    if (!config_has(p, layer_type))
        config_fault(p, ERR_FORMAT, layer_type, "is missing, an object is needed");
    return config_object(p, layer_type);
}

struct config_rope config_rope(struct config *c, const char *layer_type, double theta, double partial)
{
    struct config_rope r = {.type = "default"};
    r.fields = rope_object(c, layer_type, &r.per_layer_type);
    r.theta = config_num_or(c, "rope_theta", CONFIG_THETA_MIN, CONFIG_THETA_MAX, theta);
    r.partial = config_num_or(c, "partial_rotary_factor", 0, 1, partial);
    if (r.fields) {
        r.theta = config_num_or(r.fields, "rope_theta", CONFIG_THETA_MIN, CONFIG_THETA_MAX, r.theta);
        r.partial = config_num_or(r.fields, "partial_rotary_factor", 0, 1, r.partial);
        r.type = config_str_or(r.fields, "rope_type", config_str_or(r.fields, "type", r.type));
    }
    return r;
}

enum dtype config_dtype(struct config *c)
{
    static const struct {
        const char *name;
        enum dtype  dtype;
    } names[] = {{"bfloat16", DTYPE_BF16}, {"float16", DTYPE_F16}, {"float32", DTYPE_F32}};
    struct config *o = config_top(c);
    const char    *key = "torch_dtype";
    if (config_kind(o, key) == CONFIG_MISSING) {
        o = config_object(o, "text_config");
        key = "dtype";
    }
    const char *s = o && config_kind(o, key) == CONFIG_STR ? config_str(o, key) : "";
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(s, names[i].name) == 0)
            return names[i].dtype;
    return DTYPE_NONE;
}
