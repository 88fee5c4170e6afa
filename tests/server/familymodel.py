"""Models of the families that speak: recipes of tests/data/families with the tiny model's vocabulary and tokenizer."""
import json
import random
import shutil
import sys
from pathlib import Path

from loralib import write_safetensors
from serverlib import TINY
from testlib import DATA, mlxcel_ok

sys.path.insert(0, str(Path(__file__).parent.parent / "families"))
import familylib  # noqa: E402

RANK = 4


def make_model(name, out):
    """Writes the model of a fixture to the new folder `out`."""
    fixture = DATA / "families" / name
    config, recipe = (json.loads((fixture / f).read_text()) for f in ("config.json", "tensors.json"))
    tiny = json.loads((TINY / "config.json").read_text())
    few, vocab = config["vocab_size"], tiny["vocab_size"]
    recipe = {key: (dtype, [vocab if n == few else n for n in shape], kind) for key, (dtype, shape, kind) in recipe.items()}
    out.mkdir(parents=True)
    familylib.write_safetensors(out / "model.safetensors", familylib.draw_all(name, recipe))
    config |= {"vocab_size": vocab, "eos_token_id": tiny["eos_token_id"], "max_position_embeddings": 8192}
    (out / "config.json").write_text(json.dumps(config))
    for file in "tokenizer.json", "tokenizer_config.json", "generation_config.json":
        shutil.copy(TINY / file, out)
    return out


def make_adapter(model, out):
    """Writes an adapter over the model's projections to the new folder `out`."""
    facts, draw, tensors = json.loads(mlxcel_ok("describe", "-m", model, "--json")), random.Random(1), {}
    for t in facts["tensors"]:
        if len(t["shape"]) == 2 and t["name"].endswith("_proj"):
            n_out, n_in = t["shape"]
            tensors[t["name"] + ".lora_a"] = [n_in, RANK], [draw.gauss(0, 0.2) for _ in range(n_in * RANK)]
            tensors[t["name"] + ".lora_b"] = [RANK, n_out], [draw.gauss(0, 0.2) for _ in range(RANK * n_out)]
    out.mkdir(parents=True)
    write_safetensors(out / "adapters.safetensors", tensors)
    (out / "adapter_config.json").write_text(json.dumps(
        {"fine_tune_type": "lora", "num_layers": -1, "lora_parameters": {"rank": RANK, "scale": 0.5, "dropout": 0.0}}))
    return out
