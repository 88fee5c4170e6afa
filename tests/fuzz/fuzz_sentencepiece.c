/* Fuzzes the reading of SentencePiece models, and what an accepted one does. The first byte chooses the class. */
#include "../support/fuzz_draft.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const classes[] = {NULL, "LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"};
    struct draft             d;
    struct error             e = {0};
    if (!size)
        return 0;
    if (!draft_open(&d, "/nowhere", &e)) {
        d.class_name = classes[data[0] % 4];
        if (!sentencepiece_draft(&d, (struct str){(const char *)data + 1, size - 1}))
            fuzz_use(&d);
    }
    draft_close(&d);
    return 0;
}
