"""tokenize, detokenize and template, on a directory that holds tokenizer files only."""
import json

import pytest

from clilib import fault, usage
from testlib import DATA, mlxcel, mlxcel_ok

HELLO = "hello world"


def ids_of(directory, text, *options):
    return json.loads(mlxcel_ok("tokenize", "-m", directory, "--ids", *options, stdin=text))


def test_tokenize(tokenizer_dir):
    ids = ids_of(tokenizer_dir, HELLO)
    assert ids[0] == 1 and len(ids) == 3
    assert ids_of(tokenizer_dir, HELLO, "--no-special") == ids[1:]
    assert ids_of(tokenizer_dir, "", "--no-special") == []


def test_tokenize_takes_stdin_unchanged(tokenizer_dir):
    with_newline = ids_of(tokenizer_dir, HELLO + "\n", "--no-special")
    assert with_newline[:-1] == ids_of(tokenizer_dir, HELLO, "--no-special") and len(with_newline) == 3


def test_special_tokens_in_the_text_count(tokenizer_dir):
    assert ids_of(tokenizer_dir, "<|user|></s>", "--no-special") == [3, 2]
    assert ids_of(tokenizer_dir, "<|user|></s>") == [1, 3, 2]


def test_tokenize_for_people(tokenizer_dir):
    lines = mlxcel_ok("tokenize", "-m", tokenizer_dir, stdin=HELLO).splitlines()
    assert lines[0] == '1\t0..0\t"<s>"' and lines[1].split("\t")[1:] == ["0..5", '"hello"'] and lines[2].endswith('\t5..11\t" world"')
    assert lines == mlxcel_ok("tokenize", "-m", tokenizer_dir, "--pieces", stdin=HELLO).splitlines()
    assert "not both" in usage("tokenize", "-m", tokenizer_dir, "--ids", "--pieces")


def test_pieces_json(tokenizer_dir):
    ids = ids_of(tokenizer_dir, HELLO)
    pieces = json.loads(mlxcel_ok("tokenize", "-m", tokenizer_dir, "--pieces", "--json", stdin=HELLO))
    assert [p["id"] for p in pieces] == ids
    assert pieces[0] == {"id": 1, "piece": "<s>", "start": 0, "end": 0, "special": True}
    assert pieces[2] == {"id": ids[2], "piece": "\u0120world", "start": 5, "end": 11, "special": False}
    lines = mlxcel_ok("tokenize", "-m", tokenizer_dir, "--pieces", "--jsonl", stdin=f'"{HELLO}"\n').splitlines()
    assert json.loads(lines[0]) == pieces


def test_pieces_of_hard_texts():
    """What does not show is escaped; a part of a character has its range; broken UTF-8 keeps the places of the input."""
    pieces = lambda text: mlxcel_ok("tokenize", "-m", DATA / "tiny", "--pieces", "--no-special", stdin=text).splitlines()
    lines = pieces("\n\x1b\u202e")
    assert lines[0].endswith('\t0..1\t"\\n"') and lines[1].endswith('\t1..2\t"\\u001B"')
    assert all(line.split("\t")[1] == "2..5" for line in lines[2:])
    lines = pieces(b"a\xe2\x82b")
    assert [line.split("\t")[1] for line in lines][::len(lines) - 1] == ["0..1", "3..4"]
    assert {line.split("\t")[1] for line in lines[1:-1]} == {"1..3"}


def test_detokenize(tokenizer_dir):
    ids = ids_of(tokenizer_dir, HELLO + "\n")
    assert mlxcel_ok("detokenize", "-m", tokenizer_dir, stdin=json.dumps(ids)) == "<s>" + HELLO + "\n"
    assert mlxcel_ok("detokenize", "-m", tokenizer_dir, "--skip-special", stdin=json.dumps(ids)) == HELLO + "\n"
    assert mlxcel_ok("detokenize", "-m", tokenizer_dir, stdin="[]") == ""
    assert mlxcel_ok("detokenize", "-m", tokenizer_dir, "--skip-special", stdin=json.dumps([99999] + ids)) == HELLO + "\n"


@pytest.mark.parametrize("text", ["", "{}", "[1", "[1.5]", "[true]", '["1"]', "[[1]]", "[-1]", "[99999999999]", "null",
                                  "[1] [2]", "[1e2]", "[99999999999999999999]", "[1,]", "\xff"])
def test_detokenize_refuses(tokenizer_dir, text):
    assert "standard input" in fault("detokenize", "-m", tokenizer_dir, stdin=text)


