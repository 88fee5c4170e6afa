/* How each API words an answer: chat completions, completions, llama-server's native completion. */
#ifndef MLXCEL_SERVER_FORMAT_H
#define MLXCEL_SERVER_FORMAT_H

#include "server/job.h"

/* One of the answers to a request. */
struct choice_state {
    struct buf        text;
    json_t           *logprobs; /* array of token entries (chat, native), or the four arrays' object (completions) */
    json_t           *tokens;   /* ids, when wanted */
    size_t            offset;   /* characters so far, for text_offset */
    bool              begun;    /* the first chunk of a stream was sent */
    struct job_event *end;      /* its last event */
};

/* A request's answers under way. */
struct reply {
    struct server        *server;
    enum api              api;
    struct request_params params;
    struct job           *job;
    char                  id[48];
    int64_t               created;
    int                   n_prompt_total, n_cached_total, n_answer_total; /* over finished choices */
    struct choice_state  *choice;                                         /* [n_choice], prompt * n + repetition */
    int                   n_choice;
};

/* Log-probabilities of an event in the API's form; NULL when it has none. */
json_t *format_logprobs(const struct reply *r, const struct job_event *ev);
/* Of streams: the role's chunk of chat, which comes before the others of its choice; the chunk of an event that has one; the
 * usage at the end. NULL: out of memory. */
json_t *format_first_chunk(const struct reply *r, int choice);
bool    format_has_chunk(const struct reply *r, const struct job_event *ev);
json_t *format_chunk(const struct reply *r, const struct job_event *ev);
json_t *format_usage_chunk(const struct reply *r);
/* The whole answer of finished choices. */
json_t *format_whole(const struct reply *r);

#endif
