/* Our side of bench/text: a tokenizer behind a pipe, so that what is timed is the work and not a process's start.
 *
 *     text_ours DIR
 *
 * loads the tokenizer and prints one line "CPU WALL ANONYMOUS PEAK" (seconds; bytes that the tokenizer holds, and the
 * process's greatest resident size during the load, file included). Then it answers each line of stdin, FILE or FILE
 * OUT: it encodes every document of FILE (they end with a NUL) and prints "CPU TOKENS". OUT gets the ids as int32. All
 * CPU times are the thread's. An error is a line on stderr and exit status 1.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/num.h"
#include "text/tokenizer.h"

static int fail(const char *what)
{
    fprintf(stderr, "text_ours: %s\n", what);
    return 1;
}

/* Memory that is no file's, in bytes. */
static size_t anonymous(void)
{
    char   line[200];
    size_t kib = 0;
    FILE  *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "RssAnon: %zu", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib * 1024;
}

static int encode_all(const struct tokenizer *t, struct str docs, struct ids *ids, struct error *e)
{
    int status = 0;
    ids->n = 0;
    while (docs.n && !status) {
        struct str doc = {docs.p, strnlen(docs.p, docs.n)};
        status = tokenizer_encode(t, doc, TOKENIZE_PARSE_SPECIAL, ids, e);
        docs.p += MIN(doc.n + 1, docs.n);
        docs.n -= MIN(doc.n + 1, docs.n);
    }
    return status;
}

static int answer(const struct tokenizer *t, const char *path, const char *out, struct ids *ids, struct error *e)
{
    struct file_map f;
    if (file_map_open(&f, path, e))
        return fail(e->msg);
    double before = clock_thread();
    int    status = encode_all(t, (struct str){f.p, f.n}, ids, e);
    double took = clock_thread() - before;
    file_map_close(&f);
    if (status)
        return fail(e->msg);
    FILE *o = out ? fopen(out, "wb") : NULL;
    if (out && (!o || fwrite(ids->v, sizeof *ids->v, ids->n, o) != ids->n || fclose(o)))
        return fail("cannot write the ids");
    printf("%.9f %zu\n", took, ids->n);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    struct tokenizer *t;
    struct error      e = {0};
    struct ids        ids = {0};
    char              line[4096];
    int               status = 0;
    if (argc != 2)
        return fail("usage: text_ours DIR");
    size_t held = anonymous();
    double cpu = clock_thread(), wall = clock_now();
    if (tokenizer_load(&t, argv[1], NULL, &e))
        return fail(e.msg);
    printf("%.6f %.6f %zu %zu\n", clock_thread() - cpu, clock_now() - wall, anonymous() - held, process_peak_rss());
    fflush(stdout);
    while (!status && fgets(line, sizeof line, stdin)) {
        char *save, *path = strtok_r(line, " \n", &save), *out = strtok_r(NULL, " \n", &save);
        if (path)
            status = answer(t, path, out, &ids, &e);
    }
    ids_deinit(&ids);
    tokenizer_free(t);
    return status;
}
