"""Hard texts for tokenizer tests: every script, joined emoji, combining marks, white space, digits, code, look-alikes of
special tokens, a tokenizer's own added tokens, very long words, and seeded mixtures of all that."""
import random
import sys
import unicodedata

PLAIN = [
    "", " ", "  ", "a", " a", "a ", "Hello", "Hello, world!", "The quick brown fox jumps over the lazy dog.",
    "Hello  world 12345 it's I'LL\n\n  x=a.b", "  def f(x):\n\treturn x+1\n", "HelloWorld HTTPServer's 3.14 //\n/x",
    "日本語 text\u3000é e\u0301", "a\u00a0b  \n c", "don't 'tis ''s", "I'm you're WE'VE they'll he'd SHE'S 'Tis can'T",
    "it'ſ 'ſ\u212a's", "'s't're've'm'll'd", "''''s", "x'", "O'Reilly's o'clock 'S 'LL'VE",
    # white space
    "\n", "\n\n\n", "\r\n", "\r\n\r\n a", "\t\t\tx", "a\n", "a \n", "a  \n  b", " \n \n \n x", "   leading", "trailing   ",
    "a\u2003b\u2009c\u202fd\u205fe\u3000f", "a\u0085b\u2028c\u2029d", "\x0b\x0c\x1c\x1d\x1e\x1f",
    "x\u200bx\u200cx\u200dx\ufeffx",
    "\u00a0\u00a0x", " " * 17 + "x" + " " * 31, "\t \t \n\t \r \n", "a" + "\n" * 40 + "b",
    # digits
    "0 1 12 123 1234 12345 123456 1234567", "3.14159 1,000,000 -42 +7 1e-9 0x1F 1/2", "٠١٢٣٤٥٦٧٨٩ ०१२३ ๐๑๒ １２３",
    "½ ¼ Ⅳ Ⅻ ² ³ ¹ ⅷ ㊿ 〇 𝟘𝟙𝟚", "a1b2c3 x²y³", "2024-05-17T12:34:56Z", "1２3٣4",
    # code
    "#include <stdio.h>\nint main(void)\n{\n    printf(\"%d\\n\", 1);\n\treturn 0;\n}\n",
    "for (int i=0;i<n;++i){a[i]+=b[i]*c;}// done", "SELECT * FROM t WHERE a='b' AND c IS NOT NULL;--",
    "const f = async (x) => { await g(`${x}`); };", "<div class=\"a\">&nbsp;</div><!-- x -->", "a_b_c __init__ $var @x #y %z",
    "https://example.org/a/b?c=d&e=%20f#g", "C:\\Windows\\System32", "{{- if .x }}\n{{ end }}", "!=<=>=&&||::->**//##",
    "{\"a\": [1, 2.5, null, true], \"b\": {\"c\": \"d\"}}\r\n", "-----BEGIN-----\n=====\n*****\n_____", "/\n//\n/// \r\n/",
    # scripts
    "Ünïcödé Straße ŒUVRE ĳ ǅ ǆ Ǆ ﬁ ﬂ", "Привет, мир! ЁЖ ёж Ѣ", "Γειά σου Κόσμε ΆΈΉ", "שלום עולם שָׁלוֹם",
    "مرحبا بالعالم ـــ لَا ﷽",
    "नमस्ते दुनिया क्षत्रिय", "வணக்கம் உலகம்", "สวัสดีชาวโลก", "ສະບາຍດີ", "မင်္ဂလာပါ", "ជំរាបសួរ", "བཀྲ་ཤིས་བདེ་ལེགས།",
    "გამარჯობა ᲛᲗᲐᲕᲠᲣᲚᲘ", "Բարեւ աշխարհ", "ሰላም ዓለም", "こんにちは世界。カタカナ、ｶﾀｶﾅ！ー", "你好，世界！這是繁體字。", "안녕하세요 세계 ᄒᆞᆫ글",
    "𠀀𠀁 𪚥 𰻝 ㍿ ㌔", "ᚠᛇᚻ᛫ᛒᛦᚦ", "𐍈𐌰𐌹 𓀀𓂀 𒀀", "Tiếng Việt: Ðường phố", "ꙮ Ꚍ ꦲꦏ꧀ꦱꦫ ⴰⵣⵓⵍ", "Ꭰ ꭰ ᏸ 𞤀𞤢 𝐀𝓫𝔠",
    "ʰʷˠ ªº ˈˌ ᵃᵇᶜ", "Mixed漢字かなカナhangul한글абв123", "AaBbÇçŁłŻżDžDŽdž", "ABCdef ABCDef aBcDeF XMLHttpRequest iPhone McDonald's",
    # marks, joiners, emoji, planes
    "e\u0301 e\u0301e\u0301 \u0301 \u0301a a\u0301\u0323\u0302", "A\u030a \u212b \u1e9b\u0323 q\u0307\u0323 \u1100\u1161\u11a8",
    "\u0041\u0300\u0301\u0302\u0303\u0304" * 5, "Z\u0351\u036b\u0343\u036aa\u0302lg\u033do\u0321",
    "\u0928\u093c \u0958 \u0b92\u0bd7",
    "😀😃😄 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪🇫🇷 ❤️ ☺︎ 1️⃣ #️⃣", "🧑🏿‍🚀x🧑🏿‍🚀 🫠 🪿", "← → ∑ ∫ √ ∞ ≠ ⊂ ☃ ♥ ♪ € £ ¥ ₿ © ® ™ ° ± × ÷",
    "“quotes” ‘single’ «guillemets» „low“ … – — ‐ ‑ • · † ‡ § ¶",
    "\u202ertl\u202c \u2066iso\u2069 \ue000 \uf8ff \U000f0000 \U0010ffff",
    "\u32ff\ua7f2 \U00010793 a\U00011935\U00011930\u0301 \U0001e030\U0001fbf3 e\u1abf\u0301\u0323\u0897\u0316",
    "\x00a\x00\x01\x7f\x80\x9f", "\ufffd\ufffe\uffff", "\u0378\u0e80 \U0001faff \u1c8a \U00010d40\U0001e5d0 \U0002ebf0",
    # special tokens and what looks like them
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|><|endoftext|> <|endoftext|>", "<|im_start|",
    "<|im_end|>>",
    "< |im_end|>", "<|IM_END|>", "<think>\nx\n</think>\n\ny", "<tool_call>{\"name\": \"f\"}</tool_call>",
    "<s>a</s> <s> b </s><unk>",
    "<bos>x<eos><pad><start_of_turn>user\n<end_of_turn>", "<｜begin▁of▁sentence｜>a<｜User｜>b<｜Assistant｜><｜end▁of▁sentence｜>",
    "<|start|>system<|message|>x<|end|><|return|><|call|>", "[INST] x [/INST]", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>",
    "▁a▁ ▁▁b",
    "<0x0A><0xFF><0x4", "Ġthe Ċ ĉ Ã© âĢĻ", "a<|im_end|>b  <|im_end|>  c\n<|im_end|>\n", "<repo_name>x<file_sep>y<jupyter_code>",
    "<image_soft_token><unused0><unused99>", "<｜tool▁calls▁begin｜><｜tool▁sep｜>x", "<|reserved_200013|> <|startoftext|>",
]

