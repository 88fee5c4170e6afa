/* The cache of pieces: what was put is what is got, keys tell all texts apart, and threads that write and read the same
 * place never get a mixture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>

#include "text/bpe_cache.h"

#define RIVALS 6
#define THREADS 4
#define TURNS 1000000

static void test_put_get(void **state)
{
    (void)state;
    static const char text[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ";
    struct bpe_cache *c = bpe_cache_new();
    int32_t           ids[BPE_CACHE_IDS_MAX + 1] = {0, 1, (1 << 21) - 1, 3, 4, 5, 6, 7, 8, 9}, got[BPE_CACHE_IDS_MAX];
    assert_non_null(c);
    for (size_t n = 1; n <= BPE_CACHE_TEXT_MAX; n++) {
        struct bpe_key key = bpe_key_of((struct str){text, n}, 0), other = bpe_key_of((struct str){text, n}, 1);
        size_t         n_ids = n % (BPE_CACHE_IDS_MAX + 1);
        assert_int_equal(bpe_cache_get(c, &key, got), -1);
        bpe_cache_put(c, &key, ids, n_ids);
        assert_int_equal(bpe_cache_get(c, &key, got), n_ids);
        assert_memory_equal(got, ids, n_ids * sizeof *ids);
        assert_int_equal(bpe_cache_get(c, &other, got), -1);
    }
    struct bpe_key key = bpe_key_of(STR("x"), 0);
    bpe_cache_put(c, &key, ids, BPE_CACHE_IDS_MAX + 1); /* too many */
    assert_int_equal(bpe_cache_get(c, &key, got), -1);
    ids[0] = 1 << 21; /* too great */
    bpe_cache_put(c, &key, ids, 1);
    assert_int_equal(bpe_cache_get(c, &key, got), -1);
    bpe_cache_free(c);
}

/* Texts of every length that differ in one byte only have different keys. */
static void test_keys(void **state)
{
    (void)state;
    char text[BPE_CACHE_TEXT_MAX];
    for (size_t n = 1; n <= sizeof text; n++)
        for (size_t i = 0; i < n; i++)
            for (unsigned bit = 0; bit < 8; bit++) {
                memset(text, 'a', n);
                struct bpe_key a = bpe_key_of((struct str){text, n}, 0);
                text[i] = (char)(text[i] ^ 1 << bit);
                struct bpe_key b = bpe_key_of((struct str){text, n}, 0);
                assert_memory_not_equal(a.word, b.word, sizeof a.word);
            }
}

/* Keys that have the same place. */
static struct bpe_key    rivals[RIVALS];
static struct bpe_cache *shared;

static void find_rivals(void)
{
    char text[20];
    for (unsigned i = 0, n = 0; n < RIVALS; i++) {
        snprintf(text, sizeof text, "%u", i);
        struct bpe_key key = bpe_key_of(str_of(text), 0);
        if (!n || key.place == rivals[0].place)
            rivals[n++] = key;
    }
}

static void *compete(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    long     wrong = 0;
    for (int i = 0; i < TURNS; i++) {
        seed = seed * 1664525u + 1013904223u;
        int     k = (int)(seed >> 8) % RIVALS, n;
        int32_t ids[BPE_CACHE_IDS_MAX];
        for (int j = 0; j < BPE_CACHE_IDS_MAX; j++)
            ids[j] = 1000 * k + j;
        if (seed >> 31)
            bpe_cache_put(shared, &rivals[k], ids, (size_t)k + 1);
        else if ((n = bpe_cache_get(shared, &rivals[k], ids)) >= 0) {
            wrong += n != k + 1;
            for (int j = 0; j < n; j++)
                wrong += ids[j] != 1000 * k + j;
        }
    }
    return (void *)wrong;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    find_rivals();
    shared = bpe_cache_new();
    assert_non_null(shared);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compete, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    bpe_cache_free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_put_get), cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
