/* Rope's inverse frequencies; contracts in desc.h. */
#include <math.h>

#include "base/num.h"
#include "model/desc.h"

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

/* The pair, as a real number, that turns n times within the original context. */
static double yarn_pair(const struct rope_desc *r, double n)
{
    return r->dims * log((double)r->original_context / (n * 2 * M_PI)) / (2 * log(r->theta));
}

/* yarn: pairs that turn often are kept, those that turn seldom stretched by factor, and a ramp between. */
static double yarn_freq(const struct rope_desc *r, int pair, double freq)
{
    double low = yarn_pair(r, r->beta_fast), high = yarn_pair(r, r->beta_slow);
    if (!r->fractional) {
        low = floor(low);
        high = ceil(high);
    }
    low = MAX(low, 0);
    high = MIN(high, r->dims - 1);
    if (low == high)
        high += 0.001;
    double ramp = MIN(1, MAX(0, (pair - low) / (high - low)));
    return freq / r->factor * ramp + freq * (1 - ramp);
}

void rope_inv_freq(const struct rope_desc *r, bool beyond, float *out)
{
    for (int i = 0; i < r->dims / 2; i++) {
        double freq = pow(r->theta, -2.0 * i / r->dims);
        switch (r->scaling) {
        case ROPE_DEFAULT:
        case ROPE_DYNAMIC:
            break;
        case ROPE_LINEAR:
            freq /= r->factor;
            break;
        case ROPE_LLAMA3:
            freq = llama3_freq(r, freq);
            break;
        case ROPE_YARN:
            freq = yarn_freq(r, i, freq);
            break;
        case ROPE_LONGROPE:
            freq /= (double)(beyond ? r->long_factor : r->short_factor)[i];
            break;
        case ROPE_PROPORTIONAL:
            freq = i < r->n_pair ? freq / r->factor : 0;
            break;
        }
        out[i] = (float)freq;
    }
}
