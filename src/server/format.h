/* How each API words an answer: chat completions, completions, llama-server's native completion. */
#ifndef MLXCEL_SERVER_FORMAT_H
#define MLXCEL_SERVER_FORMAT_H

#include "server/job.h"

/* One answer under way. */
struct reply {
    struct server        *server;
    enum api              api;
    struct request_params params;
    struct job           *job;
    char                  id[48];
    int64_t               created;
    int                   n_prompts;
    int                   n_prompt_total, n_cached_total, n_answer_total; /* over finished choices */
    struct job_event     *last;      /* the latest final event, for timings */
    struct choice_state {
        struct buf text;
        json_t    *logprobs; /* array of token entries (chat), or the four arrays' object (completions) */
        json_t    *tokens;   /* native: ids */
        size_t     offset;   /* characters so far, for text_offset */
        bool       begun;
        int        finish, n_answer;
        char      *stop_string;
    } *choice;
    bool done, ended;
};

const char *format_finish(int finish);
/* Log-probabilities of an event in the API's form; NULL when it has none. */
json_t *format_logprobs(const struct reply *r, const struct job_event *ev);
/* The chunk of a stream for an event; NULL: nothing to send for it. first: the role's chunk of chat comes before. */
json_t *format_chunk(struct reply *r, const struct job_event *ev);
json_t *format_first_chunk(struct reply *r, int choice);
json_t *format_usage_chunk(const struct reply *r);
/* The whole answer. */
json_t *format_whole(struct reply *r);

#endif
