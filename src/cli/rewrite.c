/* See rewrite.h. */
#include "cli/rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/dir.h"
#include "base/num.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "convert/convert.h"

/* --- forms ------------------------------------------------------------------------------------------------------ */

static int form_fault(const char *text, struct error *e)
{
    return error_set(
        e, ERR_USAGE, "q",
        "--q %.200s is not PATTERN=FORM, FORM being dense or MODE[:BITS[:GROUP]] with a mode of affine, mxfp4, "
        "mxfp8, nvfp4",
        text);
}

/* A form that MLX does not have is wrong usage. */
static int check_form(const struct quant *form, const char *option, const char *text, struct error *e)
{
    struct error why = {0};
    if (!quant_check(form, &why))
        return 0;
    return error_set(e, ERR_USAGE, "mode", "%s %.200s: %s", option, text, why.msg);
}

/* "MODE[:BITS[:GROUP]]" */
static int parse_form(const char *text, const char *whole, struct quant *out, struct error *e)
{
    char  mode[16], *end;
    long  n[2] = {0, 0};
    int   given = 0;
    char *at = strchr(text, ':');
    snprintf(mode, sizeof mode, "%.*s", at ? (int)MIN(at - text, 15) : 15, text);
    for (; at && *at == ':' && given < 2; at = end, given++) {
        n[given] = strtol(at + 1, &end, 10);
        if (end == at + 1 || n[given] < 1 || n[given] > 128)
            return form_fault(whole, e);
    }
    *out = quant_default(quant_mode_from_name(mode));
    if (out->mode == QUANT_NONE || (at && *at))
        return form_fault(whole, e);
    out->bits = n[0] ? (int)n[0] : out->bits;
    out->group = n[1] ? (int)n[1] : out->group;
    return check_form(out, "--q", whole, e);
}

static int parse_rule(const char *text, struct convert_rule *rule, char **pattern, struct error *e)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return form_fault(text, e);
    *pattern = strndup(text, (size_t)(equals - text));
    if (!*pattern)
        return error_nomem(e, "the rules");
    rule->pattern = *pattern;
    rule->form = (struct quant){QUANT_NONE, 0, 0, DTYPE_NONE};
    return strcmp(equals + 1, "dense") ? parse_form(equals + 1, text, &rule->form, e) : 0;
}

/* --- progress --------------------------------------------------------------------------------------------------- */

bool rewrite_show_progress(void *ctx, size_t done, size_t total)
{
    (void)ctx;
    err_bar(done, total);
    return !interrupt_pending();
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static enum dtype dtype_of(const char *word)
{
    return !strcmp(word, "float32")    ? DTYPE_F32
           : !strcmp(word, "float16")  ? DTYPE_F16
           : !strcmp(word, "bfloat16") ? DTYPE_BF16
                                       : DTYPE_NONE;
}

static int check_combination(const struct options *o, enum rewrite_what what, struct error *e)
{
    bool recipe = o->recipe && strcmp(o->recipe, "none");
    if (what == REWRITE_LAYOUT && (recipe || o->q.n || o->bits || o->group_size || strcmp(o->mode, "affine")))
        return error_set(e, ERR_USAGE, NULL, "how to quantize is said, but not -q, --quantize");
    if (what == REWRITE_QUANTIZE && recipe && (strcmp(o->mode, "affine") || o->bits))
        return error_set(e, ERR_USAGE, NULL,
                         "--recipe %s chooses affine and the bits; --mode and --bits do not go with it", o->recipe);
    return 0;
}

/* What a GGUF file becomes other than what it holds goes through a directory within a hidden one beside the output. */
static int convert_file(const char *path, const char *out, const struct convert_options *c, struct error *e)
{
    struct convert_options import = {.force = c->force, .log = c->log, .progress = c->progress};
    struct dir_out         aside = {0};
    char                   imported[PATH_MAX];
    if (!c->quantize && c->dtype == DTYPE_NONE)
        return convert_gguf(path, out, &import, e);
    int err = dir_out_begin(&aside, out, path, c->force, e);
    if (!err)
        err = dir_out_file(&aside, "imported", imported, e);
    if (!err)
        err = convert_gguf(path, imported, &import, e);
    if (!err)
        err = convert_model(imported, out, c, e);
    dir_out_abort(&aside);
    return err;
}

static int convert(const char *source, const char *out, const struct convert_options *c, struct error *e)
{
    struct stat st;
    bool        is_dir = stat(source, &st) == 0 && S_ISDIR(st.st_mode);
    interrupt_hold(true); /* the directory appears whole or not at all, and no half of it stays behind */
    int err = is_dir ? convert_model(source, out, c, e) : convert_file(source, out, c, e);
    interrupt_hold(false);
    if (!err)
        err_note("made the model directory %s", out);
    return err;
}

int rewrite_model(const struct options *o, const char *source, enum rewrite_what what, struct error *e)
{
    struct log             log = err_log(o->verbose);
    struct convert_rule   *rules = calloc(o->q.n + 1, sizeof *rules);
    char                 **patterns = calloc(o->q.n + 1, sizeof *patterns);
    struct convert_options c = {.quantize = what == REWRITE_QUANTIZE,
                                .dequantize = what == REWRITE_DEQUANTIZE,
                                .rules = rules,
                                .n_rules = o->q.n,
                                .dtype = dtype_of(o->dtype),
                                .threads = (int)o->threads,
                                .force = o->force,
                                .log = &log,
                                .progress = rewrite_show_progress};
    int                    err = rules && patterns ? check_combination(o, what, e) : error_nomem(e, "the rules");
    if (what == REWRITE_QUANTIZE) {
        c.form = quant_default(quant_mode_from_name(o->mode));
        c.form.bits = o->bits ? (int)o->bits : c.form.bits;
        c.form.group = o->group_size ? (int)o->group_size : c.form.group;
        if (!err)
            err = check_form(&c.form, "--mode", o->mode, e);
        c.recipe = strcmp(o->recipe, "none") ? o->recipe : NULL;
    }
    for (size_t i = 0; i < o->q.n && !err; i++)
        err = parse_rule(o->q.v[i], &rules[i], &patterns[i], e);
    if (!err)
        err = convert(source, o->out, &c, e);
    for (size_t i = 0; patterns && i < o->q.n; i++)
        free(patterns[i]);
    free(patterns);
    free(rules);
    return err;
}
