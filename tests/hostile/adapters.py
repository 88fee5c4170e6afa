"""Small adapters over the tiny model, in the forms of mlx-lm, mlx-vlm and PEFT; how they are spoilt; running with them.

Standard library only; every value comes from one seeded generator. The model is tiny.py's, as it is (quantized, its head
tied) or dense (F32).
"""
import json
import math
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from testlib import mlxcel, read_safetensors
from tiny import FF, HEAD, HEADS, KV_HEADS, LAYERS, VOCAB, WIDTH, Model, count, safetensors

Q = "model.layers.0.self_attn.q_proj"  # [32, 32]
K = "model.layers.0.self_attn.k_proj"  # [16, 32]
DOWN = "model.layers.1.mlp.down_proj"  # [32, 64]
PQ = "base_model.model." + Q
PDOWN = "base_model.model." + DOWN
EMBED = "model.embed_tokens"           # [262, 32]
NORM = "model.norm"
FILE, PFILE, CONFIG = "adapters.safetensors", "adapter_model.safetensors", "adapter_config.json"
TAKES_Q = f"{Q} takes 32 input features and produces 32"
TAKES_DOWN = f"{DOWN} takes 64 input features and produces 32"
RANK, SCALE = 4, 2.0
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I64": 8, "I32": 4, "U32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
         "F8_E4M3": 1}
SHAPES = {  # outputs, inputs
    "self_attn.q_proj": (HEADS * HEAD, WIDTH), "self_attn.k_proj": (KV_HEADS * HEAD, WIDTH),
    "self_attn.v_proj": (KV_HEADS * HEAD, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * HEAD),
    "mlp.gate_proj": (FF, WIDTH), "mlp.up_proj": (FF, WIDTH), "mlp.down_proj": (WIDTH, FF),
}
ALL = [f"model.layers.{i}.{name}" for i in range(LAYERS) for name in SHAPES]


class Dense(Model):
    """The tiny model with F32 weights, small so that its logits are tame, and a head of its own unless tied."""

    def __init__(self, tied=False, biased=False):
        super().__init__()
        self.config.update(tie_word_embeddings=tied, attention_bias=biased)
        del self.config["quantization"]
        if not tied:
            self.dense("lm_head.weight", [VOCAB, WIDTH])
        for layer in range(LAYERS if biased else 0):
            for name, (rows, _) in SHAPES.items():
                if name.startswith("self_attn"):
                    self.dense(f"model.layers.{layer}.{name}.bias", [rows])

    def write(self, folder):
        folder.mkdir(exist_ok=True)
        for name, content in self.build().items():
            (folder / name).write_bytes(content)
        return folder

    def dense(self, name, shape):
        norm = len(shape) == 1
        values = [self.random.uniform(0.8, 1.2) if norm else self.random.uniform(-0.3,
                                                            0.3) for _ in range(count(shape))]
        self.tensors[name] = ("F32", shape, struct.pack(f"<{len(values)}f", *values))

    def quantized(self, name, rows, columns):
        self.dense(name + ".weight", [rows, columns])


class Adapter:
    """Tensors {name: (dtype, shape, bytes)} and a config, in one format's names."""

    def __init__(self, form="mlx", kind="lora",
                 modules=("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj")):
        self.form, self.kind = form, kind
        self.random = random.Random(11)
        self.tensors = {}
        self.extra = {}  # other files
        self.file = {"mlx": "adapters.safetensors", "vlm": "adapters.safetensors",
                     "peft": "adapter_model.safetensors"}[form]
        if form == "mlx":
            self.config = {"fine_tune_type": kind, "num_layers": LAYERS, "model": "tiny",
                           "lora_parameters": {"rank": RANK, "scale": SCALE, "dropout": 0.0}}
        elif form == "vlm":
            self.config = {"rank": RANK, "alpha": SCALE * RANK, "dropout": 0.0}
        else:
            self.config = {"peft_type": "LORA", "r": RANK, "lora_alpha": SCALE * RANK, "use_dora": kind == "dora",
                           "target_modules": ["q_proj", "down_proj"], "bias": "none", "task_type": "CAUSAL_LM"}
        for m in modules:
            self.pair(m)

    def put(self, name, shape, dtype="F32", values=None):
        n = count(shape)
        if values is None:
            values = [self.random.uniform(-0.2, 0.2) for _ in range(n)]
        if dtype == "F32":
            data = struct.pack(f"<{n}f", *values)
        elif dtype == "F16":
            data = struct.pack(f"<{n}e", *values)
        elif dtype == "BF16":
            data = b"".join(struct.pack("<f", v)[2:] for v in values)
        else:
            data = bytes(n * SIZES[dtype])
        self.tensors[name] = (dtype, list(shape), data)

    def names(self, module):
        """The tensors of a module's pair (and magnitude): {part: name}."""
        if self.form == "vlm":
            return {"a": module + ".A", "b": module + ".B"}
        if self.form == "mlx":
            return {"a": module + ".lora_a", "b": module + ".lora_b", "m": module + ".m"}
        p = "base_model.model." + module
        return {"a": p + ".lora_A.weight", "b": p + ".lora_B.weight", "m": p + ".lora_magnitude_vector",
                "extra": p + ".lora_B.bias"}

    def pair(self, module, n_in=None, n_out=None, rank=RANK, rank_b=None, dtype="F32"):
        out, width = SHAPES.get(module.split(".", 3)[-1], (WIDTH, WIDTH))
        n_in, n_out, rank_b = n_in or width, n_out or out, rank_b or rank
        names = self.names(module)
        peft = self.form == "peft"
        self.put(names["a"], [rank, n_in] if peft else [n_in, rank], dtype)
        self.put(names["b"], [n_out, rank_b] if peft else [rank_b, n_out], dtype)
        if self.kind == "dora":
            self.put(names["m"], [n_out], dtype)
        return self

    def write(self, folder):
        folder.mkdir(exist_ok=True)
        if self.config is not None:
            text = self.config if isinstance(self.config, bytes) else json.dumps(self.config).encode()
            (folder / "adapter_config.json").write_bytes(text)
        if self.file:
            (folder / self.file).write_bytes(safetensors(self.tensors))
        for name, content in self.extra.items():
            (folder / name).write_bytes(content)
        return folder


