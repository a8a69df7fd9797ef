"""A case to verify: a multiply, the tables of its fragments, and how its factors are placed in shared memory.

A factor behind a descriptor is a tile as `tcprobe descriptor` describes it, STEPS multiplies long, in every swizzle;
its k steps are taken by the steps that the answer says.

>>> from tcprobe.isa.names import resolve
>>> from tcprobe.store.cell import operands
>>> from tcprobe.store.results import published
>>> row = resolve("wgmma.m64n8k16.f32.bf16.bf16").instruction
>>> [str(case) for case in cases(row, operands(row, "sm_90", published()))][1:4]
['A in registers, B mn', 'A k, B k', 'A k, B mn']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from tcprobe.ask.descriptor import SharedTile, tile
from tcprobe.errors import UsageError
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.names import search, select_instructions
from tcprobe.isa.operand import FACTORS, Role
from tcprobe.layout.descriptor import PERIOD, SWIZZLES
from tcprobe.store.cell import Cell, selections

NUMBERS = (8, 24, 64, 128, 256)  # N of a warpgroup's forms that are taken where none is named
STEPS = 4  # multiplies along k where factors are in shared memory: a row of the widest swizzle


@dataclass(frozen=True)
class Placed:
    """A factor in shared memory, `major` contiguous, as one tile for all steps."""

    operand: SharedOperand
    major: str

    @property
    def matrix(self) -> str:
        """a or b."""
        return self.operand.held.name[0]

    @property
    def extent(self) -> tuple[int, int]:
        """Lines, and k of all steps."""
        operand = self.operand.held
        lines, k = (operand.rows, operand.cols) if self.matrix == "a" else (operand.cols, operand.rows)
        return lines, STEPS * k

    def tile(self, swizzle: int) -> SharedTile:
        """The least tile that contains it; if lines are contiguous, it has whole rows of the swizzle's pattern."""
        (lines, k), operand = self.extent, self.operand.held
        multiple = max(8, swizzle * 8 // operand.slot_bits) if self.major == "mn" else 8
        padded = -(-lines // multiple) * multiple
        return tile((padded, k), operand.type, self.major, swizzle, (padded, k // STEPS * operand.slot_bits // 8))

    @cached_property
    def bytes(self) -> int:
        """Bytes of shared memory for the largest of its tiles, in whole patterns."""
        return max(-(-self.tile(swizzle).bytes // PERIOD) * PERIOD for swizzle in SWIZZLES)


@dataclass(frozen=True)
class VerifyCase:
    """`operands` are the tables of the fragments, those of metadata under one selector; `shared` the other factors."""

    instruction: Instruction
    operands: Mapping[str, Cell]
    shared: tuple[Placed, ...] = ()

    @property
    def steps(self) -> int:
        """Multiplies along k."""
        return STEPS if self.shared else 1

    @property
    def swizzles(self) -> tuple[int, ...]:
        """The swizzles of the tiles in shared memory, one product each; only 0 without such tiles."""
        return tuple(sorted(SWIZZLES)) if self.shared else (0,)

    @property
    def selector(self) -> int | None:
        """The selector of a sparse multiply."""
        return self.operands["e"].selector if "e" in self.operands else None

    @property
    def factors(self) -> dict[str, Cell]:
        """Tables of the factors in registers, by matrix."""
        in_shared = {placed.matrix for placed in self.shared}
        roles = {o: cell.fragment.role for o, cell in self.operands.items()}
        return {o: self.operands[o] for o in FACTORS if roles.get(o) is Role.FACTOR and o not in in_shared}

    @property
    def sums(self) -> Cell:
        """The table of C; of D for a wgmma, which adds to it."""
        return self.operands.get("c", self.operands["d"])

    @property
    def matrices_with_copies(self) -> list[tuple[str, Fragment]]:
        """The matrices with several holders of an element: some may never be read."""
        matrices = {**self.factors, "c": self.sums}
        return [(name, cell.fragment) for name, cell in matrices.items() if cell.fragment.copies > 1]

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory, with room to align to a whole pattern."""
        return sum(placed.bytes for placed in self.shared) + PERIOD if self.shared else 0

    def __str__(self) -> str:
        if not self.shared:
            return ""
        majors = {placed.matrix: placed.major for placed in self.shared}
        return ", ".join(f"{o.upper()} {majors.get(o, 'in registers')}" for o in FACTORS)


def verifiable(*patterns: str) -> list[Instruction]:
    """The multiplies that match patterns and can be verified; without patterns all, warpgroups' only with N of NUMBERS.

    UsageError if there is none.
    """
    instructions = select_instructions(*patterns)
    multiplies = [row for row in instructions if row.multiplies]
    if not multiplies:
        raise search.no_multiply(instructions[0])
    rows = [row for row in multiplies if not row.unprobed and not row.scales]
    if not rows:
        why = "is block-scaled" if multiplies[0].scales else "has operands in tensor memory"
        covered = "operands in registers and shared memory, without scales"
        raise UsageError(f"{multiplies[0].id} {why}: `verify` covers {covered}.")
    return rows if patterns else [row for row in rows if not row.described or row.shape.n in NUMBERS]


def cases(instruction: Instruction, operands: Mapping[str, Cell]) -> Iterator[VerifyCase]:
    """All cases of a multiply: under each selector, with its factors in every possible place."""
    operands_by_selector = [{**operands, "e": e} for e in selections(operands["e"])] if "e" in operands else [operands]
    for tables in operands_by_selector:
        yield from (VerifyCase(instruction, tables, shared) for shared in _places(instruction))


def _places(instruction: Instruction) -> Iterator[tuple[Placed, ...]]:
    """Every choice of factors in shared memory with their majors; empty if all are in registers."""
    descriptors = instruction.described
    in_registers = {fragment.operand for fragment in instruction.factors}
    required = [operand for operand in descriptors if operand.held.name[0] not in in_registers]
    for in_shared in (required, list(descriptors)) if len(required) < len(descriptors) else (required,):
        for majors in product(*(operand.held.majors for operand in in_shared)):
            yield tuple(Placed(operand, major) for operand, major in zip(in_shared, majors, strict=True))
