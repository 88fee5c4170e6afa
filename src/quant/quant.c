/* Which quantized mode the planes of a parameter are.
 *
 * The planes alone decide (docs/quantization.md); what config.json declares is only compared, elsewhere. With the
 * logical width K known:
 *
 *   bits = 32 * weight columns / K      group = K / scales columns
 *
 *   scales           biases    bits             group         mode
 *   F16, BF16, F32   like scales  2,3,4,5,6,8   32, 64, 128   affine
 *   U8               none      4                32            mxfp4
 *   U8               none      8                32            mxfp8
 *   U8               none      4                16            nvfp4
 *
 * Everything else is refused, with the plane and the shapes in the message.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "formats/tensor_view.h"
#include "quant/modes.h"

#define SET(n) (1u << (n))
#define CODES 512 /* unpacked at a time, whole groups */

static const struct {
    const char             *name;
    unsigned                bits;      /* set of widths */
    int                     groups[3]; /* allowed sizes, 0: none */
    int                     default_bits, default_group;
    bool                    float_scales;
    const struct quant_ops *ops;
} modes[QUANT_MODES] = {
    [QUANT_NONE] = {"none", 0, {0}, 0, 0, false, NULL},
    [QUANT_AFFINE] =
        {"affine", SET(2) | SET(3) | SET(4) | SET(5) | SET(6) | SET(8), {32, 64, 128}, 4, 64, true, &quant_affine},
    [QUANT_MXFP4] = {"mxfp4", SET(4), {32}, 4, 32, false, &quant_mxfp4},
    [QUANT_MXFP8] = {"mxfp8", SET(8), {32}, 8, 32, false, &quant_mxfp8},
    [QUANT_NVFP4] = {"nvfp4", SET(4), {16}, 4, 16, false, &quant_nvfp4},
    [QUANT_FP8] = {"fp8", 0, {0}, 8, QUANT_FP8_TILE, true, &quant_fp8},
};

const char *quant_mode_name(enum quant_mode mode)
{
    return (unsigned)mode < QUANT_MODES ? modes[mode].name : "unknown";
}

enum quant_mode quant_mode_from_name(const char *name)
{
    for (int m = QUANT_NONE + 1; m < QUANT_FP8; m++)
        if (strcmp(name, modes[m].name) == 0)
            return (enum quant_mode)m;
    return QUANT_NONE;
}

static bool has_group(enum quant_mode mode, int64_t group)
{
    for (size_t i = 0; i < ARRAY_LEN(modes[mode].groups); i++)
        if (modes[mode].groups[i] && modes[mode].groups[i] == group)
            return true;
    return false;
}

static bool has_bits(enum quant_mode mode, int64_t bits)
{
    return bits > 0 && bits < 32 && (modes[mode].bits & SET(bits));
}

int quant_check(const struct quant *q, struct error *e)
{
    if (has_bits(q->mode, q->bits) && has_group(q->mode, q->group))
        return 0;
    if (q->mode == QUANT_AFFINE)
        return error_set(
            e, ERR_INVALID, "mode",
            "affine with %d bits in groups of %d does not exist; it has 2, 3, 4, 5, 6 or 8 bits and groups of "
            "32, 64 or 128",
            q->bits, q->group);
    struct quant only = quant_default(q->mode);
    return error_set(e, ERR_INVALID, "mode",
                     "%s with %d bits in groups of %d does not exist; it has %d bits and groups of %d",
                     quant_mode_name(q->mode), q->bits, q->group, only.bits, only.group);
}

struct quant quant_default(enum quant_mode mode)
{
    bool bytes = mode != QUANT_NONE && !modes[mode].float_scales;
    return (struct quant){mode, modes[mode].default_bits, modes[mode].default_group, bytes ? DTYPE_U8 : DTYPE_NONE};
}

