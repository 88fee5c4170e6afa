/* `logits`: the logits of every position of a list of ids, to a safetensors file. Needs no tokenizer. */
#include <stdlib.h>

#include "base/file.h"
#include "base/num.h"
#include "cli/api.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/token_ids.h"
#include "formats/safetensors.h"

static int read_tokens(const struct options *o, struct ids *ids, struct error *e)
{
    struct buf text;
    int        rc;
    if (!o->tokens == !o->tokens_file)
        return error_set(e, ERR_USAGE, NULL, "logits needs --tokens IDS or --tokens-file FILE, one of them");
    if (o->tokens)
        return *o->tokens ? token_ids_from_text(ids, o->tokens, "--tokens", e) : 0;
    rc = input_read(&text, o->tokens_file, e);
    if (!rc)
        rc = token_ids_from_json(ids, buf_str(&text), input_name(o->tokens_file), e);
    buf_deinit(&text);
    return rc;
}

static int check_tokens(const struct ids *ids, int n_vocab, struct error *e)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->v[i] >= n_vocab)
            return error_set(e, ERR_INVALID, "tokens", "id %d at position %zu is outside the model's 0..%d", ids->v[i],
                             i, n_vocab - 1);
    return 0;
}

/* Holds back Ctrl-C: the file appears whole or not at all. */
static int write_file(const struct options *o, const struct ids *ids, const float *logits, int n_vocab, struct error *e)
{
    struct tensor_view t[2] = {
        {.name = "logits",
         .dtype = DTYPE_F32,
         .n_dim = 2,
         .shape = {(int64_t)ids->n, n_vocab},
         .data = logits,
         .size = ids->n * (size_t)n_vocab * sizeof *logits},
        {.name = "tokens",
         .dtype = DTYPE_I32,
         .n_dim = 1,
         .shape = {(int64_t)ids->n},
         .data = ids->v,
         .size = ids->n * sizeof *ids->v},
    };
    int rc;
    interrupt_hold(true);
    rc = safetensors_write(o->out, t, ARRAY_LEN(t), NULL, o->force, e);
    interrupt_hold(false);
    return rc;
}

static int compute(const struct options *o, struct mlxcel *m, const struct ids *ids, struct error *e)
{
    struct mlxcel_error fault = {0};
    struct mlxcel_info  info;
    size_t              n, size;
    float              *logits = NULL;
    int                 rc;
    mlxcel_get_info(m, &info);
    rc = check_tokens(ids, info.n_vocab, e);
    if (!rc && num_mul(ids->n, (size_t)info.n_vocab, &n) && num_mul(n, sizeof *logits, &size))
        logits = malloc(size);
    if (!rc && !logits)
        rc = error_nomem(e, "the logits");
    if (!rc && mlxcel_logits(m, ids->v, ids->n, 0, logits, &fault))
        rc = api_fault(&fault, e);
    if (!rc)
        rc = write_file(o, ids, logits, info.n_vocab, e);
    free(logits);
    return rc;
}

int cmd_logits(const struct options *o, struct error *e)
{
    struct mlxcel_options options;
    struct mlxcel        *m = NULL;
    struct ids            ids = {0};
    int                   rc = api_options(o, &options, e);
    if (!rc)
        rc = read_tokens(o, &ids, e);
    options.weights_only = true;
    options.no_prefix_cache = true;
    options.context = ids.n < INT32_MAX ? (int)ids.n : INT32_MAX;
    if (!rc && !ids.n)
        rc = error_set(e, ERR_INVALID, "tokens", "the list of ids is empty; at least 1 is needed");
    if (!rc)
        rc = file_out_check(o->out, o->force, e);
    if (!rc)
        rc = api_open(&m, o->model, &options, e);
    if (!rc)
        rc = compute(o, m, &ids, e);
    mlxcel_close(m);
    ids_deinit(&ids);
    return rc;
}
