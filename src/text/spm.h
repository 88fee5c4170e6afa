/* A SentencePiece model file (tokenizer.model): its pieces and those of its settings that encoding depends on, read from
 * sentencepiece_model.proto's ModelProto.
 *
 * Refused: the types WORD and CHAR, and treat_whitespace_as_suffix, which no published language model uses. Skipped: what
 * concerned the training, the self-test data and the denormalizer.
 */
#ifndef MLXCEL_TEXT_SPM_H
#define MLXCEL_TEXT_SPM_H

#include "base/error.h"
#include "text/vocab.h"

enum spm_type { SPM_UNIGRAM = 1, SPM_BPE = 2, SPM_WORD = 3, SPM_CHAR = 4 };
enum spm_kind { SPM_NORMAL = 1, SPM_UNKNOWN, SPM_CONTROL, SPM_USER_DEFINED, SPM_UNUSED, SPM_BYTE };

#define SPM_PIECES_MAX 2000000
#define SPM_PIECE_MAX 1024 /* bytes of one */

struct spm {
    struct vocab vocab; /* the pieces, by id, indexed */
    struct spm_piece {
        float   score;
        uint8_t kind; /* enum spm_kind */
    } * pieces;       /* [n] */
    size_t n, cap;

    enum spm_type type;
    bool          byte_fallback;
    int32_t       unk_id;         /* the piece of type UNKNOWN */
    int32_t       bos_id, eos_id; /* as the trainer was told; negative: there is none */
    struct str    bos, eos;       /* their texts, which need not be pieces; views of the file, as is charsmap */

    struct str charsmap; /* the precompiled normalization; n = 0: none */
    bool       add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
};

/* Reads the content of a file, which must outlive *m; `path` is for messages. spm_deinit *m also after a failure.
 * ERR_FORMAT, ERR_UNSUPPORTED, ERR_LIMIT, ERR_NOMEM. */
int  spm_read(struct spm *m, struct str file, const char *path, struct error *e);
void spm_deinit(struct spm *m);

#endif
