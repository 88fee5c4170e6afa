#!/usr/bin/env python3
"""Fresh random texts and chats against the reference libraries, live: `tokenizers` for ids and texts, transformers' jinja2
environment for chat templates.

    textfuzz.py --bin DIR [-T 300] [--seed N] [--only published,random,templates,jinja] [--all]

DIR has mlxcel and tests/textfuzz/jinja_lines. Four kinds of work take turns until T seconds are over:
  published   the tokenizers in tests/data/tokenizers: tokenize with and without special tokens added and recognised, raw
              bytes that are not UTF-8, detokenize of what came out and of random ids, --pieces (the same ids, ranges of
              whole characters)
  random      tokenizers put together at random (pipelines.py); those that the program refuses as not built are counted by
              what it names
  templates   the templates of tests/data/templates with random requests, continue_final_message included
  jinja       random templates over the whole language (jinja_gen.py)
The first difference is made as small as it gets and printed with the seed; files to repeat it by hand are left under
build/textfuzz. Exit status 1 then.
"""
import argparse
import collections
import copy
import datetime
import itertools
import json
import lzma
import os
import random
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

import chats
import jinja_compare
import jinja_gen
import pipelines
import shrink
import texts
from fuzzlib import Difference, finish
from peer import Peer, PeerDied, tokenize_bytes
from tokenizers import Tokenizer

WORK = ROOT / "build/textfuzz" / str(os.getpid())
MODES = {"added": [], "plain": ["--no-special"], "literal": ["--no-special", "--no-parse-special"]}


class Panic(Exception):
    """The reference library met a bug of its own."""


def guarded(function, *args, **kwargs):
    """Calls the reference; its panics, which are no Exception, become one."""
    try:
        return function(*args, **kwargs)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as fault:
        raise Panic(str(fault)) from None


# --- tokenizers -------------------------------------------------------------------------------------------------------

class Pair:
    """One tokenizer, ours and theirs."""

    def __init__(self, program, directory, tree_text):
        self.program, self.directory = program, str(directory)
        self.theirs = guarded(Tokenizer.from_str, tree_text)
        self.tokens = [t.content for t in self.theirs.get_added_tokens_decoder().values()]
        self.peers = {}

    def peer(self, command, *flags):
        key = (command, *flags)
        if key not in self.peers:
            self.peers[key] = Peer(self.program, command, "-m", self.directory, *flags)
        return self.peers[key]

    def undefined(self):
        """Whether an added token is normalized to nothing, where the reference cuts the text everywhere and panics inside
        characters, or two to the same text, where it finds one of them by chance."""
        normalizer = self.theirs.normalizer
        spellings = [guarded(normalizer.normalize_str, t.content) for t in self.theirs.get_added_tokens_decoder().values()
                     if t.normalized and normalizer is not None]
        return "" in spellings or len(set(spellings)) < len(spellings)

    def close(self):
        for peer in self.peers.values():
            peer.__exit__()

    def want_ids(self, mode, text):
        self.theirs.encode_special_tokens = mode == "literal"
        try:
            return guarded(self.theirs.encode, text, add_special_tokens=mode == "added").ids
        except Panic as fault:
            return {"panic": str(fault)}
        except Exception as fault:  # the library raises plain Exception
            return {"error": str(fault)}

    def want_text(self, skip, ids):
        try:
            return guarded(self.theirs.decode, ids, skip_special_tokens=skip)
        except Panic as fault:
            return {"panic": str(fault)}

    def got_ids(self, mode, strings):
        return self.peer("tokenize", *MODES[mode]).ask(strings)

    def got_texts(self, skip, lists):
        return self.peer("detokenize", *(["--skip-special"] if skip else [])).ask(lists)


def same(got, want):
    """Both failed, or both gave the same, or there is nothing to compare with."""
    return isinstance(want, dict) and ("panic" in want or isinstance(got, dict)) or got == want


