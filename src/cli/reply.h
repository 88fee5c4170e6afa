/* One answer of the model: streamed to stdout while it is made, kept as text, measured. `generate` and `run` use it. */
#ifndef MLXCEL_CLI_REPLY_H
#define MLXCEL_CLI_REPLY_H

#include "base/buf.h"
#include "cli/options.h"
#include "mlxcel.h"

struct reply {
    struct buf          text;
    bool                stream; /* text goes to stdout as it comes */
    int                 finish; /* enum mlxcel_finish */
    char               *stop;   /* the stop string that ended it, or NULL */
    int                 n_prompt, n_cached, n_answer;
    double              prompt_seconds, answer_seconds;
    double              first_seconds; /* from the request to the first token */
    double              began;         /* clock */
    struct mlxcel_error fault;         /* when finish is MLXCEL_FAILED */
};

void reply_init(struct reply *a, bool stream);
void reply_deinit(struct reply *a);

/* The parameters that the options ask for. Arrays live in o->arena. ERR_USAGE for a malformed --logit-bias. */
int reply_params(const struct options *o, struct mlxcel_params *p, struct error *e);

/* Generates. Ctrl-C, or a stdout that cannot be written, ends the answer: done, with a->finish MLXCEL_CANCELLED. */
int reply_run(struct reply *a, struct mlxcel *m, const int32_t *prompt, size_t n, const struct mlxcel_params *p,
              struct error *e);

/* Tokens per second; 0 when nothing was computed. */
double reply_prompt_rate(const struct reply *a);
double reply_decode_rate(const struct reply *a);

/* "stop" or "length" or "cancelled", as APIs name it. */
const char *reply_finish_name(const struct reply *a);

/* Load time, tokens, speeds and memory, for people, on stderr, after a blank line. */
void reply_statistics(const struct reply *a, const struct mlxcel *m);
/* The end of a single answer: a newline on a terminal, statistics. ERR_CANCELLED when it was stopped. */
int reply_finish(const struct reply *a, const struct mlxcel *m, struct error *e);

#endif
