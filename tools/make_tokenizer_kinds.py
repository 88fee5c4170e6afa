#!/usr/bin/env python3
"""Makes tests/data/tokenizers/kinds.json.xz: small tokenizers, each of kinds of components that no published file beside it
has, trained with `tokenizers` (requirements.txt) on the strings of tokenizer_strings.py, and what they make of these.

    python3 tools/make_tokenizer_kinds.py

A list of {"name", "tokenizer": the text of a tokenizer.json, "expected": as in make_tokenizer_reference.py}.
"""
import base64
import json
import struct

from make_tokenizer_reference import ROOT, expectation, write
from tokenizer_strings import PLAIN, mixtures
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]
BYTES = [f"<0x{b:02X}>" for b in range(256)]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def charsmap(rules):
    """SentencePiece's blob for a map of strings: a double-array trie and the replacements (src/text/charsmap.h)."""
    texts, value = b"", {}
    for key, to in rules.items():
        value[key.encode()] = len(texts)
        texts += to.encode() + b"\0"
    units, used = {0: 0}, {0}

    def place(at, prefix):
        labels = sorted({k[len(prefix)] for k in value if k.startswith(prefix) and len(k) > len(prefix)})
        slots = ([0] if prefix in value else []) + labels
        base = next(b for b in range(1, 1 << 20) if not any(b ^ c in used for c in slots))
        used.update(base ^ c for c in slots)
        units[at] |= (at ^ base) << 10 | (prefix in value) << 8
        if prefix in value:
            units[base] = 1 << 31 | value[prefix]
        for c in labels:
            units[base ^ c] = c
            place(base ^ c, prefix + bytes([c]))

    place(0, b"")
    size = (max(units) | 255) + 1
    blob = struct.pack("<I", 4 * size) + struct.pack(f"<{size}I", *(units.get(i, 0) for i in range(size))) + texts
    return base64.b64encode(blob).decode()


MAP = charsmap({"\t": " ", "\n": " ", "\r\n": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\ufeff": "", "ﬁ": "fi", "①": "1",
                "½": "1⁄2", "e": "e", "e\u0301": "é", "\u0301": "´", "A\u030a": "Å", "가": "가", "ｶ": "カ", "ﾞ": "\u3099", "ß": "ss",
                "…": "...", "\U0001f600": ":)", "क": "k", "\u200d": "", "™": "TM", "Ǆ": "DŽ", "²": "2", "x\u200b": "y"})


def tokenizer(model, normalizer=None, pre=None, post=None, decoder=None, added=()):
    """A tokenizer.json around a model."""
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(added), "normalizer": normalizer,
            "pre_tokenizer": pre, "post_processor": post, "decoder": decoder, "model": model}


def trained(model, trainer, normalizer=None, pre=None):
    """The model's object after training behind a normalizer and a pre-tokenizer given as objects."""
    made = Tokenizer(model)
    if normalizer:
        made.normalizer = Tokenizer.from_str(json.dumps(tokenizer(EMPTY, normalizer=normalizer))).normalizer
    if pre:
        made.pre_tokenizer = Tokenizer.from_str(json.dumps(tokenizer(EMPTY, pre=pre))).pre_tokenizer
    made.train_from_iterator(PLAIN * 4, trainer)
    return json.loads(made.to_str())["model"]


EMPTY = {"type": "BPE", "vocab": {}, "merges": []}


def sequence(kind, *steps):
    return {"type": "Sequence", kind: list(steps)}


def token(i, content, **flags):
    base = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return {"id": i, "content": content, **base, **flags}


def template(*pieces, ids):
    parts = [{"Sequence": {"id": "A", "type_id": 0}} if p == "A" else {"SpecialToken": {"id": p, "type_id": 0}} for p in pieces]
    pair = parts + [{"Sequence": {"id": "B", "type_id": 1}}]
    tokens = {p: {"id": p, "ids": i, "tokens": [p] * len(i)} for p, i in ids.items()}
    return {"type": "TemplateProcessing", "single": parts, "pair": pair, "special_tokens": tokens}


def bert(**on):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True, **on}


