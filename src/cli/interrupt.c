/* See interrupt.h. The handler is installed without SA_RESTART, so that reading a line ends, too. */
#include "cli/interrupt.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t holding, came;

static void on_interrupt(int sig)
{
    (void)sig;
    if (!holding || came)
        _exit(INTERRUPT_STATUS);
    came = 1;
}

void interrupt_init(void)
{
    struct sigaction act;
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
    came = 0;
    holding = hold;
    return was;
}

bool interrupt_pending(void)
{
    return came;
}

bool interrupt_take(void)
{
    bool was = came;
    came = 0;
    return was;
}
