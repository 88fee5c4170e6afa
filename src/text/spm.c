/* See spm.h. Field numbers are sentencepiece_model.proto's; a setting that the file leaves out has the proto's default. */
#include "text/spm.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "text/protobuf.h"

struct reader {
    struct spm   *m;
    const char   *path;
    struct error *e;
};

static int malformed(struct reader *r, const char *what)
{
    return error_set(r->e, ERR_FORMAT, NULL, "%s: not a SentencePiece model: %s", r->path, what);
}

static int bad_piece(struct reader *r, int code, const char *what)
{
    return error_set(r->e, code, NULL, "%s: piece %zu %s", r->path, r->m->n, what);
}

/* ---- ModelProto.pieces ---- */

static int put_piece(struct reader *r, struct str text, float score, uint64_t kind)
{
    struct spm       *m = r->m;
    struct spm_piece *v;
    if (m->n >= SPM_PIECES_MAX)
        return bad_piece(r, ERR_LIMIT, "is one piece too many");
    if (!text.n)
        return bad_piece(r, ERR_FORMAT, "is empty");
    if (text.n > SPM_PIECE_MAX)
        return bad_piece(r, ERR_LIMIT, "is longer than 1024 bytes");
    if (utf8_valid_prefix(text.p, text.n) != text.n)
        return bad_piece(r, ERR_FORMAT, "is not UTF-8");
    if (!isfinite(score))
        return bad_piece(r, ERR_FORMAT, "has a score that is not a finite number");
    if (kind < SPM_NORMAL || kind > SPM_BYTE)
        return bad_piece(r, ERR_FORMAT, "is of an unknown type");
    if (!(v = vec_room(m->pieces, m->n, &m->cap, sizeof *v)))
        return error_nomem(r->e, "the vocabulary");
    m->pieces = v;
    m->pieces[m->n] = (struct spm_piece){score, (uint8_t)kind};
    return vocab_put(&m->vocab, (int32_t)m->n++, text) ? 0 : error_nomem(r->e, "the vocabulary");
}

static int read_piece(struct reader *r, struct str message)
{
    struct protobuf       p = protobuf_of(message);
    struct protobuf_field f;
    struct str            text = {0};
    float                 score = 0;
    uint64_t              kind = SPM_NORMAL;
    while (protobuf_next(&p, &f))
        if (f.number == 1 && f.kind == PROTOBUF_BYTES)
            text = f.bytes;
        else if (f.number == 2 && f.kind == PROTOBUF_FIXED32)
            score = protobuf_float(&f);
        else if (f.number == 3 && f.kind == PROTOBUF_VARINT)
            kind = f.value;
    return p.why ? malformed(r, p.why) : put_piece(r, text, score, kind);
}

/* ---- the settings ---- */

static void set_type(struct spm *m, uint64_t value)
{
    m->type = (enum spm_type)MIN(value, (uint64_t)SPM_CHAR + 1);
}

static int read_trainer(struct reader *r, struct str message)
{
    struct protobuf       p = protobuf_of(message);
    struct protobuf_field f;
    struct spm           *m = r->m;
    bool                  suffix = false;
    while (protobuf_next(&p, &f)) {
        if (f.kind == PROTOBUF_VARINT)
            switch (f.number) {
            case 3:
                set_type(m, f.value);
                break;
            case 24:
                suffix = f.value != 0;
                break;
            case 35:
                m->byte_fallback = f.value != 0;
                break;
            case 41:
                m->bos_id = (int32_t)f.value;
                break;
            case 42:
                m->eos_id = (int32_t)f.value;
                break;
            default:
                break;
            }
        else if (f.kind == PROTOBUF_BYTES && f.number == 46)
            m->bos = f.bytes;
        else if (f.kind == PROTOBUF_BYTES && f.number == 47)
            m->eos = f.bytes;
    }
    if (suffix)
        return error_set(r->e, ERR_UNSUPPORTED, "treat_whitespace_as_suffix",
                         "%s: a model with treat_whitespace_as_suffix is not supported", r->path);
    return p.why ? malformed(r, p.why) : 0;
}

