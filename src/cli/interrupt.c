/* See interrupt.h. The handler is installed without SA_RESTART, so that reading a line ends, too. */
#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static volatile sig_atomic_t holding, came;
static int                   wake = -1;

static void on_interrupt(int sig)
{
    const uint64_t one = 1;
    int            en = errno;
    (void)sig;
    if (!holding || came)
        _exit(INTERRUPT_STATUS);
    came = 1;
    (void)!write(wake, &one, sizeof one);
    errno = en;
}

static void forget(void)
{
    uint64_t n;
    came = 0;
    (void)!read(wake, &n, sizeof n);
}

void interrupt_init(void)
{
    struct sigaction act;
    wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    memset(&act, 0, sizeof act);
    act.sa_handler = on_interrupt;
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    act.sa_handler = SIG_IGN; /* a closed pipe is an error of write, see output.h */
    sigaction(SIGPIPE, &act, NULL);
    sigaction(SIGXFSZ, &act, NULL); /* as is a file beyond the limit of `ulimit -f` */
}

bool interrupt_hold(bool hold)
{
    bool was = holding;
    forget();
    holding = hold;
    return was;
}

bool interrupt_pending(void)
{
    return came;
}

int interrupt_fd(void)
{
    return wake;
}

bool interrupt_take(void)
{
    bool was = came;
    if (was)
        forget();
    return was;
}
