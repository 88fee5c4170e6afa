/* Escapes of a pattern: characters, kinds of characters, places and references. Contracts in pattern_int.h. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/pattern_int.h"
#include "text/property.h"

/* --- characters --------------------------------------------------------------------------------------------------- */

static int digit(char c, int base)
{
    int d = num_hex_digit(c);
    return d < base ? d : -1;
}

/* Up to `max` digits at the place; how many there were. */
static int read_digits(struct reader *r, int base, int max, uint32_t *value)
{
    int n = 0;
    *value = 0;
    for (; n < max && r->p < r->end && digit(*r->p, base) >= 0; n++, r->p++)
        *value = MIN(*value * (uint32_t)base + (uint32_t)digit(*r->p, base), UNICODE_END);
    return n;
}

/* \x41 or \101, after the x or the backslash: a byte. */
static bool read_byte(struct reader *r, int base, uint32_t *byte)
{
    read_digits(r, base, base == 16 ? 2 : 3, byte);
    return *byte < 256 || pattern_refuse(r, ERR_FORMAT, "has an octal escape beyond a byte");
}

/* Escaped bytes that make a character of UTF-8 together. */
static bool byte_escape(struct reader *r, int base, uint32_t *cp)
{
    const char *mark = base == 16 ? "\\x" : "\\";
    char        bytes[4];
    size_t      n = 1, want;
    if (!read_byte(r, base, cp))
        return false;
    want = *cp < 0x80 ? 1 : *cp < 0xe0 ? 2 : *cp < 0xf0 ? 3 : 4;
    bytes[0] = (char)*cp;
    for (; n < want && pattern_accept(r, mark); n++) {
        if (!read_byte(r, base, cp))
            return false;
        bytes[n] = (char)*cp;
    }
    return utf8_decode(bytes, n, cp) == (int)n ||
           pattern_refuse(r, ERR_FORMAT, "has escaped bytes that are not a character of UTF-8");
}

/* \x{41} or \o{101}, after the letter; false without an error where this is not its form. */
static bool code_escape(struct reader *r, int base, uint32_t *cp)
{
    const char *from = r->p;
    if (!pattern_accept(r, "{") || !read_digits(r, base, base == 16 ? 8 : 11, cp)) {
        r->p = from;
        return false;
    }
    if (pattern_at(r, " ") || pattern_at(r, "-"))
        return pattern_unsupported(r, "several code points in one \\x{} or \\o{}");
    if (!pattern_accept(r, "}") || *cp >= UNICODE_END)
        return pattern_refuse(r, ERR_FORMAT, "has a malformed \\%c{} escape", base == 16 ? 'x' : 'o');
    return true;
}

/* \cA or \C-A, after the c or C-. */
static bool control_escape(struct reader *r, uint32_t *cp)
{
    if (r->p == r->end)
        return pattern_refuse(r, ERR_FORMAT, "ends in the middle of an escape");
    if (*r->p == '\\' || (unsigned char)*r->p >= 0x80)
        return pattern_unsupported(r, "a control escape of an escape");
    *cp = *r->p == '?' ? 0x7f : (uint32_t)*r->p & 0x9f;
    r->p++;
    return true;
}

bool pattern_char_escape(struct reader *r, bool in_class, uint32_t *cp)
{
    static const char from[] = "ntrfvae", to[] = "\n\t\r\f\v\a\x1b";
    const char       *hit;
    if (r->p == r->end)
        return pattern_refuse(r, ERR_FORMAT, "ends in a backslash");
    char c = *r->p;
    if (c >= '0' && c <= '7')
        return byte_escape(r, 8, cp);
    r->p += utf8_decode(r->p, (size_t)(r->end - r->p), cp);
    if (c && (hit = strchr(from, c)) != NULL) {
        *cp = (unsigned char)to[hit - from];
        return true;
    }
    switch (c) {
    case 'b':
        *cp = in_class ? '\b' : 'b';
        return true;
    case 'u':
        if (r->p == r->end)
            return true;
        return read_digits(r, 16, 4, cp) == 4 || pattern_refuse(r, ERR_FORMAT, "has a malformed \\u escape");
    case 'o':
        return code_escape(r, 8, cp) || (*cp = 'o', !r->status);
    case 'x':
        if (r->p == r->end || pattern_at(r, "{"))
            return code_escape(r, 16, cp) || (*cp = 'x', !r->status);
        return byte_escape(r, 16, cp);
    case 'c':
        return control_escape(r, cp);
    case 'C':
        return pattern_accept(r, "-") ? control_escape(r, cp)
                                      : pattern_refuse(r, ERR_FORMAT, "has a malformed \\C- escape") != NULL;
    case 'M':
        return pattern_unsupported(r, "the escape \\M-");
    default:
        return true;
    }
}

/* --- kinds of characters ------------------------------------------------------------------------------------------ */