LONG = [
    "a" * 5000, "A" * 1500 + "a" * 1500, "ab" * 2500, " " * 3000, "\n" * 2000, " \n" * 1500, "1" * 2000, "-" * 2500, "漢" * 800,
    "e\u0301" * 700, "xyzzy" * 700 + "'s", "\U0001f600" * 400, "=" * 100 + "\n" + "#" * 200, "<|" * 300, "a " * 1000, "'" * 900,
    "".join(chr(0x61 + (i * i) % 26) for i in range(5000)),
]


def mixtures(count=60, seed=20):
    rng = random.Random(seed)
    parts = [s for s in PLAIN if s]
    ranges = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x58F), (0x590, 0x6FF), (0x900, 0xDFF), (0x1E00, 0x206F),
              (0x2070, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x10000, 0x10FFFF)]
    out = []
    for i in range(count):
        s = ""
        for _ in range(rng.randint(2, 9)):
            kind = rng.random()
            if kind < 0.5:
                p = rng.choice(parts)
                a, b = sorted((rng.randint(0, len(p)), rng.randint(0, len(p))))
                s += p[a:b]
            elif kind < 0.7:
                s += "".join(rng.choice(" \t\n\r\u00a0\u3000'./1aZé") for _ in range(rng.randint(1, 12)))
            else:
                lo, hi = rng.choice(ranges)
                cps = (rng.randint(lo, hi) for _ in range(rng.randint(1, 10)))
                s += "".join(chr(c) for c in cps if not 0xD800 <= c < 0xE000)
        out.append(s)
    return out


SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028" \
         "\u2029\u202f\u205f\u3000"
NEAR_SPACES = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2800\u3164\ufeff\uffa0"

