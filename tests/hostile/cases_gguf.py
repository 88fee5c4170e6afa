"""Spoilt GGUF files, given to `convert`."""
import struct

from cases import CONVERT, Case, Special
from tiny import ARRAY, BOOL, F32, GGML_F32, GGML_Q6_K, STR, U32, Gguf, gguf_array, gguf_str, gguf_u32

Q = "blk.0.attn_q.weight"
NORM = "output_norm.weight"


def heads():
    """(name, the file's bytes, words)"""
    g = Gguf()
    file = g.build()
    yield "empty", b"", "GGUF"
    yield "three_bytes", b"GGU", "GGUF"
    yield "magic", b"GGML" + file[4:], "GGUF"
    yield "only_magic", b"GGUF", "cut short"
    yield "version_1", file[:4] + struct.pack("<I", 1) + file[8:], "version 1"
    yield "version_99", file[:4] + struct.pack("<I", 99) + file[8:], "version 99"
    yield "big_endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"
    yield "tensors_countless", g.build(n_tensors=2**63), "tensors"
    yield "values_countless", g.build(n_values=2**64 - 1), "values"
    yield "tensors_one_more", g.build(n_tensors=len(g.tensors) + 1), ""
    yield "values_one_more", g.build(n_values=len(g.values) + 1), ""
    yield "nothing_inside", b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "general.architecture"
    for cut in (200, 700, len(file) // 2, len(file) - 33):
        yield f"cut_at_{cut}", file[:cut], "cut short"


def values():
    """(name, changes of values, words); None removes one."""
    string = lambda text: struct.pack("<I", STR) + gguf_str(text)
    yield "no_architecture", {"general.architecture": None}, "general.architecture"
    yield "architecture_unknown", {"general.architecture": string("no-such")}, "no-such"
    yield "architecture_number", {"general.architecture": gguf_u32(1)}, "general.architecture"
    yield "no_layers", {"llama.block_count": None}, "llama.block_count"
    yield "layers_huge", {"llama.block_count": gguf_u32(2**32 - 1)}, ""
    yield "layers_zero", {"llama.block_count": gguf_u32(0)}, "llama.block_count"
    yield "width_zero", {"llama.embedding_length": gguf_u32(0)}, "llama.embedding_length"
    yield "heads_zero", {"llama.attention.head_count": gguf_u32(0)}, "llama.attention.head_count"
    yield "heads_text", {"llama.attention.head_count": string("4")}, "llama.attention.head_count"
    yield "align_24", {"general.alignment": gguf_u32(24)}, "general.alignment"
    yield "align_zero", {"general.alignment": gguf_u32(0)}, "general.alignment"
    yield "align_text", {"general.alignment": string("32")}, "general.alignment"
    yield "value_type", {"odd": struct.pack("<I", 77)}, "77"
    yield "string_endless", {"odd": struct.pack("<IQ", STR, 2**64 - 1)}, "odd"
    yield "array_endless", {"odd": struct.pack("<IIQ", ARRAY, U32, 2**62)}, "odd"
    yield "array_strings_endless", {"odd": struct.pack("<IIQ", ARRAY, STR, 2**60)}, "odd"
    yield "array_nested", {"odd": struct.pack("<IIQ", ARRAY, ARRAY, 1) + struct.pack("<IQ", ARRAY, 1) * 1000}, "odd"
    yield "tokenizer_unknown", {"tokenizer.ggml.model": string("abacus")}, "abacus"
    yield "pre_unknown", {"tokenizer.ggml.pre": string("no-such-split")}, "no-such-split"
    yield "tokens_missing", {"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens"
    yield "tokens_of_numbers", {"tokenizer.ggml.tokens": gguf_array(U32, [bytes(4)] * 262)}, "tokenizer.ggml.tokens"
    yield "tokens_too_few", {"tokenizer.ggml.tokens": gguf_array(STR, [gguf_str("a")] * 2)}, ""
    yield "tokens_bad_utf8", {"tokenizer.ggml.tokens": gguf_array(STR, [gguf_str(b"\xff")] * 262)}, ""
    yield "eos_beyond", {"tokenizer.ggml.eos_token_id": gguf_u32(10**6)}, "tokenizer.ggml.eos_token_id"
    yield "merges_odd", {"tokenizer.ggml.merges": gguf_array(STR, [gguf_str("nospace")])}, "merge"
    yield "eps_bool", {"llama.attention.layer_norm_rms_epsilon": struct.pack("<IB", BOOL, 1)}, "epsilon"
    yield "eps_nan", {"llama.attention.layer_norm_rms_epsilon": struct.pack("<If", F32, float("nan"))}, "epsilon"


def tensors():
    """(name, what to change, words)"""
    def field(name, i, value):
        def do(g):
            g.tensors[name][i] = value
        return do

    def rename(old, new):
        return lambda g: g.tensors.update({new: g.tensors.pop(old)})

    yield "type_unknown", field(NORM, 1, 99), [NORM, "type 99"]
    yield "type_unsupported", lambda g: g.tensors.update({NORM: [[256], GGML_Q6_K, g.tensors[NORM][2], bytes(210)]}), [
        NORM, "Q6_K"]
    yield "dims_none", field(NORM, 0, []), [NORM, "0 dimensions"]
    yield "dims_five", field(NORM, 0, [32, 1, 1, 1, 1]), [NORM, "5 dimensions"]
    yield "dims_overflow", field(Q, 0, [2**40, 2**40]), [Q, "overflows"]
    yield "dims_negative", field(Q, 0, [2**64 - 32, 1]), [Q]
    yield "row_odd", field(Q, 0, [33, 32]), [Q, "33"]
    yield "shape_other", field(Q, 0, [32, 31]), ["attn_q"]
    yield "offset_odd", field(Q, 2, 17), [Q, "17"]
    yield "offset_beyond", field(Q, 2, 2**40), [Q]
    yield "offset_wraps", field(Q, 2, 2**64 - 32), [Q]
    yield "overlap", field(Q, 2, 0), ["overlaps"]
    yield "tensor_missing", lambda g: g.tensors.pop(NORM), ["norm"]
    yield "tensor_extra", rename("blk.1.ffn_up.weight", "blk.1.ffn_odd.weight"), ["blk.1.ffn_odd.weight"]
    yield "norm_two_rows", field(NORM, 0, [16, 2]), ["norm"]
    yield "name_nul", rename(NORM, "a\0b"), ["NUL"]
    yield "name_long", rename(NORM, "n" * 100_000), ["100000"]


def cases():
    yield Case("valid_gguf", {"in.gguf": Gguf().build()}, CONVERT, valid=True)
    for name, content, words in heads():
        yield Case("gguf_" + name, {"in.gguf": content}, CONVERT, (words,))
    for name, changes, words in values():
        g = Gguf()
        g.values = {k: v for k, v in {**g.values, **changes}.items() if v is not None}
        yield Case("gguf_" + name, {"in.gguf": g.build()}, CONVERT, (words,))
    for name, spoil, words in tensors():
        g = Gguf()
        spoil(g)
        yield Case("gguf_" + name, {"in.gguf": g.build()}, CONVERT, tuple(words))
    twice = Gguf().head(0, 2) + (gguf_str("k") + gguf_u32(1)) * 2
    yield Case("gguf_key_twice", {"in.gguf": twice}, CONVERT, ("'k' occurs twice",))
    tensor = gguf_str("t") + struct.pack("<IQIQ", 1, 1, GGML_F32, 0)
    yield Case("gguf_tensor_twice", {"in.gguf": Gguf().head(2, 0) + tensor * 2 + bytes(64)}, CONVERT, ("'t'",))
    yield Case("gguf_folder", {"in.gguf": Special("dir")}, CONVERT, ("in.gguf",))
    yield Case("gguf_fifo", {"in.gguf": Special("fifo")}, CONVERT, ("not a regular file",))
    yield Case("gguf_missing", {}, CONVERT, ("in.gguf",))
