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

/* The parts of an end that takes at most 5 s after the signal. */
#define DRAIN_SECONDS 3.0  /* running requests may finish */
#define CANCEL_SECONDS 0.7 /* cancelled ones may send their last event */
#define END_SECONDS 4.2    /* then the process goes, whatever a load, a step or a long text still computes */

const char *server_model_id(const struct server *s)
{
    return s->o.alias ? s->o.alias : s->info.name;
}

int error_import(struct error *e, const struct mlxcel_error *from)
{
    return error_set(e, from->code, from->param, "%s", from->message);
}

static struct server *server_new(const struct server_options *o)
{
    struct server *s = calloc(1, sizeof *s);
    json_t        *gone = json_object();
    if (!s || !gone) {
        json_decref(gone);
        free(s);
        return NULL;
    }
    s->o = *o;
    s->log = *o->log;
    s->started = (int64_t)time(NULL);
    s->gone = gone;
    pthread_mutex_init(&s->gone_lock, NULL);
    return s;
}

static void server_free(struct server *s)
{
    json_decref(s->gone);
    pthread_mutex_destroy(&s->gone_lock);
    free(s);
}

static void *run_engine(void *arg)
{
    struct server *s = arg;
    int            active;
    while (!atomic_load(&s->engine_stop)) {
        mlxcel_wait_work(s->model);
        while (!mlxcel_step(s->model, &active, NULL) && active && !atomic_load(&s->engine_stop))
            ;
    }
    mlxcel_step(s->model, &active, NULL); /* ends what was cancelled */
    return NULL;
}

/* mlxcel_open, whatever becomes of the files meanwhile. */
static int open_files(struct server *s)
{
    bool (*mend)(bool) = s->o.mend_files;
    if (mend)
        mend(true);
    int err = mlxcel_open(&s->model, s->o.model, &s->o.open, &s->load_error);
    if (!mend || !mend(false))
        return err;
    mlxcel_close(s->model);
    s->model = NULL;
    s->load_error = (struct mlxcel_error){.code = MLXCEL_EIO};
    snprintf(s->load_error.message, sizeof s->load_error.message,
             "a file of %s became shorter while it was loaded, or its disk cannot be read", s->o.model);
    return s->load_error.code;
}

static int open_model(struct server *s)
{
    int err = open_files(s);
    if (err)
        return err;
    mlxcel_get_info(s->model, &s->info);
    if (!pthread_create(&s->engine_thread, NULL, run_engine, s)) {
        s->has_engine = true;
        return 0;
    }
    s->load_error = (struct mlxcel_error){.code = MLXCEL_EINTERNAL, .message = "cannot start the engine's thread"};
    return MLXCEL_EINTERNAL;
}

static void *load(void *arg)
{
    struct server *s = arg;
    double         start = clock_now();
    if (open_model(s)) {
        if (!s->o.fail_fast && !atomic_load(&s->stopping)) /* with fail_fast server_run returns it */
            log_write(&s->log, LOG_ERROR, "%s", s->load_error.message);
        atomic_store(&s->state, SERVER_FAILED);
        kill(getpid(), SIGUSR1); /* wakes the main thread, which knows about fail_fast */
    } else {
        atomic_store(&s->state, SERVER_READY);
        log_info(&s->log, "model %s is ready after %.2f s", server_model_id(s), clock_now() - start);
    }
    return NULL;
}

/* Waits until no request is being answered, at most so many seconds. */
static void wait_idle(struct server *s, double seconds)
{
    double end = clock_now() + seconds;
    while (atomic_load(&s->n_running) && clock_now() < end)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void *shut_down(void *arg)
{
    struct server *s = arg;
    http_quiesce(s);
    wait_idle(s, DRAIN_SECONDS);
    atomic_store(&s->cancelling, true);
    wait_idle(s, CANCEL_SECONDS);
    http_stop(s);
    pthread_join(s->load_thread, NULL);
    if (s->has_engine) {
        atomic_store(&s->engine_stop, true);
        mlxcel_wake(s->model);
        pthread_join(s->engine_thread, NULL);
    }
    mlxcel_close(s->model);
    server_free(s);
    return NULL;
}

/* Shuts down on a thread of its own, so that the wait for it has an end. */
static void end(struct server *s)
{
    pthread_t       t;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)END_SECONDS;
    until.tv_nsec += (long)((END_SECONDS - (double)(time_t)END_SECONDS) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    atomic_store(&s->stopping, true);
    if (pthread_create(&t, NULL, shut_down, s))
        shut_down(s);
    else if (pthread_timedjoin_np(t, NULL, &until))
        pthread_detach(t);
}

int server_run(const struct server_options *o, struct error *e)
{
    struct server *s = server_new(o);
    sigset_t       set;
    int            sig, err;
    if (!s)
        return error_nomem(e, "the server");
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread is made: they inherit it */
    signal(SIGPIPE, SIG_IGN);
    err = http_start(s, e);
    if (err) {
        server_free(s);
        return err;
    }
    err = pthread_create(&s->load_thread, NULL, load, s);
    if (err) {
        http_quiesce(s);
        http_stop(s);
        server_free(s);
        return error_errno(e, err, "start a thread of", "the server");
    }
    do
        err = sigwait(&set, &sig);
    while (err || (sig == SIGUSR1 && !(s->o.fail_fast && atomic_load(&s->state) == SERVER_FAILED)));
    if (sig == SIGUSR1)
        err = error_import(e, &s->load_error);
    end(s);
    return err;
}
