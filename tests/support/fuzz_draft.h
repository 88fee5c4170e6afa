/* What the fuzz targets of tokenizer sources share: the tokenizer of a draft reads a text of many kinds, and decodes. */
#ifndef TESTS_SUPPORT_FUZZ_DRAFT_H
#define TESTS_SUPPORT_FUZZ_DRAFT_H

#include "text/sources.h"
#include "text/tokenizer_int.h"

static inline void fuzz_use(const struct draft *d)
{
    static const char text[] = "Hello  world, it's 12345\n\n\tabab <s>e\xcc\x81 \xe6\x97\xa5\xe6\x9c\xac \xe2\x96\x81 "
                               "\xf0\x9f\x98\x80\xff aaaaaaaaaaaaaaaaaa";
    struct tokenizer *t;
    struct ids        ids = {0};
    struct buf        out;
    if (tokenizer_load_text(&t, buf_str(&d->text), d->path, NULL, NULL))
        return;
    buf_init(&out, 1 << 24);
    for (unsigned flags = 0; flags < 4; flags++)
        tokenizer_encode(t, (struct str){text, sizeof text - 1}, flags, &ids, NULL);
    tokenizer_decode(t, ids.v, ids.n, true, &out, NULL);
    ids_deinit(&ids);
    buf_deinit(&out);
    tokenizer_free(t);
}

#endif