def metaspace(scheme, split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def wordpieces():
    words = {"type": "BertPreTokenizer"}
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    model = trained(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(
        vocab_size=900, special_tokens=special, show_progress=False), bert(), words)
    added = [token(i, s, lstrip=s == "[MASK]") for i, s in enumerate(special)]
    post = template("[CLS]", "A", "[SEP]", ids={"[CLS]": [2], "[SEP]": [3]})
    decoder = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    yield "bert", tokenizer(model, bert(), words, post, decoder, added)
    yield "bert_cased", tokenizer(model, bert(lowercase=False, handle_chinese_chars=False), words, {
        "type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, {**decoder, "cleanup": False}, added)
    short = {**model, "max_input_chars_per_word": 7}
    yield "short_words", tokenizer(short, sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}),
                                   {"type": "Whitespace"}, None, decoder, added)


def unigrams():
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
    norm = sequence("normalizers", {"type": "Precompiled", "precompiled_charsmap": MAP}, spaces)
    model = trained(models.Unigram(), trainers.UnigramTrainer(
        vocab_size=900, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False), norm, metaspace("always"))
    added = [token(i, s) for i, s in enumerate(SPECIAL)]
    n = len(model["vocab"])
    mask = [token(n, "<mask>", lstrip=True), token(n + 1, "Hello", special=False, normalized=True, single_word=True)]
    post = template("A", "</s>", ids={"</s>": [2, 3]})
    yield "t5", tokenizer(model, norm, metaspace("always"), post, metaspace("always"), added + mask)
    split = sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("first"))
    yield "nmt", tokenizer(model, {"type": "Nmt"}, split, None, metaspace("never"), added)
    few = [[p, s] for p, s in model["vocab"] if len(p) < 4 and p.isascii()] + [["▁", -3]] + [[b, -20.5] for b in BYTES]
    few.sort(key=lambda x: x[0] != "<unk>")
    bytes_ = {"type": "Unigram", "unk_id": 0, "vocab": few, "byte_fallback": True}
    yield "unigram_bytes", tokenizer(bytes_, {"type": "Strip", "strip_left": True, "strip_right": False}, metaspace("first", False), None,
                                     sequence("decoders", {"type": "ByteFallback"}, metaspace("first")), added[:1])
    del bytes_["type"]
    pieces = ("a", "b", "aa", "ab", "ba", "e", "▁", "l", "lo", "ll", "o", "xx")
    ties = {"unk_id": 0, "vocab": [["<unk>", 0]] + [[p, -len(p)] for p in pieces]}
    yield "unigram_ties", tokenizer(ties, None, metaspace("always", False), None, None)


def bpes():
    words = {"type": "BertPreTokenizer"}
    model = trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainers.BpeTrainer(
        vocab_size=900, special_tokens=SPECIAL, end_of_word_suffix="</w>", show_progress=False), bert(), words)
    yield "gpt", tokenizer(model, bert(strip_accents=False), words, None, {"type": "BPEDecoder", "suffix": "</w>"}, [token(0, "<unk>")])
    fused = {**model, "fuse_unk": True, "merges": [" ".join(m) for m in model["merges"] if " " not in "".join(m)]}
    del fused["type"]
    order = ["merges", "end_of_word_suffix", "vocab", "unk_token", "fuse_unk"]
    yield "gpt_before_types", tokenizer({k: fused[k] for k in order}, {"type": "Lowercase"}, {"type": "FixedLength", "length": 4}, None,
                                        sequence("decoders", {"type": "BPEDecoder", "suffix": "</w>"}, {"type": "Fuse"}))
    model = trained(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), trainers.BpeTrainer(
        vocab_size=900, special_tokens=SPECIAL, continuing_subword_prefix="##", show_progress=False), None, {"type": "Whitespace"})
    pre = sequence("pretokenizers", {"type": "Whitespace"}, {"type": "Punctuation", "behavior": "MergedWithPrevious"})
    yield "bpe_prefix", tokenizer(model, None, pre, None, {"type": "WordPiece", "prefix": "##", "cleanup": True},
                                  [token(1, "<s>", rstrip=True)])
    split = {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\p{N}|[^\\s\\p{L}\\p{N}]+"}, "behavior": "Removed", "invert": True}
    pre = sequence("pretokenizers", split, BYTE_LEVEL)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainers.BpeTrainer(
        vocab_size=1000, special_tokens=SPECIAL, end_of_word_suffix="</w>", initial_alphabet=alphabet, show_progress=False),
        {"type": "NFC"}, pre)
    post = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": False, "add_prefix_space": False}
    yield "clip", tokenizer(model, sequence("normalizers", {"type": "NFC"}, {"type": "Lowercase"}), pre, post, BYTE_LEVEL, [
        token(1, "<s>"), token(2, "</s>")])
    spelled = sequence("normalizers", {"type": "NFC"}, {"type": "ByteLevel"})
    cut = {"type": "Split", "pattern": {"String": "Ġ"}, "behavior": "MergedWithNext", "invert": False}
    model = trained(models.BPE(), trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False), spelled, cut)
    n = len(model["vocab"])
    yield "spelled", tokenizer(model, spelled, cut, None, BYTE_LEVEL, [
        token(n, "Hello world", special=False, normalized=True), token(n + 1, "<s>"), token(n + 2, "日本", normalized=True)])


def wordlevels():
    words = sequence("pretokenizers", {"type": "Whitespace"}, {"type": "Digits", "individual_digits": True},
                     {"type": "Punctuation", "behavior": "Contiguous"})
    model = trained(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(
        vocab_size=300, special_tokens=SPECIAL, show_progress=False), {"type": "Lowercase"}, words)
    n = len(model["vocab"])
    added = [token(0, "<unk>"), token(n, "x", special=False, single_word=True, rstrip=True), token(n + 1, " ", special=False),
             token(n + 2, "X", normalized=True, special=False), token(n + 2, "x", special=False, single_word=True, lstrip=True)]
    yield "wordlevel", tokenizer(model, {"type": "Lowercase"}, words, None, None, added)


def main():
    out = []
    for name, made in [*wordpieces(), *unigrams(), *bpes(), *wordlevels()]:
        strings = PLAIN + mixtures(40, seed=100 + len(out))
        text = json.dumps(made, ensure_ascii=False)
        out.append({"name": name, "tokenizer": text, "expected": expectation(Tokenizer.from_str(text), strings, 40, 40)})
        print(name, len(made["model"]["vocab"]))
    write(ROOT / "kinds.json.xz", out)


if __name__ == "__main__":
    main()
