"""How the warps of a kernel share its work: which of them run a loop, and what joins their loops.

A ring is a row of mbarriers at which copies land, a stage each: warps that multiply wait there, and free a stage at
another row, where the warps that copy wait. Both rows are known by the addresses that instructions name in a kernel's
first iterations (`sass/iterations`): what names the same mbarrier belongs together. A row goes on up to the next one.

    >>> joined(kernel).rings                                # doctest: +SKIP
    (Ring(stages=4, bytes=49152),)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tcprobe.loops.loop import Loop, Step, is_multiply, main_loops
from tcprobe.sass.addresses import walked
from tcprobe.sass.barriers import arrives, barriers, numbers_by_warp, waits
from tcprobe.sass.iterations import Iterations, Known, TooManyError, over_rounds, rounds
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.reader import Reader

INIT, EXPECTS, CHECKS = "SYNCS.EXCH", "SYNCS.ARRIVE.TRANS64", "SYNCS.PHASECHK"
ITERATIONS = (4, 2, 1)  # that are followed, as many as there is room for


class Ring(NamedTuple):
    """`stages` that copies fill one after the other, with `bytes` each: 0 where the code does not show how many."""

    stages: int
    bytes: int


class Copies(NamedTuple):
    """How rings are filled: a copy lands `latency` cycles after it begins, and the bytes of all come one after another.
    Without rings all have landed.
    """

    rings: tuple[Ring, ...] = ()
    latency: float = 0
    bytes_a_cycle: float = 1


LANDED = Copies()


class Meeting(NamedTuple):
    """What a step of an iteration does at a ring: waits for a stage to land, or frees one, `late` behind the last."""

    ring: int
    lands: bool
    late: int = 0


class Joined(NamedTuple):
    """What joins a kernel's loops. `lands`: by number of an instruction the ring at which it waits; `frees`: the one of
    which it frees a stage, -1 where the code does not show which. `named`: barriers by number of an instruction and
    warp, None where that is not known.
    """

    rings: tuple[Ring, ...] = ()
    lands: Mapping[int, int] = {}
    frees: Mapping[int, int] = {}
    named: Mapping[int, tuple[int | None, ...]] = {}


@lru_cache(maxsize=1)
def joined(kernel: Kernel) -> Joined:
    """What joins the loops of a kernel, as far as the code shows it: nothing of one that is too large to follow."""
    there = [i for i in kernel.instructions if i.number in kernel.block_of and i.guard != "never"]
    meeting = [i for i in there if i.mnemonic in ("SYNCS", "ARRIVES", "BAR") and (arrives(i) or waits(i))]
    inits = [i for i in there if i.opcode.startswith(INIT)]
    wanted = frozenset(i.number for i in (*meeting, *inits))
    for count in ITERATIONS if wanted else ():
        try:
            taken_apart, reader = rounds(kernel, wanted, count)
        except TooManyError:
            continue
        rows = _Rows(kernel, meeting, inits, taken_apart, reader)
        return rows.joined() if count > 1 else Joined(named=rows.named)  # one iteration shows one mbarrier of a row
    return Joined()


def warps_of(loop: Loop) -> tuple[int, ...]:
    """The warps that may run a loop, of those of a block that are looked at."""
    return tuple(sorted(_warps_at(loop.kernel, loop.head)))


def _warps_at(kernel: Kernel, block: int) -> set[int]:
    """The warps that may come to a block."""
    state = walked(kernel).entries.get(block)
    return set() if state is None else set(np.flatnonzero(state.active.any(axis=1)).tolist())


def partners(loop: Loop) -> tuple[Loop, ...]:
    """Loops that other warps run beside this one, and that multiply, too: they meet it at named barriers."""
    known, own = joined(loop.kernel), set(warps_of(loop))
    there = _meets(loop, known)
    best: dict[tuple[int, ...], tuple[int, int, Loop]] = {}
    for other in main_loops(loop.kernel, tuple(loop.taken)) if there else ():
        warps, common = warps_of(other), len(there & _meets(other, known))
        if common and warps and own.isdisjoint(warps):
            rank = common, -abs(other.multiplies - loop.multiplies)
            if warps not in best or rank > best[warps][:2]:
                best[warps] = (*rank, other)
    return tuple(partner for *_, partner in best.values())


def meetings(loop: Loop, warp: int) -> dict[int, Meeting]:
    """By number of a step of an iteration, what it does at a ring. A ring of which no stage is freed has no part in it.

    A stage that is freed at an unknown mbarrier is of the ring whose stages landed first and are freed nowhere else.
    """
    known, steps = joined(loop.kernel), loop.path(warp)
    lands = _first_tries(steps, known)
    frees = {place: known.frees[step.instruction.number] for place, step in enumerate(steps) if _frees(step, known)}
    unfreed = iter([ring for ring in dict.fromkeys(lands.values()) if ring not in frees.values()])
    frees = {place: next(unfreed, -1) if ring < 0 else ring for place, ring in frees.items()}
    rings = set(lands.values()) & set(frees.values())
    waits_of = {ring: [place for place, of in lands.items() if of == ring] for ring in rings}
    return {
        **{place: Meeting(ring, True) for place, ring in lands.items() if ring in rings},
        **{p: Meeting(ring, False, _late(steps, waits_of[ring], p)) for p, ring in frees.items() if ring in rings},
    }


def assumed(loop: Loop, warp: int) -> Iterator[str]:
    """What is assumed of how a loop meets others, in words."""
    known, met = joined(loop.kernel), meetings(loop, warp)
    for place, step in enumerate(loop.path(warp)):
        instruction, meeting = step.instruction, met.get(place)
        if instruction.form.has("TRYWAIT") and meeting is None:
            yield f"what is waited for at {instruction.address:#x} is there in time"
        elif meeting is not None and meeting.lands and not known.rings[meeting.ring].bytes:
            yield f"what lands at {instruction.address:#x} comes by a tensor map, and its bytes take no time"
        elif meeting is not None and not meeting.lands and known.frees[instruction.number] < 0:
            yield f"the stage that is freed at {instruction.address:#x} is of the ring that landed first"
        elif instruction.opcode.startswith("BAR.ARV"):
            yield f"where warps would wait for ever, others had arrived before the loop, as at {instruction.address:#x}"


def _first_tries(steps: Sequence[Step], known: Joined) -> dict[int, int]:
    """By number of a step that waits for a stage, its ring; a wait for the same phase before a multiply is one."""
    lands: dict[int, int] = {}
    tried: tuple[int, str] | None = None
    for place, (instruction, _) in enumerate(steps):
        ring = known.lands.get(instruction.number)
        if ring is not None:
            phase = ring, instruction.operands[-1].text
            if phase != tried:
                lands[place] = ring
            tried = phase
        elif is_multiply(instruction):
            tried = None
    return lands


def _frees(step: Step, known: Joined) -> bool:
    return step.instruction.number in known.frees


def _late(steps: Sequence[Step], landed: Sequence[int], place: int) -> int:
    """How many stages behind the last that landed is the one that is freed: multiplies of those after it still run.

    A stage is read until the first group of multiplies that is committed behind the wait for it is over.
    """
    commits = [p for p, step in enumerate(steps) if _commits(step.instruction)]
    group_waits = [p for p, step in enumerate(steps[:place]) if step.instruction.form.has("DEPBAR")]
    if not commits or not group_waits:
        return 0
    over = sum(p < group_waits[-1] for p in commits) - _left(steps[group_waits[-1]].instruction)
    last = sum(p < place for p in landed) - 1  # the stage that was waited for last
    for late in range(len(steps)):
        # groups are counted from this iteration's first on, those of iterations before it are below 0
        iteration, stage = divmod(last - late, len(landed))
        reader = iteration * len(commits) + sum(p < landed[stage] for p in commits) + 1
        if reader <= over:
            return late
    return 0


def _commits(instruction: Instruction) -> bool:
    return is_multiply(instruction) and any("gsb0" in operand.text for operand in instruction.operands)


def _left(instruction: Instruction) -> int:
    """The groups that a wait leaves running."""
    return next((operand.value for operand in instruction.operands if operand.kind == "number"), 0)


def _meets(loop: Loop, known: Joined) -> set[int]:
    """The named barriers of a loop."""
    numbers = (known.named.get(instruction.number, ()) for instruction in loop.instructions)
    return {number for each in numbers for number in each if number is not None}


class _Rows:
    """Rows of mbarriers, by what names them in a kernel's first iterations."""

    def __init__(
        self,
        kernel: Kernel,
        meeting: Sequence[Instruction],
        inits: Sequence[Instruction],
        taken_apart: Iterations,
        reader: Reader,
    ) -> None:
        self.kernel, self.meeting, self.taken_apart, self.reader = kernel, meeting, taken_apart, reader
        self.multiplying = {warp for loop in main_loops(kernel) if loop.multiplies for warp in warps_of(loop)}
        self.named = _named(meeting, taken_apart, reader)
        numbers = {i.number for i in (*meeting, *inits)}
        places = over_rounds(taken_apart, numbers, lambda i, state: barriers(i, reader, state))
        self.rows = _rows([places[i.number].units for i in meeting if i.number in places])
        self.row_of = {number: _row(self.rows, known) for number, known in places.items()}
        self.stages = _stages(self.rows, {unit for i in inits if i.number in places for unit in places[i.number].units})

    def _row(self, instruction: Instruction) -> int:
        return self.row_of.get(instruction.number, -1)

    def _copies(self, arrival: Instruction) -> bool:
        """Whether it is of warps that do not multiply."""
        there = _warps_at(self.kernel, self.kernel.block_of[arrival.number])
        return bool(there) and there.isdisjoint(self.multiplying)

    def _waited_before(self, arrival: Instruction) -> int:
        """The row at which a warp has waited last before an arrival, in the same loop; -1 if another one is between."""
        block = self.kernel.block_of[arrival.number]
        around = frozenset[int]().union(*(loop for loop in self.kernel.loops if block in loop))
        for number in range(arrival.number - 1, -1, -1):
            row = self.row_of.get(number, -1)
            if row < 0 or self.kernel.block_of[number] not in around:
                continue
            if self.kernel.instructions[number].opcode.startswith(CHECKS):
                return row
            if row != self._row(arrival):
                return -1
        return -1

    def _bytes(self) -> dict[int, int]:
        """What an arrival says that copies will bring, by row: the most of one arrival."""
        sizes: dict[int, int] = {}
        for number, state in self.taken_apart.states.items():
            instruction, row = (
                self.taken_apart.instructions[number],
                self.row_of.get(self.taken_apart.first[number], -1),
            )
            if row >= 0 and instruction.opcode.startswith(EXPECTS) and not _gives(instruction):
                value = self.reader.read(instruction.operands[-1], state.registers)
                if value.exact:
                    sizes[row] = max(sizes.get(row, 0), int(value.known.max()))
        return sizes

    def joined(self) -> Joined:
        """A ring is a row that copying warps arrive at behind a wait at another one."""
        filled: dict[int, int] = {}  # row where copies land -> row where the copying warps wait
        for arrival in self.meeting:
            row, before = self._row(arrival), self._waited_before(arrival)
            if arrives(arrival) and self._copies(arrival) and -1 not in (row, before) and row != before:
                filled.setdefault(row, before)
        filled = {row: before for row, before in filled.items() if before not in filled}
        sizes = self._bytes()
        rings = tuple(Ring(self.stages[row], sizes.get(row, 0)) for row in filled)
        lands = {row: ring for ring, row in enumerate(filled)}
        frees = {row: ring for ring, row in enumerate(filled.values())}
        waited = {i.number: lands[row] for i in self.meeting if waits(i) and (row := self._row(i)) in lands}
        freed = {
            i.number: frees.get(row, -1)
            for i in self.meeting
            if i.opcode.startswith("SYNCS.ARRIVE") and _gives(i) and ((row := self._row(i)) < 0 or row in frees)
        }
        return Joined(rings, waited, freed, self.named)


