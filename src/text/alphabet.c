/* The partition of all characters by membership in the sets: the ends of all ranges, in order, cut the code points into
 * runs of equal membership; runs of the same membership are one letter. Contracts in alphabet.h. */
#include "text/alphabet.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* A place where membership in one set changes. */
struct edge {
    uint32_t at, set;
};

static int by_place(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static struct edge *edges(const struct charset *sets, size_t n_sets, size_t *n)
{
    size_t total = 0;
    for (size_t i = 0; i < n_sets; i++)
        total += 2 * sets[i].n;
    struct edge *v = malloc((total + 1) * sizeof *v);
    *n = 0;
    for (size_t i = 0; v && i < n_sets; i++)
        for (size_t k = 0; k < sets[i].n; k++) {
            v[(*n)++] = (struct edge){sets[i].v[k].lo, (uint32_t)i};
            v[(*n)++] = (struct edge){sets[i].v[k].hi + 1, (uint32_t)i};
        }
    if (v)
        qsort(v, *n, sizeof *v, by_place);
    return v;
}

/* The letter of a membership, a new one if need be; -1 when there are too many. */
static int letter_of(struct alphabet *a, const uint64_t *member)
{
    int l = 0;
    while (l < a->n_letters && memcmp(a->member[l], member, sizeof a->member[l]) != 0)
        l++;
    if (l == ALPHABET_MAX)
        return -1;
    if (l == a->n_letters)
        memcpy(a->member[a->n_letters++], member, sizeof a->member[l]);
    return l;
}

/* False where there would be too many letters. */
static bool cut(struct alphabet *a, const struct edge *v, size_t n)
{
    uint64_t now[ALPHABET_SETS_MAX / 64] = {0};
    size_t   i = 0;
    for (uint32_t at = 0; at < UNICODE_END; at = i < n ? v[i].at : UNICODE_END) {
        for (; i < n && v[i].at == at; i++)
            now[v[i].set / 64] ^= (uint64_t)1 << (v[i].set % 64);
        int l = letter_of(a, now);
        if (l < 0)
            return false;
        if (a->n && a->letter[a->n - 1] == l)
            continue;
        a->start[a->n] = at;
        a->letter[a->n++] = (uint8_t)l;
    }
    a->start[a->n] = UNICODE_END;
    return true;
}

/* Fills the tables by which a run is found quickly. */
static void index_runs(struct alphabet *a)
{
    for (size_t i = 0, p = 0; p < ARRAY_LEN(a->page); p++) {
        while (i + 1 < a->n && a->start[i + 1] <= p * 256)
            i++;
        a->page[p] = (uint16_t)i;
    }
    for (uint32_t c = 0, i = 0; c < 128; c++) {
        while (a->start[i + 1] <= c)
            i++;
        a->ascii[c] = a->letter[i];
    }
}

int alphabet_init(struct alphabet *a, const struct charset *sets, size_t n_sets, bool *too_many, struct error *e)
{
    size_t       n;
    struct edge *v = edges(sets, n_sets, &n);
    int          status = 0;
    *too_many = n >= UINT16_MAX;
    memset(a, 0, sizeof *a);
    a->start = malloc((n + 2) * sizeof *a->start);
    a->letter = malloc(n + 1);
    a->member = malloc(ALPHABET_MAX * sizeof *a->member);
    if (!v || !a->start || !a->letter || !a->member)
        status = error_nomem(e, "a regular expression");
    else if (!*too_many && cut(a, v, n))
        index_runs(a);
    else
        *too_many = true;
    free(v);
    if (status || *too_many)
        alphabet_deinit(a);
    return status;
}

void alphabet_deinit(struct alphabet *a)
{
    free(a->start);
    free(a->letter);
    free(a->member);
    *a = (struct alphabet){0};
}
