/* `convert`: other layouts to MLX directories. */
#include <sys/stat.h>

#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"
#include "convert/convert.h"

int cmd_convert(const struct options *o, struct error *e)
{
    struct log  log = err_log(o->verbose);
    struct stat st;
    int         rc;
    if (!o->args.n)
        return error_set(e, ERR_USAGE, NULL, "convert needs the file to convert, IN.gguf");
    if (stat(o->args.v[0], &st) == 0 && S_ISDIR(st.st_mode))
        return error_set(e, ERR_UNSUPPORTED, NULL, "%s is a directory; only GGUF files can be converted", o->args.v[0]);
    interrupt_hold(true); /* the directory appears whole or not at all, and no half of it stays behind */
    rc = convert_gguf(o->args.v[0], o->out, o->force, &log, e);
    interrupt_hold(false);
    if (!rc)
        err_note("made the model directory %s", o->out);
    return rc;
}
