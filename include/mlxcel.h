/* mlxcel: run MLX-format language models on Linux. The whole public C API; compiles alone as C11 and C++.
 *
 * One object, struct mlxcel, is an opened model: weights, tokenizer, chat template and the engine that computes for many
 * sequences at once. The shortest program:
 *
 *     struct mlxcel_error err = {0};
 *     struct mlxcel *m;
 *     if (mlxcel_open(&m, "path/or/name", NULL, &err)) { fprintf(stderr, "%s\n", err.message); return 1; }
 *     mlxcel_generate(m, ids, n_ids, NULL, print_event, NULL, &err);
 *     mlxcel_close(m);
 *
 * Conventions. Functions return 0 when done and a positive MLXCEL_E... code otherwise; then *err (may be NULL) holds one
 * finished sentence. Texts are UTF-8. Memory that a function hands out through a `char **` or `int32_t **` is freed with
 * mlxcel_free. Structs of options begin with their default at zero, so `= {0}` plus the fields wanted is right;
 * NULL means all defaults.
 *
 * Threads. mlxcel_submit, mlxcel_cancel, mlxcel_wait_work, the text functions and those of adapters (mlxcel_lora_...) may be
 * called from any thread. mlxcel_step and the functions built on it (mlxcel_generate, mlxcel_logits) must be called by one thread at a time, which owns the model's
 * state while it does; events are delivered on that thread.
 */
#ifndef MLXCEL_H
#define MLXCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MLXCEL_API __attribute__((visibility("default")))
#else
#define MLXCEL_API
#endif

/* ---- errors ---- */

enum mlxcel_code {
    MLXCEL_OK = 0,
    MLXCEL_EUSAGE,
    MLXCEL_EINVALID,     /* a value outside what its field allows */
    MLXCEL_ECONTEXT,     /* more tokens than the context holds */
    MLXCEL_EUNSUPPORTED, /* well-formed and known, but not built */
    MLXCEL_ENOTFOUND,
    MLXCEL_EFORMAT, /* a malformed file */
    MLXCEL_EMISFIT, /* files that contradict each other */
    MLXCEL_EIO,
    MLXCEL_ENOMEM,
    MLXCEL_ELIMIT,
    MLXCEL_EBUSY,
    MLXCEL_ECANCELLED,
    MLXCEL_EINTERNAL
};

struct mlxcel_error {
    int  code;
    char param[256];    /* the field, tensor or flag it is about; "" if none */
    char message[4000]; /* one sentence: file, tensor or field, found, needed, what to do */
};

/* ---- opening ---- */

enum mlxcel_precision { MLXCEL_PRECISION_DEFAULT, MLXCEL_PRECISION_HIGH, MLXCEL_PRECISION_EXACT };
/* How the cache stores keys and values. AUTO: f16, or f32 with MLXCEL_PRECISION_EXACT, which allows no other. Q8_0: int8,
 * and one scale for each key and head. */
enum mlxcel_cache_type { MLXCEL_CACHE_AUTO, MLXCEL_CACHE_F16, MLXCEL_CACHE_F32, MLXCEL_CACHE_Q8_0 };
enum mlxcel_log_level { MLXCEL_LOG_ERROR, MLXCEL_LOG_WARNING, MLXCEL_LOG_INFO, MLXCEL_LOG_DEBUG };

/* An adapter to load: LoRA, DoRA or replaced parameters, from the files of mlx-lm, mlx-vlm or PEFT. Texts are copied. */
struct mlxcel_lora_source {
    const char *path;    /* a directory, or the .safetensors file of one */
    const char *name;    /* what lists call it; NULL: the last part of its path, and a number where that is taken */
    float       scale;   /* a factor beside the adapter's own scale; 0: 1 */
    bool        idle;    /* only for sequences that choose it: its default scale is 0 until it is set */
    bool        fuse;    /* only at opening: changes the weights once and for all, with this scale */
    bool        replace; /* only later: instead of the loaded one of that name, if any; id and default scale stay */
};

