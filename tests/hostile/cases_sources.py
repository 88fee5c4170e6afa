"""Spoilt tokenizer.model, tiktoken, vocab.json, merges.txt and vocab.txt files, given to `tokenize`."""
import base64
import json
import struct

from cases import TOKENIZE, Case, Special

TEXT = b"hello \xff world </s>" + b"a" * 2000
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4


# --- protocol buffers -------------------------------------------------------------------------------------------------

def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def piece(text, score=0.0, kind=NORMAL):
    return field(1, field(1, text if isinstance(text, bytes) else text.encode()) + field(2, score) + field(3, kind))


SPECIAL = piece("<unk>", kind=UNKNOWN) + piece("<s>", kind=CONTROL) + piece("</s>", kind=CONTROL)
WORDS = b"".join(piece(p, -float(i)) for i, p in enumerate(["he", "ll", "hell", "hello", *"▁helowrdab"]))
SETTINGS = field(3, BPE)


def model(pieces=SPECIAL + WORDS, settings=SETTINGS, normalizer=b""):
    return pieces + field(2, settings) + field(3, normalizer)


def all_prefixes(letter, n=1000):
    return b"".join(piece(letter * k, -1.0) for k in range(1, n + 1))


def models():
    """(name, content of tokenizer.model, words)"""
    good = model()
    yield "empty", b"", "no pieces"
    yield "zeros", bytes(100), "not a SentencePiece model"
    yield "text", b"hello world\n", "tokenizer.model"
    yield "cut_piece", good[:29], "longer than what is left"
    yield "cut_tag", good + b"\x80", "cut off"
    yield "long_varint", b"\x08" + b"\xff" * 11, "64 bits"
    yield "huge_length", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a", "longer than what is left"
    yield "group", b"\x0b\x0c", "kind"
    yield "field_zero", b"\x00\x01", "number is out of range"
    yield "nan_score", good + piece("zz", float("nan")), "score"
    yield "infinite_score", good + piece("zz", float("-inf")), "score"
    yield "piece_twice", good + piece("he"), "'he'"
    yield "empty_piece", good + piece(""), "empty"
    yield "bad_utf8_piece", good + piece(b"\xff"), "not UTF-8"
    yield "unknown_kind", good + piece("zz", kind=9), "type"
    yield "long_piece", good + piece("z" * 5000), "1024"
    yield "two_unknown", good + piece("zz", kind=UNKNOWN), "UNKNOWN"
    yield "no_unknown", model(WORDS), "UNKNOWN"
    yield "word", model(settings=field(3, WORD)), "WORD"
    yield "char", model(settings=field(3, CHAR)), "CHAR"
    yield "other_type", model(settings=field(3, 77)), "model type"
    yield "suffix", model(settings=SETTINGS + field(24, 1)), "treat_whitespace_as_suffix"
    yield "charsmap_cut", model(normalizer=field(2, b"\x10\0\0\0abcd")), ""
    yield "charsmap_junk", model(normalizer=field(2, b"\xff" * 100)), ""
    yield "many_merges", model(SPECIAL + b"".join(all_prefixes(chr(97 + k)) for k in range(20))), "merges"
    yield "long_merges", model(SPECIAL + b"".join(all_prefixes(chr(97 + k)) for k in range(7))), "more than"
    yield "many_user_defined", model(SPECIAL + WORDS + b"".join(piece(f"<u{k}>", kind=USER_DEFINED) for k in range(100_000))), ""
    yield "long_user_defined", model(SPECIAL + WORDS + b"".join(piece(f"<{k:01000}>", kind=USER_DEFINED) for k in range(1100))), "more than 1048576"
    yield "folder", Special("dir"), "tokenizer.model"
    yield "fifo", Special("fifo"), "tokenizer.model"


# --- rank lists -------------------------------------------------------------------------------------------------------

def line(token, rank):
    return base64.b64encode(token) + b" %d\n" % rank


def ranks(more=b"", skip=()):
    left = [bytes([b]) for b in range(256) if b not in skip] + [b"he", b"ll", b"hell", b"hello"]
    return b"".join(line(t, i) for i, t in enumerate(left)) + more


def rank_files():
    """(name, content of qwen.tiktoken, words)"""
    yield "empty", b"", ""
    yield "binary", bytes(range(256)), "line 1"
    yield "junk", ranks(b"a&b= 260\n"), "line 261"
    yield "bits_left", ranks(b"YR== 260\n"), "line 261"
    yield "no_rank", ranks(b"YWI=\n"), "line 261"
    yield "negative", ranks(b"YWI= -1\n"), "line 261"
    yield "fraction", ranks(b"YWI= 1.5\n"), "line 261"
    yield "huge_rank", ranks(line(b"ab", 2**31)), "million"
    yield "overflow", ranks(b"YWI= 99999999999999999999\n"), "line 261"
    yield "rank_twice", ranks(line(b"ab", 259)), "line 261"
    yield "token_twice", ranks(line(b"he", 260)), "256 and 260"
    yield "gap", ranks(line(b"ab", 262)), "260"
    yield "no_byte", ranks(skip=(65,)), "0x41"
    yield "empty_token", ranks(b" 260\n"), "line 261"
    yield "long_token", ranks(line(b"z" * 5000, 260)), "1024"
    yield "endless_line", ranks(b"A" * 5_000_000), "line 261"
    yield "folder", Special("dir"), "qwen.tiktoken"