def values(tensor):
    """The numbers of an F32 tensor, by rows."""
    _, shape, data = tensor
    flat = struct.unpack(f"<{count(shape)}f", data)
    return [flat[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]


def merged(model, module, a, b, scale):
    """Puts W + scale * B A into a dense model; a [rank, in], b [out, rank], lists of rows."""
    dtype, shape, _ = model.tensors[module + ".weight"]
    w = values(model.tensors[module + ".weight"])
    new = [w[o][i] + scale * sum(b[o][k] * a[k][i] for k in range(len(a))) for o in range(shape[0]) for i in range(shape[1])]
    model.tensors[module + ".weight"] = (dtype, shape, struct.pack(f"<{len(new)}f", *new))


# --- changes ----------------------------------------------------------------------------------------------------------

def pair(module, *shapes, **how):
    return lambda a: a.pair(module, *shapes, **how)


def put(name, *shape, dtype="F32", fill=None):
    return lambda a: a.put(name, list(shape), dtype, fill and [fill] * math.prod(shape))


def drop(*names):
    return lambda a: [a.tensors.pop(n) for n in names]


def config(**fields):
    return lambda a: a.config.update(fields)


def lora(**fields):
    return lambda a: a.config["lora_parameters"].update(fields)


def no_config(*fields):
    return lambda a: [a.config.pop(f) for f in fields]


def whole_config(text):
    return lambda a: setattr(a, "config", text)


def spoil(name, index, value):
    """One number of an F32 tensor becomes another."""
    def change(a):
        dtype, shape, data = a.tensors[name]
        a.tensors[name] = (dtype, shape, data[:4 * index] + struct.pack("<f", value) + data[4 * index + 4:])
    return change


def raw(content, name=None):
    """The tensors' file becomes these bytes, or another file appears beside none."""
    def change(a):
        a.extra[name or a.file] = content
        a.file = None
    return change


def cut(n):
    """The tensors' file loses its last n bytes."""
    return lambda a: raw(safetensors(a.tensors)[:-n])(a)


def both(*changes):
    return lambda a: [change(a) for change in changes]


def nothing(_):
    pass


def dora(change):
    """The change, of an adapter with DoRA."""
    change.kind = "dora"
    return change


# --- running ---------------------------------------------------------------------------------------------------------

def write_models(tmp_path_factory):
    """Directories of the models: "q4" is quantized with a tied head; the others are dense."""
    made = {"dense": Dense(), "tied": Dense(tied=True), "biased": Dense(biased=True)}
    made = {name: m.write(tmp_path_factory.mktemp(name)) for name, m in made.items()}
    made["q4"] = tmp_path_factory.mktemp("q4")
    for file, content in Model().build().items():
        (made["q4"] / file).write_bytes(content)
    return made


def run(model, out, *adapters, exact=False):
    args = [x for a in adapters for x in ("--lora", a)] + (["--exact"] if exact else [])
    return mlxcel("logits", "-m", model, "--tokens", "1,2,3", "-o", out, "--threads", "1", *args)


def refusal(model, tmp_path, *adapters):
    """The one error line, without its beginning."""
    out = tmp_path / "out.safetensors"
    r = run(model, out, *adapters)
    lines = r.stderr.decode().splitlines()
    assert r.returncode == 1 and r.stdout == b"" and not out.exists(), (r.returncode, lines)
    errors = [line for line in lines if line.startswith("mlxcel: error: ")]
    assert len(errors) == 1 and len(errors[0].encode()) <= 4000, lines
    return errors[0].removeprefix("mlxcel: error: ")


def logits(model, tmp_path, *adapters, exact=False):
    out = tmp_path / f"logits-{len(list(tmp_path.iterdir()))}.safetensors"
    r = run(model, out, *adapters, exact=exact)
    assert r.returncode == 0, r.stderr.decode()
    return read_safetensors(out)["logits"][1]