const char *quant_text(const struct quant *q, char out[QUANT_TEXT])
{
    if (q->mode == QUANT_FP8)
        snprintf(out, QUANT_TEXT, "%s tiles of %d x %d", quant_mode_name(q->mode), q->group, q->group);
    else
        snprintf(out, QUANT_TEXT, "%s %d bits group %d", quant_mode_name(q->mode), q->bits, q->group);
    return out;
}

size_t quant_row_bytes(const struct quant *q, int64_t K)
{
    return (size_t)K * (size_t)q->bits / 8;
}

size_t quant_scale_row_bytes(const struct quant *q, int64_t K)
{
    return (size_t)((K + q->group - 1) / q->group) * dtype_size(q->scale_dtype);
}

int quant_scale_rows(const struct quant *q)
{
    return q->mode == QUANT_FP8 ? q->group : 1;
}

static inline void widen_lanes(enum dtype d, const char *p, int n, float *out)
{
    uint16_t h[QUANT_LANES];
    memcpy(h, p, (size_t)n * sizeof *h);
    if (d == DTYPE_F16)
        for (int i = 0; i < n; i++)
            out[i] = f16_to_f32(h[i]);
    else
        for (int i = 0; i < n; i++)
            out[i] = bf16_to_f32(h[i]);
}

void quant_widen(enum dtype d, const void *p, int64_t n, float *out)
{
    const char *at = p;
    if (d == DTYPE_F32) {
        memcpy(out, p, (size_t)n * sizeof *out);
        return;
    }
    for (; n >= QUANT_LANES; n -= QUANT_LANES, at += 2 * QUANT_LANES, out += QUANT_LANES)
        widen_lanes(d, at, QUANT_LANES, out);
    widen_lanes(d, at, (int)n, out);
}

void quant_narrow(enum dtype d, const float *p, int64_t n, void *out)
{
    if (d == DTYPE_F32) {
        memmove(out, p, (size_t)n * sizeof *p);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, (const char *)p + 4 * i, sizeof f);
        uint16_t h = d == DTYPE_F16 ? f32_to_f16(f) : f32_to_bf16(f);
        memcpy((char *)out + 2 * i, &h, sizeof h);
    }
}

/* --- rows -----------------------------------------------------------------------------------------------------------
 */

void quant_decode_row(const struct quant *q, const void *codes, const void *scales, const void *biases, int64_t K,
                      float *out)
{
    const struct quant_ops *ops = modes[q->mode].ops;
    uint8_t                 c[CODES];
    for (int64_t i = 0; i < K; i += q->group) {
        if (i % CODES == 0)
            quant_codes_row(q, (const uint8_t *)codes + i * q->bits / 8, MIN(K - i, CODES), c);
        float scale = ops->scale(q->scale_dtype, scales, i / q->group);
        float bias = q->mode == QUANT_AFFINE ? ops->scale(q->scale_dtype, biases, i / q->group) : 0;
        ops->decode(c + i % CODES, (int)MIN(K - i, q->group), scale, bias, out + i);
    }
}

void quant_encode_row(const struct quant *q, const float *w, int64_t K, void *codes, void *scales, void *biases)
{
    modes[q->mode].ops->encode(q, w, K, codes, scales, biases);
}

/* --- planes ---------------------------------------------------------------------------------------------------------
 */

