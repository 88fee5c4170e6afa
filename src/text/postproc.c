/* The post-processors TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel (which concerns offsets only)
 * and Sequence of these. Of a template only the form for a single text counts; it must hold that text once. In a
 * sequence only one may add tokens: what the reference makes of two has no use. */
#include "text/postproc.h"

#include <jansson.h>
#include <stdlib.h>

void postproc_deinit(struct postproc *p)
{
    ids_deinit(&p->before);
    ids_deinit(&p->after);
}

static int push_id(struct component *c, struct ids *to, const json_t *id)
{
    json_int_t v = json_integer_value(id);
    if (!json_is_integer(id) || v < 0 || v > INT32_MAX)
        return component_malformed(c, "has a token id that is not an integer from 0 on");
    return ids_push(to, (int32_t)v) ? 0 : error_nomem(c->e, "a tokenizer");
}

/* The ids of a template's token, by its name in special_tokens. */
static int push_named(struct component *c, const json_t *o, const char *name, struct ids *to)
{
    const json_t *ids = json_object_get(json_object_get(json_object_get(o, "special_tokens"), name), "ids");
    size_t        i;
    json_t       *id;
    int           status = 0;
    if (!json_is_array(ids))
        return error_set(c->e, ERR_FORMAT, c->role, "%s: special_tokens lacks '%.100s', which the template uses",
                         c->role, name);
    json_array_foreach((json_t *)ids, i, id)
    {
        if ((status = push_id(c, to, id)) != 0)
            break;
    }
    return status;
}

static int load_template(struct component *c, const json_t *o, struct ids *before, struct ids *after)
{
    json_t     *part, *single = json_object_get(o, "single");
    struct ids *to = before;
    size_t      i;
    int         status = 0;
    if (!json_is_array(single))
        return component_malformed(c, "has no list \"single\"");
    json_array_foreach(single, i, part)
    {
        const json_t *special = json_object_get(part, "SpecialToken"), *sequence = json_object_get(part, "Sequence");
        const char   *name = json_string_value(json_object_get(special ? special : sequence, "id"));
        if (!name)
            return component_malformed(c, "has a template part that is neither SpecialToken nor Sequence");
        if (special && (status = push_named(c, o, name, to)) != 0)
            return status;
        if (sequence && (strcmp(name, "A") != 0 || to == after))
            return component_unsupported(c, "TemplateProcessing with other than one text");
        if (sequence)
            to = after;
    }
    return to == after ? 0 : component_unsupported(c, "TemplateProcessing without the text");
}

/* "cls" and "sep": pairs of text and id. */
static int load_bert(struct component *c, const json_t *o, struct ids *before, struct ids *after)
{
    int status = push_id(c, before, json_array_get(json_object_get(o, "cls"), 1));
    return status ? status : push_id(c, after, json_array_get(json_object_get(o, "sep"), 1));
}

static bool append(struct ids *to, const struct ids *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (!ids_push(to, from->v[i]))
            return false;
    return true;
}

static int load_step(struct component *c, const char *type, const json_t *o, void *ctx)
{
    struct postproc *p = ctx;
    struct ids       before = {0}, after = {0};
    int              status = 0;
    if (!strcmp(type, "TemplateProcessing"))
        status = load_template(c, o, &before, &after);
    else if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing"))
        status = load_bert(c, o, &before, &after);
    else if (strcmp(type, "ByteLevel") != 0)
        status = component_unsupported(c, type);
    if (!status && before.n + after.n && p->before.n + p->after.n)
        status = component_unsupported(c, "Sequence of two processors that add tokens");
    if (!status && (!append(&before, &p->before) || !append(&p->after, &after)))
        status = error_nomem(c->e, "a tokenizer");
    struct ids inner = p->before;
    p->before = before;
    ids_deinit(&inner);
    ids_deinit(&after);
    return status;
}

int postproc_load(struct postproc *p, struct component *c, const json_t *o)
{
    return component_each(c, o, "processors", load_step, p);
}
