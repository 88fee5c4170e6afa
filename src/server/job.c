/* See job.h. The engine's callback holds a reference of the job for every choice, the connection one more; the last frees. */
#include "server/job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/num.h"

#define WATCH_SECONDS 0.05 /* how often a connection looks whether its client is still there */
#define EVENTS_MAX 16384   /* that wait for a client: one that reads more slowly is given up */

enum job_end { JOB_OPEN, JOB_LEFT, JOB_STOPPED, JOB_SLOW, JOB_NOMEM };

static const struct {
    int         code;
    const char *message;
} ends[] = {
    [JOB_OPEN] = {0, ""},
    [JOB_LEFT] = {ERR_CANCELLED, "the client left"},
    [JOB_STOPPED] = {ERR_BUSY, "the server is shutting down"},
    [JOB_SLOW] = {ERR_LIMIT, "the client reads more slowly than the answer grows"},
    [JOB_NOMEM] = {ERR_NOMEM, "out of memory for the answer"},
};

struct choice {
    struct job *job;
    int         index;
    int64_t     id;
};

struct job {
    struct server    *server;
    int               fd, n;
    pthread_mutex_t   lock; /* guards what follows, up to `watched` */
    pthread_cond_t    ready;
    struct job_event *first, **last;
    int               n_event; /* in the list */
    enum job_end      end;     /* why it ends early */
    int               refs;
    int               unfinished; /* choices whose last event has not been taken; the connection's, as what follows */
    double            watched;    /* clock: when it last looked at its client */
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

/* On the engine's thread. Nobody takes the events of a job that ended early. */
static void on_event(void *ctx, const struct mlxcel_event *ev)
{
    struct choice    *c = ctx;
    struct job       *j = c->job;
    struct job_event *copy = copy_event(ev, c->index);
    pthread_mutex_lock(&j->lock);
    if (!j->end)
        j->end = !copy ? JOB_NOMEM : j->n_event == EVENTS_MAX ? JOB_SLOW : JOB_OPEN;
    bool ended = j->end;
    if (!ended) {
        *j->last = copy;
        j->last = &copy->next;
        j->n_event++;
    }
    pthread_cond_signal(&j->ready);
    pthread_mutex_unlock(&j->lock);
    if (ended)
        job_event_free(copy);
    if (ev->finish != MLXCEL_RUNNING)
        unref(j);
    else if (ended)
        mlxcel_cancel(j->server->model, ev->id);
}

static void cancel_all(struct job *j)
{
    for (int i = 0; i < j->n; i++)
        mlxcel_cancel(j->server->model, j->choice[i].id);
    mlxcel_wake(j->server->model);
}

int job_start(struct job **out, struct server *s, const struct request_params *params, const int32_t *const *prompts,
              const size_t *n_prompts, int n_prompt, int fd, struct error *e)
{
    struct mlxcel_error why;
    int                 n = n_prompt * params->n, err = 0;
    struct job         *j = calloc(1, sizeof *j + (size_t)n * sizeof *j->choice);
    if (!j)
        return error_nomem(e, "the request");
    j->server = s;
    j->fd = fd;
    j->last = &j->first;
    j->refs = 1;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->ready, NULL);
    for (int i = 0; i < n && !err; i++) {
        struct mlxcel_params p = params->sampling;
        p.choice = i % params->n; /* a prompt's answers do not depend on the other prompts */
        j->choice[i] = (struct choice){.job = j, .index = i};
        pthread_mutex_lock(&j->lock);
        j->refs++;
        pthread_mutex_unlock(&j->lock);
        err = mlxcel_submit(s->model, prompts[i / params->n], n_prompts[i / params->n], &p, on_event, &j->choice[i],
                            &j->choice[i].id, &why);
        if (err)
            unref(j);
        else
            j->n++;
    }
    if (err) {
        cancel_all(j);
        unref(j);
        return error_import(e, &why);
    }
    j->unfinished = n;
    *out = j;
    return 0;
}

/* Looks every WATCH_SECONDS whether the answer must end early. */
static void look(struct job *j)
{
    double now = clock_now();
    if (now - j->watched < WATCH_SECONDS)
        return;
    j->watched = now;
    if (http_socket_closed(j->fd))
        j->end = JOB_LEFT;
    else if (atomic_load(&j->server->cancelling))
        j->end = JOB_STOPPED;
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
    while (j->unfinished && !j->end) {
        look(j);
        if (j->first || j->end)
            break;
        wait_event(j);
    }
    if (j->first && !j->end) {
        ev = j->first;
        j->first = ev->next;
        if (!j->first)
            j->last = &j->first;
        ev->next = NULL;
        j->n_event--;
        j->unfinished -= ev->finish != MLXCEL_RUNNING;
    }
    pthread_mutex_unlock(&j->lock);
    return ev;
}

int job_failure(struct job *j, struct error *e)
{
    pthread_mutex_lock(&j->lock);
    enum job_end end = j->end;
    pthread_mutex_unlock(&j->lock);
    return end ? error_set(e, ends[end].code, NULL, "%s", ends[end].message) : 0;
}

int job_choices(const struct job *j)
{
    return j->n;
}

void job_finish(struct job *j)
{
    if (!j)
        return;
    if (j->unfinished) {
        pthread_mutex_lock(&j->lock);
        if (!j->end)
            j->end = JOB_LEFT;
        pthread_mutex_unlock(&j->lock);
        cancel_all(j);
    }
    unref(j);
}
