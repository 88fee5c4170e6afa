/* Time: seconds of the monotonic clock, and the process's memory, for statistics. */
#ifndef MLXCEL_BASE_CLOCK_H
#define MLXCEL_BASE_CLOCK_H

#include <stddef.h>

double clock_now(void);        /* seconds since an arbitrary start */
double clock_thread(void);     /* seconds of processor time that the calling thread has used */
size_t process_peak_rss(void); /* bytes; VmHWM */

#endif