struct mlxcel_options {
    int         threads;         /* 0: the cores that affinity and cgroup allow */
    const char *cpu_level;       /* NULL: the best this machine has; else a name that --cpu-level takes */
    int         precision;       /* enum mlxcel_precision */
    int         cache_type_k;    /* enum mlxcel_cache_type: of keys, and */
    int         cache_type_v;    /* of values; both must be the same */
    int         context;         /* tokens in all, divided among `parallel`; 0: the model's, at most 8192, for each */
    int         parallel;        /* sequences that are computed at once; 0: 1 */
    int         chunk;           /* rows of one step at most; 0: 512 */
    int         page_tokens;     /* tokens of a cache page, a multiple of 64; 0: 64 */
    int         layer_lo;        /* layers [layer_lo, layer_hi) of the model are loaded, see below */
    int         layer_hi;        /* 0: up to the last */
    bool        no_prefix_cache; /* never reuse the cache of earlier prompts */
    bool        weights_only;    /* do not read tokenizer files; text functions then fail */
    /* Instead of the model's own chat template, at most one of the two; NULL: the model's own. */
    const char *chat_template;      /* a name of the model's templates or of a built-in one, or a template's text */
    const char *chat_template_file; /* the path of a template */
    /* A JSON object: variables of the template for all chats, such as {"enable_thinking": false}; those of a request
     * hold before them. NULL: none. */
    const char *chat_template_kwargs;
    /* Adapters to load with the model, which get the ids 0, 1, ...; a fault in one is a fault of mlxcel_open. */
    const struct mlxcel_lora_source *lora;
    size_t                           n_lora;
    /* Called by mlxcel_open and mlxcel_lora_load, on their thread. */
    void (*log)(void *ctx, int level, const char *line);
    void *log_ctx;
    int   log_level; /* enum mlxcel_log_level: highest that is delivered */
};

/* Layer ranges. An object of some layers is one stage of a model: with layer 0 it has the embedding, with the last layer the
 * norm and the head (a tied head: the embedding). Its files and adapters are checked by the whole model's table, and what
 * belongs to other layers is left aside: an adapter made for the whole model loads. Such an object says what it holds;
 * mlxcel_submit, mlxcel_generate and mlxcel_logits refuse it with MLXCEL_EUNSUPPORTED. */

/* What mlxcel_open would say of the options alone: a value out of its range, two that contradict each other. */
MLXCEL_API int mlxcel_check_options(const struct mlxcel_options *options, struct mlxcel_error *err);

struct mlxcel;

/* `model` is a directory, or a name in the store ($MLXCEL_CACHE_DIR or ~/.cache/mlxcel) or the Hugging Face cache. */
MLXCEL_API int         mlxcel_open(struct mlxcel **out, const char *model, const struct mlxcel_options *options,
                                   struct mlxcel_error *err);
MLXCEL_API void        mlxcel_close(struct mlxcel *m); /* NULL is fine; running sequences end without an event */
MLXCEL_API void        mlxcel_free(void *p);
MLXCEL_API const char *mlxcel_version(void);

struct mlxcel_info {
    const char *name, *path, *model_type, *cpu_level, *precision;
    const char *cache_type;                /* "f16", "f32" or "q8_0" */
    int         threads, n_layer, n_vocab; /* n_vocab: rows of the head */
    int         layer_lo, layer_hi;        /* the layers that are loaded */
    int         context;                   /* tokens that one sequence may use (prompt and answer) */
    int         context_total, parallel;
    int         context_model; /* max_position_embeddings */
    int64_t     n_parameter;   /* logical parameters */
    int64_t     weights_bytes; /* as stored in the checkpoint */
    int64_t     active_bytes;  /* of the matrices that decoding one token reads, as stored */
    int64_t     kv_bytes_per_token;
    int64_t     state_bytes; /* recurrent state of one sequence, whatever its length */
    int64_t     lora_bytes;  /* memory of the loaded adapters */
    double      load_seconds;
    bool        has_tokenizer, has_template;
};
/* Strings live as long as m. */
MLXCEL_API void mlxcel_get_info(const struct mlxcel *m, struct mlxcel_info *info);

/* ---- text ---- */

enum {
    MLXCEL_ADD_SPECIAL = 1,
    MLXCEL_PARSE_SPECIAL = 2
}; /* add bos/eos; recognise special tokens written in the text */

MLXCEL_API int mlxcel_tokenize(const struct mlxcel *m, const char *text, size_t n, unsigned flags, int32_t **ids,
                               size_t *n_ids, struct mlxcel_error *err);
/* skip_special: leaves out the tokens whose decoded text is that of a special token. */
MLXCEL_API int mlxcel_detokenize(const struct mlxcel *m, const int32_t *ids, size_t n, bool skip_special, char **text,
                                 size_t *text_n, struct mlxcel_error *err);
/* Renders the chat template. request: a JSON object with messages, tools, documents, add_generation_prompt, ... With `adapt`,
 * messages are first brought to the form that the template needs, as chat routes do. */
MLXCEL_API int mlxcel_render_chat(const struct mlxcel *m, const char *request, bool adapt, char **text,
                                  struct mlxcel_error *err);
