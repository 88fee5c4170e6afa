/* `convert`: other layouts to MLX directories. */
#include <sys/stat.h>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/rewrite.h"
#include "convert/convert.h"

static int convert_file(const struct options *o, struct error *e)
{
    struct log log = err_log(o->verbose);
    if (o->quantize)
        return error_set(
            e, ERR_UNSUPPORTED, "quantize",
            "a GGUF file is imported as it is; quantize the result, if it is dense, with `mlxcel quantize`");
    interrupt_hold(true); /* the directory appears whole or not at all, and no half of it stays behind */
    int err = convert_gguf(o->args.v[0], o->out, o->force, &log, e);
    if (!err && interrupt_pending())
        err = error_set(e, ERR_CANCELLED, NULL, "interrupted");
    interrupt_hold(false);
    if (!err)
        err_note("made the model directory %s", o->out);
    return err;
}

int cmd_convert(const struct options *o, struct error *e)
{
    struct stat st;
    if (!o->args.n)
        return error_set(e, ERR_USAGE, NULL, "convert needs what to convert, IN.gguf or a directory");
    if (stat(o->args.v[0], &st) == 0 && S_ISDIR(st.st_mode))
        return rewrite_model(o, o->args.v[0], o->quantize ? REWRITE_QUANTIZE : REWRITE_LAYOUT, e);
    return convert_file(o, e);
}
