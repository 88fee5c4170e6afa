/* Model names and the store, on directories made for the test. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "hub/store.h"

static char               top[64];
static struct store_roots roots;

/* Writes text to <top>/<path>, making the directories on the way. */
static void put(const char *path, const char *text)
{
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s/%s", top, path);
    for (char *p = whole + strlen(top) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(whole, 0755);
        *p = '/';
    }
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state)
{
    (void)state;
    strcpy(top, "/tmp/mlxcel-hub-XXXXXX");
    if (!mkdtemp(top))
        return -1;
    snprintf(roots.own, sizeof roots.own, "%s/store", top);
    snprintf(roots.hugging_face, sizeof roots.hugging_face, "%s/hf", top);
    put("store/mlxcel/Tiny-4bit/config.json", "{\"a\": {\"model_type\": 3}, \"model_type\": \"llama\"}");
    put("store/mlxcel/Tiny-4bit/model.safetensors", "0123456789");
    put("store/plain/config.json", "not JSON");
    put("store/plain/model.safetensors", "");
    put("store/mlxcel/half/config.json", "{}"); /* no weights: found by name, not listed */
    put("store/mlxcel/empty/readme", "");
    put("store/.tmp/config.json", "{}");
    put("store/.tmp/model.safetensors", "");
    put("hf/models--Org--Net-8bit/refs/main", "abc123\n");
    put("hf/models--Org--Net-8bit/snapshots/abc123/config.json", "{\"model_type\": \"qwen3\"}");
    put("hf/models--Org--Net-8bit/snapshots/abc123/model.safetensors", "12345");
    put("hf/models--gpt/refs/main", "def");
    put("hf/models--gpt/snapshots/def/config.json", "{}");
    put("hf/models--gpt/snapshots/def/model-00001-of-00001.safetensors", "");
    put("hf/models--Org--Evil/refs/main", "../../../store/plain");
    put("hf/models--Org--NoRefs/snapshots/abc/config.json", "{}");
    put("hf/datasets--Org--Data/refs/main", "abc");
    put("dir/config.json", "{}");
    put("dir/model.gguf", "GGUF");
    put("outside/config.json", "{}");
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void resolves(const char *model, const char *want)
{
    char         whole[PATH_MAX], *path = NULL;
    struct error e = {0};
    snprintf(whole, sizeof whole, "%s/%s", top, want);
    assert_int_equal(store_resolve(&roots, model, &path, &e), 0);
    assert_string_equal(path, whole);
    free(path);
}

static struct error refused(const char *model, int code)
{
    char        *path = NULL;
    struct error e = {0};
    assert_int_equal(store_resolve(&roots, model, &path, &e), code);
    assert_null(path);
    assert_string_equal(e.param, "model");
    return e;
}

static void names(void **state)
{
    (void)state;
    resolves("mlxcel/Tiny-4bit", "store/mlxcel/Tiny-4bit");
    resolves("mlxcel/half", "store/mlxcel/half");
    resolves("plain", "store/plain");
    resolves("Org/Net-8bit", "hf/models--Org--Net-8bit/snapshots/abc123");
    resolves("gpt", "hf/models--gpt/snapshots/def");
}

static void paths(void **state)
{
    char here[PATH_MAX], whole[PATH_MAX], *path = NULL;
    (void)state;
    snprintf(whole, sizeof whole, "%s/dir", top);
    resolves(whole, "dir");
    snprintf(whole, sizeof whole, "%s/store/mlxcel/empty", top); /* whether it is complete is the loader's question */
    resolves(whole, "store/mlxcel/empty");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(top), 0);
    assert_int_equal(store_resolve(&roots, "dir", &path, NULL), 0);
    assert_string_equal(path, "dir");
    free(path);
    assert_int_equal(store_resolve(&roots, "./dir", &path, NULL), 0);
    free(path);
    assert_int_equal(store_resolve(&roots, "hf", &path, NULL), 0); /* a directory that is no model, but exists */
    assert_string_equal(path, "hf");
    free(path);
    assert_int_equal(mkdir("plain", 0755), 0); /* the store's model of that name is meant */
    assert_int_equal(store_resolve(&roots, "plain", &path, NULL), 0);
    assert_string_equal(path + strlen(top), "/store/plain");
    free(path);
    assert_int_equal(chdir(here), 0);
}

static void files_are_no_models(void **state)
{
    char         whole[PATH_MAX];
    struct error e;
    (void)state;
    snprintf(whole, sizeof whole, "%s/dir/model.gguf", top);
    e = refused(whole, ERR_INVALID);
    assert_non_null(strstr(e.msg, "mlxcel convert"));
    snprintf(whole, sizeof whole, "%s/dir/config.json", top);
    refused(whole, ERR_INVALID);
    snprintf(whole, sizeof whole, "%s/none", top);
    e = refused(whole, ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "does not exist"));
}

