/* Generation functions of mlxcel.h: the engine of an opened model. */
#include <string.h>

#include "api/api.h"

void mlxcel_params_greedy(struct mlxcel_params *p)
{
    *p = (struct mlxcel_params){.max_tokens = -1, .n_probs = -1};
}

void mlxcel_params_chat(struct mlxcel_params *p)
{
    mlxcel_params_greedy(p);
    p->temperature = 0.8f;
    p->top_k = 40;
    p->top_p = 0.95f;
    p->min_p = 0.05f;
}

/* A stage of a model computes nothing by itself. */
static int check_whole(const struct mlxcel *m, struct error *e)
{
    const struct model *model = m->model;
    if (model->lo == 0 && model->hi == model->desc.n_layer)
        return 0;
    return error_set(e, ERR_UNSUPPORTED, "layers",
                     "only layers [%d, %d) of the model's %d are loaded; it takes all of them to compute", model->lo,
                     model->hi, model->desc.n_layer);
}

int mlxcel_submit(struct mlxcel *m, const int32_t *prompt, size_t n_prompt, const struct mlxcel_params *params,
                  mlxcel_on_event *on_event, void *ctx, int64_t *id, struct mlxcel_error *err)
{
    struct error         e = {0};
    struct mlxcel_params greedy;
    struct adapter_set  *set = NULL;
    mlxcel_params_greedy(&greedy);
    params = params ? params : &greedy;
    int code = check_whole(m, &e);
    if (!code)
        code = registry_choose(m->registry, params->lora, params->n_lora, &set, &e);
    if (!code)
        code = engine_submit(m->engine, prompt, n_prompt, params, set, on_event, ctx, id, &e);
    adapter_set_unref(set);
    return api_result(code, &e, err);
}

void mlxcel_cancel(struct mlxcel *m, int64_t id)
{
    engine_cancel(m->engine, id);
}

int mlxcel_step(struct mlxcel *m, int *active, struct mlxcel_error *err)
{
    struct error e = {0};
    return api_result(engine_step(m->engine, active, &e), &e, err);
}

void mlxcel_wait_work(struct mlxcel *m)
{
    engine_wait_work(m->engine);
}

void mlxcel_wake(struct mlxcel *m)
{
    engine_wake(m->engine);
}

bool mlxcel_is_eos(const struct mlxcel *m, int32_t id)
{
    return engine_is_eos(m->engine, id);
}

struct waiting {
    mlxcel_on_event    *on_event;
    void               *ctx;
    bool                done;
    struct mlxcel_error error; /* code 0: none */
};

static void pass_on(void *ctx, const struct mlxcel_event *ev)
{
    struct waiting *w = ctx;
    if (ev->error)
        w->error = *ev->error;
    w->done = ev->finish != MLXCEL_RUNNING;
    if (w->on_event)
        w->on_event(w->ctx, ev);
}

int mlxcel_generate(struct mlxcel *m, const int32_t *prompt, size_t n_prompt, const struct mlxcel_params *params,
                    mlxcel_on_event *on_event, void *ctx, struct mlxcel_error *err)
{
    struct waiting w = {.on_event = on_event, .ctx = ctx};
    int            active, code = mlxcel_submit(m, prompt, n_prompt, params, pass_on, &w, NULL, err);
    while (!code && !w.done)
        code = mlxcel_step(m, &active, err);
    if (!code && w.error.code) {
        code = w.error.code;
        if (err)
            *err = w.error;
    }
    return code;
}

int mlxcel_logits(struct mlxcel *m, const int32_t *tokens, size_t n, int chunk, float *out, struct mlxcel_error *err)
{
    struct error        e = {0};
    struct adapter_set *set = NULL;
    int                 code = check_whole(m, &e);
    if (!code)
        code = registry_choose(m->registry, NULL, 0, &set, &e);
    if (!code)
        code = engine_logits(m->engine, tokens, n, chunk, set, out, &e);
    adapter_set_unref(set);
    return api_result(code, &e, err);
}
