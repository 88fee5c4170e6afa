/* Rope's frequencies from config.json against values of transformers 5.24 (modeling_rope_utils, float32), and the spellings
 * of the fields and what is wrong with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "support/description.h"
#include "tensor/ops.h"

#define HEAD                                                                                                           \
    "\"hidden_size\":64,\"intermediate_size\":8,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_"    \
    "heads\":2,\"vocab_size\":9,"                                                                                      \
    "\"max_position_embeddings\":512"

/* The eight frequencies of heads of 16, and what multiplies cosine and sine. */
static void check(const char *fields, bool beyond, double mscale, const float needed[8])
{
    struct description d;
    float              freq[8];
    if (describe(&d, "llama", HEAD, fields))
        fail_msg("%s: %s", fields, d.e.msg);
    const struct rope_desc *r = &d.m.rope[0];
    rope_inv_freq(r, beyond, freq);
    if (r->scaling == ROPE_DYNAMIC && beyond) {
        struct rope op = {.dims = 16, .limit = r->original_context, .theta = r->theta, .factor = r->factor};
        for (int i = 0; i < 8; i++)
            freq[i] = (float)pow(rope_long_base(&op, 2000), -i / 8.0);
    }
    double scale = beyond && r->scaling == ROPE_LONGROPE ? r->mscale_long : r->mscale;
    if (fabs(scale - mscale) > 1e-12)
        fail_msg("%s: scale %.17g, needed %.17g", fields, scale, mscale);
    for (int i = 0; i < 8; i++)
        if (fabsf(freq[i] - needed[i]) > 4e-7f * needed[i])
            fail_msg("%s: frequency %d is %.9g, needed %.9g", fields, i, (double)freq[i], (double)needed[i]);
    description_free(&d);
}

#define SCALED(object) "\"rope_theta\":10000.0,\"rope_scaling\":{" object "}"
#define LONG                                                                                                           \
    SCALED("\"rope_type\":\"longrope\",\"long_factor\":[2,3,4,5,6,7,8,9],"                                             \
           "\"short_factor\":[1,1.125,1.25,1.5,1.75,2,2.25,2.5],\"original_max_position_embeddings\":64")

