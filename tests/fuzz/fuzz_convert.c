/* The whole GGUF import, from the file's bytes to the directory's files. */
#include <stdint.h>

#include "../support/tmp.h"
#include "convert/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct convert_options replace = {.force = true};
static char                        *dir;

static void clean(void)
{
    tmp_remove(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *g;
    struct error e = {0};
    if (!dir) {
        dir = tmp_make();
        atexit(clean);
    }
    if (gguf_parse(&g, (const char *)data, size, "f.gguf", &e))
        return 0;
    if (import_gguf(g, NULL, tmp_path(dir, "out"), &replace, &e) && !e.msg[0])
        abort();
    gguf_close(g);
    return 0;
}