def test_jsonl(tokenizer_dir):
    ids = ids_of(tokenizer_dir, HELLO)
    lines = mlxcel_ok("tokenize", "-m", tokenizer_dir, "--jsonl", stdin=f'"{HELLO}"\n\n5\n{{\n"a\\nb"\n""').splitlines()
    answers = [json.loads(line) for line in lines]
    assert answers[0] == ids and list(answers[1]) == list(answers[2]) == ["error"]
    assert len(answers[3]) == 4 and answers[4] == [1] and len(answers) == 5
    lines = mlxcel_ok("detokenize", "-m", tokenizer_dir, "--jsonl", "--skip-special", stdin=f"{ids}\n[1.5]\n[]\n")
    answers = [json.loads(line) for line in lines.splitlines()]
    assert answers[0] == HELLO and "integer" in answers[1]["error"] and answers[2] == ""


def test_name_of_a_model_that_is_not_there(tmp_path):
    assert "nowhere" in fault("tokenize", "-m", "nowhere", "--ids")
    assert str(tmp_path) in fault("tokenize", "-m", tmp_path, "--ids")


def request(tmp_path, **keys):
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}], **keys}))
    return path


def test_template(tokenizer_dir, tmp_path):
    render = lambda **keys: mlxcel_ok("template", "-m", tokenizer_dir, "--input", request(tmp_path, **keys))
    assert render() == "<s><|user|>hi</s>"
    assert render(add_generation_prompt=True) == "<s><|user|>hi</s><|assistant|>"
    assert render(bos_token="") == "<|user|>hi</s>"


def test_template_of_a_file(tmp_path):
    path = tmp_path / "x.jinja"
    path.write_text("{{ messages[0].content }}|{{ colour }}\n")
    assert mlxcel_ok("template", "--file", path, "--input", request(tmp_path, colour="red")) == "hi|red"
    lines = mlxcel_ok("template", "--file", path, "--jsonl", stdin='{"messages":[{"content":"a"}]}\n[]\n{"messages":[]}\n')
    answers = [json.loads(line) for line in lines.splitlines()]
    assert answers[0] == "a|" and "error" in answers[1] and "error" in answers[2]


def test_template_by_name_text_and_file(tokenizer_dir, tmp_path):
    lines = request(tmp_path)
    assert mlxcel_ok("template", "--chat-template", "chatml", "--input", lines) == "<|im_start|>user\nhi<|im_end|>\n"
    assert mlxcel_ok("template", "-m", tokenizer_dir, "--chat-template", "{{ bos_token }}x", "--input", lines) == "<s>x"
    path = tmp_path / "own.jinja"
    path.write_text("{{ eos_token }}")
    assert mlxcel_ok("template", "-m", tokenizer_dir, "--chat-template-file", path, "--input", lines) == "</s>"
    assert "chatml, gemma" in fault("template", "-m", tokenizer_dir, "--chat-template", "alpaca", "--input", lines)
    usage("template", "--chat-template", "chatml", "--chat-template-file", path, "--input", lines)


def test_template_shows_integers_whole(tmp_path):
    path = tmp_path / "t.jinja"
    path.write_text("{{ big }} {{ [big, -big]|tojson }} {{ big * 10 }}")
    number = 1234567890123456789
    assert mlxcel_ok("template", "--file", path, "--input", request(tmp_path, big=number)) == \
        f"{number} [{number}, {-number}] {number * 10}"


def test_template_reads_json_as_python_writes_it(tmp_path):
    path = tmp_path / "t.jinja"
    path.write_text("{{ big }} {{ n }}")
    assert mlxcel_ok("template", "--file", path, "--input", request(tmp_path, big=10**30, n="a\0b")) == "1e+30 a\0b"
    twice = '{"messages":[],"n":1,"n":2}'
    assert mlxcel_ok("template", "--file", path, "--input", "-", stdin=twice) == " 2"
    deep = '{"messages":[],"n":' + "[" * 100 + "]" * 100 + "}"
    assert "nesting deeper than 64 levels" in fault("template", "--file", path, "--input", "-", stdin=deep)


def test_template_from_stdin(tokenizer_dir, tmp_path):
    text = request(tmp_path).read_text()
    assert mlxcel_ok("template", "-m", tokenizer_dir, "--input", "-", stdin=text) == "<s><|user|>hi</s>"


def test_template_never_falls_back(model, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "tokenizer_config.json").write_text("{}")
    assert "template" in fault("template", "-m", bare, "--input", request(tmp_path))


def test_template_refuses(tokenizer_dir, tmp_path):
    path = request(tmp_path)
    usage("template", "--input", path)
    usage("template", "-m", tokenizer_dir)
    usage("template", "-m", tokenizer_dir, "--file", path, "--input", path)
    usage("template", "-m", tokenizer_dir, "--input", path, "--jsonl")
    assert "missing.json" in fault("template", "-m", tokenizer_dir, "--input", tmp_path / "missing.json")
    for text in ("", "[]", "{", '{"messages": 1}'):
        path.write_text(text)
        fault("template", "-m", tokenizer_dir, "--input", path)
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% if %}")
    assert "broken.jinja" in fault("template", "--file", broken, "--input", request(tmp_path))
