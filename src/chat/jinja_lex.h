/* Tokens of a template. Text between tags is one token each, already trimmed as the tags' signs and trim_blocks,
 * lstrip_blocks ask. */
#ifndef MLXCEL_CHAT_JINJA_LEX_H
#define MLXCEL_CHAT_JINJA_LEX_H

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

/* TOKEN(name, spelling): operators by spelling (longest first, as the lexer tries them in this order), then the rest.
 */
#define JINJA_OPERATORS(TOKEN)                                                                                         \
    TOKEN(FLOORDIV, "//")                                                                                              \
    TOKEN(POW, "**")                                                                                                   \
    TOKEN(EQ, "==")                                                                                                    \
    TOKEN(NE, "!=")                                                                                                    \
    TOKEN(GE, ">=")                                                                                                    \
    TOKEN(LE, "<=")                                                                                                    \
    TOKEN(ADD, "+")                                                                                                    \
    TOKEN(SUB, "-")                                                                                                    \
    TOKEN(DIV, "/")                                                                                                    \
    TOKEN(MUL, "*")                                                                                                    \
    TOKEN(MOD, "%")                                                                                                    \
    TOKEN(TILDE, "~")                                                                                                  \
    TOKEN(LBRACKET, "[")                                                                                               \
    TOKEN(RBRACKET, "]")                                                                                               \
    TOKEN(LPAREN, "(") TOKEN(RPAREN, ")") TOKEN(LBRACE, "{") TOKEN(RBRACE, "}") TOKEN(GT, ">") TOKEN(LT, "<")          \
        TOKEN(ASSIGN, "=") TOKEN(DOT, ".") TOKEN(COLON, ":") TOKEN(PIPE, "|") TOKEN(COMMA, ",") TOKEN(SEMICOLON, ";")

enum token_type {
#define TOKEN(name, spelling) TOKEN_##name,
    JINJA_OPERATORS(TOKEN)
#undef TOKEN
        TOKEN_N_OPERATORS,
    TOKEN_IN = TOKEN_N_OPERATORS, /* made by the parser of the words `in` and `not in` */
    TOKEN_NOT_IN,
    TOKEN_TEXT,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_EOF
};

struct token {
    enum token_type type;
    uint32_t        line, column; /* from 1 */
    struct str      text;         /* of text, names, strings (escapes resolved) and integers (digits alone) */
    int             i;            /* base of an integer */
    double          d;
};

/* "+", "a name", "the end of the template": for messages. */
const char *jinja_token_name(const struct token *t);
/* Splits source into tokens, the last of which is TOKEN_EOF. Everything returned lies in the arena. */
int jinja_lex(struct arena *a, struct str source, const char *name, struct token **out, struct error *e);

#endif