MORE = [
    # white space of every kind: alone, between letters, in runs, beside what only looks like it
    SPACES, "".join(f"a{c}" for c in SPACES), "".join(f"{c}{c}b{c}{c}1" for c in SPACES), "".join(f" {c}x{c} " for c in SPACES),
    "".join(f"a{c} {c}b" for c in NEAR_SPACES), NEAR_SPACES, "\r\n \r \n\r\t\n\n \r\n\u2028\n\u2029 \x85\n",
    "a \u3000\n\u3000 b\u00a0 \u00a0\n c", " \ufeffa \ufeff", "\ufeff", "\ufeff#!/bin/sh\n",
    # digits of every script, and other numbers
    "".join(chr(c) for c in range(sys.maxunicode) if unicodedata.decimal(chr(c), None) == 7),
    " ".join(chr(c) + chr(c + 1) for c in range(sys.maxunicode) if unicodedata.decimal(chr(c), None) == 0),
    "".join(chr(c) for c in range(sys.maxunicode) if unicodedata.category(chr(c)) == "Nl")[:120],
    "".join(chr(c) for c in range(sys.maxunicode) if unicodedata.category(chr(c)) == "No")[:120],
    "1\u03002\u20e33 12\u200d34 1_000_000.00 ١٬٢٣٤٫٥ 3²⁵₇ ⅔ 五〇〇 Ⅷ", "000111222333444555666777888999" * 3,
    # text that NFC, NFD, NFKC or NFKD change
    "\u0340\u0341\u0343\u0344\u0374\u037e\u0387\u0958\u09dc\u0a33\u0b5c\u0f43\u1f71\u1ffd\u2000\u2126\u212a\u2329\u2adc\uf900\ufa0e\ufb1d\ufb4e",
    "\u1100\u1161\u11a8 \u1112\u1161\u11ab\u1100\u1173\u11af \uac00\u11a7 \uac00\u11a8 \uac01\u11a8 \u1100\u1100\u1161 \u115f\u1161 \ua960\ud7b0\ud7cb",
    "ㄱㅏㄴ ﾡﾢ ﾾ㈀㈜㉠", "ａＢＣ１２３！～　｡｢｣ ﷺ ﬃ ﬓ ꟲ ㋿ ㏾ ㎏ ℡ ™ ℵ Ⓐ ⑳ ⁇ ‥ … ´ ¨ ˘ ͺ",
    "\u0f71\u0f72\u0f74\u0f73 \u0cca\u0cc6\u0cc2 \u0dd9\u0dcf\u0dca",
    "a\u0315\u0300\u05ae\u0062 a\u05ae\u0300\u0315b \u0061\U0001d165\U0001d16d \U0001d15e\U0001d1bb",
    "\u1e9b\u0323\u0307 \u0073\u0323\u0307 ẛ̣",
    "İıIi ẞß ǰ ΐ ŉ Ω K Å ſt ﬆ Σσς ΑΣ ϴ ϐ Ⰰⰰ",
    "\U00011099\U000110ba \U0001134b\u0b47\u0b3e\U00011357 \U00016121\U0001611e \U0002f800\U0002fa1d",
    # emoji: joined, flags, keycaps, skin tones, tags, selectors in odd places
    "👩‍❤️‍💋‍👨👨🏻‍🤝‍👨🏿🧑‍🧑‍🧒‍🧒🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f🏴‍☠️", "🇦🇧🇨 🇺🇳🇪🇺x🇯🇵",
    "0️⃣*️⃣9\u20e3 ©️®️‼️⁉️ ㊗️",
    "\u200d👍 👍\u200d \ufe0f\ufe0e a\ufe0f 👍\ufe0f🏽🏽", "🙂🙃😉:-) (╯°□°)╯︵ ┻━┻ ¯\\_(ツ)_/¯ ʕ•ᴥ•ʔ", "👍🏿" * 30, "🧜🏽‍♀️🧜🏽‍♂️" * 12,
    # right to left, other orders and controls of them
    "\u200fשָׁלוֹם\u200e (abc) ١٢٣ \u2067מספר 5\u2069", "اَلسَّلَامُ عَلَيْكُمْ وَرَحْمَةُ ٱللَّٰهِ، ﻻ ﻷ؟ ۱۲۳",
    "ܫܠܡܐ ߒߞߏ މާރާތް ᠮᠣᠩᠭᠣᠯ ꡖꡍꡂ", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069a",
    # control characters, private use, unassigned, noncharacters
    "".join(map(chr, range(32))), "".join(map(chr, range(127, 161))), "a\x00b\x00\x00c\x00", "\x1b[31mred\x1b[0m\x07\x08\x7f",
    "\ue000a\uf8ff \U000f0000b\U0010fffd",
    "\ufdd0\ufdef\ufffe\uffff\U0001fffe\U0010ffff", "\u0378\u05ff\u1cff\u2fe0\U0001f8ff\U000323b0\U000e0fff x\U000e01f0",
    "\ufff9a\ufffab\ufffb \ufffc\ufffd",
    # look-alikes of special tokens
    "<|im_start|>system\n<|im_start|> <|im_start |><|im_start|>>", "<｜User｜><|User|><｜User|>", "<s><S></S>< s></ s><s/>",
    "[BOS][EOS][CLS][SEP][PAD][UNK][MASK] [mask]",
    "<|<|endoftext|>|><|endoftext<|endoftext|>", "<bos><bos> <start_of_turn>model\n<end_of_turn>\n<eos>",
    "<unused1><unused10><unused100>", "<|reserved_special_token_0|>",
    "\n\n\n\n\n<table>\n\n<h1>\n</h1></table>\t\t\t▁▁▁▁ ▁ ", "<0x00><0xff><0xFF><0xZZ><0x1><0x100>", "ĠĠ ĊĊ ČĊ ĉ Ń Ġthe âĢ Ã",
    "##ing ##s @@ </w> \u2581",
    "<tool_response>\n</tool_response> <think></think> <|vision_start|><|image_pad|><|vision_end|> <|channel|>analysis<|message|>",
    # code and data
    "if (a<b&&c>d||!e) { x <<= 2; y >>>= 3; z ??= w?.v; } /* ä */",
    "fn f<'a, T: ?Sized + 'a>(x: &'a mut T) -> Result<(), Box<dyn Error>> { Ok(()) }",
    "\t\tself.x[1:-1, ::2] **= -0.5e-10j  # noqa\n\n\n    @property\n\tdef y(self): ...\r\n",
    "𝒙 ← ∀ε>0 ∃δ: |x−a|<δ ⇒ |f(x)−L|<ε ∎ ∬∂Ω ℝⁿ ≈ π·r²", "|a|b|\n|---|:-:|\n| 1 | 2 |\n\n```py\nx\n```\n- [ ] a\n\t* b",
    "SGVsbG8gV29ybGQh4pyT==\n0xDEADBEEF 1e+10 0b1010 0o17 1'000'000 .5 5. ...",
    "$\\frac{\\partial u}{\\partial t} = \\alpha\\nabla^{2}u$ \\\\ &amp; %d%%",
    "user@example.com +49 (0)30 123-456 #tag @name 50% $9.99 €9,99 10°C 5'11\"",
    "WE'RE we’re I’M don’t DON’T l’été aujourd'hui rock'n'roll 'twas y'all'd've",
    "can't\u2019t'S'T'Re'vE'M'lL'd'ſ'x ''ll 'lll 're''ve", "HTMLParser2XMLv3.0iOS17MacBook_Pro-M3 camelCaseABCdEF ÀÉÎõü ǅungla",
]


