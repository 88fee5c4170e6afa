/* Fuzzes the reading of tokenizer.json, and what a tokenizer that was accepted does with a fixed text and with ids. */
#include "text/detok.h"
#include "text/tokenizer_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
    "Hello  world, it's 12345\n\n\tabab <s>e\xcc\x81 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80\xff aaaaaaaaaaaaaaaaaa";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokenizer *t;
    struct ids        ids = {0};
    struct buf        out;
    buf_init(&out, 1 << 24);
    if (tokenizer_load_text(&t, (struct str){(const char *)data, size}, "tokenizer.json", NULL, NULL))
        return 0;
    for (unsigned flags = 0; flags < 4; flags++)
        tokenizer_encode(t, (struct str){text, sizeof text - 1}, flags, &ids, NULL);
    tokenizer_decode(t, ids.v, ids.n, true, &out, NULL);
    for (int32_t id = -1; id < 300; id++) {
        tokenizer_token_bytes(t, id, &out);
        tokenizer_decode(t, &id, 1, false, &out, NULL);
    }
    ids_deinit(&ids);
    buf_deinit(&out);
    tokenizer_free(t);
    return 0;
}
