/* `arch`: the families that are supported. */
#include "base/num.h"
#include "cli/api.h"
#include "cli/table.h"

int cmd_arch(const struct options *o, struct error *e)
{
    static const struct column columns[] = {{"MODEL TYPE", "model_type", COLUMN_TEXT},
                                            {"LIKE", "parent", COLUMN_TEXT},
                                            {"BLOCKS", "blocks", COLUMN_TEXT},
                                            {"WHAT IT IS", "summary", COLUMN_TEXT}};
    struct mlxcel_error        fault = {0};
    char                      *json = NULL;
    int                        rc;
    if (mlxcel_families(&json, &fault))
        return api_fault(&fault, e);
    rc = table_report(json, o->json, columns, ARRAY_LEN(columns), e);
    mlxcel_free(json);
    return rc;
}
