/* The library's talk goes to a sink that the caller gives; the library itself never prints. A NULL log is silent. */
#ifndef MLXCEL_BASE_LOG_H
#define MLXCEL_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct log {
    void (*write)(void *ctx, enum log_level level, const char *msg); /* msg: one line without a newline */
    void          *ctx;
    enum log_level level; /* messages above it are dropped */
};

void log_write(const struct log *l, enum log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define log_warning(l, ...) log_write((l), LOG_WARNING, __VA_ARGS__)
#define log_info(l, ...) log_write((l), LOG_INFO, __VA_ARGS__)
#define log_debug(l, ...) log_write((l), LOG_DEBUG, __VA_ARGS__)

#endif
