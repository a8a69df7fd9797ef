"""Kernels of `kernel gemm` for Blackwell, assembled by several ptxas for every target that may run them, and checked.

    python benchmarks/blackwell.py --ptxas 12.9/bin/ptxas --ptxas 13.0/bin/ptxas --ptxas 13.5/bin/ptxas
    python benchmarks/blackwell.py --emulate 130x270x600 --emulate 257x33x1100

nvcc, which must be on PATH, makes the PTX. A line a kernel and compiler: targets taken, registers, bytes spilled, what
`tcprobe check` finds that makes results wrong. --emulate multiplies whole numbers on the CPU instead: wrong elements,
findings, with work in flight as late and as early as can be. Needs no GPU.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tcprobe.emulate.run import Options
from tcprobe.errors import UsageError
from tcprobe.kernel.emulated import emulate_product
from tcprobe.kernel.gemm import GemmKernel, GemmOptions, gemm

TARGETS = {
    "sm_100": ("sm_100a", "sm_101a", "sm_103a", "sm_107a", "sm_110a"),
    "sm_120": ("sm_120a", "sm_121a"),
}
VERSIONS = {"12.9": "8.8", "13.0": "9.0", "13.5": "9.4"}  # of PTX, by compiler; nvcc's own for others
KNOWN = {"12.9": ("sm_107a", "sm_110a"), "13.0": ("sm_101a", "sm_107a"), "13.5": ("sm_101a",)}  # targets it lacks
NO_I8 = ("sm_103a", "sm_107a")  # PTX ISA 9.1: kind::i8 is of sm_100a and sm_110a


def kernels() -> Iterator[GemmKernel]:
    """Of every type, group and way that A and B lie."""
    for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "mxf8", "mxf4", "nvf4"):
        for group in (1, 2):
            for a, b in (("row", "col"), ("col", "row")):
                for out in ("bf16", "f32", "s32"):
                    try:
                        yield gemm(GemmOptions("sm_100", kind, a=a, b=b, out=out, cta_group=group))
                    except UsageError:
                        continue
    for kind in ("mxf8", "mxf4", "nvf4"):
        for out in ("bf16", "f16", "f32"):
            yield gemm(GemmOptions("sm_120", kind, out=out))


def assembled(made: GemmKernel, compilers: list[str], folder: Path) -> Iterator[str]:
    """A line a compiler."""
    source, arch = folder / "kernel.cu", made.gemm.arch.name
    source.write_text(made.source)
    device = arch.replace("sm", "compute")
    subprocess.run(["nvcc", "-std=c++17", "-ptx", f"-arch={device}a", source, "-o", folder / "kernel.ptx"], check=True)
    text = (folder / "kernel.ptx").read_text()
    for compiler in compilers:
        release = re.search(
            r"V(\d+\.\d+)", subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
        )[1]
        version = VERSIONS.get(release)
        said = re.sub(r"\.version \S+", f".version {version}", text) if version else text
        taken, registers, spilled, errors = [], set(), 0, 0
        for target in TARGETS[arch]:
            if target in KNOWN.get(release, ()) or (made.gemm.type == "s8" and target in NO_I8):
                continue
            (folder / "target.ptx").write_text(said.replace(f"{arch}a", target))
            cubin = folder / f"{target}.cubin"
            done = subprocess.run(
                [compiler, "-v", "-arch", target, folder / "target.ptx", "-o", cubin],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                yield f"  {release} {target}: {done.stderr.strip().splitlines()[0]}"
                continue
            taken.append(target)
            registers.add(int(re.search(r"Used (\d+) registers", done.stderr)[1]))
            spilled += int(re.search(r"(\d+) bytes spill stores", done.stderr)[1])
            checked = subprocess.run(
                [sys.executable, "-m", "tcprobe", "check", cubin, "--min", "error"],
                capture_output=True,
                text=True,
                check=False,
            )
            errors += checked.returncode != 0
        used = f"registers {min(registers)} to {max(registers)}, {spilled} bytes spilled" if taken else ""
        yield f"  {release}: {', '.join(taken)}; {used}, {errors} with errors"


def emulated(made: GemmKernel, size: tuple[int, int, int]) -> str:
    """What two schedules find of a product."""
    began, wrong, findings = time.process_time(), [], []
    for schedule in ("late", "early"):
        found = emulate_product(made, size, Options(schedule=schedule))
        wrong.append(found.wrong + found.outside)
        findings += found.report.findings
    words = "; ".join(finding.in_words for finding in findings[:3]) or "no finding"
    return f"  {'x'.join(map(str, size))}: {wrong} wrong; {words}; {time.process_time() - began:.1f} s"


def main() -> None:
    """Prints the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ptxas", action="append", default=[])
    parser.add_argument("--emulate", action="append", default=[], metavar="MxNxK")
    parser.add_argument("--only", default="", help="kernels whose type this is")
    asked = parser.parse_args()
    for made in kernels():
        if asked.only not in ("", made.gemm.type):
            continue
        options = made.gemm
        print(made.name, f"group {made.cluster}, A {options.a}, B {options.b}, into {options.out}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            for line in assembled(made, asked.ptxas, Path(folder)) if asked.ptxas else ():
                print(line, flush=True)
        for size in asked.emulate:
            print(emulated(made, tuple(map(int, size.split("x")))), flush=True)


if __name__ == "__main__":
    main()
