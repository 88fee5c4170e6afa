"""Our Jinja engine against jinja2 as transformers sets it up, on the templates of jinja_gen.py.

    tests/textfuzz/jinja_compare.py PROGRAM [SECONDS [SEED]]

`reference(template, context)` renders a template as transformers would and gives its text, or None where that raises;
`compare` says how our engine differs. As a program it compares PROGRAM (tests/textfuzz/jinja_lines) with the reference and
prints the differences.
"""
import json
import re
import subprocess
import sys
import time

from jinja_gen import cases


def reference(template, context):
    """The text that transformers' environment renders, or None where it raises."""
    from transformers.utils import chat_template_utils
    try:
        return chat_template_utils._compile_jinja_template(template).render(**context)
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception:  # whatever a template can raise
        return None


class Renderer:
    """Our engine, one process for all templates."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, template, context):
        """{"text": ...} or {"error": ...}"""
        self.process.stdin.write(json.dumps({"template": template, "context": context}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the engine died of {template!r} with {context!r}")
        return json.loads(line)


def comparable(text):
    """False for texts that hold an address, a complex number or a lone surrogate, which we do not have."""
    return text is None or not (" at 0x" in text.lower() or "<bound" in text.lower() or re.search(r"\dj\)", text) or
                                any("\ud800" <= c <= "\udfff" for c in text))


def compare(render, template, context):
    """None, or how we differ."""
    want = reference(template, context)
    got = render(template, context)
    if not comparable(want) or got.get("text") == want:
        return None
    return {"template": template, "context": context, "want": want, "got": got}


def main(program, seconds="30", seed=None):
    seed = seed or str(time.time_ns())
    render, end, n, bad = Renderer(program), time.time() + float(seconds), 0, 0
    for template, context in cases(seed):
        if time.time() > end:
            break
        n += 1
        if difference := compare(render, template, context):
            bad += 1
            print(json.dumps(difference, ensure_ascii=False))
    print(f"{n} templates, {bad} differ (seed {seed})", file=sys.stderr)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
