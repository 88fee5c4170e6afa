/* `lora`: what can be done with the files of adapters themselves. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cli/adapters.h"
#include "cli/api.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/rewrite.h"
#include "cli/table.h"
#include "convert/lora.h"

#define VERBS "inspect, convert or merge"

/* --- inspect ---------------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *facts, const char *key)
{
    const char *s = json_string_value(json_object_get(facts, key));
    return s ? s : "-";
}

static double end_of(const json_t *facts, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(facts, key), i));
}

static void print_range(const char *title, const json_t *facts, const char *key)
{
    double a = end_of(facts, key, 0), b = end_of(facts, key, 1);
    if (a == b)
        out_printf("%-12s%g\n", title, a);
    else
        out_printf("%-12s%g to %g\n", title, a, b);
}

/* A text of the files, behind a title. */
static void print_text(const char *title, int width, const char *text)
{
    char *shown = text_shown(text);
    if (shown)
        out_printf("%s%-*s", title, width, shown);
    free(shown);
}

static int print_facts(const json_t *facts, bool norms, struct error *e)
{
    static const struct column columns[] = {
        {"LAYER", "name", COLUMN_TEXT},          {"RANK", "rank", COLUMN_TEXT},
        {"SCALE", "scale", COLUMN_NUMBER},       {"STORED AS", "dtype", COLUMN_TEXT},
        {"CHANGE", "delta_norm", COLUMN_NUMBER}, {"WEIGHT", "weight_norm", COLUMN_NUMBER},
        {"RELATIVE", "relative", COLUMN_NUMBER}};
    bool          pairs = json_array_size(json_object_get(facts, "layers")) > 0; /* a full adapter has none */
    char          size[SIZE_TEXT];
    const char   *target;
    const json_t *n;
    size_t        i;
    out_printf("format      %s\nkind        %s\n", text_of(facts, "format"), text_of(facts, "kind"));
    print_text("base model  ", 0, text_of(facts, "base_model"));
    out_puts("\n");
    if (pairs) {
        print_range("rank", facts, "rank");
        print_range("scale", facts, "scale");
    }
    out_printf("parameters  %lld\nsize        %s\n",
               (long long)json_integer_value(json_object_get(facts, "parameters")),
               size_text(json_integer_value(json_object_get(facts, "bytes")), size));
    if (pairs)
        out_puts("targets\n");
    json_object_foreach((json_t *)json_object_get(facts, "targets"), target, n)
    {
        print_text("  ", 30, target);
        out_printf(" %lld\n", (long long)json_integer_value(n));
    }
    json_array_foreach(json_object_get(facts, "replaced"), i, n)
    {
        print_text("replaces    ", 0, json_string_value(n));
        out_puts("\n");
    }
    json_array_foreach(json_object_get(facts, "warnings"), i, n) err_warning("%s", json_string_value(n));
    if (!pairs)
        return 0;
    out_puts("\n");
    return table_print(json_object_get(facts, "layers"), columns, norms ? ARRAY_LEN(columns) : 4, e);
}

static int inspect(const struct options *o, const char *model, struct error *e)
{
    struct error fault = {0}, print = {0};
    json_t      *facts = NULL;
    int          err = lora_inspect(o->args.v[1], model, &facts, &fault), failed = 0;
    if (facts)
        failed = o->json ? output_json(json_incref(facts), &print) : print_facts(facts, model && !err, &print);
    json_decref(facts);
    if (e && (err || failed))
        *e = err ? fault : print;
    return err ? err : failed;
}

/* --- convert, merge --------------------------------------------------------------------------------------------- */

static int merge(const struct options *o, const struct lora_output *out, const char *to, struct error *e)
{
    size_t                  n = o->args.n - 1;
    struct convert_adapter *v = arena_calloc(o->arena, n, sizeof *v);
    if (!v)
        return error_nomem(e, "the adapters");
    for (size_t i = 0; i < n; i++) {
        float scale = 1;
        v[i].path = adapters_split(o, o->args.v[i + 1], &scale, e);
        v[i].scale = (double)scale;
        if (!v[i].path)
            return e->code;
    }
    return lora_merge(v, n, to, out, e);
}

static int write_new(const struct options *o, const char *model, bool merging, struct error *e)
{
    struct log         log = err_log(o->verbose);
    struct lora_output out = {
        .path = o->out, .model = model, .force = o->force, .log = &log, .progress = rewrite_show_progress};
    const char *to = strcmp(o->to, "auto") ? o->to : NULL;
    if (!o->out)
        return error_set(e, ERR_USAGE, "o", "lora %s needs -o OUT", o->args.v[0]);
    if (!merging && !to)
        return error_set(e, ERR_USAGE, "to", "lora convert needs --to peft or --to mlx");
    interrupt_hold(true); /* no half of it stays behind */
    int err = merging ? merge(o, &out, to, e) : lora_convert(o->args.v[1], to, &out, e);
    interrupt_hold(false);
    if (!err)
        err_note("made the adapter %s", o->out);
    return err;
}

int cmd_lora(const struct options *o, struct error *e)
{
    struct mlxcel_error fault = {0};
    const char         *verb = o->args.n ? o->args.v[0] : "";
    bool                look = !strcmp(verb, "inspect"), merging = !strcmp(verb, "merge");
    char               *dir = NULL;
    if (!look && !merging && strcmp(verb, "convert"))
        return *verb ? error_set(e, ERR_USAGE, NULL, "lora %s is none of " VERBS, verb)
                     : error_set(e, ERR_USAGE, NULL, "lora needs " VERBS);
    if (o->args.n < 2 || (!merging && o->args.n > 2))
        return error_set(e, ERR_USAGE, NULL, "lora %s needs %s", verb,
                         merging ? "adapters, PATH[:SCALE]..." : "one adapter");
    if (o->model && mlxcel_resolve(o->model, &dir, &fault))
        return api_fault(&fault, e);
    int err = look ? inspect(o, dir, e) : write_new(o, dir, merging, e);
    mlxcel_free(dir);
    return err;
}
