/* The fields of a generation request, from one table (params.def): names, types, ranges, and where they go. */
#ifndef MLXCEL_SERVER_PARAMS_H
#define MLXCEL_SERVER_PARAMS_H

#include <jansson.h>

#include "base/error.h"
#include "mlxcel.h"

enum api { API_CHAT = 1, API_COMPLETIONS = 2, API_NATIVE = 4, API_TEMPLATE = 8 /* a chat's text alone */ };

struct request_params {
    struct mlxcel_params sampling;
    int                  n; /* answers per prompt */
    bool                 stream, include_usage;
    bool                 logprobs; /* log-probabilities are wanted */
    bool                 return_tokens;
    bool                 parse_special; /* special tokens written in the request's texts count as such */
    bool                 add_generation_prompt, continue_final_message; /* how a chat's text ends; not both */
    char                *model; /* the name of the adapter that the request calls its model; NULL: the model itself */
    /* owned: what the lists of `sampling` point to */
    struct mlxcel_lora       *lora;
    bool                      lora_found; /* by the server, not told by the request */
    const char              **stop;
    struct mlxcel_logit_bias *bias;
    int32_t                  *stop_ids;
};

/* Reads the body of a request; strings stay owned by it. Unknown fields are ignored, null is the default, a field that is
 * known and not supported, a wrong type or a value out of range is ERR_INVALID naming the field. m: for the texts of
 * logit_bias. Deinit also after a failure. */
int  params_read(struct request_params *p, json_t *body, enum api api, const struct mlxcel *m, int n_vocab,
                 struct error *e);
void params_deinit(struct request_params *p);

#endif
