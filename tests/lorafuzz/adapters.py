"""Random adapters for a base, twice over: as mlx-lm reads them (the reference), and spelled in one of the formats that
mlxcel reads, with what that format can say besides: ranks and scales of single modules, scale rules, name prefixes."""
import json
import math
import re
import shutil
from types import SimpleNamespace

import mlx.core as mx
from mlx.utils import tree_flatten

import lora_reference as ref

PROJECTIONS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
FORMS = ["mlx-lm"] * 4 + ["lora_layers", "lora_alpha", "mlx-vlm"] + ["peft"] * 4
PREFIXES = ["base_model.model."] * 3 + [""]


def draw_config(rng, base):
    keys = rng.sample(PROJECTIONS, rng.randint(1, len(PROJECTIONS)))
    keys += ["model.embed_tokens"] * (rng.random() < 0.25)
    keys += ["lm_head"] * (not base.config["tie_word_embeddings"] and rng.random() < 0.25)
    rank = rng.choice([1, 2, 3, 4, 8, 8, 16, 17, 64, rng.randint(1, 40)])
    scale = rng.choice([20.0, 2.0, 1.0, 0.25, -1.5, rng.uniform(0.01, 30)])
    kind = rng.choice(["lora"] * 5 + ["dora"] * 3 + ["full"])
    return {"fine_tune_type": kind, "num_layers": rng.choice([-1, -1, 0, 1, 2]),
            "lora_parameters": {"rank": rank, "scale": scale, "dropout": 0.0, "keys": keys}}


def draw_full(rng, base, dtype, key):
    """Some parameters that are not quantized, anew; the reference's values are those that the file holds."""
    model, tensors = ref.load_base(base.reference, False), {}
    quantized = {n for n, m in model.named_modules() if "scales" in m}
    if base.mode == "fp8":  # dense for the reference only
        quantized |= {n for n, _ in model.named_modules() if n.endswith("_proj")}
    names = [(n, p) for n, p in tree_flatten(model.parameters()) if n.rpartition(".")[0] not in quantized]
    for name, p in rng.sample(names, rng.randint(1, len(names))):
        key, k = mx.random.split(key)
        tensors[name] = (p * (1 + 0.3 * mx.random.normal(p.shape, key=k))).astype(dtype)
    return tensors


# --- PEFT -------------------------------------------------------------------------------------------------------------

def modules_of(tensors):
    return sorted({name.rpartition(".")[0] for name in tensors})


def with_own_ranks(rng, config, tensors):
    """Some modules of a smaller rank and another scale: (tensors for the reference, module -> (rank, scale))."""
    p, own, tensors = config["lora_parameters"], {}, dict(tensors)
    for module in modules_of(tensors):
        if rng.random() < 0.3:
            rank, scale = rng.randint(1, p["rank"]), p["scale"] * rng.choice([1.0, 0.5, 1.5])
            a, b = tensors[module + ".lora_a"], tensors[module + ".lora_b"]
            keep = (mx.arange(p["rank"]) < rank).astype(mx.float32)
            tensors[module + ".lora_a"] = a * keep
            tensors[module + ".lora_b"] = b.astype(mx.float32) * (scale / p["scale"])
            own[module] = rank, scale
    return tensors, own


def peft_tensors(rng, config, tensors, own, dtype, original):
    """The file's tensors. `original` are the values, of which the reference has some scaled in float32."""
    out, prefix = {}, rng.choice(PREFIXES)
    infix = rng.choice(["", "", ".default"])
    for module in modules_of(tensors):
        rank = own.get(module, (config["lora_parameters"]["rank"],))[0]
        a, b = original[module + ".lora_a"][:, :rank].T, original[module + ".lora_b"][:rank].T
        name = prefix + module
        if module.endswith("embed_tokens"):
            out |= {f"{name}.lora_embedding_A": a, f"{name}.lora_embedding_B": b}
        else:
            out |= {f"{name}.lora_A{infix}.weight": a, f"{name}.lora_B{infix}.weight": b}
        if module + ".m" in tensors:
            out[f"{name}.lora_magnitude_vector" + rng.choice(["", ".weight"])] = original[module + ".m"]
    return {k: mx.contiguous(v).astype(dtype) for k, v in out.items()}


