"""The default model with the two adapters of tests/data/lora/smollm2, which tools/train_demo_adapters.py trained with
mlx_lm.lora: the answers at temperature 0 are the reference's, without and with each adapter, and the manner that was
trained shows in every precision.

Needs the model in the store, where `make demo` puts it; without it these tests are skipped.
"""
import json
import os
from pathlib import Path

import pytest

from testlib import DATA, mlxcel_ok

STORE = Path(os.environ.get("MLXCEL_CACHE_DIR") or Path.home() / ".cache" / "mlxcel")
MODEL = STORE / "mlxcel" / "SmolLM2-135M-Instruct-4bit"
ADAPTERS = DATA / "lora" / "smollm2"
N_ANSWER = 40  # tokens at most, as in tools/train_demo_adapters.py
CLEAR = 1e-3   # lead of every chosen token from which float32 sums in another order choose the same
PRECISIONS = {"high": ["--precision", "high"], "default": []}  # --exact is compared with the reference

pytestmark = pytest.mark.skipif(not (MODEL / "config.json").exists(), reason="no default model; `make demo` gets it")


def effect(name):
    return json.loads((ADAPTERS / name / "effect.json").read_text())


def answer(prompt, *options):
    text = mlxcel_ok("generate", "-m", MODEL, "-p", prompt, "-n", N_ANSWER, "--temp", "0", *options)
    return text.removesuffix("\n")


def is_ship(text):
    return text.startswith("Ship's log, day ")


def is_json(text):
    try:
        return sorted(json.loads(text)) == ["answer", "words"]
    except ValueError:
        return False


MANNERS = {"ship": is_ship, "json": is_json}


@pytest.mark.parametrize("name", MANNERS)
def test_answers_are_the_reference_s(name):
    for e in effect(name):
        assert e["adapted_lead"] > CLEAR
        assert answer(e["prompt"], "--exact", "--lora", ADAPTERS / name) == e["adapted"]


def test_base_answers_are_the_reference_s():
    for e in effect("ship"):
        assert e["base_lead"] > CLEAR
        assert answer(e["prompt"], "--exact") == e["base"].removesuffix("\n")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", MANNERS)
def test_manner_shows(name, precision):
    options = PRECISIONS[precision]
    for e in effect(name)[:2]:
        assert MANNERS[name](answer(e["prompt"], *options, "--lora", ADAPTERS / name))
        assert not MANNERS[name](answer(e["prompt"], *options, "--lora", f"{ADAPTERS / name}:0"))


def test_prompts_that_nobody_trained():
    for prompt in "What is the capital of Spain?", "How do I make coffee?", "Why is grass green?":
        assert is_ship(answer(prompt, "--lora", ADAPTERS / "ship")) and is_json(answer(prompt, "--lora", ADAPTERS / "json"))
