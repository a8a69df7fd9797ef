"""The main loops of a kernel, and the path of one round through each.

A main loop is an innermost loop that multiplies on tensor cores; of a kernel that has none, its longest innermost
loop. A round goes from the loop's first instruction to the branch that leads back there. On the way branches are
followed as the code decides them: an inner loop as often as it counts, a guard of `threadIdx` for each warp. What the
code leaves open is assumed, and said: a wait succeeds at once, other branches are not taken unless the caller says so,
guards are true.

    >>> for loop in main_loops(kernel):                     # doctest: +SKIP
    ...     print(hex(loop.first), hex(loop.last), len(loop.path()), loop.assumed)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tcprobe.errors import DataError
from tcprobe.graph import reached
from tcprobe.isa.opcodes import of_kind
from tcprobe.sass.addresses import Walk, walked
from tcprobe.sass.kernel import BYTES, Block, Control, Instruction, Kernel, not_followed, target
from tcprobe.sass.lanes import Lanes
from tcprobe.sass.registers import guard_mask
from tcprobe.sass.state import State

LONGEST = 20_000  # instructions of a round; more are not followed
_AWAY = of_kind("call", "indirect branch", "return")


class LoopError(DataError):
    """Why a loop is not followed."""


class Step(NamedTuple):
    """An instruction of a round and its scheduling bits."""

    instruction: Instruction
    control: Control


@dataclass(eq=False)
class Loop:
    """A loop of a kernel, by its blocks.

    `taken`: addresses of branches that the path takes where the code leaves it open; `assumed`: by address of a branch,
    what the path does there for want of that.
    """

    kernel: Kernel
    blocks: frozenset[int]
    taken: frozenset[int] = frozenset()
    assumed: dict[int, str] = field(default_factory=dict)
    _paths: dict[int, tuple[Step, ...]] = field(default_factory=dict)

    @cached_property
    def head(self) -> int:
        """The block that a round begins with: the one that is entered from outside."""
        before = self.kernel.before
        entered = [n for n in sorted(self.blocks) if n == 0 or not self.blocks.issuperset(before[n])]
        return next((n for n in entered if self.blocks.intersection(before[n])), min(self.blocks))

    @property
    def first(self) -> int:
        """The address of its first instruction."""
        return BYTES * self.kernel.blocks[self.head].first

    @cached_property
    def last(self) -> int:
        """The address of the branch that leads back to the first: of several, the one that the path ends with."""
        return self.path()[-1].instruction.address

    @cached_property
    def multiplies(self) -> int:
        """How many multiplies on tensor cores stand in it."""
        return sum(is_multiply(instruction) for instruction in self.instructions)

    @property
    def instructions(self) -> Iterator[Instruction]:
        """All that stand in it, in order of addresses; a round may leave some out, or repeat them."""
        for number in sorted(self.blocks):
            block = self.kernel.blocks[number]
            yield from self.kernel.instructions[block.first : block.end]

    def path(self, warp: int = 0) -> tuple[Step, ...]:
        """The instructions of one round of a warp; LoopError with the reason where that is not followed."""
        warp = min(warp, _warps(self.kernel) - 1) if self.differs else 0
        if warp not in self._paths:
            self._paths[warp] = tuple(_Follower(self, warp).steps())
        return self._paths[warp]

    @cached_property
    def differs(self) -> bool:
        """Whether the code sends warps different ways."""
        follower = _Follower(self, 0)
        list(follower.steps())
        return follower.differs


def is_multiply(instruction: Instruction) -> bool:
    """Whether it multiplies on tensor cores."""
    return instruction.mnemonic.endswith("MMA") and instruction.guard != "never"


def _warps(kernel: Kernel) -> int:
    """How many warps are looked at."""
    return len(walked(kernel).interpreter.threads.there)


def encoding(kernel: Kernel, number: int) -> int:
    """The 128 bits of an instruction."""
    return int.from_bytes(kernel.code.code[BYTES * number :][:BYTES], "little")


def main_loops(kernel: Kernel, taken: Sequence[int] = ()) -> tuple[Loop, ...]:
    """The main loops in order of addresses; none of a kernel without loops."""
    branches = frozenset(taken)
    found = [Loop(kernel, blocks, branches) for blocks in kernel.loops]
    multiplying = [loop for loop in found if loop.multiplies]
    wanted = [a for a in multiplying if not any(b.blocks < a.blocks for b in multiplying)]
    if not wanted and found:
        inner = [a for a in found if not any(b.blocks < a.blocks for b in found)]
        wanted = [max(inner, key=lambda loop: sum(1 for _ in loop.instructions))]
    return tuple(sorted(wanted, key=lambda loop: loop.first))


def main_loop(kernel: Kernel) -> Loop | None:
    """The main loop that multiplies most; of those that do alike, the one with the fewest other instructions."""
    found = main_loops(kernel)
    return min(found, key=lambda loop: (-loop.multiplies, sum(1 for _ in loop.instructions)), default=None)


def loop_at(kernel: Kernel, address: int, taken: Sequence[int] = ()) -> Loop:
    """The innermost loop around an address, DataError where there is none."""
    block = kernel.block_of.get(address // BYTES)
    for blocks in kernel.loops:
        if block in blocks:
            return Loop(kernel, blocks, frozenset(taken))
    raise LoopError(f"no loop is around {address:#x}")


class _Follower:
    """Goes through a loop once, with what registers hold in every round."""

    def __init__(self, loop: Loop, warp: int) -> None:
        self.loop, self.kernel, self.warp = loop, loop.kernel, warp
        self.walk: Walk = walked(loop.kernel)
        self.differs = False

    def steps(self) -> Iterator[Step]:
        """The steps of a round."""
        kernel, number, count = self.kernel, self.loop.head, 0
        if problems := [words for address, words in not_followed(kernel) if self._inside(address)]:
            raise LoopError(problems[0])
        if number not in self.walk.entries:
            raise LoopError("the loop is not reached")
        state = self.walk.entries[number]
        while True:
            block = kernel.blocks[number]
            for index in range(block.first, block.end):
                instruction = kernel.instructions[index]
                if self._leads_away(instruction):
                    raise LoopError(f"{instruction} at {instruction.address:#x}")
                yield Step(instruction, kernel.control(index))
            count += block.end - block.first
            if count > LONGEST:
                raise LoopError(f"a round of more than {LONGEST} instructions")
            state = self.walk.run(number, state)
            number = self._next(number, block, self._condition(block, state))
            if number == self.loop.head:
                return

    def _leads_away(self, instruction: Instruction) -> bool:
        """Whether it is a jump that is not followed: to an address in registers, or a call that comes back."""
        if instruction.mnemonic not in _AWAY or instruction.guard == "never":
            return False
        to = target(instruction)
        leaves = to is not None and self.kernel.block_of.get(to) not in self.loop.blocks
        return not (instruction.mnemonic == "CALL" and instruction.guard and leaves)

    def _inside(self, address: int) -> bool:
        return self.kernel.block_of.get(address // BYTES) in self.loop.blocks

    def _condition(self, block: Block, state: State) -> Lanes | None:
        branch = self.kernel.instructions[block.end - 1]
        if branch.mnemonic != "BRA" or len(block.after) < 2:
            return None
        return self.walk.interpreter.taken(branch, state.registers)

    def _next(self, number: int, block: Block, condition: Lanes | None) -> int:
        """The block that follows in a round."""
        inside = [after for after in block.after if after in self.loop.blocks]
        if not inside:
            raise LoopError(f"the path leaves the loop at {BYTES * (block.end - 1):#x}")
        if len(inside) == 1:
            return inside[0]
        branch = self.kernel.instructions[block.end - 1]
        through, to = block.after
        decided = self._decided(condition)
        if decided is not None and not branch.opcode.startswith("BRA.DIV"):
            return to if decided else through
        return self._open(number, branch, through, to)

    def _decided(self, condition: Lanes | None) -> bool | None:
        """Whether a warp takes a branch, None where the code leaves it open; one on which lanes part is not taken."""
        if condition is None or not condition.exact:
            return None
        there = self.walk.interpreter.threads.there
        where = np.broadcast_to(condition.known != 0, there.shape) | ~there
        taken = np.asarray(where.all(axis=1))
        self.differs = self.differs or bool((taken != taken[0]).any())
        return bool(taken[self.warp])

    def _open(self, number: int, branch: Instruction, through: int, to: int) -> int:
        """What follows a branch that the code leaves open."""
        address = branch.address
        if address in self.loop.taken:
            return to
        if branch.opcode.startswith("BRA.DIV") or "ANY" in branch.opcode:
            return through
        if self._asks_wait(number, branch):
            return through if branch.guard.startswith("!") else to
        for again, past in ((through, to), (to, through)):
            if self._is_wait(again):
                return past
        if to == self.loop.head:
            return to
        if self._leads_back(to, number) and to < number:
            raise LoopError(
                f"an inner loop at {BYTES * self.kernel.blocks[to].first:#x} runs as often as data say (branch at "
                f"{address:#x})"
            )
        self.loop.assumed[address] = f"the branch at {address:#x} is not taken"
        return through

    def _asks_wait(self, number: int, branch: Instruction) -> bool:
        """Whether a branch is decided by a wait of its own block, which succeeds."""
        guard = guard_mask(branch.guard)
        for index in range(branch.number - 1, self.kernel.blocks[number].first - 1, -1):
            instruction = self.kernel.instructions[index]
            if instruction.writes & guard:
                return instruction.opcode.startswith("SYNCS") and instruction.form.has("TRYWAIT")
        return False

    def _is_wait(self, number: int) -> bool:
        """Whether a block ends with a wait that is tried again."""
        block = self.kernel.blocks[number]
        last = self.kernel.instructions[max(block.first, block.end - 12) : block.end]
        return any(i.opcode.startswith("SYNCS") and i.form.has("TRYWAIT") for i in last)

    def _leads_back(self, start: int, number: int) -> bool:
        """Whether a way from a block comes to another without passing the loop's first."""
        inside = {block: self.kernel.blocks[block].after for block in self.loop.blocks}
        outside = {after for ways in inside.values() for after in ways if after not in inside}
        return number in reached(inside, [start], (outside | {self.loop.head}) - {number})
