/* One safetensors file: what is read, what is refused and with which words, and what the writer makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../support/tmp.h"
#include "base/file.h"
#include "formats/safetensors.h"

#define U8_1 "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"

/* A file of this header and n data bytes, in the test's buffer. */
static size_t make(char *out, const char *header, size_t n_data)
{
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        out[i] = (char)((uint64_t)n >> 8 * i);
    memcpy(out + 8, header, n);
    for (size_t i = 0; i < n_data; i++)
        out[8 + n + i] = (char)i;
    return 8 + n + n_data;
}

static void check_refused(const char *header, size_t n_data, const char *words)
{
    char               file[4096];
    struct safetensors s;
    struct error       e = {0};
    size_t             n = make(file, header, n_data);
    assert_int_equal(safetensors_parse(&s, file, n, "f.safetensors", &e), ERR_FORMAT);
    if (!strstr(e.msg, words))
        fail_msg("'%s' lacks '%s'", e.msg, words);
    assert_true(strncmp(e.msg, "f.safetensors: ", 15) == 0);
}

static void check_accepted(const char *header, size_t n_data, size_t count)
{
    char               file[4096];
    struct safetensors s;
    struct error       e = {0};
    size_t             n = make(file, header, n_data);
    if (safetensors_parse(&s, file, n, "f.safetensors", &e))
        fail_msg("%s", e.msg);
    assert_int_equal(s.n, count);
    safetensors_deinit(&s);
}

static void reads_views(void **state)
{
    (void)state;
    char               file[4096];
    struct safetensors s;
    size_t             n = make(file,
                                "{\"__metadata__\":{\"format\":\"mlx\",\"a\":\"\\u00e9\"},"
                                            "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                                            "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]},"
                                            "\"z\":{\"dtype\":\"I8\",\"shape\":[4,0],\"data_offsets\":[12,12],\"more\":[{}]}}  \n",
                                16);
    assert_int_equal(safetensors_parse(&s, file, n, "f", NULL), 0);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.tensors[0].name, "a");
    assert_int_equal(s.tensors[0].n_dim, 0);
    assert_int_equal(s.tensors[0].size, 4);
    assert_ptr_equal(s.tensors[0].data, file + n - 4);
    assert_int_equal(s.tensors[1].dtype, DTYPE_BF16);
    assert_int_equal(s.tensors[1].shape[1], 3);
    assert_ptr_equal(s.tensors[1].data, file + n - 16);
    assert_int_equal(s.tensors[2].size, 0);
    assert_string_equal(s.tensors[2].file, "f");
    assert_int_equal(s.n_metadata, 2);
    assert_string_equal(s.metadata[0].value, "\xc3\xa9");
    safetensors_deinit(&s);
}

/* What the reference library takes, we take. */
static void accepts(void **state)
{
    (void)state;
    check_accepted("{}", 0, 0);
    check_accepted("{\"__metadata__\":null}", 0, 0);
    check_accepted("{\"a\":{\"dtype\":\"U8\",\"shape\":[0,9223372036854775806,2],\"data_offsets\":[0,0]}}", 0, 1);
    check_accepted(
        "{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]},\"\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],"
        "\"data_offsets\":[2,5]}}",
        5, 2);
    check_accepted("{\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"a\":" U8_1
                   ",\"b\":{\"dtype\":\"U8\","
                   "\"shape\":[0],\"data_offsets\":[1,1]}}",
                   1, 3);
}

static void refuses_prefix(void **state)
{
    (void)state;
    struct safetensors s;
    struct error       e;
    char               big[16] = {0, (char)0xe1, (char)0xf5, 5, 0, 0, 0, 0, '{'};
    assert_int_equal(safetensors_parse(&s, "", 0, "f", &e), ERR_FORMAT);
    assert_string_equal(e.msg, "f: 0 bytes are too few for a safetensors file");
    assert_int_equal(safetensors_parse(&s, "\2\0\0\0\0\0\0", 7, "f", &e), ERR_FORMAT);
    assert_int_equal(safetensors_parse(&s, "\3\0\0\0\0\0\0\0{}", 10, "f", &e), ERR_FORMAT);
    assert_string_equal(e.msg, "f: its header claims 3 bytes, but only 2 follow (is it cut short?)");
    assert_int_equal(safetensors_parse(&s, "\0\0\0\0\0\0\0\0", 8, "f", &e), ERR_FORMAT);
    assert_string_equal(e.msg, "f: its header does not begin with '{'");
    assert_int_equal(safetensors_parse(&s, "\3\0\0\0\0\0\0\0 {}", 11, "f", &e), ERR_FORMAT);
    assert_int_equal(safetensors_parse(&s, "\377\377\377\377\377\377\377\377{}", 10, "f", &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "18446744073709551615"));
    big[0] = 1; /* 100,000,001 */
    assert_int_equal(safetensors_parse(&s, big, sizeof big, "f", &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "at most 100000000"));
}

