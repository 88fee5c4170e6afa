/* What the files of adapt/file.h share: the pieces that a format's rules make of an adapter's tensors. */
#ifndef MLXCEL_ADAPT_FILE_INT_H
#define MLXCEL_ADAPT_FILE_INT_H

#include <float.h>

#include "adapt/file.h"

#define ADAPTER_CONFIG "adapter_config.json"
#define ADAPTER_RANK_MAX (1 << 20)
#define ADAPTER_SCALE_MAX ((double)FLT_MAX)

enum adapter_part { PART_NONE, PART_A, PART_B, PART_MAGNITUDE, PART_EXTRA, PART_REPLACE, PART_COPY };

/* One tensor, as its name reads. */
struct adapter_piece {
    enum adapter_part         part;    /* PART_NONE: already a fault */
    enum adapter_layout       layout;  /* of a pair's */
    const char               *name;    /* ours: of the module; PART_REPLACE, PART_COPY: of the parameter */
    const char               *spelled; /* of the module, as in the file */
    const struct tensor_view *tensor;
};

struct adapter_reader;

/* rank_pattern or alpha_pattern of PEFT: numbers for the modules whose names a key matches (peft_pattern.c). */
struct adapter_pattern;
struct adapter_patterns {
    struct adapter_pattern *v;
    size_t                  n;
    int64_t                 spent;   /* of the time that all matching may take */
    bool                    stopped; /* it was not enough, or a match cannot be told: then nothing matches */
    bool                    nomem;   /* stopped for want of memory */
};
/* Reads the object `key` of the config, whose values are numbers from lo to hi. */
void adapter_patterns_read(struct adapter_reader *r, struct adapter_patterns *p, const char *key, double lo, double hi);
/* The value (NAN after a fault of the config) of the first key that matches the module's name as PEFT matches it,
 * `(.*\.)?(key)$`; dflt without one. */
double adapter_patterns_find(struct adapter_patterns *p, const char *name, double dflt);
void   adapter_patterns_deinit(struct adapter_patterns *p); /* fine on a zeroed one */

/* A list of names of the config: modules, or parameters as module and last part. */
struct adapter_name {
    struct str  module;
    const char *last; /* within the config's string */
};
struct adapter_names {
    struct adapter_name *v;
    int                  n;
};

/* What PEFT's config tells beside what all formats have. */
struct adapter_peft {
    double                  alpha;
    bool                    rslora, bias, extra; /* alpha / sqrt(r); biases are trained; lora_bias */
    bool                    stopped;             /* a pattern's fault is said */
    struct adapter_patterns rank_pattern, alpha_pattern;
    struct adapter_names    targets, saved; /* target_parameters, modules_to_save */
};

struct adapter_rules;
struct adapter_reader {
    struct adapter_file        *f;
    bool                        copy;   /* of the tensors' file, in memory */
    struct config              *config; /* the top level alone; NULL when it could not be read */
    const struct adapter_rules *rules;
    struct faults              *faults;
    double                      scale; /* that the config tells for all modules; NAN: a fault of the config */
    struct adapter_peft         peft;
    struct adapter_piece       *piece;
    size_t                      n_piece;
    bool                        nomem;
};

/* What differs between formats. */
struct adapter_rules {
    const char *a, *b; /* how the tensors of a pair end, for messages */
    /* Reads the config: kind, rank, warnings; faults by config_fault. */
    void (*read_config)(struct adapter_reader *r);
    /* Reads a tensor's name; p->tensor is set. Names that mean nothing: adapter_unknown. */
    void (*read_name)(struct adapter_reader *r, struct adapter_piece *p);
    /* The scale of a module and the rank that the config tells for it; 0 and NAN: nothing that could be read. */
    double (*scale)(struct adapter_reader *r, const struct adapter_module *m, int64_t *rank);
};
extern const struct adapter_rules adapter_rules_mlx, adapter_rules_vlm, adapter_rules_peft;

/* Copies into the file's arena; NULL sets r->nomem. */
const char *adapter_text(struct adapter_reader *r, struct str s);
void        adapter_warn(struct adapter_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Faults about one tensor. */
void adapter_unknown(struct adapter_reader *r, struct adapter_piece *p);
void adapter_refuse(struct adapter_reader *r, struct adapter_piece *p, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether s ends in `end`, which is then cut off. */
bool adapter_cut(struct str *s, const char *end);

/* Sorts pieces into modules and parameters, with all checks that need no model. False for want of memory. */
bool adapter_gather(struct adapter_reader *r);

/* Feeds the config's bytes and every tensor to the hash, and looks for values that are not finite on the way. False for
 * want of memory. */
bool adapter_scan(struct adapter_reader *r, struct str config);

#endif
