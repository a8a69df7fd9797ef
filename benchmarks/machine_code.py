"""What reading machine code costs, as ratios within this run: python benchmarks/machine_code.py [REPEATS]

- one arch: `tcprobe run --arch sm_90 --method sass` of all wmma fragments, against the bare ptxas and nvdisasm calls on
  the same text; target: at most 1.5
- everything of one arch, multiplies by their own code and matrix moves too: the same, the tools on all those texts
- everything of all archs: `tcprobe run --arch all`, against the sum of the tools on the texts of each arch
- all archs: against the sum over single archs; both cores are used; target: at most 1.5 times that sum
- peak memory of a process; target: below 150 MB
- growth: ten times the probes, against one time; target: at most 11
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tcprobe.isa import inventory
from tcprobe.isa.arch import Arch, arch
from tcprobe.probes import experiments
from tcprobe.probes.ptx import Kernel, module
from tcprobe.probes.wmma import MemoryExperiment
from tcprobe.run.machine_code import run
from tcprobe.sass import tensor, toolchain
from tcprobe.sass.cubin import assemble
from tcprobe.sass.elf import contents
from tcprobe.sass.moves import _loads, form_kernel, input_fragment, load_kernel

ROW = arch("sm_90")
TCPROBE = [sys.executable, "-m", "tcprobe"]
MEMORY = [e for e in experiments().values() if isinstance(e, MemoryExperiment)]
KERNELS = list({x.kernel.name: x.kernel for e in MEMORY for x in e.launches()}.values())


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def bare(tools: toolchain.Toolchain, folder: Path, kernels: list[Kernel] = KERNELS, row: Arch = ROW) -> float:
    """ptxas and nvdisasm alone, on the text that tcprobe gives them."""
    source, cubin, image = (folder / f"probes.{end}" for end in ("ptx", "cubin", "bin"))
    source.write_text(module(kernels, row))
    first = seconds([tools.ptxas, "-arch", row.name, str(source), "-o", str(cubin)])
    image.write_bytes(b"".join(raw for raw, *_ in contents(cubin)[1].values()))
    return first + seconds([tools.nvdisasm, "--binary", tools.disassembles_as(row), str(image)])


def texts(row: Arch = ROW) -> list[list[Kernel]]:
    """The kernels of everything: fragments, multiplies, and matrix moves with the loads that show them."""
    rows, moves = (
        [i for i in inventory.of_family(*names) if i.target.on(row) and i.target.name[-1].isdigit()]
        for names in (("wmma", "mma"), ("ldmatrix", "stmatrix", "movmatrix"))
    )
    forms = [form_kernel(i) for i in moves if input_fragment(i)]
    loads = [load_kernel(load) for load in _loads(row)] if forms else []
    moved = {x.kernel.name: x.kernel for e in MEMORY for x in e.launches() if x.kernel.target.on(row)}
    return [
        list(moved.values()),
        [tensor.kernel(i) for i in rows],
        *([[*loads, *forms]] if forms else []),
    ]


def everything(folder: Path, name: str = ROW.name) -> list[str]:
    return [*TCPROBE, "run", "--arch", name, "--method", "sass", "--force", "--results", str(folder)]


def command(name: str, folder: Path) -> list[str]:
    return [*TCPROBE, "run", "wmma.m*", "--arch", name, "--method", "sass", "--force", "--results", str(folder)]


def copies(count: int) -> list[Kernel]:
    """Each probe `count` times, under other names."""
    return [
        dataclasses.replace(k, name=f"{k.name}_{j}", text=k.text.replace(k.name, f"{k.name}_{j}"))
        for k in KERNELS
        for j in range(count)
    ]


def read(tools: toolchain.Toolchain, count: int) -> float:
    """Assemble, disassemble, decode and run every probe `count` times, in this process."""
    start = time.perf_counter()
    codes, _ = assemble(tools, copies(count), ROW)
    for experiment in MEMORY:
        for launch in experiment.launches():
            for j in range(count):
                run(codes[f"{launch.kernel.name}_{j}"], launch)
    return time.perf_counter() - start


def line(what: str, value: str, target: str = "") -> None:
    print(f"{what:<52}{value:>10}  {target}")


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    tools = toolchain.find()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = statistics.median(bare(tools, folder) for _ in range(repeats))
        whole = statistics.median(seconds(command(ROW.name, folder / "r")) for _ in range(repeats))
        line("bare ptxas and nvdisasm, sm_90", f"{alone:.2f} s")
        line("tcprobe run of all wmma fragments of sm_90", f"{whole:.2f} s")
        line("tcprobe / bare tools", f"{whole / alone:.2f}", "target: at most 1.5")
        alone = statistics.median(sum(bare(tools, folder, kernels) for kernels in texts()) for _ in range(repeats))
        whole = statistics.median(seconds(everything(folder / "e")) for _ in range(repeats))
        line("bare ptxas and nvdisasm, all probes of sm_90", f"{alone:.2f} s")
        line("tcprobe run of everything of sm_90", f"{whole:.2f} s")
        line("tcprobe / bare tools", f"{whole / alone:.2f}", "target: at most 1.5")
        alone = sum(bare(tools, folder, kernels, row) for row in tools.archs for kernels in texts(row))
        whole = seconds(everything(folder / "e", "all"))
        line("bare ptxas and nvdisasm, all probes of all archs", f"{alone:.1f} s")
        line("tcprobe run of everything of all archs", f"{whole:.1f} s")
        line("tcprobe / bare tools", f"{whole / alone:.2f}", "target: at most 1.5")
        single = sum(seconds(command(row.name, folder / "r")) for row in tools.archs)
        together = seconds(command("all", folder / "r"))
        line("all archs one by one", f"{single:.1f} s")
        line("tcprobe run --arch all", f"{together:.1f} s")
        line("all / sum of single archs", f"{together / single:.2f}", "target: at most 1.5")
        text = subprocess.run(
            [*command(ROW.name, folder / "r"), "--stages"], capture_output=True, text=True, check=True
        )
        for peak in (words for words in text.stderr.splitlines() if "peak memory" in words):
            line(peak.strip().rsplit(" ", 2)[0], peak.split()[-2] + " MB", "target: below 150 MB")
    one, ten = read(tools, 1), read(tools, 10)
    line("ten times the probes / one time", f"{ten / one:.1f}", "target: at most 11")


if __name__ == "__main__":
    main()