def _gives(arrival: Instruction) -> bool:
    """Whether it counts one arrival and no bytes."""
    return arrival.operands[-1].kind == "R" and arrival.operands[-1].first < 0


def _rows(places: Iterable[frozenset[int]]) -> list[set[int]]:
    """Sets of mbarriers that instructions name together, in order of addresses."""
    rows: list[set[int]] = []
    for units in places:
        own = {unit for unit in units if unit >= 0}
        apart = [row for row in rows if row.isdisjoint(own)]
        together = own.union(*(row for row in rows if not row.isdisjoint(own)))
        rows = [*apart, together] if together else apart
    return sorted(rows, key=min)


def _row(rows: Sequence[set[int]], known: Known) -> int:
    return next((number for number, row in enumerate(rows) if not row.isdisjoint(known.units)), -1)


def _stages(rows: Sequence[set[int]], made: Iterable[int]) -> list[int]:
    """How many mbarriers each row has: those that are initialised from its first on, up to the next row's."""
    counts = [0] * len(rows)
    for place in made:
        behind = [number for number, row in enumerate(rows) if min(row) <= place]
        if behind:
            counts[behind[-1]] += 1
    return [max(count, len(row)) for count, row in zip(counts, rows, strict=True)]


def _named(
    meeting: Sequence[Instruction], taken_apart: Iterations, reader: Reader
) -> dict[int, tuple[int | None, ...]]:
    """By number of an instruction the named barriers of its warps, those that are the same in all iterations."""
    wanted = {i.number for i in meeting if i.mnemonic == "BAR"}
    named: dict[int, tuple[int | None, ...]] = {}
    for number, state in taken_apart.states.items():
        first = taken_apart.first[number]
        if first in wanted:
            numbers = numbers_by_warp(taken_apart.instructions[number], reader, state)
            before = named.get(first, numbers)
            named[first] = tuple(a if a == b else None for a, b in zip(before, numbers, strict=True))
    return named
