/* `serve`: the HTTP server. */
#include "cli/api.h"
#include "cli/output.h"
#include "server/server.h"

int cmd_serve(const struct options *o, struct error *e)
{
    struct log            log = err_log(o->verbose);
    struct server_options server = {.host = o->host,
                                    .port = (int)o->port,
                                    .model = o->model,
                                    .alias = o->alias,
                                    .api_key = o->api_key,
                                    .fail_fast = o->fail_fast,
                                    .log = &log};
    if (!o->verbose)
        log.level = LOG_INFO; /* where it listens, when the model is ready, a line per request */
    api_options(o, &server.open);
    server.open.parallel = (int)o->parallel;
    return server_run(&server, e);
}