/* Renders with `adapt` and gives the ids. Without MLXCEL_PARSE_SPECIAL, control tokens written in the request's strings are
 * plain text, and only those that the template writes count: special tokens, and other added tokens that the template
 * mentions. MLXCEL_ADD_SPECIAL is not for chats: templates write bos themselves. */
MLXCEL_API int mlxcel_tokenize_chat(const struct mlxcel *m, const char *request, unsigned flags, int32_t **ids,
                                    size_t *n_ids, struct mlxcel_error *err);
/* Whether generation ends at this id (eos ids of config and generation_config). */
MLXCEL_API bool mlxcel_is_eos(const struct mlxcel *m, int32_t id);
MLXCEL_API int  mlxcel_token_bytes(const struct mlxcel *m, int32_t id, char **bytes,
                                   size_t *n); /* raw bytes of a token */

/* ---- adapters ----
 *
 * A loaded adapter changes nothing by itself: a sequence chooses adapters and scales when it is submitted and keeps them to
 * its end, whatever is loaded, unloaded or set meanwhile. Those that choose none get every adapter with its default scale.
 * Sequences with different adapters share steps, each with the bytes that it would have alone; scale 0 has the base's bytes.
 */

/* Loads an adapter beside the others, also while sequences run. *id (may be NULL): ids ascend from 0 in order of loading and
 * are never used again. Refused with one report of all faults, and then nothing has changed: tensors that do not fit the
 * model's parameters, malformed files, a name that is taken, a default scale whose adapters cannot be combined. */
MLXCEL_API int mlxcel_lora_load(struct mlxcel *m, const struct mlxcel_lora_source *source, int *id,
                                struct mlxcel_error *err);
/* MLXCEL_ENOTFOUND: no such adapter. Sequences that chose it keep it; its memory is freed when the last of them ends. */
MLXCEL_API int mlxcel_lora_unload(struct mlxcel *m, int id, struct mlxcel_error *err);

struct mlxcel_lora {
    int   id;
    float scale;
};
/* Sets default scales: of the adapters listed; those that are not become 0. MLXCEL_EINVALID, and nothing has changed: an id
 * that is not loaded or stands twice, a scale that is not finite, a fused adapter's scale (one left out counts as 0), two
 * that cannot be combined. */
MLXCEL_API int mlxcel_lora_set_scales(struct mlxcel *m, const struct mlxcel_lora *v, size_t n,
                                      struct mlxcel_error *err);

struct mlxcel_lora_info {
    int         id;
    const char *name, *path;
    float       scale;                        /* the default as it is now */
    float       load_scale;                   /* that of its source */
    bool        fused;                        /* what follows is then not known: "", 0 */
    const char *format;                       /* "mlx-lm", "mlx-vlm", "peft" */
    const char *kind;                         /* "lora", "dora", "full" */
    int         rank_min, rank_max, n_module; /* of its low-rank pairs */
    int64_t     n_parameter;                  /* as stored */
    int64_t     bytes;                        /* in memory */
};
/* The loaded adapters, ids ascending. *list is one piece of memory, with its strings, for mlxcel_free. */
MLXCEL_API int mlxcel_lora_list(struct mlxcel *m, struct mlxcel_lora_info **list, size_t *n, struct mlxcel_error *err);

/* ---- generation ---- */

struct mlxcel_logit_bias {
    int32_t token;
    float   bias; /* -INFINITY bans */
};

/* Sampling in llama-server's order: bias, penalties, top-k, top-p, min-p, temperature, draw. mlxcel_params_greedy and
 * mlxcel_params_chat fill the defaults; a zeroed struct is greedy with max_tokens 0. */
struct mlxcel_params {
    float    temperature;        /* 0: argmax, lowest id on ties */
    int      top_k;              /* 0: off */
    float    top_p;              /* 0 or 1: off */
    float    min_p;              /* 0: off */
    float    repetition_penalty; /* 0 or 1: off */
    float    presence_penalty, frequency_penalty;
    int      penalty_window; /* tokens of prompt and answer that penalties see; 0: none, -1: all */
    uint64_t seed;           /* same seed, same text, alone or in any batch */
    int      choice;         /* of n choices of one request: part of the random stream */
    int      max_tokens;     /* 0: none (the prompt is computed), -1: until the context is full */
    bool     ignore_eos;
    bool     no_cache_prompt; /* do not reuse an earlier prompt's cache */
    bool     keep_special;    /* special tokens appear in the text */
    int      n_probs;         /* report this many most likely tokens per position; -1: not even the chosen one's */
    const struct mlxcel_logit_bias *logit_bias;
    size_t                          n_logit_bias;
    const char *const              *stop; /* stop strings; the text ends before the first that occurs */
    size_t                          n_stop;
    const int32_t                  *stop_ids;
    size_t                          n_stop_ids;
    /* The adapters to run with: NULL for all with their default scales, else these and no others (n_lora 0: none). Refused
     * as by mlxcel_lora_set_scales. */
    const struct mlxcel_lora *lora;
    size_t                    n_lora;
};
MLXCEL_API void mlxcel_params_greedy(struct mlxcel_params *p); /* temperature 0, max_tokens -1, n_probs -1 */
MLXCEL_API void mlxcel_params_chat(struct mlxcel_params *p);   /* 0.8, top_k 40, top_p 0.95, min_p 0.05 */