static int read_normalizer(struct reader *r, struct str message)
{
    struct protobuf       p = protobuf_of(message);
    struct protobuf_field f;
    struct spm           *m = r->m;
    while (protobuf_next(&p, &f))
        if (f.number == 2 && f.kind == PROTOBUF_BYTES)
            m->charsmap = f.bytes;
        else if (f.number == 3 && f.kind == PROTOBUF_VARINT)
            m->add_dummy_prefix = f.value != 0;
        else if (f.number == 4 && f.kind == PROTOBUF_VARINT)
            m->remove_extra_whitespaces = f.value != 0;
        else if (f.number == 5 && f.kind == PROTOBUF_VARINT)
            m->escape_whitespaces = f.value != 0;
    return p.why ? malformed(r, p.why) : 0;
}

/* ---- the whole ---- */

/* The one piece of type UNKNOWN; what the trainer's settings say of it (unk_id) may be out of date. */
static int find_unknown(struct reader *r)
{
    struct spm *m = r->m;
    m->unk_id = -1;
    for (size_t i = 0; i < m->n; i++) {
        if (m->pieces[i].kind != SPM_UNKNOWN)
            continue;
        if (m->unk_id >= 0)
            return error_set(r->e, ERR_FORMAT, NULL, "%s: pieces %d and %zu are both of type UNKNOWN", r->path,
                             m->unk_id, i);
        m->unk_id = (int32_t)i;
    }
    return m->unk_id < 0 ? error_set(r->e, ERR_FORMAT, NULL, "%s: no piece is of type UNKNOWN", r->path) : 0;
}

static int check(struct reader *r)
{
    struct spm        *m = r->m;
    struct vocab_twice twice;
    if (!m->n)
        return malformed(r, "there are no pieces");
    if (m->type != SPM_UNIGRAM && m->type != SPM_BPE)
        return error_set(r->e, ERR_UNSUPPORTED, "model_type", "%s: SentencePiece's model type %s is not supported",
                         r->path,
                         m->type == SPM_WORD   ? "WORD"
                         : m->type == SPM_CHAR ? "CHAR"
                                               : "of an unknown number");
    if (!vocab_index(&m->vocab, &twice))
        return error_nomem(r->e, "the vocabulary");
    if (twice.a >= 0)
        return error_set(r->e, ERR_FORMAT, NULL, "%s: pieces %d and %d are both '%.*s'", r->path, twice.a, twice.b,
                         (int)MIN(twice.text.n, (size_t)100), twice.text.p);
    return find_unknown(r);
}

int spm_read(struct spm *m, struct str file, const char *path, struct error *e)
{
    struct reader         r = {m, path, e};
    struct protobuf       p = protobuf_of(file);
    struct protobuf_field f;
    int                   status = 0;
    *m = (struct spm){.type = SPM_UNIGRAM,
                      .bos_id = 1,
                      .eos_id = 2,
                      .bos = STR("<s>"),
                      .eos = STR("</s>"),
                      .add_dummy_prefix = true,
                      .remove_extra_whitespaces = true,
                      .escape_whitespaces = true};
    vocab_init(&m->vocab);
    while (!status && protobuf_next(&p, &f)) {
        if (f.kind != PROTOBUF_BYTES)
            continue;
        if (f.number == 1)
            status = read_piece(&r, f.bytes);
        else if (f.number == 2)
            status = read_trainer(&r, f.bytes);
        else if (f.number == 3)
            status = read_normalizer(&r, f.bytes);
    }
    if (!status && p.why)
        status = malformed(&r, p.why);
    return status ? status : check(&r);
}

void spm_deinit(struct spm *m)
{
    vocab_deinit(&m->vocab);
    free(m->pieces);
    *m = (struct spm){0};
}
