/* `describe`: what a checkpoint holds, read without loading it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "cli/api.h"
#include "cli/output.h"
#include "cli/table.h"

static int64_t integer(const json_t *facts, const char *key)
{
    return json_integer_value(json_object_get(facts, key));
}

static void print_modes(const json_t *modes)
{
    const char *mode;
    json_t     *parameters;
    json_object_foreach((json_t *)modes, mode, parameters)
        out_printf("  %-24s %lld parameters\n", mode, (long long)json_integer_value(parameters));
}

static void warn_all(const json_t *warnings)
{
    size_t        i;
    const json_t *w;
    json_array_foreach(warnings, i, w) err_warning("%s", json_string_value(w) ? json_string_value(w) : "");
}

/* Whether some tensors are not where the MLX layout has them. */
static bool has_other_places(const json_t *tensors)
{
    size_t        i;
    const json_t *t;
    json_array_foreach(tensors, i, t) if (json_object_get(t, "stored_in")) return true;
    return false;
}

static int print_facts(const json_t *facts, struct error *e)
{
    static const struct column columns[] = {{"TENSOR", "name", COLUMN_TEXT},
                                            {"SHAPE", "shape", COLUMN_TEXT},
                                            {"STORED AS", "stored_as", COLUMN_TEXT},
                                            {"SIZE", "bytes", COLUMN_BYTES},
                                            {"STORED IN", "stored_in", COLUMN_TEXT}};
    const char                *type = json_string_value(json_object_get(facts, "model_type"));
    char                       size[SIZE_TEXT], kv[SIZE_TEXT];
    out_printf("model type  %s\n", type ? type : "");
    out_printf("layers      %lld\n", (long long)integer(facts, "layers"));
    out_printf("parameters  %lld\n", (long long)integer(facts, "parameters"));
    out_printf("size        %s\n", size_text(integer(facts, "bytes"), size));
    out_printf("context     %lld tokens, %s of cache each\n", (long long)integer(facts, "context"),
               size_text(integer(facts, "kv_bytes_per_token"), kv));
    if (integer(facts, "state_bytes"))
        out_printf("state       %s for each sequence\n", size_text(integer(facts, "state_bytes"), size));
    out_puts("modes\n");
    print_modes(json_object_get(facts, "modes"));
    out_puts("\n");
    warn_all(json_object_get(facts, "warnings"));
    const json_t *tensors = json_object_get(facts, "tensors");
    return table_print(tensors, columns, ARRAY_LEN(columns) - (has_other_places(tensors) ? 0 : 1), e);
}

int cmd_describe(const struct options *o, struct error *e)
{
    struct mlxcel_error fault = {0};
    char               *json = NULL;
    json_t             *facts;
    int                 rc = 0;
    if (mlxcel_describe(o->model, &json, &fault))
        return api_fault(&fault, e);
    if (o->json) {
        out_printf("%s\n", json);
    } else {
        facts = table_parse(json, e);
        rc = facts ? print_facts(facts, e) : e->code;
        json_decref(facts);
    }
    mlxcel_free(json);
    return rc;
}
