#!/usr/bin/env python3
"""Makes src/text/property_table.inc and src/text/fold_table.inc: what \\p{...}, \\X and (?i) mean in tokenizer files.

The source is the reference itself (the Oniguruma inside Hugging Face tokenizers 0.23, Unicode 16.0): it is asked about
every code point, property by property, so the tables agree with it by construction, and `--check` asks again.

    pip install tokenizers==0.23.3
    python3 tools/make_regex_table.py              writes both tables
    python3 tools/make_regex_table.py --check      says whether they are as they would be written now

The names of properties are those of the present table; a list of new ones (Oniguruma's doc/UNICODE_PROPERTIES has them)
can be given as a file: `--names FILE`. Names that the reference refuses are left out.

A set is written as numbers of 7 bits a byte, the high bit meaning that more follow: how many ranges, then for each the
gap to the range before and its length less one. A set that is a union of general categories is written as their bits.
"""
import re
import sys

from tokenizers import Regex, normalizers, pre_tokenizers

PROPERTIES, FOLDS = "src/text/property_table.inc", "src/text/fold_table.inc"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Where the characters are alike for long stretches, only every so manieth is asked about, and the ones between where two
# answers differ: [first, last, step]. With --all, every one.
ALIKE = [(0x3400, 0x4DBF, 16), (0x4E00, 0x9FFF, 16), (0xAC00, 0xD7A3, 28), (0xE000, 0xF8FF, 64)]
ALIKE += [(0x20000, 0x2A6DF, 64), (0x2A700, 0x2B739, 64), (0x2B740, 0x2B81D, 64), (0x2B820, 0x2CEA1, 64)]
ALIKE += [(0x2CEB0, 0x2EBE0, 64), (0x2EBF0, 0x2EE5D, 64), (0x30000, 0x3134A, 64), (0x31350, 0x323AF, 64)]
ALIKE += [(0x32400, 0x3FFEF, 256)]
ALIKE += [(plane << 16, (plane << 16) + 0xFFEF, 256) for plane in (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16)]
ALIKE += [(0xE0200, 0xEFFEF, 256)]
SURROGATES = range(0xD800, 0xE000)
POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper xdigit word".split()


def samples():
    left_out = set()
    for lo, hi, step in [] if "--all" in sys.argv else ALIKE:
        left_out |= {c for c in range(lo + 1, hi) if (c - lo) % step}
    return [c for c in SCALARS if c not in left_out]


ASKED = samples()


def matched(find, points):
    text = "".join(map(chr, points))
    return [points[i] for _, (a, b) in find.pre_tokenize_str(text) for i in range(a, b)] if text else []


