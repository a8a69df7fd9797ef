"""Two GPUs of this machine, a worker each, beside a single run: python benchmarks/fleet_gpus.py [ARGUMENT]...

ARGUMENTs go to `tcprobe run`; without any: --arch all, so that the kind of GPU is measured and all other archs are read
from machine code. One GPU makes a single run whose report is merged; then follow fleets of the other GPU alone, of
both, of both again in the same folder, and of both of which the one or the other is killed on the way. All folders must
be the same, byte for byte. Needs `pip install 'tcprobe[fleet]'`, and Linux.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fleet import CORES, Machine, digest, fleet

TCPROBE = (sys.executable, "-m", "tcprobe")
THREADS = 4  # runs at a time of a worker
HALF = max(len(CORES) // 2, 1)
FIRST, SECOND = Machine(CORES[:HALF], THREADS, "0"), Machine(CORES[-HALF:], THREADS, "1")


class Made(NamedTuple):
    """What a run was: seconds, its folder, words."""

    seconds: float
    folder: Path
    words: str


def single(folder: Path, words: Sequence[str]) -> Made:
    """A run on the first GPU and all cores, whose report is merged into an empty folder."""
    begun, report = time.perf_counter(), folder / "report"
    given = os.environ | {"CUDA_VISIBLE_DEVICES": FIRST.gpus}
    places = ["--results", str(folder / "own"), "--report", str(report), "--json"]
    done = subprocess.run([*TCPROBE, "run", *places, *words], env=given, stdout=subprocess.PIPE, text=True, check=False)
    seconds = time.perf_counter() - begun
    subprocess.run([*TCPROBE, "merge", str(report), "--results", str(folder / "merged")], check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    measured = sum(e["status"] == "measured" for line in lines for e in line["experiments"])
    return Made(seconds, folder / "merged", f"code {done.returncode}, {len(lines)} archs, {measured} measured")


def by_fleet(
    folder: Path, words: Sequence[str], machines: Sequence[Machine], killed: int = 0, kill_after: float = 0
) -> Made:
    """A fleet's run, of which one worker is killed after some seconds, where there are any."""
    with fleet(machines) as (address, running):
        begun, names = time.perf_counter(), {one.address: f"worker {n}" for n, one in enumerate(running)}
        if kill_after:
            threading.Timer(kill_after, running[killed].process.kill).start()
        command = [*TCPROBE, "run", "--scheduler", address, "--results", str(folder), "--json", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begun
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    by = {name: [line for line in lines if names.get(line["machine"] or "") == name] for name in names.values()}
    told = [
        f"{name}: {len(of)} archs, live {[x['device'] for x in of if x['method'] == 'live']}" for name, of in by.items()
    ]
    new, kept = sum(len(line["experiments"]) for line in lines), sum(line["kept"] for line in lines)
    lost = sum(len(line["complaints"]) for line in lines)
    told += [f"{new} new, {kept} kept, {lost} complaints"]
    if done.returncode:
        print(done.stderr[-3000:])
    return Made(seconds, folder, f"code {done.returncode}; {'; '.join(told)}")


def main(words: Sequence[str]) -> None:
    words, first, others = words or ["--arch", "all"], {}, set()

    def tell(what: str, made: Made) -> float:
        print(f"{what}: {made.seconds:.1f} s; {digest(made.folder)}; {made.words}", flush=True)
        files = {p.relative_to(made.folder): p.read_bytes() for p in made.folder.rglob("*") if p.is_file()}
        first.update({} if first else files)
        others.update(name for name in {**first, **files} if first.get(name) != files.get(name))
        return made.seconds

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tell("single run on GPU 0", single(folder, words))
        alone = tell("fleet of GPU 1", by_fleet(folder / "alone", words, [SECOND]))
        both = tell("fleet of both", by_fleet(folder / "both", words, [FIRST, SECOND]))
        tell("the same again", by_fleet(folder / "both", words, [FIRST, SECOND]))
        for number in (0, 1):
            made = by_fleet(folder / f"killed{number}", words, [FIRST, SECOND], number, both / 4)
            tell(f"both, worker {number} killed after {both / 4:.1f} s", made)
    print(f"both are {alone / both:.2f} times as fast as one")
    if others:
        sys.exit(f"{len(others)} files differ: {', '.join(map(str, sorted(others)[:20]))}")


if __name__ == "__main__":
    main(sys.argv[1:])
