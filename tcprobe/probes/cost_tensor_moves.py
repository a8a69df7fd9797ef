"""Loops of tcgen05.ld, ld.red and st, which move data between a warp's registers and its lanes of tensor memory.

- many: independent moves in every warp, then one wait for all; by warps, each in the lanes that it may access
- trip: each move is waited for

Each copy has an address register of its own, to which a zero from memory is added. Of a load only the first and the
last register are consumed: one opcode loads them all. Every shape with every number of repetitions. The loops are
assembled and their machine code is read; nobody has run them on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.probes import tensor_memory
from tcprobe.probes.cost import DECIMALS, KIND, Costs, OfRow, ProvedNumbers, Run
from tcprobe.probes.cost_issued import COLUMNS, SLOT
from tcprobe.probes.cost_multiplies import interval
from tcprobe.probes.experiment import Context, Readout
from tcprobe.probes.proof import Counts, stem
from tcprobe.probes.timing import IMAGE_WORDS, Loop, TimedBlock, threads_for
from tcprobe.store.kinds.cost import Body, Point, Trip

__all__ = ("KIND", "experiments")
MOST_COPIES, MOST_REGISTERS = 8, 128  # of a round
WARPS = (1, 2, 4, 8, 16)
LANE_BIT, QUARTER = 16, 3  # lowest lane bit of an address; warp w accesses the lanes of quarter w % 4
OPS = {"ld": "LDTM", "ld.red": "LDTM", "st": "STTM"}


@dataclass(frozen=True)
class TensorMoveCosts(OfRow, Costs):
    """Interval by warps, and round trips, of a load or store with its number of repetitions."""

    @property
    def _op(self) -> str:
        return "ld.red" if ".ld.red" in self.row.id else self.row.id.split(".")[1]

    @property
    def _wait(self) -> str:
        return f"tcgen05.wait::{self._op[:2]}.sync.aligned;"

    @property
    def registers(self) -> int:
        """Registers of one copy, with the reduced value."""
        return sum(fragment.registers for fragment in self.row.fragments)

    @property
    def copies(self) -> int:
        """Copies in a round, each with registers of its own."""
        return max(1, min(MOST_COPIES, MOST_REGISTERS // self.registers))

    def _names(self, copy: int) -> list[str]:
        return [f"%v{copy * self.registers + j}" for j in range(self.registers)]

    def _line(self, copy: int) -> str:
        """PTX of one copy, with its registers and its address."""
        operands, names = tensor_memory.operands(self.row), iter(self._names(copy))
        for fragment in self.row.fragments:
            for j in range(fragment.registers):
                operands = _rename_operand(operands, f"%{fragment.operand}{j}", next(names))
        return f"{tensor_memory.instruction_name(self.row)} {operands.replace('%taddr', f'%at{copy}')};"

    def _loop(self, variant: str, ptx_lines: Sequence[str]) -> Loop:
        registers = [name for copy in range(self.copies) for name in self._names(copy)]
        changed = [f"add.u32 %at{copy}, %at{copy}, %zero;" for copy in range(self.copies)]
        return Loop(
            self.id,
            variant,
            self.target,
            self.copies,
            [*ptx_lines, *changed],
            ["%joined"] if self._loads else registers,
            ["%joined"] if self._loads else [],
            [
                f".reg .b32 %base, %lanes, %at<{self.copies}>;",
                ".reg .pred %one;",
                *([f".reg .b32 {', '.join(registers)};"] if self._loads else []),
            ],
            self._before(),
            [self._wait],
            threads=threads_for(len(registers)),
            shared=True,
            ended=self._epilogue(),
        )

    def many(self) -> Loop:
        """Independent copies and one wait."""
        copies = range(self.copies)
        return self._loop(
            "many", [*map(self._line, copies), self._wait, *(j for c in copies for j in self._consume(c))]
        )

    def trip(self) -> Loop:
        """A wait after each copy."""
        copies = range(self.copies)
        return self._loop("trip", [line for c in copies for line in (self._line(c), self._wait, *self._consume(c))])

    @property
    def _loads(self) -> bool:
        return self._op != "st"

    def _consume(self, copy: int) -> list[str]:
        """Consume the first and the last register that a copy loads."""
        names = self._names(copy)
        parts = dict.fromkeys((names[0], names[-1]))
        return [f"xor.b32 %joined, %joined, {name};" for name in parts] if self._loads else []

    def _before(self) -> list[str]:
        """The first warp allocates tensor memory; each warp gets the address of its own lanes."""
        form = "cta_group::1.sync.aligned"
        return [
            f"setp.ge.u32 %one, %lane, {WARP};",
            "@%one bra ALLOCATED;",
            f"tcgen05.alloc.{form}.shared::cta.b32 [%memory+{SLOT}], {COLUMNS};",
            f"tcgen05.relinquish_alloc_permit.{form};",
            "ALLOCATED:",
            "bar.sync 0, %warps;",
            f"ld.shared.u32 %base, [%memory+{SLOT}];",
            f"shr.u32 %lanes, %lane, {WARP.bit_length() - 1};",
            f"and.b32 %lanes, %lanes, {QUARTER};",
            f"mad.lo.u32 %at0, %lanes, {WARP << LANE_BIT}, %base;",
            *(f"add.u32 %at{copy}, %at{copy - 1}, %zero;" for copy in range(1, self.copies)),
            *self._apart(),
        ]

    def _apart(self) -> list[str]:
        """Make all registers of a store differ.

        An image has fewer words than a store has registers; the compiler would copy equal ones inside the loop.
        """
        registers = [] if self._loads else [name for copy in range(self.copies) for name in self._names(copy)]
        return [f"add.u32 {name}, {name}, {j};" for j, name in enumerate(registers) if j >= IMAGE_WORDS // WARP]

    def _epilogue(self) -> list[str]:
        return [
            "bar.sync 0, %warps;",
            f"setp.ge.u32 %one, %lane, {WARP};",
            "@%one ret;",
            f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, {COLUMNS};",
        ]

    @property
    def warps(self) -> Sequence[int]:
        """Numbers of warps for which the registers suffice."""
        most = threads_for(self.copies * self.registers) // WARP
        return [warps for warps in WARPS if warps <= most]

    def runs(self) -> dict[str, Run]:
        """Independent moves by warps, round trips in one warp."""
        blocks = [TimedBlock(warps * WARP) for warps in self.warps]
        trip = Run(self.trip().kernel(), [TimedBlock(WARP)])
        return {"many": Run(self.many().kernel(), blocks), "trip": trip}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError unless the loop of the interval has the expected machine code."""
        proved = ProvedNumbers(reading)
        each, around = self._own_and_other_opcodes(proved.each("many"))
        cycles = proved.cycles_of_copy("many", self.copies, each, around)
        if cycles is None:
            raise ProbeError(proved.refused["many"])
        trip = proved.cycles_of_copy("trip", self.copies, *self._own_and_other_opcodes(proved.each("trip")))
        points = [
            Point(round(value / warps, DECIMALS), warps)
            for warps, value in zip(self.warps, cycles.tolist(), strict=True)
        ]
        return Body(
            opcodes=dict.fromkeys(each, 1.0),
            spread=proved.spread,
            interval=interval(points),
            one_warp=points[0].cycles,
            curve=points,
            round_trip=[] if trip is None else [Trip(float(trip[0]), 4 * WARP * self.row.fragments[0].registers)],
            mhz=proved.mhz,
            refused=proved.refused,
        )

    def _own_and_other_opcodes(self, loop_opcodes: Counts) -> tuple[Counts, Counts]:
        """(the move's own opcode, once; all other opcodes of the loop, with their counts)."""
        each = {o: 1 for o in loop_opcodes if stem(o) == OPS[self._op]}
        return each, {o: n for o, n in loop_opcodes.items() if o not in each}


def _rename_operand(text: str, old: str, new: str) -> str:
    """`text` with operand `old` renamed wherever it is a whole operand."""
    return ", ".join(part.replace(old, new) if part.strip("{}") == old else part for part in text.split(", "))


def experiments() -> list[TensorMoveCosts]:
    """One experiment for each load and store with each number of repetitions."""
    rows = [row for row in inventory.of_family("tcgen05") if row.fragments]
    forms = inventory.instructions()
    return [TensorMoveCosts(forms[f"{row.id}.x{number}"]) for row in rows for number in row.stated["num"]]
