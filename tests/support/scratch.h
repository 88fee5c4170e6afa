/* The scratch directory of a test program whose tests all use one: `dir`, and cmocka's group functions that make and
 * remove it. */
#ifndef TESTS_SUPPORT_SCRATCH_H
#define TESTS_SUPPORT_SCRATCH_H

#include "tmp.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = tmp_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tmp_remove(dir);
    return 0;
}

#endif
