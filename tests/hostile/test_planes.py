"""How weights may be stored, case by case: pairs of planes that MLX cannot hold are refused by name, what config.json
declares otherwise is one warning. `describe`, which reads headers only, and a load say the same words.

Each row of REFUSED and DECLARED is one checkpoint: the tiny model with one thing changed.
"""
import json
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from testlib import mlxcel
from tiny import Model, count, safetensors

Q = "model.layers.0.self_attn.q_proj"  # [32, 32]: affine 4 bits group 32, as all matrices but the embedding
K = "model.layers.0.self_attn.k_proj"  # [16, 32]
DOWN = "model.layers.1.mlp.down_proj"  # [32, 64]
NORM = "model.norm"
EMBED = "model.embed_tokens"
SIZE = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "U8": 1, "I8": 1, "F64": 8, "F8_E4M3": 1, "F8_E5M2": 1,
        "F8_E8M0": 1, "I16": 2}


def put(name, dtype, *shape):
    """A tensor of zeros in the place of what has the name."""
    return lambda m: m.tensors.update({name: (dtype, list(shape), bytes(count(shape) * SIZE[dtype]))})


def drop(*names):
    return lambda m: [m.tensors.pop(name) for name in names]


def planes(module, rows, cols, scales, scale_dtype="F16", biases=True, lead=()):
    """The planes of a module: U32 [*lead, rows, cols], scales and perhaps biases [*lead, rows, scales]."""
    def change(m):
        for suffix in (".scales", ".biases"):
            m.tensors.pop(module + suffix, None)
        put(module + ".weight", "U32", *lead, rows, cols)(m)
        put(module + ".scales", scale_dtype, *lead, rows, scales)(m)
        if biases:
            put(module + ".biases", scale_dtype, *lead, rows, scales)(m)
    return change


def fp8(module, rows, cols, *scales, dtype="F32"):
    def change(m):
        drop(module + ".scales", module + ".biases")(m)
        put(module + ".weight", "F8_E4M3", rows, cols)(m)
        if scales:
            put(module + ".weight_scale_inv", dtype, *scales)(m)
        m.config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
        del m.config["quantization"]
    return change


def config(**fields):
    return lambda m: m.config.update(fields)


def untied(m):
    m.config["tie_word_embeddings"] = False
    m.quantized("lm_head", 262, 32)


def both(*changes):
    return lambda m: [change(m) for change in changes]


def truth(bits, group):
    return "quantization", {"group_size": group, "bits": bits}


