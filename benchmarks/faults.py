"""What faults lead to: toolchains and environments that are broken, commands that are stopped at any moment, and those
that get little memory.

    python benchmarks/faults.py [SEED]

Tries every fault of tests/faults.py and stops the commands of tests/kills.py 42 times, each by SIGINT, SIGTERM and
SIGKILL, at moments that the seed decides. Runs the commands of tests/scarcity.py with 60 to 600 MB of address space.
Takes about half an hour, one trial at a time. Counts what must not be; exit code 1 if there is anything.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import faults
import kills
import scarcity

ROUNDS = 7  # of every command, so 42 kills and interrupts
# what a complaint counts as, by a word of it
KINDS = {
    "crashed": "crashed",
    "hung": "hung",
    "wrong": "wrong accepted",
    "exit code 0": "wrong accepted",
    "torn": "torn",
    "part file": "torn",
    "not completed": "torn",
    "left": "left behind",
}


def kind(complaint: str) -> str:
    """The column of the table that a complaint belongs to."""
    return next((kind for word, kind in KINDS.items() if word in complaint), "unclear")


def main() -> int:
    """Try everything, print every complaint and the table; 1 if there was a complaint."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    tried: Counter[str] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    for category, name, complaints in chain(_faults(), _kills(seed), _limits()):
        tried[category] += 1
        found.update({(category, kind(c)) for c in complaints})
        print(f"{category}: {name}: {'; '.join(complaints[:3]) or 'fine'}", flush=True)
    heads = ("crashed", "hung", "wrong accepted", "torn", "left behind", "unclear")
    print("| category | tried |", " | ".join(heads), "|")
    for category, number in tried.items():
        print(f"| {category} | {number} |", " | ".join(str(found[category, head]) for head in heads), "|")
    return int(bool(found))


def _faults():
    for fault in faults.FAULTS:
        category = "toolchain" if fault.program else "environment"
        with tempfile.TemporaryDirectory() as folder:
            yield category, fault.name, faults.attempt(fault, Path(folder)).wrong


def _kills(seed):
    rng = random.Random(seed)
    for work in kills.WORKS:
        with tempfile.TemporaryDirectory() as folder:
            whole, seconds = kills.undisturbed(work, Path(folder))
        for number in range(ROUNDS):
            how, after = kills.SIGNALS[number % 3], rng.uniform(0.05, seconds)
            with tempfile.TemporaryDirectory() as folder:
                complaints = kills.stop(work, how, after, Path(folder), whole)
            yield "kills and interrupts", f"{work.name}, {how.name} after {after:.2f} s", complaints


def _limits():
    for work in scarcity.WORKS:
        with tempfile.TemporaryDirectory() as folder:
            whole, _ = kills.undisturbed(work, Path(folder))
        for megabytes in scarcity.LIMITS:
            with tempfile.TemporaryDirectory() as folder:
                code, complaints, _ = scarcity.starve(work, megabytes, Path(folder), whole)
            yield "limits of memory", f"{work.name} with {megabytes} MB, exit code {code}", complaints


if __name__ == "__main__":
    sys.exit(main())
