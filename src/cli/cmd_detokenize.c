/* `detokenize`: ids on stdin to text. Reads tokenizer files only. */
#include "cli/api.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/token_ids.h"

#define TEXT_MAX ((size_t)1 << 30)

struct job {
    const struct tokenizer *tokenizer;
    bool                    skip_special;
};

/* Appends the text of a JSON array of ids. */
static int decode(const struct job *job, struct str array, const char *name, struct buf *text, struct error *e)
{
    struct ids ids = {0};
    int        rc = token_ids_from_json(&ids, array, name, e);
    if (!rc)
        rc = tokenizer_decode(job->tokenizer, ids.v, ids.n, job->skip_special, text, e);
    ids_deinit(&ids);
    return rc;
}

static int answer(void *ctx, struct str line, json_t **out, struct error *e)
{
    struct buf text;
    int        rc;
    buf_init(&text, TEXT_MAX);
    rc = decode(ctx, line, "the line", &text, e);
    if (!rc) {
        *out = json_stringn(buf_cstr(&text), text.n);
        rc = *out ? 0 : error_nomem(e, "the text");
    }
    buf_deinit(&text);
    return rc;
}

static int detokenize_stdin(const struct job *job, struct error *e)
{
    struct buf in, text;
    int        rc = input_read(&in, NULL, e);
    buf_init(&text, TEXT_MAX);
    if (!rc)
        rc = decode(job, buf_str(&in), input_name(NULL), &text, e);
    if (!rc)
        rc = out_buf(&text, e);
    buf_deinit(&text);
    buf_deinit(&in);
    return rc;
}

int cmd_detokenize(const struct options *o, struct error *e)
{
    struct tokenizer *t = NULL;
    int               rc = api_tokenizer(o, &t, e);
    if (!rc) {
        struct job job = {t, o->skip_special};
        rc = o->jsonl ? input_each_line(answer, &job, e) : detokenize_stdin(&job, e);
    }
    tokenizer_free(t);
    return rc;
}
