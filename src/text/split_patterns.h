/* The patterns by which byte-level vocabularies cut a text into words, as the models' publishers wrote them, each as a C
 * string. GPT-2's is not here: the component ByteLevel has it built in. */
#ifndef MLXCEL_TEXT_SPLIT_PATTERNS_H
#define MLXCEL_TEXT_SPLIT_PATTERNS_H

#define SPLIT_CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPLIT_TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define SPLIT_LLAMA3                                                                                                   \
    SPLIT_CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPLIT_TAIL
#define SPLIT_QWEN2 SPLIT_CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPLIT_TAIL
#define SPLIT_QWEN3_5                                                                                                  \
    SPLIT_CONTRACTION                                                                                                  \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPLIT_TAIL

/* Two kinds of words, upper case then lower case, from the classes of letters given; `end` may follow either. */
#define SPLIT_CASED(upper, lower, end)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" end "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" end
#define SPLIT_UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define SPLIT_LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"

#define SPLIT_O200K                                                                                                    \
    SPLIT_CASED("[" SPLIT_UPPER "]", "[" SPLIT_LOWER "]", SPLIT_CONTRACTION "?")                                       \
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPLIT_TAIL
#define SPLIT_TEKKEN                                                                                                   \
    SPLIT_CASED("[" SPLIT_UPPER "]", "[" SPLIT_LOWER "]", "") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPLIT_TAIL
#define SPLIT_KIMI                                                                                                     \
    "[\\p{Han}]+|" SPLIT_CASED("[" SPLIT_UPPER "&&[^\\p{Han}]]", "[" SPLIT_LOWER "&&[^\\p{Han}]]",                     \
                               SPLIT_CONTRACTION "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPLIT_TAIL
/* Without two of its possessive signs: `$` is the end of a line and {1,3}+ repeats in the dialect of tokenizer.json. */
#define SPLIT_CL100K                                                                                                   \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}"                                                \
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++\\z|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"
#define SPLIT_R50K "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++\\z|\\s+(?!\\S)|\\s"

#endif
