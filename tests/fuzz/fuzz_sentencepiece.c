/* Fuzzes the reading of SentencePiece models, and what a tokenizer that was accepted does with a fixed text and with ids.
 * The first byte chooses the class. */
#include "text/sources.h"
#include "text/tokenizer_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] = "Hello  world, it's 12345\n\n\tabab <s>e\xcc\x81 \xe6\x97\xa5\xe6\x9c\xac \xe2\x96\x81 "
                           "\xf0\x9f\x98\x80\xff aaaaaaaaaaaaaaaaaa";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const classes[] = {NULL, "LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"};
    struct draft             d;
    struct error             e = {0};
    struct tokenizer        *t = NULL;
    struct ids               ids = {0};
    struct buf               out;
    if (!size)
        return 0;
    buf_init(&out, 1 << 24);
    if (!draft_open(&d, "/nowhere", &e)) {
        d.class_name = classes[data[0] % 4];
        if (!sentencepiece_draft(&d, (struct str){(const char *)data + 1, size - 1}))
            tokenizer_load_text(&t, buf_str(&d.text), "tokenizer.model", NULL, &e);
    }
    draft_close(&d);
    for (unsigned flags = 0; t && flags < 4; flags++)
        tokenizer_encode(t, (struct str){text, sizeof text - 1}, flags, &ids, NULL);
    if (t)
        tokenizer_decode(t, ids.v, ids.n, true, &out, NULL);
    ids_deinit(&ids);
    buf_deinit(&out);
    tokenizer_free(t);
    return 0;
}
