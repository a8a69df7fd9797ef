"""A kernel's loops taken apart, round by round, so that what registers hold is known as numbers.

At a fixed point a ring's stage is any of its stages. Here the first rounds of a loop are code of their own, one after
the other, and a stage that begins at a constant and moves by one is a constant in each: ROUNDS of a loop that has
nothing to look at in a smaller one inside, ROUNDS_OUTSIDE of one around it; loops with nothing to look at are gone
through once, and lose what they write. Ways that only a number tells apart which is not known are all followed; a loop
that such a number ends is left behind its first and second round, by ways that do not meet again before the next round
around them. So what is found happens on some way, but not every way is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple, TypeVar

import numpy as np

from tcprobe.graph import reached
from tcprobe.layout.arrays import Bools
from tcprobe.sass import lanes
from tcprobe.sass.decode import union
from tcprobe.sass.dependence import dependence
from tcprobe.sass.flow import Counts, backward
from tcprobe.sass.frame import reads, writes, written_in
from tcprobe.sass.interpreter import Interpreter
from tcprobe.sass.kernel import Block, Instruction, Kernel
from tcprobe.sass.reader import Reader
from tcprobe.sass.registers import PREDICATE, bit_set, run
from tcprobe.sass.state import NEVER, NEVER_BIT, Register, State, same, same_state, unset
from tcprobe.sass.transfer import Step, Transfer

ITERATIONS, ITERATIONS_OUTSIDE = 4, 2
LEFT_AFTER = 2  # rounds behind which a loop is left whose end is not known
MARKS = 2  # loops that are left of which the round is kept
MOST_BLOCKS = 4000  # copies of blocks; of a kernel that has more nothing is said

Path = tuple[tuple[int, int], ...]  # (first block of a loop, its round), of loops around a place, and of those left
Place = tuple[int, Path]
T = TypeVar("T")


class TooManyError(Exception):
    """There are more copies of blocks than are looked at."""


class Loop(NamedTuple):
    """A loop: its first block, all of them, how many rounds are followed, and the registers that it writes."""

    head: int
    blocks: frozenset[int]
    followed: int
    written: int


@dataclass(frozen=True, eq=False)
class Iterations:
    """Copies of a kernel's blocks, a graph as `flow` takes it: the instructions that were asked for, with what holds
    before them, and those that count beside them.

    `first[n]`: the number of instruction n in the kernel itself. `states`: by number here, of the registers that the
    instruction reads.
    """

    name: str
    instructions: list[Instruction]
    blocks: tuple[Block, ...]
    first: list[int]
    states: dict[int, State]


class Known(NamedTuple):
    """Units of memory, or barriers, of an instruction over all rounds; `whole`: whether they follow in each of them."""

    units: frozenset[int]
    whole: bool


def over_rounds(
    found: Iterations, numbers: Iterable[int], what: Callable[[Instruction, State], frozenset[int] | None]
) -> dict[int, Known]:
    """By number in the kernel, what its instructions touch; `what` says it of one at a state, None if unknown."""
    wanted, known = frozenset(numbers), dict[int, Known]()
    for number, state in found.states.items():
        first = found.first[number]
        if first in wanted:
            units, whole = known.get(first, Known(frozenset(), True))
            more = what(found.instructions[number], state)
            known[first] = Known(units | (more or frozenset()), whole and more is not None)
    return known


def rounds(
    kernel: Kernel, wanted: frozenset[int], count: int = ITERATIONS, counts: Counts = lambda _: False
) -> tuple[Iterations, Reader]:
    """`count` rounds of a kernel's loops up to the last of the instructions `wanted`, by number; TooManyError.

    `counts`: which others are in the graph.
    """
    walk = _Walk(kernel, wanted, count)
    walk.settle()
    return walk.taken_apart(counts), walk.interpreter


class _Walk:
    def __init__(self, kernel: Kernel, wanted: frozenset[int], count: int) -> None:
        self.kernel, self.wanted, self.count = kernel, wanted, count
        self.interpreter = Interpreter(kernel)
        self.kept = reached(kernel.before, {kernel.block_of[number] for number in wanted})
        self.live = backward(kernel, 0, self._needed_before, int.__or__)
        self.transfers = {number: Transfer(self.interpreter, list(self._steps(number)), wanted) for number in self.kept}
        self.entries: dict[Place, dict[Place, State]] = {(0, self._entered(0, ())): {}}
        self.after: dict[Place, list[Place]] = {}
        self.noted: dict[Place, list[tuple[int, State]]] = {}  # what holds before the instructions that are asked for
        self.left: set[tuple[int, Path]] = set()  # (loop, path around it) of loops that are left
        self.ended: dict[tuple[int, Path], tuple[Place, State]] = {}  # of loops whose last round is followed

    def _roots(self, instruction: Instruction) -> int:
        """The registers whose values are asked for."""
        form = instruction.form
        if instruction.number in self.wanted:
            mask = union(operand for operand in form.operands if operand.kind in ("address", "descriptor"))
            if form.mnemonic in ("UBLKCP", "UBLKRED") or form.opcode.startswith("SYNCS.ARRIVE"):
                mask |= form.operands[-1].mask  # how much
            if form.mnemonic in ("UBLKCP", "UTMALDG"):
                mask |= run("UR", form.operands[0].first, 2)  # the barrier beside the place
            if form.mnemonic == "BAR":
                mask |= form.operands[0].mask  # the number of a named barrier
            return form.reads >> PREDICATE << PREDICATE | mask
        return form.reads if form.mnemonic in ("BRA", "EXIT") else 0

    def _needed_before(self, live: int, instruction: Instruction) -> int:
        form, written = instruction.form, writes(instruction.form)
        if written & live:
            live = (live if form.guard else live & ~written) | reads(form)
        return live | self._roots(instruction)

    def _steps(self, number: int) -> Iterator[Step]:
        """The instructions of a block on which something depends that is asked for."""
        live, block, found = self.live.get(number, 0), self.kernel.blocks[number], list[Step]()
        for index in reversed(range(block.first, block.end)):
            instruction = self.kernel.instructions[index]
            needed = writes(instruction.form) & live
            if needed or index in self.wanted or instruction.mnemonic == "EXIT":
                found.append(Step(instruction, dependence(instruction.form) if needed else None, not needed))
            live = self._needed_before(live, instruction)
        yield from reversed(found)

    @cached_property
    def loops(self) -> dict[int, Loop]:
        """By first block, from the outermost on. Loops by which a warp's lanes converge are none.

        A loop that waits for a barrier has nothing else to look at.
        """
        waits = {n for n in self.wanted if self.kernel.instructions[n].opcode.startswith("SYNCS.PHASECHK")}
        looked = {self.kernel.block_of[number] for number in self.wanted - waits}
        found = [loop for loop in self.kernel.loops if not self._converges(loop)]
        relevant = [loop for loop in found if loop & looked]
        made = dict[int, Loop]()
        for loop in reversed(found):
            heads = [n for n in sorted(loop) if not n or any(other not in loop for other in self.kernel.before[n])]
            inside = any(other < loop for other in relevant)
            count = 1 if loop not in relevant else ITERATIONS_OUTSIDE if inside else self.count
            made[heads[0] if heads else min(loop)] = Loop(
                heads[0] if heads else min(loop), loop, count, written_in(self.kernel, loop)
            )
        return made

    @cached_property
    def around(self) -> list[dict[int, Loop]]:
        """By block, the loops around it by first block, from the outermost on."""
        blocks = range(len(self.kernel.blocks))
        return [{head: loop for head, loop in self.loops.items() if number in loop.blocks} for number in blocks]

    def _converges(self, loop: frozenset[int]) -> bool:
        """Whether a loop goes round for lanes of a warp that differ: BRA.U.ANY to its own block."""
        (number, *others) = loop
        end = self.kernel.instructions[self.kernel.blocks[number].end - 1]
        return not others and "ANY" in end.opcode.split(".")

    def _entered(self, number: int, path: Path) -> Path:
        """The path of a block, with the loops that begin there."""
        there = {head for head, _ in path}
        return path + tuple([(head, 0) for head in self.around[number] if head not in there])

    def settle(self) -> None:
        """Run copies until nothing changes."""
        pending = [(path, number) for number, path in self.entries]  # a heap: in order of rounds, then of addresses
        while pending or (pending := sorted((path, number) for number, path in self._left_at_last())):
            path, number = heappop(pending)
            place = number, path
            if len(self.entries) > MOST_BLOCKS:
                raise TooManyError
            followed = self.after[place] = []
            for to, state in self._leave(place, self._run(place, self.entry(place))):
                followed.append(to)
                known = self.entries.setdefault(to, {})
                if place not in known or not same_state(known[place], state):
                    known[place] = state
                    if (to[1], to[0]) not in pending:
                        heappush(pending, (to[1], to[0]))

    def _left_at_last(self) -> set[Place]:
        """Leave the loops that are known to go round more often than is followed, and have not been left."""
        found = set[Place]()
        for (head, around), (place, state) in list(self.ended.items()):
            if (head, around) in self.left:
                continue
            self.left.add((head, around))
            loop = self.loops[head]
            for number in sorted(loop.blocks):
                for after in self.kernel.blocks[number].after:
                    if after not in loop.blocks and after in self.kept:
                        to = after, self._entered(after, (*around, (head, loop.followed)))
                        self.after[place].append(to)
                        self.entries.setdefault(to, {})[place] = state.changed(bit_set(loop.written), _gone)
                        found.add(to)
        return found

    def entry(self, place: Place) -> State:
        """What holds where a copy of a block begins."""
        states = list(self.entries[place].values())
        if not place[0]:
            states.insert(0, State({}, self.interpreter.threads.there))
        joined = states[0]
        for state in states[1:]:
            joined = _met(joined, state)
        return joined

    def _run(self, place: Place, entry: State) -> State:
        """What holds at the end of a copy of a block; what is asked for on the way is noted, the last time counts."""
        noted = self.noted[place] = []
        return self.transfers[place[0]].effect(entry.registers).behind(entry, noted)

    def _leave(self, place: Place, state: State) -> Iterator[tuple[Place, State]]:
        """The copies that follow, and what holds on the way there."""
        number = place[0]
        branch = self.kernel.instructions[self.kernel.blocks[number].end - 1]
        ways = [(after, state, False) for after in self.kernel.blocks[number].after]
        if len(ways) == 2 and branch.mnemonic == "BRA":
            ways = ways[:1] if branch.opcode.startswith("BRA.DIV") else list(self._ways(number, branch, state))
        registers = state.only(bit_set(self.live.get(number, 0))).registers
        for after, leaving, certain in ways:
            if after in self.kept:
                to = self._moved(place, after, leaving, certain)
                if to is not None:
                    yield (after, to), self._without(number, after, leaving._replace(registers=registers))

    def _ways(self, number: int, branch: Instruction, state: State) -> Iterator[tuple[int, State, bool]]:
        """(block, what holds there, whether it is certain) of a conditional branch."""
        taken = self.interpreter.taken(branch, state.registers)
        ways = self.kernel.blocks[number].after
        if taken.exact and "ANY" not in branch.opcode:
            yield from ((after, leaving, True) for after, leaving in state.sides(taken, ways))
        else:
            state = state if taken.uniform else state._replace(sure=False)
            yield from ((after, state, False) for after in ways)

    def _moved(self, place: Place, after: int, state: State, certain: bool) -> Path | None:
        """The path of a block that follows, None where it is not followed."""
        number, path = place
        ours, theirs = self.around[number], self.around[after]
        found: list[tuple[int, int]] = []
        for depth, (head, count) in enumerate(path):
            if head in ours:
                followed = ours[head].followed
                if after == head:
                    if count + 1 >= followed:
                        self.ended[head, path[:depth]] = place, state
                        return None
                    return self._entered(after, (*found, (head, count + 1)))
                if head not in theirs:
                    if count >= LEFT_AFTER and not certain:
                        return None
                    self.left.add((head, path[:depth]))
                    if followed == 1:
                        continue
            found.append((head, count))
        marks = [each for each in found if each[0] not in theirs]
        if len(marks) > MARKS:
            found = [each for each in found if each[0] in theirs or each in marks[-MARKS:]]
        if after in theirs and after not in ours:
            found = [each for each in found if each[0] != after]
        return self._entered(after, tuple(found))

    def _without(self, number: int, after: int, state: State) -> State:
        """On a way out of a loop that is gone through once, what it writes is lost."""
        for head, loop in self.around[number].items():
            if loop.followed == 1 and head not in self.around[after]:
                state = state.changed(bit_set(loop.written), _gone)
        return state

    def taken_apart(self, counts: Counts) -> Iterations:
        """The graph of all copies."""
        kept = {
            number: [i for i in self._block(number) if i.number in self.wanted or counts(i.form)]
            for number in self.kept
        }
        order = sorted(self.entries, key=lambda each: (each[0] != 0, each[1], each[0]))
        number_of = {place: n for n, place in enumerate(order)}
        instructions: list[Instruction] = []
        first: list[int] = []
        blocks, states = [], dict[int, State]()
        for place in order:
            begin, noted = len(first), dict(self.noted[place])
            for number, form, mnemonic in kept[place[0]]:
                if number in noted:
                    states[len(first)] = noted[number]
                instructions.append(Instruction(len(first), form, mnemonic))
                first.append(number)
            after = tuple(dict.fromkeys(number_of[to] for to in self.after.get(place, ())))
            blocks.append(Block(begin, len(first), after))
        return Iterations(self.kernel.name, instructions, tuple(blocks), first, states)

    def _block(self, number: int) -> Sequence[Instruction]:
        block = self.kernel.blocks[number]
        return self.kernel.instructions[block.first : block.end]


def _gone(bit: int, _: Register) -> Register:
    return Register(
        lanes.shared(lanes.unknown("what a loop writes", 1 if unset(bit).value is NEVER_BIT else lanes.ALL))
    )


def _met(one: State, other: State) -> State:
    """What holds where two ways meet: of a register that differs, what both agree on."""
    if one.registers is other.registers:
        return State(one.registers, np.asarray(one.active | other.active), one.sure and other.sure)
    apart = one.sure and other.sure and not (one.active & other.active).any()
    registers = dict(one.registers)
    for bit in registers.keys() | other.registers.keys():
        a, b = one.registers.get(bit), other.registers.get(bit)
        if a is not b:
            registers[bit] = _of_both(a or unset(bit), b or unset(bit), one.active if apart else None)
    return State(registers, np.asarray(one.active | other.active), one.sure and other.sure)


def _of_both(a: Register, b: Register, where: Bools | None) -> Register:
    """What one register holds: chosen by lane where it is known which lanes come by which way."""
    if b.value is NEVER or b.value is NEVER_BIT:
        return a
    if a.value is NEVER or a.value is NEVER_BIT:
        return b
    if same(a, b):
        return a
    met = lanes.mixed(a.value, b.value) if where is None else lanes.select(where, a.value, b.value)
    return Register(lanes.shared(met))
