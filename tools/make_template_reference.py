#!/usr/bin/env python3
"""Renders chat templates with Python's jinja2 in the environment that transformers makes, and stores what came out.

    tools/make_template_reference.py TEMPLATES_DIR tests/data/templates/reference.json.xz

TEMPLATES_DIR holds *.jinja files. The result is one JSON object: "now" (the Unix time that strftime_now shows, in UTC),
"templates" (name -> source), "chats" (name -> request, see template_chats.py), "special" (variables added to each request)
and "results" (template -> chat -> the text, or null where rendering raises). "continued" and "continued_results" are the same
for continue_final_message. Messages go in as they are: apply_chat_template of transformers 5.24 would first drop keys that are
null and copy reasoning fields, see docs/decisions.
"""
import copy
import datetime
import json
import lzma
import pathlib
import sys

import jinja2
from transformers.utils import chat_template_utils

from template_chats import CHATS, CONTINUED, SPECIAL

NOW = 1764417600


class Clock:
    """Stands in for datetime where strftime_now asks for the time."""

    @staticmethod
    def now():
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)


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
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(folder).glob("*.jinja"))}
    results, continued = {}, {}
    for name, source in sources.items():
        template = chat_template_utils._compile_jinja_template(source)
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
