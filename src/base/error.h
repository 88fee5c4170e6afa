/* Errors: an int status and a caller-owned struct error with the one sentence a user needs.
 *
 * A function that can meet bad input takes `struct error *e` last, returns 0 when done and a positive code of errors.def
 * otherwise, and leaves *e untouched on success. The sentence names the file, the tensor or field, what was found, what
 * was needed and what to do; it is finished (no caller adds to it except a prefix by error_prefix). The library never
 * prints, exits or asserts on input. e may be NULL where the caller does not care.
 */
#ifndef MLXCEL_BASE_ERROR_H
#define MLXCEL_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

enum error_code {
    ERR_OK = 0,
#define ERROR(name, http, type) name,
#include "base/errors.def"
#undef ERROR
    ERR_COUNT
};

#define ERROR_MSG_MAX 4000
#define ERROR_PARAM_MAX 256

struct error {
    int  code;                   /* enum error_code, 0 while nothing failed */
    char param[ERROR_PARAM_MAX]; /* the field, tensor or flag it is about, "" if none */
    char msg[ERROR_MSG_MAX];     /* one finished sentence, UTF-8, control characters escaped */
};

/* Copies src, control characters and bytes that are no UTF-8 escaped, as far as dst's cap bytes reach. */
void error_escape(char *dst, size_t cap, const char *src);

/* Sets *e (if not NULL) and returns code, so that `return error_set(...)` reads well. param may be NULL.
 * Control characters in the formatted text become \xNN; text beyond the limit is cut at a character's border. */
int error_set(struct error *e, int code, const char *param, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int error_vset(struct error *e, int code, const char *param, const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

/* Puts "prefix: " before the sentence that *e holds. Returns e->code. */
int error_prefix(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ERR_NOMEM naming what the memory was for. */
int error_nomem(struct error *e, const char *what);

/* ERR_IO with the system's reason for errno `en`. */
int error_errno(struct error *e, int en, const char *action, const char *path);

/* Facts of errors.def. */
int         error_http_status(int code);
const char *error_api_type(int code);

/* Several faults of one input, reported together: sorted by name, each once, 20 named, then "and N more".
 * Zero-initialised is empty. An allocation failure is remembered and reported instead. */
struct fault;
struct faults {
    struct fault *v;
    size_t        n, cap;
    int           code; /* of the first fault */
    int           nomem;
};

void faults_add(struct faults *f, int code, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* 0 when there is no fault; else sets *e to all sentences joined by "; ". */
int  faults_report(struct faults *f, struct error *e);
void faults_deinit(struct faults *f);

#endif
