/* The tokenizers of checkpoints without a tokenizer.json: which file is taken, and the sources that read one each. */
#ifndef MLXCEL_TEXT_SOURCES_H
#define MLXCEL_TEXT_SOURCES_H

#include "text/draft.h"

/* Makes the text of a tokenizer.json from the other files of d->dir. d->path becomes the file with the vocabulary.
 * ERR_NOT_FOUND names all files that would do. */
int sources_draft(struct draft *d);

/* The sources, each given its file's content (vocab.json's for the last but one; it opens merges.txt beside it). */
int  sentencepiece_draft(struct draft *d, struct str file);
bool tiktoken_is(struct str file); /* whether a file begins as a rank list does */
int  tiktoken_draft(struct draft *d, struct str file);
int  vocab_json_draft(struct draft *d, struct str file);
int  vocab_txt_draft(struct draft *d, struct str file);

#endif
