/* Output directories: they appear at the end or not at all, and replace only what may be replaced. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/scratch.h"
#include "base/dir.h"

static int entries(void)
{
    DIR *d = opendir(dir);
    int  n = -2;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static bool exists(const char *name)
{
    struct stat st;
    return lstat(tmp_path(dir, name), &st) == 0;
}

static int begin(struct dir_out *o, const char *name, bool force, struct error *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return dir_out_begin(o, path, NULL, force, e);
}

static void appears_at_the_end(void **state)
{
    struct dir_out o;
    struct error   e = {0};
    char           path[PATH_MAX];
    (void)state;
    assert_int_equal(begin(&o, "new", false, &e), 0);
    assert_int_equal(dir_out_write(&o, "config.json", "{}", 2, &e), 0);
    assert_int_equal(dir_out_file(&o, "weights", path, &e), 0);
    assert_string_equal(strrchr(path, '/'), "/weights");
    assert_false(exists("new"));
    assert_int_equal(entries(), 1);
    assert_int_equal(dir_out_finish(&o, &e), 0);
    assert_null(o.path);
    assert_true(exists("new/config.json"));
    assert_int_equal(entries(), 1);
    dir_out_abort(&o); /* nothing left to do */
    assert_true(exists("new/config.json"));
}

static void abort_leaves_nothing(void **state)
{
    struct dir_out o, zero = {0};
    int            before = entries();
    (void)state;
    assert_int_equal(begin(&o, "never", false, NULL), 0);
    assert_int_equal(dir_out_write(&o, "a", "b", 1, NULL), 0);
    dir_out_abort(&o);
    dir_out_abort(&o);
    dir_out_abort(&zero);
    assert_int_equal(entries(), before);
}

static void existing_is_refused(void **state)
{
    struct dir_out o;
    struct error   e = {0};
    (void)state;
    assert_int_equal(begin(&o, "new", false, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "--force"));
    dir_out_abort(&o);
    /* also when it comes into being meanwhile */
    assert_int_equal(begin(&o, "late", false, &e), 0);
    assert_int_equal(mkdir(tmp_path(dir, "late"), 0755), 0);
    int before = entries();
    assert_int_equal(dir_out_finish(&o, &e), ERR_INVALID);
    assert_int_equal(entries(), before - 1);
    assert_int_equal(rmdir(tmp_path(dir, "late")), 0);
}

static void force_replaces_models_only(void **state)
{
    struct dir_out o;
    struct error   e = {0};
    int            before = entries();
    (void)state;
    assert_int_equal(begin(&o, "new", true, &e), 0);
    assert_int_equal(dir_out_write(&o, "other", "x", 1, &e), 0);
    assert_true(exists("new/config.json"));
    assert_int_equal(dir_out_finish(&o, &e), 0);
    assert_true(exists("new/other") && !exists("new/config.json"));
    assert_int_equal(entries(), before);
    assert_int_equal(begin(&o, "new", true, &e), ERR_INVALID); /* no config.json: not known as a model */
    assert_non_null(strstr(e.msg, "remove it first"));
    assert_true(exists("new/other"));
    tmp_puts(dir, "file", "text");
    assert_int_equal(begin(&o, "file", true, &e), ERR_INVALID);
    assert_int_equal(symlink(dir, tmp_path(dir, "link")), 0);
    assert_int_equal(begin(&o, "link", true, &e), ERR_INVALID);
    assert_int_equal(mkdir(tmp_path(dir, "empty"), 0755), 0);
    assert_int_equal(begin(&o, "empty", true, &e), 0);
    assert_int_equal(dir_out_write(&o, "config.json", "{}", 2, &e), 0);
    assert_int_equal(dir_out_finish(&o, &e), 0);
    assert_true(exists("empty/config.json"));
}

/* What is read is not replaced by what is made from it: not itself, by no other name, not what holds it. */
static void the_source_stays(void **state)
{
    struct dir_out o;
    struct error   e = {0};
    char           model[PATH_MAX], file[PATH_MAX], path[PATH_MAX];
    (void)state;
    snprintf(model, sizeof model, "%s/source", dir);
    mkdir(model, 0755);
    tmp_puts(model, "config.json", "{}");
    snprintf(file, sizeof file, "%s/config.json", model);
    const char *const same[] = {"source", "source/", "./source", "source/../source"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, same[i]);
        assert_int_equal(dir_out_begin(&o, path, model, true, &e), ERR_INVALID);
        assert_non_null(strstr(e.msg, "which is read"));
        assert_int_equal(dir_out_begin(&o, path, file, true, &e), ERR_INVALID);
    }
    snprintf(path, sizeof path, "%s/source2", dir); /* a name that begins alike */
    mkdir(path, 0755);
    assert_int_equal(dir_out_begin(&o, path, model, true, &e), 0);
    dir_out_abort(&o);
    assert_int_equal(dir_out_begin(&o, model, path, true, &e), 0);
    dir_out_abort(&o);
}

static void bad_names(void **state)
{
    struct dir_out o;
    struct error   e = {0};
    (void)state;
    assert_int_equal(dir_out_begin(&o, "", NULL, false, &e), ERR_INVALID);
    assert_int_equal(begin(&o, "none/below", false, &e), ERR_NOT_FOUND);
    assert_int_equal(dir_out_begin(&o, "/", NULL, true, &e), ERR_INVALID); /* not empty and no model */
    assert_int_equal(begin(&o, "slashes//", false, &e), 0);
    assert_int_equal(dir_out_finish(&o, &e), 0);
    assert_true(exists("slashes"));
}

/* What a killed run left goes with the next one for the same output, what a running one holds stays. */
static void killed_runs_are_swept(void **state)
{
    struct dir_out o;
    char           byte, left[64];
    int            ready[2];
    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        if (begin(&o, "killed", false, NULL) || dir_out_write(&o, "config.json", "{}", 2, NULL))
            _exit(1);
        (void)!write(ready[1], "", 1);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    snprintf(left, sizeof left, ".killed.tmp-%ld-0/config.json", (long)child);
    assert_int_equal(begin(&o, "killed", false, NULL), 0);
    assert_true(exists(left));
    dir_out_abort(&o);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    const char *const others[] = {".other.tmp-1-0", ".killed.tmp-1-0.old", ".killed.tmp-1-", "killed.tmp-1-0",
                                  ".killed.tmp-1"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(mkdir(tmp_path(dir, others[i]), 0755), 0);
    assert_int_equal(symlink(".other.tmp-1-0", tmp_path(dir, ".killed.tmp-2-0")), 0);
    assert_true(exists(left));
    assert_int_equal(begin(&o, "killed", false, NULL), 0);
    assert_false(exists(left));
    *strrchr(left, '/') = 0;
    assert_false(exists(left));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(exists(others[i]));
    assert_true(exists(".killed.tmp-2-0"));
    dir_out_abort(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appears_at_the_end),
        cmocka_unit_test(abort_leaves_nothing),
        cmocka_unit_test(existing_is_refused),
        cmocka_unit_test(force_replaces_models_only),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(the_source_stays),
        cmocka_unit_test(killed_runs_are_swept),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
