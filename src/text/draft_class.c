/* Which tokenizer class a checkpoint has: transformers' AutoTokenizer, as far as it concerns us. The class that
 * tokenizer_config.json (else config.json) names counts, unless the model's type has the generic class. */
#include "text/draft.h"

#include <jansson.h>

#include "base/num.h"

struct model_type {
    const char *name, *class_name;
};
static const struct model_type types[] = {
#define MODEL_TYPE(name, class_name) {name, class_name},
#include "text/model_types.def"
#undef MODEL_TYPE
};

/* Published configurations of these types name a class that is not theirs. */
static const char *const class_is_the_types[] = {"qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text"};

/* Names of classes that are others under a second name, and of the generic ones. */
static const char *const aliases[][2] = {{"BartTokenizer", "RobertaTokenizer"},
                                         {"Phi3Tokenizer", "LlamaTokenizer"},
                                         {"DistilBertTokenizer", "BertTokenizer"},
                                         {"ElectraTokenizer", "BertTokenizer"},
                                         {"MobileBertTokenizer", "BertTokenizer"},
                                         {"ConvBertTokenizer", "BertTokenizer"},
                                         {"LayoutLMTokenizer", "BertTokenizer"},
                                         {"PreTrainedTokenizer", NULL},
                                         {"TokenizersBackend", NULL},
                                         {"BloomTokenizer", NULL},
                                         {"MistralCommonBackend", NULL}};

static const struct model_type *find_type(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_LEN(types); i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}

int draft_choose_class(struct draft *d)
{
    const char              *named = json_string_value(json_object_get(d->config, "tokenizer_class"));
    const char              *type_name = json_string_value(json_object_get(d->model, "model_type"));
    const struct model_type *type = find_type(type_name);
    bool                     remote = json_object_get(d->config, "auto_map") != NULL;
    if (!named)
        named = json_string_value(json_object_get(d->model, "tokenizer_class"));
    d->class_name = type ? type->class_name : NULL;
    if (!named || (type && !type->class_name && !remote))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(class_is_the_types) && type; i++)
        if (!strcmp(type->name, class_is_the_types[i]))
            return 0;
    size_t n = strlen(named);
    if (n > 4 && !strcmp(named + n - 4, "Fast"))
        n -= 4;
    if (!(d->class_name = arena_strdup(&d->arena, named, n)))
        return draft_nomem(d);
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (!strcmp(d->class_name, aliases[i][0])) {
            d->class_name = aliases[i][1];
            break;
        }
    return 0;
}
