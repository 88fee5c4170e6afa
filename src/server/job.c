/* See job.h. The engine's callback holds a reference of the job for every choice, the connection one more; the last frees. */
#include "server/job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/num.h"

#define WATCH_SECONDS 0.05 /* how often a connection looks whether its client is still there */

struct choice {
    struct job *job;
    int         index;
    int64_t     id;
};

struct job {
    struct server    *server;
    int               fd, n;
    bool              aborted;
    pthread_mutex_t   lock;
    pthread_cond_t    ready;
    struct job_event *first, **last;
    int               unfinished; /* choices whose last event has not been taken */
    int               refs;
    bool              lost_event; /* out of memory for an event */
    double            watched;    /* clock: when the connection last looked at its client */
    struct choice     choice[];
};

void job_event_free(struct job_event *ev)
{
    if (!ev)
        return;
    free(ev->stop_string);
    free(ev->error);
    free(ev);
}

static void unref(struct job *j)
{
    pthread_mutex_lock(&j->lock);
    int refs = --j->refs;
    pthread_mutex_unlock(&j->lock);
    if (refs)
        return;
    while (j->first) {
        struct job_event *ev = j->first;
        j->first = ev->next;
        job_event_free(ev);
    }
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->ready);
    free(j);
}

static struct job_event *copy_event(const struct mlxcel_event *ev, int choice)
{
    struct job_event *c = calloc(1, sizeof *c + ev->text_n + 1);
    if (!c)
        return NULL;
    c->choice = choice;
    c->finish = ev->finish;
    c->token = ev->token;
    c->prob = ev->prob;
    c->n_top = MIN(ev->n_top, (int)ARRAY_LEN(c->top));
    if (c->n_top > 0)
        memcpy(c->top, ev->top, (size_t)c->n_top * sizeof *c->top);
    c->n_prompt = ev->n_prompt;
    c->n_cached = ev->n_cached;
    c->n_answer = ev->n_answer;
    c->prompt_seconds = ev->prompt_seconds;
    c->answer_seconds = ev->answer_seconds;
    c->text_n = ev->text_n;
    if (ev->text_n)
        memcpy(c->text, ev->text, ev->text_n);
    if (ev->stop_string)
        c->stop_string = strdup(ev->stop_string);
    if (ev->error && (c->error = malloc(sizeof *c->error)) != NULL)
        *c->error = *ev->error;
    return c;
}

/* On the engine's thread. */
static void on_event(void *ctx, const struct mlxcel_event *ev)
{
    struct choice    *c = ctx;
    struct job       *j = c->job;
    struct job_event *copy = copy_event(ev, c->index);
    bool              last = ev->finish != MLXCEL_RUNNING;
    pthread_mutex_lock(&j->lock);
    if (copy) {
        *j->last = copy;
        j->last = &copy->next;
    } else
        j->lost_event = true;
    pthread_cond_signal(&j->ready);
    pthread_mutex_unlock(&j->lock);
    if (last)
        unref(j);
}

static void cancel_all(struct job *j)
{
    for (int i = 0; i < j->n; i++)
        mlxcel_cancel(j->server->model, j->choice[i].id);
    mlxcel_wake(j->server->model);
}

int job_start(struct job **out, struct server *s, const struct request_params *params, const int32_t *const *prompts,
              const size_t *n_prompts, int n_prompt, int fd, struct mlxcel_error *e)
{
    int         n = n_prompt * params->n, err = 0;
    struct job *j = calloc(1, sizeof *j + (size_t)n * sizeof *j->choice);
    if (!j) {
        *e = (struct mlxcel_error){.code = MLXCEL_ENOMEM, .message = "out of memory for the request"};
        return MLXCEL_ENOMEM;
    }
    j->server = s;
    j->fd = fd;
    j->last = &j->first;
    j->refs = 1;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->ready, NULL);
    for (int i = 0; i < n && !err; i++) {
        struct mlxcel_params p = params->sampling;
        p.choice = i;
        j->choice[i] = (struct choice){.job = j, .index = i};
        pthread_mutex_lock(&j->lock);
        j->refs++;
        pthread_mutex_unlock(&j->lock);
        err = mlxcel_submit(s->model, prompts[i / params->n], n_prompts[i / params->n], &p, on_event, &j->choice[i],
                            &j->choice[i].id, e);
        if (err)
            unref(j);
        else
            j->n++;
    }
    if (err) {
        cancel_all(j);
        unref(j);
        return err;
    }
    j->unfinished = n;
    *out = j;
    return 0;
}

/* Whether the answer must end early: looked up every WATCH_SECONDS, also while events keep coming. */
static bool must_stop(struct job *j)
{
    double now = clock_now();
    if (now - j->watched < WATCH_SECONDS)
        return false;
    j->watched = now;
    return j->lost_event || atomic_load(&j->server->cancelling) || http_socket_closed(j->fd);
}

/* Waits for an event, at most until it is time to look at the client again. */
static void wait_event(struct job *j)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(WATCH_SECONDS * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&j->ready, &j->lock, &until);
}

struct job_event *job_next(struct job *j)
{
    struct job_event *ev = NULL;
    pthread_mutex_lock(&j->lock);
    j->aborted = j->aborted || (j->unfinished && must_stop(j));
    while (!j->first && j->unfinished && !j->aborted) {
        wait_event(j);
        j->aborted = !j->first && must_stop(j);
    }
    if (j->first && !j->aborted) {
        ev = j->first;
        j->first = ev->next;
        if (!j->first)
            j->last = &j->first;
        ev->next = NULL;
        j->unfinished -= ev->finish != MLXCEL_RUNNING;
    }
    pthread_mutex_unlock(&j->lock);
    return ev;
}

bool job_aborted(const struct job *j)
{
    return j->aborted;
}

int job_choices(const struct job *j)
{
    return j->n;
}

void job_finish(struct job *j)
{
    if (!j)
        return;
    if (j->unfinished)
        cancel_all(j);
    unref(j);
}
