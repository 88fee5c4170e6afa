"""Random texts: runs of characters of one class, words, code and known hard texts, joined, repeated, cut and mutated."""
import sys
import unicodedata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from tokenizer_strings import MORE, NEAR_SPACES, PLAIN, SPACES  # noqa: E402


def span(*ranges):
    return [chr(c) for lo, hi in ranges for c in range(lo, hi + 1) if not 0xD800 <= c < 0xE000]


def category(*names):
    return [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) in names]


# class -> (weight, its characters)
CLASSES = {
    "lower": (8, span((0x61, 0x7A))), "upper": (4, span((0x41, 0x5A))), "digit": (5, span((0x30, 0x39))),
    "punctuation": (6, span((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))),
    "contraction": (3, list("'''’sStTdDmMlLrReEvVſK")), "space": (6, [" "]), "newline": (3, list("\n\n\r \t")),
    "spaces": (4, list(SPACES)), "near space": (2, list(NEAR_SPACES)), "latin": (3, span((0xA1, 0x24F))),
    "marks": (4, span((0x300, 0x36F), (0x1AB0, 0x1ACE), (0x20D0, 0x20F0), (0xFE20, 0xFE2F))), "all marks": (2, category("Mn", "Mc", "Me")),
    "greek": (1, span((0x370, 0x3FF), (0x1F00, 0x1FFF))), "cyrillic": (2, span((0x400, 0x52F))),
    "hebrew, arabic": (2, span((0x591, 0x5F4), (0x600, 0x6FF), (0xFB1D, 0xFDFF), (0xFE70, 0xFEFF))),
    "indic": (2, span((0x900, 0xDFF))), "south-east": (2, span((0xE00, 0x109F), (0x1780, 0x17F9))), "kana": (2, span((0x3000, 0x30FF))),
    "han": (3, span((0x4E00, 0x9FFF))), "rare han": (1, span((0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF))),
    "hangul": (1, span((0xAC00, 0xD7A3))), "jamo": (2, span((0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97C), (0xD7B0, 0xD7FB))),
    "width": (2, span((0xFF01, 0xFFEE))), "symbols": (2, span((0x2010, 0x2BFF))), "emoji": (3, span((0x1F300, 0x1FAFF))),
    "emoji parts": (3, list("\u200d\ufe0f\ufe0e\u20e3🏻🏽🏿🇦🇫🇷👩👨👦❤♀🏳🌈1#*")), "numbers": (2, category("Nd", "Nl", "No")),
    "changed by NFC": (2, [c for c in span((0x80, 0x2FFFF)) if unicodedata.normalize("NFC", c) != c]),
    "changed by NFKC": (2, [c for c in span((0x80, 0x1FFFF)) if unicodedata.normalize("NFKC", c) != c]),
    "cased": (2, [c for c in span((0x80, 0x1FFFF)) if c.lower() != c or c.upper() != c]),
    "connectors": (1, category("Pc", "Pd", "Cf")), "controls": (2, category("Cc")), "private": (1, span((0xE000, 0xE010), (0xF0000, 0xF0010))),
    "unassigned": (1, category("Cn")[::37]), "any": (3, span((0, 0x10FFFF))), "low planes": (2, span((0x80, 0x1FFFF))),
    "spelling": (2, list("▁ĠĊĉČ<0x>ABF#@/w_")),
}
NAMES, WEIGHTS = list(CLASSES), [w for w, _ in CLASSES.values()]
WORDS = """the of and to in is that it was for on are with as his they be at one have this from or had by hot but some what
there we can out other were all your when up use word how said an each she which do their time if will way about many then
Hello World HTTPServer iPhone McDonald XMLHttpRequest don't I'm you're we've they'll he'd SHE'S 'tis rock'n'roll Straße naïve
Ελλάδα Привет мир مرحبا שלום नमस्ते 你好 世界 こんにちは 안녕하세요 def return self.x[0] i++ != <= && || :: -> // /* */ #include
std::vector<int> printf("%d\\n"); 3.14 1,000,000 0xFF 1e-9 2024-05-17 12:30 $9.99 50% user@example.com https://a.b/c?d=e&f""".split()
KNOWN = [s for s in PLAIN + MORE if s]


def run(rng):
    chars = CLASSES[rng.choices(NAMES, WEIGHTS)[0]][1]
    n = rng.choice([1, 1, 1, 2, 2, 3, 4, 6, 10]) if rng.random() < 0.97 else rng.choice([20, 64, 257])
    if rng.random() < 0.25:
        return rng.choice(chars) * n
    return "".join(rng.choices(chars, k=n))


def words(rng):
    return "".join(rng.choice(WORDS) + rng.choice([" ", " ", " ", " ", "", ", ", ". ", "\n", "  "]) for _ in range(rng.randint(1, 12)))


def known(rng):
    s = rng.choice(KNOWN)
    a, b = sorted((rng.randint(0, len(s)), rng.randint(0, len(s))))
    return s[a:b] if rng.random() < 0.8 else s


def token(rng, tokens):
    """An added token: whole, cut, doubled, or changed by one character."""
    t = rng.choice(tokens) if tokens else "<s>"
    kind = rng.random()
    if kind < 0.6:
        return t
    if kind < 0.75:
        return t[:rng.randint(0, len(t))] + rng.choice(["", t])
    i = rng.randint(0, len(t))
    return t[:i] + run(rng)[:2] + t[i + rng.randint(0, 1):]


def mixed(rng, tokens):
    """Characters of many classes one by one, where classes meet most."""
    return "".join(rng.choice(CLASSES[n][1]) for n in rng.choices(NAMES, WEIGHTS, k=rng.randint(1, 24)))


def text(rng, tokens=(), most=14):
    parts = []
    for _ in range(rng.randint(0, most)):
        kind = rng.random()
        part = (run(rng) if kind < 0.5 else words(rng) if kind < 0.65 else known(rng) if kind < 0.75
                else token(rng, tokens) if kind < 0.87 else mixed(rng, tokens))
        parts.append(part * rng.choice([1, 1, 1, 1, 1, 1, 2, 3]))
    s = "".join(parts)
    if rng.random() < 0.02:
        s *= rng.randint(2, 30)
    return s[:20000]


def broken(rng, tokens=()):
    """Bytes that are not UTF-8: a text with bytes changed, inserted and cut off."""
    b = bytearray(text(rng, tokens, 6).encode())
    for _ in range(rng.randint(1, 6)):
        i = rng.randint(0, len(b))
        b[i:i + rng.randint(0, 2)] = rng.choice([bytes([rng.randrange(128, 256)]), b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80",
                                                 b"\xf4\x90\x80\x80", b"\xff", b"\xef\xbf", b""])
    return bytes(b)