enum mlxcel_finish { MLXCEL_RUNNING, MLXCEL_STOP, MLXCEL_LENGTH, MLXCEL_CANCELLED, MLXCEL_FAILED };

struct mlxcel_prob {
    int32_t token;
    float   logprob; /* log-softmax of the raw logits, before bias, penalties and temperature */
};

struct mlxcel_event {
    int64_t                    id;    /* as mlxcel_submit gave it */
    int32_t                    token; /* the token drawn in this step; -1: none (an end without a token) */
    const char                *text;  /* newly printable text, may be empty; complete characters only */
    size_t                     text_n;
    int                        finish;      /* enum mlxcel_finish; the last event has it non-zero */
    const char                *stop_string; /* the stop string that ended it, or NULL */
    const struct mlxcel_error *error;       /* when finish is MLXCEL_FAILED */
    struct mlxcel_prob         prob;        /* of `token` */
    const struct mlxcel_prob  *top;         /* n_top most likely, descending */
    int                        n_top;
    int    n_prompt, n_cached, n_answer; /* tokens so far; cached: prompt tokens taken from the cache */
    double prompt_seconds, answer_seconds;
};
typedef void mlxcel_on_event(void *ctx, const struct mlxcel_event *event);

/* Queues a sequence; params and prompt are copied. Refused at once, with the numbers: an empty prompt, an id outside the
 * vocabulary, a prompt beyond the context, a full queue. */
MLXCEL_API int mlxcel_submit(struct mlxcel *m, const int32_t *prompt, size_t n_prompt,
                             const struct mlxcel_params *params, mlxcel_on_event *on_event, void *ctx, int64_t *id,
                             struct mlxcel_error *err);
/* The sequence ends with MLXCEL_CANCELLED at the next step; unknown ids are ignored. */
MLXCEL_API void mlxcel_cancel(struct mlxcel *m, int64_t id);
/* Computes one step for all sequences and delivers their events. *active: sequences that are not finished. */
MLXCEL_API int mlxcel_step(struct mlxcel *m, int *active, struct mlxcel_error *err);
/* Sleeps until there is something to compute, or mlxcel_wake is called. */
MLXCEL_API void mlxcel_wait_work(struct mlxcel *m);
MLXCEL_API void mlxcel_wake(struct mlxcel *m);
/* submit + step until that sequence ends. Returns the event's error if it failed. */
MLXCEL_API int mlxcel_generate(struct mlxcel *m, const int32_t *prompt, size_t n_prompt,
                               const struct mlxcel_params *params, mlxcel_on_event *on_event, void *ctx,
                               struct mlxcel_error *err);
/* Logits of every position, with the adapters' default scales: out[n * n_vocab], float32. chunk: rows of one step, 0: the
 * option's. */
MLXCEL_API int mlxcel_logits(struct mlxcel *m, const int32_t *tokens, size_t n, int chunk, float *out,
                             struct mlxcel_error *err);

/* ---- without loading: each hands out a JSON text ---- */

/* Facts of a model directory or name; see docs/cli.md, `describe`. A checkpoint that does not fit is the error. */
MLXCEL_API int mlxcel_describe(const char *model, char **json, struct mlxcel_error *err);
/* The models in the store and the Hugging Face cache: [{"name","path","bytes","model_type"}]. */
MLXCEL_API int mlxcel_list(char **json, struct mlxcel_error *err);
/* The supported families: [{"model_type", "parent", "summary", "blocks"}]. */
MLXCEL_API int mlxcel_families(char **json, struct mlxcel_error *err);
/* Resolves a model name to its directory; the message of a failure says where it looked. */
MLXCEL_API int mlxcel_resolve(const char *model, char **path, struct mlxcel_error *err);

#ifdef __cplusplus
}
#endif

#endif
