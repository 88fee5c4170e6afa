/* A request's sequences (n choices, or several prompts) and their events on the way from the engine's thread to the
 * connection's. */
#ifndef MLXCEL_SERVER_JOB_H
#define MLXCEL_SERVER_JOB_H

#include <pthread.h>

#include "server/params.h"
#include "server/server_int.h"

#define JOB_CHOICES_MAX 64

/* A copy of a struct mlxcel_event. */
struct job_event {
    struct job_event    *next;
    int                  choice, finish;
    int32_t              token;
    struct mlxcel_prob   prob, top[20];
    int                  n_top;
    int                  n_prompt, n_cached, n_answer;
    double               prompt_seconds, answer_seconds;
    char                *stop_string; /* or NULL */
    struct mlxcel_error *error;       /* or NULL */
    size_t               text_n;
    char                 text[];
};

struct job;

/* Submits every prompt `params->n` times; choice = prompt * n + repetition. fd is the client's socket, watched while
 * waiting. On failure nothing runs. */
int job_start(struct job **out, struct server *s, const struct request_params *params, const int32_t *const *prompts,
              const size_t *n_prompts, int n_prompt, int fd, struct error *e);
/* The next event, to be freed by the caller; waits for it. NULL: all choices have finished, or the job ended early. */
struct job_event *job_next(struct job *j);
/* Why the job ended early: the client left or does not keep up with the answer, the server stops, no memory. 0: it did not. */
int job_failure(struct job *j, struct error *e);
int job_choices(const struct job *j);
/* Cancels what still runs and frees the job once the engine has let go of it. */
void job_finish(struct job *j);
void job_event_free(struct job_event *ev);

#endif
