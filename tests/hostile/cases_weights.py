"""Spoilt safetensors files, shard indices, and checkpoints whose tensors do not fit their config."""
import json
import struct

from cases import LOGITS, Case, Special
from tiny import Model, safetensors, safetensors_file

FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
Q = "model.layers.0.self_attn.q_proj"


def u8(begin, end, shape=None):
    return {"dtype": "U8", "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def whole_files():
    """(name, content of model.safetensors, words)"""
    tensor = json.dumps(u8(0, 1)).encode()
    yield "empty", b"", "0 bytes are too few"
    yield "seven_bytes", b"\2\0\0\0\0\0\0", "7 bytes are too few"
    yield "header_negative", safetensors_file(b"{}", length=2**64 - 1), "18446744073709551615"
    yield "header_over_limit", safetensors_file(b"{}", length=100_000_001), "100000001"
    yield "header_beyond_end", safetensors_file(b"{}", length=3), "cut short"
    yield "header_missing", safetensors_file(b""), "does not begin with '{'"
    yield "header_blank_first", safetensors_file(b" {}"), "does not begin with '{'"
    yield "header_list", safetensors_file(b"[]"), "does not begin with '{'"
    yield "header_open", safetensors_file(b'{"a":'), "not valid JSON"
    yield "header_comma", safetensors_file(b'{"a":' + tensor + b",}", b"0"), "not valid JSON"
    yield "header_then_text", safetensors_file(b"{}x"), "not valid JSON"
    yield "header_bad_utf8", safetensors_file(b'{"\xff":' + tensor + b"}", b"0"), "UTF-8"
    yield "header_lone_surrogate", safetensors_file(b'{"\\ud800":' + tensor + b"}", b"0"), "not valid JSON"
    yield "header_deep", safetensors_file(b'{"a":' + b"[" * 100_000), "nesting"
    yield "header_zeros", safetensors_file(bytes(1000)), "does not begin with '{'"
    yield "name_with_nul", safetensors_file(b'{"a\\u0000b":' + tensor + b"}", b"0"), "NUL"
    yield "name_too_long", safetensors_file({"a" * 5000: u8(0, 1)}, b"0"), "5000 bytes"
    yield "name_twice", safetensors_file(b'{"a":' + tensor + b',"a":' + tensor + b"}", b"0"), "'a' is described twice"
    yield "name_with_newline", safetensors_file({"a\nmlxcel: error: b": {}}), "has no dtype"
    yield "metadata_number", safetensors_file({"__metadata__": 1}), "__metadata__"
    yield "metadata_values", safetensors_file({"__metadata__": {"a": 1}}), "__metadata__"
    yield "no_tensors", safetensors_file({}), "model.embed_tokens.weight"


def descriptions():
    """(name, description of tensor a, bytes of data, words)"""
    yield "dtype_unknown", {"dtype": "F17", "shape": [1], "data_offsets": [0, 1]}, 1, "F17"
    yield "dtype_number", {"dtype": 3, "shape": [1], "data_offsets": [0, 1]}, 1, "dtype"
    yield "dtype_missing", {"shape": [1], "data_offsets": [0, 1]}, 1, "has no dtype"
    yield "shape_missing", {"dtype": "U8", "data_offsets": [0, 1]}, 1, "has no shape"
    yield "shape_negative", u8(0, 1, [-1]), 1, "shape"
    yield "shape_fraction", u8(0, 1, [0.5]), 1, "shape"
    yield "shape_huge", u8(0, 1, [2**64]), 1, "shape"
    yield "shape_text", u8(0, 1, "1"), 1, "shape"
    yield "shape_nested", u8(0, 1, [[1]]), 1, "shape"
    yield "shape_overflow", {"dtype": "F64", "shape": [2**32, 2**32], "data_offsets": [0, 0]}, 0, "overflows"
    yield "shape_too_many", u8(0, 1, [1] * 9), 1, "9 dimensions"
    yield "size_differs", u8(0, 4, [3]), 4, "takes 3 bytes"
    yield "offsets_missing", {"dtype": "U8", "shape": [1]}, 1, "has no data_offsets"
    yield "offsets_three", {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 2]}, 1, "data_offsets"
    yield "offsets_backwards", {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}, 1, "backwards"
    yield "offsets_beyond", u8(0, 10**15), 1, "cut short"
    yield "half_a_byte", {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}, 2, "whole number of bytes"
    yield "description_list", ["U8", [1], [0, 1]], 1, "an object is needed"


def layouts():
    """(name, header, bytes of data, words)"""
    yield "overlap", {"a": u8(0, 4), "b": u8(2, 6)}, 6, "inside tensor 'a'"
    yield "hole", {"a": u8(0, 2), "b": u8(4, 6)}, 6, "belong to no tensor"
    yield "hole_first", {"a": u8(2, 4)}, 4, "belong to no tensor"
    yield "bytes_after", {"a": u8(0, 2)}, 4, "2 bytes after"
    yield "many_faults", {f"t{i}": {"dtype": "X"} for i in range(50)}, 0, " more"