static void only_ascii(struct charset *s)
{
    struct charset ascii = {0};
    charset_add(&ascii, 0, 0x7f);
    charset_sort(s);
    charset_intersect(s, &ascii);
    charset_deinit(&ascii);
}

/* The option under which a property holds for ASCII characters only. */
static unsigned ascii_option(struct str name)
{
    static const char *const posix[] = {"alnum", "alpha", "blank", "cntrl", "graph",
                                        "lower", "print", "punct", "upper", "xdigit"};
    if (str_is(name, "word"))
        return OPTION_ASCII_WORD;
    if (str_is(name, "digit"))
        return OPTION_ASCII_DIGIT;
    if (str_is(name, "space"))
        return OPTION_ASCII_SPACE;
    for (size_t i = 0; i < ARRAY_LEN(posix); i++)
        if (str_is(name, posix[i]))
            return OPTION_ASCII_POSIX;
    return 0;
}

bool pattern_add_property(struct reader *r, const char *name, bool negate, struct charset *s)
{
    struct charset one = {0};
    struct str     bare = *name == '[' ? (struct str){name + 1, strlen(name) - 2} : str_of(name);
    /* Outside classes Oniguruma takes superscripts and fractions of Latin-1 for word characters, inside it does not. */
    bool known = property_add(&one, r->in_class && str_is(bare, "word") ? "[word]" : name);
    if (known) {
        if (r->options & ascii_option(bare))
            only_ascii(&one);
        charset_sort(&one);
        if (negate)
            charset_negate(&one);
        charset_add_set(s, &one);
    }
    charset_deinit(&one);
    return known;
}

bool pattern_property(struct reader *r, bool negate, struct charset *s)
{
    const char *close = memchr(r->p, '}', (size_t)(r->end - r->p));
    char        name[PROPERTY_NAME_MAX + 1];
    size_t      n = 0;
    if (!close)
        return pattern_refuse(r, ERR_FORMAT, "has a property \\p{ without an end");
    if (pattern_accept(r, "^"))
        negate = !negate;
    struct str written = {r->p, (size_t)(close - r->p)};
    for (const char *p = r->p; p < close && n < PROPERTY_NAME_MAX; p++)
        if (*p != ' ' && *p != '-' && *p != '_')
            name[n++] = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
    name[n] = '\0';
    r->p = close + 1;
    if (memchr(name, '[', n) || !pattern_add_property(r, name, negate, s))
        return pattern_refuse(r, ERR_UNSUPPORTED, "uses the property \\p{%.*s}, which is unknown",
                              (int)MIN(written.n, (size_t)40), written.p);
    return true;
}

bool pattern_class_escape(struct reader *r, struct charset *s)
{
    static const char letters[] = "wdsh", *const names[] = {"word", "digit", "space", "xdigit"};
    char        c = r->p < r->end ? *r->p : '\0', lower = (char)(c | 32);
    const char *hit = c ? strchr(letters, lower) : NULL;
    if (hit && (c == lower || c == lower - 32)) {
        r->p++;
        return pattern_add_property(r, names[hit - letters], c != lower, s);
    }
    if (!pattern_at(r, "p{") && !pattern_at(r, "P{"))
        return false;
    r->p += 2;
    return pattern_property(r, c == 'P', s);
}

/* --- outside classes ---------------------------------------------------------------------------------------------- */

/* \b and \B: the sides differ, or do not differ, in being word characters. */
static struct node *word_edge(struct reader *r, bool edge)
{
    struct charset word = {0};
    size_t         set;
    char           text[200];
    const char    *yes = edge ? "!" : "=", *no = edge ? "=" : "!";
    pattern_add_property(r, "word", false, &word);
    if (!pattern_put_set(r, &word, &set))
        return NULL;
    char mark[32];
    snprintf(mark, sizeof mark, "%c%zu;", PATTERN_SET_MARK, set);
    snprintf(text, sizeof text, "(?:(?<=%s)(?%s%s)|(?<!%s)(?%s%s))", mark, yes, mark, mark, no, mark);
    return pattern_text_node(r, NODE_ASSERT, text);
}

/* \R: a line's end, of which CR LF is not parted. */
static struct node *line_end(struct reader *r)
{
    struct node   *n = pattern_node(r, NODE_ATOMIC), *choice = pattern_node(r, NODE_CHOICE);
    struct node   *pair = pattern_node(r, NODE_LIST), *cr, *lf, *one;
    struct charset s = {0};
    unsigned       options = r->options;
    r->options &= ~(unsigned)OPTION_FOLD;
    cr = pattern_char_node(r, '\r');
    lf = pattern_char_node(r, '\n');
    r->options = options;
    charset_add(&s, '\n', '\r');
    charset_add(&s, 0x85, 0x85);
    charset_add(&s, 0x2028, 0x2029);
    one = pattern_set_node(r, &s);
    if (!n || !choice || !pair || !cr || !lf || !one)
        return NULL;
    pattern_append(pair, cr);
    pattern_append(pair, lf);
    pattern_append(choice, pair);
    pattern_append(choice, one);
    pattern_append(n, choice);
    return n;
}

