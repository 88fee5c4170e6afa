#!/usr/bin/env python3
"""Makes src/text/unicode_table.inc: the Unicode classes that tokenizers see.

The reference (Hugging Face tokenizers 0.23) matches its patterns with an Oniguruma of Unicode 16.0: for every general
category and for \\d, \\s and \\w it agrees with the table made here on all 1,112,064 code points; `--check` shows it.
Source: the package unicodedata2 16.0.0 (the Unicode Character Database behind Python's own interface).

    pip install unicodedata2==16.0.0 tokenizers==0.23.3
    python3 tools/make_unicode_table.py > src/text/unicode_table.inc
    python3 tools/make_unicode_table.py --check

One byte per code point: bits 0-4 the general category (order below), bit 5 White_Space, bit 6 word character (\\w), bit 7
"may change under NFC or with the characters before it". Blocks of 128 bytes are stored once and found by an index.
"""
import sys

import unicodedata2 as ucd

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
WHITE_SPACE = {0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x20, *range(9, 14), *range(0x2000, 0x200B)}
# \w is Alphabetic, marks, Nd and Pc. The alphabetic symbols (So) are the circled and squared letters. Oniguruma counts the
# six numbers of Latin-1 too (superscripts and fractions).
ALPHABETIC_SYMBOLS = {
    *range(0x24B6, 0x24EA),
    *range(0x1F130, 0x1F14A),
    *range(0x1F150, 0x1F16A),
    *range(0x1F170, 0x1F18A),
}
LATIN1_NUMBERS = {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}
BLOCK = 128
SPACE, WORD, NFC_UNSAFE = 1 << 5, 1 << 6, 1 << 7


def second_characters():
    """Characters that combine with one before them: seconds of canonical pairs, and Hangul vowels and finals."""
    out = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    for c in range(0x110000):
        parts = ucd.decomposition(chr(c))
        if parts and not parts.startswith("<") and " " in parts:
            out.add(int(parts.split()[1], 16))
    return out


def classes():
    seconds = second_characters()
    for c in range(0x110000):
        category = ucd.category(chr(c))
        value = CATEGORIES.index(category)
        if c in WHITE_SPACE:
            value |= SPACE
        if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or c in ALPHABETIC_SYMBOLS | LATIN1_NUMBERS:
            value |= WORD
        surrogate = category == "Cs"
        if not surrogate and (ucd.combining(chr(c)) or c in seconds or ucd.normalize("NFC", chr(c)) != chr(c)):
            value |= NFC_UNSAFE
        yield value


def rows(values, per_line=24):
    for i in range(0, len(values), per_line):
        print("    " + ", ".join(map(str, values[i : i + per_line])) + ",")


def generate():
    table = bytes(classes())
    blocks, index = {}, []
    for i in range(0, len(table), BLOCK):
        index.append(blocks.setdefault(table[i : i + BLOCK], len(blocks)))
    print(f"/* Made by tools/make_unicode_table.py from the Unicode Character Database {ucd.unidata_version}. */")
    print(f"static const uint16_t block_of[{len(index)}] = {{")
    rows(index)
    print("};")
    print(f"static const uint8_t blocks[{len(blocks)}][{BLOCK}] = {{")
    for block in blocks:
        print("    {")
        rows(list(block))
        print("    },")
    print("};")


def check():
    from tokenizers import Regex, normalizers

    table = list(classes())
    wanted = {"\\p{%s}" % c: (lambda v, i=i: v & 31 == i) for i, c in enumerate(CATEGORIES) if c not in ("Cs", "Cn")}
    wanted |= {"\\s": lambda v: v & SPACE, "\\w": lambda v: v & WORD, "\\d": lambda v: v & 31 == 8}
    bad = 0
    for pattern, member in wanted.items():
        drop = normalizers.Replace(Regex(pattern), "")
        scalars = (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)
        wrong = [hex(c) for c in scalars if (drop.normalize_str(chr(c)) == "") != bool(member(table[c]))]
        print(pattern, "differs at" if wrong else "agrees", *wrong[:9])
        bad += bool(wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(check() if "--check" in sys.argv else generate())
