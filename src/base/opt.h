/* Command-line options from one table: the parser, the help text and the reference page are made from the same rows.
 *
 * A row says how an option is spelled, what it takes, its default, its range, the environment variables that stand in
 * for it, its section of the help, and the commands it belongs to (a bit each, so one table serves a program with many
 * commands). Values are stored at the row's offset in a struct of the caller's, whose members have the types below.
 *
 * `--name value` and `--name=value` are the same; `--` ends the options; a value may begin with '-'. A flag on the
 * command line beats the environment, also that of options it excludes, which beats the default. Of a repeated option the last one holds, except for
 * OPT_LIST, which keeps all. Two rows may share a member when their commands differ (another default, other spellings).
 */
#ifndef MLXCEL_BASE_OPT_H
#define MLXCEL_BASE_OPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum opt_kind {
    OPT_FLAG,   /* bool; takes no value */
    OPT_STOP,   /* bool; ends the parse at once, nothing else is checked: --help */
    OPT_INT,    /* int64_t */
    OPT_REAL,   /* double, finite */
    OPT_TEXT,   /* const char *, NULL when not given */
    OPT_CHOICE, /* const char *; one of the words in `meta`, which are separated by '|' */
    OPT_LIST    /* struct opt_list of texts */
};

struct opt_list {
    const char **v;
    size_t       n;
};

struct opt {
    enum opt_kind kind;
    const char   *names; /* "-c, --ctx-size, --context": the first long name is the one that messages use */
    const char   *meta;  /* what the value is called in the help: "N", "FILE"; choices of OPT_CHOICE; "" for a flag */
    const char   *fallback; /* the default as a user would write it, OPT_REQUIRED, or NULL: off, none */
    double        min, max; /* of numbers, both allowed; +-INFINITY: no limit */
    const char   *env;      /* "MLXCEL_CTX_SIZE, LLAMA_ARG_CTX_SIZE", the first that is set counts; "" for none */
    const char   *section;  /* heading in the help */
    uint64_t      commands; /* bit mask */
    const char   *help;     /* a sentence without its full stop */
    size_t        offset;   /* of the member that takes the value */
};

extern const char opt_required[]; /* recognised by its address */
#define OPT_REQUIRED opt_required

/* The rows that a command sees. */
struct opt_view {
    const struct opt *v;
    size_t            n;
    uint64_t          command; /* its bit */
    const char       *name;    /* for messages */
    const char *exclusive; /* "--a, --b": of these, one on the command line silences the others' variables; or NULL */
    const char *bare;      /* "--a": the option that the first argument without a name is, or NULL */
};

/* Parses argv[0..argc): options into *values (all members set, defaults included), the rest into *rest in order (with the
 * value of view->bare, which must not be given by its name as well).
 * env(name) returns a variable's text or NULL; env itself may be NULL. Lists live in the arena; texts are argv's or
 * env's. ERR_USAGE for an unknown option (naming the nearest one), a missing, malformed or unaccepted value (naming the
 * option, what was given and what is accepted) and a missing required option, which is the error's param; the sentence
 * says nothing of where help is. */
int opt_parse(const struct opt_view *view, int argc, char *const *argv, const char *(*env)(const char *name),
              void *values, struct opt_list *rest, struct arena *a, struct error *e);

/* Appends the options, grouped by section in the table's order: for a terminal (at most 100 columns) or as Markdown. */
void opt_help(const struct opt_view *view, struct buf *out);
void opt_markdown(const struct opt_view *view, struct buf *out);
/* Appends text, wrapped at 100 columns, each line indented. */
void opt_wrap(struct buf *out, const char *text, int indent);

/* Of n words the one that is nearest to `word`, or NULL when none is near enough to be meant. */
const char *opt_nearest(const char *word, const char *const *words, size_t n);

#endif