static struct node *reference(struct reader *r, const unsigned *groups, unsigned n_groups)
{
    struct node *n = pattern_node(r, NODE_BACK);
    if (!n)
        return NULL;
    if (r->options & OPTION_FOLD)
        return pattern_unsupported(r, "a back reference without regard to letter case");
    if (!(n->refs = arena_calloc(&r->arena, n_groups, sizeof *groups)))
        return pattern_refuse(r, ERR_NOMEM, "needs more memory than there is");
    for (unsigned i = 0; i < n_groups; i++) {
        if (!groups[i] || groups[i] > PATTERN_GROUPS_MAX)
            return pattern_refuse(r, ERR_FORMAT, "refers to a group that it does not have");
        if (r->open[groups[i]])
            return pattern_unsupported(r, "a back reference inside its own group");
        n->refs[i] = groups[i];
        r->wanted[groups[i]] = true;
    }
    n->n_refs = n_groups;
    r->out->compares = true;
    return n;
}

/* \k<name>, \k<1>, \k<-1>, after the k and the opening sign. */
static struct node *named_reference(struct reader *r, char close)
{
    const char *end = memchr(r->p, close, (size_t)(r->end - r->p));
    struct str  name = {r->p, end ? (size_t)(end - r->p) : 0};
    unsigned    groups[PATTERN_GROUPS_MAX], n = 0;
    bool        minus = name.n > 1 && *name.p == '-', plus = name.n > 1 && *name.p == '+';
    uint32_t    number = 0;
    if (!name.n)
        return pattern_refuse(r, ERR_FORMAT, "has a malformed reference \\k");
    r->p += minus || plus;
    if (read_digits(r, 10, 6, &number) && r->p == end) {
        r->by_number = true;
        if (minus)
            number = number <= r->n_groups ? r->n_groups + 1 - number : 0;
        else if (plus)
            number += r->n_groups;
        groups[n++] = number;
    }
    r->p = end + 1;
    for (unsigned i = r->n_names; !number && i-- > 0;)
        if (r->names[i].name.n == name.n && !memcmp(r->names[i].name.p, name.p, name.n))
            groups[n++] = r->names[i].group;
    if (!n)
        return pattern_refuse(r, ERR_UNSUPPORTED, "refers to '%.*s', which is no group before it",
                              (int)MIN(name.n, (size_t)40), name.p);
    return reference(r, groups, n);
}

/* \1 to \999: a reference where there are so many groups, or one digit; false where it is something else. */
static bool numbered_reference(struct reader *r, struct node **n)
{
    const char *from = r->p;
    uint32_t    number;
    if (*r->p >= '1' && *r->p <= '9' && read_digits(r, 10, 4, &number) && (number <= r->n_groups || number <= 9)) {
        r->by_number = true;
        *n = reference(r, &number, 1);
        return true;
    }
    r->p = from;
    return false;
}

static struct node *place(struct reader *r, char c)
{
    switch (c) {
    case 'b':
    case 'B':
        return word_edge(r, c == 'b');
    case 'G':
        return pattern_text_node(r, NODE_ASSERT, "\\G");
    case 'Z':
        return pattern_line_edge(r, "(?=", "?\\z)");
    case 'K':
        if (r->looks)
            return pattern_unsupported(r, "\\K in a look-around");
        return pattern_text_node(r, NODE_ASSERT, "\\K");
    default:
        return pattern_text_node(r, NODE_ASSERT, c == 'A' ? "\\A" : "\\z");
    }
}

struct node *pattern_escape(struct reader *r)
{
    struct charset s = {0};
    struct node   *n = NULL;
    uint32_t       cp;
    if (pattern_class_escape(r, &s))
        return pattern_set_node(r, &s);
    charset_deinit(&s);
    if (r->status || (r->p < r->end && numbered_reference(r, &n)))
        return n;
    char c = r->p < r->end ? *r->p : '\0';
    char next = r->p + 1 < r->end ? r->p[1] : '\0';
    if (c && strchr("bBGZKAz", c)) {
        r->p++;
        return place(r, c);
    }
    if (c == 'R' || c == 'X') {
        r->p++;
        return c == 'R' ? line_end(r) : pattern_segment(r);
    }
    if (c == 'N' || c == 'O') {
        r->p++;
        if (c == 'N')
            charset_add(&s, '\n', '\n');
        charset_negate(&s);
        return pattern_set_node(r, &s);
    }
    if (c == 'k' && (next == '<' || next == '\'')) {
        r->p += 2;
        return named_reference(r, next == '<' ? '>' : '\'');
    }
    if (c == 'y' || c == 'Y')
        return pattern_unsupported(r, "the escape \\y or \\Y");
    if (c == 'g' && (next == '<' || next == '\''))
        return pattern_unsupported(r, "a call of a group \\g<>");
    return pattern_char_escape(r, false, &cp) ? pattern_char_node(r, cp) : NULL;
}
