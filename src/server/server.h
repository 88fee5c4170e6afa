/* The HTTP server: OpenAI-compatible and llama-server-compatible routes over one model.
 *
 * Threads: libmicrohttpd gives every connection a thread that parses, renders the template, tokenizes and formats; one engine
 * thread owns the model's state and steps it; one thread loads the model. Between connections and engine stand the engine's
 * bounded queue and each request's list of events (job.h).
 */
#ifndef MLXCEL_SERVER_SERVER_H
#define MLXCEL_SERVER_SERVER_H

#include "base/error.h"
#include "base/log.h"
#include "mlxcel.h"

struct server_options {
    const char           *host; /* NULL: 127.0.0.1 */
    int                   port; /* 0: any free one */
    const char           *model;
    const char           *alias;   /* the model's id in answers; NULL: its name */
    const char           *api_key; /* NULL: none is needed */
    int                   timeout; /* seconds that a connection may be silent, or not take what is sent to it */
    bool                  fail_fast;
    bool                  lora_runtime; /* requests may load and unload adapters, whoever sends them */
    bool                  plain_chats;  /* control tokens written in messages are plain text, whatever a request says */
    struct mlxcel_options open;
    const struct log     *log; /* copied */
    /* Called with true before the model is loaded and with false afterwards, on the loading thread: whether a file that was
     * mapped meanwhile could not be read to its end, which then is what the load fails with. Without it (NULL) the process
     * gets SIGBUS. */
    bool (*mend_files)(bool mend);
};

/* Serves until SIGTERM or SIGINT, then drains. Returns 0 within 5 s after that, or an error when it could not listen, or,
 * with fail_fast, could not load. SIGTERM and SIGINT stay blocked in the calling thread, so that a second one does not
 * spoil the end. It is the last thing a process does: what could not be interrupted in time runs on until exit. */
int server_run(const struct server_options *o, struct error *e);

#endif
