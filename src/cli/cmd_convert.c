/* `convert`: other layouts to MLX directories. */
#include <sys/stat.h>

#include "cli/rewrite.h"

static int convert_file(const struct options *o, struct error *e)
{
    if (o->quantize)
        return error_set(
            e, ERR_UNSUPPORTED, "quantize",
            "a GGUF file is imported as it is; quantize the result, if it is dense, with `mlxcel quantize`");
    return rewrite_gguf(o, o->args.v[0], e);
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
