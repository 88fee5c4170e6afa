/* Runs a fuzz target over files as a plain test: every argument is a file or a folder of files. A crash or a
 * sanitizer's finding ends the program, so reaching the last line means that every input passed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    long  n = -1;
    if (f && !fseek(f, 0, SEEK_END))
        n = ftell(f);
    uint8_t *data = n >= 0 ? malloc((size_t)n) : NULL; /* exactly n: a sanitizer then sees the first byte too far */
    if ((!data && n) || fseek(f, 0, SEEK_SET) || fread(data, 1, (size_t)n, f) != (size_t)n) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)n);
    free(data);
    return 1;
}

static int run_path(const char *path)
{
    struct stat st;
    if (stat(path, &st)) {
        fprintf(stderr, "%s: does not exist\n", path);
        exit(1);
    }
    if (!S_ISDIR(st.st_mode))
        return run_file(path);
    DIR           *d = opendir(path);
    struct dirent *entry;
    int            n = 0;
    while (d && (entry = readdir(d)) != NULL) {
        char full[4096];
        snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            n += run_path(full);
    }
    if (d)
        closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++)
        n += run_path(argv[i]);
    printf("%d passed, 0 failed, 0 skipped\n", n);
    return n ? 0 : 1;
}
