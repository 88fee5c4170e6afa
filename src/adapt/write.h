/* Writing adapters: new ones whose pairs are sums of the pairs of others, as mlx-lm or PEFT reads them.
 *
 * A sum of products is one product: s1 B1 A1 + s2 B2 A2 = [s1 B1, s2 B2] [A1; A2], of the sum of the ranks. When all
 * pairs have one scale, the config says it and tensors keep their values; else the scales are multiplied into B and the
 * config says 1. Tensors keep the type of their parts; where these differ or B is multiplied, they are float32. mlx-lm
 * knows one rank: smaller ones are filled up with zeros. PEFT gets rank_pattern and alpha_pattern.
 */
#ifndef MLXCEL_ADAPT_WRITE_H
#define MLXCEL_ADAPT_WRITE_H

#include "adapt/file.h"
#include "base/dir.h"

/* The module's outputs from, from + step, ... are n_row of the sum's, from `row` on. */
struct adapter_part {
    const struct adapter_module *module;
    double                       factor; /* of its own scale */
    int     expert; /* of the sum's stack, the only one that it changes; -1: each by a pair of its own */
    int64_t from, step, n_row, row;
};

struct adapter_sum_module {
    const char          *name;
    bool                 embedding;
    int64_t              n_in, n_out, n_expert; /* an embedding's are features and rows; n_expert 0: no stack */
    struct adapter_part *part;
    size_t               n_part;
};

struct adapter_sum {
    enum adapter_format        format; /* ADAPTER_FORMAT_MLX_LM or ADAPTER_FORMAT_PEFT */
    const char                *base;   /* name of the base model, or NULL */
    struct adapter_sum_module *module; /* sorted by name; one at least */
    size_t                     n_module;
    bool (*progress)(void *ctx, size_t done,
                     size_t total); /* bytes of tensors; false: stop with ERR_CANCELLED. Or NULL */
    void *ctx;
};

/* Adds to *faults, by name, what of f a sum in this format cannot hold: replaced parameters, biases that pairs bring
 * along, DoRA of some modules only, stacks in PEFT's format. (DoRA of an embedding is the caller's to refuse: the
 * formats differ in it, and only the caller knows what is an embedding.) */
void adapter_sum_check(const struct adapter_file *f, enum adapter_format format, struct faults *faults);

/* The config and the tensors into a directory. All parts passed adapter_sum_check; a module with DoRA has one part,
 * of all its rows. */
int adapter_sum_write(const struct adapter_sum *s, const struct dir_out *out, struct error *e);

#endif
