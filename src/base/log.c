/* See log.h. The text is escaped like an error's, so that a name from a file cannot break the line. */
#include "base/log.h"

#include "base/error.h"

void log_write(const struct log *l, enum log_level level, const char *fmt, ...)
{
    struct error line;
    va_list      ap;
    if (!l || !l->write || level > l->level)
        return;
    va_start(ap, fmt);
    error_vset(&line, 0, NULL, fmt, ap);
    va_end(ap);
    l->write(l->ctx, level, line.msg);
}
