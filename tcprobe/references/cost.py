"""What papers and projects state of costs, in their own terms: rows of costs.csv.

>>> [row.source.split(",")[0] for row in rows_about("mma.m16n8k16.row.col.f32.f16.f16.f32") if row.arch == "sm_90"]
['arXiv 2402.13499']

A row has the number, the forms (a pattern of ids), the device, and the conditions that the source gives. `number` names
the part of a finding's body to compare it with, if there is one.

arXiv 2206.02874      Sun et al., "Dissecting Tensor Cores via Microbenchmarks"; sunlex0717/DissectingTensorCores
arXiv 2402.13499      Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture"; 2501.12084 the later
                      paper on H800
others                repositories at github.com
"""

from __future__ import annotations

import fnmatch
from functools import cache
from typing import Literal, NamedTuple, get_args

from tcprobe import facts
from tcprobe.isa.arch import arch
from tcprobe.isa.instruction import Instruction

PEAKS = "NVIDIA's architecture whitepapers, peak rates over SMs and clocks"
PEAK = "at most"  # the term of its rows
CostNumber = Literal[
    "latency c",
    "latency",
    "interval",
    "one_warp",
    "macs_per_cycle",
    "shared interval",
    "registers interval",
    "round_trip",
]


# a source's term and unit in a sentence; without a line here the term stands before the number
TERMS = {
    ("an SM", "cycles"): "one every {} cycles per SM",
    ("an SM", "flop per cycle"): "{} flop per cycle per SM",
    ("one per, a warp", "cycles"): "one every {} cycles in one warp",
    ("interval", "cycles"): "one every {} cycles",
    ("chain, about", "cycles"): "latency about {} cycles in a chain",
    ("TMA, about", "cycles"): "about {} cycles by TMA",
    ("N = 256", "cycles"): "one every {} cycles for N = 256",
    ("N = 256, A shared", "cycles"): "one every {} cycles for N = 256, A in shared memory",
    ("N = 256, A in registers", "cycles"): "one every {} cycles for N = 256, A in registers",
    ("from DRAM, and 5.2 a KB", "ns"): "{} ns from DRAM, 5.2 more a KB",
    ("from L2, and 4.8 a KB", "ns"): "{} ns from L2, 4.8 more a KB",
}


class Row(NamedTuple):
    """`value` as the source states it, in `unit`. `number` is what to compare it with; `factor` converts it to that
    unit.
    """

    source: str
    forms: str
    arch: str
    device: str
    term: str
    value: float
    unit: str = "cycles"
    number: CostNumber | None = None
    condition: str = ""
    factor: float = 1.0

    @property
    def comparable(self) -> float:
        """The value in the unit of what it is compared with."""
        return self.value * self.factor

    @property
    def words(self) -> str:
        """The row on one line."""
        condition = f"; {self.condition}" if self.condition else ""
        return f"{self.brief} ({self.source}{condition})"

    @property
    def brief(self) -> str:
        """The device and what is stated of it."""
        usual = f"{self.term} {{}} {self.unit}"
        return f"{self.device}: {TERMS.get((self.term, self.unit), usual).format(f'{self.value:g}')}"


@cache
def rows() -> tuple[Row, ...]:
    """The lines of costs.csv, source by source."""
    return facts.read(
        __file__,
        "costs.csv",
        Row,
        arch=lambda cell: arch(cell).name,
        value=facts.decimal,
        number=facts.optional(facts.one_of(*get_args(CostNumber))),
        factor=facts.decimal,
    )


def peak_row(instruction: Instruction | None, name: str) -> Row | None:
    """The peak of an arch as a row about a multiply that it has; None where no peak of its type is stated."""
    if instruction is None or not instruction.multiplies or not instruction.target.on(device := arch(name)):
        return None
    most = device.peak(instruction.type("a"))
    unit = "multiply-adds per cycle per SM"
    return Row(PEAKS, instruction.id, name, device.generation, PEAK, most, unit) if most else None


def rows_about(subject: str) -> list[Row]:
    """The rows about an instruction, on any arch."""
    return [row for row in rows() if fnmatch.fnmatchcase(subject, row.forms)]
