"""Which versions of ptxas touch registers of a wgmma that runs: python benchmarks/check_compilers.py OUT PTXAS...

Each PTXAS assembles the legal loops of `wgmma_loops.py` (N of 8, 64, 128; 1, 2, 4 multiplies a group;
unrolled or not) for sm_90a, and the rule `wgmma-operands` reads the machine code. OUT is a JSON list with a row for
each version: how many loops it assembled, and in how many an operand is touched early, by the PTX that has them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import wgmma_loops

from tcprobe.check.rules import wgmma_operands
from tcprobe.errors import DataError, EnvironmentUnfitError
from tcprobe.sass import toolchain
from tcprobe.sass.disassemble import programs
from tcprobe.sass.elf import cubin
from tcprobe.sass.kernel import Kernel
from tcprobe.sass.toolchain import attempt, version
from tcprobe.system.children import Scratch

SIZES, EACH = (8, 64, 128), (1, 2, 4)
LIMIT = 120.0  # seconds for one loop; some versions take longer for large N


def assembled(ptxas: str, text: str) -> bytes:
    """The cubin; empty where this ptxas refuses the text, or takes too long."""
    with Scratch() as scratch:
        source, output = scratch.folder / "loop.ptx", scratch.folder / "loop.cubin"
        source.write_text(text)
        try:
            run = attempt(scratch, [ptxas, "-arch", "sm_90a", str(source), "-o", str(output)], LIMIT)
        except EnvironmentUnfitError:
            return b""
        return output.read_bytes() if run.returncode == 0 else b""


def loops() -> Iterator[tuple[str, str]]:
    """(name, PTX) of every loop."""
    for n in SIZES:
        for each in EACH:
            for unrolled in (True, False):
                yield (
                    f"n{n} x{each}{'' if unrolled else ', not unrolled'}",
                    wgmma_loops.loop(n, each, "loop", True, unrolled),
                )


def row(ptxas: str) -> dict[str, Any]:
    """What one version makes of the loops."""
    tools, early, made = toolchain.find(None), {}, 0
    for name, text in loops():
        raw = assembled(ptxas, text)
        if not raw:
            continue
        made += 1
        (kernel,) = programs(tools, "sm_90", cubin(raw).functions)
        if isinstance(kernel, DataError):
            raise kernel
        assert isinstance(kernel, Kernel)
        count = sum(1 for _ in wgmma_operands.check(kernel))
        if count:
            early[name] = count
    return {"ptxas": version(ptxas), "loops": made, "with_findings": len(early), "findings": early}


def main(out: str, *compilers: str) -> None:
    rows = []
    for ptxas in compilers:
        rows.append(row(ptxas))
        print({key: value for key, value in rows[-1].items() if key != "findings"}, flush=True)
        with tempfile.NamedTemporaryFile("w", dir=Path(out).parent, delete=False) as file:
            file.write(json.dumps(rows, indent=1) + "\n")
        Path(file.name).replace(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
