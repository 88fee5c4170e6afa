/* Fields of config.json that have two spellings: the rotary ones and the element type. Contracts in config.h.
 *
 * Old transformers: rope_theta beside rope_scaling (null or an object), partial_rotary_factor beside them, torch_dtype.
 * New: one object rope_parameters that holds rope_theta, partial_rotary_factor and what rope_scaling held; dtype.
 * Where an object gives both type and rope_type (Qwen2-VL: "mrope" and "default"), rope_type is the one that counts.
 */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "formats/config.h"

#define THETA_MAX 1e15

/* rope_parameters may hold one object per layer type; we know it by a member that is an object. */
static bool is_per_layer_type(struct config *fields)
{
    for (const char *k = config_next_key(fields, NULL); k; k = config_next_key(fields, k))
        if (config_kind(fields, k) == CONFIG_OBJECT)
            return true;
    return false;
}

struct config_rope config_rope(struct config *c, double theta, double partial)
{
    struct config_rope r = {.type = "default"};
    struct config     *p = config_object(c, "rope_parameters");
    r.theta = config_num_or(c, "rope_theta", 1e-6, THETA_MAX, theta);
    r.partial = config_num_or(c, "partial_rotary_factor", 0, 1, partial);
    if (p && is_per_layer_type(p)) {
        config_fault(c, ERR_UNSUPPORTED, "rope_parameters", "holds one object per layer type, which is not supported");
        return r;
    }
    if (p) {
        r.theta = config_num_or(p, "rope_theta", 1e-6, THETA_MAX, r.theta);
        r.partial = config_num_or(p, "partial_rotary_factor", 0, 1, r.partial);
    }
    r.fields = p ? p : config_object(c, "rope_scaling");
    if (r.fields)
        r.type = config_str_or(r.fields, "rope_type", config_str_or(r.fields, "type", r.type));
    return r;
}

enum dtype config_dtype(struct config *c)
{
    static const struct {
        const char *name;
        enum dtype  dtype;
    } names[] = {
        {"auto", DTYPE_NONE},
        {"bfloat16", DTYPE_BF16},
        {"float16", DTYPE_F16},
        {"half", DTYPE_F16},
        {"float32", DTYPE_F32},
        {"float", DTYPE_F32},
        {"float64", DTYPE_F64},
        {"double", DTYPE_F64},
        {"float8_e4m3fn", DTYPE_F8_E4M3},
        {"float8_e5m2", DTYPE_F8_E5M2},
    };
    const char *key = config_has(c, "dtype") ? "dtype" : "torch_dtype";
    const char *s = config_str_or(c, key, "auto");
    if (strncmp(s, "torch.", 6) == 0)
        s += 6;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(s, names[i].name) == 0)
            return names[i].dtype;
    config_fault(c, ERR_UNSUPPORTED, key, "is '%s', which is no element type we know", s);
    return DTYPE_NONE;
}
