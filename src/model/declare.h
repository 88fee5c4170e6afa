/* How blocks declare the parameters of a layer: by the names of the description, in the forms that operations take. */
#ifndef MLXCEL_MODEL_DECLARE_H
#define MLXCEL_MODEL_DECLARE_H

#include "model/params.h"

struct declare {
    struct params           *p;
    const struct model_desc *d;
    int                      layer; /* as in params_add: -1 before the layers, n_layer after them */
};

/* The name as params_add takes it: prefix, layer's name, the name and a suffix (".bias", or ""). In the arena; "" when out
 * of memory, which params_finish tells. */
const char *declare_name(const struct declare *k, enum name name, const char *suffix);

/* A matrix [n_out, n_in], and where bias_why (the config field that says so) is given its bias [n_out]. */
void declare_linear(const struct declare *k, enum name name, enum param_shard shard, int64_t n_out, int64_t n_in,
                    const char *why, const char *bias_why, struct weight *w);
/* A stack of n such matrices, its bias [n, n_out]. */
void declare_stack(const struct declare *k, enum name name, enum param_shard shard, int n, int64_t n_out, int64_t n_in,
                   const char *why, const char *bias_why, struct weight *w);
/* A vector that operations take as float32, [n], whose tensor is called by the name alone: sinks, A_log, corrections. */
void declare_vector(const struct declare *k, enum name name, int64_t n, const char *why, struct weight *w);
/* Likewise of any shape (as MLX stores it, up to 4 dimensions): a convolution [C, K, 1] with suffix ".weight"; A_log
 * [1, 1, H, 1] with "". w is one row of all its values. */
void declare_array(const struct declare *k, enum name name, const char *suffix, int n_dim, const int64_t *shape,
                   const char *why, struct weight *w);
/* A convolution [n, width, 1], and where bias_why is given its bias [n]. */
void declare_conv(const struct declare *k, enum name name, int64_t n, int64_t width, const char *why,
                  const char *bias_why, struct weight *w);
/* A norm over n columns; nothing when it is absent. */
void declare_norm(const struct declare *k, enum name name, const struct norm_desc *d, int64_t n, const char *why,
                  struct norm *out);

#endif
