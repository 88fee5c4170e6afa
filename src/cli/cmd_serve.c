/* `serve`: the HTTP server. */
#include "cli/api.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "server/server.h"

/* Options that are known and not built. */
static int refuse(const struct options *o, struct error *e)
{
    const char *name = o->metrics ? "--metrics" : o->slots ? "--slots" : NULL;
    return name ? error_set(e, ERR_USAGE, name, "%s is not supported yet", name) : 0;
}

int cmd_serve(const struct options *o, struct error *e)
{
    struct log            log = err_log(o->verbose);
    struct server_options server = {.host = o->host,
                                    .port = (int)o->port,
                                    .model = o->model,
                                    .alias = o->alias,
                                    .api_key = o->api_key,
                                    .timeout = (int)o->timeout,
                                    .fail_fast = o->fail_fast,
                                    .lora_runtime = o->lora_runtime,
                                    .plain_chats = o->plain_chats,
                                    .log = &log,
                                    .mend_files = interrupt_mend};
    int                   err = refuse(o, e);
    if (!err)
        err = api_chat_options(o, &server.open, e);
    if (err)
        return err;
    if (!o->verbose)
        log.level = LOG_INFO; /* where it listens, when the model is ready, a line per request */
    server.open.parallel = (int)o->parallel;
    return server_run(&server, e);
}
