/* A view of config.json that collects faults, so that a family's function reads straight through and the user learns
 * everything that is wrong at once:
 *
 *     int64_t hidden = config_int(c, "hidden_size", 1, 1 << 20);
 *     double  eps    = config_num_or(c, "rms_norm_eps", 0, 1, 1e-6);
 *     ...
 *     return config_report(c, e);
 *
 * A key of the root is looked up in the object text_config first, if there is one, then at the top. null counts as
 * missing. A missing required field, a wrong type and a value outside [lo, hi] are faults, worded with the JSON path
 * ("config.json: text_config.hidden_size is true, a whole number from 1 to 1048576 is needed"); the getter then
 * returns the default (or lo, or NULL) and reading goes on. 10000.0 is a whole number, 5 is a number; infinity is one
 * where lo or hi is infinite.
 *
 * Every view and every string belongs to the root and is freed with it. The sentences are sorted by field.
 */
#ifndef MLXCEL_FORMATS_CONFIG_H
#define MLXCEL_FORMATS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "formats/dtype.h"

struct config;

enum config_kind {
    CONFIG_MISSING, /* or null */
    CONFIG_BOOL,
    CONFIG_INT, /* also integral reals */
    CONFIG_NUM,
    CONFIG_STR,
    CONFIG_ARRAY,
    CONFIG_OBJECT
};

/* Reads `dir`/`file`, which must hold an object of at most 16 MiB. ERR_NOT_FOUND names the path. */
int  config_load(struct config **out, const char *dir, const char *file, struct error *e);
int  config_parse(struct config **out, struct str text, const char *name, struct error *e); /* name: for messages */
void config_free(struct config *root);                                                      /* NULL is fine */

/* 0, or all faults of the root and its views. */
int config_report(struct config *c, struct error *e);
/* Adds the caller's own fault; the message begins "FILE: PATH.key ", so that fmt goes on: "is 7, even numbers are
 * needed". */
void config_fault(struct config *c, int code, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

enum config_kind config_kind(struct config *c, const char *key);
bool             config_has(struct config *c, const char *key); /* present and not null */
bool config_is_null(struct config *c, const char *key);         /* present as null, where that differs from absence */

int64_t     config_int(struct config *c, const char *key, int64_t lo, int64_t hi); /* required */
int64_t     config_int_or(struct config *c, const char *key, int64_t lo, int64_t hi, int64_t dflt);
double      config_num(struct config *c, const char *key, double lo, double hi); /* required */
double      config_num_or(struct config *c, const char *key, double lo, double hi, double dflt);
bool        config_bool_or(struct config *c, const char *key, bool dflt);
const char *config_str(struct config *c, const char *key); /* required; "" after a fault */
const char *config_str_or(struct config *c, const char *key, const char *dflt);

/* A child view; NULL when the field is missing (or a fault: not an object). Its keys are looked up in it alone. */
struct config *config_object(struct config *c, const char *key);
/* The root's top level alone, without the text_config rule (a wrapper's own model_type). */
struct config *config_top(struct config *c);
/* Iterates over a view's own keys in file order: prev NULL for the first; NULL after the last. */
const char *config_next_key(struct config *c, const char *prev);

/* Lists. A single value counts as a list of one (eos_token_id). -1 when the field is missing. */
int         config_array_len(struct config *c, const char *key);
int64_t     config_array_int(struct config *c, const char *key, int i, int64_t lo, int64_t hi);
double      config_array_num(struct config *c, const char *key, int i, double lo, double hi);
bool        config_array_bool(struct config *c, const char *key, int i);
const char *config_array_str(struct config *c, const char *key, int i); /* "" after a fault */

/* The rotary fields in either spelling: rope_theta + rope_scaling, or rope_parameters; type or rope_type. */
struct config_rope {
    double         theta;
    double         partial;        /* share of the head that is rotated, 0..1 */
    const char    *type;           /* "default", "linear", "llama3", "yarn", ... */
    struct config *fields;         /* the object that holds factor and the like; NULL for "default" without one */
    bool           per_layer_type; /* the object is the layer type's own */
};
#define CONFIG_THETA_MIN 1e-6
#define CONFIG_THETA_MAX 1e15
/* theta and partial are the defaults. Where rope_parameters holds one object per layer type, that of layer_type counts;
 * with NULL that is a fault. */
struct config_rope config_rope(struct config *c, const char *layer_type, double theta, double partial);

/* The type that mlx-lm's convert stores dense tensors in: F32, F16 or BF16 as torch_dtype of the top level says, or where that
 * is missing dtype of text_config; else DTYPE_NONE (as stored). */
enum dtype config_dtype(struct config *c);

#endif
