/* `list`: the models that a name finds. */
#include "base/num.h"
#include "cli/api.h"
#include "cli/table.h"

int cmd_list(const struct options *o, struct error *e)
{
    static const struct column columns[] = {{"NAME", "name", COLUMN_TEXT},
                                            {"SIZE", "bytes", COLUMN_BYTES},
                                            {"TYPE", "model_type", COLUMN_TEXT},
                                            {"PATH", "path", COLUMN_TEXT}};
    struct mlxcel_error        fault = {0};
    char                      *json = NULL;
    int                        rc;
    if (mlxcel_list(&json, &fault))
        return api_fault(&fault, e);
    rc = table_report(json, o->json, columns, ARRAY_LEN(columns), e);
    mlxcel_free(json);
    return rc;
}
