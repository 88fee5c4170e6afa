/* `template`: renders a chat template, as the model's own tokenizer would, without any change to the messages. */
#include <time.h>

#include "chat/template.h"
#include "cli/api.h"
#include "cli/input.h"
#include "cli/output.h"

#define TEXT_MAX ((size_t)256 << 20)

struct job {
    const struct chat_template *template;
    int64_t now; /* what strftime_now shows */
};

/* Appends the rendering of a JSON text; `name` says where it came from. */
static int render(const struct job *job, struct str json, const char *name, struct buf *text, struct error *e)
{
    json_t *request = NULL;
    int     rc = input_json(&request, json, name, e);
    if (!rc && !json_is_object(request))
        rc = error_set(e, ERR_INVALID, NULL, "%s: a JSON object with messages is needed", name);
    if (!rc)
        rc = chat_template_render(job->template, request, job->now, text, e);
    json_decref(request);
    return rc;
}

static int answer(void *ctx, struct str line, json_t **out, struct error *e)
{
    struct buf text;
    int        rc;
    buf_init(&text, TEXT_MAX);
    rc = render(ctx, line, "the line", &text, e);
    if (!rc) {
        *out = json_stringn(buf_cstr(&text), text.n);
        rc = *out ? 0 : error_nomem(e, "the text");
    }
    buf_deinit(&text);
    return rc;
}

static int render_file(const struct job *job, const char *path, struct error *e)
{
    struct buf in, text;
    int        rc = input_read(&in, path, e);
    buf_init(&text, TEXT_MAX);
    if (!rc)
        rc = render(job, buf_str(&in), input_name(path), &text, e);
    if (!rc)
        rc = out_buf(&text, e);
    buf_deinit(&text);
    buf_deinit(&in);
    return rc;
}

/* --file is --chat-template-file without a model. */
static int load(const struct options *o, struct chat_template **t, struct error *e)
{
    struct chat_template_choice choice = {.name = o->chat_template, .file = o->chat_template_file};
    char                        dir[PATH_MAX];
    struct buf                  source;
    int                         rc;
    if (o->model) {
        rc = api_directory(o->model, dir, e);
        return rc ? rc : chat_template_load(t, dir, &choice, e);
    }
    if (!o->template_file)
        return chat_template_load(t, NULL, &choice, e);
    rc = input_read(&source, o->template_file, e);
    if (!rc)
        rc = chat_template_from_source(t, buf_str(&source), input_name(o->template_file), e);
    buf_deinit(&source);
    return rc;
}

static int check(const struct options *o, struct error *e)
{
    bool chosen = o->chat_template || o->chat_template_file;
    if ((o->template_file && (o->model || chosen)) || !(o->template_file || o->model || chosen))
        return error_set(e, ERR_USAGE, NULL, "template needs --model DIR or --file X.jinja, one of them");
    if (o->chat_template && o->chat_template_file)
        return error_set(e, ERR_USAGE, NULL, "--chat-template and --chat-template-file exclude each other");
    if (!o->input == !o->jsonl)
        return error_set(e, ERR_USAGE, NULL, "template needs --input FILE (- for stdin) or --jsonl, one of them");
    return 0;
}

int cmd_template(const struct options *o, struct error *e)
{
    struct chat_template *t = NULL;
    int                   rc = check(o, e);
    if (!rc)
        rc = load(o, &t, e);
    if (!rc) {
        struct job job = {t, (int64_t)time(NULL)};
        rc = o->jsonl ? input_each_line(answer, &job, e) : render_file(&job, o->input, e);
    }
    chat_template_free(t);
    return rc;
}
