"""What bank conflicts cost to answer: python benchmarks/banks.py [REPEATS]; medians of processes from their start.

- 10,000 patterns of all accesses, read from JSON lines and answered as JSON lines; target: 1 s
- --propose for the worked tiles and a large one with three accesses; target: 1 s
- the same inside one process, without its start, and the fit of a sweep's timings without the GPU

A process that only imports click, rich and NumPy is timed beside them: the machine's own speed. On a machine that does
other work as well, the processor's seconds are what an idle one takes.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tcprobe.ask.bank_patterns import judge_patterns, read_patterns
from tcprobe.ask.bank_rules import rules_for
from tcprobe.isa.shared_memory import SharedAccess, accesses
from tcprobe.probes.banks import Timed, costly, cycles_by_rule, fit
from tcprobe.store.results import published

TCPROBE = [sys.executable, "-c", "from tcprobe.cli import main; main()", "banks"]
FLOOR = [sys.executable, "-c", "import click, rich, numpy"]
MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
PATTERNS = 10_000
Timing = tuple[SharedAccess, list[tuple[int, ...]], Timed]  # what `fit` takes
TILES = {
    "64x64 f16": [MMA + ".a", "--tile", "64x64", "--with", "cp.async.16", "ldmatrix.x4"],
    "64x128 f16": [MMA + ".a", "--tile", "64x128", "--with", "cp.async.16", "ldmatrix.x4"],
    "64x32 f32": [MMA + ".d", "--tile", "64x32", "--with", "st.shared.v2", "ld.shared.v4@rows"],
    "32x32 f32": ["--type", "f32", "--tile", "32x32", "--with", "cp.async.4", "ld.shared.b32@cols"],
    "256x208 f16": [MMA + ".a", "--tile", "256x208", "--with", "cp.async.4", "ld.shared.b32", "ldmatrix.x4"],
    "224x256 f32": ["--type", "f32", "--tile", "224x256", "--with", "cp.async.4", "ld.shared.b32@cols"],
}


def seconds(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Medians of (wall, processor), the latter with child processes."""
    taken = []
    for _ in range(repeats):
        start, before = time.perf_counter(), os.times()
        work()
        taken.append((time.perf_counter() - start, sum(os.times()[:4]) - sum(before[:4])))
    walls, processors = zip(*taken, strict=True)
    return statistics.median(walls), statistics.median(processors)


def say(what: str, taken: tuple[float, float], target: str = "") -> None:
    print(f"{what:<28}{taken[0]:>8.3f} s{taken[1]:>8.3f} s{f'  target: {target}' * bool(target)}")


def process(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run([*TCPROBE, *arguments, "--json"], check=True, capture_output=True)


def write_patterns(path: Path) -> None:
    rng = random.Random(0)
    rows = []
    for j in range(PATTERNS):
        row = list(accesses().values())[j % len(accesses())]
        data: dict[str, object] = {"op": row.name, "address": [row.bytes * rng.randrange(1024) for _ in range(32)]}
        if row.has_source:
            data["source"] = [row.bytes * rng.randrange(1 << 20) for _ in range(32)]
        rows.append(json.dumps(data))
    path.write_text("\n".join(rows))


def timings() -> list[Timing]:
    """As many timings of every access as a sweep has, of a clock that follows the rule."""
    found = []
    for row in accesses().values():
        cases, rule = costly(row, 2000), rules_for(None, published()).rule(row)
        size = min(rule.phase, row.lanes)
        phases = [tuple(range(j, j + size)) for j in range(0, row.lanes, size)]
        timed = Timed(cases, cycles_by_rule(row, rule, cases).astype(float), np.ones(2000, np.bool_))
        found.append((row, phases, timed))
    return found


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{'':<28}{'wall':>10}{'processor':>10}")
    say("import click, rich, numpy", seconds(lambda: subprocess.run(FLOOR, check=True), repeats))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "patterns.jsonl"
        write_patterns(path)
        say(f"{PATTERNS:,} patterns", seconds(process("--patterns", str(path)), repeats), "1 s")
        inside = seconds(
            lambda: judge_patterns(read_patterns(path), lambda name: rules_for(name, published())), repeats
        )
        say("  in one process", inside)
    for name, arguments in TILES.items():
        say(f"--propose {name}", seconds(process(*arguments, "--propose"), repeats), "1 s")
    todo = timings()
    say("fit of 56,000 timings", seconds(lambda: [fit(*timing) for timing in todo], 1))


if __name__ == "__main__":
    main()