def check_texts(pair, strings):
    lists = []
    for mode in MODES:
        for s, got in zip(strings, pair.got_ids(mode, strings)):
            want = pair.want_ids(mode, s)
            if same(got, want):
                lists.append(want)
                continue
            small = shrink.sequence(s, lambda x: not same(pair.got_ids(mode, [x])[0], pair.want_ids(mode, x)))
            raise Difference(f"tokenize {' '.join(MODES[mode])} of {json.dumps(small)}\n"
                             f"  ours:      {pair.got_ids(mode, [small])[0]}\n  reference: {pair.want_ids(mode, small)}")
    return [x for x in lists if isinstance(x, list)]


def check_pieces(pair, strings):
    """--pieces gives the ids that there are without, and ranges of whole characters that lie in the text."""
    ids, pieces = pair.got_ids("added", strings), pair.peer("tokenize", "--pieces").ask(strings)
    for s, wanted, got in zip(strings, ids, pieces):
        places, at = {0}, 0
        for c in s:
            at += len(c.encode())
            places.add(at)
        if isinstance(wanted, list) and ([p["id"] for p in got] != wanted or
                                         any(p["start"] > p["end"] or not {p["start"], p["end"]} <= places for p in got)):
            raise Difference(f"tokenize --pieces of {json.dumps(s)}: {got}")


def check_ids(pair, lists):
    for skip in (False, True):
        for ids, got in zip(lists, pair.got_texts(skip, lists)):
            if same(got, pair.want_text(skip, ids)):
                continue
            small = shrink.sequence(ids, lambda x: not same(pair.got_texts(skip, [x])[0], pair.want_text(skip, x)))
            tokens = [pair.theirs.id_to_token(i) for i in small]
            raise Difference(f"detokenize{' --skip-special' if skip else ''} of {small} {tokens}\n"
                             f"  ours:      {json.dumps(pair.got_texts(skip, [small])[0])}\n"
                             f"  reference: {json.dumps(pair.want_text(skip, small))}")


def check_bytes(pair, data):
    def fails(b):
        return not same(tokenize_bytes(pair.program, pair.directory, b), pair.want_ids("added", b.decode(errors="replace")))
    if fails(data):
        small = shrink.sequence(data, fails)
        raise Difference(f"tokenize of the bytes {small}\n  ours:      {tokenize_bytes(pair.program, pair.directory, small)}\n"
                         f"  reference: {pair.want_ids('added', small.decode(errors='replace'))}")


def random_ids(rng, pair):
    size = pair.theirs.get_vocab_size()
    special = list(pair.theirs.get_added_tokens_decoder())
    draw = [lambda: rng.randrange(size)] * 3 + [lambda: rng.randrange(min(size, 600))] * 4 + [lambda: size + rng.randrange(100)]
    draw += [lambda: rng.choice(special)] * 2 if special else []
    return [rng.choice(draw)() for _ in range(rng.randint(0, 30))]


def drill(rng, pair, n):
    """One batch; the number of comparisons."""
    strings = [texts.text(rng, pair.tokens) for _ in range(n)]
    lists = check_texts(pair, strings) + [random_ids(rng, pair) for _ in range(n)]
    check_ids(pair, lists)
    check_pieces(pair, strings[:5])
    return 3 * len(strings) + 2 * len(lists)


def published(rng, program, until, tally):
    path = rng.choice(sorted((ROOT / "tests/data/tokenizers").glob("*/tokenizer.json.xz")))
    directory = WORK / path.parent.name
    directory.mkdir(parents=True, exist_ok=True)
    text = lzma.decompress(path.read_bytes())
    (directory / "tokenizer.json").write_bytes(text)
    pair = Pair(program, directory, text.decode())
    try:
        while time.monotonic() < until:
            tally["published"] += drill(rng, pair, 40)
            check_bytes(pair, texts.broken(rng, pair.tokens))
    except Difference as why:
        raise Difference(f"{path.parent.name}: {why}") from None
    finally:
        pair.close()


