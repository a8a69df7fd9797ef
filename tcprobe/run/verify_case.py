"""What is verified at once: a multiply, the tables of its fragments, and how its factors in shared memory lie there.

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
from tcprobe.isa.names import select_instructions, wrong
from tcprobe.isa.operand import Role
from tcprobe.layout.descriptor import PERIOD, SWIZZLES
from tcprobe.store.cell import Cell, selections

Operands = Mapping[str, Cell]
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
        held = self.operand.held
        lines, k = (held.rows, held.cols) if self.matrix == "a" else (held.cols, held.rows)
        return lines, STEPS * k

    def tile(self, swizzle: int) -> SharedTile:
        """The least tile that holds it: with lines contiguous whole rows of the pattern, of which it is the first."""
        (lines, k), held = self.extent, self.operand.held
        whole = max(8, swizzle * 8 // held.slot_bits) if self.major == "mn" else 8
        padded = -(-lines // whole) * whole
        return tile((padded, k), held.type, self.major, swizzle, (padded, k // STEPS * held.slot_bits // 8))

    @cached_property
    def bytes(self) -> int:
        """Bytes of shared memory for the largest of its tiles, in whole patterns."""
        return max(-(-self.tile(swizzle).bytes // PERIOD) * PERIOD for swizzle in SWIZZLES)


@dataclass(frozen=True)
class VerifyCase:
    """`operands` are the tables of the fragments, those of metadata under one selector; `shared` the other factors."""

    instruction: Instruction
    operands: Operands
    shared: tuple[Placed, ...] = ()

    @property
    def steps(self) -> int:
        """Multiplies along k."""
        return STEPS if self.shared else 1

    @property
    def swizzles(self) -> tuple[int, ...]:
        """Those of the shared tiles, one product each; nothing but 0 without any."""
        return tuple(sorted(SWIZZLES)) if self.shared else (0,)

    @property
    def selector(self) -> int | None:
        """That of a sparse multiply."""
        return self.operands["e"].selector if "e" in self.operands else None

    @property
    def factors(self) -> dict[str, Cell]:
        """Tables of the factors in registers, by matrix."""
        behind = {one.matrix for one in self.shared}
        roles = {o: cell.fragment.role for o, cell in self.operands.items()}
        return {o: self.operands[o] for o in "ab" if roles.get(o) is Role.FACTOR and o not in behind}

    @property
    def sums(self) -> Cell:
        """The table of C; a wgmma adds to its D."""
        return self.operands.get("c", self.operands["d"])

    @property
    def copied(self) -> list[tuple[str, Fragment]]:
        """The matrices with several holders of an element: some may never be read."""
        given = {**self.factors, "c": self.sums}
        return [(name, cell.fragment) for name, cell in given.items() if cell.fragment.copies > 1]

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory, with what aligning to a whole pattern takes."""
        return sum(one.bytes for one in self.shared) + PERIOD if self.shared else 0

    def __str__(self) -> str:
        if not self.shared:
            return ""
        lying = {one.matrix: one.major for one in self.shared}
        return ", ".join(f"{o.upper()} {lying.get(o, 'in registers')}" for o in "ab")


def verifiable(*patterns: str) -> list[Instruction]:
    """The multiplies among what the patterns mean that are verified, without one all, warpgroups' of NUMBERS only.

    UsageError where there is none.
    """
    meant = select_instructions(*patterns)
    multiplies = [row for row in meant if row.multiplies]
    if not multiplies:
        raise wrong.no_multiply(meant[0])
    rows = [row for row in multiplies if not row.unprobed and not row.scales]
    if not rows:
        why = "is block-scaled" if multiplies[0].scales else "has operands in tensor memory"
        covered = "operands in registers and shared memory, without scales"
        raise UsageError(f"{multiplies[0].id} {why}: `verify` covers {covered}.")
    return rows if patterns else [row for row in rows if not row.described or row.shape.n in NUMBERS]


def cases(instruction: Instruction, operands: Operands) -> Iterator[VerifyCase]:
    """What there is to verify of a multiply: under each selector, with its factors wherever they can lie."""
    chosen = [{**operands, "e": e} for e in selections(operands["e"])] if "e" in operands else [operands]
    for tables in chosen:
        yield from (VerifyCase(instruction, tables, shared) for shared in _places(instruction))


def _places(instruction: Instruction) -> Iterator[tuple[Placed, ...]]:
    """Every way in which factors are in shared memory; the empty one where all are in registers."""
    behind = instruction.described
    held = {fragment.operand for fragment in instruction.factors}
    only = [one for one in behind if one.held.name[0] not in held]  # whose matrix cannot be in registers
    for chosen in (only, list(behind)) if len(only) < len(behind) else (only,):
        for majors in product(*(one.held.majors for one in chosen)):
            yield tuple(Placed(one, major) for one, major in zip(chosen, majors, strict=True))
