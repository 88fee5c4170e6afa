/* `convert`: other layouts to MLX directories. */
#include "cli/rewrite.h"

int cmd_convert(const struct options *o, struct error *e)
{
    if (!o->args.n)
        return error_set(e, ERR_USAGE, NULL, "convert needs what to convert, IN.gguf or a directory");
    return rewrite_model(o, o->args.v[0], o->quantize ? REWRITE_QUANTIZE : REWRITE_LAYOUT, e);
}
