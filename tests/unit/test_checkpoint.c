/* A directory of shards: which files are read, and what happens when the index and the directory disagree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/tmp.h"
#include "formats/checkpoint.h"
#include "formats/safetensors.h"

#define INDEX "model.safetensors.index.json"

static int  warnings;
static char last_warning[ERROR_MSG_MAX];

static void count_warning(void *ctx, enum log_level level, const char *msg)
{
    (void)ctx;
    if (level == LOG_WARNING) {
        warnings++;
        snprintf(last_warning, sizeof last_warning, "%s", msg);
    }
}

static const struct log log_sink = {.write = count_warning, .level = LOG_WARNING};

/* A file with F32 tensors of one element each, whose value is the name's first byte. */
static void write_shard(const char *dir, const char *file, const char *const *names, size_t n)
{
    struct tensor_view t[8];
    float              v[8];
    for (size_t i = 0; i < n; i++) {
        v[i] = names[i][0];
        t[i] = (struct tensor_view){
            .name = names[i], .dtype = DTYPE_F32, .n_dim = 1, .shape = {1}, .data = &v[i], .size = sizeof v[i]};
    }
    assert_int_equal(safetensors_write(tmp_path(dir, file), t, n, (const char *[]){"from", file, NULL}, true, NULL), 0);
}

