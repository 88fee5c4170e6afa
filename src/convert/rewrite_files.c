/* The files beside the weights: config.json, whose members stay as they are written but for what the weights have become,
 * and copies of everything else that belongs to a model. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/num.h"
#include "convert/rewrite.h"

#define CONFIG_MAX ((size_t)16 << 20)
#define FILES_MAX 10000
#define FORMS_MAX 64 /* MLX has 21 */

/* --- config.json ------------------------------------------------------------------------------------------------ */

/* The end of the JSON value at p, in a text that has been parsed before. */
static const char *value_end(const char *p, const char *end)
{
    int depth = 0;
    for (; p < end; p++) {
        if (*p == '"') {
            for (p++; p < end && *p != '"'; p++)
                p += *p == '\\';
        } else if (*p == '{' || *p == '[') {
            depth++;
        } else if (*p == '}' || *p == ']' || *p == ',') {
            if (depth == 0)
                return p;
            depth -= *p != ',';
        }
    }
    return end;
}

/* inner: of text_config, which may say how weights are stored, too. */
static bool replaced(const struct rewrite *r, struct str key, bool inner)
{
    static const char *const quantization[] = {"\"quantization\"", "\"quantization_config\""};
    static const char *const type[] = {"\"torch_dtype\"", "\"dtype\""};
    static const char *const left_out[] = {"\"_name_or_path\"", "\"vision_config\""}; /* as mlx-lm does */
    for (int i = 0; i < 2; i++)
        if (str_is(key, quantization[i]) ||
            (!inner && (str_is(key, left_out[i]) || (r->o->dtype != DTYPE_NONE && str_is(key, type[i])))))
            return true;
    return false;
}

static bool put_members(const struct rewrite *r, struct str text, bool inner, struct buf *out);

/* One member: as it is written, but for what is within text_config. */
static void put_member(const struct rewrite *r, struct str key, struct str value, bool inner, struct buf *out)
{
    const char *brace = value.p + strspn(value.p, ": \t\r\n");
    buf_put(out, key.p, key.n);
    if (inner || !str_is(key, "\"text_config\"") || *brace != '{') {
        buf_put(out, value.p, value.n);
        return;
    }
    buf_puts(out, ": {");
    bool any = put_members(r, (struct str){brace, value.n - (size_t)(brace - value.p)}, true, out);
    buf_puts(out, any ? "\n    }" : "}");
}

/* Copies the members of an object but those that are replaced or left out. False: there are none. */
static bool put_members(const struct rewrite *r, struct str text, bool inner, struct buf *out)
{
    const char *p = text.p + 1, *end = text.p + text.n;
    bool        any = false;
    while (p < end) {
        const char *key = p + strspn(p, " \t\r\n,"), *stop = value_end(key, end);
        if (*key != '"')
            break;
        const char *colon = key + 1, *last = stop;
        while (*colon != '"')
            colon += *colon == '\\' ? 2 : 1;
        colon++;
        while (last > key && strchr(" \t\r\n", last[-1]))
            last--;
        struct str name = {key, (size_t)(colon - key)};
        if (!replaced(r, name, inner)) {
            buf_printf(out, "%s\n%s", any ? "," : "", inner ? "        " : "    ");
            put_member(r, name, (struct str){colon, (size_t)(last - colon)}, inner, out);
            any = true;
        }
        p = stop;
    }
    return any;
}

static json_t *form_json(const struct quant *q)
{
    return q->mode == QUANT_NONE ? json_false()
                                 : json_pack("{s:i, s:i, s:s}", "group_size", q->group, "bits", q->bits, "mode",
                                             quant_mode_name(q->mode));
}

static bool same_form(const struct quant *a, const struct quant *b)
{
    return a->mode == b->mode && a->bits == b->bits && a->group == b->group;
}

/* The form that most quantized values of the output have: what config.json declares for all, where nothing was asked. */
static const struct quant *common_form(const struct rewrite *r)
{
    struct {
        const struct quant *form;
        int64_t             n;
    } seen[FORMS_MAX];
    size_t n = 0, best = 0;
    if (r->o->quantize && !r->change) /* fused adapters: as each was */
        return &r->o->form;
    for (size_t i = 0; i < r->n; i++) {
        const struct rewrite_param *v = &r->v[i];
        size_t                      k = 0;
        while (k < n && !same_form(seen[k].form, &v->form))
            k++;
        if (v->form.mode == QUANT_NONE || k == FORMS_MAX)
            continue;
        if (k == n) {
            seen[n].form = &v->form;
            seen[n++].n = 0;
        }
        seen[k].n += v->n_out * v->n_in;
        best = seen[k].n > seen[best].n ? k : best;
    }
    return n ? seen[best].form : NULL;
}

