/* Opening an adapter: where its files are, what format they have, and the reading in order. Contracts in file.h.
 *
 * Nothing stops at the first fault: without a config the tensors are still looked at, and the other way round. */
#include "adapt/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "adapt/file_int.h"
#include "base/file.h"
#include "base/num.h"

#define ARENA_MAX ((size_t)512 << 20) /* names and arrays, a small multiple of the header's size */
#define CONFIG_MAX ((size_t)16 << 20)
#define MLX_TENSORS "adapters.safetensors"
#define PEFT_TENSORS "adapter_model.safetensors"

/* What adapters were also stored in, by the end of a file's name, and why it is not read. */
static const struct foreign {
    const char *end, *file; /* file: what it is called in an adapter's directory, or NULL */
    const char *why;
} foreign[] = {
    {".bin", "adapter_model.bin",
     "a Python pickle, which is not read since it can run code: save the adapter again with safe_serialization=True, "
     "which writes " PEFT_TENSORS},
    {".npz", "adapters.npz",
     "an archive of NumPy, which is not supported: save its arrays with mx.save_safetensors as " MLX_TENSORS},
    {".gguf", NULL, "a GGUF file, which is not supported: take the safetensors adapter that it was made from"},
    {".json", NULL, "no file of tensors: name the directory that holds it"},
};

void adapter_file_warn(const struct adapter_file *f, const struct log *log)
{
    for (size_t i = 0; i < f->n_warning; i++)
        log_warning(log, "%s", f->warning[i]);
}

int adapter_order(const uint64_t hash_a[2], float scale_a, const uint64_t hash_b[2], float scale_b)
{
    for (int i = 0; i < 2; i++)
        if (hash_a[i] != hash_b[i])
            return hash_a[i] < hash_b[i] ? -1 : 1;
    return scale_a < scale_b ? -1 : scale_a > scale_b;
}

const char *adapter_format_name(enum adapter_format format)
{
    static const char *const name[] = {"mlx-lm", "mlx-vlm", "peft"};
    return name[format];
}

const char *adapter_kind_name(enum adapter_kind kind)
{
    static const char *const name[] = {"lora", "dora", "full"};
    return name[kind];
}

const char *adapter_text(struct adapter_reader *r, struct str s)
{
    const char *copy = arena_strdup(&r->f->arena, s.p, s.n);
    r->nomem |= !copy;
    return copy;
}

void adapter_warn(struct adapter_reader *r, const char *fmt, ...)
{
    struct adapter_file *f = r->f;
    char                 text[ERROR_MSG_MAX];
    va_list              ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (f->n_warning < ARRAY_LEN(f->warning) && (f->warning[f->n_warning] = adapter_text(r, str_of(text))))
        f->n_warning++;
}

bool adapter_cut(struct str *s, const char *end)
{
    size_t n = strlen(end);
    if (s->n < n || memcmp(s->p + s->n - n, end, n))
        return false;
    s->n -= n;
    return true;
}

/* --- places ------------------------------------------------------------------------------------------------------- */

struct place {
    char *dir, *tensors; /* tensors: the file that PATH itself is, or NULL */
};

/* Whether path is a file of a kind that is known and not read; *faults has it then. */
static bool refuse_foreign(const char *path, struct faults *faults)
{
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
        struct str s = str_of(path);
        if (adapter_cut(&s, foreign[i].end)) {
            faults_add(faults, ERR_UNSUPPORTED, file_base(path), "%s is %s", path, foreign[i].why);
            return true;
        }
    }
    return false;
}