static void what_is_missing_says_where_it_looked(void **state)
{
    struct error e = refused("mlxcel/Tiny-4bti", ERR_NOT_FOUND);
    (void)state;
    assert_non_null(strstr(e.msg, "no directory of that name"));
    assert_non_null(strstr(e.msg, roots.own));
    assert_non_null(strstr(e.msg, roots.hugging_face));
    assert_non_null(strstr(e.msg, "did you mean 'mlxcel/Tiny-4bit'?"));
    e = refused("other/Net-8bit", ERR_NOT_FOUND); /* the wrong owner */
    assert_non_null(strstr(e.msg, "did you mean 'Org/Net-8bit'?"));
    e = refused("tiny", ERR_NOT_FOUND); /* a part of the name */
    assert_non_null(strstr(e.msg, "did you mean 'mlxcel/Tiny-4bit'?"));
    e = refused(STORE_DEFAULT_MODEL, ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "tools/get-default-model"));
    e = refused("quite-different-thing", ERR_NOT_FOUND);
    assert_null(strstr(e.msg, "did you mean"));
    assert_non_null(strstr(e.msg, "mlxcel list"));
    assert_non_null(strstr(e.msg, "`hf download OWNER/quite-different-thing` gets a model"));
    e = refused("mlx-community/Qwen3-0.6B-4bit", ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "`hf download mlx-community/Qwen3-0.6B-4bit` gets a model"));
    e = refused("a/b/c", ERR_NOT_FOUND);
    assert_null(strstr(e.msg, "hf download"));
}

static void names_cannot_leave_the_store(void **state)
{
    char long_name[200];
    (void)state;
    memset(long_name, 'a', sizeof long_name);
    long_name[97] = '\0';
    const char *const bad[] = {"",     "..",   "a/..", "../a",  "a//b",  "/a",      "a/",       "a/b/c",  ".a",
                               "a/.b", "a\nb", "a\\b", "a\x7f", "a\xff", "a\x1b[m", "\xc2\x85", long_name};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(store_name_ok(bad[i]));
    assert_true(store_name_ok("Qwen/Qwen3-0.6B_x+y"));
    assert_true(store_name_ok(long_name + 1));
    refused("../outside", ERR_NOT_FOUND);
    refused("mlxcel/../../outside", ERR_NOT_FOUND);
    refused("", ERR_INVALID);
    refused("a\nb", ERR_INVALID);
    refused("Org/Evil", ERR_NOT_FOUND);
    refused("Org/NoRefs", ERR_NOT_FOUND);
    refused(".tmp", ERR_NOT_FOUND);
}

static void list(void **state)
{
    static const struct {
        const char *name, *type;
        int64_t     bytes;
    } want[] = {{"Org/Net-8bit", "qwen3", 28}, {"gpt", "", 2}, {"mlxcel/Tiny-4bit", "llama", 57}, {"plain", "", 8}};
    struct store_list l;
    (void)state;
    assert_int_equal(store_list(&roots, &l, NULL), 0);
    assert_int_equal(l.n, 4);
    for (size_t i = 0; i < l.n; i++) {
        assert_string_equal(l.v[i].name, want[i].name);
        assert_string_equal(l.v[i].model_type, want[i].type);
        assert_int_equal(l.v[i].bytes, want[i].bytes);
    }
    store_list_deinit(&l);
    struct store_roots none = {"/nonexistent/a", ""};
    assert_int_equal(store_list(&none, &l, NULL), 0);
    assert_int_equal(l.n, 0);
    store_list_deinit(&l);
}

static void environment(void **state)
{
    struct store_roots r;
    struct error       e = {0};
    char               huge[PATH_MAX + 10];
    (void)state;
    setenv("HOME", "/h", 1);
    unsetenv("MLXCEL_CACHE_DIR");
    unsetenv("HF_HOME");
    unsetenv("HF_HUB_CACHE");
    assert_int_equal(store_roots_from_env(&r, &e), 0);
    assert_string_equal(r.own, "/h/.cache/mlxcel");
    assert_string_equal(r.hugging_face, "/h/.cache/huggingface/hub");
    setenv("MLXCEL_CACHE_DIR", "/m", 1);
    setenv("HF_HOME", "/f", 1);
    assert_int_equal(store_roots_from_env(&r, &e), 0);
    assert_string_equal(r.own, "/m");
    assert_string_equal(r.hugging_face, "/f/hub");
    setenv("HF_HUB_CACHE", "/g", 1);
    assert_int_equal(store_roots_from_env(&r, &e), 0);
    assert_string_equal(r.hugging_face, "/g");
    memset(huge, 'x', sizeof huge);
    huge[sizeof huge - 1] = '\0';
    setenv("MLXCEL_CACHE_DIR", huge, 1);
    assert_int_equal(store_roots_from_env(&r, &e), ERR_LIMIT);
    assert_string_equal(e.param, "MLXCEL_CACHE_DIR");
    unsetenv("MLXCEL_CACHE_DIR");
    unsetenv("HF_HOME");
    unsetenv("HF_HUB_CACHE");
    unsetenv("HOME");
    assert_int_equal(store_roots_from_env(&r, &e), 0);
    assert_string_equal(r.own, "");
    char *path = NULL;
    assert_int_equal(store_resolve(&r, "a/b", &path, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "HOME is not set"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(paths),
        cmocka_unit_test(files_are_no_models),
        cmocka_unit_test(what_is_missing_says_where_it_looked),
        cmocka_unit_test(names_cannot_leave_the_store),
        cmocka_unit_test(list),
        cmocka_unit_test(environment),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
