"""What a run costs, as ratios within this run: python benchmarks/run.py [REPEATS]

- cold: `tcprobe run` of all forms of wmma and mma with an empty driver cache, against compiling and running prober.cu
  with nvcc (one fragment); target: below 1
- warm: the same with a filled driver cache, against the floor: interpreter, importing CuPy, creating the
  context; target: at most 1.5
- the other families, cold and warm, once each, in floors
- peak memory of the tool and of its worker; target: below 500 MB
- fit: mean and largest time a layout, and all of results/; `tcprobe --help` against importing click and rich

Parts that need a GPU or nvcc are left out where there is none, and said so.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
FLOOR = "import cupy; cupy.cuda.Device(0).use(); cupy.cuda.runtime.free(0)"
TCPROBE = [sys.executable, "-m", "tcprobe"]
FIRST = ("wmma*", "mma.m*")
OTHERS = {"moves and mma.sp": ("ldmatrix*", "stmatrix*", "movmatrix*", "mma.sp*"), "wgmma and wgmma.sp": ("wgmma*",)}


def seconds(command: list[str], **environment: str) -> tuple[float, str]:
    start = time.perf_counter()
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # compiled once, as when installed
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stderr


def line(what: str, value: str, target: str = "") -> None:
    print(f"{what:<44}{value:>14}  {target}")


def gpu(repeats: int, folder: Path) -> None:
    run = [*TCPROBE, "run", *FIRST, "--force", "--stages", "--results", str(folder / "results")]
    for path in (HERE.parent / "tcprobe").rglob("*.py"):  # sources into the file cache, for both sides alike
        path.read_bytes()
    seconds([sys.executable, "-c", FLOOR])
    cold, warm, floors, nvcc, stages = [], [], [], [], ""
    for number in range(repeats):
        cache = str(folder / f"cache{number}")
        floors.append(seconds([sys.executable, "-c", FLOOR])[0])
        cold.append(seconds(run, CUDA_CACHE_PATH=cache)[0])
        spent, stages = seconds(run, CUDA_CACHE_PATH=cache)
        warm.append(spent)
        if shutil.which("nvcc"):
            exe = str(folder / f"prober{number}")
            build = seconds(["nvcc", "-arch=native", "-o", exe, str(HERE / "prober.cu")])[0]
            nvcc.append(build + seconds([exe])[0])
    floor = statistics.median(floors)
    line("floor: interpreter, CuPy, context", f"{floor:.2f} s")
    line("warm run of wmma and mma", f"{statistics.median(warm):.2f} s")
    line("warm / floor", f"{statistics.median(warm) / floor:.2f}", "target: at most 1.5")
    line("cold run of wmma and mma", f"{statistics.median(cold):.2f} s")
    if nvcc:
        line("nvcc + run of a one-fragment prober", f"{statistics.median(nvcc):.2f} s")
        line("cold / nvcc", f"{statistics.median(cold) / statistics.median(nvcc):.2f}", "target: below 1")
    else:
        print("no nvcc here: cold run not compared")
    for name, peak in re.findall(r"peak memory of the (\w+)\s+([\d.]+) MB", stages):
        line(f"peak memory of the {name}", f"{peak} MB", "target: below 500")
    print("stages of the last warm run's worker:")
    print("\n".join(text for text in stages.splitlines() if " s " in text))
    for name, patterns in OTHERS.items():
        run = [*TCPROBE, "run", *patterns, "--force", "--stages", "--results", str(folder / "others")]
        spent = [seconds(run, CUDA_CACHE_PATH=str(folder / f"cache {name}")) for _ in ("cold", "warm")]
        line(f"{name}: cold, warm / floor", " and ".join(f"{time_ / floor:.1f}" for time_, _ in spent))
        line(
            f"{name}: peak memory of the worker", f"{re.findall(r'memory of the worker +([0-9.]+)', spent[1][1])[0]} MB"
        )


def fit() -> None:
    from tcprobe.fit import fit as fit_table
    from tcprobe.store.results import published

    results = published()
    if not results.layouts():
        print("no published layouts: fit not measured")
        return
    tables = [results.layout(layout) for layout in results.layouts()]
    spent = []
    for table in tables:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            fit_table(table)
            times.append(time.perf_counter() - start)
        spent.append((min(times), table.points))
    line(f"fit, mean of {len(tables)} layouts", f"{1e3 * statistics.mean(t for t, _ in spent):.2f} ms", "target: 1 ms")
    line(f"fit, largest ({max(spent)[1]} slots)", f"{1e3 * max(spent)[0]:.2f} ms")
    line("tcprobe fit, everything published", f"{seconds([*TCPROBE, 'fit'])[0]:.2f} s", "target: 1 s")


def start(repeats: int) -> None:
    tools = [sys.executable, "-c", "import click, rich"]
    both = [(seconds([*TCPROBE, "--help"])[0], seconds(tools)[0]) for _ in range(3 * repeats)]
    ratio = statistics.median(a for a, _ in both) / statistics.median(b for _, b in both)
    line("tcprobe --help / importing click and rich", f"{ratio:.2f}", "target: at most 1.5")
    pages = [
        seconds([*TCPROBE, "pages", "--check", "--results", str(HERE.parent / "results")])[0] for _ in range(repeats)
    ]
    ratio = statistics.median(pages) / statistics.median(b for _, b in both)
    line("tcprobe pages / importing click and rich", f"{ratio:.0f}", "target: at most 30")


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    try:
        seconds([sys.executable, "-c", FLOOR])
        with tempfile.TemporaryDirectory() as folder:
            gpu(repeats, Path(folder))
    except subprocess.CalledProcessError as error:
        print("no GPU part:", error.stderr.strip().splitlines()[-1])
    fit()
    start(repeats)


if __name__ == "__main__":
    main()
