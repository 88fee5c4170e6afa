/* Loading checkpoints without a tokenizer.json while the n-th allocation fails, for every n: each time one error, no
 * crash, and (under the address sanitizer) no leak. jansson's allocations do not fail here: when it cannot grow a string
 * it goes on without the byte, be it the closing quote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../support/fail_alloc.h"
#include "../support/tmp.h"
#include "base/file.h"
#include "text/tokenizer.h"

#define CORPUS "tests/fuzz/corpus/"

static void sweep(const char *dir)
{
    struct tokenizer *t;
    struct error      e;
    int               status;
    for (long n = 1;; n++) {
        e = (struct error){0};
        failed = false;
        countdown = n;
        status = tokenizer_load(&t, dir, NULL, &e);
        countdown = -1;
        if (!status)
            tokenizer_free(t);
        if (!failed)
            break;
        assert_int_not_equal(status, 0); /* none is overlooked */
        assert_int_equal(status, e.code);
    }
    if (status)
        fail_msg("%s", e.msg);
}

/* A directory with a fuzz seed, without its first byte, under a name, and a tokenizer_config.json. */
static void sweep_seed(const char *seed, const char *name, const char *config)
{
    char           *dir = tmp_make();
    struct file_map f;
    assert_int_equal(file_map_open(&f, seed, NULL), 0);
    tmp_write(dir, name, f.p + 1, f.n - 1);
    tmp_puts(dir, "tokenizer_config.json", config);
    file_map_close(&f);
    sweep(dir);
    tmp_remove(dir);
}

static void sentencepiece(void **state)
{
    static const char config[] =
        "{\"add_bos_token\":true,\"bos_token\":\"<s>\",\"image_token\":\"<i>\",\"extra_special_tokens\":[\"x\"],"
        "\"added_tokens_decoder\":{\"3\":{\"content\":\"zz\"},\"99\":{\"content\":\"yy\",\"special\":true}}}";
    (void)state;
    sweep_seed(CORPUS "sentencepiece/user_defined", "tokenizer.model", config);
    sweep_seed(CORPUS "sentencepiece/charsmap", "tokenizer.model", "{}");
    sweep_seed(CORPUS "sentencepiece/unigram", "tokenizer.model", "{}");
    sweep_seed(CORPUS "sentencepiece/code_llama", "tokenizer.model", "{\"tokenizer_class\":\"CodeLlamaTokenizer\"}");
    sweep_seed(CORPUS "sentencepiece/gemma", "tokenizer.model", "{\"tokenizer_class\":\"GemmaTokenizer\"}");
}

static void tiktoken(void **state)
{
    (void)state;
    sweep_seed(CORPUS "tiktoken/qwen", "qwen.tiktoken", "{}");
    sweep_seed(CORPUS "tiktoken/llama3", "tokenizer.model", "{\"tokenizer_class\":\"ChatGLM4Tokenizer\"}");
}

static void vocab_files(void **state)
{
    char *dir = tmp_make();
    (void)state;
    tmp_puts(dir, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3}");
    tmp_puts(dir, "merges.txt", "#version: 0.2\na b\n");
    tmp_puts(dir, "tokenizer_config.json", "{\"tokenizer_class\":\"RobertaTokenizer\"}");
    tmp_puts(dir, "special_tokens_map.json", "{\"mask_token\":{\"content\":\"<m>\",\"lstrip\":true}}");
    tmp_puts(dir, "added_tokens.json", "{\"<z>\":9}");
    sweep(dir);
    tmp_remove(dir);
    dir = tmp_make();
    tmp_puts(dir, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n##b\n");
    sweep(dir);
    tmp_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sentencepiece), cmocka_unit_test(tiktoken),
                                       cmocka_unit_test(vocab_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
