#!/usr/bin/env python3
"""Makes tests/data/families: a tiny model of every family by recipe, with the logits of two independent references.

Each row of tools/families becomes a folder that tests/families/familylib.py describes. transformers builds the model, saves
it (which says what tensors the Hugging Face layout has), and computes the logits of that checkpoint once its values are
drawn; mlx-lm loads the same files, which says what tensors the MLX layout has, and computes them again. What is refused:
references that disagree and a row that does not say who is wrong, parameters that hardly change the logits when they are
zero, a model whose logits hang on rounding (routers that are nearly undecided).

Usage: tools/make_family_fixtures.py [-o DIR] [--check] NAME...|--all     (packages: tools/requirements.txt)
"""
import argparse
import json
import re
import shutil
import struct
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/families"))

import numpy as np
import transformers

import familylib
from families import all_rows
from families.options import class_fields
from families.reference import Hf, Mlx, auto_class, bytes_of, mx
from families.row import leaner

AGREE = 5e-5          # of the logits' standard deviation: the references
NOTICEABLE = 1e-2     # the least change that a zeroed parameter must make
DECIDED = 2e-3        # the most that 1e-5 on all weights may change
MAX_BYTES = 40_000    # of one fixture's folder


class Refused(Exception):
    """Why a row is no good, in words."""


def distance(a, b):
    """max |a - b| in units of the standard deviation of b."""
    return float(np.abs(a - b).max() / b.std())


def make_tokens(n, vocab):
    """n ids: the first and the last of the vocabulary, a repeated run, and the rest spread evenly."""
    return [3, vocab - 1, 5, 5, 5, 0] + [(i * i * 7 + i * 31 + 3) % vocab for i in range(n - 6)]


def header_of(path):
    """name -> [dtype, shape] of all safetensors of a folder."""
    found = {}
    for file in path.glob("*.safetensors"):
        with open(file, "rb") as f:
            (n,) = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(n))
        found.update({k: (v["dtype"], v["shape"]) for k, v in header.items() if k != "__metadata__"})
    return found


def hf_checkpoint(row, work):
    """(config.json, tensors by name) as transformers writes them."""
    config = transformers.AutoConfig.for_model(row.model_type, **row.config)
    config.dtype = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[row.dtype]
    model = auto_class(config).from_config(config)
    model.save_pretrained(work)
    config = json.loads((work / "config.json").read_text())
    return row.config_json(config), header_of(work)


def mlx_checkpoint(row):
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes
    model_class, args_class = _get_classes(row.config)
    model = model_class(args_class.from_dict(row.config))
    return row.config, {k: ("F32", list(v.shape)) for k, v in tree_flatten(model.parameters())}


def recipe_of(row, stored):
    recipe = {}
    for saved, (dtype, whole) in stored.items():
        if not dtype.startswith(("F", "BF")):
            raise Refused(f"{saved} is {dtype}")
        for name, shape in row.hub_tensors(saved, whole):
            recipe[name] = [row.dtype_of(name), shape, row.kind(name, shape)]
    for name, (dtype, shape) in row.extra.items():
        recipe[name] = [dtype, shape, "uniform 0" if "F" in dtype else "int 0 100"]
    if inexact := sorted({r[2] for r in recipe.values() if "F" in r[0] and not familylib.is_exact(r[2])}):
        raise Refused(f"values that are not exact in 16 bits: {inexact}")
    return dict(sorted(recipe.items()))


def check_parameters(row, model, tokens, logits):
    """Every parameter must matter."""
    weak = []
    for name, part in list(model.parameters()):
        if row.quiet and re.search(row.quiet, name):
            continue
        with model.changed(part, model.zeroed):
            moved = distance(model.logits(tokens), logits)
        if not moved > NOTICEABLE:
            weak.append(f"{name} ({moved:.1e})")
    if weak:
        raise Refused(f"zeroing these hardly moves the logits: {', '.join(weak)}")


def check_decided(model, tokens, logits, most=DECIDED):
    """Rounding must not decide anything. Changes the model's parameters."""
    rng = np.random.default_rng(0)
    if isinstance(model, Hf):
        import torch
        with torch.no_grad():
            for _, p in model.parameters():
                p.mul_(1 + 1e-5 * torch.from_numpy(rng.standard_normal(p.shape)).to(p.dtype))
    else:
        model.model.load_weights([(k, p * (1 + 1e-5 * mx.array(rng.standard_normal(p.shape).astype(np.float32))))
                                  for k, p in model.parameters() if mx.issubdtype(p.dtype, mx.floating)], strict=False)
    moved = distance(model.logits(tokens), logits)
    if not moved < most:
        raise Refused(f"the logits hang on rounding: 1e-5 on the weights moves them by {moved:.1e} std")
    return moved


def with_zeros(row, fixture, folder):
    """The checkpoint for transformers, which may want more than the hub has."""
    if not row.hf_extra:
        return folder
    other = folder.with_name("with-zeros")
    shutil.copytree(folder, other)
    recipe = json.loads((fixture / "tensors.json").read_text()) | {k: [row.dtype, s, "value 0 0"] for k, s in row.hf_extra.items()}
    familylib.write_safetensors(other / "model.safetensors", familylib.draw_all(fixture.name, recipe))
    return other


