/* `quantize` and `dequantize`: the matrices of a model directory in another form. */
#include <stdlib.h>

#include "cli/api.h"
#include "cli/rewrite.h"

static int rewrite(const struct options *o, enum rewrite_what what, struct error *e)
{
    struct mlxcel_error fault = {0};
    char               *dir = NULL;
    if (mlxcel_resolve(o->model, &dir, &fault))
        return api_fault(&fault, e);
    int err = rewrite_model(o, dir, what, e);
    mlxcel_free(dir);
    return err;
}

int cmd_quantize(const struct options *o, struct error *e)
{
    return rewrite(o, REWRITE_QUANTIZE, e);
}

int cmd_dequantize(const struct options *o, struct error *e)
{
    return rewrite(o, REWRITE_DEQUANTIZE, e);
}