# --- vocab.json, merges.txt, vocab.txt --------------------------------------------------------------------------------

VOCAB = {"h": 0, "e": 1, "he": 2, "l": 3, "o": 4}


def vocab_files():
    """(name, vocab.json, merges.txt, words)"""
    good, merges = json.dumps(VOCAB).encode(), b"#version: 0.2\nh e\n"
    yield "list", b"[]", merges, "vocab.json"
    yield "open", b'{"a":', merges, "vocab.json"
    yield "text_id", b'{"a":"x"}', merges, "vocab.json"
    yield "huge_id", b'{"a":4000000000}', merges, "vocab.json"
    yield "same_id", b'{"a":1,"b":1}', merges, "vocab.json"
    yield "twice", b'{"a":1,"a":2}', merges, "vocab.json"
    yield "bad_utf8", b'{"\xff":1}', merges, "vocab.json"
    yield "no_merges", good, None, "merges.txt"
    yield "three_parts", good, b"h e l\n", "merges.txt: line 1"
    yield "one_part", good, merges + b"he\n", "merges.txt: line 3"
    yield "unknown_part", good, b"x y\n", "vocab.json"
    yield "bad_utf8_merge", good, b"\xff h\n", "merges.txt: line 1"


def configs():
    """(name, tokenizer_config.json, words), beside a good tokenizer.model"""
    token = lambda **flags: {"content": "x", "special": True, **flags}
    yield "class_of_others", {"tokenizer_class": "XLNetTokenizer"}, "XLNetTokenizer"
    yield "decoder_list", {"added_tokens_decoder": []}, "added_tokens_decoder"
    yield "decoder_id", {"added_tokens_decoder": {"x": token()}}, "added_tokens_decoder"
    yield "decoder_negative", {"added_tokens_decoder": {"-1": token()}}, "added_tokens_decoder"
    yield "decoder_huge", {"added_tokens_decoder": {"99999999999": token()}}, "id"
    yield "decoder_text", {"added_tokens_decoder": {"1": "x"}}, "added_tokens_decoder"
    yield "decoder_long", {"added_tokens_decoder": {"30": token(content="x" * 100_000)}}, "longer"
    yield "named_number", {"bos_token": 7}, "bos_token"
    yield "extra_number", {"additional_special_tokens": [7]}, "additional_special_tokens"
    yield "extra_text", {"additional_special_tokens": "x"}, "additional_special_tokens"


def cases():
    yield Case("valid_sentencepiece", {"tokenizer.model": model()}, TOKENIZE, stdin=TEXT, valid=True)
    yield Case("valid_unigram", {"tokenizer.model": model(settings=field(3, UNIGRAM))}, TOKENIZE, stdin=TEXT, valid=True)
    yield Case("valid_tiktoken", {"qwen.tiktoken": ranks()}, TOKENIZE, stdin=TEXT, valid=True)
    good = {"vocab.json": json.dumps(VOCAB).encode(), "merges.txt": b"#version: 0.2\nh e\n"}
    yield Case("valid_vocab_files", good, TOKENIZE, stdin=TEXT, valid=True)
    for name, content, words in models():
        yield Case("sentencepiece_" + name, {"tokenizer.model": content}, TOKENIZE, (words,), TEXT)
    for name, content, words in rank_files():
        yield Case("tiktoken_" + name, {"qwen.tiktoken": content}, TOKENIZE, (words,), TEXT)
    yield Case("tiktoken_unknown", {"x.tiktoken": ranks()}, TOKENIZE, ("x.tiktoken", "QWenTokenizer"), TEXT)
    for name, vocab, merges, words in vocab_files():
        files = {"vocab.json": vocab, **({} if merges is None else {"merges.txt": merges})}
        yield Case("vocab_files_" + name, files, TOKENIZE, (words,), TEXT)
    yield Case("vocab_files_class", {**good, "tokenizer_config.json": b'{"tokenizer_class":"CTRLTokenizer"}'}, TOKENIZE, ("CTRLTokenizer",), TEXT)
    yield Case("vocab_txt_empty", {"vocab.txt": b""}, TOKENIZE, ("vocab.txt",), TEXT)
    yield Case("vocab_txt_bad_utf8", {"vocab.txt": b"[UNK]\n[CLS]\n[SEP]\n\xff\n"}, TOKENIZE, ("vocab.txt: line 4",), TEXT)
    for name, config, words in configs():
        yield Case("sources_" + name, {"tokenizer.model": model(), "tokenizer_config.json": json.dumps(config).encode()}, TOKENIZE, (words,), TEXT)