def members(pattern):
    """The code points that a pattern of one character matches."""
    find = pre_tokenizers.Split(Regex("(?:%s)+" % pattern), "removed", invert=True)
    out = set(matched(find, ASKED))
    for a, b in zip(ASKED, ASKED[1:]):
        if b - a > 1 and b != 0xE000:
            between = range(a + 1, b)
            out |= set(matched(find, between) if (a in out) != (b in out) else between if a in out else ())
    return out


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def number(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def coded(points):
    v = ranges(points)
    out, before = number(len(v)), 0
    for lo, hi in v:
        out += number(lo - before) + number(hi - lo)
        before = hi + 1
    return out


def rows(values, per_line=24):
    return "".join(
        "    " + ", ".join(map(str, values[i : i + per_line])) + ",\n" for i in range(0, len(values), per_line)
    )


# --- properties ---------------------------------------------------------------------------------------------------------


def normal(name):
    return re.sub("[ _-]", "", name).lower()


def names():
    if "--names" in sys.argv:
        text = open(sys.argv[sys.argv.index("--names") + 1]).read()
        found = re.findall(r"^ *([A-Za-z_0-9 -]+?) *$", text, re.M)
    else:
        found = re.findall(r'^    {"(\w+)",', open(PROPERTIES).read(), re.M)
    return sorted({normal(n) for n in found} | set(POSIX))


def accepted(name):
    try:
        Regex("\\p{%s}" % name)
        return True
    except Exception:
        return False


def joined(before, after):
    """The code points c for which before + c + after is one text segment."""
    find, out = pre_tokenizers.Split(Regex("\\X"), "isolated"), set()
    points = [c for c in SCALARS if c not in (10, 13)]
    for block in range(0, len(points), 4096):
        here = points[block : block + 4096]
        parts = find.pre_tokenize_str("\n".join(before + chr(c) + after for c in here))
        lines = [[]]
        for part, _ in parts:
            if part == "\n":
                lines.append([])
            else:
                lines[-1].append(part)
        out |= {c for c, line in zip(here, lines, strict=True) if len(line) == 1}
    return out


def segment_sets():
    """The classes of Unicode's annex 29 that extended grapheme clusters need, as the reference has them."""
    follows = joined("a", "")
    extends = joined("\U0001f600", "\u200d\U0001f600") - {0x200D} - joined("", "\u200d\U0001f600")
    prepends = joined("", "a")
    controls = {c for c in SCALARS if c not in follows} - joined("", "\u0301") - {10, 13}
    return {
        "CONTROL": controls,
        "PREPEND": prepends,
        "EXTEND": extends & follows,
        "SPACING": follows - extends - {0x200D},
    }


def property_table():
    category = {n: members("\\p{%s}" % n) for n in CATEGORIES if n != "Cs"}
    category["Cs"] = set(SURROGATES)
    sets, data, lines = {}, bytearray(), []
    entries = [(n, members("\\p{%s}" % n)) for n in names() if accepted(n)]
    entries += [("[%s]" % n, members("[[:%s:]]" % n)) for n in POSIX]

    def place(points):
        bits = sum(1 << i for i, n in enumerate(CATEGORIES) if n != "Cs" and category[n] <= points)
        union = set().union(*(category[n] for i, n in enumerate(CATEGORIES) if bits >> i & 1))
        if union == points:
            return "BY_CATEGORY | 0x%x" % bits
        code = coded(points)
        if code not in sets:
            sets[code] = len(data)
            data.extend(code)
        return str(sets[code])

    for name, points in sorted(entries, key=lambda e: e[0]):
        lines.append('    {"%s", %s},\n' % (name, place(points)))
    segments = ["    [SEGMENT_%s] = %s,\n" % (n, place(p)) for n, p in segment_sets().items()]
    return (
        "/* Made by tools/make_regex_table.py from the Oniguruma of Hugging Face tokenizers 0.23, Unicode 16.0. */\n"
        "static const struct property properties[] = {\n%s};\n"
        "static const uint32_t segments[] = {\n%s};\n"
        "static const uint8_t ranges[] = {\n%s};\n" % ("".join(lines), "".join(segments), rows(list(data)))
    )


# --- letter case ---------------------------------------------------------------------------------------------------------


def mates_of(inside, outside):
    """The code points of `outside` that a class of those `inside` matches under (?i)."""
    cls = "".join("\\x{%x}-\\x{%x}" % tuple(r) for r in ranges(inside))
    rest = set(normalizers.Replace(Regex("(?i)[%s]" % cls), "").normalize_str("".join(map(chr, outside))))
    return {c for c in outside if chr(c) not in rest}


def cased():
    """The code points that (?i) relates to others: blocks of 8192 against all the rest, and within a block those that
    have a bit set against those that have it not."""
    out = set()
    for block in range(0, 0x110000, 8192):
        own = [c for c in SCALARS if block <= c < block + 8192]
        if own:
            out |= mates_of(own, [c for c in SCALARS if not block <= c < block + 8192])
        for bit in range(13):
            sides = [c for c in own if c >> bit & 1], [c for c in own if not c >> bit & 1]
            if all(sides):
                out |= mates_of(sides[0], sides[1]) | mates_of(sides[1], sides[0])
    return out


def folds():
    """Pairs of a character and the one that stands for its class, and strings with the characters that equal them."""
    letters = sorted(cased())
    text = "".join(map(chr, letters))
    classes, strings, single = [], {}, {}
    for c in letters:
        find = pre_tokenizers.Split(Regex("(?i)\\x{%x}" % c), "removed", invert=True)
        single[c] = {ord(s) for s, _ in find.pre_tokenize_str("\n".join(text)) if len(s) == 1}
    multi = {c: t for c in range(0x110000) if len(t := chr(c).casefold()) > 1}
    for c, t in multi.items():
        find = pre_tokenizers.Split(Regex("(?i)\\x{%x}" % c), "removed", invert=True)
        if [s for s, _ in find.pre_tokenize_str(t)] == [t]:
            strings.setdefault(t, []).append(c)
    pairs = {}
    for c in letters:
        group = single[c] | {c}
        if c in multi and c in strings.get(multi[c], ()):
            continue
        stands = [x for x in group if chr(x).casefold() == chr(x) and x not in pairs]
        lower = [x for x in group if chr(x).lower() == chr(x)]
        pairs[c] = min(stands or lower or group)
    for c, f in list(pairs.items()):
        for x in single[c]:
            pairs[x] = f
    return {c: f for c, f in pairs.items() if c != f}, strings


def runs(pairs):
    """Pairs as [first, last, step, difference]."""
    out = []
    for c, f in sorted(pairs.items()):
        if out:
            lo, hi, step, delta = out[-1]
            if f - c == delta and (c - hi == step or (lo == hi and c - hi <= 2)):
                out[-1] = [lo, c, c - hi, delta]
                continue
        out.append([c, c, 1, f - c])
    return out


def fold_table():
    pairs, strings = folds()
    lines = ["    {0x%x, 0x%x, %d, %d},\n" % tuple(r) for r in runs(pairs)]
    texts = []
    for t, chars in sorted(strings.items()):
        text = ", ".join("0x%x" % ord(c) for c in t)
        texts.append("    {%d, {%s}, {%s}},\n" % (len(t), text, ", ".join("0x%x" % c for c in sorted(chars))))
    return (
        "/* Made by tools/make_regex_table.py from the Oniguruma of Hugging Face tokenizers 0.23, Unicode 16.0. */\n"
        "static const struct fold_run runs[] = {\n%s};\n"
        "static const struct fold_string strings[] = {\n%s};\n" % ("".join(lines), "".join(texts))
    )


def main():
    bad = 0
    for path, make in ((FOLDS, fold_table), (PROPERTIES, property_table)):
        text = make()
        if "--check" in sys.argv:
            same = open(path).read() == text
            print(path, "agrees with the reference" if same else "DIFFERS")
            bad |= not same
        else:
            open(path, "w").write(text)
    return bad


if __name__ == "__main__":
    sys.exit(main())
