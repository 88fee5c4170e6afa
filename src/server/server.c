/* Starting, loading, stepping, stopping; contracts in server.h. */
#include "server/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/server_int.h"

#define DRAIN_SECONDS 3.0
#define CANCEL_SECONDS 1.0

const char *server_model_id(const struct server *s)
{
    return s->o.alias ? s->o.alias : s->info.name;
}

static void *run_engine(void *arg)
{
    struct server      *s = arg;
    struct mlxcel_error e;
    int                 active;
    while (!atomic_load(&s->engine_stop)) {
        mlxcel_wait_work(s->model);
        do {
            if (mlxcel_step(s->model, &active, &e))
                break;
        } while (active && !atomic_load(&s->engine_stop));
    }
    return NULL;
}

static void *load(void *arg)
{
    struct server *s = arg;
    double         start = clock_now();
    if (mlxcel_open(&s->model, s->o.model, &s->o.open, &s->load_error)) {
        if (!s->o.fail_fast) /* then server_run returns it */
            log_write(s->o.log, LOG_ERROR, "%s", s->load_error.message);
        atomic_store(&s->state, SERVER_FAILED);
        kill(getpid(), SIGUSR1); /* wakes the main thread, which knows about --fail-fast */
        return NULL;
    }
    mlxcel_get_info(s->model, &s->info);
    if (pthread_create(&s->engine_thread, NULL, run_engine, s)) {
        s->load_error = (struct mlxcel_error){.code = MLXCEL_EINTERNAL, .message = "cannot start the engine's thread"};
        atomic_store(&s->state, SERVER_FAILED);
        return NULL;
    }
    s->has_engine = true;
    atomic_store(&s->state, SERVER_READY);
    log_info(s->o.log, "model %s is ready after %.2f s", server_model_id(s), clock_now() - start);
    return NULL;
}

/* Waits until no request is being answered, at most so many seconds. */
static void wait_idle(struct server *s, double seconds)
{
    double end = clock_now() + seconds;
    while (atomic_load(&s->n_running) && clock_now() < end)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void shut_down(struct server *s)
{
    atomic_store(&s->stopping, true);
    http_quiesce(s);
    wait_idle(s, DRAIN_SECONDS);
    atomic_store(&s->cancelling, true);
    wait_idle(s, CANCEL_SECONDS);
    http_stop(s);
    if (atomic_load(&s->state) == SERVER_LOADING)
        return; /* the load cannot be stopped; the process ends with it */
    pthread_join(s->load_thread, NULL);
    if (s->has_engine) {
        atomic_store(&s->engine_stop, true);
        mlxcel_wake(s->model);
        pthread_join(s->engine_thread, NULL);
    }
    mlxcel_close(s->model);
    free(s);
}

int server_run(const struct server_options *o, struct error *e)
{
    struct server *s = calloc(1, sizeof *s);
    sigset_t       set, old;
    int            sig, err;
    if (!s)
        return error_nomem(e, "the server");
    s->o = *o;
    s->started = (int64_t)time(NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &old); /* before any thread is made: they inherit it */
    signal(SIGPIPE, SIG_IGN);
    err = http_start(s, e);
    if (err) {
        free(s);
        return err;
    }
    err = pthread_create(&s->load_thread, NULL, load, s);
    if (err) {
        http_stop(s);
        free(s);
        return error_errno(e, err, "start a thread of", "the server");
    }
    do
        err = sigwait(&set, &sig);
    while (err == EINTR || (!err && sig == SIGUSR1 && !s->o.fail_fast));
    err = 0;
    if (sig == SIGUSR1)
        err = error_set(e, s->load_error.code, s->load_error.param, "%s", s->load_error.message);
    shut_down(s);
    return err;
}
