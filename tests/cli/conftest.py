"""A tiny whole model for the command line's tests: random weights of tests/data/arch with a tokenizer and a chat template.

The tokenizer is made here: byte-level BPE over printable ASCII with a few merges, so that its ids fit the fixture's 131
rows. The weights are linked, not copied, as in Hugging Face's cache.
"""
import json
import os

import pytest

from testlib import DATA

WEIGHTS = DATA / "arch" / "llama-mha-f32"
SPECIALS = ["<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("o", "r"), ("Ġw", "or"), ("l", "d"), ("Ġwor", "ld")]
TEMPLATE = ("{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def tokenizer_json():
    characters = [chr(c) for c in range(33, 127)] + ["Ġ", "Ċ"]
    tokens = SPECIALS + characters + [a + b for a, b in MERGES]
    special = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, t in enumerate(SPECIALS)]
    bytelevel = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    post = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                     {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": bytelevel, "post_processor": post, "decoder": bytelevel,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [list(m) for m in MERGES]}}


def write_tokenizer(directory, template=TEMPLATE):
    directory.mkdir(exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer_json()))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    if template:
        config["chat_template"] = template
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory):
    """A directory with tokenizer files only."""
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A directory with everything."""
    directory = write_tokenizer(tmp_path_factory.mktemp("model") / "tiny")
    for file in WEIGHTS.iterdir():
        if file.name != "expected.safetensors":
            (directory / file.name).symlink_to(file)
    return directory


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    """No test sees the user's models, history or settings."""
    for name in list(os.environ):
        if name.startswith(("MLXCEL_", "LLAMA_", "HF_", "XDG_")) and name != "MLXCEL_BIN":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
