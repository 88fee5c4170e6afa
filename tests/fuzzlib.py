"""What the fuzzers that compare live with a reference share: draws, each with a seed of its own, until time is up."""
import argparse
import collections
import math
import random
import shutil
import time
from pathlib import Path


class Difference(Exception):
    """What is wrong, in words."""


def arguments(doc):
    """A parser that knows what every fuzzer of seeded draws takes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("-T", type=float, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--draws", type=int, default=math.inf)
    parser.add_argument("--all", action="store_true", help="go on after a difference")
    return parser


def finish(counts, found, work):
    """Prints what was done; the files of a run without a difference go. The exit status."""
    print(", ".join(counts) + f": {found} differences")
    if found:
        return 1
    shutil.rmtree(work, ignore_errors=True)
    return 0


def run(name, args, draw, work):
    """draw(seed, tally) for one seed after another, until it is time or a Difference ends it. The exit status."""
    tally, found, seed, end = collections.Counter(), 0, args.seed, time.monotonic() + args.T
    while time.monotonic() < end and seed - args.seed < args.draws:
        try:
            draw(seed, tally)
        except Difference as why:
            found += 1
            print(f"{name}: seed {seed}: DIFFERENCE\n{why}", flush=True)
            if not args.all:
                break
        seed += 1
    return finish([f"{n} {kind}" for kind, n in sorted(tally.items())], found, work)
