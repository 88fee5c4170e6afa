"""Random tokenizers: small trained models of every kind in random pipelines of every component, as tokenizer.json trees."""
import json
import random

import texts
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

BYTES = [f"<0x{b:02X}>" for b in range(256)]
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "[CLS]", "[SEP]"]
PATTERNS = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}|\s+(?!\S)|\s+",
    r"\s?\p{P}+", r"\s?\p{L}+", r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", r"\s+", r"\S+", r"\w+", r"\W", r"\d", r"[\r\n]", r" ", r"[0-9][0-9][0-9]",
    r"\b", r"\d{1,3}(?=(?:\d{3})*\b)", r" ?[^(\s|.,!?…。，、।۔،)]+", r"[\p{Han}]+", r"[\p{L}&&[^\p{Han}]]+", r"(?:\r?\n)+", r".", r"(?<=a)b|(?<!\s)\p{Lu}", r"\p{M}+",
]
STRINGS = [" ", "  ", "▁", "a", "\n", "ab", "é", "'", "``", "e\u0301"]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def flag(rng):
    return rng.random() < 0.5


def pattern(rng):
    return {"String": rng.choice(STRINGS)} if rng.random() < 0.3 else {"Regex": rng.choice(PATTERNS)}


def byte_level(rng):
    return {"type": "ByteLevel", "add_prefix_space": flag(rng), "trim_offsets": flag(rng), "use_regex": flag(rng)}


def metaspace(rng):
    return {"type": "Metaspace", "replacement": rng.choice("▁▁▁_"), "prepend_scheme": rng.choice(["always", "first", "never"]), "split": flag(rng)}


NORMALIZERS = [
    lambda r: {"type": "NFC"}, lambda r: {"type": "NFD"}, lambda r: {"type": "NFKC"}, lambda r: {"type": "NFKD"}, lambda r: {"type": "Lowercase"},
    lambda r: {"type": "StripAccents"}, lambda r: {"type": "Strip", "strip_left": flag(r), "strip_right": flag(r)},
    lambda r: {"type": "Prepend", "prepend": r.choice(["▁", " ", "ab"])},
    lambda r: {"type": "Replace", "pattern": pattern(r), "content": r.choice(["▁", "", " ", "x", "é"])}, lambda r: {"type": "ByteLevel"},
    lambda r: {"type": "Nmt"},
    lambda r: {"type": "BertNormalizer", "clean_text": flag(r), "handle_chinese_chars": flag(r), "strip_accents": r.choice([None, True, False]),
               "lowercase": flag(r)},
]
PRE_TOKENIZERS = [
    byte_level, byte_level, metaspace, lambda r: {"type": "Whitespace"}, lambda r: {"type": "WhitespaceSplit"}, lambda r: {"type": "BertPreTokenizer"},
    lambda r: {"type": "Punctuation", "behavior": r.choice(BEHAVIORS)}, lambda r: {"type": "Digits", "individual_digits": flag(r)},
    lambda r: {"type": "CharDelimiterSplit", "delimiter": r.choice(" a▁\n")}, lambda r: {"type": "UnicodeScripts"},
    lambda r: {"type": "FixedLength", "length": r.randint(1, 6)},
] + [lambda r: {"type": "Split", "pattern": pattern(r), "behavior": r.choice(BEHAVIORS), "invert": flag(r)}] * 6
DECODERS = [
    lambda r: {"type": "ByteLevel", "add_prefix_space": flag(r), "trim_offsets": flag(r), "use_regex": flag(r)}, metaspace,
    lambda r: {"type": "WordPiece", "prefix": "##", "cleanup": flag(r)}, lambda r: {"type": "BPEDecoder", "suffix": "</w>"},
    lambda r: {"type": "ByteFallback"}, lambda r: {"type": "Fuse"},
    lambda r: {"type": "Strip", "content": r.choice(" ▁a"), "start": r.randint(0, 2), "stop": r.randint(0, 2)},
    lambda r: {"type": "Replace", "pattern": pattern(r) if r.random() < 0.2 else {"String": r.choice(STRINGS)}, "content": r.choice([" ", "", "x"])},
    lambda r: {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": flag(r)},
]


def sequence(rng, choices, key, most):
    """None, one component, or a Sequence of several, which may be nested."""
    n = rng.choice([0, 1, 1, *range(2, most + 1)])
    made = [rng.choice(choices)(rng) for _ in range(n)]
    if n > 1 and rng.random() < 0.15:
        made = [{"type": "Sequence", key: made[:2]}, *made[2:]]
    return None if not made else made[0] if n == 1 and flag(rng) else {"type": "Sequence", key: made}


class Models:
    """Small models, trained once a run on random texts."""

    def __init__(self, rng):
        plain = [texts.words(rng) for _ in range(300)]
        corpus = [texts.text(rng, SPECIAL, 8)[:400] for _ in range(150)] + plain
        make = {
            "byte level": (models.BPE(), pre_tokenizers.ByteLevel(add_prefix_space=False), trainers.BpeTrainer(
                vocab_size=900, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)),
            "metaspace": (models.BPE(unk_token="<unk>"), pre_tokenizers.Metaspace(), trainers.BpeTrainer(
                vocab_size=1400, special_tokens=SPECIAL + BYTES, limit_alphabet=200, show_progress=False)),
            "suffix": (models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), pre_tokenizers.WhitespaceSplit(), trainers.BpeTrainer(
                vocab_size=800, special_tokens=SPECIAL, limit_alphabet=150, end_of_word_suffix="</w>", show_progress=False)),
            "prefix": (models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), pre_tokenizers.Whitespace(), trainers.BpeTrainer(
                vocab_size=800, special_tokens=SPECIAL, limit_alphabet=150, continuing_subword_prefix="##", show_progress=False)),
            "unigram": (models.Unigram(), pre_tokenizers.Metaspace(), trainers.UnigramTrainer(
                vocab_size=900, special_tokens=SPECIAL + BYTES, unk_token="<unk>", show_progress=False)),
            "word piece": (models.WordPiece(unk_token="<unk>"), pre_tokenizers.BertPreTokenizer(), trainers.WordPieceTrainer(
                vocab_size=800, special_tokens=SPECIAL, limit_alphabet=150, show_progress=False)),
            "word level": (models.WordLevel(unk_token="<unk>"), pre_tokenizers.Whitespace(), trainers.WordLevelTrainer(
                vocab_size=700, special_tokens=SPECIAL, show_progress=False)),
        }
        self.made = {}
        for name, (model, pre, trainer) in make.items():
            t = Tokenizer(model)
            t.normalizer, t.pre_tokenizer = normalizers.NFC(), pre
            t.train_from_iterator(plain if name == "unigram" else corpus, trainer)  # it takes every character it sees
            self.made[name] = json.loads(t.to_str())["model"]

    def draw(self, rng):
        name = rng.choice(list(self.made))
        model = dict(self.made[name])
        if model["type"] == "BPE":
            model.update(fuse_unk=flag(rng), byte_fallback=flag(rng), ignore_merges=flag(rng), unk_token=rng.choice([None, "<unk>"]))
            if rng.random() < 0.3:  # merges that cannot all be reached
                model["merges"] = [m for m in model["merges"] if rng.random() < 0.9]
        if model["type"] == "Unigram":
            model.update(byte_fallback=flag(rng))
        if model["type"] == "WordPiece":
            model.update(max_input_chars_per_word=rng.choice([100, 100, 5]))
        return name, model