def references(row, fixture, folder, config):
    """(Hf or None, Mlx or None); a library that a row does not name as failing must load the checkpoint."""
    hf = None if row.hf.startswith("lacks") else Hf(with_zeros(row, fixture, folder), row.extra)
    mlx = None if row.layout else Mlx(folder, row.for_mlx(config))
    return hf, mlx


def compare(row, logits):
    """(name in expected.safetensors, logits, what the note says)."""
    off = distance(logits["mlx"], logits["hf"]) if len(logits) == 2 else None
    right = {k: v for k, v in logits.items() if not getattr(row, k)}
    if off is not None and len(right) == 2 and not off < AGREE:
        raise Refused(f"transformers and mlx-lm differ by {off:.1e} std")
    if off is not None and len(right) == 1 and off < AGREE:
        raise Refused("the row says that one reference is wrong, but they agree")
    if not right:
        raise Refused("no reference is left")
    if len(right) == 2:
        return "logits", logits["hf"], "transformers and mlx-lm agree.", off
    name, values = next(iter(right.items()))
    libraries = {"hf": "transformers", "mlx": "mlx-lm"}
    other = "mlx" if name == "hf" else "hf"
    why = getattr(row, other) or row.layout
    return name, values, f"By {libraries[name]} alone: {libraries[other]} {why}.", off


def write_expected(path, name, tokens, logits):
    tensors = {"tokens": ("I32", [len(tokens)], np.array(tokens, np.int32).tobytes()),
               name: ("F32", list(logits.shape), np.ascontiguousarray(logits, np.float32).tobytes())}
    familylib.write_safetensors(path, tensors)


def build(row, fixture):
    """The row's config.json and tensors.json in a new folder, and its checkpoint beside it: (folder, whole config)."""
    work = fixture.parent
    config, stored = hf_checkpoint(row, work / "saved") if row.source == "hf" else mlx_checkpoint(row)
    fixture.mkdir()
    written = leaner(config, row.lean, class_fields(row.model_type)) if row.lean else config
    (fixture / "config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
    familylib.write_lines(fixture / "tensors.json", recipe_of(row, stored))
    familylib.write_checkpoint(fixture, work / "checkpoint")
    return work / "checkpoint", config


def layout_of(mlx):
    """mlx.json"""
    found = {name: bytes_of(x) for name, x in mlx.tensors.items()}
    return {name: [dtype, shape, familylib.hash_of(data)] for name, (dtype, shape, data) in found.items()}


def vocabulary(config):
    return config.get("vocab_size") or config["text_config"]["vocab_size"]


def make(row, out):
    with tempfile.TemporaryDirectory() as work:
        fixture = Path(work) / row.name
        folder, config = build(row, fixture)
        hf, mlx = references(row, fixture, folder, config)
        tokens = make_tokens(row.tokens, vocabulary(config))
        logits = {k: m.logits(tokens) for k, m in (("hf", hf), ("mlx", mlx)) if m}
        name, right, note, off = compare(row, logits)
        if not np.isfinite(right).all():
            raise Refused("the logits are not finite")
        model = mlx if name == "mlx" else hf
        if mlx:
            familylib.write_lines(fixture / "mlx.json", layout_of(mlx))
        check_parameters(row, model, tokens, right)
        moved = check_decided(model, tokens, right)
        write_expected(fixture / "expected.safetensors", name, tokens, right)
        (fixture / "note.md").write_text(" ".join(filter(None, [note, row.note])) + "\n")
        size = sum(f.stat().st_size for f in fixture.iterdir())
        if size > MAX_BYTES:
            raise Refused(f"{size} bytes, more than {MAX_BYTES}")
        shutil.rmtree(out / row.name, ignore_errors=True)
        shutil.copytree(fixture, out / row.name)
    off = f"{off:.1e}" if off is not None else "-"
    print(f"{row.name:28} {size:6} bytes  std {right.std():6.3f}  hf/mlx {off:8} 1e-5 moves {moved:.1e}  {name}",
          flush=True)


def check(row, out):
    """Makes the fixture again; the committed files must come out, the logits but for rounding."""
    with tempfile.TemporaryDirectory() as again:
        make(row, Path(again))
        new, old = Path(again) / row.name, out / row.name
        names = {p.name for p in new.iterdir()} | {p.name for p in old.iterdir()}
        for name in sorted(names - {"expected.safetensors"}):
            a, b = ((f / name).read_bytes() if (f / name).exists() else None for f in (new, old))
            if a != b:
                raise Refused(f"{name} is not what is made now")
        a, b = (mx.load(str(f / "expected.safetensors")) for f in (new, old))
        if a.keys() != b.keys() or any(distance(np.array(a[k]), np.array(b[k])) > AGREE for k in a):
            raise Refused("expected.safetensors is not what is made now")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "tests/data/families")
    parser.add_argument("--check", action="store_true", help="compare with what is there, write nothing")
    parser.add_argument("--all", action="store_true", help="every row")
    parser.add_argument("--trace", action="store_true", help="where a row fails")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    rows = all_rows()
    if unknown := set(args.names) - rows.keys():
        sys.exit(f"no such row: {', '.join(sorted(unknown))}")
    failed = 0
    for name in rows if args.all else args.names:
        try:
            (check if args.check else make)(rows[name], args.out)
        except (Exception, SystemExit) as why:
            failed += 1
            if args.trace:
                traceback.print_exc()
            print(f"{name}: {type(why).__name__}: {why}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
