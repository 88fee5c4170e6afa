/* What config.json says about quantization. The planes decide (design rule); the config is only compared with them. */
#ifndef MLXCEL_MODEL_QUANT_CONFIG_H
#define MLXCEL_MODEL_QUANT_CONFIG_H

#include "formats/config.h"
#include "model/params.h"

/* Refuses, by name, the storage of other tools (quant_method gptq, awq, ...) and fields of the wrong type. */
int quant_config_check(struct config *c, struct error *e);
/* One warning when bound parameters are stored otherwise than `quantization` declares (their own override first). For a
 * config that quant_config_check has passed. */
void quant_config_compare(struct config *c, const struct params *p, const struct log *log);

#endif
