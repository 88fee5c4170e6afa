/* The import of one GGUF file, from open to rename; contracts in convert.h. */
#include <stdlib.h>

#include "base/num.h"
#include "convert/convert.h"
#include "convert/import.h"

#define NAMES_MAX ((size_t)64 << 20)

static int fill(struct import *m, const struct dir_out *out, struct error *e)
{
    char path[PATH_MAX];
    int  status = dir_out_file(out, "model.safetensors", path, e);
    if (!status)
        status = import_write_tokenizer(m, out, e);
    if (!status)
        status = import_write_planes(m, path, e);
    if (!status)
        status = import_write_config(m, out, e); /* last: what has no config.json is no model */
    return status;
}

int import_progress(const struct import *m, size_t done, struct error *e)
{
    const struct convert_options *o = m->o;
    if (!o->progress || o->progress(o->ctx, done, MAX(m->bytes, (size_t)1)))
        return 0;
    return error_set(e, ERR_CANCELLED, NULL, "interrupted");
}

int import_gguf(const struct gguf *g, const char *source, const char *out_dir, const struct convert_options *o,
                struct error *e)
{
    struct import  m = {.g = g, .o = o, .log = o->log};
    struct dir_out out = {0};
    arena_init(&m.arena, NAMES_MAX);
    int status = import_model(&m, e);
    if (!status)
        status = import_map(&m, e);
    if (!status)
        status = dir_out_begin(&out, out_dir, source, o->force, e);
    if (!status)
        status = fill(&m, &out, e);
    if (!status)
        status = dir_out_finish(&out, e);
    dir_out_abort(&out);
    free(m.planes);
    arena_deinit(&m.arena);
    return status;
}

int convert_gguf(const char *gguf_path, const char *out_dir, const struct convert_options *o, struct error *e)
{
    struct gguf *g = NULL;
    int          status = gguf_open(&g, gguf_path, e);
    if (!status)
        status = import_gguf(g, gguf_path, out_dir, o, e);
    gguf_close(g);
    return status;
}
