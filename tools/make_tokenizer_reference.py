#!/usr/bin/env python3
"""Makes the expectations of tests/unit/test_tokenizer.c with Hugging Face's `tokenizers` (the version in requirements.txt).

    python3 tools/make_tokenizer_reference.py                    expectations for all of tests/data/tokenizers
    python3 tools/make_tokenizer_reference.py --gguf MODEL.gguf  first writes smollm2's tokenizer.json from a GGUF file

tests/data/tokenizers/<name>/tokenizer.json.xz is a published file (smollm2's is rebuilt from the GGUF file's lists). Beside
it this writes expected.json.xz. variants.json lists further tokenizers made of the model of one of them ("base", else smollm2) with other
components, and variants.expected.json.xz holds what they give.

An expectation: {"texts": [...], "ids": [...], "plain": [...], "literal": {...}, "decode": [...]}.
  ids      of each text with special tokens added and recognised
  plain    the same without adding
  literal  index of text -> ids where special tokens in the text are not recognised, when that differs
  decode   [[ids, text, text without special tokens], ...]: some texts' ids and random lists
"""
import argparse
import json
import lzma
import pathlib
import random

from tokenizer_strings import PLAIN, mixtures, own, texts
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/tokenizers"
SMOLLM2_ADDED = 17  # <|endoftext|> ... <empty_output>


def smollm2(gguf_path):
    """SmolLM2's tokenizer.json: the vocabulary and merges of the GGUF file in the published pipeline."""
    import gguf

    fields = gguf.GGUFReader(gguf_path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = fields["tokenizer.ggml.merges"].contents()
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    digits = {"type": "Digits", "individual_digits": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                 fuse_unk=False, byte_fallback=False, vocab={t: i for i, t in enumerate(tokens)}, merges=merges)
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], **flags} for i in range(SMOLLM2_ADDED)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": model,
    }


def random_lists(tokenizer, count, seed):
    rng = random.Random(seed)
    size = tokenizer.get_vocab_size()
    special = [i for i, t in tokenizer.get_added_tokens_decoder().items()]
    low = min(600, size)  # byte tokens are among the first
    pick = [lambda: rng.randrange(size), lambda: rng.randrange(low), lambda: rng.randrange(low),
            lambda: rng.choice(special) if special else 0, lambda: size + rng.randrange(1000)]
    return [[rng.choice(pick)() for _ in range(rng.randint(0, 25))] for _ in range(count)]


def expectation(tokenizer, strings, n_lists, n_decoded):
    encode = lambda add: [tokenizer.encode(s, add_special_tokens=add).ids for s in strings]
    ids, plain = encode(True), encode(False)
    tokenizer.encode_special_tokens = True
    literal = {str(i): x for i, x in enumerate(encode(False)) if x != plain[i]}
    tokenizer.encode_special_tokens = False
    lists = ids[:n_decoded] + random_lists(tokenizer, n_lists, 1)
    decode = [[x, tokenizer.decode(x, skip_special_tokens=False), tokenizer.decode(x, skip_special_tokens=True)] for x in lists]
    return {"texts": strings, "ids": ids, "plain": plain, "literal": literal, "decode": decode}


def write(path, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    path.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    print(path.name, len(text), path.stat().st_size)


def variants():
    out, bases = [], {}
    for variant in json.loads((ROOT / "variants.json").read_text()):
        name = variant.get("base", "smollm2")
        if name not in bases:
            bases[name] = json.loads(lzma.decompress((ROOT / name / "tokenizer.json.xz").read_bytes()))
        made = {**bases[name], **{k: v for k, v in variant.items() if k not in ("name", "base", "model")}}
        made["model"] = {**made["model"], **variant.get("model", {})}
        strings = PLAIN + mixtures(60, seed=len(out))
        out.append(expectation(Tokenizer.from_str(json.dumps(made)), strings, 60, 0))
    write(ROOT / "variants.expected.json.xz", out)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--gguf")
    args.add_argument("--root", type=pathlib.Path, default=ROOT)
    args = args.parse_args()
    if args.gguf:
        (ROOT / "smollm2").mkdir(parents=True, exist_ok=True)
        write(ROOT / "smollm2/tokenizer.json.xz", smollm2(args.gguf))
    for path in sorted(args.root.glob("*/tokenizer.json.xz")):
        tokenizer = Tokenizer.from_str(lzma.decompress(path.read_bytes()).decode())
        added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        write(path.with_name("expected.json.xz"), expectation(tokenizer, own(added) + texts(), 300, len(PLAIN) + 8))
    if args.root == ROOT:
        variants()


if __name__ == "__main__":
    main()
