/* Byte-pair encoding against the definition, written down naively: over random merge lists (also incomplete ones and
 * ones whose order no training gives) and random pieces, short and long; unknown characters and byte tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/bpe.h"
#include "text/bytelevel.h"

#define MERGES_MAX 300

/* A small generator of its own, so that the test is the same everywhere. */
static uint64_t seed;
static unsigned roll(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

struct world {
    struct vocab vocab;
    size_t       n_tokens; /* that the letters and merges have made */
    struct bpe   bpe;
    int32_t      left[MERGES_MAX], right[MERGES_MAX], made[MERGES_MAX];
    int          n;
};

/* Tokens for all bytes, by which long pieces may be cut into parts: their spellings and "<0xHH>". */
static void add_bytes(struct world *w)
{
    char text[8];
    w->n_tokens = w->vocab.size;
    for (unsigned b = 0; b < 256; b++) {
        char byte = (char)b;
        snprintf(text, sizeof text, "<0x%02X>", b);
        assert_true(vocab_put(&w->vocab, (int32_t)w->vocab.size, str_of(text)));
        if (b < 'a' || b > 'e')
            assert_true(
                vocab_put(&w->vocab, (int32_t)w->vocab.size, (struct str){text, bytelevel_spell(&byte, 1, text)}));
    }
    w->bpe.byte_fallback = true;
}

/* Letters a..e as tokens 0..4, then random merges of tokens so far; equal texts are one token. */
static void make_world(struct world *w, int n_merges, bool bytes)
{
    char text[64];
    vocab_init(&w->vocab);
    bpe_init(&w->bpe, &w->vocab);
    w->n = 0;
    for (int i = 0; i < 5; i++) {
        text[0] = (char)('a' + i);
        assert_true(vocab_put(&w->vocab, i, (struct str){text, 1}));
    }
    while (w->n < n_merges) {
        int32_t    l = (int32_t)roll((unsigned)w->vocab.size), r = (int32_t)roll((unsigned)w->vocab.size), id = -1;
        struct str x = vocab_text(&w->vocab, l), y = vocab_text(&w->vocab, r);
        if (x.n + y.n > 12)
            continue;
        memcpy(text, x.p, x.n);
        memcpy(text + x.n, y.p, y.n);
        for (size_t i = 0; i < w->vocab.size; i++)
            if (str_eq(vocab_text(&w->vocab, (int64_t)i), (struct str){text, x.n + y.n}))
                id = (int32_t)i;
        if (id < 0) {
            id = (int32_t)w->vocab.size;
            assert_true(vocab_put(&w->vocab, id, (struct str){text, x.n + y.n}));
        }
        w->left[w->n] = l;
        w->right[w->n] = r;
        w->made[w->n++] = id;
    }
    /* Shuffled: a part may be made by a later merge than the one that needs it. */
    for (int i = w->n - 1; i > 0; i--) {
        int     k = (int)roll((unsigned)i + 1);
        int32_t t;
        t = w->left[i], w->left[i] = w->left[k], w->left[k] = t;
        t = w->right[i], w->right[i] = w->right[k], w->right[k] = t;
        t = w->made[i], w->made[i] = w->made[k], w->made[k] = t;
    }
    w->n_tokens = w->vocab.size;
    if (bytes)
        add_bytes(w);
    assert_true(vocab_index(&w->vocab, NULL));
    for (int i = 0; i < w->n; i++)
        assert_true(bpe_add(&w->bpe, w->left[i], w->right[i], w->made[i]));
    assert_true(bpe_index(&w->bpe));
    assert_int_equal(w->bpe.cut_bytes, bytes && w->n > 0);
    assert_int_equal(w->bpe.cut_chars, bytes && w->n > 0);
}

/* The definition: again and again the pair that stands earliest in the list is joined (of equal
 * entries only the last counts), leftmost first. */
static size_t naive(const struct world *w, int32_t *v, size_t n)
{
    for (;;) {
        int    best_rank = -1;
        size_t best = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (int k = w->n - 1; k >= 0; k--)
                if (w->left[k] == v[i] && w->right[k] == v[i + 1]) {
                    if (best_rank < 0 || k < best_rank) {
                        best_rank = k;
                        best = i;
                    }
                    break;
                }
        if (best_rank < 0)
            return n;
        v[best] = w->made[best_rank];
        memmove(v + best + 1, v + best + 2, (n - best - 2) * sizeof *v);
        n--;
    }
}

static void check_piece(struct world *w, size_t n, struct bpe_scratch *s)
{
    char       text[600];
    int32_t    want[600];
    struct ids got = {0};
    for (size_t i = 0; i < n; i++) {
        want[i] = (int32_t)roll(roll(4) ? 5 : 2);
        text[i] = (char)('a' + want[i]);
    }
    size_t n_want = naive(w, want, n);
    assert_int_equal(bpe_encode(&w->bpe, (struct str){text, n}, w->bpe.cut_bytes && roll(2), s, &got, NULL), 0);
    if (got.n != n_want || (got.n && memcmp(got.v, want, n_want * sizeof *want) != 0))
        fail_msg("'%.*s': %zu ids, wanted %zu", (int)n, text, got.n, n_want);
    ids_deinit(&got);
}

static void test_random(void **state)
{
    (void)state;
    static struct world w;
    struct bpe_scratch  s = {0};
    seed = 7;
    for (int round = 0; round < 24; round++) {
        make_world(&w, (int)roll(MERGES_MAX), round % 2);
        for (int i = 0; i < 30; i++)
            check_piece(&w, i < 20 ? 1 + roll(12) : 1 + roll(599), &s);
        /* Whole tokens, twice: the second time they come from the cache. */
        for (int twice = 0; twice < 2; twice++)
            for (size_t id = 0; id < w.n_tokens; id++) {
                struct str text = vocab_text(&w.vocab, (int64_t)id);
                int32_t    want[12];
                struct ids got = {0};
                for (size_t i = 0; i < text.n; i++)
                    want[i] = text.p[i] - 'a';
                size_t n = naive(&w, want, text.n);
                assert_int_equal(bpe_encode(&w.bpe, text, false, &s, &got, NULL), 0);
                assert_int_equal(got.n, n);
                assert_memory_equal(got.v, want, n * sizeof *want);
                ids_deinit(&got);
            }
        bpe_deinit(&w.bpe);
        vocab_deinit(&w.vocab);
    }
    bpe_scratch_deinit(&s);
}

/* Encodes a text with a model of its own, since settings stand when a model is made. */
static void encode(const struct bpe *settings, const struct vocab *v, const char *text, const char *want)
{
    struct bpe_scratch s = {0};
    struct ids         got = {0};
    struct bpe         m;
    char               line[200] = "";
    bpe_init(&m, v);
    m.unk_id = settings->unk_id;
    m.fuse_unk = settings->fuse_unk;
    m.byte_fallback = settings->byte_fallback;
    assert_true(bpe_add(&m, 1, 2, 5) && bpe_add(&m, 1, 0, 6) && bpe_index(&m));
    assert_int_equal(bpe_encode(&m, str_of(text), false, &s, &got, NULL), 0);
    for (size_t i = 0; i < got.n; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%.*s", i ? " " : "",
                 STR_ARG(vocab_text(v, got.v[i])));
    assert_string_equal(line, want);
    bpe_scratch_deinit(&s);
    bpe_deinit(&m);
    ids_deinit(&got);
}

static void test_unknown(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<unk>", "a", "b", "<0xC3>", "<0xA9>", "ab", "a<unk>"};
    struct vocab             v;
    struct bpe               m = {.unk_id = BPE_NONE};
    struct error             e = {0};
    struct bpe_scratch       s = {0};
    struct ids               ids = {0};
    vocab_init(&v);
    for (int i = 0; i < 7; i++)
        assert_true(vocab_put(&v, i, str_of(tokens[i])));
    assert_true(vocab_index(&v, NULL));
    encode(&m, &v, "ab?ab", "ab ab"); /* without an unk_token they vanish */
    encode(&m, &v, "??a?????????????????????????????????????b", "ab");
    m.unk_id = 0;
    encode(&m, &v, "ab??b", "ab <unk> <unk> b");
    encode(&m, &v, "ba?", "b a<unk>"); /* an unk takes part in merges */
    m.fuse_unk = true;
    encode(&m, &v, "b???b", "b <unk> b");
    encode(&m, &v, "b????????????????????????????????????????b", "b <unk> b");
    m.byte_fallback = true;
    encode(&m, &v, "b\xc3\xa9?", "b <0xC3> <0xA9> <unk>");
    encode(&m, &v, "?\xc3\xa9?", "<0xC3> <0xA9> <unk>"); /* a pending unk comes after them, as in the reference */
    bpe_init(&m, &v);
    m.unk_id = BPE_MISSING;
    assert_true(bpe_index(&m));
    assert_int_equal(bpe_encode(&m, STR("a?"), false, &s, &ids, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "'?'"));
    ids_deinit(&ids);
    bpe_scratch_deinit(&s);
    bpe_deinit(&m);
    vocab_deinit(&v);
}

/* A megabyte of one letter is no worse than a line of them times n log n. */
static void test_long(void **state)
{
    (void)state;
    static struct world w;
    struct bpe_scratch  s = {0};
    struct ids          ids = {0};
    size_t              n = 1 << 20;
    char               *text = malloc(n);
    assert_non_null(text);
    memset(text, 'a', n);
    vocab_init(&w.vocab);
    bpe_init(&w.bpe, &w.vocab);
    char token[16] = "aaaaaaaaaaaaaaaa";
    for (int i = 0; i < 5; i++)
        assert_true(vocab_put(&w.vocab, i, (struct str){token, (size_t)1 << i}));
    assert_true(vocab_index(&w.vocab, NULL));
    for (int i = 0; i < 4; i++)
        assert_true(bpe_add(&w.bpe, i, i, i + 1));
    assert_true(bpe_index(&w.bpe));
    assert_int_equal(bpe_encode(&w.bpe, (struct str){text, n - 1}, false, &s, &ids, NULL), 0);
    assert_int_equal(ids.n, (n >> 4) - 1 + 4); /* 15 letters are left: 8 + 4 + 2 + 1 */
    assert_int_equal(ids.v[0], 4);
    assert_int_equal(ids.v[ids.n - 1], 0);
    ids_deinit(&ids);
    bpe_scratch_deinit(&s);
    bpe_deinit(&w.bpe);
    vocab_deinit(&w.vocab);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