/* {"group_size": ..., "bits": ..., "mode": ..., "<module>": {...}, ...}; NULL when nothing is quantized. */
static json_t *quantization(const struct rewrite *r)
{
    const struct quant *all = common_form(r);
    json_t             *q = all ? form_json(all) : NULL;
    for (size_t i = 0; q && i < r->n; i++) {
        const struct rewrite_param *v = &r->v[i];
        if (v->own || (v->form.mode != QUANT_NONE && !same_form(&v->form, all)))
            json_object_set_new(q, v->p->name, form_json(&v->form));
    }
    return q;
}

static const char *torch_name(enum dtype d)
{
    return d == DTYPE_F32 ? "float32" : d == DTYPE_F16 ? "float16" : "bfloat16";
}

static int put_quantization(const struct rewrite *r, struct buf *out, struct error *e)
{
    json_t *q = quantization(r);
    char   *text = q ? json_dumps(q, JSON_INDENT(4)) : NULL;
    bool    failed = q && !text;
    for (int twice = 0; text && twice < 2; twice++) { /* mlx-lm writes both names */
        buf_puts(out, twice ? ",\n    \"quantization_config\": " : "\"quantization\": ");
        for (const char *p = text; *p; p++) {
            buf_putc(out, *p);
            if (*p == '\n')
                buf_puts(out, "    ");
        }
    }
    free(text);
    json_decref(q);
    return failed ? error_nomem(e, "config.json") : 0;
}

int rewrite_config(const struct rewrite *r, const struct dir_out *out, struct error *e)
{
    struct buf     in, text;
    struct config *parsed = NULL;
    char           path[PATH_MAX];
    int            err;
    buf_init(&in, CONFIG_MAX);
    buf_init(&text, 2 * CONFIG_MAX);
    snprintf(path, sizeof path, "%s/config.json", r->dir);
    err = file_read(&in, path, e);
    if (!err)
        err = config_parse(&parsed, buf_str(&in), path, e); /* what is there now */
    if (!err) {
        struct str  whole = buf_str(&in);
        const char *brace = memchr(whole.p, '{', whole.n);
        buf_putc(&text, '{');
        bool any = put_members(r, (struct str){brace, whole.n - (size_t)(brace - whole.p)}, false, &text);
        buf_puts(&text, any ? ",\n    " : "\n    ");
        if (r->o->dtype != DTYPE_NONE)
            buf_printf(&text, "\"torch_dtype\": \"%s\",\n    ", torch_name(r->o->dtype));
        err = put_quantization(r, &text, e);
        size_t n = text.n; /* without the comma that waits for more */
        while (!text.failed && n && strchr(" \n,", text.p[n - 1]))
            n--;
        text.n = text.failed ? text.n : n;
        buf_puts(&text, "\n}\n");
    }
    if (!err)
        err = text.failed ? error_nomem(e, "config.json") : dir_out_write(out, "config.json", text.p, text.n, e);
    config_free(parsed);
    buf_deinit(&in);
    buf_deinit(&text);
    return err;
}

/* --- copies ----------------------------------------------------------------------------------------------------- */

/* Weights of any kind, and what is written anew. */
static bool is_copied(const char *name)
{
    static const char *const ends[] = {".safetensors", ".index.json", ".bin",  ".pt",  ".pth",    ".gguf",
                                       ".h5",          ".msgpack",    ".onnx", ".npz", ".tflite", "/config.json"};
    char                     slashed[NAME_MAX + 2];
    snprintf(slashed, sizeof slashed, "/%s", name);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t n = strlen(slashed), k = strlen(ends[i]);
        if (n >= k && !strcmp(slashed + n - k, ends[i]))
            return false;
    }
    return name[0] != '.';
}

int rewrite_copy(const struct rewrite *r, const struct dir_out *out, const char *name, struct error *e)
{
    struct file_map m = {0};
    char            path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    int err = file_map_open(&m, path, e);
    if (!err)
        err = dir_out_write(out, name, m.p, m.n, e);
    file_map_close(&m);
    return err;
}

static int copy_folder(const struct rewrite *r, const struct dir_out *out, const char *folder, struct error *e)
{
    char path[PATH_MAX], name[PATH_MAX];
    int  err = 0, n = 0;
    snprintf(path, sizeof path, "%s/%s", r->dir, folder);
    DIR *d = opendir(path);
    if (!d)
        return *folder ? 0 : error_errno(e, errno, "read", path);
    if (*folder)
        err = dir_out_mkdir(out, folder, e);
    for (struct dirent *f; !err && (f = readdir(d));) {
        struct stat st;
        snprintf(name, sizeof name, "%s%s%s", folder, *folder ? "/" : "", f->d_name);
        if (!is_copied(f->d_name) || fstatat(dirfd(d), f->d_name, &st, 0) || !S_ISREG(st.st_mode))
            continue;
        err = ++n > FILES_MAX ? error_set(e, ERR_LIMIT, NULL, "%s holds more than %d files", path, FILES_MAX)
                              : rewrite_copy(r, out, name, e);
    }
    closedir(d);
    return err;
}

int rewrite_copies(const struct rewrite *r, const struct dir_out *out, struct error *e)
{
    int err = copy_folder(r, out, "", e);
    return err ? err : copy_folder(r, out, "additional_chat_templates", e);
}
