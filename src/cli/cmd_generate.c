/* `generate`: one prompt, one answer on stdout; statistics on stderr, or all of it as one JSON object. */
#include "base/clock.h"
#include "cli/api.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/reply.h"

static int read_prompt(const struct options *o, struct buf *text, struct error *e)
{
    if (o->prompt && o->prompt_file)
        return error_set(e, ERR_USAGE, NULL, "--prompt and --file exclude each other");
    if (!o->prompt)
        return input_read(text, o->prompt_file, e);
    buf_init(text, INPUT_MAX);
    buf_puts(text, o->prompt);
    return text->failed ? error_nomem(e, "the prompt") : 0;
}

static int chat_prompt(const struct options *o, const struct mlxcel *m, struct str text, struct prompt *p,
                       struct error *e)
{
    json_t *messages = json_array();
    int     rc = messages ? 0 : error_nomem(e, "the messages");
    if (!rc && o->system)
        rc = prompt_add(messages, "system", str_of(o->system), e);
    if (!rc)
        rc = prompt_add(messages, "user", text, e);
    if (!rc)
        rc = prompt_from_messages(p, m, messages, e);
    json_decref(messages);
    return rc;
}

static int make_prompt(const struct options *o, const struct mlxcel *m, struct str text, struct prompt *p,
                       struct error *e)
{
    struct mlxcel_info info;
    mlxcel_get_info(m, &info);
    if (!o->raw && info.has_template)
        return chat_prompt(o, m, text, p, e);
    if (o->system)
        return error_set(e, ERR_USAGE, NULL, "--system needs a chat template%s",
                         o->raw ? ", which --raw leaves out" : ", which the model does not have");
    return prompt_from_text(p, m, text, e);
}

static int print_json(const struct reply *a, const struct mlxcel_info *info, struct error *e)
{
    json_t *v =
        json_pack("{s:s, s:s%, s:s, s:s?, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:I}", "model", info->name, "text",
                  buf_cstr(&a->text), a->text.n, "finish_reason", reply_finish_name(a), "stop", a->stop,
                  "prompt_tokens", a->n_prompt, "cached_tokens", a->n_cached, "completion_tokens", a->n_answer,
                  "load_s", info->load_seconds, "ttft_s", a->first_seconds, "prompt_tok_s", reply_prompt_rate(a),
                  "decode_tok_s", reply_decode_rate(a), "peak_rss_bytes", (json_int_t)process_peak_rss());
    return output_json(v, e);
}

static int report(const struct options *o, const struct mlxcel *m, const struct reply *a, struct error *e)
{
    struct mlxcel_info info;
    if (!o->json || a->finish == MLXCEL_CANCELLED)
        return reply_finish(a, m, e);
    mlxcel_get_info(m, &info);
    return print_json(a, &info, e);
}

int cmd_generate(const struct options *o, struct error *e)
{
    struct mlxcel_options options;
    struct mlxcel_params  params;
    struct mlxcel        *m = NULL;
    struct prompt         prompt = {0};
    struct reply          a;
    struct buf            text = {0};
    int                   rc = api_chat_options(o, &options, e);
    reply_init(&a, !o->json);
    if (!rc)
        rc = read_prompt(o, &text, e);
    if (!rc)
        rc = reply_params(o, &params, e);
    if (!rc)
        rc = api_open(&m, o->model, &options, e);
    if (!rc)
        rc = make_prompt(o, m, buf_str(&text), &prompt, e);
    if (!rc)
        rc = reply_run(&a, m, prompt.ids, prompt.n, &params, e);
    if (!rc)
        rc = report(o, m, &a, e);
    prompt_deinit(&prompt);
    mlxcel_close(m);
    reply_deinit(&a);
    buf_deinit(&text);
    return rc;
}