static bool same_shape(const struct tensor_view *a, const struct tensor_view *b, int n_dim)
{
    for (int i = 0; i < n_dim; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}

static int misfit(struct faults *f, const struct tensor_view *plane, const struct tensor_view *w, const char *needed)
{
    char a[TENSOR_SHAPE_TEXT], b[TENSOR_SHAPE_TEXT];
    faults_add(f, ERR_MISFIT, plane->name, "%s: '%s' is %s %s beside '%s' %s %s, needed %s", plane->file, plane->name,
               dtype_name(plane->dtype), tensor_view_shape_text(plane, a), w->name, dtype_name(w->dtype),
               tensor_view_shape_text(w, b), needed);
    return ERR_MISFIT;
}

/* Names the missing plane, too: it is X.biases where the scales are X.scales. */
static int no_biases(struct faults *f, const struct tensor_view *scales, const struct tensor_view *w)
{
    char   needed[512];
    size_t n = strlen(scales->name), cut = strlen("scales");
    snprintf(
        needed, sizeof needed,
        "also a biases plane, as affine quantization has: it has scales but no biases ('%.*sbiases' is in no file)",
        n < cut ? 0 : (int)MIN(n - cut, 300), scales->name);
    return misfit(f, scales, w, needed);
}

/* The mode that holds this width, group and kind of scales, or QUANT_NONE. */
static enum quant_mode find_mode(int64_t bits, int64_t group, bool float_scales)
{
    for (int m = QUANT_NONE + 1; m < QUANT_MODES; m++)
        if (modes[m].float_scales == float_scales && has_bits((enum quant_mode)m, bits) &&
            has_group((enum quant_mode)m, group))
            return (enum quant_mode)m;
    return QUANT_NONE;
}

/* Types and shapes that do not depend on K. */
static int check_planes(const struct tensor_view *w, const struct tensor_view *scales, const struct tensor_view *biases,
                        struct faults *f)
{
    int  d = w->n_dim;
    bool float_scales = dtype_is_float16_32(scales->dtype);
    if (w->dtype != DTYPE_U32 || d < 2)
        return misfit(f, w, scales, "packed codes of type U32 with at least 2 dimensions");
    if (!float_scales && scales->dtype != DTYPE_U8)
        return misfit(f, scales, w, "scales of type F16, BF16, F32 or U8");
    if (scales->n_dim != d || !same_shape(w, scales, d - 1))
        return misfit(f, scales, w, "the same leading dimensions");
    if (!biases && float_scales)
        return no_biases(f, scales, w);
    if (biases && !float_scales)
        return misfit(f, biases, scales, "no biases plane beside scales of type U8");
    if (biases && (biases->dtype != scales->dtype || biases->n_dim != d || !same_shape(biases, scales, d)))
        return misfit(f, biases, scales, "the type and shape of the scales");
    return 0;
}

int quant_from_planes(struct quant *out, const struct tensor_view *w, const struct tensor_view *scales,
                      const struct tensor_view *biases, int64_t K, struct faults *f)
{
    char    a[TENSOR_SHAPE_TEXT], b[TENSOR_SHAPE_TEXT];
    int64_t stored, bits = 0, group = 0;
    int     rc = check_planes(w, scales, biases, f);
    if (rc)
        return rc;
    int64_t cols = w->shape[w->n_dim - 1], groups = scales->shape[w->n_dim - 1];
    if (K > 0 && num_mul(cols, (int64_t)32, &stored) && stored % K == 0)
        bits = stored / K;
    if (K > 0 && groups > 0 && K % groups == 0)
        group = K / groups;
    bool            float_scales = dtype_is_float16_32(scales->dtype);
    enum quant_mode mode = find_mode(bits, group, float_scales);
    if (mode == QUANT_NONE) {
        char would[64] = "";
        if (bits && group)
            snprintf(would, sizeof would, " (%" PRId64 " bits in groups of %" PRId64 ")", bits, group);
        faults_add(f, ERR_MISFIT, w->name,
                   "%s: '%s' %s with '%s' %s %s does not hold rows of %" PRId64
                   " inputs in any mode of MLX%s, needed %s",
                   w->file, w->name, tensor_view_shape_text(w, a), scales->name, dtype_name(scales->dtype),
                   tensor_view_shape_text(scales, b), K, would,
                   float_scales ? "affine planes of 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128"
                                : "mxfp4 (4 bits, groups of 32), mxfp8 (8 bits, groups of 32) or nvfp4 (4 bits, groups "
                                  "of 16) planes");
        return ERR_MISFIT;
    }
    *out = (struct quant){mode, (int)bits, (int)group, scales->dtype};
    return 0;
}
