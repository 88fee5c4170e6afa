"""Hard texts for tokenizer tests: every script, joined emoji, combining marks, white space, digits, code, look-alikes of
special tokens, very long words, and seeded mixtures of all that."""
import random

PLAIN = [
    "", " ", "  ", "a", " a", "a ", "Hello", "Hello, world!", "The quick brown fox jumps over the lazy dog.",
    "Hello  world 12345 it's I'LL\n\n  x=a.b", "  def f(x):\n\treturn x+1\n", "HelloWorld HTTPServer's 3.14 //\n/x",
    "日本語 text\u3000é e\u0301", "a\u00a0b  \n c", "don't 'tis ''s", "I'm you're WE'VE they'll he'd SHE'S 'Tis can'T",
    "it'ſ 'ſ\u212a's", "'s't're've'm'll'd", "''''s", "x'", "O'Reilly's o'clock 'S 'LL'VE",
    # white space
    "\n", "\n\n\n", "\r\n", "\r\n\r\n a", "\t\t\tx", "a\n", "a \n", "a  \n  b", " \n \n \n x", "   leading", "trailing   ",
    "a\u2003b\u2009c\u202fd\u205fe\u3000f", "a\u0085b\u2028c\u2029d", "\x0b\x0c\x1c\x1d\x1e\x1f", "x\u200bx\u200cx\u200dx\ufeffx",
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
    "Ünïcödé Straße ŒUVRE ĳ ǅ ǆ Ǆ ﬁ ﬂ", "Привет, мир! ЁЖ ёж Ѣ", "Γειά σου Κόσμε ΆΈΉ", "שלום עולם שָׁלוֹם", "مرحبا بالعالم ـــ لَا ﷽",
    "नमस्ते दुनिया क्षत्रिय", "வணக்கம் உலகம்", "สวัสดีชาวโลก", "ສະບາຍດີ", "မင်္ဂလာပါ", "ជំរាបសួរ", "བཀྲ་ཤིས་བདེ་ལེགས།",
    "გამარჯობა ᲛᲗᲐᲕᲠᲣᲚᲘ", "Բարեւ աշխարհ", "ሰላም ዓለም", "こんにちは世界。カタカナ、ｶﾀｶﾅ！ー", "你好，世界！這是繁體字。", "안녕하세요 세계 ᄒᆞᆫ글",
    "𠀀𠀁 𪚥 𰻝 ㍿ ㌔", "ᚠᛇᚻ᛫ᛒᛦᚦ", "𐍈𐌰𐌹 𓀀𓂀 𒀀", "Tiếng Việt: Ðường phố", "ꙮ Ꚍ ꦲꦏ꧀ꦱꦫ ⴰⵣⵓⵍ", "Ꭰ ꭰ ᏸ 𞤀𞤢 𝐀𝓫𝔠",
    "ʰʷˠ ªº ˈˌ ᵃᵇᶜ", "Mixed漢字かなカナhangul한글абв123", "AaBbÇçŁłŻżDžDŽdž", "ABCdef ABCDef aBcDeF XMLHttpRequest iPhone McDonald's",
    # marks, joiners, emoji, planes
    "e\u0301 e\u0301e\u0301 \u0301 \u0301a a\u0301\u0323\u0302", "A\u030a \u212b \u1e9b\u0323 q\u0307\u0323 \u1100\u1161\u11a8",
    "\u0041\u0300\u0301\u0302\u0303\u0304" * 5, "Z\u0351\u036b\u0343\u036aa\u0302lg\u033do\u0321", "\u0928\u093c \u0958 \u0b92\u0bd7",
    "😀😃😄 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪🇫🇷 ❤️ ☺︎ 1️⃣ #️⃣", "🧑🏿‍🚀x🧑🏿‍🚀 🫠 🪿", "← → ∑ ∫ √ ∞ ≠ ⊂ ☃ ♥ ♪ € £ ¥ ₿ © ® ™ ° ± × ÷",
    "“quotes” ‘single’ «guillemets» „low“ … – — ‐ ‑ • · † ‡ § ¶", "\u202ertl\u202c \u2066iso\u2069 \ue000 \uf8ff \U000f0000 \U0010ffff",
    "\u32ff\ua7f2 \U00010793 a\U00011935\U00011930\u0301 \U0001e030\U0001fbf3 e\u1abf\u0301\u0323\u0897\u0316",
    "\x00a\x00\x01\x7f\x80\x9f", "\ufffd\ufffe\uffff", "\u0378\u0e80 \U0001faff \u1c8a \U00010d40\U0001e5d0 \U0002ebf0",
    # special tokens and what looks like them
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|><|endoftext|> <|endoftext|>", "<|im_start|", "<|im_end|>>",
    "< |im_end|>", "<|IM_END|>", "<think>\nx\n</think>\n\ny", "<tool_call>{\"name\": \"f\"}</tool_call>", "<s>a</s> <s> b </s><unk>",
    "<bos>x<eos><pad><start_of_turn>user\n<end_of_turn>", "<｜begin▁of▁sentence｜>a<｜User｜>b<｜Assistant｜><｜end▁of▁sentence｜>",
    "<|start|>system<|message|>x<|end|><|return|><|call|>", "[INST] x [/INST]", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", "▁a▁ ▁▁b",
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


def texts():
    return PLAIN + LONG + mixtures()
