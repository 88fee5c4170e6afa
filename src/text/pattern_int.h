/* Inside of pattern.h: the tree between reading a pattern (pattern.c, pattern_group.c, pattern_escape.c,
 * pattern_class.c) and writing it (pattern_write.c, pattern_behind.c). */
#ifndef MLXCEL_TEXT_PATTERN_INT_H
#define MLXCEL_TEXT_PATTERN_INT_H

#include "base/arena.h"
#include "text/pattern.h"

#define PATTERN_UNBOUNDED UINT32_MAX

enum node_kind {
    NODE_CHAR,   /* cp, in any letter case where `fold` */
    NODE_SET,    /* set */
    NODE_ASSERT, /* text: a test of a place, or \K, in PCRE2's words */
    NODE_TEXT,   /* text: an atomic group in PCRE2's words */
    NODE_LIST,   /* children, one after the other; without any it is the empty string */
    NODE_CHOICE, /* children, one of them */
    NODE_REPEAT, /* child, min, max, manner */
    NODE_GROUP,  /* child; group is its number, 0 where it has none: captures where something refers to it */
    NODE_ATOMIC, /* child */
    NODE_LOOK,   /* child, text: how it opens, behind */
    NODE_BACK    /* refs: groups, of which the first that has matched counts */
};

enum manner { GREEDY, LAZY, POSSESSIVE };

struct node {
    enum node_kind kind;
    struct node   *child, *last, *next;
    uint32_t       cp;
    bool           fold, behind;
    uint32_t       min, max; /* max may be PATTERN_UNBOUNDED */
    enum manner    manner;
    size_t         set;
    const char    *text;
    unsigned       group, n_refs, *refs;
    /* pattern_behind.c: */
    uint32_t shortest, longest; /* characters that it can match */
    uint32_t ways;              /* fixed lengths that it can be cut into; 0: too many, or none */
};

/* Options in force. */
enum {
    OPTION_FOLD = 1,
    OPTION_DOT_ALL = 2,
    OPTION_EXTENDED = 4,
    OPTION_ASCII_WORD = 8,
    OPTION_ASCII_DIGIT = 16,
    OPTION_ASCII_SPACE = 32,
    OPTION_ASCII_POSIX = 64 /* sets the three before, too */
};

#define PATTERN_GROUPS_MAX 256u

struct group_name {
    struct str name;
    unsigned   group;
};

struct reader {
    struct pattern   *out;
    struct str        source;
    const char       *p, *end;
    struct arena      arena;
    unsigned          options;
    int               depth;                          /* open groups */
    int               behind, looks;                  /* open look-behinds, and look-arounds of any kind */
    unsigned          n_groups, n_names;              /* groups by number (from 1), names given so far */
    struct group_name names[PATTERN_GROUPS_MAX];      /* [n_names] */
    bool              wanted[PATTERN_GROUPS_MAX + 1]; /* something refers to the group */
    bool              by_number;                      /* something refers to a group by its number */
    bool              open[PATTERN_GROUPS_MAX + 1];   /* groups that are being read */
    bool              in_class;
    unsigned          n_written; /* nodes, each as often as it is written */
    int               status;    /* of the first error */
    struct error     *e;
};

/* What fails returns NULL (or false), with r->status and the error set. */
void        *pattern_refuse(struct reader *r, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void        *pattern_unsupported(struct reader *r, const char *what); /* "uses WHAT, which is not supported" */
struct node *pattern_node(struct reader *r, enum node_kind kind);
struct node *pattern_text_node(struct reader *r, enum node_kind kind, const char *text);
struct node *pattern_char_node(struct reader *r, uint32_t cp);
void         pattern_append(struct node *parent, struct node *child); /* a LIST in a LIST dissolves */
/* Takes the set over; gives the number of an equal one where there is one. */
bool         pattern_put_set(struct reader *r, struct charset *s, size_t *number);
struct node *pattern_set_node(struct reader *r, struct charset *s); /* takes the set over */

bool pattern_at(const struct reader *r, const char *z);
bool pattern_accept(struct reader *r, const char *z);

/* Alternatives up to a ')' or the end, which stays. */
struct node *pattern_alternatives(struct reader *r);
/* The group whose '(' has been read. *rest: it was an option for all that follows in the group around, (?i), and the
 * node is all that. */
struct node *pattern_group(struct reader *r, bool *rest);
/* What stands after a backslash that has been read, outside classes. */
struct node *pattern_escape(struct reader *r);
/* An assertion in PCRE2's words, with a line feed between the two texts. */
struct node *pattern_line_edge(struct reader *r, const char *before, const char *after);
/* \X: an extended grapheme cluster. */
struct node *pattern_segment(struct reader *r);
/* Adds a property by its name in the table, or its opposite; false where there is none. */
bool pattern_add_property(struct reader *r, const char *name, bool negate, struct charset *s);
/* \p{...} and the like, after the brace. */
bool pattern_property(struct reader *r, bool negate, struct charset *s);
/* Adds \d \s \w \h or their opposites, after the backslash; false where it is no such escape. */
bool pattern_class_escape(struct reader *r, struct charset *s);
/* The one character that an escape means, after the backslash. */
bool pattern_char_escape(struct reader *r, bool in_class, uint32_t *cp);
/* A class, after its '['. */
struct node *pattern_class(struct reader *r);

/* Writes the tree into r->out->structure. */
void pattern_write(struct reader *r, struct node *tree);
/* Lengths and ways of the tree, for pattern_write_behind. */
void pattern_measure(struct reader *r, struct node *n);
void pattern_write_behind(struct reader *r, const struct node *look);
/* False after a failure, when all writing is to end. */
bool pattern_writable(const struct reader *r);
void pattern_write_node(struct reader *r, const struct node *n, bool behind);

#endif
