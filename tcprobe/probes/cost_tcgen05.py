"""Loops of tcgen05.mma: the interval between two, and round trips from issue to the end of the wait.

All kinds, dense, sparse and block-scaled, and .ws, for one CTA and for two, by N, with the largest M; A is in shared
memory (s) or in tensor memory (t). All add to one accumulator. The loops are assembled and their machine code is read;
nobody has run them on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcprobe.errors import ProbeError
from tcprobe.isa import instruction_descriptor, inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.isa.target import Target
from tcprobe.layout import descriptor
from tcprobe.probes import ptx, tensor_memory
from tcprobe.probes.cost import KIND, Costs, ProvedNumbers, Run
from tcprobe.probes.cost_issued import COPIES, Issued, issues, split_opcodes
from tcprobe.probes.cost_warpgroups import USUAL_SWIZZLE, canonical
from tcprobe.probes.experiment import Context, Readout
from tcprobe.probes.proof import Counts
from tcprobe.probes.timing import TimedBlock
from tcprobe.store.kinds.cost import Body, Flight, Held, Trip

__all__ = ("KIND", "experiments")
SIZES = (64, 128, 256)  # N
TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8", "mxf8f6f4": "e4m3"}  # of A and B by kind
NARROWEST = "e2m1"  # of the other kinds
B_BYTES = 16 << 10  # offset of B in shared memory
A_PLACES: tuple[Held, ...] = ("shared", "tensor")
SIXTEENTHS = ("4X", "6X")  # scale_vec sizes whose scales are for 16 elements
MMA = ("MMA",)


@dataclass(frozen=True)
class TensorMemoryCosts(Costs):
    """Interval and round trips of a tcgen05.mma by where A is; `scale` is as "ue4m3 4X", or empty."""

    row: Instruction
    n: int
    scale: str = ""

    @property
    def id(self) -> str:
        """The form's id with its shape, types and scales."""
        m, _, k = self.row.shape
        scaled = f".{self.scale.replace(' ', '.')}" if self.scale else ""
        return f"{self.row.id}.m{m}n{self.n}k{k}.{result_type(self.row)}.{self._type}.{self._type}{scaled}"

    @property
    def target(self) -> Target:
        """The instruction's target, with the PTX version that names block sizes for all targets."""
        return self.row.target.at_least(tensor_memory.SINCE if self.scale else ptx.ALIGNED)

    @property
    def group(self) -> int:
        """CTAs that multiply together."""
        return 2 if ".cta_group::2" in self.row.id else 1

    @property
    def _type(self) -> str:
        return TYPES.get(self.row.kind or "", NARROWEST)

    def _line(self, a_place: Held) -> str:
        """PTX of the instruction; a scale is for 32 elements, or for 16."""
        name = tensor_memory.instruction_name(self.row)
        if self.scale.endswith(SIXTEENTHS):
            name = name.replace(tensor_memory.BLOCK, ".block16")
        operands = tensor_memory.operands(self.row).replace("%bdesc", "%db").replace("%idesc", "%word4")
        return f"{name} {operands.replace('%adesc', '%da' if a_place == 'shared' else '[%ta]')};"

    @property
    def loops(self) -> Sequence[tuple[Held, Issued]]:
        """All loops, each with where A is."""
        return [
            (a_place, issued)
            for a_place in A_PLACES
            for issued in issues(self.id, self.target, self._line(a_place), self.group, begins=a_place[0])
        ]

    def block(self) -> TimedBlock:
        """One warp, with the descriptors of A, of B, and of the instruction."""
        matrices = (descriptor.encode_tcgen05(canonical("k", USUAL_SWIZZLE, start)) for start in (0, B_BYTES))
        words = [value >> shift & 0xFFFFFFFF for value in matrices for shift in (0, 32)]
        return TimedBlock(
            WARP, 0, (*words, instruction_descriptor.encode(self.row.kind or "", self._descriptor_fields()))
        )

    def _descriptor_fields(self) -> dict[str, int | str]:
        """The fields of the instruction descriptor."""
        fields: dict[str, int | str] = {"m": self.row.shape.m, "n": self.n, "a_type": self._type, "b_type": self._type}
        if any(operand.role is Role.METADATA for operand in self.row.operands):
            fields["sparse"] = 1
        if self.row.id.endswith(".k96"):
            fields["k"] = 96
        return fields | ({"scale_type": self.scale.split()[0]} if self.scale else {"d_type": result_type(self.row)})

    def runs(self) -> dict[str, Run]:
        """Every loop by its name."""
        return {issued.variant: Run(issued.loop().kernel(), [self.block()]) for _, issued in self.loops}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError if no loop of an interval has the expected machine code."""
        proved = ProvedNumbers(reading)
        intervals: list[Flight] = []
        trips: list[Trip] = []
        each: Counts = {}
        for a_place, issued in self.loops:
            each, around = split_opcodes(proved.each(issued.variant), MMA)
            cycles = proved.cycles_of_copy(issued.variant, COPIES, each, around)
            if cycles is not None and issued.trip:
                trips.append(Trip(float(cycles[0]) * issued.count, None, a_place, 1, issued.count))
            elif cycles is not None:
                intervals.append(Flight(float(cycles[0]), a_place, 1, issued.count))
        if not intervals:
            raise ProbeError(next(iter(proved.refused.values())))
        macs = self.row.shape.m * self.n * self.row.shape.k // self.group
        return Body(
            opcodes=dict.fromkeys(each, 1.0),
            spread=proved.spread,
            interval=intervals,
            round_trip=trips,
            macs_per_cycle=round(macs / min(flight.cycles for flight in intervals), 1),
            mhz=proved.mhz,
            refused=proved.refused,
        )


def result_type(instruction: Instruction) -> str:
    """The widest type that D may have."""
    types = [str(type_) for type_ in instruction.stated["d_types"]]
    return max(types, key=lambda type_: int(type_[1:]))


def experiments() -> list[TensorMemoryCosts]:
    """One experiment for each multiply, type of scales, and N of SIZES."""
    rows = [row for row in inventory.of_family("tcgen05") if row.multiplies]
    return [
        TensorMemoryCosts(row, n, str(scale))
        for row in rows
        for scale in row.stated.get("scales", ("",))
        for n in SIZES
        if n in row.stated["n_values"]
    ]
