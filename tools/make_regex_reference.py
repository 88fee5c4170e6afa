#!/usr/bin/env python3
"""Makes tests/data/regex/reference.xz: where patterns match in hard texts, as Hugging Face tokenizers 0.23 has it.

    pip install tokenizers==0.23.3
    python3 tools/make_regex_reference.py
    python3 tools/make_regex_reference.py --live build/release/tests/unit/test_regex [SEED [ROUNDS]]

The second form draws texts and patterns by the seed and has the test compare them at once.

The file has lines of texts in JSON's spelling, an empty line, then a line for each pattern: `pattern TAB number:hash` with
a number of matches and a hash for each text, or for all texts together where the pattern was drawn by chance (`all:hash`).
The hash is FNV-1a over the matches' ends (start and end in bytes as decimal numbers with a blank after each).
"""
import json
import lzma
import random
import subprocess
import sys
import tempfile

from regex_patterns import FEATURES, MALFORMED, PUBLISHED, UNSUPPORTED, random_pattern
from tokenizers import Regex, normalizers, pre_tokenizers

OUT = "tests/data/regex/reference.xz"

ALPHABETS = [
    "abcABC xyz",
    "ab",
    "abcde .,\n",
    "ssSſßẞ kK\u212a iİıI fﬀﬁﬃ st ﬅﬆ ʼnŉ αιᾳᾼ σςΣ ΐ\u1fd3 åÅ\u212b ǆǅǄ i\u0307",
    "a \t\n\r\x0b\x0c\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000\u200b\u200d\ufeff",
    "0123456789 ,.",
    "0٣५৬๔５²½Ⅷ①፩〇𝟘 a",
    "it's I'LL we'Re don't 'ſ 'S 'd'D'M've\u2019s",
    "éàe\u0301o\u0308\u0323n\u0303 आकि्षी কষ্ট ไทยก่ ẹ̀",
    "日本語漢字ひらカタ한국어ㄱㅎ、。ー々〆 文",
    "👩\u200d🚀👨\u200d👩\u200d👧🙂❤\ufe0f🇩🇪🇫👍🏽1\ufe0f\u20e3©",
    "привет МИР ҒӘѣ ԱՄ ა Ა ᏸ Ꮘ ꭰ",
    "שלום مرحبا ۱۲۳ א\u05b7 ـ\u064b",
    "x=a_b->c[i]; // <|im_end|> {\"k\": 1.5e-3}\n\t#include <x.h>\r\n",
    "\x00\x01\x07\x08\x1b\x7f\x80\x9fab\n",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~“”—…¿§€±×÷№™",
    "가각힣\u1100\u1161\u11a8\u0600\u06dd\u0915\u094d\u0937\ud7ff\ue000\U0010ffff\U00020000\U0001e900",
]
FIXED = ["a", "\n", "ab\n", "aab aaab", "\r\n\n\r", "ba\u0301", "1234567 12 123456", "    a  b   ", "ss SS sS ß ẞ", "abcabc"]


def random_text(draw):
    out = []
    for _ in range(draw.randrange(1, 6)):
        alphabet = draw.choice(ALPHABETS)
        if draw.random() < 0.15:
            lo = draw.choice([0, 0x100, 0x370, 0x900, 0x1000, 0x2000, 0x3000, 0xA000, 0xF900, 0x10000, 0x1F000])
            alphabet = [chr(draw.randrange(lo, lo + 0x700)) for _ in range(8)]
        run = draw.random() < 0.3
        for _ in range(draw.randrange(1, 12)):
            c = draw.choice(alphabet)
            out.append(c * draw.randrange(1, 5) if run else c)
    return "".join(out)


def texts(seed, n):
    draw = random.Random(seed)
    return FIXED + [random_text(draw) for _ in range(n)]


def matches(pattern, text):
    """Matches as pairs of byte offsets: those that hold something from a split, the empty ones from a replacement."""
    find = pre_tokenizers.Split(pattern, "removed", invert=True)
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    full = [(at[a], at[b]) for _, (a, b) in find.pre_tokenize_str(text)]
    mark = "\uf8fe\uf8ff"
    left = normalizers.Replace(pattern, mark).normalize_str(text)
    out, pos, i, data = [], 0, 0, text.encode()
    pieces = left.split(mark)
    for piece in pieces[:-1]:
        pos += len(piece.encode())
        if i < len(full) and full[i][0] == pos:
            out.append(full[i])
            pos = full[i][1]
            i += 1
        else:
            out.append((pos, pos))
    assert i == len(full) and data[pos:].decode() == pieces[-1], (pattern, text)
    return out


def hash_of(spans, h=0x811C9DC5):
    for b in "".join("%d %d " % s for s in spans).encode():
        h = (h ^ b) * 0x01000193 & 0xFFFFFFFF
    return h


def drawn(seed, n):
    """Patterns by chance that the reference takes and that we do not refuse by name."""
    draw = random.Random(seed)
    while n:
        p = random_pattern(draw, draw.randrange(1, 5))
        try:
            compiled = Regex(p)
        except Exception:
            continue
        inside = "\\1" in p and "(" in p[: p.index("\\1")] and ("(?" in p or p.count("(") > 1)
        if len(p) > 120 or inside or ("\\1" in p and "(?i" in p):
            continue
        n -= 1
        yield p, compiled


def write(path, strings, seed, n_drawn):
    lines = [json.dumps(t) for t in strings] + [""]
    for p in PUBLISHED + FEATURES:
        compiled = Regex(p)
        found = [matches(compiled, t) for t in strings]
        lines.append(json.dumps(p) + "\t" + " ".join("%d:%x" % (len(m), hash_of(m)) for m in found))
    for p, compiled in drawn(seed, n_drawn):
        h = 0x811C9DC5
        try:
            for t in strings:
                h = hash_of(matches(compiled, t), h)
        except BaseException as e:  # where its own bound on steps is passed, the reference panics
            if "retry-limit" not in str(e):
                raise
            continue
        lines.append(json.dumps(p) + "\tall:%x" % h)
    for p in MALFORMED:
        try:
            Regex(p)
            raise SystemExit("the reference takes " + p)
        except Exception:
            lines.append(json.dumps(p) + "\tmalformed")
    for p in UNSUPPORTED:
        Regex(p)
        lines.append(json.dumps(p) + "\tunsupported")
    data = ("\n".join(lines) + "\n").encode()
    with open(path, "wb") as f:
        f.write(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def main():
    if "--live" not in sys.argv:
        write(OUT, texts(1, 150), 1, 400)
        return 0
    rest = sys.argv[sys.argv.index("--live") + 1 :]
    seed, rounds = int(rest[1]) if len(rest) > 1 else 2, int(rest[2]) if len(rest) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        for k in range(seed, seed + rounds):
            write(folder + "/live.xz", texts(k, 100), k, 1000)
            if subprocess.call([rest[0], folder + "/live.xz"]):
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
