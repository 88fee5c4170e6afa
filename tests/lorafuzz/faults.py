"""Random damage to a valid adapter's files. Each fault takes (rng, folder) and returns whether the program must refuse what
is left; some damage, such as another value of a weight, may be no fault."""
import json

import mlx.core as mx


def tensors_file(folder):
    return next(folder.glob("*.safetensors"))


def change_tensors(folder, change):
    file = tensors_file(folder)
    tensors = change(dict(mx.load(str(file))))
    mx.eval(tensors)
    file.unlink()
    mx.save_safetensors(str(file), tensors)


def change_config(folder, change):
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))


def with_one(rng, folder, change):
    """Changes one tensor: change(name, value) -> tensors by name."""
    def replace(tensors):
        name = rng.choice(sorted(tensors))
        return {**{k: v for k, v in tensors.items() if k != name}, **change(name, tensors[name])}
    change_tensors(folder, replace)


def must(fault):
    def run(rng, folder):
        fault(rng, folder)
        return True
    run.__name__ = fault.__name__
    return run


def may(fault):
    def run(rng, folder):
        fault(rng, folder)
        return False
    run.__name__ = fault.__name__
    return run


@must
def another_shape(rng, folder):
    grown = lambda v: mx.concatenate([v, v[:1]]) if rng.random() < 0.5 or v.ndim < 2 else mx.concatenate([v, v[:, :1]], 1)
    with_one(rng, folder, lambda name, v: {name: grown(v)})


@must
def another_number_of_dimensions(rng, folder):
    with_one(rng, folder, lambda name, v: {name: v[None]})


@must
def no_number(rng, folder):
    def spoil(name, v):
        flat = v.flatten().astype(mx.float32)
        flat[rng.randrange(flat.size)] = rng.choice([float("nan"), float("inf"), -float("inf")])
        return {name: flat.reshape(v.shape).astype(v.dtype)}
    with_one(rng, folder, spoil)


@must
def integers(rng, folder):
    kind = rng.choice([mx.int8, mx.uint8, mx.int32, mx.uint32, mx.int64, mx.bool_])
    with_one(rng, folder, lambda name, v: {name: (v * 100).astype(kind)})


@must
def unknown_name(rng, folder):
    strange = lambda name: rng.choice([
        name.replace("layers.", "layers.9"), name.replace("model", "modle"), name.replace("_proj", "_proj.scales"),
        name + "x", "x." + name, name.replace(".", "", 1), name + "\n", "\u00e9" + name])
    def rename(name, v):
        new = strange(name)
        return {new if new != name else name + "?": v}
    with_one(rng, folder, rename)


@must
def one_more(rng, folder):
    with_one(rng, folder, lambda name, v: {name: v, rng.choice(["lm_head.lora_c", "extra", "model.norm.lora_a"]): v})


@must
def none_left(rng, folder):
    change_tensors(folder, lambda tensors: {})


@must
def truncated(rng, folder):
    file = rng.choice([tensors_file(folder), folder / "adapter_config.json"])
    data = file.read_bytes()
    file.write_bytes(data[:rng.randrange(len(data) - 1)])


@must
def missing_file(rng, folder):
    rng.choice([tensors_file(folder), folder / "adapter_config.json"]).unlink()


@may
def one_less(rng, folder):
    def drop(tensors):
        del tensors[rng.choice(sorted(tensors))]
        return tensors
    change_tensors(folder, drop)


@may
def swapped_bytes(rng, folder):
    file = rng.choice([tensors_file(folder), tensors_file(folder), folder / "adapter_config.json"])
    data = bytearray(file.read_bytes())
    reach = len(data) if rng.random() < 0.3 else min(len(data), 2000)  # the header
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(reach)] = rng.choice([0, 255, rng.randrange(256), *b'"{}[],:0179-.e'])
    file.write_bytes(data)


VALUES = [None, True, -1, 0, 1e9, 1e-320, 1e308, 2**63, "", "16", [], {}, [1], {"rank": 8}, "nan", "x" * 3000]


@may
def another_field(rng, folder):
    def change(config):
        target = config
        if isinstance(p := config.get("lora_parameters"), dict) and rng.random() < 0.6:
            target = p
        key = rng.choice(sorted(target))
        if rng.random() < 0.2:
            del target[key]
        else:
            target[key] = rng.choice(VALUES)
        return config
    change_config(folder, change)


@may
def another_config(rng, folder):
    (folder / "adapter_config.json").write_text(json.dumps(rng.choice(VALUES)))


@may
def added_field(rng, folder):
    keys = ["peft_type", "use_dora", "use_rslora", "rank", "alpha", "fine_tune_type", "r", "rank_pattern", "modules_to_save",
            "layer_replication", "use_qalora", "bias", "lora_bias", "target_parameters", "fan_in_fan_out", "num_layers"]
    change_config(folder, lambda config: {**config, rng.choice(keys): rng.choice([*VALUES, "LORA", "dora", "all"])})


FAULTS = [v for v in list(globals().values()) if getattr(v, "__name__", "") not in ("must", "may") and
          getattr(v, "__qualname__", "").endswith(".run")]
