"""Adapters together, faults together, and what beside the refused is right: orientation, replaced parameters, scales."""
import math
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from adapters import (ALL, DOWN, EMBED, K, NORM, Q, RANK, SCALE, TAKES_DOWN, TAKES_Q, Adapter, Dense, both, config, drop, logits,
                      merged, pair, put,
                      refusal, spoil, values, write_models)
from testlib import mlxcel
from tiny import FF, VOCAB, WIDTH


@pytest.fixture(scope="module", name="models")
def make_models(tmp_path_factory):
    return write_models(tmp_path_factory)


# --- several adapters -------------------------------------------------------------------------------------------------

def full(tmp_path, name, seed, *parameters):
    a = Adapter("mlx", kind="full", modules=())
    a.random.seed(seed)
    for p, shape in parameters:
        a.put(p, shape)
    return a.write(tmp_path / name)


def two_doras(tmp_path):
    return [Adapter(form, kind="dora", modules=[Q]).write(tmp_path / form) for form in ("mlx", "peft")]


def test_two_doras(models, tmp_path):
    message = refusal(models["q4"], tmp_path, *two_doras(tmp_path))
    assert "both have DoRA on " + Q in message, message


def test_two_doras_apart(models, tmp_path):
    """On different layers, or with one of them at scale 0, they go together."""
    one, two = two_doras(tmp_path)
    logits(models["q4"], tmp_path, one, f"{two}:0")
    logits(models["q4"], tmp_path, one, Adapter("mlx", kind="dora", modules=[DOWN]).write(tmp_path / "other"))
    logits(models["q4"], tmp_path, one, Adapter(modules=[Q]).write(tmp_path / "plain"))


def test_replaced_twice(models, tmp_path):
    one, two = (full(tmp_path, n, n, (NORM + ".weight", [WIDTH])) for n in "12")
    message = refusal(models["dense"], tmp_path, one, two)
    assert "both replace " + NORM in message, message
    logits(models["dense"], tmp_path, one, full(tmp_path, "3", 3, ("lm_head.weight", [VOCAB, WIDTH])))


def test_biases_replaced_twice(models, tmp_path):
    one, two = (full(tmp_path, n, n, (K + ".bias", [16])) for n in "12")
    message = refusal(models["biased"], tmp_path, one, two)
    assert "both replace the bias of " + K in message, message


def test_second_is_wrong(models, tmp_path):
    """A right adapter before a wrong one does not help it, and the fault names the wrong one's tensors."""
    right = Adapter().write(tmp_path / "right")
    wrong = Adapter(modules=[K]).pair(K, 5).write(tmp_path / "wrong")
    message = refusal(models["q4"], tmp_path, right, wrong)
    assert f"{K} takes 32 input features" in message and TAKES_Q not in message, message


# --- several faults ---------------------------------------------------------------------------------------------------

def test_one_report(models, tmp_path):
    """Faults of the config, of names, types, values and shapes come together, sorted by tensor."""
    a = Adapter()
    both(config(fine_tune_type="lokr"), pair(DOWN, 8), pair(K, rank_b=8), drop(Q + ".lora_b"), put("a.stray", 3),
         pair("model.layers.0.mlp.up_proj", dtype="F16"), put("model.layers.0.mlp.up_proj.lora_b", 4, 64, dtype="I32"),
         pair("model.layers.1.self_attn.x_proj"), pair("model.layers.1.self_attn.o_proj"),
         spoil("model.layers.1.self_attn.o_proj.lora_b", 2, math.nan), pair(NORM))(a)
    message = refusal(models["q4"], tmp_path, a.write(tmp_path / "adapter"))
    words = ["a.stray (F32 [3])", "fine_tune_type", "up_proj.lora_b is I32", f"{K}.lora_a is [32, 4]",
             f"{Q}.lora_a stands alone",
             TAKES_DOWN, "element 2 of model.layers.1.self_attn.o_proj.lora_b", "self_attn.x_proj is no layer", f"{NORM} is a vector"]
    places = [message.find(w) for w in words]
    assert -1 not in places and places == sorted(places), message


def test_many_faults(models, tmp_path):
    a = Adapter(modules=())
    for module in ALL:
        a.pair(module, 5)
    for i in range(10):
        a.put(f"zz.{i}", [1])
    message = refusal(models["q4"], tmp_path, a.write(tmp_path / "adapter"))
    assert message.count("takes") == 14 and "zz.5" in message and "zz.6" not in message, message
    assert message.endswith("; and 4 more"), message


def test_long_names(models, tmp_path):
    """Names that are made to be looked up slowly: many numbers, many wrappers."""
    a = Adapter(modules=())
    for i in range(20000):
        a.tensors[f"model.layers.0{'.1' * 200}.{i}.lora_a"] = ("F32", [1, 1], bytes(4))
        a.tensors[f"model.layers.0{'.1' * 200}.{i}.lora_b"] = ("F32", [1, 1], bytes(4))
        a.tensors[f"{'language_model.' * 25}{Q}.{i}.lora_a"] = ("F32", [1, 1], bytes(4))
    a.config["lora_parameters"]["rank"] = 1
    start = time.monotonic()
    message = refusal(models["dense"], tmp_path, a.write(tmp_path / "adapter"))
    assert message.endswith(" more") and time.monotonic() - start < 20, message[-100:]


# --- what is right ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("form", ["mlx", "vlm", "peft"])
@pytest.mark.parametrize("name", ["q4", "dense", "tied"])
def test_valid(form, name, models, tmp_path):
    """What the cases spoil is right, and changes something."""
    plain = logits(models[name], tmp_path)
    changed = logits(models[name], tmp_path, Adapter(form).write(tmp_path / "adapter"))
    assert plain != changed