#define SHARD(dir, file, ...)                                                                                          \
    write_shard(dir, file, (const char *[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

static struct checkpoint *open_good(const char *dir)
{
    struct checkpoint *c = NULL;
    struct error       e = {0};
    if (checkpoint_open(&c, dir, false, &log_sink, NULL, &e))
        fail_msg("%s", e.msg);
    return c;
}

static void check_fails(const char *dir, int code, const char *words)
{
    struct checkpoint *c;
    struct error       e = {0};
    assert_int_equal(checkpoint_open(&c, dir, false, &log_sink, NULL, &e), code);
    if (!strstr(e.msg, words))
        fail_msg("'%s' lacks '%s'", e.msg, words);
}

static int set_up(void **state)
{
    *state = tmp_make();
    warnings = 0;
    return 0;
}

static int tear_down(void **state)
{
    tmp_remove(*state);
    return 0;
}

static void without_index(void **state)
{
    const char *dir = *state;
    SHARD(dir, "model-2.safetensors", "c", "a");
    SHARD(dir, "model.safetensors", "b");
    SHARD(dir, "adapter.safetensors", "z");
    struct checkpoint *c = open_good(dir);
    assert_int_equal(checkpoint_count(c), 3);
    assert_int_equal(checkpoint_bytes(c), 12);
    assert_string_equal(checkpoint_at(c, 0)->name, "a");
    assert_string_equal(checkpoint_at(c, 0)->file, "model-2.safetensors");
    assert_string_equal(checkpoint_at(c, 1)->file, "model.safetensors");
    assert_null(checkpoint_find(c, "z"));
    assert_string_equal(checkpoint_metadata(c, "from"), "model-2.safetensors");
    assert_null(checkpoint_metadata(c, "to"));
    const struct tensor_view *t = checkpoint_find(c, "c");
    for (int i = 0; i < 2; i++) {
        checkpoint_prefetch(t);
        assert_true(*(const float *)t->data == 'c');
        checkpoint_release(t);
    }
    checkpoint_close(c);
    assert_int_equal(warnings, 0);
}

static void index_decides(void **state)
{
    const char *dir = *state;
    SHARD(dir, "one.safetensors", "a", "b");
    SHARD(dir, "model.safetensors", "a");
    tmp_puts(dir, INDEX,
             "{\"metadata\":{\"total_size\":1},\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"one.safetensors\"}}");
    struct checkpoint *c = open_good(dir);
    assert_int_equal(checkpoint_count(c), 2);
    checkpoint_close(c);
    assert_int_equal(warnings, 0);
}

static void absent_shards(void **state)
{
    const char *dir = *state;
    SHARD(dir, "model.safetensors", "a", "b");
    tmp_puts(dir, INDEX, "{\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}}");
    struct checkpoint *c = open_good(dir);
    assert_int_equal(checkpoint_count(c), 2);
    checkpoint_close(c);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "names 2 weight files that are absent (model-1.safetensors)"));
}

/* One shard is there, the other's tensors are in a file of another name. */
static void one_absent_shard(void **state)
{
    const char *dir = *state;
    SHARD(dir, "model-1.safetensors", "a");
    SHARD(dir, "model-renamed.safetensors", "b");
    tmp_puts(dir, INDEX, "{\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}}");
    struct checkpoint *c = open_good(dir);
    assert_string_equal(checkpoint_find(c, "b")->file, "model-renamed.safetensors");
    checkpoint_close(c);
    assert_int_equal(warnings, 1);
    assert_non_null(
        strstr(last_warning, "names 1 weight file that is absent (model-2.safetensors); reading the 2 that exist"));
}

static void no_weights(void **state)
{
    const char *dir = *state;
    check_fails(dir, ERR_NOT_FOUND, dir);
    check_fails(dir, ERR_NOT_FOUND, "neither model.safetensors.index.json nor model*.safetensors");
    tmp_puts(dir, INDEX, "{\"weight_map\":{\"a\":\"model-1.safetensors\"}}");
    check_fails(dir, ERR_NOT_FOUND, "holds none of the weight files");
    tmp_puts(dir, INDEX, "{\"weight_map\":{}}");
    check_fails(dir, ERR_NOT_FOUND, "holds none of the weight files");
    check_fails("/nonexistent/dir", ERR_NOT_FOUND, "/nonexistent/dir");
}

static void bad_index(void **state)
{
    const char *dir = *state;
    SHARD(dir, "model.safetensors", "a");
    tmp_puts(dir, INDEX, "[]");
    check_fails(dir, ERR_FORMAT, "is an array");
    tmp_puts(dir, INDEX, "{");
    check_fails(dir, ERR_FORMAT, "not valid JSON");
    tmp_puts(dir, INDEX, "{\"weight_map\":{\"a\":\"model.safetensors\"}} x");
    check_fails(dir, ERR_FORMAT, "not valid JSON");
    tmp_puts(dir, INDEX, "{\"metadata\":{}}");
    check_fails(dir, ERR_FORMAT, "has no weight_map");
    tmp_puts(dir, INDEX, "{\"weight_map\":[]}");
    check_fails(dir, ERR_FORMAT, "weight_map is an array");
    tmp_puts(dir, INDEX, "{\"weight_map\":{\"a\":1}}");
    check_fails(dir, ERR_FORMAT, "places 'a' in a number");
    tmp_puts(dir, INDEX, "{\"weight_map\":{\"a\":\"../model.safetensors\"}}");
    check_fails(dir, ERR_FORMAT, "no plain file name");
    tmp_puts(dir, INDEX, "{\"weight_map\":{\"a\":\"\"}}");
    check_fails(dir, ERR_FORMAT, "no plain file name");
    tmp_puts(dir, INDEX, "{\"weight_map\":{},\"weight_map\":{}}");
    check_fails(dir, ERR_FORMAT, "two weight_map");
}

static void twice_in_two_shards(void **state)
{
    const char *dir = *state;
    SHARD(dir, "model-1.safetensors", "a", "b");
    SHARD(dir, "model-2.safetensors", "b", "c");
    check_fails(dir, ERR_FORMAT, "tensor 'b' is in two files, model-1.safetensors and model-2.safetensors");
}

static void odd_entries(void **state)
{
    const char *dir = *state;
    assert_int_equal(mkdir(tmp_path(dir, "model-1.safetensors"), 0777), 0);
    check_fails(dir, ERR_FORMAT, "not a regular file");
    assert_int_equal(rmdir(tmp_path(dir, "model-1.safetensors")), 0);
    assert_int_equal(mkfifo(tmp_path(dir, "model-1.safetensors"), 0666), 0);
    check_fails(dir, ERR_FORMAT, "not a regular file");
    assert_int_equal(unlink(tmp_path(dir, "model-1.safetensors")), 0);
    tmp_puts(dir, "model-1.safetensors", "");
    check_fails(dir, ERR_FORMAT, "model-1.safetensors: 0 bytes are too few");
    assert_int_equal(symlink("gone", tmp_path(dir, "model-2.safetensors")), 0);
    assert_int_equal(unlink(tmp_path(dir, "model-1.safetensors")), 0);
    check_fails(dir, ERR_NOT_FOUND, "model-2.safetensors");
}

/* MLX pads no header: a tensor may lie at any address. */
static void unaligned(void **state)
{
    const char        *dir = *state;
    const char         header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[1,17]},"
                                  "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}} ";
    char               file[512] = {(char)(sizeof header - 1)};
    const float        v[4] = {1, 2, 3, 4};
    struct checkpoint *c;
    size_t             n = 8 + sizeof header - 1;
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + n + 1, v, sizeof v);
    tmp_write(dir, "any.name", file, n + 1 + sizeof v);
    assert_int_equal(checkpoint_open_file(&c, tmp_path(dir, "any.name"), false, NULL), 0);
    const struct tensor_view *t = checkpoint_find(c, "w");
    assert_int_not_equal((uintptr_t)t->data % sizeof(float), 0);
    for (int i = 0; i < 2; i++) {
        checkpoint_prefetch(t);
        assert_memory_equal(t->data, v, sizeof v);
        checkpoint_release(t);
    }
    checkpoint_close(c);
}

