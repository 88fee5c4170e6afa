/* Loading small tokenizer.json texts, most of which are refused. To be included after cmocka.h. */
#ifndef TESTS_SUPPORT_BAD_TOKENIZER_H
#define TESTS_SUPPORT_BAD_TOKENIZER_H

#include "text/tokenizer_int.h"

#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3,\" \":4}"
#define MODEL "\"model\":{\"type\":\"BPE\"," VOCAB ",\"merges\":[\"a b\"]}"

static struct tokenizer *load(const char *json, struct error *e)
{
    struct tokenizer *t = NULL;
    int               status;
    *e = (struct error){0};
    status = tokenizer_load_text(&t, str_of(json), "dir/tokenizer.json", NULL, e);
    assert_int_equal(status, e->code);
    assert_true(!status == !!t);
    return t;
}

/* Refused with a code and a sentence that begins with the file's name and holds `word`. */
static void refused(int code, const char *json, const char *word)
{
    struct error      e;
    struct tokenizer *t = load(json, &e);
    if (t)
        fail_msg("accepted: %s", json);
    if (e.code != code || strncmp(e.msg, "dir/tokenizer.json: ", 20) != 0 || !strstr(e.msg, word))
        fail_msg("%s: code %d (wanted %d): '%s' without '%s'", json, e.code, code, e.msg, word);
}

#endif
