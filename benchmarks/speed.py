"""The figures of docs/speed.md that need no GPU: CPU seconds of processes, in pairs with importing click and rich.

python benchmarks/speed.py [PAIRS]: every command in turn with the import, so that a machine that slows down slows both;
the median of the ratios, and of the seconds. User and system time of the process and its children, not the clock.
Modules are compiled before, as when installed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

TCPROBE = (sys.executable, "-m", "tcprobe")
IMPORTS = (sys.executable, "-c", "import click, rich.console")
NAME = "mma.m16n8k16.row.col.f32.bf16.bf16.f32"
KEPT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
COMMANDS = {
    "where": ("where", "m16n8k16", "bf16", "f32", "a", "--row", "3", "--col", "9"),
    "trace": ("trace", NAME, "--row", "3", "--col", "2"),
    "show": ("show", f"{NAME}.a"),
    "find": ("find", "hide", "latency"),
    "cost": ("cost", "m16n8k16", "bf16"),
    "numerics": ("numerics", "m16n8k16", "f16", "f32"),
    "lower": ("lower", NAME, "--arch", "h100"),
    "convert": ("convert", "m16n8k16 f16 f32 d", "m16n8k16 f16 f32 a"),
    "emit": ("emit", f"{NAME}.a", "--to", "cuda"),
    "fit": ("fit",),
    "pages": ("pages", "--check", "--results", "results"),
}
FEW = ("fit", "pages")  # run three times


def seconds(words: Sequence[str]) -> float:
    """User and system time of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, env=KEPT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(pairs: int) -> None:
    """A line a command."""
    os.chdir(Path(__file__).resolve().parent.parent)
    seconds(IMPORTS)
    print(f"{'command':<10}{'CPU s':>8}{'/ importing click and rich':>28}   load {os.getloadavg()[0]:.1f}")
    for name, words in COMMANDS.items():
        if name not in FEW:
            seconds([*TCPROBE, *words])
        times = [(seconds([*TCPROBE, *words]), seconds(IMPORTS)) for _ in range(3 if name in FEW else pairs)]
        ratio = median(own / imports for own, imports in times)
        print(f"{name:<10}{median(own for own, _ in times):>8.2f}{ratio:>28.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'site':<10}{seconds([*TCPROBE, 'site', '-o', f'{folder}/site']):>8.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
