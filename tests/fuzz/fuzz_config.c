/* Any bytes as config.json, then every getter on every key: nothing out of range comes back. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "formats/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_key(struct config *c, const char *key)
{
    int64_t i = config_int_or(c, key, -5, 1000, 7);
    double  x = config_num(c, key, -1, 1e30);
    int     n = config_array_len(c, key);
    if (i < -5 || i > 1000 || !(x >= -1 && x <= 1e30))
        abort();
    if (config_has(c, key) != (config_kind(c, key) != CONFIG_MISSING) || (n < 0) == config_has(c, key))
        abort();
    config_bool_or(c, key, true);
    config_str(c, key);
    for (int k = -1; k <= n && k < 4; k++) {
        config_array_int(c, key, k, 0, 1);
        config_array_num(c, key, k, 0, INFINITY);
        config_array_str(c, key, k);
    }
    config_object(c, key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *c;
    struct error   e = {0};
    if (config_parse(&c, (struct str){(const char *)data, size}, "config.json", &e)) {
        if (!e.msg[0])
            abort();
        return 0;
    }
    int keys = 0;
    for (const char *k = config_next_key(c, NULL); k && keys < 100; k = config_next_key(c, k), keys++)
        read_key(c, k);
    struct config_rope r = config_rope(c, keys % 2 ? "full_attention" : NULL, 1e4, 1);
    if (!(r.theta > 0) || !(r.partial >= 0 && r.partial <= 1) || !r.type)
        abort();
    if (r.fields)
        config_num_or(r.fields, "factor", 0, 100, 1);
    config_dtype(c);
    config_str_or(config_top(c), "model_type", "");
    config_fault(c, ERR_INVALID, "model_type", "is %s", "wrong");
    if (!config_report(c, &e) || !e.msg[0])
        abort();
    config_free(c);
    return 0;
}
