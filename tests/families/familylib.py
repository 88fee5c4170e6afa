"""Fixtures of the model families (tests/data/families): how a checkpoint is made out of its recipe.

A fixture holds no weights but their names, types, shapes and kinds; the values follow from the fixture's seed and each
tensor's name. Every value is exact in float16 and in bfloat16, so a fixture is the same model in each type. Standard
library only: the maker (tools/make_family_fixtures.py) and the tests both use this.

    config.json           as on the hub
    tensors.json          of the Hugging Face layout: name -> [dtype, shape, kind]
    mlx.json              of the MLX layout that mlx-lm makes of it: name -> [dtype, shape, hash of the bytes]
    expected.safetensors  tokens I32 [n], and the reference's logits F32 [n, vocab]: `logits` where transformers and
                          mlx-lm agree, else `hf` or `mlx`, the one that is right
    note.md               what the fixture is, who computed the logits, and why not the other
"""
import functools
import hashlib
import json
import struct

SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "F8_E4M3": 1}
PACK = {"F32": "<f", "F16": "<e", "I64": "<q", "I32": "<i", "U8": "<B", "F8_E4M3": "<B"}


def spread(e):
    """Evenly between -2^e and 2^e."""
    return [(2 * b - 255) * 2.0 ** (e - 8) for b in range(256)]


# kind -> the 256 values that a random byte can mean; a kind may have whole numbers behind its name, as in "uniform -2".
KINDS = {
    "uniform": spread,
    "norm": lambda: [(64 + b // 2) / 128 for b in range(256)],    # around 1
    "norm0": lambda: [(b // 2 - 64) / 128 for b in range(256)],   # around 0, where the model adds 1
    "decay": lambda: [(b - 160) / 64 for b in range(256)],        # A_log: slow and fast
    "dt": lambda: [(b - 192) / 64 for b in range(256)],           # biases of time steps, before softplus
    "positive": lambda e: [(b + 1) * 2.0 ** (e - 8) for b in range(256)],
    "value": lambda n, e: [n * 2.0 ** e] * 256,
    "int": lambda low, high: [low + b * (high - low) // 256 for b in range(256)],
    "float8": lambda: [b ^ (b & 0x7F == 0x7F) for b in range(256)],  # codes, but no NaN
}


def pack(value, dtype):
    if dtype == "BF16":
        return struct.pack("<f", value)[2:]
    return struct.pack(PACK[dtype], value)


def is_exact(rule):
    """Whether all values of a kind are the same in float32, float16 and bfloat16."""
    name, *numbers = rule.split()
    for v in KINDS[name](*map(int, numbers)):
        bits = struct.pack("<f", v)
        if bits[:2] != b"\0\0" or struct.unpack("<f", bits)[0] != v or struct.unpack("<e", struct.pack("<e", v))[0] != v:
            return False
    return True


@functools.cache
def planes(rule, dtype):
    """For each byte of an element, what it is for each of the 256 random bytes."""
    name, *numbers = rule.split()
    packed = [pack(v, dtype) for v in KINDS[name](*map(int, numbers))]
    return [bytes(p[i] for p in packed) for i in range(SIZES[dtype])]


def draw(seed, name, rule, dtype, n):
    """The bytes of a tensor of n elements."""
    random = hashlib.shake_128(f"{seed}/{name}".encode()).digest(n)
    size = SIZES[dtype]
    out = bytearray(n * size)
    for i, plane in enumerate(planes(rule, dtype)):
        out[i::size] = random.translate(plane)
    return bytes(out)


def count(shape):
    n = 1
    for dim in shape:
        n *= dim
    return n


def draw_all(seed, recipe, dtype=None):
    """name -> (dtype, shape, bytes) of a recipe. dtype: instead of the recipe's floats of 16 bits."""
    tensors = {}
    for name, (stored, shape, rule) in recipe.items():
        stored = dtype if dtype and stored in ("F16", "BF16") else stored
        tensors[name] = stored, shape, draw(seed, name, rule, stored, count(shape))
    return tensors


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def write_checkpoint(fixture, out, dtype=None):
    """Writes the Hugging Face layout of a fixture's folder to the new folder `out`."""
    out.mkdir(parents=True)
    config = (fixture / "config.json").read_text()
    recipe = json.loads((fixture / "tensors.json").read_text())
    write_safetensors(out / "model.safetensors", draw_all(fixture.name, recipe, dtype))
    (out / "config.json").write_text(config)


def hash_of(data):
    return hashlib.sha256(data).hexdigest()[:16]


def write_lines(path, table):
    """A JSON object, one line an entry, sorted."""
    lines = [f"{json.dumps(k)}: {json.dumps(table[k], separators=(',', ':'))}" for k in sorted(table)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
