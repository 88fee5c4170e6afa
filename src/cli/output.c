/* See output.h. */
#include "cli/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/utf8.h"

#define LINE_MAX_BYTES 4000 /* of an error line, its newline included */
#define BAR 40              /* columns */

static int  failed;      /* errno of the first write to stdout that failed */
static bool bar_is_open; /* the last line on stderr is a bar that is not full yet */

/* All of it: a signal that comes while the terminal takes nothing (interrupt.h) is no failure of the output. */
static ssize_t write_whole(void *cookie, const char *p, size_t n)
{
    size_t  done = 0;
    ssize_t k = 0;
    (void)cookie;
    while (done < n && (k >= 0 || errno == EINTR)) {
        k = write(STDOUT_FILENO, p + done, n - done);
        done += k > 0 ? (size_t)k : 0;
    }
    return (ssize_t)done;
}

/* Standard output; stdio's own stream gives up what it holds when a signal comes. */
static FILE *out(void)
{
    static FILE *f;
    if (!f && (f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_whole})))
        setvbuf(f, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    return f ? f : stdout;
}

static void note_failure(bool ok)
{
    if (!ok && !failed)
        failed = errno ? errno : EIO;
}

void out_write(const void *p, size_t n)
{
    if (!failed)
        note_failure(fwrite(p, 1, n, out()) == n);
}

void out_puts(const char *z)
{
    out_write(z, strlen(z));
}

void out_printf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!failed)
        note_failure(vfprintf(out(), fmt, ap) >= 0);
    va_end(ap);
}

void out_flush(void)
{
    if (!failed)
        note_failure(fflush(out()) == 0);
}

bool out_failed(void)
{
    return failed != 0;
}

int out_buf(const struct buf *b, struct error *e)
{
    if (b->failed)
        return b->full ? error_set(e, ERR_LIMIT, NULL, "the output is longer than %zu bytes", b->max)
                       : error_nomem(e, "the output");
    out_write(buf_cstr(b), b->n);
    return 0;
}

int out_finish(bool *gone, struct error *e)
{
    out_flush();
    *gone = failed == EPIPE;
    return failed ? error_errno(e, failed, "write", "to standard output") : 0;
}

bool out_is_terminal(void)
{
    return isatty(STDOUT_FILENO);
}

void err_bar(size_t done, size_t total)
{
    int filled = done < total ? (int)((double)done / (double)total * BAR) : BAR;
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r[%.*s%*s] %3d%%", filled, "########################################", BAR - filled, "",
            filled * 100 / BAR);
    bar_is_open = done < total;
    if (!bar_is_open)
        fputc('\n', stderr);
    fflush(stderr);
}

/* What is said begins a line. */
static void end_bar(void)
{
    if (bar_is_open)
        fputc('\n', stderr);
    bar_is_open = false;
}

void err_fault(const char *message, const char *usage_of)
{
    char   tail[64] = "";
    size_t n = strlen(message), room;
    if (usage_of)
        snprintf(tail, sizeof tail, "%s see mlxcel%s%.32s --help", n && message[n - 1] == '?' ? "" : ";",
                 *usage_of ? " " : "", usage_of);
    room = LINE_MAX_BYTES - sizeof "mlxcel: error: " - strlen(tail);
    if (n > room)
        n = utf8_valid_prefix(message, room);
    end_bar();
    fprintf(stderr, "mlxcel: error: %.*s%s\n", (int)n, message, tail);
}

/* One line on stderr, escaped and bounded as an error's sentence is. */
__attribute__((format(printf, 2, 0))) static void say(const char *kind, const char *fmt, va_list ap)
{
    struct error line;
    error_vset(&line, 0, NULL, fmt, ap);
    end_bar();
    fprintf(stderr, "mlxcel: %s%s\n", kind, line.msg);
}

void err_warning(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("warning: ", fmt, ap);
    va_end(ap);
}

void err_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void err_log_line(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level == LOG_ERROR)
        err_fault(line, NULL);
    else if (level == LOG_WARNING)
        err_warning("%s", line);
    else
        err_note("%s", line);
}

static void write_log(void *ctx, enum log_level level, const char *msg)
{
    err_log_line(ctx, (int)level, msg);
}

struct log err_log(bool verbose)
{
    return (struct log){write_log, NULL, verbose ? LOG_DEBUG : LOG_WARNING};
}