def ids_of(model):
    vocab = model["vocab"]
    return {piece: i for i, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else vocab


def added(rng, vocab):
    """Added tokens: the model's own special ones and some new texts, with flags of all kinds."""
    contents = rng.sample(SPECIAL, rng.randint(0, len(SPECIAL)))
    contents += rng.sample(["<new>", "new", " sp ", "\n\n", "É", "e\u0301x", "a b", "<|x|>", "▁▁", "1", "ＡＢ", "it", "<new>er", "ſ", "\u0301", "A", "##"],
                           rng.randint(0, 6))
    contents.sort(key=lambda c: vocab.get(c, 1 << 30))
    out, following = [], len(vocab)
    for c in contents:
        if c in vocab:
            token = vocab[c]
        else:
            token, following = following, following + 1
        out.append({"id": token, "content": c, "single_word": rng.random() < 0.2, "lstrip": rng.random() < 0.25, "rstrip": rng.random() < 0.25,
                    "normalized": rng.random() < 0.4, "special": rng.random() < 0.7})
    return out


def post_processor(rng, vocab):
    def one(kind):
        cls, sep = ("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])
        if kind == 0:
            return byte_level(rng)
        if kind == 1:
            return {"type": "BertProcessing", "sep": list(sep), "cls": list(cls)}
        if kind == 2:
            return {"type": "RobertaProcessing", "sep": list(sep), "cls": list(cls), "trim_offsets": flag(rng), "add_prefix_space": flag(rng)}
        names = rng.sample(["<s>", "</s>", "[CLS]"], rng.randint(1, 3))
        pieces = [{"SpecialToken": {"id": n, "type_id": 0}} for n in names]
        pieces.insert(rng.randint(0, len(pieces)), {"Sequence": {"id": "A", "type_id": 0}})
        special = {n: {"id": n, "ids": [vocab[n]] * rng.choice([1, 1, 2]), "tokens": None} for n in names}
        for s in special.values():
            s["tokens"] = [s["id"]] * len(s["ids"])
        return {"type": "TemplateProcessing", "single": pieces, "pair": pieces + [{"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": special}
    kind = rng.randrange(6)
    if kind == 4:
        return None
    return {"type": "Sequence", "processors": [one(0), one(3)]} if kind == 5 else one(kind)


def draw(rng, bank):
    """(name of the model, tree of a tokenizer.json)."""
    name, model = bank.draw(rng)
    vocab = ids_of(model)
    return name, {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added(rng, vocab),
        "normalizer": sequence(rng, NORMALIZERS, "normalizers", 3), "pre_tokenizer": sequence(rng, PRE_TOKENIZERS, "pretokenizers", 3),
        "post_processor": post_processor(rng, vocab), "decoder": sequence(rng, DECODERS, "decoders", 4), "model": model}


def bank(seed):
    return Models(random.Random(seed))
