/* The arrays of a loaded adapter: one mapping for all, whose size is counted first, and the layouts of lora.h in it. */
#include <sys/mman.h>

#include "adapt/adapt_int.h"
#include "base/num.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define BLOCK 64 /* elements of a row that are copied before the next row's turn, so that both sides stay near */

void *adapter_values_take(struct adapter_values *v, int64_t n, int64_t m, size_t size)
{
    size_t at = v->used, bytes;
    if (!num_mul((size_t)n, (size_t)m, &bytes) || !num_mul(bytes, size, &bytes) || !num_align(bytes, 64, &bytes) ||
        !num_add(v->used, bytes, &v->used))
        v->overflow = true;
    return v->p ? v->p + at : NULL;
}

/* Huge pages are asked for where whole ones fit: an adapter pays for no memory that it does not use. */
int adapter_values_alloc(struct adapter_values *v, struct error *e)
{
    size_t size = MAX(v->used, (size_t)1), slack = size >= HUGE_PAGE ? HUGE_PAGE : 0, mapped;
    if (v->overflow || !num_add(size, slack, &mapped))
        return error_nomem(e, "the adapter");
    void *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return error_nomem(e, "the adapter");
    *v = (struct adapter_values){.p = p, .mapping = p, .mapped = mapped};
    if (slack) {
        v->p += -(uintptr_t)p % HUGE_PAGE;
        (void)madvise(v->p, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* a wish */
    }
    return 0;
}

void adapter_values_free(struct adapter_values *v)
{
    if (v->mapping)
        munmap(v->mapping, v->mapped);
}

/* --- the two halves ----------------------------------------------------------------------------------------------- */

/* n elements of `size` bytes, `stride` elements apart, one behind the other. */
static inline __attribute__((always_inline)) void pick(char *to, const char *from, int64_t n, int64_t stride,
                                                       size_t size)
{
    if (stride == 1)
        memcpy(to, from, (size_t)n * size);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + (size_t)i * size, from + (size_t)(i * stride) * size, size);
}

/* [rank][width], m at column `col`. */
static inline __attribute__((always_inline)) void fill_a(char *to, const struct adapter_matrix *m, int64_t width,
                                                         int64_t col, size_t size)
{
    const char *from = m->data;
    int64_t     block = m->col == 1 ? m->n_col : BLOCK;
    for (int64_t i = 0; i < m->n_col; i += block)
        for (int64_t j = 0; j < m->n_row; j++)
            pick(to + (size_t)(j * width + col + i) * size, from + (size_t)(j * m->row + i * m->col) * size,
                 MIN(block, m->n_col - i), m->col, size);
}

/* [tiles][rank][LORA_LANES], row 0 of m at lane `lane` of the first tile. */
static inline __attribute__((always_inline)) void fill_b(char *to, const struct adapter_matrix *m, int64_t lane,
                                                         size_t size)
{
    const char *from = m->data;
    for (int64_t o = 0, n; o < m->n_row; o += n, lane = 0, to += (size_t)(m->n_col * LORA_LANES) * size) {
        n = MIN(LORA_LANES - lane, m->n_row - o);
        for (int64_t j = 0; j < m->n_col; j++)
            pick(to + (size_t)(j * LORA_LANES + lane) * size, from + (size_t)(o * m->row + j * m->col) * size, n,
                 m->row, size);
    }
}

void adapter_place_pair(struct adapter_values *v, const struct adapter_pair *p, struct lora_pair *out)
{
    *out = (struct lora_pair){.n_in = p->weight->n_in,
                              .n_out = p->b.n_row,
                              .rank = p->a.n_row,
                              .row = p->row,
                              .a_type = p->a.dtype,
                              .b_type = p->b.dtype,
                              .scale = (float)p->scale,
                              .uses = p->uses};
    int64_t width = lora_a_row(out), lane = p->row % LORA_LANES;
    int64_t tiles = (lane + p->b.n_row + LORA_LANES - 1) / LORA_LANES;
    size_t  size_a = dtype_size(p->a.dtype), size_b = dtype_size(p->b.dtype);
    char   *a = adapter_values_take(v, out->rank, width, size_a);
    char   *b = adapter_values_take(v, tiles * LORA_LANES, out->rank, size_b);
    float  *extra = p->extra.data ? adapter_values_take(v, p->b.n_row, 1, sizeof *extra) : NULL;
    out->a = a;
    out->b = b;
    out->extra = extra;
    if (!v->p)
        return;
    if (size_a == 2)
        fill_a(a, &p->a, width, p->col, 2);
    else
        fill_a(a, &p->a, width, p->col, 4);
    if (size_b == 2)
        fill_b(b, &p->b, lane, 2);
    else
        fill_b(b, &p->b, lane, 4);
    for (int64_t i = 0; extra && i < p->b.n_row; i++)
        extra[i] = adapter_matrix_at(&p->extra, i, 0);
}