def sweep(seed=21):
    """Characters of every part of the Unicode space that has any: all scripts, and neighbours that rarely meet."""
    rng = random.Random(seed)
    blocks = [b for b in range(0x1100) if any(unicodedata.category(chr(b << 8 | i)) not in ("Cn", "Cs", "Co") for i in range(0, 256, 5))]
    rng.shuffle(blocks)
    out = []
    for i in range(0, len(blocks), 12):
        s = ""
        for b in blocks[i:i + 12]:
            assigned = [c for c in map(chr, range(b << 8, (b + 1) << 8)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]
            s += "".join(rng.choices(assigned, k=6)) + rng.choice(["", "", " ", "  ", "\n", "1", "a", "'s"])
        out.append(s)
    return out


def own(added, seed=22):
    """Texts around a tokenizer's own added tokens: whole, in words, in white space, doubled, and cut or changed."""
    rng = random.Random(seed)
    added = sorted(added)
    some = added if len(added) <= 24 else rng.sample(added, 24)
    return ["".join(some), "".join(f"x{t}y" for t in some), "".join(f" {t} " for t in some), "".join(f"\n{t}{t}\t" for t in some),
            " ".join(t[:-1] + t for t in some), " ".join(t.upper() + t[1:] for t in some),
            "".join(f"{t}e\u0301\u3000" for t in some),
            "".join(t[:len(t) // 2] + " " + t[len(t) // 2:] for t in some)]


def texts():
    return PLAIN + LONG + MORE + sweep() + mixtures()