# --- tokenizers put together ------------------------------------------------------------------------------------------

def refusal(program, directory):
    """What the program says that it has not built; None if it takes the tokenizer."""
    got = tokenize_bytes(program, str(directory), b"")
    return got["error"] if isinstance(got, dict) else None


def make_pair(program, tree):
    directory = WORK / "random"
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(tree)
    (directory / "tokenizer.json").write_text(text)
    return Pair(program, directory, text)


def simpler(program, tree, check):
    """The same failure with as few components as possible."""
    def fails(candidate):
        try:
            pair = make_pair(program, candidate)
        except Exception:  # the reference refuses it
            return False
        try:
            if not refusal(program, pair.directory):
                check(pair)
        except (Difference, PeerDied):
            return True
        finally:
            pair.close()
        return False

    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if tree[part] is not None and fails({**tree, part: None}):
            tree = {**tree, part: None}
        for key in ("normalizers", "pretokenizers", "processors", "decoders"):
            if tree[part] and key in tree[part]:
                small = shrink.sequence(tree[part][key], lambda x, p=part, k=key: fails({**tree, p: {"type": "Sequence", k: x}}))
                tree = {**tree, part: {"type": "Sequence", key: small}}
    tree = {**tree, "added_tokens": shrink.sequence(tree["added_tokens"], lambda x: fails({**tree, "added_tokens": x}))}
    fails(tree)  # leaves its file
    return tree


def random_pipeline(rng, program, until, tally, bank, refused):
    while time.monotonic() < until:
        name, tree = pipelines.draw(rng, bank)
        seed = rng.random()
        try:
            pair = make_pair(program, tree)
        except Exception:  # the reference refuses it; what then happens here is another test's matter
            continue
        if pair.undefined():
            continue
        check = lambda p: drill(random.Random(seed), p, 15)
        try:
            if why := refusal(program, pair.directory):
                refused[why.removeprefix("mlxcel: error: ").replace(pair.directory, "")] += 1
                continue
            tally["random"] += check(pair)
        except Difference as first:
            pair.close()
            tree = simpler(program, tree, check)
            pair = make_pair(program, tree)
            try:
                check(pair)
            except Difference as last:
                first = last
            parts = {k: v for k, v in tree.items() if k not in ("model", "version", "truncation", "padding")}
            flags = {k: v for k, v in tree["model"].items() if k not in ("vocab", "merges")}
            raise Difference(f"{name} model {flags}\n  {json.dumps(parts, ensure_ascii=False)}\n"
                             f"  ({WORK}/random/tokenizer.json)\n{first}") from None
        finally:
            pair.close()


# --- templates --------------------------------------------------------------------------------------------------------

class Clock:
    """Stands in for datetime where strftime_now asks for the time: both sides show the same."""

    at = datetime.datetime.now()

    @classmethod
    def now(cls):
        return cls.at


def reference_rendering(source, request):
    """The text, or None where the reference raises. Messages go in unchanged, see docs/decisions."""
    from transformers.utils import chat_template_utils

    chat_template_utils.datetime = Clock
    request = {"tools": None, "documents": None, "add_generation_prompt": False, **copy.deepcopy(request)}
    try:
        if request.pop("continue_final_message", False):
            rendered, _ = chat_template_utils.render_jinja_template([request.pop("messages")], chat_template=source,
                                                                    continue_final_message=True, **request)
            return rendered[0]
        return chat_template_utils._compile_jinja_template(source).render(**request)
    except Exception:  # templates raise what they like
        return None