def near(a, b):
    return max(abs(x - y) for x, y in zip(a, b)) < 1e-4 * (sum(x * x for x in b) / len(b)) ** 0.5


@pytest.mark.parametrize("module", [Q, "model.layers.1.self_attn.o_proj", DOWN, "model.layers.0.mlp.gate_proj",
                                    "lm_head"])
@pytest.mark.parametrize("form", ["mlx", "peft"])
def test_orientation(form, module, models, tmp_path):
    """A square layer's pair, like any other, is read as its format stores it: logits are those of W + s B A."""
    a = Adapter(form, modules=())
    a.pair(module, n_out=VOCAB if module == "lm_head" else None)
    names, transpose = a.names(module), lambda m: [list(c) for c in zip(*m)]
    x, y = values(a.tensors[names["a"]]), values(a.tensors[names["b"]])
    m = Dense()
    merged(m, module, *((x, y) if form == "peft" else (transpose(x), transpose(y))), SCALE)
    got = logits(models["dense"], tmp_path, a.write(tmp_path / "adapter"), exact=True)
    want = logits(m.write(tmp_path / "merged"), tmp_path, exact=True)
    assert near(got, want)
    assert not near(got, logits(models["dense"], tmp_path, exact=True))


def test_greatest_ranks(models, tmp_path):
    """A rank far above the layer's width is nothing special."""
    a = Adapter(modules=()).pair(Q, rank=3000, dtype="BF16")
    a.config["lora_parameters"]["rank"] = 3000
    logits(models["q4"], tmp_path, a.write(tmp_path / "adapter"))


def test_greatest_ranks_of_dora(models, tmp_path):
    """Nor with DoRA: its norms take no square of the rank, in memory or time."""
    rank, names = 40000, (Q + ".lora_a", Q + ".lora_b")
    a = Adapter(kind="dora", modules=())
    a.config["lora_parameters"]["rank"] = rank
    for name, shape in zip(names, ([WIDTH, rank], [rank, WIDTH])):
        a.tensors[name] = ("BF16", shape, b"\x10\x3a" * (WIDTH * rank))
    a.put(Q + ".m", [WIDTH])
    began = time.monotonic()
    logits(models["q4"], tmp_path, a.write(tmp_path / "adapter"))
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("tied", [True, False])
def test_head_by_file(tied, models, tmp_path):
    """Where only the files tell whether the head is the embedding, its pair fits all the same, or the width is named."""
    m = Dense(tied)
    del m.config["tie_word_embeddings"]
    model = m.write(tmp_path / "model")
    plain = logits(model, tmp_path)
    assert logits(model, tmp_path, Adapter(modules=()).pair("lm_head", n_out=VOCAB).write(tmp_path / "right")) != plain
    message = refusal(model, tmp_path, Adapter(modules=()).pair("lm_head", 16, VOCAB).write(tmp_path / "wrong"))
    assert "lm_head takes 32 input features and produces 262; lora_a is [16, 4]" in message


def test_embedding_and_tied_head(models, tmp_path):
    """PEFT's pairs of both change each its own use; the same pair twice, which ensure_weight_tying writes, is one."""
    apart, a = Dense(tied=True), Adapter("peft", modules=()).pair("lm_head", n_out=VOCAB)
    apart.config["tie_word_embeddings"] = False
    apart.tensors["lm_head.weight"] = apart.tensors[EMBED + ".weight"]
    embed, head = "base_model.model." + EMBED, a.names("lm_head")
    a.put(embed + ".lora_embedding_A", [RANK, VOCAB])
    a.put(embed + ".lora_embedding_B", [WIDTH, RANK])
    adapter = a.write(tmp_path / "both")
    assert logits(models["tied"], tmp_path, adapter) == logits(apart.write(tmp_path / "apart"), tmp_path, adapter)
    r = mlxcel("lora", "convert", adapter, "--to", "mlx", "-m", models["tied"], "-o", tmp_path / "mlx")
    assert b"of the head that is tied to it mean something else in the new format" in r.stderr
    for half, other in ("a", "B"), ("b", "A"):
        columns = zip(*values(a.tensors[f"{embed}.lora_embedding_{other}"]))
        a.put(head[half], a.tensors[head[half]][1], values=[x for c in columns for x in c])
    twice = a.write(tmp_path / "twice")
    drop(head["a"], head["b"])(a)
    assert logits(models["tied"], tmp_path, twice) == logits(models["tied"], tmp_path, a.write(tmp_path / "once"))


REPLACED = [(NORM + ".weight", [WIDTH]), ("lm_head.weight", [VOCAB, WIDTH]), (Q + ".weight", [WIDTH, WIDTH]),
            (DOWN + ".weight", [WIDTH, FF]), (K + ".bias", [16])]


@pytest.mark.parametrize("form", ["mlx", "peft"])
def test_replaced(form, models, tmp_path):
    """Replaced norms, heads, layers and biases give the logits of the model that has them."""
    a, m = Adapter(form, kind="full" if form == "mlx" else "lora", modules=()), Dense(biased=True)
    a.config.update({"lora_parameters": None} if form == "mlx" else
                    {"modules_to_save": ["norm", "lm_head", "q_proj", "down_proj"], "bias": "all"})
    for name, shape in REPLACED:
        a.put(name, shape)
    m.tensors.update(a.tensors)
    if form == "peft":
        a.tensors = {"base_model.model." + name: t for name, t in a.tensors.items()}
    got = logits(models["biased"], tmp_path, a.write(tmp_path / "adapter"))
    assert got == logits(m.write(tmp_path / "whole"), tmp_path)


def test_zero_is_the_base(models, tmp_path):
    a = Adapter().write(tmp_path / "adapter")
    assert logits(models["q4"], tmp_path, f"{a}:0") == logits(models["q4"], tmp_path)
