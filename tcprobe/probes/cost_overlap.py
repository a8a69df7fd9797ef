"""Loops of pairs that kernels overlap: a multiply and a move or f32 arithmetic, each alone and both in one loop.

    hidden = (first alone + second alone - both) / the shorter of the two

Of warpgroup multiplies up to four are in flight meanwhile. ARITHMETIC instructions of f32 go with each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, WARPGROUP
from tcprobe.isa.instruction import Instruction
from tcprobe.probes.cost import DECIMALS, ProvedNumbers, Run
from tcprobe.probes.proof import Counts
from tcprobe.probes.timing import Loop, TimedBlock
from tcprobe.store.kinds.cost import Overlap

COPIES = 8
WARPS = 8
ARITHMETIC = 4
WIDE_ARITHMETIC = 32  # beside a warpgroup multiply
BASE = 4096
LOAD = "ldmatrix.m8n8.x4.shared.b16"
FMA = "fma.rn.f32"
PARTNERS = (LOAD, FMA)
Part = Literal["both", "first", "second"]
PARTS: tuple[Part, ...] = ("both", "first", "second")


@dataclass(frozen=True)
class Partner:
    """What goes with a multiply: lines of each copy, what they fill, what stands at the end of a round."""

    name: str
    count: int

    def lines(self, copy: int) -> list[str]:
        """With copy number `copy`."""
        if self.name == LOAD:
            names = ", ".join(f"%l{4 * copy + j}" for j in range(4))
            return [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{names}}}, [%at{copy}];"]
        return [f"fma.rn.f32 %f{j % COPIES}, %f{j % COPIES}, %g, %h;" for j in range(self.count)]

    @property
    def end(self) -> list[str]:
        """After all copies."""
        if self.name != LOAD:
            return []
        joined = [f"xor.b32 %joined, %joined, %l{j};" for j in range(4 * COPIES)]
        return [*joined, *(f"add.u32 %at{copy}, %at{copy}, %zero;" for copy in range(COPIES))]

    @property
    def before(self) -> list[str]:
        """Addresses of rows."""
        if self.name != LOAD:
            return []
        first = [f"mad.lo.u32 %at0, %from, 16, {BASE};"]
        return [*first, *(f"add.u32 %at{copy}, %at{copy - 1}, %zero;" for copy in range(1, COPIES))]

    @property
    def loaded(self) -> list[str]:
        """Registers that come from memory."""
        return ["%joined"] if self.name == LOAD else ["%g", "%h", *self.results]

    @property
    def results(self) -> list[str]:
        """Registers that are consumed."""
        return ["%joined"] if self.name == LOAD else [f"%f{j}" for j in range(COPIES)]

    @property
    def registers(self) -> list[str]:
        """Those that are neither."""
        return [f".reg .b32 %l<{4 * COPIES}>;", f".reg .u32 %at<{COPIES}>;"] if self.name == LOAD else []

    @property
    def opcodes(self) -> Counts:
        """What machine code has of it, in a round."""
        return {"LDSM.16.M88.4": COPIES} if self.name == LOAD else {"FFMA": COPIES * self.count}


def partners(row: Instruction) -> list[Partner]:
    """What an instruction is timed with; nothing where it is not among those that kernels overlap."""
    if row.id not in overlapped():
        return []
    wide = row.threads == WARPGROUP
    return [Partner(FMA, WIDE_ARITHMETIC)] if wide else [Partner(LOAD, 1), Partner(FMA, ARITHMETIC)]


def overlapped() -> list[str]:
    """Instructions that kernels are made of."""
    warp = (
        "m16n8k16.row.col.f16.f16.f16.f16",
        "m16n8k16.row.col.f32.f16.f16.f32",
        "m16n8k16.row.col.f32.bf16.bf16.f32",
        "m16n8k8.row.col.f32.tf32.tf32.f32",
        "m16n8k32.row.col.s32.s8.s8.s32",
        "m8n8k4.row.col.f64.f64.f64.f64",
    )
    groups = [f"m64n{n}k{k}.f32.{t}.{t}" for n in (64, 128, 256) for k, t in ((16, "f16"), (16, "bf16"), (32, "e4m3"))]
    return [*(f"mma.{form}" for form in warp), *(f"wgmma.mma_async.{form}" for form in groups)]


def joined(first: Loop, partner: Partner, part: Part) -> Loop:
    """The loop of a multiply, each copy of it a list of lines in `first.body`, with its partner, or one alone."""
    lines = [
        line for copy in range(COPIES)
        for line in (*(_copy(first, copy) if part != "second" else []),
                     *(partner.lines(copy) if part != "first" else []))
    ]  # fmt: skip
    head = first.body[: len(first.body) % COPIES] if part != "second" else []
    return Loop(
        first.subject, f"{part}.{partner.name}", first.target, COPIES,
        [*head, *lines, *(partner.end if part != "first" else [])], [*first.loaded, *partner.loaded],
        [*first.results, *partner.results], [*first.registers, *partner.registers], [*first.before, *partner.before],
        first.after, first.wide, first.threads, shared=True,
    )  # fmt: skip


def _copy(loop: Loop, copy: int) -> list[str]:
    head = len(loop.body) % COPIES
    each = len(loop.body) // COPIES
    return list(loop.body[head + copy * each : head + (copy + 1) * each])


def runs(row: Instruction, first: Loop, block: TimedBlock) -> dict[str, Run]:
    """Of every partner the pair and both alone."""
    return {f"{part}.{partner.name}": Run(joined(first, partner, part).kernel(), [block])
            for partner in partners(row) for part in PARTS}  # fmt: skip


def overlaps(
    row: Instruction, numbers: ProvedNumbers, each: Mapping[str, int], around: Mapping[str, int]
) -> dict[str, Overlap]:
    """By partner, what machine code proves; `each` is what a copy of the multiply becomes."""
    found = {}
    own = {opcode: COPIES * n for opcode, n in each.items()}
    for partner in partners(row):
        wanted = {"both": {**own, **partner.opcodes}, "first": own, "second": partner.opcodes}
        cycles = [
            numbers.whole(f"{part}.{partner.name}", wanted[part], around if part != "second" else {}, COPIES)
            for part in PARTS
        ]
        if all(one is not None for one in cycles):
            together, *alone = (round(float(one[0]), DECIMALS) for one in cycles if one is not None)
            found[partner.name] = Overlap(alone, together, WARPS if row.threads == WARP else WARPGROUP // WARP)
    return found


def rows() -> list[Instruction]:
    """The instructions that are timed with a partner."""
    return [inventory.instructions()[id_] for id_ in overlapped()]
