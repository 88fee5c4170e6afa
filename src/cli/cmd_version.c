/* `version`. */
#include "cli/options.h"
#include "cli/output.h"
#include "mlxcel.h"

int cmd_version(const struct options *o, struct error *e)
{
    (void)o;
    (void)e;
    out_printf("mlxcel %s\n", mlxcel_version());
    return 0;
}
