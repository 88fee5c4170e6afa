/* Internal to src/api: what an opened model consists of. */
#ifndef MLXCEL_API_API_H
#define MLXCEL_API_API_H

#include "api/registry.h"
#include "chat/template.h"
#include "cpu/cpu.h"
#include "mlxcel.h"
#include "run/engine.h"

struct mlxcel {
    struct log log; /* of opening and of loading adapters; to the sink that the options named */
    void (*log_line)(void *ctx, int level, const char *line);
    void                 *log_ctx;
    char                 *path, *name;
    struct backend       *backend;
    struct model         *model;
    struct registry      *registry;  /* adapters */
    struct tokenizer     *tokenizer; /* NULL with weights_only */
    struct chat_template *chat;      /* NULL when the model has none */
    json_t               *variables; /* of the chat template, for requests that do not set them; NULL: none */
    struct engine        *engine;
    struct engine_options engine_options;
    struct ids            eos;
    double                load_seconds;
};

/* Copies an error out, when there is one: `return api_result(err, &e, out)`. */
int api_result(int code, const struct error *e, struct mlxcel_error *out);

/* The directory of a model that is named or given by its path; *path is the caller's. */
int api_resolve(const char *model, char **path, struct error *e);

#endif
