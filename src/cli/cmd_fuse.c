/* `fuse`: a model directory with adapters added to its weights. */
#include <string.h>

#include "base/num.h"
#include "base/vec.h"
#include "cli/adapters.h"
#include "cli/api.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/rewrite.h"
#include "convert/convert.h"

/* What encoding again has cost, told when the bar is gone. */
struct loss {
    const char *name;
    double      value;
};

struct losses {
    struct loss  *v;
    size_t        n, cap;
    struct arena *names;
};

static void note_loss(void *ctx, const char *name, double value)
{
    struct losses *l = ctx;
    struct loss   *v = vec_room(l->v, l->n, &l->cap, sizeof *v);
    const char    *copy = arena_strdup(l->names, name, strlen(name));
    l->v = v ? v : l->v;
    if (v && copy) /* else it is not told */
        v[l->n++] = (struct loss){copy, value};
}

static void tell_losses(const struct losses *l)
{
    double sum = 0;
    size_t worst = 0;
    for (size_t i = 0; i < l->n; i++) {
        err_note("%s: relative error of the weights %.5f", l->v[i].name, l->v[i].value);
        sum += l->v[i].value;
        worst = l->v[i].value > l->v[worst].value ? i : worst;
    }
    if (l->n)
        err_note("quantized %zu matrices again: relative error %.5f on average, at most %.5f (%s)", l->n,
                 sum / (double)l->n, l->v[worst].value, l->v[worst].name);
}

static int fuse(const struct options *o, const char *dir, const struct convert_adapter *list, size_t n, struct error *e)
{
    struct log             log = err_log(o->verbose);
    struct losses          losses = {.names = o->arena};
    struct convert_options c = {.quantize = o->fuse_requantize,
                                .dequantize = o->fuse_dequantize,
                                .threads = (int)o->threads,
                                .force = o->force,
                                .log = &log,
                                .progress = rewrite_show_progress,
                                .loss = note_loss,
                                .ctx = &losses};
    interrupt_hold(true); /* the directory appears whole or not at all, and no half of it stays behind */
    int err = convert_fuse(dir, list, n, o->out, &c, e);
    interrupt_hold(false);
    if (!err) {
        tell_losses(&losses);
        err_note("made the model directory %s", o->out);
    }
    free(losses.v);
    return err;
}

int cmd_fuse(const struct options *o, struct error *e)
{
    struct mlxcel_options   sources = {0};
    struct mlxcel_error     fault = {0};
    struct convert_adapter *list;
    char                   *dir = NULL;
    int                     err = adapters_options(o, &sources, e);
    if (err)
        return err;
    if (!sources.n_lora)
        return error_set(e, ERR_USAGE, "adapter", "fuse needs an adapter, --adapter PATH");
    if (o->fuse_dequantize && o->fuse_requantize)
        return error_set(e, ERR_USAGE, NULL, "--dequantize and --requantize exclude each other");
    list = arena_calloc(o->arena, sources.n_lora, sizeof *list);
    if (!list)
        return error_nomem(e, "the adapters");
    for (size_t i = 0; i < sources.n_lora; i++)
        list[i] = (struct convert_adapter){sources.lora[i].path, (double)sources.lora[i].scale};
    if (mlxcel_resolve(o->model, &dir, &fault))
        return api_fault(&fault, e);
    err = fuse(o, dir, list, sources.n_lora, e);
    mlxcel_free(dir);
    return err;
}