def misfits():
    """(name, what to change in the model's tensors, words)"""
    def change(name, **facts):
        def do(m):
            dtype, shape, data = m.tensors[name]
            m.tensors[name] = (facts.get("dtype", dtype), facts.get("shape", shape), facts.get("data", data))
        return do

    def drop(name):
        return lambda m: m.tensors.pop(name)

    def add(name, shape):
        return lambda m: m.dense(name, shape)

    yield "tensor_missing", drop("model.layers.1.mlp.up_proj.weight"), ["model.layers.1.mlp.up_proj"]
    yield "norm_missing", drop("model.norm.weight"), ["model.norm.weight"]
    yield "tensor_extra", add("model.layers.0.self_attn.extra.weight", [3]), ["model.layers.0.self_attn.extra.weight"]
    yield "layer_extra", add("model.layers.2.input_layernorm.weight", [32]), ["model.layers.2.input_layernorm.weight"]
    yield "norm_too_short", add("model.norm.weight", [31]), [FILE, "model.norm.weight", "[31]", "[32]"]
    yield "norm_scalar", add("model.norm.weight", []), ["model.norm.weight", "[]"]
    yield "norm_empty", add("model.norm.weight", [0]), ["model.norm.weight", "[0]"]
    yield "embedding_empty", add("model.embed_tokens.weight", [0, 32]), ["model.embed_tokens.weight"]
    integers = change("model.norm.weight", dtype="I32", data=bytes(128))
    yield "norm_of_integers", integers, [FILE, "model.norm.weight", "I32"]
    yield "weight_float", change(Q + ".weight", dtype="F32"), [FILE, Q + ".weight", "F32"]
    yield "weight_other_rank", change(Q + ".weight", shape=[128]), [Q, "[128]"]
    yield "weight_odd_bits", change(Q + ".weight", shape=[16, 8]), [Q]
    yield "scales_missing", drop(Q + ".scales"), [Q]
    yield "biases_missing", drop(Q + ".biases"), [Q]
    yield "scales_bytes", change(Q + ".scales", dtype="U8", shape=[32, 2]), [Q + ".scales"]
    yield "scales_transposed", change(Q + ".scales", shape=[1, 32]), [Q, "[1, 32]"]
    yield "scales_many_groups", change(Q + ".scales", shape=[32, 7], data=bytes(448)), [Q, "[32, 7]"]
    yield "biases_other_shape", change(Q + ".biases", shape=[16, 2]), [Q, "[16, 2]"]


def indices():
    """(name, content of the index, words); the one shard is there."""
    yield "index_empty", b"", "not valid JSON"
    yield "index_list", b"[]", "an object is needed"
    yield "index_deep", b'{"weight_map":' + b"[" * 100_000, ""
    yield "index_no_map", b"{}", "weight_map"
    yield "index_map_list", b'{"weight_map":[]}', "weight_map"
    yield "index_number", b'{"weight_map":{"a":1}}', "'a'"
    yield "index_outside", b'{"weight_map":{"a":"../../etc/passwd"}}', "no plain file name"
    yield "index_absolute", b'{"weight_map":{"a":"/etc/passwd"}}', "no plain file name"
    yield "index_dots", b'{"weight_map":{"a":".."}}', "no plain file name"
    yield "index_nul", b'{"weight_map":{"a":"model.safetensors\\u0000x"}}', "no plain file name"
    many = {f"t{i}": f"{i}.safetensors" for i in range(20_000)}
    yield "index_many_files", json.dumps({"weight_map": many}).encode(), "10000"
    yield "index_names_config", b'{"weight_map":{"a":"config.json"}}', "config.json"


def special_files():
    """(name, files beside or instead of the model's, words)"""
    names = list(Model().tensors)
    whole = Model().tensors
    first = {name: whole[name] for name in names[:20]}
    second = {name: whole[name] for name in names[19:]}
    places = {name: "model-1.safetensors" if name in first else "model-2.safetensors" for name in names}
    yield "shard_is_folder", {FILE: Special("dir")}, ["not a regular file"]
    yield "shard_is_fifo", {FILE: Special("fifo")}, ["not a regular file"]
    yield "shard_is_device", {FILE: Special("link /dev/zero")}, ["not a regular file"]
    yield "shard_is_dangling", {FILE: Special("link gone")}, [FILE]
    yield "index_is_fifo", {FILE: safetensors(whole), INDEX: Special("fifo")}, ["not a regular file"]
    yield "tensor_in_two_shards", {"model-1.safetensors": safetensors(first),
                                   "model-2.safetensors": safetensors(second)}, ["in two files", names[19]]
    yield "shard_absent", {"model-1.safetensors": safetensors(first),
                           INDEX: json.dumps({"weight_map": places}).encode()}, ["model.norm.weight"]


def cases():
    yield Case("valid_model", Model().build(), LOGITS, valid=True)
    for name, content, words in whole_files():
        m = Model()
        m[FILE] = content
        yield Case("safetensors_" + name, m.build(), LOGITS, (words,))
    for name, header, size, words in [(n, {"a": d}, size, w) for n, d, size, w in descriptions()] + list(layouts()):
        m = Model()
        m[FILE] = safetensors_file(header, bytes(size))
        yield Case("safetensors_" + name, m.build(), LOGITS, (FILE, words))
    for name, spoil, words in misfits():
        m = Model()
        spoil(m)
        yield Case("misfit_" + name, m.build(), LOGITS, tuple(words))
    for name, content, words in indices():
        m = Model()
        m[INDEX] = content
        yield Case(name, m.build(), LOGITS, (words,))
    whole = safetensors(Model().tensors)
    for cut in (9, 500, len(whole) // 2, len(whole) - 1):
        m = Model()
        m[FILE] = whole[:cut]
        yield Case(f"safetensors_cut_at_{cut}", m.build(), LOGITS, (FILE, "cut short"))
    for name, files, words in special_files():
        m = Model()
        m.update(files)
        yield Case(name, m.build(), LOGITS, tuple(words))
    m = Model().build()
    del m[FILE]
    yield Case("no_weights", m, LOGITS, ("model*.safetensors", INDEX))
