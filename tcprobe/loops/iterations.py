"""How many rounds of a loop one thread does in a launch: its code is run with the values that the launch passes.

Integers are followed as for addresses (`sass.meaning`): since all that a launch passes is known, mostly exactly, and
with the reciprocals by which compilers divide. What memory holds is not known; a branch that depends on it is
refused, but for waits, which succeed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from tcprobe.graph import reached
from tcprobe.isa.opcodes import of_kind
from tcprobe.layout.arrays import Array, Words
from tcprobe.loops.loop import Loop, LoopError
from tcprobe.sass.addresses import Walk
from tcprobe.sass.decode import Form, Operand
from tcprobe.sass.interpreter import Interpreter
from tcprobe.sass.kernel import BYTES, Kernel
from tcprobe.sass.lanes import Lanes, constant
from tcprobe.sass.reader import sizes_at
from tcprobe.sass.state import Registers, State

MOST_BLOCKS = 400_000  # basic blocks of a thread's way through the kernel
_BLOCK = re.compile(r"SR_CTAID\.[XYZ]")
_LAUNCHES = count(1)
_SUCCEEDS = of_kind("mbarrier", "grant", "elect")


class Iterations(NamedTuple):
    """How often a thread begins a round, and how often it comes into the loop from outside."""

    begun: int
    entered: int


def rounds(loop: Loop, block: tuple[int, int, int], grid: tuple[int, int, int], parameters: bytes) -> Iterations:
    """Of the first thread of a warp that comes to the loop; LoopError with the reason where that is not known."""
    stated = loop.kernel.code.parameters
    if stated is None or stated.base is None:
        raise LoopError("the file does not say where parameters are")
    kernel = replace(loop.kernel, code=replace(loop.kernel.code, threads=block))
    sizes = sizes_at(kernel.arch)
    words = {sizes + 4 * j: size for j, size in enumerate((*block, *grid))}
    padded = parameters + bytes(-len(parameters) % 4)
    words |= {stated.base + j: int.from_bytes(padded[j : j + 4], "little") for j in range(0, len(padded), 4)}
    walk = Walk(kernel, _Interpreter(kernel, words))
    for warp in range(len(walk.interpreter.threads.there)):
        found = _followed(walk, loop, warp)
        if found.begun:
            return found
    raise LoopError("no warp of the launch comes to the loop")


def _followed(walk: Walk, loop: Loop, warp: int) -> Iterations:
    """The way of the first thread of a warp through the kernel."""
    state, number, before = State({}, walk.interpreter.threads.there), 0, -1
    begun = entered = 0
    before_loop = reached(walk.kernel.before, [loop.head])
    for _ in range(MOST_BLOCKS):
        if number not in before_loop:
            return Iterations(begun, entered)
        if number == loop.head:
            begun, entered = begun + 1, entered + (before not in loop.blocks)
        state = walk.run(number, state)
        after = walk.kernel.blocks[number].after
        if not after or not state.active[warp, 0]:
            return Iterations(begun, entered)
        before, number = number, after[0] if len(after) == 1 else _next(walk, number, state, warp)
    raise LoopError(f"a thread that comes through more than {MOST_BLOCKS} blocks")


def _next(walk: Walk, number: int, state: State, warp: int) -> int:
    """The block that a thread comes to behind a branch."""
    block = walk.kernel.blocks[number]
    branch = walk.kernel.instructions[block.end - 1]
    if branch.mnemonic != "BRA" or len(block.after) != 2:
        raise LoopError(f"{branch} at {branch.address:#x} is not followed")
    through, to = block.after
    if branch.opcode.startswith("BRA.DIV"):
        return through
    taken = walk.interpreter.taken(branch, state.registers)
    if taken.exact:
        return to if taken.known[warp % len(taken.known), 0] else through
    if "ANY" in branch.opcode:
        return through
    if any(i.mnemonic in _SUCCEEDS for i in walk.kernel.instructions[block.first : block.end]):
        return to if through == number else through
    raise LoopError(f"the branch at {BYTES * (block.end - 1):#x} depends on {taken.why or 'what is not followed'}")


class _Interpreter(Interpreter):
    """Of the first block of a launch: constants are known, and the indices of blocks are 0."""

    def __init__(self, kernel: Kernel, words: Mapping[int, int]) -> None:
        super().__init__(kernel)
        self._words, self.place = words, -next(_LAUNCHES)  # results are kept by place: constants are those of a launch

    def in_constant_bank(self, operand: Operand, registers: Registers) -> Lanes:
        word = None if operand.parameter is None else self._words.get(operand.parameter)
        if word is None or operand.sign == "~":
            return super().in_constant_bank(operand, registers)
        return constant(-word if operand.sign else word)

    def special(self, name: str, form: Form) -> Lanes | None:
        """As Reader's; the indices of the block are 0."""
        return constant(0) if _BLOCK.fullmatch(name) else super().special(name, form)

    def reciprocal(self, value: Lanes) -> Lanes | None:
        """The nearest f32: MUFU.RCP's last bit may be another one, which a division corrects. None of a subnormal."""

        def inverse(words: Words) -> Array | None:
            numbers = words.view(np.float32)
            with np.errstate(divide="ignore", over="ignore"):
                both = np.stack([numbers, np.float32(1) / numbers])
            subnormal = (both != 0) & (abs(both) < np.finfo(np.float32).tiny)
            return None if subnormal.any() else both[1].view(np.uint32)

        return self.exactly(inverse, value)
