#!/usr/bin/env python3
"""Makes tests/data/tokenizers/sources.json.xz: checkpoints without a tokenizer.json, and what their references make of texts.

    python3 tools/make_source_reference.py

Small vocabularies are trained here, on the pages of docs/ and the hard texts: SentencePiece models of both types, rank
lists, vocab.json with merges.txt, vocab.txt. The references are transformers' AutoTokenizer, and for rank lists the
tiktoken library with the pattern and the special tokens of the model's own code.

The file: {"blobs": {name: base64}, "texts": [...], "cases": [{"name", "files": {name: content, or "@" and a blob's name},
"ids": [...], "plain": [...], "decode": [[ids, text, text without special tokens], ...]}]}, ids with and plain without special tokens added.
"""
import base64
import io
import json
import lzma
import os
import pathlib
import random
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"

import sentencepiece
import tiktoken
from tokenizer_strings import PLAIN, mixtures
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.normalizers import NFC
from transformers import AutoTokenizer
from transformers.models.qwen3_5.tokenization_qwen3_5 import Qwen3_5Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/data/tokenizers/sources.json.xz"

TEXTS = PLAIN[::2] + mixtures(12) + [
    "ab<x>ab cab x<x>", "the cat sat on the cat", " <mask> <mask>x  y\t\tz", "<|im_start|>user  hi<|im_end|>  there", "▁▁a ▁b", "  lead",
    "trail  ", "a  b   c\n d  ", "[MASK] [CLS]x[SEP] naïve Ünïcödé", "x<zz> <zz>y", "①②Ⅳ ﬁ ｱ a\u0301 the a", "<s>a</s><unk><pad>",
    "<|reserved_token_300|><|extra_7|>", "漢字and漢字かな Hello世界 don't WON'T", "a" * 300, " " * 70 + "\n" * 40, "[gMASK]<sop>x<|user|>\n",
    "<|begin_of_text|>x<|eot_id|> <|reserved_special_token_3|>", "1234567890 12 3.14", "x\n\n  y\r\n z",
]
RULES = "2460\t31\n2461\t32\nFB01\t66 69\n61 301\tE1\nFF71\t30A2\n3000\t20\n9\t20\n41\t61\n"  # ①②ﬁ á ｱ, white space, A


def corpus():
    lines = [line for page in sorted((ROOT / "docs").glob("*.md")) for line in page.read_text().split("\n") if line.strip()]
    return lines[:400] + [t.replace("\0", "") for t in PLAIN if 0 < len(t) < 400] * 2


def spm(**options):
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        if options.pop("rules", False):
            rules.write("\n".join(line for line in RULES.split("\n")))
            rules.flush()
            options["normalization_rule_tsv"] = rules.name
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus()), model_writer=out, minloglevel=2, num_threads=1, hard_vocab_limit=False,
            character_coverage=0.98, vocab_size=900, **options)
    return out.getvalue()