def peft_config(rng, config, own):
    p, rslora = config["lora_parameters"], rng.random() < 0.4
    alpha = lambda rank, scale: scale * (math.sqrt(rank) if rslora else rank)
    keys = sorted({k.rpartition(".")[2] for k in p["keys"]})
    return {
        "peft_type": "LORA", "r": p["rank"], "lora_alpha": alpha(p["rank"], p["scale"]), "use_rslora": rslora,
        "rank_pattern": {re.escape(m) if rng.random() < 0.5 else m: rank for m, (rank, _) in own.items()},
        "alpha_pattern": {m: alpha(rank, scale) for m, (rank, scale) in own.items()},
        "target_modules": rng.choice([keys, "|".join(f".*{k}" for k in keys), "all-linear"]),
        "use_dora": config["fine_tune_type"] == "dora", "lora_dropout": 0.1, "bias": "none", "task_type": "CAUSAL_LM",
        "fan_in_fan_out": rng.random() < 0.1, "some_field_of_tomorrow": None,
    }


# --- one adapter ------------------------------------------------------------------------------------------------------

def respell(form, config, tensors):
    p = config["lora_parameters"]
    if form == "lora_layers":
        config = {k: v for k, v in config.items() if k != "num_layers"} | {"lora_layers": config["num_layers"]}
    elif form == "lora_alpha":
        q = {k: v for k, v in p.items() if k != "scale"}
        config = {**config, "lora_parameters": {**q, "alpha": p["scale"] * p["rank"]}}
    elif form == "mlx-vlm":
        config = {"rank": p["rank"], "alpha": p["scale"] * p["rank"], "dropout": 0.0}
        tensors = {k.replace("lora_a", "A").replace("lora_b", "B"): v for k, v in tensors.items()}
    return config, tensors


def possible_forms(config):
    kind, keys = config["fine_tune_type"], config["lora_parameters"]["keys"]
    if kind == "full":
        return ["mlx-lm"]
    if kind == "dora":  # PEFT keeps an embedding's magnitude by column, which is another thing
        return ["mlx-lm", "lora_layers"] + ["peft"] * ("model.embed_tokens" not in keys)
    return FORMS


def draw(rng, base, folder):
    """Writes both spellings; what is known of them: path, reference, form, kind, config, touched (module names)."""
    config = draw_config(rng, base)
    form, kind = rng.choice(possible_forms(config)), config["fine_tune_type"]
    dtype, key = ref.DTYPES[rng.choice(["F32", "F16", "BF16"])], mx.random.key(rng.randrange(1 << 32))
    shutil.rmtree(folder, ignore_errors=True)
    if kind == "full":
        tensors = draw_full(rng, base, dtype, key)
        config["lora_parameters"] = None
    else:
        tensors = ref.draw_adapter(base.reference, config, dtype, key)
    out = folder / "file"
    if form == "peft":
        original = tensors
        tensors, own = with_own_ranks(rng, config, tensors)
        out.mkdir(parents=True)
        (out / "adapter_config.json").write_text(json.dumps(peft_config(rng, config, own)))
        mx.save_safetensors(str(out / "adapter_model.safetensors"), peft_tensors(rng, config, tensors, own, dtype, original))
    else:
        ref.write_adapter(out, *respell(form, config, tensors))
    ref.write_adapter(folder / "reference", config, tensors)
    touched = set(tensors) if kind == "full" else set(modules_of(tensors))
    return SimpleNamespace(path=out, reference=folder / "reference", form=form, kind=kind, config=config, touched=touched)
