/* Embeddings to which the head is tied, in PEFT's files. */
#include <string.h>

#include "adapt/bind_int.h"
#include "base/num.h"

static bool same_matrix(const struct adapter_matrix *x, const struct adapter_matrix *y)
{
    bool same = x->n_row == y->n_row && x->n_col == y->n_col;
    for (int64_t i = 0; i < x->n_row && same; i++)
        for (int64_t j = 0; j < x->n_col && same; j++)
            same = adapter_matrix_at(x, i, j) == adapter_matrix_at(y, i, j);
    return same;
}

/* PEFT's pairs of an embedding and of the head that is tied to it: each was trained for its own use, but for those of
 * ensure_weight_tying, which are the same pair twice. */
void adapter_part_tied(struct adapter_binder *b)
{
    struct adapter_pair *v = b->b->pair;
    for (size_t i = 1; i < b->b->n_pair && b->f->format == ADAPTER_FORMAT_PEFT; i++) {
        struct adapter_pair *p = v[i].uses & WEIGHT_EMBED ? &v[i] : &v[i - 1], *head = p == &v[i] ? &v[i - 1] : &v[i];
        if (!adapter_same_place(p, head) || !(p->uses & WEIGHT_EMBED) || head->uses & WEIGHT_EMBED)
            continue;
        if (p->scale != head->scale || !same_matrix(&p->a, &head->a) || !same_matrix(&p->b, &head->b))
            p->uses = WEIGHT_EMBED;
        else
            memmove(head, head + 1, (size_t)(v + --b->b->n_pair - head) * sizeof *v);
    }
}

/* What PEFT itself does at run time differs where the head is tied. */
void adapter_warn_of_tied(struct adapter_binder *b)
{
    struct adapter_file *f = b->f;
    const struct param  *p = NULL;
    for (size_t i = 0; i < b->b->n_pair; i++)
        p = b->b->pair[i].uses & WEIGHT_EMBED && b->b->pair[i].uses & WEIGHT_LINEAR ? b->b->pair[i].param : p;
    for (size_t i = 0; i < b->b->n_replaced; i++)
        p = b->b->replaced[i].param->uses & WEIGHT_EMBED ? b->b->replaced[i].param : p;
    if (!p || !(p->uses & WEIGHT_LINEAR) || f->format != ADAPTER_FORMAT_PEFT || f->ties ||
        f->n_warning == ARRAY_LEN(f->warning))
        return;
    const char *text = arena_printf(&f->arena,
                                    "%s: it changes %s, and with it the head, which is tied to it, as PEFT does when "
                                    "it merges; beside the model PEFT would leave the head alone",
                                    f->path, p->name);
    b->nomem |= !text;
    f->warning[f->n_warning] = text;
    f->n_warning += text != NULL;
}
