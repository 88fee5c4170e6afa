"""The patterns that the regular expressions are tried with: those of published tokenizer files, and one for every
feature of Oniguruma's syntax. Used by make_regex_reference.py."""

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s"
HAN = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"

PUBLISHED = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{TAIL}",
    rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{TAIL}",
    rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{TAIL}",
    O200K % (CONTRACTION + "?", CONTRACTION + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL,
    O200K % ("", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL,
    O200K % ("", "") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL,
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + TAIL,
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    "[一-龥ࠀ-一가-\ud7ff]+",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ]+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"[0-9][0-9][0-9]",
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?" + HAN[0] + "*" + HAN[1] + "+" + CONTRACTION + r"?|[^\r\n\p{L}\p{N}]?" + HAN[0] + "+"
    + HAN[1] + "*" + CONTRACTION + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL,
    r"\d{1,3}(?=(?:\d{3})*\b)",
    r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+",
    rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    r"\p{N}+",
    r"(?=(\d{3})+(?!\d))",
    r"(?<=\d)(?=(?:\d{3})+(?!\d))",
    r" ?[^(\s|.,!?…。，、।۔،)]+",
    rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|"
    + "|".join(r"\s{%d}(?!\S)" % n for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}",
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))",
    r"[^\n]+|[\n]+",
    r"\w+|[^\w\s]+",
    r" +",
    r"\s+$",
    r"(?<=\S)\s+|\s+(?=\S)",
    r"<\|[a-z_]+\|>",
    r"(?:[^\S\n]|\n)+",
    r"(?i)n't\b|'(?:s|m|re|ve|ll|d)\b",
    r"[\p{P}\p{S}]{1,2}|\X",
    r"(\s+|[A-Za-z]+|\d)",
    r"\p{L}\p{M}*|\p{N}|[^\S\r\n]+|\R|.",
    r"[^\W\d_]+|\d{1,2}|_+",
    r"\n|\t| {2,}",
    r"^\s*|\s*$",
    r"‍|️",
    r"\p{Hiragana}+|\p{Katakana}+|\p{Hangul}+|\p{Thai}+|\p{Arabic}+|\p{Cyrillic}+",
]

FEATURES = r"""
a{2,3}+b
a{2}+
a{2}?
a{,2}?b
a{,3}
a{3,1}
(?:a{2,1})a
a{
a{1
a{,}
a**
a+?*b
(?:a*)??b
(?:a??)+
(?:a+)+b
(?:a+)*$
(a+)+b
a?+a
a*+a
a++b
(?>a+)b
(?>a|ab)c
(?>a+|a)a
(?>a+|[ab])b
(?:a+|ab?)++b
(?i)ß
(?i)ss
(?i)ẞ+
(?i)sss
(?i)ss+
(?i)(?:s)s
(?i)s(?#x)s
(?i)s(s)
(?i)[ß]
(?i)[^ß]
(?i)[^ßk]
(?i)[s]t
(?i)[ﬆx]
(?i)st
(?i)ff
(?i)ffi
(?i)ﬃ
(?i)fi
(?i)ŉ|ʼn
(?i)İ
(?i)i
(?i)i̇
(?i)σ
(?i)ǆ
(?i)k
(?i)å
(?i)[^k]
(?i)\p{Lu}
(?i)[\p{Lu}]
(?i)[^\p{Lu}]
(?i)[a&&[^A]]
(?i)[[^a]]
(?i)[^[^a]]
(?i)\x{df}|\u0130
(?i)\xc3\x9f
(?i)(?<=ß)a
(?i)(?<=ss)a
(?i)(?<=k)a
(?i)αι|ᾳ|ΐ
(?i)[а-я]+
(?i)ᏸ|ꭰ|Ა|ა
(?i:a)b
(?-i:a)
a(?i)b|c
(?:a(?i)b|c)d|B
(?i)a(?-i)b
(?i-m:A)
(?m).
(?m:.)a
(?-m:.)+
.
\N
\O
(?x) a b # comment
(?x)[a ]+
(?x) a + b
(?x: a b)c d
a(?#c)+
(a)\1
(a|b)\1
([a-z])([a-z])\2\1
(.)\1+
(?<n>a|b)-\k<n>
(?'n'a)\k'n'
(?<n>a)(?<n>b)\k<n>
(a)(?<n>b)
(a)\k<-1>
(?:(a)|b)*\1
(\p{L})\1
(a)|b\1
(a|b)(?:\1|c)
(?<!\d)\d{2}(?!\d)
(?<=a|bc)d
(?<=a+)b
(?<=a*)b
(?<=\s+)\S
(?<!\s{2,3})\S+
(?<=a.{0,3})c
(?<=(?:ab|c)d?)e
(?<=^)a
(?<=\b)a
(?<=a(?<=a)b)c
(?<!a|bb)c
(?<=\n)a
(?<=🙂|é)a
(?=a)a
(?!a)\w
(?=.*b)a
^
$
^a
a$
\A.
.\z
.\Z
\Z
\z
\G\w
\Ga|b
a\Kb
\b
\B
\b\w+\b
(?W)\w+
(?W:\b)
(?D)\d
(?S)\s
(?P)[[:alpha:]]+
(?P:\p{Alpha}+)
(?W:[\w]+)
(?W)\W
\h+
\H+
\R
\R+
\R?\n
\X
\X\X
[\b]
\a|\e|\f|\v|\t
\x41|\x
\xc3\xa9
[\xc3\xa9\xc3\xa0]
\x{1F600}
[\x{1F600}-\x{1F64F}]
\u00e9
\101|\o{102}
\012
\0
\cA|\C-J
\q\-\é
\x{
[a-z]
[^a-z]
[a-]
[-a]
[]a]
[^]a]
[]-a]
[a-c-e]
[--a]
[!--]
[a-&&a]
[\w-]
[[a]-z]
[a[b-d]z]
[a-z&&[^aeiou]]
[a-z&&[^aeiou]&&[a-m]]
[^a-z&&[aeiou]]
[\p{L}&&[^\p{Latin}]]
[a&&]
[&&a]
[a-z&&^b]
[a[]b]]
[:alpha:]
[[:alpha:]]
[[:^alpha:]]
[[:alnum:]_]+
[[:blank:]]
[[:cntrl:]]
[[:digit:]]
[[:graph:]]
[[:lower:]]
[[:print:]]
[[:punct:]]
[[:space:]]
[[:upper:]]
[[:xdigit:]]
[[:word:]]
[[:ascii:]]
\p{Alnum}
\p{Punct}
\p{punctuation}
\p{^Lu}
\P{Lu}
\P{^Lu}
[\pL]
\pLu
\p{ lu }
\p{Uppercase_Letter}
\p{LC}
\p{Any}
\p{Assigned}
\p{Han}
\p{Greek}
\p{Latin}
\p{Common}
\p{Inherited}
\p{Emoji}
\p{Extended_Pictographic}
\p{Emoji_Presentation}
\p{Alphabetic}
\p{White_Space}
\p{Uppercase}
\p{Lowercase}
\p{Ideographic}
\p{Default_Ignorable_Code_Point}
\p{ID_Start}
\p{In_Basic_Latin}
\p{InCJKUnifiedIdeographs}
\p{Zs}|\p{Cc}|\p{Cf}
\p{C}
\p{M}
\s
\S
\d
\D
\w
\W
x*
x*?
()
|a
a|
(|a)+
(a*)*b
(a|b|)*c
(?:a|)+?b
(?:a?){3}b
a{0}
(?:){3}a
(?:ab){2,3}
(?:a|ab)(?:c|bcd)
a|ab|abc
abc|ab|a
(?:é|e\u0301)+
[é🙂]+
"""

