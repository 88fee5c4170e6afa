/* `tokenize`: text on stdin to ids, or to pieces with their places. Reads tokenizer files only. */
#include "cli/api.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/pieces.h"

struct job {
    const struct tokenizer *tokenizer;
    unsigned                flags;  /* for tokenizer_encode */
    bool                    pieces; /* with texts and places */
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

static int encode_ids(const struct job *job, struct str text, json_t **out, struct error *e)
{
    struct ids ids = {0};
    int        rc = tokenizer_encode(job->tokenizer, text, job->flags, &ids, e);
    if (!rc) {
        *out = ids_to_json(&ids);
        rc = *out ? 0 : error_nomem(e, "the ids");
    }
    ids_deinit(&ids);
    return rc;
}

static int encode_pieces(const struct job *job, struct str text, json_t **out, struct error *e)
{
    struct token_pieces pieces = {0};
    int                 rc = tokenizer_encode_pieces(job->tokenizer, text, job->flags, &pieces, e);
    if (!rc) {
        *out = pieces_json(job->tokenizer, &pieces);
        rc = *out ? 0 : error_nomem(e, "the pieces");
    }
    token_pieces_deinit(&pieces);
    return rc;
}

static int encode(const struct job *job, const json_t *value, json_t **out, struct error *e)
{
    struct str text = {json_string_value(value), json_string_length(value)};
    if (!json_is_string(value))
        return error_set(e, ERR_INVALID, NULL, "the line: a JSON string is needed");
    return (job->pieces ? encode_pieces : encode_ids)(job, text, out, e);
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

static int print_pieces(const struct job *job, struct str text, struct error *e)
{
    struct token_pieces pieces = {0};
    int                 rc = tokenizer_encode_pieces(job->tokenizer, text, job->flags, &pieces, e);
    if (!rc)
        rc = pieces_print(job->tokenizer, &pieces, e);
    token_pieces_deinit(&pieces);
    return rc;
}

static int print_ids(const struct job *job, struct str text, struct error *e)
{
    struct ids ids = {0};
    int        rc = tokenizer_encode(job->tokenizer, text, job->flags, &ids, e);
    if (!rc)
        print_array(&ids);
    ids_deinit(&ids);
    return rc;
}

static int tokenize_stdin(const struct job *job, bool json, struct error *e)
{
    json_t    *list = NULL;
    struct buf text;
    int        rc = input_read(&text, NULL, e);
    if (!rc && job->pieces && json) {
        rc = encode_pieces(job, buf_str(&text), &list, e);
        rc = rc ? rc : output_json(list, e);
    } else if (!rc)
        rc = (job->pieces ? print_pieces : print_ids)(job, buf_str(&text), e);
    buf_deinit(&text);
    return rc;
}

int cmd_tokenize(const struct options *o, struct error *e)
{
    struct tokenizer *t = NULL;
    if (o->ids && o->pieces)
        return error_set(e, ERR_USAGE, NULL, "tokenize prints --ids or --pieces, not both");
    int rc = api_tokenizer(o, &t, e);
    if (!rc) {
        struct job job = {.tokenizer = t,
                          .flags = (o->no_parse_special ? 0 : TOKENIZE_PARSE_SPECIAL) |
                                   (o->no_special ? 0 : TOKENIZE_ADD_SPECIAL),
                          .pieces = o->pieces || !(o->ids || o->jsonl || o->json)};
        rc = o->jsonl ? input_each_line(answer, &job, e) : tokenize_stdin(&job, o->json, e);
    }
    tokenizer_free(t);
    return rc;
}