static void frequencies(void **state)
{
    static const float plain[] = {1,     0.316227764f,   0.100000001f,   0.0316227786f,
                                  0.01f, 0.00316227786f, 0.00100000005f, 0.000316227786f};
    static const float mscaled[] = {1,        0.213453725f,    0.0349999964f, 0.000790569466f,
                                    0.00025f, 7.90569466e-05f, 2.5e-05f,      7.90569447e-06f};
    (void)state;
    check("", false, 1, plain);
    check(SCALED("\"type\":\"mrope\",\"rope_type\":\"default\",\"mrope_section\":[2,3,3]"), false, 1, plain);
    check(SCALED("\"type\":\"mrope\",\"mrope_section\":[2,3,3]"), false, 1, plain);
    check(SCALED("\"type\":\"linear\",\"factor\":4.0"), false, 1,
          (const float[]){0.25f, 0.079056941f, 0.025f, 0.00790569466f, 0.0025f, 0.000790569466f, 0.00025f,
                          7.90569466e-05f});
    check("\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500.0,\"factor\":8.0,\"low_freq_factor\":1.0,"
          "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":64}",
          false, 1,
          (const float[]){1, 0.459863275f, 0.0976166278f, 0.0121561559f, 0.00559017016f, 0.0025707141f, 0.00118217699f,
                          0.000543639821f});
    check(SCALED("\"rope_type\":\"yarn\",\"factor\":16.0,\"original_max_position_embeddings\":64"), false,
          1.2772588722239782,
          (const float[]){1, 0.217406571f, 0.0375f, 0.00197642366f, 0.000625f, 0.000197642366f, 6.25e-05f,
                          1.97642366e-05f});
    check("\"rope_theta\":1000.0,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":16.0,\"truncate\":false,"
          "\"original_max_position_embeddings\":64,\"beta_fast\":16.0,\"beta_slow\":2.0}",
          false, 1.2772588722239782,
          (const float[]){1, 0.211995035f, 0.0111142462f, 0.00468683848f, 0.00197642366f, 0.000833450933f,
                          0.000351463328f, 0.000148210864f});
    check(
        SCALED("\"type\":\"yarn\",\"factor\":16.0,\"beta_fast\":1.0,\"beta_slow\":1.0,"
               "\"original_max_position_embeddings\":64"),
        false, 1.2772588722239782,
        (const float[]){1, 0.316227766f, 0.1f, 0.00197642354f, 0.000625f, 0.000197642354f, 6.25e-05f, 1.97642354e-05f});
    check(SCALED("\"rope_type\":\"yarn\",\"factor\":40.0,\"mscale\":0.707,\"mscale_all_dim\":1.5,"
                 "\"original_max_position_embeddings\":64"),
          false, 0.8116769910542814, mscaled);
    check(SCALED("\"rope_type\":\"yarn\",\"factor\":40.0,\"mscale\":0.707,\"original_max_position_embeddings\":64"),
          false, 1.3688879454113936, mscaled);
    check(SCALED("\"rope_type\":\"yarn\",\"factor\":4.0,\"attention_factor\":1.25"), false, 1.25,
          (const float[]){1, 0.25693506f, 0.0625f, 0.0138349654f, 0.0025f, 0.000790569466f, 0.00025f, 7.90569466e-05f});
    check(SCALED("\"rope_type\":\"dynamic\",\"factor\":4.0"), false, 1, plain);
    check(SCALED("\"rope_type\":\"dynamic\",\"factor\":4.0"), true, 1,
          (const float[]){1, 0.22013101f, 0.0484576598f, 0.0106670344f, 0.002348145f, 0.00051689957f, 0.000113785616f,
                          2.50477442e-05f});
    check(LONG, false, 1.224744871391589,
          (const float[]){1, 0.281091362f, 0.08f, 0.0210818499f, 0.00571428565f, 0.00158113893f, 0.000444444449f,
                          0.000126491112f});
    check(LONG, true, 1.224744871391589,
          (const float[]){0.5f, 0.10540925f, 0.025f, 0.00632455572f, 0.00166666671f, 0.000451753964f, 0.000125f,
                          3.51364179e-05f});
    check(SCALED("\"rope_type\":\"proportional\",\"factor\":2.0,\"partial_rotary_factor\":0.5"), false, 1,
          (const float[]){0.5f, 0.158113882f, 0.05f, 0.0158113893f, 0, 0, 0, 0});
}

/* Bases of the ropes of a model's four layers; 0: none. */
static void check_bases(const char *type, const char *fields, const double needed[4])
{
    struct description d;
    if (describe(&d, type, HEAD, fields))
        fail_msg("%s, %s: %s", type, fields, d.e.msg);
    for (int i = 0; i < 4; i++) {
        int    rope = d.m.layer[i].attn.rope;
        double theta = rope < 0 ? 0 : d.m.rope[rope].theta;
        if (fabs(theta - needed[i]) > 1e-6 * needed[i])
            fail_msg("%s, %s: layer %d has base %g, needed %g", type, fields, i, theta, needed[i]);
    }
    description_free(&d);
}

#define TYPES "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"]"
#define NESTED                                                                                                         \
    "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":7.0},"                          \
    "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":5.0}}"

