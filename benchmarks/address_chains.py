"""Chains of loads from shared memory with a step between them: python benchmarks/address_chains.py [--check]

A latency from address to data has nothing between the two; a kernel computes its next address. Each row is a chain
with another step: cycles from one load to the next, by how much that is more than without a step, and the loop's
opcodes with their number by copy. %zero and %one are values that only memory knows. Then the chain of an exclusive or,
with other numbers of cycles in the machine code itself, between the step and the load that needs it: the compiler
writes 5 and 6 in turn; with 4 the load comes before its address. `--check` assembles all loops by ptxas, counts their
opcodes and needs no GPU.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tcprobe.isa.arch import WARP, arch
from tcprobe.probes import dialogues, timing
from tcprobe.probes.cost_moves import BASE, COPIES, TimedMove
from tcprobe.probes.experiment import TimedCode
from tcprobe.probes.ptx import Kernel, module
from tcprobe.probes.timing import TimedBlock, TimedLoop, working_opcodes
from tcprobe.run import driver
from tcprobe.sass.cubin import assemble, listing
from tcprobe.sass.elf import code_by_kernel
from tcprobe.sass.toolchain import disassembler

if TYPE_CHECKING:
    from tcprobe.run.gpu import Gpu

MOVES = (*(f"ldmatrix.m8n8.x{n}.shared.b16" for n in (1, 2, 4)), "ld.shared.b32")
STEPS = {
    "none": (),
    "one addition": ("add.u32 {v}, {v}, %zero;",),
    "two additions": ("add.u32 {v}, {v}, %zero;", "add.u32 {v}, {v}, %zero;"),
    "exclusive or": ("xor.b32 {v}, {v}, %zero;",),
    "shift": ("shl.b32 {v}, {v}, %zero;",),
    "multiply-add": ("mad.lo.u32 {v}, {v}, %one, %zero;",),
    "select": ("selp.b32 {v}, {v}, %one, %known;",),
}
STALLS, STALL_BIT = (5, 6, 7, 8), 105  # cycles until the next instruction, of the 128 bits of one; 4 are too few
GENERIC = "64-bit generic address"


def chain(move: TimedMove, step: str, lines: Sequence[str], last: bool = True) -> TimedLoop:
    """Each address is what the one before it loaded into its last register, or its first one, after a step."""
    names = [f"%v{j}" for j in range(move.registers)]
    used = names[-1 if last else 0]
    body = [
        line for _ in range(COPIES) for line in (move.ptx_text(names, used), *(s.replace("{v}", used) for s in lines))
    ]
    return _prepared(move._loop(_variant(step, last), body, names, names))


def generic(move: TimedMove) -> TimedLoop:
    """The same through a generic address of 64 bits, as C++ has it: a pointer and an offset that was loaded."""
    names = [f"%v{j}" for j in range(move.registers)]
    load = move.ptx_text(names, "%generic").replace(".shared", "").replace(f"+{BASE}", "")
    step = [f"cvt.u64.u32 %generic, {names[-1]};", "add.u64 %generic, %generic, %pointer;"]
    loop = _prepared(move._loop(_variant(GENERIC, True), [load, *step] * COPIES, names, names))
    registers = [*loop.registers, ".reg .u64 %generic, %pointer;"]
    start = ["add.u32 %one, %memory, 4096;", "cvt.u64.u32 %pointer, %one;", "cvta.shared.u64 %pointer, %pointer;"]
    return replace(loop, registers=registers, before=[*loop.before, *start, "mov.u64 %generic, %pointer;"])


def _variant(step: str, last: bool) -> str:
    return ("chain_" if last else "first_") + "".join(c if c.isalnum() else "_" for c in step)


def _prepared(loop: TimedLoop) -> TimedLoop:
    """A one and a true that only memory knows."""
    before = [*loop.before, "add.u32 %one, %zero, 1;", "setp.eq.u32 %known, %zero, 0;"]
    return replace(loop, registers=[*loop.registers, ".reg .u32 %one;", ".reg .pred %known;"], before=before)


def loops(move: TimedMove) -> list[tuple[str, TimedLoop]]:
    """All chains of a load, by the step in words."""
    found = [(step, chain(move, step, lines)) for step, lines in STEPS.items()]
    if move.registers > 1:
        found.append(("none, through the first register", chain(move, "none", (), last=False)))
    return [*found, (GENERIC, generic(move))]


def opcodes(code: TimedCode) -> str:
    """Of a copy, those that stand in every one; the loop's own counter is left out."""
    counts = Counter(code.loop)
    return ", ".join(f"{opcode} x {n / COPIES:g}" for opcode, n in counts.items() if n >= COPIES // 2)


def stalled(raw: bytes, lines: Sequence[str], stall: int) -> bytes:
    """Code whose steps, all LOP3 between the clock's readings that wait for a load, state so many cycles."""
    clocks = [at for at, text in enumerate(lines) if "SR_CLOCKLO" in text]
    words = [int.from_bytes(raw[at : at + 16], "little") for at in range(0, len(raw), 16)]
    for at in range(clocks[0], clocks[-1]):
        if lines[at].startswith("LOP3") and lines[at + 1].startswith(("LDSM", "LDS")):
            words[at] = words[at] & ~(15 << STALL_BIT) | stall << STALL_BIT
    return b"".join(word.to_bytes(16, "little") for word in words)


def printed_lines(raw: bytes) -> list[str]:
    """The text of machine code."""
    return [text for _, text in listing(disassembler(), arch("sm_90"), raw)]


def by_stall(gpu: Gpu, move: TimedMove) -> list[float]:
    """Cycles of the chain of an exclusive or, for each of STALLS."""
    kernel, found = chain(move, "exclusive or", STEPS["exclusive or"]).kernel(), []
    cubin, _ = driver.assemble(module([kernel], arch("sm_90")).encode(), driver.BEST)
    raw = code_by_kernel(cubin)[kernel.name]
    for stall in STALLS:
        changed = stalled(raw, printed_lines(raw), stall)
        if cubin.count(raw) != 1 or changed == raw:
            raise SystemExit(f"{kernel.name}: no step in its code")
        loaded = gpu.cupy.cuda.function.Module()
        loaded.load(cubin.replace(raw, changed))
        gpu._functions[kernel.name] = loaded.get_function(kernel.name)
        found.append(timed_cycles(gpu, move, kernel))
    return found


def timed_cycles(gpu: Gpu, move: TimedMove, kernel: Kernel) -> float:
    """From one load to the next."""
    launch = timing.launch(kernel, [TimedBlock(WARP, 0, (move.stride,))], gpu.shared_bytes() // 2 + 1024)
    return float(timing.decode(launch, gpu.run([launch])[0])[0, timing.RUNS])


def check() -> None:
    """Every loop holds as many loads as were written."""
    from tcprobe.sass import toolchain
    from tcprobe.sass.cubin import timed_code

    for name in MOVES:
        move = dialogues("cost")[name]
        for step, loop in loops(move):
            codes, refused = assemble(toolchain.find(), [loop.kernel()], arch("sm_90"))
            if refused:
                raise SystemExit(f"{name}, {step}: {refused}")
            code = timed_code([(16 * at, text) for at, text in enumerate(codes[loop.name].lines)])
            counts = working_opcodes(Counter(code.loop))
            loads = sum(n for opcode, n in counts.items() if opcode.split(".")[0] in (move.opcode, "LD"))
            if loads != COPIES:
                raise SystemExit(f"{name}, {step}: {loads} loads in place of {COPIES}")
            print(f"| {name} | {step} | {opcodes(code)} |")
            if step == "exclusive or":
                raw, texts = codes[loop.name].raw, codes[loop.name].lines
                changed = [i for i in range(0, len(raw), 16) if stalled(raw, texts, 9)[i : i + 16] != raw[i : i + 16]]
                print(f"{len(changed)} steps whose cycles are changed")


def main() -> None:
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(0)
    print("| load | step | cycles | more | opcodes of a copy |\n|---|---|--:|--:|---|")
    for name in MOVES:
        move, least = dialogues("cost")[name], None
        for step, loop in loops(move):
            kernel = loop.kernel()
            if refused := gpu.load([kernel]):
                raise SystemExit(f"{name}, {step}: {refused}")
            cycles = timed_cycles(gpu, move, kernel)
            least = cycles if least is None else least
            print(f"| {name} | {step} | {cycles:.2f} | {cycles - least:.2f} | {opcodes(gpu.timed_code(kernel))} |")
    print(f"\n| exclusive or, cycles stated by the code | {' | '.join(map(str, STALLS))} |\n|---|--:|--:|--:|--:|")
    for name in MOVES:
        cycles_by_stall = by_stall(gpu, dialogues("cost")[name])
        print(f"| {name} | {' | '.join(f'{cycles:.2f}' for cycles in cycles_by_stall)} |")


if __name__ == "__main__":
    check() if "--check" in sys.argv[1:] else main()
