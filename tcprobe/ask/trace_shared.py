"""What feeds an element of D of a warpgroup multiply: A slots in registers, and bytes of B behind a descriptor.

>>> from tcprobe.ask.behind import behind
>>> from tcprobe.ask.trace_shared import traced
>>> from tcprobe.isa import inventory
>>> from tcprobe.store.cell import operands
>>> from tcprobe.store.choose import alone
>>> from tcprobe.store.results import published
>>> row = inventory.instruction("wgmma.m64n24k16.f32.bf16.bf16")
>>> b = behind(row.described[-1], alone(published()), "k", 128)
>>> found = traced(row, operands(row, "sm_90", published()), b, 3, 5)
>>> str(found.meetings[8].a[0]), found.meetings[8].k, found.meetings[8].offsets
('lane 12 i 4 (register 2, bits 0..15)', (8,), (704,))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tcprobe.ask.behind import Behind
from tcprobe.ask.trace import Holder, where
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import sparsity
from tcprobe.store.cell import Cell


@dataclass(frozen=True)
class SharedMeeting:
    """A[row][stored] in registers meets B[k][col] at a byte; of a sparse form at one of several, by index."""

    a: list[Holder]
    k: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class SharedTrace:
    """The slot of D[row][col], and what meets there in the order of k."""

    instruction: Instruction
    d: list[Holder]
    b: Behind
    meetings: list[SharedMeeting]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        meetings = [{"a": [h.to_json() for h in m.a], "k": list(m.k), "b_offsets": list(m.offsets)}
                    for m in self.meetings]  # fmt: skip
        return {"instruction": self.instruction.id, "d": [h.to_json() for h in self.d], "meetings": meetings,
                "descriptor": f"{self.b.descriptor.encode():#018x}", "major": self.b.major,
                "evidence": self.b.evidence}  # fmt: skip


def traced(row: Instruction, tables: Mapping[str, Cell], b: Behind, m: int, n: int) -> SharedTrace:
    """What feeds D[m][n]; UsageError where that is outside D."""
    d, offsets = where(tables["d"], [m], [n]), b.offsets
    meetings = []
    for stored in range(row.stored):
        k: tuple[int, ...] = (stored,)
        if row.metadata:
            rule = sparsity(row.metadata)
            k = tuple(rule.k(stored, index) for index in range(rule.positions))
        meetings.append(SharedMeeting(where(tables["a"], [m], [stored]), k, tuple(offsets[one][n] for one in k)))
    return SharedTrace(row, d, b, meetings)