# What is changed, and the words of the one error.
REFUSED = {
    # planes missing or too many
    "scales without biases": (drop(K + ".biases"), [f"'{K}.scales' is F16 [16, 1]", "also a biases plane"]),
    "biases without scales": (drop(K + ".scales"), [f"{K}.biases is F16 [16, 1] beside {K}.weight U32 [16, 4]",
                                                    "also a scales plane"]),
    "codes alone": (drop(K + ".scales", K + ".biases"), [f"{K}.weight is U32 [16, 4] without a scales plane",
                                                         "[16, 32] or also scales"]),
    "scales without weight": (drop(K + ".weight"), [f"{K}.weight is in no file", "[16, 32]"]),
    "biases beside a dense weight": (put("model.layers.0.input_layernorm.biases", "F16", 1),
                                     ["model.layers.0.input_layernorm.biases is F16 [1]", "also a scales plane"]),
    "scales of bytes with biases": (planes(K, 16, 4, 1, "U8"), [f"'{K}.biases' is U8 [16, 1]", "no biases plane"]),
    "scales of a bias": (put(K + ".bias.scales", "F16", 1), [f"{K}.bias.scales", "not a parameter"]),
    # dtypes
    "codes of type F32": (put(K + ".weight", "F32", 16, 4), [f"'{K}.weight' is F32 [16, 4]", "type U32"]),
    "codes of type I32": (put(K + ".weight", "I32", 16, 4), [f"'{K}.weight' is I32 [16, 4]", "type U32"]),
    "codes of type U8": (put(K + ".weight", "U8", 16, 16), [f"'{K}.weight' is U8 [16, 16]", "type U32"]),
    "dense beside scales": (put(K + ".weight", "BF16", 16, 32), [f"'{K}.weight' is BF16 [16, 32]", "type U32"]),
    "scales of type I8": (put(K + ".scales", "I8", 16, 1), [f"'{K}.scales' is I8 [16, 1]", "F16, BF16, F32 or U8"]),
    "scales of type I32": (put(K + ".scales", "I32", 16, 1), [f"'{K}.scales' is I32 [16, 1]", "F16, BF16, F32 or U8"]),
    "scales of type F64": (put(K + ".scales", "F64", 16, 1), [f"'{K}.scales' is F64", "F16, BF16, F32 or U8"]),
    "scales of type F8_E4M3": (put(K + ".scales", "F8_E4M3", 16, 1), [f"'{K}.scales' is F8_E4M3"]),
    "biases of another type": (put(K + ".biases", "F32", 16, 1), [f"'{K}.biases' is F32 [16, 1] beside '{K}.scales' F16",
                                                                  "the type and shape of the scales"]),
    # shapes of one plane beside another's
    "biases of other groups": (put(DOWN + ".biases", "F16", 32, 1), [f"'{DOWN}.biases' is F16 [32, 1]", "[32, 2]"]),
    "biases of other rows": (put(K + ".biases", "F16", 15, 1), [f"'{K}.biases' is F16 [15, 1]", "[16, 1]"]),
    "biases of one dimension": (put(K + ".biases", "F16", 16), [f"'{K}.biases' is F16 [16]", "[16, 1]"]),
    "scales of other rows": (put(K + ".scales", "F16", 32, 1), [f"'{K}.scales' is F16 [32, 1] beside '{K}.weight' U32 [16, 4]",
                                                                "the same leading dimensions"]),
    "scales transposed": (both(put(DOWN + ".scales", "F16", 2, 32), put(DOWN + ".biases", "F16", 2, 32)),
                          [f"'{DOWN}.scales' is F16 [2, 32] beside '{DOWN}.weight' U32 [32, 8]"]),
    "scales of one dimension": (put(K + ".scales", "F16", 16), [f"'{K}.scales' is F16 [16]", "leading dimensions"]),
    "scales of three dimensions": (put(K + ".scales", "F16", 1, 16, 1), [f"'{K}.scales' is F16 [1, 16, 1]"]),
    "codes of one dimension": (put(K + ".weight", "U32", 64), [f"'{K}.weight' is U32 [64]", "at least 2 dimensions"]),
    "planes of three dimensions": (planes(K, 16, 4, 1, lead=(1,)), [f"{K}.weight is U32 [1, 16, 4]", "16 rows"]),
    "planes of other rows": (planes(K, 8, 4, 1), [f"{K}.weight is U32 [8, 4]", "needed 16 rows", "num_key_value_heads"]),
    # what the planes hold together
    "7 bits": (planes(DOWN, 32, 14, 2), [f"'{DOWN}.weight' [32, 14] with '{DOWN}.scales' F16 [32, 2]",
                                         "rows of 64 inputs", "(7 bits in groups of 32)"]),
    "1 bit": (planes(DOWN, 32, 2, 2), [f"'{DOWN}.weight' [32, 2]", "(1 bits in groups of 32)"]),
    "16 bits": (planes(K, 16, 16, 1), [f"'{K}.weight' [16, 16]", "(16 bits in groups of 32)"]),
    "affine in groups of 16": (planes(K, 16, 4, 2), ["(4 bits in groups of 16)", "groups of 32, 64 or 128"]),
    "a width that is no multiple": (planes(DOWN, 32, 9, 2), [f"'{DOWN}.weight' [32, 9]", "rows of 64 inputs"]),
    "groups that do not divide": (planes(DOWN, 32, 8, 3), [f"'{DOWN}.scales' F16 [32, 3]", "rows of 64 inputs"]),
    "more groups than inputs": (planes(K, 16, 4, 64), [f"'{K}.scales' F16 [16, 64]", "rows of 32 inputs"]),
    "no groups": (planes(K, 16, 4, 0), [f"'{K}.scales' F16 [16, 0]", "rows of 32 inputs"]),
    "no codes": (planes(K, 16, 0, 1), [f"'{K}.weight' [16, 0]", "rows of 32 inputs"]),
    "no rows": (planes(K, 0, 4, 1), [f"{K}.weight is U32 [0, 4]", "16 rows"]),
    "bytes: 8 bits in groups of 16": (planes(K, 16, 8, 2, "U8", False), ["(8 bits in groups of 16)", "mxfp8", "U8 [16, 2]"]),
    "bytes: 4 bits in groups of 64": (planes(DOWN, 32, 8, 1, "U8", False), ["(4 bits in groups of 64)", "nvfp4"]),
    "bytes: 2 bits": (planes(K, 16, 2, 1, "U8", False), ["(2 bits in groups of 32)", "mxfp4"]),
    "bytes: 6 bits": (planes(K, 16, 6, 1, "U8", False), ["(6 bits in groups of 32)", "mxfp4"]),
    # where no planes may be
    "scales of a norm": (put(NORM + ".scales", "F16", 1), [f"{NORM}.scales is F16 [1] beside {NORM}.weight", "never quantized"]),
    "a norm in codes": (both(put(NORM + ".weight", "U32", 4), put(NORM + ".scales", "F16", 1),
                             put(NORM + ".biases", "F16", 1)), [f"{NORM}.scales is F16 [1] beside {NORM}.weight", "never quantized"]),
    "a norm of type U32": (put(NORM + ".weight", "U32", 32), [f"{NORM}.weight is U32 [32]", "F32, F16 or BF16 [32]"]),
    "the embedding with lone scales": (put(EMBED + ".scales", "F16", 262, 1),
                                       [f"'{EMBED}.weight' is F16 [262, 32]", "type U32"]),
    "the embedding in other rows": (planes(EMBED, 261, 4, 1), [f"{EMBED}.weight is U32 [261, 4]", "262 rows", "vocab_size"]),
    "the tied embedding of 7 bits": (planes(EMBED, 262, 7, 1), [f"'{EMBED}.weight' [262, 7]", "(7 bits in groups of 32)"]),
    "the head without biases": (both(untied, drop("lm_head.biases")), ["'lm_head.scales'", "also a biases plane"]),
    "the head's scales alone": (both(untied, drop("lm_head.weight", "lm_head.biases")), ["lm_head.weight is in no file"]),
    # FP8 in tiles
    "FP8 without scales": (fp8(K, 16, 32), [f"{K}.weight is F8_E4M3 [16, 32]", f"without {K}.weight_scale_inv", "[1, 1]"]),
    "FP8 with two scales": (fp8(K, 16, 32, 2), [f"{K}.weight_scale_inv is F32 [2] beside", "needed F32, F16 or BF16 [1, 1]"]),
    "FP8 with scales of rows": (fp8(K, 16, 32, 16, 1), [f"{K}.weight_scale_inv is F32 [16, 1]", "[1, 1]"]),
    "FP8 with scales of bytes": (fp8(K, 16, 32, 1, 1, dtype="U8"), [f"{K}.weight_scale_inv is U8 [1, 1]"]),
    "FP8 of other rows": (fp8(K, 15, 32, 1, 1), [f"{K}.weight is F8_E4M3 [15, 32]", "[16, 32]"]),
    "FP8 with MLX's scales, too": (both(fp8(K, 16, 32, 1, 1), put(K + ".scales", "F16", 16, 1)),
                                   [f"{K}.weight_scale_inv is F32 [1, 1]", "without other scales"]),
    "FP8's scales beside codes": (put(K + ".weight_scale_inv", "F32", 1, 1),
                                  [f"{K}.weight_scale_inv is F32 [1, 1] beside {K}.weight U32 [16, 4]", "F8_E4M3"]),
    "FP8's scales beside a dense weight": (put(EMBED + ".weight_scale_inv", "F32", 3, 1),
                                           [f"{EMBED}.weight_scale_inv is F32 [3, 1] beside {EMBED}.weight F16"]),
    "E5M2": (both(fp8(K, 16, 32), put(K + ".weight", "F8_E5M2", 16, 32)), [f"{K}.weight is F8_E5M2 [16, 32]"]),
    "FP8 of a norm": (put(NORM + ".weight", "F8_E4M3", 32), [f"{NORM}.weight is F8_E4M3 [32]", "F32, F16 or BF16 [32]"]),
    "FP8 in other tiles": (both(fp8(K, 16, 32, 1, 1), config(quantization_config={
        "quant_method": "fp8", "weight_block_size": [64, 128]})), ["weight_block_size", "64", "128"]),
    "another format of compressed-tensors": (both(lambda m: m.config.pop("quantization"), config(quantization_config={
        "format": "nvfp4-pack-quantized", "quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}})), [
                'quantization_config.format is "nvfp4-pack-quantized", pack-quantized (of 4 bits)']),
    # what other tools declare, as their configs have it
    **{f"quant_method {method}": (both(lambda m: m.config.pop("quantization"), config(quantization_config=fields)),
                                  ["quantization_config.quant_method", f'"{method}"', "mlxcel convert -q"])
       for method, fields in {
           "gptq": {"bits": 4, "group_size": 128, "desc_act": True, "sym": True, "quant_method": "gptq"},
           "awq": {"bits": 4, "group_size": 128, "version": "gemm", "zero_point": True, "quant_method": "awq"},
           "bitsandbytes": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "quant_method": "bitsandbytes"},
           "modelopt": {"quant_algo": "NVFP4", "quant_method": "modelopt"},
           "bitnet": {"linear_class": "autobitlinear", "quant_method": "bitnet"},
           "hqq": {"quant_method": "hqq"}, "quanto": {"quant_method": "quanto"}, "torchao": {"quant_method": "torchao"},
           "fbgemm_fp8": {"activation_scale_ub": 1200.0, "quant_method": "fbgemm_fp8"},
       }.items()},
    "bits as text": (config(quantization={"group_size": 32, "bits": "4"}), ["quantization.bits", "'4'"]),
    "a mode as number": (config(quantization={"group_size": 32, "bits": 4, "mode": 4}), ["quantization.mode"]),
    "quantization as list": (config(quantization=[4, 32]), ["quantization", "an object is needed"]),
    "a module's bits as list": (config(quantization={"group_size": 32, "bits": 4, K: {"bits": [4]}}),
                                [f"quantization.{K}.bits"]),
}
MXFP4 = {"group_size": 32, "bits": 4, "mode": "mxfp4"}

# What is changed, and the words of the one warning; None: there is none.
DECLARED = {
    "as stored": (both(), None),
    "group 64 over planes in 32s": (config(quantization={"group_size": 64, "bits": 4}),
                                    [f"{Q} is declared affine 4 bits group 64 but stored affine 4 bits group 32",
                                     "13 more layers"]),
    "other bits": (config(quantization={"group_size": 32, "bits": 8}), ["affine 8 bits group 32 but", "affine 4 bits"]),
    "another mode": (config(quantization=MXFP4), ["declared mxfp4 4 bits group 32 but stored affine 4 bits group 32"]),
    "defaults: group 64": (config(quantization={"bits": 4}), ["declared affine 4 bits group 64"]),
    "a mode nobody knows": (config(quantization={"group_size": 32, "bits": 4, "mode": "fancy"}),
                            ["declared fancy 4 bits group 32 but stored affine"]),
    "a mode nobody knows, no bits": (config(quantization={"mode": "fancy"}), ["declared fancy but stored affine"]),
    "nothing": (lambda m: m.config.pop("quantization"), [f"{Q} is declared dense but stored affine 4 bits group 32"]),
    "in quantization_config": (lambda m: m.config.update(quantization_config=m.config.pop("quantization")), None),
    "quantization before quantization_config": (config(quantization_config={"group_size": 128, "bits": 8}), None),
    "quantization before another tool's": (config(quantization_config={"quant_method": "gptq", "bits": 4}), None),
    "in text_config": (lambda m: m.config.update(text_config={"quantization": m.config.pop("quantization")}), None),
    "in text_config otherwise than at the top": (config(text_config={"quantization": {"group_size": 64, "bits": 8}}), None),
    "both names, wrong in the first": (config(quantization={"group_size": 64, "bits": 4},
                                              quantization_config={"group_size": 32, "bits": 4}), ["group 64 but"]),
    "a layer's own, right": (both(planes(K, 16, 8, 1), config(quantization={"group_size": 32, "bits": 4, K: {
        "group_size": 32, "bits": 8}})), None),
    "a layer's own, wrong": (config(quantization={"group_size": 32, "bits": 4, K: {"group_size": 32, "bits": 8}}),
                             [f"{K} is declared affine 8 bits group 32 but stored affine 4 bits group 32; the stored"]),
    "a layer that none is told of": (planes(K, 16, 8, 1), [f"{K} is declared affine 4 bits group 32 but stored affine 8 bits"]),
    "a layer's mode is affine unless said": (both(*(planes(f"model.layers.{i}.{name}", rows, cols // 8, cols // 32, "U8", False)
        for i in (0, 1) for name, rows, cols in (
            ("self_attn.k_proj", 16, 32), ("self_attn.v_proj", 16, 32), ("self_attn.o_proj", 32, 32),
            ("mlp.gate_proj", 64, 32), ("mlp.up_proj", 64, 32), ("mlp.down_proj", 32, 64))),
        planes("model.layers.1.self_attn.q_proj", 32, 4, 1, "U8", False),
        config(quantization={**MXFP4, Q: {"group_size": 32, "bits": 4}})), None),
    "planes of half the width": (planes(DOWN, 32, 4, 1), [
        f"{DOWN} is declared affine 4 bits group 32 but stored affine 2 bits group 64; the stored"]),
    "a layer told true": (config(quantization={"group_size": 32, "bits": 4, K: True}), None),
    "a layer told false, yet quantized": (config(quantization={"group_size": 32, "bits": 4, K: False}),
                                          [f"{K} is declared dense but stored affine 4 bits group 32; the stored"]),
    "a dense layer told false": (config(quantization={"group_size": 32, "bits": 4, EMBED: False}), None),
    "a dense layer told true": (config(quantization={"group_size": 32, "bits": 4, EMBED: True}),
                                [f"{EMBED} is declared affine 4 bits group 32 but stored dense; the stored"]),
    "a dense layer with an own form": (config(quantization={"group_size": 32, "bits": 4, EMBED: {"bits": 6}}),
                                       [f"{EMBED} is declared affine 6 bits group 64 but stored dense"]),
    "a layer that does not exist": (config(quantization={"group_size": 32, "bits": 4, "model.layers.9.x": {"bits": 8}}), None),
    "fields nobody knows": (config(quantization={"group_size": 32, "bits": 4, "linear_class": "x", K: {
        "group_size": 32, "bits": 4, "extra": 1}}), None),
    "FP8, and one layer is": (fp8(K, 16, 32, 1, 1), ["declared fp8 8 bits group 128 but stored affine", "12 more layers"]),
    "FP8 in a checkpoint of MLX's": (lambda m: (fp8(K, 16, 32, 1, 1)(m), m.config.pop("quantization_config"),
                                                m.config.update([truth(4, 32)])),
                                     [f"{K} is declared affine 4 bits group 32 but stored fp8 8 bits group 128; the"]),
}


def write(change, folder, only=None):
    m = Model()
    change(m)
    m.build()
    for name, content in m.items():
        (folder / name).write_bytes(content)


def ask(folder):
    """describe, describe --json and a load: (status, stdout, lines of stderr) of each."""
    commands = [["describe", "-m", folder], ["describe", "-m", folder, "--json"],
                ["logits", "-m", folder, "--tokens", "1,2", "-o", folder / "out.safetensors", "--threads", "1"]]
    runs = [mlxcel(*command) for command in commands]
    return [(r.returncode, r.stdout.decode(), r.stderr.decode().splitlines()) for r in runs]


def refusal(folder):
    """The error line that describe and a load have in common."""
    runs = ask(folder)
    errors = [[line for line in err if line.startswith("mlxcel: error: ")] for _, _, err in runs]
    assert [status for status, _, _ in runs] == [1, 1, 1], runs
    assert all(out == "" for _, out, _ in runs)
    assert len(errors[0]) == 1 and errors[0] == errors[1] == errors[2], errors
    return errors[0][0]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    change, words = REFUSED[name]
    write(change, tmp_path)
    message = refusal(tmp_path)
    for w in words:
        assert w in message, message
    assert "; " not in message.replace("; only MLX", ""), f"more than one fault: {message}"


@pytest.mark.parametrize("name", DECLARED)
def test_declared(name, tmp_path):
    change, words = DECLARED[name]
    write(change, tmp_path)
    (status, _, err), (status_json, out, err_json), (status_load, _, err_load) = ask(tmp_path)
    assert (status, status_json, status_load) == (0, 0, 0), (err, err_load)
    warnings = json.loads(out)["warnings"]
    assert err_json == []
    assert err == err_load == ["mlxcel: warning: " + w for w in warnings]
    assert len(warnings) == (words is not None), warnings
    for w in words or []:
        assert w in warnings[0], warnings[0]


# --- several files, several faults ------------------------------------------------------------------------------------

INDEX = "model.safetensors.index.json"
ONE, TWO, THREE = (f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3))


def write_shards(folder, change=lambda m: None, spoil=lambda files: None):
    """The model in three files with an index: the embedding and layer 0, layer 1, the norm."""
    m = Model()
    change(m)
    place = {name: TWO if ".layers.1." in name else THREE if name.startswith(NORM) else ONE for name in m.tensors}
    files = {file: safetensors({n: t for n, t in m.tensors.items() if place[n] == file}) for file in (ONE, TWO, THREE)}
    files[INDEX] = json.dumps({"metadata": {}, "weight_map": place}).encode()
    files |= {name: content for name, content in {**m, "config.json": json.dumps(m.config).encode()}.items()}
    spoil(files)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def cut(*names):
    return lambda files: files.update({name: files[name][:-1] for name in names})


def remove(*names):
    return lambda files: [files.pop(name) for name in names]


LAYER = "model.layers.1."
FILES = {  # what is changed in the model, in the files, the words in their order, the words that must not be there
    "cut short": (both(), cut(TWO), [f"{TWO}: the file has", "cut short"], [LAYER]),
    "two cut short": (both(), cut(TWO, ONE), [f"{ONE}: the file has", f"{TWO}: the file has"], ["in no file"]),
    "one cut, planes in another": (put(K + ".biases", "F32", 16, 1), cut(TWO), [f"{TWO}: the file has", f"'{K}.biases'"], [LAYER]),
    "the scales' file is cut": (both(), cut(ONE, TWO, THREE), [ONE, TWO, THREE], ["in no file"]),
    "not safetensors": (both(), lambda f: f.update({TWO: b"hello, world"}), [TWO, "claims"], ["in no file"]),
    "absent": (both(), remove(TWO), [f"{TWO} is absent", LAYER + "input_layernorm.weight is in no file",
                                            LAYER + "self_attn.v_proj.weight is in no file"], []),
    "absent and cut": (both(), both(remove(TWO), cut(ONE)), [f"{ONE}: the file has"], ["in no file"]),
    "index of a file that is not needed": (both(), lambda f: f.update({INDEX: f[INDEX].replace(
        b'"weight_map": {', b'"weight_map": {"x": "model-9.safetensors", ')}), None, []),
    "index malformed": (both(), lambda f: f.update({INDEX: b"{"}), [INDEX, "not valid JSON"], ["in no file"]),
    "index without map": (both(), lambda f: f.update({INDEX: b"{}"}), [INDEX, "weight_map"], ["in no file"]),
    "index leads away": (both(), lambda f: f.update({INDEX: b'{"weight_map": {"a": "../x"}}'}), [INDEX, "'../x'"], []),
    "index names half": (both(), lambda f: f.update({INDEX: json.dumps({"weight_map": {"a": ONE}}).encode()}),
                         [LAYER + "input_layernorm.weight is in no file", f"{NORM}.weight is in no file"], ["absent"]),
    "config and files": (config(hidden_size=0, rope_theta=-1), cut(TWO), ["hidden_size", "rope_theta", f"{TWO}: the file has"],
                         ["in no file"]),
    "config is no JSON, and files": (both(), both(cut(TWO), lambda f: f.update({"config.json": b"{"})),
                                     ["config.json", f"{TWO}: the file has"], ["in no file"]),
    "another tool's, and files": (config(quantization=None, quantization_config={"quant_method": "awq"}), cut(TWO),
                                  [f"{TWO}: the file has", '"awq"'], ["in no file"]),
    "all kinds": (both(drop(K + ".biases"), planes(DOWN, 32, 14, 2), put("extra", "F32", 2), put(NORM + ".weight", "F16", 31)),
                  lambda f: None, ["extra (F32 [2])", f"'{K}.scales'", f"'{DOWN}.weight'", f"{NORM}.weight is F16 [31]"], []),
    "forty": (lambda m: [put(f"extra.{i:02}", "F32", 1)(m) for i in range(40)], lambda f: None,
              ["extra.00", "extra.01", "extra.19", "; and 20 more"], ["extra.20"]),
}


@pytest.mark.parametrize("name", FILES)
def test_one_report(name, tmp_path):
    change, spoil, words, never = FILES[name]
    write_shards(tmp_path, change, spoil)
    if words is None:
        assert [status for status, _, _ in ask(tmp_path)] == [0, 0, 0]
        return
    message = refusal(tmp_path)
    places = [message.find(w) for w in words]
    assert -1 not in places and places == sorted(places), message
    assert not [w for w in never if w in message], message


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_scales_that_are_no_numbers(value, tmp_path):
    """They are values, which headers do not show: the model describes and loads, and what it computes is refused."""
    def change(m):
        dtype, shape, data = m.tensors[K + ".scales"]
        m.tensors[K + ".scales"] = (dtype, shape, struct.pack("<e", float(value)) + data[2:])
    write(change, tmp_path)
    assert mlxcel("describe", "-m", tmp_path).returncode == 0
    r = mlxcel("generate", "-m", tmp_path, "-p", "hello", "-n", "3", "--raw")
    assert r.returncode == 1 and b"not numbers" in r.stderr, r.stderr
