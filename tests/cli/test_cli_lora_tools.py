"""`mlxcel lora`: adapters looked at, converted between mlx-lm's format and PEFT's, added up. What is written must compute
what the originals do; the originals' logits come from mlx-lm, transformers and PEFT (tests/data/lora)."""
import array
import json
import math
import os
import shutil
import signal
import struct

import pytest

from clilib import fault, stop, usage
from loralib import base_of
from testlib import DATA, mlxcel, mlxcel_ok, read_safetensors, stored_tensors

LORA = DATA / "lora"
TOKENS = "3,1,4,1,5,9,2,6,5,3,5,8,97,93"


def logits(tmp_path, base, *options):
    out = tmp_path / "logits.safetensors"
    mlxcel_ok("logits", "-m", base, "--tokens", TOKENS, "--exact", "-o", out, "--force", *options)
    return read_safetensors(out)["logits"][1]


def distance(a, b):
    """The greatest difference in units of b's standard deviation."""
    mean = sum(b) / len(b)
    return max(abs(x - y) for x, y in zip(a, b)) / math.sqrt(sum((x - mean) ** 2 for x in b) / len(b))


def lora(*args):
    r = mlxcel("lora", *args)
    assert r.returncode == 0, r.stderr
    assert r.stdout == b""
    return r.stderr.decode()


def config(path):
    text = (path / "adapter_config.json").read_text()
    assert text.endswith("}\n")
    return json.loads(text)


# ---- convert ----

PLAIN = ["plain", "plain-bf16", "plain-f16", "some", "rank-1", "square", "embed-tied", "embed-untied", "q3", "q4-embed",
         "mxfp8", "old-alpha", "old-layers", "vlm", "dora", "dora-bias", "dora-q4"]


