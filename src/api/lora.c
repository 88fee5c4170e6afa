/* Adapters of mlxcel.h: the registry's functions with public errors. */
#include "api/api.h"

int mlxcel_lora_load(struct mlxcel *m, const struct mlxcel_lora_source *source, int *id, struct mlxcel_error *err)
{
    struct error e = {0};
    int          code = source->fuse
                            ? error_set(&e, ERR_UNSUPPORTED, NULL, "an adapter can be fused only when the model is opened")
                            : registry_load(m->registry, source, &m->log, id, &e);
    return api_result(code, &e, err);
}

int mlxcel_lora_unload(struct mlxcel *m, int id, struct mlxcel_error *err)
{
    struct error e = {0};
    return api_result(registry_unload(m->registry, id, &e), &e, err);
}

int mlxcel_lora_set_scales(struct mlxcel *m, const struct mlxcel_lora *v, size_t n, struct mlxcel_error *err)
{
    struct error e = {0};
    return api_result(registry_set_scales(m->registry, v, n, &e), &e, err);
}

int mlxcel_lora_list(struct mlxcel *m, struct mlxcel_lora_info **list, size_t *n, struct mlxcel_error *err)
{
    struct error e = {0};
    return api_result(registry_list(m->registry, list, n, &e), &e, err);
}
