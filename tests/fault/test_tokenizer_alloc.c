/* Loading a tokenizer, encoding and decoding while the n-th allocation fails, for every n: each time one error, no
 * crash, and (under the address sanitizer) no leak; ids and text that were there before stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "../support/fail_alloc.h"
#include "base/file.h"
#include "text/detok.h"
#include "text/tokenizer_int.h"

static const char text[] =
    "Hello  world 12 <|im_end|> e\xcc\x81\xe2\x84\xab \xff ababababababababababababababababababababababababab";

static int work(struct str json, struct error *e)
{
    struct tokenizer *t;
    struct ids        ids = {0};
    struct buf        out;
    int               status = tokenizer_load_text(&t, json, "tokenizer.json", NULL, e);
    if (status)
        return status;
    buf_init(&out, 1 << 20);
    status = tokenizer_encode(t, (struct str){text, sizeof text - 1}, 3, &ids, e);
    if (status)
        assert_int_equal(ids.n, 0);
    else
        status = tokenizer_decode(t, ids.v, ids.n, false, &out, e);
    ids_deinit(&ids);
    buf_deinit(&out);
    tokenizer_free(t);
    return status;
}

static void sweep(const char *path)
{
    struct file_map f;
    struct error    e;
    int             status;
    assert_int_equal(file_map_open(&f, path, NULL), 0);
    for (long n = 1;; n++) {
        e = (struct error){0};
        failed = false;
        countdown = n;
        status = work((struct str){f.p, f.n}, &e);
        countdown = -1;
        if (!failed)
            break;
        assert_int_equal(status, e.code);
        if (!status)
            fail_msg("%s: allocation %ld failed, and nobody noticed", path, n);
    }
    assert_int_equal(status, 0);
    file_map_close(&f);
}

static void test_every_allocation(void **state)
{
    (void)state;
    json_set_alloc_funcs(jansson_malloc, free);
    sweep("tests/fuzz/corpus/tokenizer/llama3.json");
    sweep("tests/fuzz/corpus/tokenizer/sentencepiece.json");
    sweep("tests/fuzz/corpus/tokenizer/added_flags.json");
    sweep("tests/fuzz/corpus/tokenizer/replace_prepend.json");
    sweep("tests/fuzz/corpus/tokenizer/nfkc_strip.json");
    sweep("tests/fuzz/corpus/tokenizer/unigram.json");
    sweep("tests/fuzz/corpus/tokenizer/wordpiece.json");
    sweep("tests/fuzz/corpus/tokenizer/wordlevel.json");
    sweep("tests/fuzz/corpus/tokenizer/affixes.json");
    sweep("tests/fuzz/corpus/tokenizer/spelled.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