static void refuses_json(void **state)
{
    (void)state;
    check_refused("{", 0, "not valid JSON");
    check_refused("{}x", 0, "not valid JSON");
    check_refused("{\"a\":" U8_1 ",}", 1, "not valid JSON");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[[[[[[", 1, "not valid JSON");
    check_refused("{\"\xff\":" U8_1 "}", 1, "invalid UTF-8");
    check_refused("{\"a\\u0000b\":" U8_1 "}", 1, "NUL");
    check_refused("{\"__metadata__\":3}", 0, "__metadata__ is a number");
    check_refused("{\"__metadata__\":{\"a\":1}}", 0, "'a' is a number");
    check_refused("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "gives 'a' twice");
    check_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "two __metadata__");
}

static void refuses_fields(void **state)
{
    (void)state;
    check_refused("{\"a\":3}", 0, "described by a number");
    check_refused("{\"a\":[\"U8\",[1],[0,1]]}", 1, "described by an array");
    check_refused("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "has no dtype");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "has no shape");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "has no data_offsets");
    check_refused("{\"a\":{\"dtype\":\"U9\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "unknown dtype 'U9'");
    check_refused("{\"a\":{\"dtype\":null,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "null as dtype");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
                  "its dtype twice");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1,
                  "not a list of whole numbers");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, "not a list of whole numbers");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,1]}}", 1, "not a list of whole numbers");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551616],\"data_offsets\":[0,1]}}", 1,
                  "not a list");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "9 dimensions");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, "not two whole numbers");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "not two whole numbers");
}

static void refuses_layout(void **state)
{
    (void)state;
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, "run backwards");
    check_refused("{\"a\":" U8_1 "}", 2, "1 bytes after the end");
    check_refused("{\"a\":" U8_1 ",\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[1,9]}}", 0,
                  "f.safetensors: the file has 113 bytes, its tensors need 122 (is it cut short?)");
    check_refused("{}", 1, "1 bytes after the end");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, "belong to no tensor");
    check_refused("{\"a\":" U8_1 ",\"b\":" U8_1 "}", 1, "inside tensor");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
                  "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]},"
                  "\"c\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                  8, "tensor 'c' begins at data byte 4 inside tensor 'a', which ends at 8");
    check_refused("{\"a\":" U8_1 ",\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2,
                  "described twice");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,20]}}", 20,
                  "is F32 [2, 3], which takes 24 bytes, but its data_offsets [0, 20] hold 20");
    check_refused("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "no whole number of bytes");
    check_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775806,2,0],\"data_offsets\":[0,0]}}", 0,
                  "overflows");
    check_refused("{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
                  "overflows");
}

/* Many faults are told at once, sorted by tensor. */
static void reports_all(void **state)
{
    (void)state;
    check_refused(
        "{\"b\":{\"dtype\":\"X\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1,
        "tensor 'a' has no data_offsets; f.safetensors: tensor 'b' has the unknown dtype 'X'");
}

static void writes(void **state)
{
    (void)state;
    char                    *dir = tmp_make();
    float                    a[2] = {1, 2};
    struct file_map          map;
    struct safetensors       s;
    struct error             e = {0};
    const char              *pairs[] = {"format", "mlx", "q\"\n", "\xc3\xa9", NULL};
    const struct tensor_view t[] = {
        {.name = "w", .dtype = DTYPE_F32, .n_dim = 2, .shape = {1, 2}, .data = a, .size = sizeof a},
        {.name = "empty", .dtype = DTYPE_F16, .n_dim = 1, .shape = {0}, .data = a},
        {.name = "a\\b", .dtype = DTYPE_U8, .n_dim = 0, .data = "x", .size = 1},
    };
    char *path = strdup(tmp_path(dir, "o.safetensors"));
    assert_int_equal(safetensors_write(path, t, 3, pairs, false, &e), 0);
    assert_int_equal(safetensors_write(path, t, 3, pairs, false, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "exists already"));
    assert_int_equal(safetensors_write(path, t, 3, pairs, true, &e), 0);
    assert_int_equal(file_map_open(&map, path, &e), 0);
    if (safetensors_parse(&s, map.p, map.n, "o", &e))
        fail_msg("%s", e.msg);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.tensors[0].name, "a\\b");
    assert_memory_equal(s.tensors[2].data, a, sizeof a);
    assert_int_equal((uintptr_t)s.tensors[2].data % 64, 0);
    assert_string_equal(s.metadata[1].key, "q\"\n");
    safetensors_deinit(&s);
    file_map_close(&map);
    free(path);
    tmp_remove(dir);
}

/* A writer that is aborted, or finished too early, leaves nothing behind. */
static void leaves_no_trace(void **state)
{
    (void)state;
    char                      *dir = tmp_make();
    struct safetensors_writer *w;
    struct error               e = {0};
    struct stat                st;
    const struct tensor_view   t = {.name = "w", .dtype = DTYPE_F32, .n_dim = 1, .shape = {2}};
    const struct tensor_view   twice[2] = {t, t};
    char                      *path = strdup(tmp_path(dir, "o.safetensors"));
    assert_int_equal(safetensors_writer_begin(&w, path, &t, 1, NULL, false, &e), 0);
    assert_int_equal(safetensors_writer_append(w, "1234", 4, &e), 0);
    assert_int_equal(safetensors_writer_append(w, "12345", 5, &e), ERR_INTERNAL);
    safetensors_writer_abort(w);
    assert_int_equal(safetensors_writer_begin(&w, path, &t, 1, NULL, false, &e), 0);
    assert_int_equal(safetensors_writer_finish(w, &e), ERR_INTERNAL);
    assert_int_equal(safetensors_writer_begin(&w, path, twice, 2, NULL, false, &e), ERR_INVALID);
    assert_int_equal(stat(path, &st), -1);
    assert_int_equal(rmdir(dir), 0); /* empty: no temporary is left */
    free(path);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_views),  cmocka_unit_test(accepts),        cmocka_unit_test(refuses_prefix),
        cmocka_unit_test(refuses_json), cmocka_unit_test(refuses_fields), cmocka_unit_test(refuses_layout),
        cmocka_unit_test(reports_all),  cmocka_unit_test(writes),         cmocka_unit_test(leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