def templates(rng, program, until, tally, sources, special):
    name = rng.choice(sorted(sources))
    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / f"{name}.jinja"
    path.write_text(sources[name], encoding="utf-8")
    Clock.at = datetime.datetime.now()
    with Peer(program, "template", "--file", str(path)) as peer:
        def fails(request):
            got = peer.ask_one(request)
            return (None if isinstance(got, dict) else got) != reference_rendering(sources[name], request)

        while time.monotonic() < until:
            for _ in range(20):
                request = {**special, **(chats.continued(rng) if rng.random() < 0.15 else chats.request(rng))}
                tally["templates"] += 1
                if fails(request):
                    small = shrink.tree(request, lambda r: isinstance(r.get("messages"), list) and fails(r))
                    raise Difference(f"{path}: {json.dumps(small)}\n  ours:      {json.dumps(peer.ask_one(small))}\n"
                                     f"  reference: {json.dumps(reference_rendering(sources[name], small))}")


# --- Jinja ------------------------------------------------------------------------------------------------------------

def jinja(rng, program, until, tally):
    def differs(template, context):
        """Not where the reference itself gives another text for a copy of the context: it shows an address then."""
        difference = jinja_compare.compare(render, template, context)
        return bool(difference) and jinja_compare.reference(template, copy.deepcopy(context)) == difference["want"]

    render = jinja_compare.Renderer(program)
    try:
        for template, context in jinja_gen.cases(rng.random()):
            if time.monotonic() > until:
                break
            tally["Jinja"] += 1
            if differs(template, context):
                small = shrink.sequence(template, lambda t: differs(t, context))
                raise Difference(f"the template {small!r}\n  with {json.dumps(context)}\n"
                                 f"  ours:      {json.dumps(render(small, context))}\n"
                                 f"  reference: {json.dumps(jinja_compare.reference(small, context))}")
    finally:
        render.process.kill()
        render.process.wait()


# --- the run ----------------------------------------------------------------------------------------------------------

def work(args, rng, tally, refused):
    reference = json.loads(lzma.decompress((ROOT / "tests/data/templates/reference.json.xz").read_bytes()))
    bank = pipelines.bank(args.seed) if "random" in args.only else None
    program, lines = f"{args.bin}/mlxcel", f"{args.bin}/tests/textfuzz/jinja_lines"
    kinds = {"published": lambda until: published(rng, program, until, tally),
             "random": lambda until: random_pipeline(rng, program, until, tally, bank, refused),
             "templates": lambda until: templates(rng, program, until, tally, reference["templates"], reference["special"]),
             "jinja": lambda until: jinja(rng, lines, until, tally)}
    chosen = [k for k in kinds if k in args.only.split(",")]
    slices = {"published": args.T / 30 + 2, "random": args.T / 50 + 1, "templates": args.T / 300 + 0.3, "jinja": args.T / 50 + 1}
    end = time.monotonic() + args.T
    turns = itertools.cycle(chosen + ["templates"] * 3 * ("templates" in chosen))
    found = 0
    while time.monotonic() < end:
        kind = next(turns)
        try:
            kinds[kind](min(end, time.monotonic() + slices[kind]))
        except (Difference, PeerDied) as why:
            found += 1
            print(f"textfuzz: seed {args.seed}: DIFFERENCE\n{why}", flush=True)
            if not args.all:
                break
    return found


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--bin", required=True)
    args.add_argument("-T", type=float, default=300)
    args.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    args.add_argument("--only", default="published,random,templates,jinja")
    args.add_argument("--all", action="store_true", help="go on after a difference")
    args = args.parse_args()
    warnings.simplefilter("ignore")
    own, log = os.dup(2), open(os.devnull, "w", encoding="utf-8")
    os.dup2(log.fileno(), 2)  # where the libraries tell of panics and missing packages
    sys.stderr = os.fdopen(own, "w")
    tally, refused = collections.Counter(), collections.Counter()
    print(f"textfuzz: seed {args.seed}", flush=True)
    found = work(args, random.Random(args.seed), tally, refused)
    for why, n in refused.most_common():
        print(f"  refused {n} times: {why}")
    return finish([f"{n} comparisons of {kind}" for kind, n in tally.items()], found, WORK)


if __name__ == "__main__":
    sys.exit(main())
