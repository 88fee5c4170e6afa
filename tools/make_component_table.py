#!/usr/bin/env python3
"""Makes src/text/component_table.inc: what the components of tokenizer.json that are not patterns know about characters.

Hugging Face's `tokenizers` asks several Rust libraries, each with Unicode tables of its own age, so the sets are read off
the library itself (0.23.3), by giving it every character:

  control      what BertNormalizer's clean_text drops
  accent       what its strip_accents drops
  mark         what StripAccents drops
  punctuation  what Punctuation and BertPreTokenizer cut out
  number       what Digits cuts out
  word_more    what Whitespace, and single_word of added tokens, count as part of a word, and \\w of a pattern does not
  word_less    the other way round
  lower        what Lowercase makes of a character

The classes of grapheme clusters come from the package regex 2026.11.19, whose Unicode is newer: of what it lets extend a
cluster only that counts which does so for the reference's Precompiled (Unicode 17).

    pip install tokenizers==0.23.3 regex==2026.11.19
    python3 tools/make_component_table.py > src/text/component_table.inc
"""
import json

import regex
from make_tokenizer_kinds import EMPTY, charsmap, tokenizer
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

CHARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(values):
    """[(first, last, value)] of a dict by character, neighbours of equal value joined."""
    out = []
    for c in sorted(values):
        if out and out[-1][1] == c - 1 and out[-1][2] == values[c]:
            out[-1] = (out[-1][0], c, values[c])
        else:
            out.append((c, c, values[c]))
    return out


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on})


def dropped(normalizer):
    return {c: 0 for c in CHARS if normalizer.normalize_str(chr(c)) == ""}


def cut_out(pre_tokenizer):
    return {c: 0 for c in CHARS if len(pre_tokenizer.pre_tokenize_str("a" + chr(c) + "a")) == 3}


def words():
    split = pre_tokenizers.Split(Regex("\\w"), "isolated")
    pattern = {c for c in CHARS if len(split.pre_tokenize_str("-" + chr(c) + "-")) == 3}
    whitespace = pre_tokenizers.Whitespace()
    own = {c for c in CHARS if len(whitespace.pre_tokenize_str("a" + chr(c) + "a")) == 1}
    return {"word_more": dict.fromkeys(own - pattern, 0), "word_less": dict.fromkeys(pattern - own, 0)}


def lower():
    """Runs of characters at equal steps whose lower case is equally far away; those with two are left to the code."""
    far, out = {}, []
    for c in CHARS:
        s = normalizers.Lowercase().normalize_str(chr(c))
        if len(s) == 1 and ord(s) != c:
            far[c] = ord(s) - c
        elif len(s) != 1:
            assert (c, s) == (0x130, "i\u0307"), hex(c)
    for c in sorted(far):
        last = out[-1] if out else None
        step = c - last[1] if last else 0
        if last and last[3] == far[c] and step in (1, 2) and last[2] in (0, step):
            out[-1] = (last[0], c, step, far[c])
        else:
            out.append((c, c, 0, far[c]))
    return [(a, b, step or 1, d) for a, b, step, d in out]


def graphemes():
    classes = [("LINKER", r"\p{InCB=Linker}"), ("EXTEND", r"\p{GCB=Extend}"), ("CONTROL", r"\p{GCB=Control}"),
               ("PREPEND", r"\p{GCB=Prepend}"), ("SPACING", r"\p{GCB=SpacingMark}"), ("CONSONANT", r"\p{InCB=Consonant}"),
               ("PICTURE", r"\p{Extended_Pictographic}")]
    map_a = {"type": "Precompiled", "precompiled_charsmap": charsmap({"a": "X"})}
    reference = Tokenizer.from_str(json.dumps(tokenizer(EMPTY, map_a))).normalizer
    out = {}
    for name, pattern in classes:
        match = regex.compile(pattern).match
        extends = name in ("LINKER", "EXTEND", "SPACING")
        for c in CHARS:
            if c not in out and match(chr(c)) and (not extends or reference.normalize_str("a" + chr(c)) == "X"):
                out[c] = "GRAPHEME_" + name
    return out


def write(name, type_, rows, form):
    print(f"\nstatic const struct {type_} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ", ".join(form(row)) + "},"
        if len(line + text) > 120:
            print(line)
            line = "   "
        line += text
    print(line)
    print("};")


def main():
    print("/* Made by tools/make_component_table.py from tokenizers 0.23.3 and regex 2026.11.19. */")
    sets = {
        "control": dropped(bert(clean_text=True)), "accent": dropped(bert(strip_accents=True)),
        "mark": dropped(normalizers.StripAccents()), "punctuation": cut_out(pre_tokenizers.Punctuation()),
        "number": cut_out(pre_tokenizers.Digits(individual_digits=True)), **words(),
    }
    assert sets["punctuation"] == cut_out(pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer()]))
    for name, values in sets.items():
        write(name, "char_range", ranges(values), lambda r: (f"{r[0]:#x}", f"{r[1]:#x}"))
    write("lower", "lower_run", lower(), lambda r: (f"{r[0]:#x}", f"{r[1]:#x}", str(r[2]), str(r[3])))
    write("grapheme", "grapheme_range", ranges(graphemes()), lambda r: (f"{r[0]:#x}", f"{r[1]:#x}", r[2]))


if __name__ == "__main__":
    main()
