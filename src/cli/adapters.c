/* See adapters.h. */
#include "cli/adapters.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* PATH or PATH:SCALE: the scale is what follows the last colon, if that is a finite number. *scale stays else. Cuts
 * text. */
static bool cut_scale(char *text, float *scale)
{
    char *colon = strrchr(text, ':'), *end;
    if (!colon || !(isdigit((unsigned char)colon[1]) || (colon[1] && strchr("+-.", colon[1]))))
        return false;
    double v = strtod(colon + 1, &end);
    if (*end || !isfinite(v))
        return false;
    *colon = '\0';
    *scale = (float)v;
    return true;
}

static int add(const struct options *o, struct mlxcel_options *out, struct mlxcel_lora_source *list, const char *path,
               float scale, struct error *e)
{
    if (!*path)
        return error_set(e, ERR_USAGE, NULL, "an adapter needs a path");
    list[out->n_lora++] = (struct mlxcel_lora_source){
        .path = path, .scale = scale, .idle = scale == 0 || o->lora_init_without_apply, .fuse = o->lora_fuse};
    return 0;
}

static size_t count(const struct options *o)
{
    size_t n = o->lora.n + (o->adapter ? 1 : 0);
    for (size_t i = 0; i < o->lora_scaled.n; i++) {
        n++;
        for (const char *c = o->lora_scaled.v[i]; *c; c++)
            n += *c == ',';
    }
    return n;
}

/* F:S,F:S,... */
static int add_scaled(const struct options *o, struct mlxcel_options *out, struct mlxcel_lora_source *list, char *text,
                      struct error *e)
{
    int rc = 0;
    for (char *next; text && !rc; text = next) {
        float scale = 0;
        next = strchr(text, ',');
        if (next)
            *next++ = '\0';
        if (!cut_scale(text, &scale))
            return error_set(e, ERR_USAGE, NULL, "--lora-scaled takes PATH:SCALE,..., but \"%s\" has no scale", text);
        rc = add(o, out, list, text, scale, e);
    }
    return rc;
}

static char *copy_text(const struct options *o, const char *text, struct error *e)
{
    char *copy = arena_strdup(o->arena, text, strlen(text));
    if (!copy)
        error_nomem(e, "the command line");
    return copy;
}

const char *adapters_split(const struct options *o, const char *text, float *scale, struct error *e)
{
    char *copy = copy_text(o, text, e);
    if (copy)
        cut_scale(copy, scale);
    return copy;
}

int adapters_options(const struct options *o, struct mlxcel_options *out, struct error *e)
{
    struct mlxcel_lora_source *list = arena_calloc(o->arena, count(o) + 1, sizeof *list);
    int                        rc = list ? 0 : error_nomem(e, "the command line");
    if (!rc && o->lora_fuse && o->lora_init_without_apply)
        rc = error_set(e, ERR_USAGE, NULL, "--lora-fuse and --lora-init-without-apply exclude each other");
    for (size_t i = 0; i < o->lora.n && !rc; i++) {
        float       scale = 1;
        const char *text = adapters_split(o, o->lora.v[i], &scale, e);
        rc = text ? add(o, out, list, text, scale, e) : e->code;
    }
    for (size_t i = 0; i < o->lora_scaled.n && !rc; i++) {
        char *text = copy_text(o, o->lora_scaled.v[i], e);
        rc = text ? add_scaled(o, out, list, text, e) : e->code;
    }
    if (!rc && o->adapter) {
        rc = add(o, out, list, o->adapter, 1, e);
        list[count(o) - 1].fuse = true;
        list[count(o) - 1].idle = false; /* whatever is said of the others */
    }
    out->lora = list;
    return rc;
}
