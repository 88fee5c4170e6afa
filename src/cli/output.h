/* stdout and stderr of the program.
 *
 * Results go to stdout through out_*. A write that failed is remembered: out_finish turns it into a fault, or, when the
 * reader has gone away (as `head` does), into a quiet end. Everything else that is said goes to stderr, a line each,
 * with control characters escaped.
 */
#ifndef MLXCEL_CLI_OUTPUT_H
#define MLXCEL_CLI_OUTPUT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"

void out_write(const void *p, size_t n);
void out_puts(const char *z);
void out_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void out_flush(void);
bool out_failed(void); /* no use in computing more */
/* Writes a finished buffer; ERR_NOMEM or ERR_LIMIT when it had failed. */
int out_buf(const struct buf *b, struct error *e);
/* Flushes; ERR_IO when a write had failed. *gone: the reader closed the pipe, say nothing. */
int out_finish(bool *gone, struct error *e);

bool out_is_terminal(void);

/* "mlxcel: error: MESSAGE[; see mlxcel COMMAND --help]", at most 4,000 bytes; usage_of NULL: no such end, "": of
 * mlxcel. */
void err_fault(const char *message, const char *usage_of);
void err_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "mlxcel: MESSAGE", what a person should know and no script waits for. */
void err_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* On a terminal, a bar in a line of its own, which the next call draws anew; other lines come below it. */
void err_bar(size_t done, size_t total);

/* The library's talk as such lines; level: as -v asks. */
struct log err_log(bool verbose);
/* The same as a function, for struct mlxcel_options. */
void err_log_line(void *ctx, int level, const char *line);

#endif
