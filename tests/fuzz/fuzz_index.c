/* Any bytes as model.safetensors.index.json: refused, or a sorted list of plain file names, each once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/shards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shards s;
    struct error  e = {0};
    if (shards_parse_index(&s, (const char *)data, size, "index", &e)) {
        if (!e.msg[0])
            abort();
        return 0;
    }
    for (size_t i = 0; i < s.n; i++)
        if (!s.names[i][0] || strchr(s.names[i], '/') || strlen(s.names[i]) > 255 || strcmp(s.names[i], "..") == 0 ||
            (i && strcmp(s.names[i - 1], s.names[i]) >= 0))
            abort();
    shards_deinit(&s);
    return 0;
}
