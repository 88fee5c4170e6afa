/* Any bytes as an adapter, its config up to the first NUL and its tensors behind: refused with a sentence, or loaded over
 * a small model with every array inside what the weights have. */
#include <stdint.h>

#include "../support/tmp.h"
#include "adapt/adapt.h"
#include "arch/arch.h"
#include "cpu/cpu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char           *dir;
static struct model   *model;
static struct backend *backend;

static void clean(void)
{
    model_free(model);
    backend->free(backend);
    tmp_remove(dir);
}

static void set_up(void)
{
    struct model_options o = {.page_tokens = 16};
    dir = tmp_make();
    if (cpu_backend_new(&backend, &(struct cpu_options){.threads = 1, .level = -1}, NULL) ||
        model_load(&model, "tests/data/arch/llama-tied-f32", arch_describe, backend, &o, NULL))
        abort();
    atexit(clean);
}

static void check_delta(const struct lora_delta *d, int64_t n_in, int64_t n_out)
{
    for (int i = 0; i < d->n_pair; i++) {
        const struct lora_pair *p = &d->pair[i];
        if (p->n_in != n_in || p->rank < 1 || p->row < 0 || p->n_out < 1 || p->row + p->n_out > n_out || !p->uses)
            abort();
        if ((uintptr_t)p->a % 64 || (uintptr_t)p->b % 64 || p->scale != p->scale)
            abort();
    }
    if (d->replace && (d->replace->n_in != n_in || d->replace->n_out != n_out))
        abort();
}

static void check(const struct lora *l)
{
    for (size_t i = 0; i < model->params.n; i++) {
        const struct param *p = &model->params.v[i];
        if (p->role != ROLE_BIAS && l->delta[p->weight->index])
            check_delta(l->delta[p->weight->index], p->weight->n_in, p->weight->n_out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t  *nul = size ? memchr(data, 0, size) : NULL;
    size_t          config = nul ? (size_t)(nul - data) : size, rest = nul ? size - config - 1 : 0;
    struct adapter *a;
    struct error    e = {0};
    if (!dir)
        set_up();
    tmp_write(dir, "adapter_config.json", data, config);
    tmp_write(dir, "adapters.safetensors", data + size - rest, rest);
    if (adapter_load(&a, dir, model, backend, NULL, &e)) {
        if (!e.msg[0])
            abort();
        return 0;
    }
    check(adapter_lora(a));
    adapter_unref(a);
    return 0;
}