/* A copy is what the file was, whatever becomes of it. */
static void copies_file(void **state)
{
    const char        *dir = *state;
    const float        v[2] = {1, 2};
    struct tensor_view w = {.name = "w", .dtype = DTYPE_F32, .n_dim = 1, .shape = {2}, .data = v, .size = sizeof v};
    struct checkpoint *c;
    struct error       e = {0};
    char               path[4096];
    snprintf(path, sizeof path, "%s", tmp_path(dir, "changing"));
    assert_int_equal(safetensors_write(path, &w, 1, NULL, false, NULL), 0);
    assert_int_equal(checkpoint_open_file(&c, path, true, NULL), 0);
    assert_int_equal(truncate(path, 10), 0);
    assert_memory_equal(checkpoint_find(c, "w")->data, v, sizeof v);
    checkpoint_close(c);
    assert_int_equal(checkpoint_open_file(&c, path, true, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "is it cut short?"));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(checkpoint_open_file(&c, path, true, &e), ERR_FORMAT);
    assert_int_equal(checkpoint_open_file(&c, dir, true, &e), ERR_FORMAT);
}

/* Contents stay readable after a release of many pages. */
static void release_large(void **state)
{
    const char        *dir = *state;
    struct checkpoint *c;
    size_t             n = 100000;
    int32_t           *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (int32_t)i;
    struct tensor_view w = {
        .name = "w", .dtype = DTYPE_I32, .n_dim = 1, .shape = {(int64_t)n}, .data = v, .size = n * sizeof *v};
    assert_int_equal(safetensors_write(tmp_path(dir, "x"), &w, 1, NULL, false, NULL), 0);
    assert_int_equal(checkpoint_open_file(&c, tmp_path(dir, "x"), false, NULL), 0);
    const struct tensor_view *t = checkpoint_find(c, "w");
    for (int i = 0; i < 2; i++) {
        checkpoint_prefetch(t);
        assert_memory_equal(t->data, v, w.size);
        checkpoint_release(t);
    }
    checkpoint_close(c);
    free(v);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_index), TEST(index_decides), TEST(absent_shards),       TEST(one_absent_shard),
        TEST(no_weights),    TEST(bad_index),     TEST(twice_in_two_shards), TEST(odd_entries),
        TEST(unaligned),     TEST(copies_file),   TEST(release_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
