/* `tokenize`: text on stdin to ids. Reads tokenizer files only. */
#include "cli/api.h"
#include "cli/input.h"
#include "cli/output.h"
#include "text/tokenizer.h"

struct job {
    const struct tokenizer *tokenizer;
    unsigned                flags; /* for tokenizer_encode */
};

/* NULL: out of memory. */
static json_t *ids_to_json(const struct ids *ids)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < ids->n; i++) {
        if (json_array_append_new(array, json_integer(ids->v[i]))) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static int encode(const struct job *job, const json_t *value, json_t **out, struct error *e)
{
    struct str text = {json_string_value(value), json_string_length(value)};
    struct ids ids = {0};
    int        rc;
    if (!json_is_string(value))
        return error_set(e, ERR_INVALID, NULL, "the line: a JSON string is needed");
    rc = tokenizer_encode(job->tokenizer, text, job->flags, &ids, e);
    if (!rc) {
        *out = ids_to_json(&ids);
        rc = *out ? 0 : error_nomem(e, "the ids");
    }
    ids_deinit(&ids);
    return rc;
}

static int answer(void *ctx, struct str line, json_t **out, struct error *e)
{
    json_t *value = NULL;
    int     rc = input_json(&value, line, "the line", e);
    if (!rc)
        rc = encode(ctx, value, out, e);
    json_decref(value);
    return rc;
}

static void print_array(const struct ids *ids)
{
    out_puts("[");
    for (size_t i = 0; i < ids->n; i++)
        out_printf("%s%d", i ? ", " : "", ids->v[i]);
    out_puts("]\n");
}

/* For people: a line per token, its id and its text as the vocabulary writes it. */
static void print_table(const struct tokenizer *t, const struct ids *ids)
{
    for (size_t i = 0; i < ids->n; i++) {
        struct str text = tokenizer_token(t, ids->v[i]);
        out_printf("%8d  " STR_FMT "\n", ids->v[i], STR_ARG(text));
    }
}

static int tokenize_stdin(const struct job *job, bool table, struct error *e)
{
    struct ids ids = {0};
    struct buf text;
    int        rc = input_read(&text, NULL, e);
    if (!rc)
        rc = tokenizer_encode(job->tokenizer, buf_str(&text), job->flags, &ids, e);
    if (!rc && table)
        print_table(job->tokenizer, &ids);
    else if (!rc)
        print_array(&ids);
    ids_deinit(&ids);
    buf_deinit(&text);
    return rc;
}

int cmd_tokenize(const struct options *o, struct error *e)
{
    struct tokenizer *t = NULL;
    int               rc = api_tokenizer(o, &t, e);
    if (!rc) {
        struct job job = {t, (o->no_parse_special ? 0 : TOKENIZE_PARSE_SPECIAL) |
                                 (o->no_special ? 0 : TOKENIZE_ADD_SPECIAL)};
        rc = o->jsonl ? input_each_line(answer, &job, e) : tokenize_stdin(&job, !o->ids, e);
    }
    tokenizer_free(t);
    return rc;
}
