/* Our side of bench/templates: renders a chat template many times.
 *
 *     templates_ours TEMPLATE.jinja REQUEST.json [RENDERINGS]
 *
 * prints one JSON object: the median and the smallest processor time of a rendering in milliseconds, and the text's bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "chat/template.h"

#define TEXT_MAX ((size_t)64 << 20)

static double processor_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int measure(const struct chat_template *t, const json_t *request, int n, struct error *e)
{
    double *ms = calloc((size_t)n, sizeof *ms);
    size_t  bytes = 0;
    int     rc = ms ? 0 : error_nomem(e, "the times");
    for (int i = 0; i < n && !rc; i++) {
        struct buf text;
        double     start = processor_ms();
        buf_init(&text, TEXT_MAX);
        rc = chat_template_render(t, request, 0, &text, e);
        ms[i] = processor_ms() - start;
        bytes = text.n;
        buf_deinit(&text);
    }
    if (!rc) {
        qsort(ms, (size_t)n, sizeof *ms, order);
        printf("{\"median_ms\": %.4f, \"min_ms\": %.4f, \"bytes\": %zu}\n", ms[n / 2], ms[0], bytes);
    }
    free(ms);
    return rc;
}

int main(int argc, char **argv)
{
    struct chat_template *t = NULL;
    struct error          e = {0};
    struct buf            source;
    int                   n = argc > 3 ? atoi(argv[3]) : 200;
    json_t               *request = argc > 2 ? json_load_file(argv[2], 0, NULL) : NULL;
    buf_init(&source, TEXT_MAX);
    if (!request || n < 1) {
        fputs("usage: templates_ours TEMPLATE.jinja REQUEST.json [RENDERINGS]\n", stderr);
        return 2;
    }
    int rc = file_read(&source, argv[1], &e);
    if (!rc)
        rc = chat_template_from_source(&t, buf_str(&source), argv[1], &e);
    if (!rc)
        rc = measure(t, request, n, &e);
    if (rc)
        fprintf(stderr, "%s\n", e.msg);
    chat_template_free(t);
    buf_deinit(&source);
    json_decref(request);
    return rc ? 1 : 0;
}
