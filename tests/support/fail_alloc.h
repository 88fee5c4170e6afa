/* Failing allocations, for the programs of tests/fault, which the linker gives these in the place of malloc and its
 * kin: set `countdown` to n and the n-th allocation from there fails; `failed` tells that it did. */
#ifndef TESTS_SUPPORT_FAIL_ALLOC_H
#define TESTS_SUPPORT_FAIL_ALLOC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
void *__real_aligned_alloc(size_t align, size_t n);
void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);

static long countdown; /* the allocation that fails when it reaches 0; negative: none */
static bool failed;

static bool fails(void)
{
    if (countdown < 0 || __atomic_sub_fetch(&countdown, 1, __ATOMIC_RELAXED) != 0)
        return false;
    countdown = -1;
    failed = true;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}
char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}
void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(align, n);
}
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    return fails() ? MAP_FAILED : __real_mmap(at, n, protection, flags, fd, offset);
}

/* For jansson, whose reader drops the character for which its buffer could not grow, and reads on past the end if that
 * was the quote that ends a string (2.14): the growth of buffers, to powers of two from 32 on, never fails here. */
static inline void *jansson_malloc(size_t n)
{
    return n >= 32 && (n & (n - 1)) == 0 ? __real_malloc(n) : __wrap_malloc(n);
}

#endif
