"""Files that each are well-formed but do not belong together, met when a model runs; and spoilt lists of ids."""
import struct

from cases import LOGITS, Case, Special
from tiny import WIDTH, Model

GENERATE = ["generate", "-m", "{dir}", "-p", "hello", "-n", "3", "--raw"]
FROM_FILE = ["logits", "-m", "{dir}", "--tokens-file", "{dir}/ids.json", "-o", "{dir}/out.safetensors"]
DETOKENIZE = ["detokenize", "-m", "{dir}"]


def small_vocabulary(m):
    del m.tensors["model.embed_tokens.weight"]
    m.dense("model.embed_tokens.weight", [100, WIDTH])
    m.config["vocab_size"] = 100


def not_numbers(m):
    m.tensors["model.norm.weight"] = ("F16", [WIDTH], struct.pack("<e", float("nan")) * WIDTH)


def models():
    """(name, what to change, words)"""
    config = lambda **fields: lambda m: m.config.update(fields)
    file = lambda name, content: lambda m: m.update({name: content})
    yield "vocabulary_smaller_than_tokenizer", small_vocabulary, ["tokenizer's greatest id is 261", "100"]
    yield "weights_not_numbers", not_numbers, ["not numbers"]
    yield "context_of_two", config(max_position_embeddings=2), ["context"]
    yield "eos_text", config(eos_token_id="x"), ["eos_token_id"]
    yield "eos_negative", config(eos_token_id=[2, -5]), ["eos_token_id"]
    yield "eos_object", config(eos_token_id={}), ["eos_token_id"]
    yield "eos_million", config(eos_token_id=list(range(10**6))), ["eos_token_id", "1024"]
    yield "generation_config_open", file("generation_config.json", b'{"eos_token_id":'), ["generation_config.json"]
    yield "generation_config_list", file("generation_config.json", b"[]"), ["generation_config.json"]
    yield "generation_config_fifo", file("generation_config.json", Special("fifo")), ["generation_config.json"]
    yield "generation_config_eos", file("generation_config.json", b'{"eos_token_id":"a"}'), ["eos_token_id"]
    yield "tokenizer_open", file("tokenizer.json", b"{"), ["tokenizer.json"]
    yield "tokenizer_config_open", file("tokenizer_config.json", b"{"), ["tokenizer_config.json"]
    yield "tokenizer_config_list", file("tokenizer_config.json", b"[]"), ["tokenizer_config.json"]


def lists():
    """(name, content of the list of ids, words)"""
    yield "empty", b"", ""
    yield "open", b"[1,2", ""
    yield "object", b"{}", "array"
    yield "fraction", b"[1.5]", "an integer from 0"
    yield "text", b'["1"]', "an integer from 0"
    yield "nested", b"[[1]]", "an integer from 0"
    yield "deep", b"[" * 1_000_000, ""
    yield "real_overflow", b"[1e400]", ""
    yield "huge", b"[99999999999999999999999]", ""
    yield "text_after", b"[1,2] x", ""
    yield "bad_utf8", b'["\xff"]', ""


def cases():
    yield Case("valid_generate", Model().build(), GENERATE, valid=True)
    for name, spoil, words in models():
        m = Model()
        spoil(m)
        yield Case("run_" + name, m.build(), GENERATE, tuple(words))
    for name, content, words in lists():
        m = Model()
        m["ids.json"] = content
        yield Case("ids_" + name, m.build(), FROM_FILE, (words,))
        yield Case("detokenize_" + name, Model().build(), DETOKENIZE, (words,), content)
    for name, ids in (("none", "[]"), ("beyond", "[1,262]"), ("negative", "[-1]"), ("int32", "[2147483648]")):
        m = Model()
        m["ids.json"] = ids.encode()
        yield Case("ids_" + name, m.build(), FROM_FILE)
    for name, ids in (("words", "a"), ("comma", "1,"), ("empty", ""), ("huge", "9" * 100)):
        yield Case("tokens_" + name, Model().build(), [*LOGITS[:4], ids, *LOGITS[5:]])
