#!/usr/bin/env python3
"""Renders chat templates with Python's jinja2, set up as transformers sets it up, and stores what came out.

    tools/make_template_reference.py TEMPLATES_DIR tests/data/templates/reference.json.xz

TEMPLATES_DIR holds *.jinja files. The result is one JSON object: "now" (the Unix time that strftime_now shows, in UTC),
"templates" (name -> source), "chats" (name -> request, see template_chats.py), "special" (variables added to each request)
and "results" (template -> chat -> the text, or null where rendering raises). "continued" and "continued_results" are the same
for continue_final_message, which transformers itself renders.
"""
import copy
import datetime
import json
import lzma
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from transformers.utils import chat_template_utils

from template_chats import CHATS, CONTINUED, SPECIAL

NOW = 1764417600


class Generation(jinja2.ext.Extension):
    """{% generation %}: its body as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Clock:
    """Stands in for datetime where the time is asked for."""

    @staticmethod
    def now():
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)


def strftime_now(format):
    return Clock.now().strftime(format)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    return env


FAULTS = (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError, RecursionError)


def render(template, request):
    variables = {"tools": None, "documents": None, **SPECIAL, **request}
    try:
        return template.render(**variables)
    except FAULTS:
        return None


def render_continued(source, request):
    try:
        texts, _ = chat_template_utils.render_jinja_template([copy.deepcopy(request["messages"])], chat_template=source,
                                                             continue_final_message=True, **SPECIAL)
        return texts[0]
    except FAULTS:
        return None


def main(folder, out):
    chat_template_utils.datetime = Clock
    env = environment()
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(folder).glob("*.jinja"))}
    results, continued = {}, {}
    for name, source in sources.items():
        template = env.from_string(source)
        results[name] = {chat: render(template, request) for chat, request in CHATS.items()}
        continued[name] = {chat: render_continued(source, request) for chat, request in CONTINUED.items()}
    document = {"now": NOW, "special": SPECIAL, "templates": sources, "chats": CHATS, "results": results,
                "continued": CONTINUED, "continued_results": continued}
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    pathlib.Path(out).write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    total = sum(len(r) for r in results.values())
    failed = sum(text is None for r in results.values() for text in r.values())
    print(f"{len(sources)} templates, {len(CHATS)} chats, {total} results, {failed} of them errors")


if __name__ == "__main__":
    main(*sys.argv[1:])