static void bases(void **state)
{
    (void)state;
    check_bases("llama", "", (const double[]){1e4, 1e4, 1e4, 1e4});
    check_bases("llama", "\"rope_theta\":3.0,\"rope_parameters\":{\"rope_theta\":2.0}", (const double[]){2, 2, 2, 2});
    check_bases("llama", "\"rope_theta\":3.0,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0,\"rope_theta\":4.0}",
                (const double[]){4, 4, 4, 4});
    check_bases("llama",
                "\"rope_theta\":3.0,\"rope_parameters\":{\"rope_theta\":2.0},"
                "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}",
                (const double[]){3, 3, 3, 3});
    check_bases("smollm3", "", (const double[]){2e6, 2e6, 2e6, 0});
    check_bases("smollm3", "\"no_rope_layers\":[0,1,1,0]", (const double[]){0, 2e6, 2e6, 0});
    check_bases("gemma3_text", "\"rope_theta\":3.0,\"sliding_window_pattern\":2", (const double[]){1e4, 3, 1e4, 3});
    check_bases("gemma3_text", TYPES ",\"rope_theta\":3.0,\"rope_local_base_freq\":2.0", (const double[]){2, 3, 2, 3});
    check_bases("gemma3_text", TYPES "," NESTED, (const double[]){5, 7, 5, 7});
    check_bases("olmo3", TYPES, (const double[]){5e5, 5e5, 5e5, 5e5});
    check_bases("olmo3", TYPES "," NESTED, (const double[]){5, 7, 5, 7});
    check_bases("cohere2", "", (const double[]){1e4, 1e4, 1e4, 0});
    check_bases("exaone4", "\"sliding_window_pattern\":\"LG\"", (const double[]){1e4, 0, 1e4, 0});
    check_bases("exaone4", "\"sliding_window\":null,\"sliding_window_pattern\":null",
                (const double[]){1e4, 1e4, 1e4, 1e4});
    check_bases("hunyuan_v1_dense", "\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":1000.0,\"factor\":1.0}",
                (const double[]){26826957.952797, 26826957.952797, 26826957.952797, 26826957.952797});
}

static void refusals(void **state)
{
    static const struct {
        const char *type, *fields, *needed;
    } cases[] = {
        {"llama", SCALED("\"rope_type\":\"spiral\""),
         "rope_scaling.rope_type is \"spiral\"; supported: default, linear"},
        {"llama", SCALED("\"type\":\"linear\""), "rope_scaling.factor is missing"},
        {"llama", SCALED("\"type\":\"linear\",\"factor\":0"), "rope_scaling.factor is 0"},
        {"llama", SCALED("\"type\":\"yarn\",\"factor\":4,\"beta_fast\":1,\"beta_slow\":2"), "beta_slow (2) or more"},
        {"llama", "\"rope_theta\":1,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}", "rope_theta is 1, more than 1"},
        {"llama", SCALED("\"type\":\"longrope\",\"long_factor\":[1]"), "rope_scaling.long_factor has 1 numbers, half"},
        {"llama", SCALED("\"type\":\"longrope\",\"long_factor\":[1]"), "rope_scaling.short_factor has 0 numbers"},
        {"llama", SCALED("\"type\":\"dynamic\",\"factor\":0.5"), "rope_scaling.factor is 0.5"},
        {"llama", "\"head_dim\":2,\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", "too few"},
        {"llama", "\"head_dim\":3", "head_dim is 3, of which 3 features would rotate; an even number"},
        {"llama", "\"partial_rotary_factor\":0.5", "partial_rotary_factor is 0.5; this family rotates the whole head"},
        {"llama", NESTED, "rope_parameters holds one object per layer type"},
        {"gemma3_text", TYPES ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":7.0}}",
         "rope_parameters.sliding_attention is missing"},
        {"phi3", "\"partial_rotary_factor\":0.3125", "of which 5 features would rotate"},
        {"smollm3", "\"no_rope_layers\":[1,1]", "no_rope_layers has 2 entries, num_hidden_layers (4) are needed"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct description d;
        if (!describe(&d, cases[i].type, HEAD, cases[i].fields))
            fail_msg("%s, %s: no fault", cases[i].type, cases[i].fields);
        else if (!strstr(d.e.msg, cases[i].needed))
            fail_msg("%s, %s: \"%s\", needed \"%s\"", cases[i].type, cases[i].fields, d.e.msg, cases[i].needed);
        description_free(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frequencies), cmocka_unit_test(bases),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
