/* See input.h. */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/pyjson.h"
#include "cli/output.h"

#define BLOCK 65536

const char *input_name(const char *path)
{
    return !path || strcmp(path, "-") == 0 ? "standard input" : path;
}

static int read_all(struct buf *b, int fd, const char *name, struct error *e)
{
    for (;;) {
        ssize_t n;
        if (!buf_reserve(b, BLOCK)) {
            if (!b->full)
                return error_nomem(e, name);
            return error_set(e, ERR_LIMIT, NULL, "%s is longer than %zu bytes", name, b->max - BLOCK);
        }
        n = read(fd, b->p + b->n, BLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(e, errno, "read", name);
        if (n == 0)
            return 0;
        b->n += (size_t)n;
        b->p[b->n] = '\0';
    }
}

int input_read(struct buf *b, const char *path, struct error *e)
{
    const char *name = input_name(path);
    int         fd = STDIN_FILENO, rc;
    buf_init(b, INPUT_MAX + BLOCK);
    if (path && strcmp(path, "-") != 0)
        fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(e, errno, "open", path);
    rc = read_all(b, fd, name, e);
    if (fd != STDIN_FILENO)
        close(fd);
    return rc;
}

int input_line(struct buf *line, bool *end, struct error *e)
{
    int c;
    buf_clear(line);
    errno = 0;
    while ((c = getc_unlocked(stdin)) != EOF && c != '\n' && !line->failed)
        buf_putc(line, (char)c);
    if (c == EOF && ferror(stdin)) {
        clearerr(stdin);
        return error_errno(e, errno, "read", "standard input");
    }
    if (line->failed)
        return line->full
                   ? error_set(e, ERR_LIMIT, NULL, "a line of standard input is longer than %zu bytes", line->max)
                   : error_nomem(e, "a line of standard input");
    *end = c == EOF && !line->n;
    return 0;
}

int input_json(json_t **out, struct str text, const char *name, struct error *e)
{
    if (text.n > INPUT_JSON_MAX)
        return error_set(e, ERR_LIMIT, NULL, "%s: %zu bytes of JSON are more than the %zu that are read", name, text.n,
                         INPUT_JSON_MAX);
    return pyjson_parse_with(out, text, JSON_ALLOW_NUL, name, e);
}

int output_json(json_t *v, struct error *e)
{
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(v);
    if (!text)
        return error_nomem(e, "the output");
    out_puts(text);
    out_puts("\n");
    free(text);
    return 0;
}

static bool blank(struct str line)
{
    return strspn(line.p, " \t\r") >= line.n;
}

static int answer_line(struct str line, input_answer *answer, void *ctx, struct error *e)
{
    struct error fault = {0};
    json_t      *out = NULL;
    if (answer(ctx, line, &out, &fault))
        out = json_pack("{s:s}", "error", fault.msg);
    return output_json(out, e);
}

int input_each_line(input_answer *answer, void *ctx, struct error *e)
{
    struct buf line;
    bool       end = false;
    int        rc = 0;
    buf_init(&line, INPUT_MAX);
    while (!rc && !end && !out_failed()) {
        rc = input_line(&line, &end, e);
        if (!rc && !blank(buf_str(&line)))
            rc = answer_line(buf_str(&line), answer, ctx, e);
        out_flush();
    }
    buf_deinit(&line);
    return rc;
}
