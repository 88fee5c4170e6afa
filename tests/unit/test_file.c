/* Files: what is opened, and output that appears whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../support/tmp.h"
#include "base/file.h"

static int set_up(void **state)
{
    *state = tmp_make();
    return 0;
}

static int tear_down(void **state)
{
    tmp_remove(*state);
    return 0;
}

static void check_content(const char *path, const char *want)
{
    struct buf b;
    buf_init(&b, 100);
    assert_int_equal(file_read(&b, path, NULL), 0);
    assert_string_equal(buf_cstr(&b), want);
    buf_deinit(&b);
}

static void base_names(void **state)
{
    (void)state;
    assert_string_equal(file_base("/a/b.c"), "b.c");
    assert_string_equal(file_base("b.c"), "b.c");
    assert_string_equal(file_base("a/"), "");
}

static void maps(void **state)
{
    const char     *dir = *state;
    struct file_map m;
    struct error    e = {0};
    tmp_puts(dir, "f", "hello");
    assert_int_equal(file_map_open(&m, tmp_path(dir, "f"), &e), 0);
    assert_int_equal(m.n, 5);
    assert_memory_equal(m.p, "hello", 5);
    file_map_close(&m);
    file_map_close(&m);
    tmp_puts(dir, "empty", "");
    assert_int_equal(file_map_open(&m, tmp_path(dir, "empty"), &e), 0);
    assert_int_equal(m.n, 0);
    assert_non_null(m.p);
    file_map_close(&m);
    assert_int_equal(file_map_open(&m, tmp_path(dir, "gone"), &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, tmp_path(dir, "gone")));
    assert_int_equal(file_map_open(&m, dir, &e), ERR_FORMAT);
    assert_int_equal(mkfifo(tmp_path(dir, "fifo"), 0666), 0);
    assert_int_equal(file_map_open(&m, tmp_path(dir, "fifo"), NULL), ERR_FORMAT);
    assert_int_equal(file_map_open(&m, "/dev/zero", &e), ERR_FORMAT);
    assert_string_equal(e.msg, "/dev/zero is not a regular file");
}

static void refuses_git_lfs_pointers(void **state)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    const char       *path = tmp_path(*state, "model.safetensors");
    struct file_map   m;
    struct buf        b;
    struct error      e = {0};
    char              big[2000] = {0};
    tmp_puts(*state, "model.safetensors", pointer);
    assert_int_equal(file_map_open(&m, path, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "model.safetensors is a Git LFS pointer, not the file itself; run `git lfs pull`"));
    assert_int_equal(m.n, 0);
    buf_init(&b, 100);
    assert_int_equal(file_read(&b, path, NULL), ERR_FORMAT);
    buf_deinit(&b);
    memcpy(big, pointer, sizeof pointer - 1);
    tmp_write(*state, "model.safetensors", big, sizeof big);
    assert_int_equal(file_map_open(&m, path, &e), 0); /* no pointer is so long */
    file_map_close(&m);
}

static void reads_up_to_a_limit(void **state)
{
    const char  *dir = *state;
    struct buf   b;
    struct error e = {0};
    char         big[40000];
    memset(big, 'x', sizeof big);
    tmp_write(dir, "f", big, sizeof big);
    buf_init(&b, sizeof big);
    assert_int_equal(file_read(&b, tmp_path(dir, "f"), &e), 0);
    assert_int_equal(b.n, sizeof big);
    buf_deinit(&b);
    buf_init(&b, sizeof big - 1);
    assert_int_equal(file_read(&b, tmp_path(dir, "f"), &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "39999 bytes"));
    buf_deinit(&b);
}

static void output_appears_at_the_end(void **state)
{
    const char     *dir = *state;
    char           *path = strdup(tmp_path(dir, "out"));
    struct file_out o;
    struct stat     st;
    assert_int_equal(file_out_begin(&o, path, false, NULL), 0);
    assert_int_equal(file_out_write(&o, "ab", 2, NULL), 0);
    assert_int_equal(file_out_write(&o, "c", 1, NULL), 0);
    assert_int_equal(stat(path, &st), -1);
    assert_int_equal(file_out_finish(&o, NULL), 0);
    check_content(path, "abc");
    file_out_abort(&o); /* nothing to do */
    check_content(path, "abc");

    assert_int_equal(file_out_begin(&o, path, true, NULL), 0);
    assert_int_equal(file_out_write(&o, "new", 3, NULL), 0);
    check_content(path, "abc");
    file_out_abort(&o);
    check_content(path, "abc");

    assert_int_equal(file_out_begin(&o, path, true, NULL), 0);
    assert_int_equal(file_out_write(&o, "new", 3, NULL), 0);
    assert_int_equal(file_out_finish(&o, NULL), 0);
    check_content(path, "new");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0); /* no temporary is left */
    free(path);
}

/* Refused when it exists at the start, and when it came into being in the meantime. */
static void existing_output(void **state)
{
    const char     *dir = *state;
    char           *path = strdup(tmp_path(dir, "out"));
    struct file_out o;
    struct error    e = {0};
    assert_int_equal(file_out_begin(&o, path, false, &e), 0);
    assert_int_equal(file_out_write(&o, "mine", 4, &e), 0);
    tmp_puts(dir, "out", "other");
    assert_int_equal(file_out_finish(&o, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "exists already; give --force"));
    check_content(path, "other");
    assert_int_equal(file_out_begin(&o, path, false, &e), ERR_INVALID);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(file_out_begin(&o, path, false, &e), ERR_NOT_FOUND);
    free(path);
}

/* A device, a FIFO, a directory or a link stays what it is, with force too. */
static void special_output(void **state)
{
    const char     *dir = *state;
    char           *path = strdup(tmp_path(dir, "out"));
    struct file_out o;
    struct error    e = {0};
    struct stat     st;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(file_out_begin(&o, path, true, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "not a regular file"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(file_out_begin(&o, path, true, &e), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(file_out_finish(&o, &e), ERR_INVALID);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(file_out_check(path, false, &e), ERR_INVALID);
    assert_int_equal(file_out_check("", true, &e), ERR_INVALID);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    free(path);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_names),
        TEST(maps),
        TEST(refuses_git_lfs_pointers),
        TEST(reads_up_to_a_limit),
        TEST(output_appears_at_the_end),
        TEST(existing_output),
        TEST(special_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
