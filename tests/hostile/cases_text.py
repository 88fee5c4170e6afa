"""Spoilt tokenizers, given to `tokenize`, and templates, given to `template`."""
import json

from cases import TEMPLATE, TOKENIZE, Case, Special
from tiny import text_files, tokenizer

FILE = "tokenizer.json"
TEXT = b"hello \xff world </s>" + b"a" * 2000


def whole_tokenizers():
    """(name, content of tokenizer.json, words)"""
    yield "empty", b"", FILE
    yield "list", b"[]", FILE
    yield "no_model", b"{}", "model"
    yield "open", b'{"model":{"vocab":{"a":1', FILE
    yield "zeros", bytes(100), FILE
    yield "deep", b'{"model":' + b"[" * 1_000_000, FILE
    yield "bad_utf8", json.dumps(tokenizer()).encode().replace(b'"he"', b'"\xff"'), FILE
    yield "folder", Special("dir"), FILE
    yield "fifo", Special("fifo"), FILE


def tokenizer_fields():
    """(name, path to a field, its value, words)"""
    split = lambda pattern: {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    added = lambda **facts: [{"id": 258, "content": "<s>", "special": True, "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False, **facts}]
    replace = lambda find, put: {"type": "Replace", "pattern": {"String": find}, "content": put}
    yield "model_type", ["model", "type"], "Abacus", "Abacus"
    yield "model_text", ["model"], "BPE", "model"
    yield "vocab_list", ["model", "vocab"], ["a"], "vocab"
    yield "vocab_text_ids", ["model", "vocab"], {"a": "1"}, ""
    yield "vocab_negative", ["model", "vocab", "a"], -1, ""
    yield "vocab_huge_id", ["model", "vocab", "a"], 2**31 - 1, ""
    yield "vocab_fraction", ["model", "vocab", "a"], 1.5, ""
    yield "merges_object", ["model", "merges"], {}, "merges"
    yield "merges_unknown", ["model", "merges"], ["zzz yyy"], "zzz"
    yield "merges_one_part", ["model", "merges"], ["he"], ""
    yield "merges_three", ["model", "merges"], [["h", "e", "l"]], ""
    yield "merges_numbers", ["model", "merges"], [1, 2], ""
    yield "pre_tokenizer_unknown", ["pre_tokenizer"], {"type": "Knife"}, "Knife"
    yield "pre_tokenizer_list", ["pre_tokenizer"], [], "pre_tokenizer"
    yield "regex_broken", ["pre_tokenizer"], split("(unclosed"), ""
    yield "regex_deep", ["pre_tokenizer"], split("(" * 20_000 + ")" * 20_000), ""
    yield "regex_catastrophe", ["pre_tokenizer"], split("(a|aa|a?)+(a|aa)+[^\\s\\S]"), ""
    yield "regex_look_behinds", ["pre_tokenizer"], split("(?<=(?:a|bb)" * 62 + ")" * 62), "too complex"
    yield "regex_number", ["pre_tokenizer"], split(7), ""
    yield "sequence_deep", ["pre_tokenizer"], nested(60, split("a")), ""
    yield "normalizer_unknown", ["normalizer"], {"type": "Iron"}, "Iron"
    yield "decoder_unknown", ["decoder"], {"type": "Ring"}, "Ring"
    yield "post_processor_unknown", ["post_processor"], {"type": "Stamp"}, "Stamp"
    yield "replace_doubles", ["normalizer"], {"type": "Sequence", "normalizers": [replace("l", "ll")] * 40}, "normalizer: what it"
    yield "metaspace_doubles", ["pre_tokenizer"], {"type": "Sequence", "pretokenizers": [
        {"type": "Metaspace", "replacement": "  ", "split": False}] * 40}, "pre_tokenizer: what it"
    yield "decoder_doubles", ["decoder"], {"type": "Sequence", "decoders": [replace("l", "ll")] * 8}, "decoder: it can make"
    yield "long_piece", ["model"], {"type": "Unigram", "unk_id": 0, "vocab": [["z" * 1025, 0]]}, "1025 bytes"
    yield "long_token", ["model"], {"type": "WordPiece", "unk_token": "u", "continuing_subword_prefix": "##",
                                    "max_input_chars_per_word": 10**9, "vocab": {"u": 0, "z" * 1025: 1}}, "1025 bytes"
    yield "added_object", ["added_tokens"], {"a": 1}, "added_tokens"
    yield "added_arrays", ["added_tokens"], [[]] * 1_000_000, "tokenizer.json: added_tokens: more than"
    yield "added_numbers", ["added_tokens"], [1] * 3_000_000, "tokenizer.json: added_tokens: more than"
    yield "added_no_content", ["added_tokens"], [{"id": 1}], ""
    yield "added_negative", ["added_tokens"], added(id=-1), ""
    yield "added_huge_id", ["added_tokens"], added(id=2**40), ""
    yield "added_text_id", ["added_tokens"], added(id="258"), ""


def nested(depth, inner):
    for _ in range(depth):
        inner = {"type": "Sequence", "pretokenizers": [inner]}
    return inner


def loop(times, body):
    return f"{{% for i in range({times}) %}}{body}{{% endfor %}}"


def templates():
    """(name, template, words)"""
    yield "unclosed_tag", "{{ messages", ""
    yield "unclosed_for", "{% for m in messages %}x", ""
    yield "unclosed_comment", "{# x", ""
    yield "unclosed_string", "{{ 'x }}", ""
    yield "stray_end", "{% endfor %}", "endfor"
    yield "unknown_tag", "{% frobnicate %}", "frobnicate"
    yield "unknown_filter", "{{ messages | frobnicate }}", "frobnicate"
    yield "unknown_test", "{{ messages is frobnicate }}", "frobnicate"
    yield "call_undefined", "{{ frobnicate() }}", "frobnicate"
    yield "attribute_of_undefined", "{{ a.b.c }}", ""
    yield "raise", "{{ raise_exception('no such\nrole') }}", "no such"
    yield "add_types", "{{ 1 + 'a' }}", ""
    yield "divide_by_zero", "{{ 1 / 0 }}", ""
    yield "include", "{% include '/etc/passwd' %}", ""
    yield "endless_range", loop(10**9, loop(10**9, "")), "100000 items of a range"
    yield "endless_loops", loop(100_000, loop(100_000, "{{ i }}")), "limit of"
    yield "endless_output", loop(100_000, loop(100_000, "x" * 1000)), "bytes of output"
    yield "doubling_text", "{% set n = namespace(s='x') %}" + loop(60, "{% set n.s = n.s + n.s %}") + "{{ n.s }}", ""
    yield "doubling_list", "{% set n = namespace(s=[1]) %}" + loop(60, "{% set n.s = n.s + n.s %}") + "{{ n.s }}", ""
    yield "repeat_text", "{{ 'xxxxxxxx' * 10000000000 }}", "bytes of memory"
    yield "endless_macro", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "nested evaluations"
    yield "deep_parentheses", "{{ " + "(" * 100_000 + "1" + ")" * 100_000 + " }}", ""
    yield "deep_lists", "{{ " + "[" * 100_000 + "]" * 100_000 + " }}", ""
    yield "deep_not", "{{ " + "not " * 100_000 + "1 }}", ""
    yield "deep_minus", "{{ " + "-" * 100_000 + "1 }}", ""
    yield "deep_if", "{% if 1 %}" * 100_000, ""
    yield "long_chain", "{{ x" + ".a" * 100_000 + " }}", ""
    yield "fault_in_a_macro", "{% macro f(x) %}\n  {{ x + 1 }}\n{% endmacro %}\n{{ f('a') }}", "t.jinja:2:8: can only concatenate"
    nest = "{% set n = namespace(s=[1]) %}" + loop(60, "{% set n.s = [n.s, n.s] %}")
    yield "nested_text", nest + "{{ n.s }}", "steps"
    yield "nested_json", nest + "{{ n.s|tojson }}", "steps"
    yield "nested_pprint", nest + "{{ n.s|pprint }}", "steps"
    yield "nested_equal", nest + "{% set m = namespace(s=n.s + []) %}{{ m.s == n.s + [] }}", ""
    yield "replace_bomb", "{{ ('a' * 100000)|replace('', 'b' * 100000) }}", "limit of"
    yield "wide_format", "{{ '%1000000000d' % 1 }}{{ '{:>1000000000}'.format(1) }}", "1000000"
    yield "wide_center", "{{ 'a'|center(10**12) }}", "bytes of memory"
    yield "wide_indent", "{{ ('a\\n' * 100000)|indent(100000) }}", "bytes of memory"
    yield "wide_zfill", "{{ 'a'.zfill(10**15) }}", "bytes of memory"
    yield "wide_tabs", "{{ '\\t'.expandtabs(10**12) }}", "bytes of memory"
    yield "wrapped_letters", loop(1000, "{{ ('a' * 1000000)|wordwrap(3)|length }}"), "limit of"
    yield "power", "{{ 9 ** (9 ** (9 ** 9)) }}", "bits of an integer"
    yield "squares", "{% set n = namespace(s=3) %}" + loop(100, "{% set n.s = n.s * n.s %}"), "bits of an integer"
    yield "products", loop(100_000, "{% set x = 3**100000 * 7**90000 %}"), "limit of"
    yield "digits", "{{ 3 ** 100000 }}", "4300 digits"
    yield "many_blocks", "".join(f"{{% block b{i} %}}{{% endblock %}}" for i in range(20_000)), "1000 blocks"
    yield "lazy_chain", "{% set n = namespace(s=[1]) %}" + loop(100_000, "{% set n.s = n.s|map('string') %}") + "{{ n.s|list }}", "limit of"
    yield "urls", loop(100_000, "{{ ('www.' * 10000)|urlize|length }}"), "limit of"
    yield "filler", "{{ lipsum(10000, false, 10**9, 10**10) }}", "limit of"
    yield "named_escape", "{{ '\\N{DASH}' }}", "t.jinja:1:5: \\N{...}"


def inputs():
    """(name, content of input.json, words)"""
    yield "empty", b"", "input.json"
    yield "list", b"[]", ""
    yield "open", b'{"messages":[', "input.json"
    yield "deep", b'{"messages":' + b"[" * 1_000_000, "input.json"
    yield "bad_utf8", b'{"messages":"\xff"}', "input.json"
    yield "folder", Special("dir"), "input.json"


def cases():
    yield Case("valid_tokenizer", text_files(), TOKENIZE, stdin=TEXT, valid=True)
    yield Case("tokenizer_missing", {}, TOKENIZE, (FILE,), TEXT)
    for name, content, words in whole_tokenizers():
        yield Case("tokenizer_" + name, {**text_files(), FILE: content}, TOKENIZE, (words,), TEXT)
    for name, path, value, words in tokenizer_fields():
        t = tokenizer()
        at = t
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        yield Case("tokenizer_" + name, {**text_files(), FILE: json.dumps(t).encode()}, TOKENIZE, (words,), TEXT)
    good_input = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()
    good = text_files()
    template = json.loads(good["tokenizer_config.json"])["chat_template"].encode()
    yield Case("valid_template", {"t.jinja": template, "input.json": good_input}, TEMPLATE, valid=True)
    for name, text, words in templates():
        yield Case("template_" + name, {"t.jinja": text.encode(), "input.json": good_input}, TEMPLATE, (words,))
    yield Case("template_bad_utf8", {"t.jinja": b"{{ '\xff' }}", "input.json": good_input}, TEMPLATE)
    yield Case("template_missing", {"input.json": good_input}, TEMPLATE, ("t.jinja",))
    for name, content, words in inputs():
        yield Case("template_input_" + name, {"t.jinja": template, "input.json": content}, TEMPLATE, (words,))
