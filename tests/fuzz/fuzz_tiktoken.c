/* Fuzzes the reading of tiktoken files, and what an accepted one does. The first byte chooses the kind. */
#include "../support/fuzz_draft.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const files[] = {"qwen.tiktoken", "tokenizer.model", "o200k_base.tiktoken",
                                        "cl100k_base.tiktoken"};
    struct draft             d;
    struct error             e = {0};
    if (!size)
        return 0;
    struct str file = {(const char *)data + 1, size - 1};
    if (!draft_open(&d, "/nowhere", &e)) {
        d.path = files[data[0] % 4];
        tiktoken_is(file);
        if (!tiktoken_draft(&d, file))
            fuzz_use(&d);
    }
    draft_close(&d);
    return 0;
}
