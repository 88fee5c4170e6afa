/* Checks and derived numbers of a description; contracts in desc.h. */
#include "model/desc.h"

#include <math.h>
#include <string.h>

static int bad(struct error *e, const struct model_desc *m, int layer, const char *what)
{
    return error_set(e, ERR_MISFIT, "config.json", "config.json: layer %d of %s: %s", layer, m->model_type, what);
}

void desc_names(const char *name[NAMES])
{
    static const char *const usual[NAMES] = {
#define NAME(id, text) [NAME_##id] = text,
#include "model/names.def"
#undef NAME
    };
    memcpy(name, usual, sizeof usual);
}

static int validate_attn(const struct model_desc *m, int i, struct error *e)
{
    const struct attn_desc *a = &m->layer[i].attn;
    const struct rope_desc *r = &m->rope[a->rope < 0 ? 0 : a->rope];
    if (a->n_head % a->n_kv_head)
        return error_set(e, ERR_MISFIT, "num_key_value_heads",
                         "config.json: num_attention_heads is %d, needed a multiple of num_key_value_heads (%d)",
                         a->n_head, a->n_kv_head);
    if (a->rope >= 0 && (r->dims > a->head_dim || r->dims % 2))
        return bad(e, m, i, "the rotated width must be even and at most head_dim");
    return 0;
}

int desc_validate(const struct model_desc *m, struct error *e)
{
    for (int i = 0; i < m->n_layer; i++) {
        int err = m->layer[i].mix == MIX_ATTN ? validate_attn(m, i, e) : 0;
        if (err)
            return err;
    }
    return 0;
}

/* llama3: long wavelengths are stretched by factor, short ones kept, those between blended. */
static double llama3_freq(const struct rope_desc *r, double freq)
{
    double wavelength = 2 * M_PI / freq;
    double low = (double)r->original_context / r->low_freq_factor;
    double high = (double)r->original_context / r->high_freq_factor;
    if (wavelength > low)
        return freq / r->factor;
    if (wavelength < high)
        return freq;
    double smooth =
        ((double)r->original_context / wavelength - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * freq / r->factor + smooth * freq;
}

void rope_inv_freq(const struct rope_desc *r, float *out)
{
    for (int i = 0; i < r->dims / 2; i++) {
        double freq = pow(r->theta, -2.0 * i / r->dims);
        switch (r->scaling) {
        case ROPE_DEFAULT:
            break;
        case ROPE_LINEAR:
            freq /= r->factor;
            break;
        case ROPE_LLAMA3:
            freq = llama3_freq(r, freq);
            break;
        }
        out[i] = (float)freq;
    }
}
