"""A chain D = A B + D takes 17.0 cycles alone, 16.1 beside another: python benchmarks/latency_from_c.py [--check]

The code says how many cycles pass until the next instruction of a warp: at most 15. A chain of multiplies of 16 cycles
is therefore 15 of the multiply and 1 of a NOP; two chains are 12 and 4 without a NOP. Each row is one chain with other
cycles written into the cubin, of the multiply and of the NOP: cycles from one multiply to the next. Two and four chains
stand below. If a NOP that states 1 takes 2, then 14 + 2 takes 16.0; if the multiply itself takes 17, then 17.0 as well
as sums below 16. Results are not looked at: rows below 16 may read D too early, which costs nothing. `--check`
assembles the loops by ptxas, prints what their code states, and needs no GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.instruction import Instruction
from tcprobe.probes import timing
from tcprobe.probes.cost_multiplies import ChainLoop
from tcprobe.probes.ptx import Kernel, module
from tcprobe.probes.timing import TimedBlock
from tcprobe.run import driver
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import assemble, listing
from tcprobe.sass.elf import code_by_kernel

if TYPE_CHECKING:
    from tcprobe.run.gpu import Gpu

FORMS = (
    "mma.m16n8k8.row.col.f32.f16.f16.f32",
    "mma.m16n8k4.row.col.f32.tf32.tf32.f32",
    "mma.m16n8k16.row.col.s32.s8.s8.s32",
    "mma.sp.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.m16n8k16.row.col.f32.f16.f16.f32",  # 24 cycles: 15 and 9, the same alone and beside a second chain
)
STALL_BIT, YIELD_BIT, MOST = 105, 109, 15  # of the 128 bits of an instruction: cycles until the next one, and a hint
# (cycles of the multiply, of the NOP), of forms whose code states 16
SPLITS = ((15, 1), (14, 2), (13, 3), (12, 4), (8, 8), (15, 2), (14, 1), (13, 2), (12, 3), (10, 4))


def stated(word: int) -> int:
    """The cycles that an instruction states."""
    return word >> STALL_BIT & MOST


def words_of(raw: bytes) -> list[int]:
    """The instructions of machine code."""
    return [int.from_bytes(raw[at : at + 16], "little") for at in range(0, len(raw), 16)]


def links(lines: Sequence[str]) -> list[int]:
    """Where a NOP follows a multiply between the clock's first and last reading."""
    clocks = [at for at, text in enumerate(lines) if "SR_CLOCKLO" in text]
    return [at for at in range(clocks[0], clocks[-1]) if "MMA" in lines[at] and lines[at + 1].startswith("NOP")]


def respelled(raw: bytes, lines: Sequence[str], split: tuple[int, int], hint: int | None = None) -> bytes:
    """Code whose multiplies and NOPs state other cycles; `hint` replaces the NOPs' hint to yield."""
    words = words_of(raw)
    for at in links(lines):
        for index, cycles in zip((at, at + 1), split, strict=True):
            words[index] = words[index] & ~(MOST << STALL_BIT) | cycles << STALL_BIT
        if hint is not None:
            words[at + 1] = words[at + 1] & ~(1 << YIELD_BIT) | hint << YIELD_BIT
    return b"".join(word.to_bytes(16, "little") for word in words)


def printed_lines(raw: bytes) -> list[str]:
    """The text of machine code."""
    return [text for _, text in listing(toolchain.disassembler(), arch("sm_90"), raw)]


def kernel_of(row: Instruction, chains: int) -> Kernel:
    """The loop of the survey."""
    return ChainLoop(row, chains=chains).loop().kernel()


def cycles(gpu: Gpu, kernel: Kernel) -> float:
    """From one multiply to the next, of one warp."""
    launch = timing.launch(kernel, [TimedBlock(WARP)], gpu.shared_bytes() // 2 + 1024)
    return float(timing.decode(launch, gpu.run([launch])[0])[0, timing.RUNS])


def loaded(gpu: Gpu, kernel: Kernel, cubin: bytes) -> None:
    """The kernel of a changed cubin, for the next launch."""
    found = gpu.cupy.cuda.function.Module()
    found.load(cubin)
    gpu._functions[kernel.name] = found.get_function(kernel.name)


def measure(gpu: Gpu, row: Instruction) -> None:
    """The rows of a form."""
    kernel = kernel_of(row, 1)
    cubin, _ = driver.assemble(module([kernel], arch("sm_90")).encode(), driver.BEST)
    raw = code_by_kernel(cubin)[kernel.name]
    lines, words = printed_lines(raw), words_of(raw)
    own = [(stated(words[at]), stated(words[at + 1])) for at in links(lines)]
    if not own or cubin.count(raw) != 1:
        print(f"| {row.id} | no NOP in the code | | |")
        return
    total = sum(own[0])
    splits = SPLITS if total == 16 else ((own[0]), (14, total - 14), (12, total - 12))
    for split in dict.fromkeys((own[0], *splits)):
        for hint in (None, 0, 1):
            loaded(gpu, kernel, cubin.replace(raw, respelled(raw, lines, split, hint)))
            words_for = "as compiled" if hint is None else f"hint {hint}"
            print(f"| {row.id} | {split[0]} + {split[1]} = {sum(split)} | {words_for} | {cycles(gpu, kernel):.3f} |")
    for chains in (2, 4):
        kernel = kernel_of(row, chains)
        if refused := gpu.load([kernel]):
            raise SystemExit(str(refused))
        print(f"| {row.id} | {chains} chains | as compiled | {chains * cycles(gpu, kernel):.3f} a link |")


def check() -> None:
    """What the code states: cycles of a link, alone and beside a second chain."""
    for name in FORMS:
        row = inventory.instructions()[name]
        for chains in (1, 2):
            kernel = kernel_of(row, chains)
            codes, refused = assemble(toolchain.find(), [kernel], arch("sm_90"))
            if refused:
                raise SystemExit(f"{name}: {refused}")
            lines, raw = codes[kernel.name].lines, codes[kernel.name].raw
            clocks = [at for at, text in enumerate(lines) if "SR_CLOCKLO" in text]
            multiplies = [at for at in range(clocks[0], clocks[-1]) if "MMA" in lines[at]]
            between = multiplies[8 : 8 + chains + 1]
            states = [stated(word) for word in words_of(raw)[between[0] : between[-1]]]
            print(f"| {name} | {chains} chains | {' + '.join(map(str, states))} = {sum(states)} |")
            if chains == 1 and (at := links(lines)):
                changed = words_of(respelled(raw, lines, (14, 2)))
                different = np.flatnonzero(np.array(changed, object) != np.array(words_of(raw), object))
                print(f"{len(at)} NOPs, {len(different)} instructions whose cycles are changed")


def main() -> None:
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(0)
    print("| form | multiply + NOP | | cycles |\n|---|---|---|--:|")
    for name in FORMS:
        measure(gpu, inventory.instructions()[name])


if __name__ == "__main__":
    check() if "--check" in sys.argv[1:] else main()
