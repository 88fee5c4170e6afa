/* Internal to src/server: the server's state, shared by the handlers. */
#ifndef MLXCEL_SERVER_SERVER_INT_H
#define MLXCEL_SERVER_SERVER_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/http.h"
#include "server/server.h"

enum server_state { SERVER_LOADING, SERVER_READY, SERVER_FAILED };

struct server {
    struct server_options o;
    struct log            log;
    struct MHD_Daemon    *daemon;
    int                   quiet_fd; /* the listening socket after http_quiesce */
    atomic_int            state;    /* enum server_state */
    struct mlxcel        *model;    /* set before state becomes READY */
    struct mlxcel_info    info;
    struct mlxcel_error   load_error; /* set before state becomes FAILED */
    int64_t               started;    /* unix time */
    json_t               *gone;       /* object with the names of adapters that were unloaded, once at least */
    pthread_mutex_t       gone_lock;
    atomic_bool           stopping;   /* no new requests */
    atomic_bool           cancelling; /* running ones must end now */
    atomic_int            n_running;  /* requests that are being answered */
    atomic_bool           engine_stop;
    pthread_t             load_thread, engine_thread;
    bool                  has_engine;
};

/* The model's id in answers. */
const char *server_model_id(const struct server *s);
/* A public error as an internal one; returns its code. */
int error_import(struct error *e, const struct mlxcel_error *from);

#endif
