"""What feeds an element of D of a warpgroup multiply, and what a slot or a byte of shared memory feeds.

>>> from tcprobe.ask.behind import behind
>>> from tcprobe.ask.trace_shared import SharedMultiply, fed_by_byte, trace_element
>>> from tcprobe.isa.names import resolve
>>> from tcprobe.store.cell import operands
>>> from tcprobe.store.choose import alone
>>> from tcprobe.store.results import published
>>> row = resolve("wgmma.m64n24k16.f32.bf16.bf16").instruction
>>> b = behind(row.described[-1], alone(published()), "k", 128)
>>> memory = SharedMultiply(row, operands(row, "sm_90", published()), b)
>>> found = trace_element(memory, 3, 5)
>>> str(found.meetings[8].a[0]), found.meetings[8].k, found.meetings[8].b_offsets
('thread 12 (warp 0, lane 12) i 4 (register 2, bits 0..15)', (8,), (704,))
>>> back = fed_by_byte(memory, "b_smem", 705)
>>> back.held, len(back.meetings), str(back.meetings[3].d[0])
([(8, 5, 1)], 64, 'thread 14 (warp 0, lane 14) i 1 (register 1, bits 0..31)')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tcprobe.ask.behind import Behind
from tcprobe.ask.confidence import Confidence
from tcprobe.ask.table_confidence import confidence, least_sure
from tcprobe.ask.trace import Holder, elements_held, where
from tcprobe.errors import UsageError
from tcprobe.isa.arch import holder_name
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import sparsity
from tcprobe.store.cell import Cell
from tcprobe.values import Json


@dataclass(frozen=True)
class SharedMeeting:
    """A[row][stored] meets B[k][col] in D[row][col], held by `d`; of a sparse form one of several k, by index.

    A is held by `a`, or lies at byte `a_offset`; B at `b_offsets`, k by k.
    """

    row: int
    stored: int
    col: int
    k: tuple[int, ...]
    a: list[Holder]
    a_offset: int | None
    b_offsets: tuple[int, ...]
    d: list[Holder]

    def to_json(self) -> Json:
        """Plain data."""
        return {
            "row": self.row,
            "stored": self.stored,
            "col": self.col,
            "a": [h.to_json() for h in self.a],
            "a_offset": self.a_offset,
            "k": list(self.k),
            "b_offsets": list(self.b_offsets),
            "d": [h.to_json() for h in self.d],
        }


@dataclass(frozen=True)
class SharedMultiply:
    """A multiply with its tables, B behind a descriptor, and A too where it is not in registers."""

    instruction: Instruction
    tables: Mapping[str, Cell]
    b: Behind
    a: Behind | None = None

    @cached_property
    def b_offsets(self) -> list[list[int]]:
        """Bytes of B, k x n."""
        return self.b.offsets

    @cached_property
    def a_offsets(self) -> list[list[int]] | None:
        """Bytes of A, m x stored k; None where it is in registers."""
        return self.a.offsets if self.a else None

    @property
    def confidence(self) -> Confidence:
        """In its tables and descriptors: that of the one with the least evidence."""
        register_cells = [cell for name, cell in self.tables.items() if name != "a" or self.a is None]
        return least_sure(
            [*map(confidence, register_cells), self.b.confidence, *([self.a.confidence] if self.a else [])]
        )

    def meeting(self, element: tuple[int, int], stored: int) -> SharedMeeting:
        """What A[m][stored] meets for the element D[m][n]."""
        m, n = element
        k, a_offsets = self.possible_k(stored), self.a_offsets
        a = [] if a_offsets else where(self.tables["a"], [m], [stored])
        return SharedMeeting(
            m,
            stored,
            n,
            k,
            a,
            a_offsets[m][stored] if a_offsets else None,
            tuple(self.b_offsets[k_row][n] for k_row in k),
            where(self.tables["d"], [m], [n]),
        )

    def possible_k(self, stored: int) -> tuple[int, ...]:
        """The k that a stored column of A can be."""
        e = self.instruction.metadata
        if e is None:
            return (stored,)
        rule = sparsity(e)
        return tuple(rule.k(stored, index) for index in range(rule.positions))


@dataclass(frozen=True)
class SharedTrace:
    """`meetings` in order; `d` the holders of the element that was asked about.

    `held` are the elements of an operand at the byte that was asked about: row, column, and which of its bytes it is.
    """

    memory: SharedMultiply
    about: str
    meetings: list[SharedMeeting]
    d: list[Holder] = field(default_factory=list)
    held: list[tuple[int, int, int]] = field(default_factory=list)

    def to_json(self) -> Json:
        """Plain data."""
        b, a = self.memory.b, self.memory.a
        return {
            "instruction": self.memory.instruction.id,
            "about": self.about,
            "d": [h.to_json() for h in self.d],
            "held": [{"row": row, "col": col, "byte": byte} for row, col, byte in self.held],
            "meetings": [m.to_json() for m in self.meetings],
            "descriptor": f"{b.descriptor.encode():#018x}",
            "major": b.major,
            "evidence": b.evidence,
            "confidence": self.memory.confidence.to_json(),
            "a_descriptor": f"{a.descriptor.encode():#018x}" if a else None,
        }


def trace_element(multiply: SharedMultiply, m: int, n: int) -> SharedTrace:
    """What feeds D[m][n], in the order of k; UsageError where that is outside D."""
    d, row = where(multiply.tables["d"], [m], [n]), multiply.instruction
    return SharedTrace(multiply, f"D{d[0].element}", [multiply.meeting((m, n), s) for s in range(row.stored)], d)


def fed_by_slot(multiply: SharedMultiply, lane: int, i: int) -> SharedTrace:
    """What slot (lane, i) of A feeds, column by column; UsageError where there is no such slot."""
    slots = elements_held(multiply.tables["a"], [lane], [i])
    if not slots or slots[0].col is None:
        raise UsageError(f"{holder_name(lane, multiply.instruction.threads)} i {i} of A is unused.")
    slot, row = slots[0], multiply.instruction
    about = f"A {slot.holder} i {i}, which holds A{slot.element}"
    return SharedTrace(multiply, about, [multiply.meeting((slot.row, n), slots[0].col) for n in range(row.shape.n)])


def fed_by_byte(multiply: SharedMultiply, operand: str, byte: int) -> SharedTrace:
    """What a byte of a_smem or b_smem feeds, counted from the start address; UsageError where nothing lies there."""
    behind = multiply.b if operand == "b_smem" else multiply.a
    if behind is None:
        raise UsageError("A is in registers here: give `a_in` shared.")
    elements = [(element.row, element.col, byte - element.offset) for element in behind.at(byte)]
    what = ", ".join(f"{operand[0].upper()}[{row}][{col}]" for row, col, _ in elements[:8])
    more = f" and {len(elements) - 8} more" if len(elements) > 8 else ""
    meetings = [m for row, col, _ in elements for m in _of_element(multiply, operand, (row, col))]
    return SharedTrace(multiply, f"byte {byte} of {operand}, which holds {what}{more}", meetings, held=elements)


def _of_element(multiply: SharedMultiply, operand: str, element: tuple[int, int]) -> Iterable[SharedMeeting]:
    """Every meeting of an element: of A with each column, of B with each row of A, stored columns that can be its k."""
    shape, stored = multiply.instruction.shape, range(multiply.instruction.stored)
    row, col = element
    if operand == "a_smem":
        return [multiply.meeting((row, n), col) for n in range(shape.n)]
    return [multiply.meeting((m, col), s) for m in range(shape.m) for s in stored if row in multiply.possible_k(s)]