@pytest.mark.parametrize("name", PLAIN)
def test_from_mlx_to_peft_and_back(name, tmp_path):
    source, base = LORA / "mlx" / name, base_of(LORA / "mlx" / name)
    lora("convert", source, "--to", "peft", "-o", tmp_path / "peft")
    assert sorted(p.name for p in (tmp_path / "peft").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    want = logits(tmp_path, base, "--lora", source)
    assert logits(tmp_path, base, "--lora", tmp_path / "peft") == want
    lora("convert", tmp_path / "peft", "--to", "mlx", "-o", tmp_path / "mlx")
    assert sorted(p.name for p in (tmp_path / "mlx").iterdir()) == ["adapter_config.json", "adapters.safetensors"]
    if name != "vlm":  # which spells its tensors in its own way
        assert stored_tensors(tmp_path / "mlx/adapters.safetensors") == stored_tensors(source / "adapters.safetensors")
    assert logits(tmp_path, base, "--lora", tmp_path / "mlx") == want


@pytest.mark.parametrize("name", ["plain", "rslora", "linear", "embed", "fan-in", "default-names", "dora",
                                  "dora-rslora", "q4", "nvfp4"])
def test_from_peft_to_mlx(name, tmp_path):
    source, base = LORA / "peft" / name, base_of(LORA / "peft" / name)
    lora("convert", source, "--to", "mlx", "-o", tmp_path / "mlx")
    assert logits(tmp_path, base, "--lora", tmp_path / "mlx") == logits(tmp_path, base, "--lora", source)
    c = config(tmp_path / "mlx")
    assert c["fine_tune_type"] == ("dora" if "dora" in name else "lora") and c["num_layers"] == -1
    names = {n.rpartition(".")[0] for n in stored_tensors(tmp_path / "mlx/adapters.safetensors")}
    assert c["lora_parameters"]["keys"] == sorted({".".join(n.split(".")[3:]) if ".layers." in n else n for n in names})


@pytest.mark.parametrize("name", ["patterns", "patterns-rslora"])
def test_scales_and_ranks_by_module(name, tmp_path):
    """mlx-lm knows one of each: scales go into lora_b, ranks are filled up."""
    source, base = LORA / "peft" / name, base_of(LORA / "peft" / name)
    lora("convert", source, "--to", "mlx", "-o", tmp_path / "mlx")
    assert distance(logits(tmp_path, base, "--lora", tmp_path / "mlx"), logits(tmp_path, base, "--lora", source)) < 1e-5
    c = config(tmp_path / "mlx")
    assert c["lora_parameters"]["scale"] == 1.0
    for tensor, (dtype, shape, _) in stored_tensors(tmp_path / "mlx/adapters.safetensors").items():
        assert shape[1 if tensor.endswith("lora_a") else 0] == c["lora_parameters"]["rank"]
        assert dtype == "F32" or tensor.endswith("lora_a")


@pytest.mark.parametrize("name, words", [
    ("peft/save", "embed_tokens.weight replaces a parameter, which low-rank pairs cannot say"),
    ("peft/bias-all", "replaces a parameter, which low-rank pairs cannot say"),
    ("peft/lora-bias", "brings a bias along, which only PEFT's own file can say"),
    ("mlx/full", "replaces a parameter, which low-rank pairs cannot say"),
    ("mlx/dora-embed", "model.embed_tokens has DoRA on an embedding, whose magnitudes mlx-lm keeps by row and PEFT by column"),
])
def test_what_the_other_format_cannot_say(name, words, tmp_path):
    to = "mlx" if name.startswith("peft") else "peft"
    assert words in fault("lora", "convert", LORA / name, "--to", to, "-o", tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_a_square_layer_keeps_its_orientation(tmp_path):
    source = LORA / "mlx/square"
    lora("convert", source, "--to", "peft", "-o", tmp_path / "peft")
    mine, theirs = stored_tensors(tmp_path / "peft/adapter_model.safetensors"), stored_tensors(source / "adapters.safetensors")
    (name,) = {n.rpartition(".")[0] for n in theirs}
    for half in "a", "b":
        _, (rows, cols), data = theirs[f"{name}.lora_{half}"]
        _, shape, found = mine[f"base_model.model.{name}.lora_{half.upper()}.weight"]
        values = array.array("f", data)
        turned = array.array("f", [values[i * cols + j] for j in range(cols) for i in range(rows)])
        assert (shape, found) == ([cols, rows], turned.tobytes())


# ---- merge ----

def expected_sum(name):
    return read_safetensors(LORA / "mlx/sums.safetensors")[name][1]


@pytest.mark.parametrize("adapters", [[("mlx/plain", 0.5), ("mlx/old-layers", -0.25)], [("mlx/plain", 0.75), ("mlx/plain", 0.25)],
                                      [("peft/plain", 0.5), ("peft/patterns", 0.3), ("mlx/plain", 0.2)]])
def test_merged_is_the_sum(adapters, tmp_path):
    base = base_of(LORA / adapters[0][0])
    spelled = [f"{LORA / name}:{scale}" for name, scale in adapters]
    lora("merge", *spelled, "-o", tmp_path / "sum")
    want = logits(tmp_path, base, *(x for s in spelled for x in ("--lora", s)))
    assert distance(logits(tmp_path, base, "--lora", tmp_path / "sum"), want) < 1e-5
    lora("merge", *spelled, "--to", "peft", "-o", tmp_path / "peft")
    assert distance(logits(tmp_path, base, "--lora", tmp_path / "peft"), want) < 1e-5


def test_merged_ranks_stand_side_by_side(tmp_path):
    """With one scale the tensors are the originals', columns and rows in the order given."""
    lora("merge", LORA / "mlx/plain", LORA / "mlx/plain", "-o", tmp_path / "sum")
    one, two = stored_tensors(LORA / "mlx/plain/adapters.safetensors"), stored_tensors(tmp_path / "sum/adapters.safetensors")
    assert config(tmp_path / "sum")["lora_parameters"]["scale"] == 20.0
    assert config(tmp_path / "sum")["lora_parameters"]["rank"] == 6
    assert set(one) == set(two)
    for name, (dtype, (rows, cols), data) in one.items():
        if name.endswith("lora_b"):
            assert two[name] == (dtype, [2 * rows, cols], data + data)
        else:
            lines = [data[4 * cols * i:4 * cols * (i + 1)] for i in range(rows)]
            assert two[name] == (dtype, [rows, 2 * cols], b"".join(line + line for line in lines))


def test_mixed_types_widen(tmp_path):
    for name in "a", "b":
        shutil.copytree(LORA / "mlx/plain", tmp_path / name)
    path = tmp_path / "b/adapters.safetensors"
    header, data = {}, b""
    for name, (_, shape, content) in stored_tensors(path).items():
        narrow = b"".join(content[i + 2:i + 4] for i in range(0, len(content), 4))  # cut to bfloat16
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(narrow)]}
        data += narrow
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    lora("merge", tmp_path / "b", tmp_path / "b", "-o", tmp_path / "bb")
    lora("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "ab")
    assert {t[0] for t in stored_tensors(tmp_path / "bb/adapters.safetensors").values()} == {"BF16"}
    assert {t[0] for t in stored_tensors(tmp_path / "ab/adapters.safetensors").values()} == {"F32"}
    base = base_of(LORA / "mlx/plain")
    want = logits(tmp_path, base, "--lora", tmp_path / "a", "--lora", tmp_path / "b")
    assert distance(logits(tmp_path, base, "--lora", tmp_path / "ab"), want) < 1e-5


def test_refused_merges(tmp_path):
    text = fault("lora", "merge", LORA / "mlx/plain", LORA / "mlx/dora", "-o", tmp_path / "out")
    assert text.startswith(f"{LORA / 'mlx/dora'}: model.layers.1.mlp.down_proj has DoRA, which does not add to other adapters")
    r = mlxcel("lora", "merge", LORA / "mlx/plain", LORA / "mlx/rank-1", "-o", tmp_path / "out")
    warning, text, *rest = r.stderr.decode().splitlines()
    assert r.returncode == 1 and not rest and "was made for example/llama-tied-f32, " in warning
    assert text.startswith("mlxcel: error: model.layers.1.mlp.down_proj takes 77 input features and produces 60 in "
                           f"{LORA / 'mlx/plain'}, but 77 and 52 in {LORA / 'mlx/rank-1'}; model.layers.1.mlp.gate_proj ")
    text = fault("lora", "merge", f"{LORA / 'mlx/plain'}:1e38", "-o", tmp_path / "out")
    assert text == "the scale of the sum is 2e+39, beyond float32"
    text = fault("lora", "merge", f"{LORA / 'mlx/plain'}:1e37", f"{LORA / 'mlx/plain'}:1e38", "-o", tmp_path / "out")
    assert ".lora_b: an element times its scale is " in text and text.endswith("inf, beyond float32")
    assert "all scales are 0" in fault("lora", "merge", f"{LORA / 'mlx/plain'}:0", "-o", tmp_path / "out")
    text = fault("lora", "merge", LORA / "mlx/plain", "-m", DATA / "tiny", "-o", tmp_path / "out")
    assert "model.layers.1.mlp.down_proj takes 96 input features and produces 64" in text
    assert os.listdir(tmp_path) == []


# ---- inspect ----

def inspect(*args):
    return json.loads(mlxcel_ok("lora", "inspect", *args, "--json"))


def test_inspect(tmp_path):
    facts = inspect(LORA / "peft/patterns")
    c = config_of("peft/patterns")
    assert (facts["format"], facts["kind"], facts["base_model"]) == ("peft", "lora", c["base_model_name_or_path"])
    layers = {v["name"]: v for v in facts["layers"]}
    assert facts["modules"] == len(layers) == sum(facts["targets"].values())
    assert facts["rank"] == [min(v["rank"] for v in layers.values()), max(v["rank"] for v in layers.values())]
    assert facts["scale"] == [min(v["scale"] for v in layers.values()), max(v["scale"] for v in layers.values())]
    assert facts["faults"] is None and "fits" not in facts
    file = stored_tensors(LORA / "peft/patterns/adapter_model.safetensors")
    assert facts["bytes"] == sum(len(t[2]) for t in file.values())
    assert facts["parameters"] == sum(math.prod(t[1]) for t in file.values())
    assert inspect(LORA / "mlx/full")["kind"] == "full" and "model.norm.weight" in inspect(LORA / "mlx/full")["replaced"]
    tied = LORA / "peft/embed-tied"
    assert inspect(tied)["warnings"] == [] and "tied" in inspect(tied, "-m", base_of(tied))["warnings"][0]
    text = mlxcel_ok("lora", "inspect", LORA / "mlx/full")
    assert "replaces    model.norm.weight" in text and not {"rank", "scale", "targets"} & set(text.split())


def config_of(name):
    return json.loads((LORA / name / "adapter_config.json").read_text())


@pytest.mark.parametrize("name", ["mlx/plain", "mlx/dora", "mlx/dora-embed", "peft/plain"])
def test_norms_of_the_change(name, tmp_path):
    """By the weights before and after: what `fuse` makes of a float32 base."""
    base = base_of(LORA / name)
    facts = inspect(LORA / name, "-m", base)
    assert facts["fits"] is True
    mlxcel_ok("fuse", "-m", base, "--adapter", LORA / name, "-o", tmp_path / "fused")
    before, after = stored_tensors(base / "model.safetensors"), stored_tensors(tmp_path / "fused/model.safetensors")
    for layer in facts["layers"]:
        w, f = (array.array("f", t[f"{layer['name']}.weight"][2]) for t in (before, after))
        weight = math.sqrt(sum(x * x for x in w))
        delta = math.sqrt(sum((x - y) ** 2 for x, y in zip(f, w)))
        assert layer["weight_norm"] == pytest.approx(weight, rel=1e-5)
        assert layer["delta_norm"] == pytest.approx(delta, rel=1e-4)
        assert layer["relative"] == pytest.approx(delta / weight, rel=1e-4)


def test_inspect_tells_faults_and_misfits(tmp_path):
    r = mlxcel("lora", "inspect", LORA / "mlx/plain", "-m", DATA / "tiny", "--json")
    facts = json.loads(r.stdout)
    assert r.returncode == 1 and facts["fits"] is False and facts["format"] == "mlx-lm"
    assert "model.layers.1.mlp.down_proj takes 96 input features and produces 64" in facts["faults"]
    assert r.stderr.decode() == f"mlxcel: error: {facts['faults']}\n"
    broken = shutil.copytree(LORA / "mlx/plain", tmp_path / "broken")
    c = config_of("mlx/plain")
    c["lora_parameters"]["rank"] = 4
    (broken / "adapter_config.json").write_text(json.dumps(c))
    r = mlxcel("lora", "inspect", broken)
    assert r.returncode == 1 and b"format      mlx-lm" in r.stdout and b"rank" in r.stderr
    assert str(tmp_path / "none") in fault("lora", "inspect", tmp_path / "none")


def test_inspect_prints_a_table():
    lines = mlxcel_ok("lora", "inspect", LORA / "mlx/plain", "-m", base_of(LORA / "mlx/plain")).splitlines()
    assert lines[0] == "format      mlx-lm" and lines[3] == "rank        3" and lines[4] == "scale       20"
    head = lines.index("") + 1
    assert lines[head].split() == ["LAYER", "RANK", "SCALE", "STORED", "AS", "CHANGE", "WEIGHT", "RELATIVE"]
    assert len(lines[head + 1].split()) == 7


# ---- outputs, usage ----

def test_outputs(tmp_path):
    source = shutil.copytree(LORA / "mlx/plain", tmp_path / "source")
    lora("convert", source, "--to", "peft", "-o", tmp_path / "out")
    assert fault("lora", "convert", source, "--to", "peft", "-o", tmp_path / "out").endswith("give --force to replace it")
    lora("convert", source, "--to", "peft", "-o", tmp_path / "out", "--force")
    assert "which is read; it is not replaced" in fault("lora", "convert", source, "--to", "peft", "-o", source, "--force")
    assert "which is read; it is not replaced" in fault("lora", "merge", tmp_path / "out", source, "-o", source, "--force")
    assert "which is read; it is not replaced" in fault("fuse", "-m", base_of(LORA / "mlx/plain"), "--adapter", source, "-o",
                                                         source, "--force")
    assert "has mlx-lm's format already" in fault("lora", "convert", source, "--to", "mlx", "-o", tmp_path / "x")
    assert "has PEFT's format already" in fault("lora", "convert", tmp_path / "out", "--to", "peft", "-o", tmp_path / "x")
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home/letter").write_text("x")
    assert "is no directory of a model or an adapter" in fault("lora", "convert", source, "--to", "peft", "-o",
                                                                tmp_path / "home", "--force")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home", "out", "source"]


def test_usage(tmp_path):
    plain = LORA / "mlx/plain"
    assert usage("lora") == "lora needs inspect, convert or merge"
    assert usage("lora", "train", plain) == "lora train is none of inspect, convert or merge"
    assert usage("lora", "inspect") == "lora inspect needs one adapter"
    assert usage("lora", "inspect", plain, plain) == "lora inspect needs one adapter"
    assert usage("lora", "merge", "-o", tmp_path / "x") == "lora merge needs adapters, PATH[:SCALE]..."
    assert usage("lora", "merge", plain) == "lora merge needs -o OUT"
    assert usage("lora", "convert", plain, "-o", tmp_path / "x") == "lora convert needs --to peft or --to mlx"


def test_names_are_shown_escaped(tmp_path):
    """What a file says cannot talk to the terminal."""
    name = "base_model.model.model.layers.0.self_attn.\x1b[31mq\n"
    header = {f"{name}.lora_{h}.weight": {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 16]}
              for h, shape, at in (("A", [1, 4], 0), ("B", [4, 1], 16))}
    text = json.dumps(header).encode()
    (tmp_path / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(32))
    (tmp_path / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "base_model_name_or_path": "a\x1b[2J\nb"}))
    out = mlxcel_ok("lora", "inspect", tmp_path)
    assert "\x1b" not in out and "base model  a\\x1b[2J\\x0ab\n" in out and out.count("\\x1b[31mq\\x0a") == 2, out


@pytest.mark.parametrize("verb", ["merge", "convert"])
def test_a_stopped_run_leaves_nothing(verb, tmp_path):
    rank, modules = 512, 60
    tensors = {}
    for i in range(modules):
        tensors |= {f"model.layers.{i}.q.lora_a": [4096, rank], f"model.layers.{i}.q.lora_b": [rank, 1]}
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    source, text = tmp_path / "source", json.dumps(header).encode()
    source.mkdir()
    with (source / "adapters.safetensors").open("wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)  # zeros that take no room
    (source / "adapter_config.json").write_text(json.dumps({"lora_parameters": {"rank": rank, "scale": 1}}))
    args = {"merge": [source, f"{source}:0.5"], "convert": [source, "--to", "peft"]}[verb]
    found, err = stop(["lora", verb, *args, "-o", tmp_path / "out"], signal.SIGINT, tmp_path)
    assert found == 130, err
    assert [n for n in os.listdir(tmp_path) if n not in ("source", "home")] == []