static int find_place(struct place *p, const char *path, struct faults *faults, struct error *e)
{
    struct stat st;
    const char *base = file_base(path);
    if (stat(path, &st)) {
        faults_add(faults, ERR_NOT_FOUND, path, "there is no adapter at %s%s", path,
                   strchr(path, ':') ? " (a scale, where one is taken, is a number behind the last colon)" : "");
        return 0;
    }
    if (!S_ISDIR(st.st_mode) && refuse_foreign(path, faults))
        return 0;
    if (S_ISDIR(st.st_mode))
        p->dir = strdup(path);
    else if (base == path)
        p->dir = strdup(".");
    else
        p->dir = strndup(path, (size_t)(base - path)); /* with its slash, so that "/" stays one */
    if (!S_ISDIR(st.st_mode))
        p->tensors = strdup(path);
    return p->dir && (p->tensors || S_ISDIR(st.st_mode)) ? 0 : error_nomem(e, "a path");
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* The tensors' file in dir: the format's own name first. NULL: *faults has it, or out of memory. */
static char *find_tensors(const struct place *p, enum adapter_format format, struct faults *faults)
{
    const char *const own[] = {format == ADAPTER_FORMAT_PEFT ? PEFT_TENSORS : MLX_TENSORS,
                               format == ADAPTER_FORMAT_PEFT ? MLX_TENSORS : PEFT_TENSORS};
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(own) + ARRAY_LEN(foreign); i++) {
        const char *name = i < ARRAY_LEN(own) ? own[i] : foreign[i - ARRAY_LEN(own)].file;
        char       *path;
        if (!name)
            continue;
        if (asprintf(&path, "%s/%s", p->dir, name) < 0)
            return NULL;
        if (exists(path) && i < ARRAY_LEN(own))
            return path;
        known |= exists(path) && refuse_foreign(path, faults);
        free(path);
    }
    if (!known)
        faults_add(faults, ERR_NOT_FOUND, MLX_TENSORS,
                   "%s holds neither " MLX_TENSORS " (mlx-lm) nor " PEFT_TENSORS
                   " (PEFT): name the directory that does, or the file of the tensors itself",
                   p->dir);
    return NULL;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Puts what failed beside other faults; only want of memory remains a failure. */
static int collect(struct faults *faults, const struct error *fault, const char *name, struct error *e)
{
    if (fault->code == ERR_NOMEM)
        return error_set(e, ERR_NOMEM, fault->param, "%s", fault->msg);
    if (fault->code)
        faults_add(faults, fault->code, *fault->param ? fault->param : name, "%s", fault->msg);
    return 0;
}

static int read_config(struct adapter_reader *r, const struct place *p, struct buf *text, struct error *e)
{
    struct error fault = {0};
    char        *path;
    if (asprintf(&path, "%s/" ADAPTER_CONFIG, p->dir) < 0)
        return error_nomem(e, "a path");
    int err = file_read(text, path, &fault);
    if (fault.code == ERR_NOT_FOUND)
        err =
            error_set(&fault, ERR_NOT_FOUND, ADAPTER_CONFIG,
                      "there is no %s, which tells the adapter's scale: copy it from where the adapter was trained or "
                      "published",
                      path);
    if (!err)
        err = config_parse(&r->f->config, buf_str(text), ADAPTER_CONFIG, &fault);
    if (!err && !(r->config = config_top(r->f->config)))
        error_nomem(&fault, "the adapter's config");
    free(path);
    return collect(r->faults, &fault, ADAPTER_CONFIG, e);
}

static enum adapter_format format_of(struct config *c)
{
    if (!c)
        return ADAPTER_FORMAT_MLX_LM;
    if (config_has(c, "peft_type"))
        return ADAPTER_FORMAT_PEFT;
    if (config_has(c, "lora_parameters") || config_has(c, "fine_tune_type"))
        return ADAPTER_FORMAT_MLX_LM;
    if (config_has(c, "rank"))
        return ADAPTER_FORMAT_MLX_VLM;
    return config_has(c, "lora_alpha") ? ADAPTER_FORMAT_PEFT : ADAPTER_FORMAT_MLX_LM;
}

/* Without a config the names of the tensors tell. */
static void guess_format(struct adapter_reader *r)
{
    for (size_t i = 0; !r->config && i < checkpoint_count(r->f->tensors); i++)
        if (strstr(checkpoint_at(r->f->tensors, i)->name, ".lora_A"))
            r->f->format = ADAPTER_FORMAT_PEFT;
}

static int open_tensors(struct adapter_reader *r, struct place *p, struct error *e)
{
    struct error  fault = {0};
    struct faults before = *r->faults;
    if (!p->tensors)
        p->tensors = find_tensors(p, r->f->format, r->faults);
    if (!p->tensors)
        return r->faults->n > before.n || r->faults->nomem ? 0 : error_nomem(e, "a path");
    checkpoint_open_file(&r->f->tensors, p->tensors, r->copy, &fault);
    return collect(r->faults, &fault, file_base(p->tensors), e);
}

static int read_tensors(struct adapter_reader *r, struct str config, struct error *e)
{
    size_t n = checkpoint_count(r->f->tensors);
    r->piece = arena_calloc(&r->f->arena, MAX(n, (size_t)1), sizeof *r->piece);
    if (!r->piece || !adapter_scan(r, config))
        return error_nomem(e, "the adapter's tensors");
    for (size_t i = 0; i < n; i++) {
        struct adapter_piece *p = &r->piece[r->n_piece];
        *p = (struct adapter_piece){.tensor = checkpoint_at(r->f->tensors, i)};
        r->rules->read_name(r, p);
        if (p->part && !r->nomem)
            r->n_piece++;
    }
    return r->nomem || !adapter_gather(r) ? error_nomem(e, "the adapter's tensors") : 0;
}

static int read_all(struct adapter_reader *r, struct place *p, struct buf *config, struct error *e)
{
    static const struct adapter_rules *const rules[] = {&adapter_rules_mlx, &adapter_rules_vlm, &adapter_rules_peft};
    struct error                             fault = {0};
    int                                      err = read_config(r, p, config, e);
    if (err)
        return err;
    r->f->format = format_of(r->config);
    err = open_tensors(r, p, e);
    if (err)
        return err;
    if (r->f->tensors)
        guess_format(r);
    r->rules = rules[r->f->format];
    if (r->config)
        r->rules->read_config(r);
    if (r->f->tensors)
        err = read_tensors(r, buf_str(config), e);
    if (!err && r->nomem)
        err = error_nomem(e, "the adapter's config");
    if (!err && r->config) {
        config_report(r->f->config, &fault);
        err = collect(r->faults, &fault, ADAPTER_CONFIG, e);
    }
    return err;
}

static int open_file(struct adapter_file **out, const char *path, bool copy, struct faults *faults, struct error *e)
{
    struct adapter_reader r = {.faults = faults, .copy = copy};
    struct place          p = {0};
    struct buf            config;
    *out = NULL;
    r.f = calloc(1, sizeof *r.f);
    if (!r.f)
        return error_nomem(e, "the adapter");
    arena_init(&r.f->arena, ARENA_MAX);
    buf_init(&config, CONFIG_MAX);
    int err = find_place(&p, path, faults, e);
    if (!err && !(r.f->path = strdup(path)))
        err = error_nomem(e, "the adapter");
    if (!err && p.dir)
        err = read_all(&r, &p, &config, e);
    if (err || !r.f->tensors)
        adapter_file_free(r.f);
    else
        *out = r.f;
    adapter_patterns_deinit(&r.peft.rank_pattern);
    adapter_patterns_deinit(&r.peft.alpha_pattern);
    buf_deinit(&config);
    free(p.dir);
    free(p.tensors);
    return err;
}

int adapter_file_open(struct adapter_file **out, const char *path, struct faults *faults, struct error *e)
{
    return open_file(out, path, false, faults, e);
}

int adapter_file_read(struct adapter_file **out, const char *path, struct faults *faults, struct error *e)
{
    return open_file(out, path, true, faults, e);
}

void adapter_file_free(struct adapter_file *f)
{
    if (!f)
        return;
    checkpoint_close(f->tensors);
    config_free(f->config);
    arena_deinit(&f->arena);
    free(f->path);
    free(f);
}