def byte_bpe():
    """(vocab.json, merges.txt, rank list) of one vocabulary whose ids are its ranks."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    vocab = t.get_vocab()
    merges = json.loads(t.to_str())["model"]["merges"]
    ids = sorted(vocab, key=vocab.get)
    spelled = {}
    codes = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    spelled.update({chr(b): b for b in codes})
    spelled.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in codes)})
    ranks = {bytes(spelled[c] for c in t): i for i, t in enumerate(ids)}
    lines = b"".join(base64.b64encode(t) + b" %d\n" % i for t, i in ranks.items())
    return json.dumps(vocab, ensure_ascii=False).encode(), ("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in merges)).encode(), lines, ranks


def word_piece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator([line.lower() for line in corpus()], trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False))
    vocab = t.get_vocab()
    return "".join(word + "\n" for word in sorted(vocab, key=vocab.get)).encode()


def token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True, **flags}


def spm_cases():
    model = lambda blob, config, **more: {"tokenizer.model": "@" + blob, **({} if config is None else {"tokenizer_config.json": config}), **more}
    added = {"0": token("<unk>"), "5": token("zz", special=False, lstrip=True, normalized=True),
             "950": token("<|im_end|>", special=False, rstrip=True, normalized=True)}
    cases = {}
    for blob in ("bpe_bytes", "bpe_rules", "unigram_bytes", "unigram_rules"):
        cases[blob + " alone"] = model(blob, None)
        cases[blob + " generic, not legacy, bos and eos"] = model(blob, dict(tokenizer_class="XTokenizer", legacy=False, add_bos_token=True, add_eos_token=True))
    for blob in ("bpe_bytes", "unigram_bytes"):
        cases[blob + " renamed pieces"] = model(blob, dict(tokenizer_class="XTokenizer", added_tokens_decoder=added, eos_token="<|im_end|>"))
    cases["mistral's llama"] = model("bpe_bytes", dict(tokenizer_class="LlamaTokenizer", legacy=True, add_bos_token=True), **{"config.json": {"model_type": "mistral"}})
    cases["llama"] = model("bpe_bytes", dict(tokenizer_class="LlamaTokenizer"))
    cases["llama legacy"] = model("bpe_bytes", dict(tokenizer_class="LlamaTokenizerFast", legacy=True, add_bos_token=True), **{"config.json": {"model_type": "llama"}})
    cases["llama no prefix"] = model("bpe_rules", dict(tokenizer_class="LlamaTokenizer", add_prefix_space=False, additional_special_tokens=["<e>", "the"]))
    cases["llama added"] = model("bpe_bytes", dict(tokenizer_class="LlamaTokenizer", added_tokens_decoder=added, image_token="<zz>", bos_token=None, add_bos_token=True))
    cases["llama old files"] = model("bpe_bytes", dict(tokenizer_class="LlamaTokenizer", add_bos_token=True), **{
        "special_tokens_map.json": {"bos_token": {"content": "<s>", "lstrip": False, "normalized": True, "rstrip": True, "single_word": False}, "pad_token": "<pad>"},
        "added_tokens.json": {"<zz>": 901, "<pad>": 900}})
    cases["llama, named tokens"] = model("bpe_bytes", dict(tokenizer_class="LlamaTokenizer", legacy=None, extra_special_tokens={"boi_token": "<x>"},
                                                          additional_special_tokens=["the"]))
    cases["llama, no further tokens"] = model("bpe_bytes", dict(tokenizer_class="LlamaTokenizer", additional_special_tokens=None))
    cases["generic, legacy null"] = model("bpe_bytes", dict(tokenizer_class="XTokenizer", legacy=None, extra_special_tokens={}))
    cases["code llama"] = model("bpe_bytes", dict(tokenizer_class="CodeLlamaTokenizer"))
    cases["gemma"] = model("bpe_bytes", dict(tokenizer_class="GemmaTokenizer", add_bos_token=True), **{"config.json": {"model_type": "gemma3"}})
    return cases


def file_cases():
    files = lambda config, **more: {"vocab.json": "@vocab.json", "merges.txt": "@merges.txt", "tokenizer_config.json": config, **more}
    cases = {
        "gpt2": files(dict(tokenizer_class="GPT2Tokenizer")),
        "gpt2 prefix space, bos": files(dict(tokenizer_class="GPT2Tokenizer", add_prefix_space=True, add_bos_token=True, bos_token=token("<s>", normalized=True, lstrip=True) | {"__type": "AddedToken"})),
        "gpt2 by model type": files({}, **{"config.json": {"model_type": "gpt2"}}),
        "qwen2": files(dict(tokenizer_class="Qwen2Tokenizer", bos_token=None, added_tokens_decoder={str(900 + i): token(t) for i, t in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])})),
        "qwen3.5": files(dict(tokenizer_class="Qwen3_5Tokenizer"), **{"config.json": {"model_type": "qwen3_5"}}),
        "gpt-neox": files(dict(tokenizer_class="GPTNeoXTokenizer")),
        "codegen": files(dict(tokenizer_class="CodeGenTokenizer")),
        "cohere": files(dict(tokenizer_class="CohereTokenizer", add_bos_token=True)),
        "roberta": files(dict(tokenizer_class="RobertaTokenizer", add_prefix_space=True)),
        "bert": {"vocab.txt": "@vocab.txt", "tokenizer_config.json": dict(tokenizer_class="BertTokenizer")},
        "bert cased": {"vocab.txt": "@vocab.txt", "tokenizer_config.json": dict(tokenizer_class="BertTokenizerFast", do_lower_case=False, tokenize_chinese_chars=False)},
        "bert accents": {"vocab.txt": "@vocab.txt", "tokenizer_config.json": dict(tokenizer_class="DistilBertTokenizer", strip_accents=False, mask_token="[MASK]")},
    }
    return cases


CONTRACTION, TAIL = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL
QWEN = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
CASED = r"[^\r\n\p{L}\p{N}]?[%s]*[%s]+%s?|[^\r\n\p{L}\p{N}]?[%s]+[%s]*%s?"
HAN = r"&&[^\p{Han}]"
KIMI = r"[\p{Han}]+|" + CASED % (UPPER + HAN, LOWER + HAN, CONTRACTION, UPPER + HAN, LOWER + HAN, CONTRACTION) + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL
O200K = CASED % (UPPER, LOWER, CONTRACTION, UPPER, LOWER, CONTRACTION) + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"


def rank_cases(n):
    """name -> (files, pattern, special tokens in the order of their ids, normalization, tokens before a text)"""
    extra = ["<|extra_%d|>" % i for i in range(205)]
    kimi = {str(n + 3): token("<|im_end|>"), str(n): token("[BOS]"), str(n + 7): token("<zz>", special=False)}
    reserved = [kimi.get(str(n + i), {"content": "<|reserved_token_%d|>" % (n + i)})["content"] for i in range(256)]
    glm = "<|endoftext|> [MASK] [gMASK] [sMASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|>".split()
    llama = ("<|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> <|reserved_special_token_1|> <|finetune_right_pad_id|> <|step_id|> "
             "<|start_header_id|> <|end_header_id|> <|eom_id|> <|eot_id|> <|python_tag|>").split()
    llama += ["<|reserved_special_token_%d|>" % i for i in range(2, 247)]
    config = lambda name, **more: dict(tokenizer_class=name, auto_map={"AutoTokenizer": ["x." + name, None]}, **more)
    return {
        "qwen1": ({"qwen.tiktoken": "@ranks", "tokenizer_config.json": config("QWenTokenizer")}, QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + extra, NFC(), []),
        "qwen1 alone": ({"qwen.tiktoken": "@ranks"}, QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + extra, NFC(), []),
        "kimi": ({"tiktoken.model": "@ranks", "tokenizer_config.json": config("TikTokenTokenizer", added_tokens_decoder=kimi)}, KIMI, reserved, None, []),
        "hunyuan": ({"hy.tiktoken": "@ranks", "tokenizer_config.json": config("HYTokenizer")}, QWEN, ["<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"] + extra, NFC(), []),
        "glm4": ({"tokenizer.model": "@ranks", "tokenizer_config.json": config("ChatGLM4Tokenizer")}, LLAMA3, glm, None, ["[gMASK]", "<sop>"]),
        "glm4 by auto_map": ({"tokenizer.model": "@ranks", "tokenizer_config.json": dict(auto_map={"AutoTokenizer": ["x.ChatGLM4Tokenizer", None]})}, LLAMA3, glm, None, ["[gMASK]", "<sop>"]),
        "llama3 original": ({"tokenizer.model": "@ranks"}, LLAMA3, llama, None, ["<|begin_of_text|>"]),
        "o200k": ({"o200k_base.tiktoken": "@ranks"}, O200K, ["<|startoftext|>", "<|endoftext|>"], None, []),
        "cl100k": ({"cl100k_base.tiktoken": "@ranks"}, CL100K, ["<|dummy_0|>", "<|endoftext|>"], None, []),
    }


def random_lists(size, count=15, seed=3):
    rng = random.Random(seed)
    return [[rng.randrange(min(size, rng.choice([300, size]))) for _ in range(rng.randint(0, 20))] for _ in range(count)]


def expect(files, blobs):
    """What AutoTokenizer makes of a directory with these files."""
    with tempfile.TemporaryDirectory() as d:
        for name, content in files.items():
            path = pathlib.Path(d) / name
            if isinstance(content, str) and content.startswith("@"):
                path.write_bytes(blobs[content[1:]])
            else:
                path.write_text(json.dumps(content))
        if files.get("tokenizer_config.json", {}).get("tokenizer_class") == "Qwen3_5Tokenizer":
            # AutoTokenizer does not give this class its files and makes an empty vocabulary.
            t = Qwen3_5Tokenizer(vocab=d + "/vocab.json", merges=d + "/merges.txt")
        else:
            t = AutoTokenizer.from_pretrained(d)
    ids = [t.encode(s) for s in TEXTS]
    plain = [t.encode(s, add_special_tokens=False) for s in TEXTS]
    back = t.backend_tokenizer.decode
    lists = ids[::4] + random_lists(t.vocab_size)
    return {"ids": ids, "plain": plain, "decode": [[x, back(x, skip_special_tokens=False), back(x, skip_special_tokens=True)] for x in lists]}


def expect_ranks(ranks, pattern, special, normalization, before):
    table = {t: len(ranks) + i for i, t in enumerate(special)}
    enc = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=table)
    normal = normalization.normalize_str if normalization else str  # not Python's, whose Unicode version is its own
    plain = [enc.encode(normal(s), allowed_special="all") for s in TEXTS]
    ids = [[table[t] for t in before] + x for x in plain]
    text = lambda x: enc.decode_bytes(x).decode("utf-8", "replace")
    lists = ids[::4] + random_lists(len(ranks) + len(special))
    return {"ids": ids, "plain": plain, "decode": [[x, text(x), text([i for i in x if i < len(ranks)])] for x in lists]}


def main():
    blobs = {
        "bpe_bytes": spm(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
                         allow_whitespace_only_pieces=True, user_defined_symbols=["<mask>", "\t", "  ", "the cat"], control_symbols=["<|im_start|>"]),
        "bpe_rules": spm(model_type="bpe", rules=True, pad_id=3),
        "unigram_bytes": spm(model_type="unigram", byte_fallback=True, add_dummy_prefix=False, normalization_rule_name="identity",
                             user_defined_symbols=["<x>", "ab"]),
        "unigram_rules": spm(model_type="unigram", rules=True),
        "vocab.txt": word_piece(),
    }
    blobs["vocab.json"], blobs["merges.txt"], blobs["ranks"], ranks = byte_bpe()
    cases = [{"name": name, "files": files, **expect(files, blobs)} for name, files in (spm_cases() | file_cases()).items()]
    for name, (files, *how) in rank_cases(len(ranks)).items():
        cases.append({"name": name, "files": files, **expect_ranks(ranks, *how)})
    for case in cases:
        case["files"] = {n: c if isinstance(c, str) else json.dumps(c, ensure_ascii=False) for n, c in case["files"].items()}
    value = {"blobs": {n: base64.b64encode(b).decode() for n, b in blobs.items()}, "texts": TEXTS, "cases": cases}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    OUT.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    print(len(cases), "cases", len(text), OUT.stat().st_size)


if __name__ == "__main__":
    main()