FEATURES = [""] + [p for p in FEATURES.split("\n") if p]

# What the reference refuses, and what we refuse by name although it does not.
MALFORMED = r"""
*a
a|*
{1}
)
(a
[a
[]
[^]
a\
(?
(?<
(?<1>a)
(?<>a)
(?#c
(?s:.)
(?P<n>a)
(?|a)
(?R)
(?a)b
[z-a]
[a-\d]
[\w-a]
[a--]
[[:foo:]]
\xe9
[\xe9]
\u12
\u{41}
\8
(a)\2
\k<1>
\k<n>
(a)(?<n>b)\1
\p{L
\p{Nope}
\p{script=Han}
\p{L&}
\c
(?=a)*b
(?:^|\b)*a
a{100001}
""".split("\n")[1:-1]

UNSUPPORTED = r"""
(a)?(?(1)b|c)
(?~ab)
(?~|ab)
(*FAIL)
(?{x})
(?y{w}:a)
(?C)(a)
(?I)k
(?L)a|ab
\y
\Y
(a)\g<1>
(?i)(a)\1
(a\1?){2}
\M-a
\x{41 42}
(?<=a\s*)b
a{70000}
""".split("\n")[1:-1]

# --- patterns by chance ---------------------------------------------------------------------------------------------------

ATOMS = r"""a b s ß k é 1 \n . \w \s \d \S \W \D \h \p{L} \p{Lu} \P{L} \p{^N} [a-c] [^a-c] [[:alpha:]] [^\s\p{L}] [\w&&[^a]] [s-u] [ßﬁ] \R
\X \N \O ss fi st A S ⅷ σ [[:upper:]x] [^\W_] \x41 \t 日""".split()
PLACES = r"\b \B ^ $ \A \z \Z \G".split()
QUANTIFIERS = "* + ? {2} {1,2} {,2} {0} {2,} *? +? ?? {1,2}? {2}? *+ ++ ?+ {2,1} {2}+ {1,2}+ {,1}?".split()
OPTIONS = "(?i) (?m) (?-i) (?i:%s) (?m:%s) (?W:%s) (?-mi:%s) (?D)".split()
BEHIND = r"a [ab] \w s(?:s|1)? (?:a|bc) \s{1,2} a*b ß \n|k".split()


def random_pattern(draw, depth):
    def part():
        return random_pattern(draw, depth - 1)

    kind = draw.random()
    if depth == 0 or kind < 0.28:
        return draw.choice(ATOMS if draw.random() < 0.9 else PLACES)
    if kind < 0.50:
        return "".join(part() for _ in range(draw.randrange(1, 4)))
    if kind < 0.62:
        return "(?:" + part() + "|" + part() + ")"
    if kind < 0.82:
        inner = part()
        inner = "(?:%s)" % inner if draw.random() < 0.8 and len(inner) > 1 else inner
        return inner + draw.choice(QUANTIFIERS) + (draw.choice(QUANTIFIERS) if draw.random() < 0.15 else "")
    if kind < 0.86:
        return "(" + part() + ")" + (part() + "\\1" if draw.random() < 0.3 else "")
    if kind < 0.89:
        return "(?>" + part() + ")"
    if kind < 0.92:
        return draw.choice(["(?=", "(?!"]) + part() + ")"
    if kind < 0.95:
        return draw.choice(["(?<=", "(?<!"]) + draw.choice(BEHIND) + ")"
    if kind < 0.98:
        return draw.choice(OPTIONS).replace("%s", part())
    return part() + "|" + part()
