/* See interrupt.h. The handlers are installed without SA_RESTART, so that reading a line ends, too. */
#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/num.h"

/* Atomic, since a signal comes in any thread; without locks, as a handler needs them. */
static atomic_int holding, came, ending; /* ending: by which signal */
static atomic_int mending, mended;       /* pages of files that became shorter */
static int        wake = -1;

/* Ends the program as the signal would have without us, at once. */
static void die(int sig)
{
    if (sig == SIGINT)
        _exit(INTERRUPT_STATUS);
    signal(sig, SIG_DFL);
    raise(sig); /* comes when the handler returns */
}

/* Makes interrupt_fd readable. */
static void rouse(void)
{
    const uint64_t one = 1;
    (void)!write(wake, &one, sizeof one);
}

static void on_signal(int sig)
{
    int en = errno;
    if (!holding || interrupt_pending()) {
        die(sig);
    } else {
        if (sig == SIGINT)
            came = 1;
        else
            ending = sig;
        rouse();
    }
    errno = en;
}

/* Puts a page of zeros where the file has none any more. */
static bool mend_page(void *addr)
{
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void     *page = (char *)addr - (uintptr_t)addr % size;
    mended = 1;
    return mmap(page, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page;
}

/* A mapped file is shorter than it was, or its disk fails: nothing that was begun can be finished. */
static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    static const char line[] = "mlxcel: error: a file that is in use became shorter, or its disk cannot be read\n";
    (void)context;
    if (info->si_code != BUS_ADRERR) {
        die(sig); /* a fault of ours, not of the file */
        return;
    }
    int en = errno;
    if (!mending || !mend_page(info->si_addr)) {
        (void)!write(STDERR_FILENO, line, sizeof line - 1);
        _exit(1);
    }
    errno = en;
}

/* A signal that comes meanwhile is not forgotten: it sets its flag before it writes. */
static void forget(void)
{
    uint64_t n;
    came = 0;
    (void)!read(wake, &n, sizeof n);
    if (interrupt_pending())
        rouse();
}

void interrupt_init(void)
{
    static const int ends[] = {SIGTERM, SIGHUP};
    struct sigaction act, old;
    wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    memset(&act, 0, sizeof act);
    act.sa_handler = on_signal;
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* ignored: nohup */
            sigaction(ends[i], &act, NULL);
    act.sa_handler = SIG_IGN; /* a closed pipe is an error of write, see output.h */
    sigaction(SIGPIPE, &act, NULL);
    sigaction(SIGXFSZ, &act, NULL); /* as is a file beyond the limit of `ulimit -f` */
    act.sa_sigaction = on_bus_error;
    act.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &act, NULL);
}

bool interrupt_hold(bool hold)
{
    bool was = holding;
    forget();
    holding = hold;
    return was;
}

bool interrupt_mend(bool mend)
{
    bool was = mended;
    mending = mend;
    mended = 0;
    return was;
}

bool interrupt_pending(void)
{
    return came || ending;
}

bool interrupt_ending(void)
{
    return ending;
}

int interrupt_status(void)
{
    return ending ? 128 + ending : INTERRUPT_STATUS;
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
