"""Loops of pairs that kernels overlap: a multiply with a move or with f32 arithmetic; both together, and each alone.

    hidden = (first alone + second alone - both) / the shorter of the two

Each multiply of a warp goes with ARITHMETIC f32 instructions or an ldmatrix, each multiply of a warpgroup with
WIDE_ARITHMETIC of them or a TMA box. Up to four warpgroup multiplies are in flight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, WARPGROUP
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.arrays import Bytes
from tcprobe.probes.cost import DECIMALS, ProvedNumbers, Run
from tcprobe.probes.proof import Counts
from tcprobe.probes.timing import Loop, TimedBlock, mbarrier_wait
from tcprobe.references.shared_memory.tensor_map import TensorMap, packed_map
from tcprobe.store.kinds.cost import Overlap

COPIES = 8
WARPS = 8
ARITHMETIC = 4
WIDE_ARITHMETIC = 32  # beside a warpgroup multiply
BASE = 4096
LOAD = "ldmatrix.m8n8.x4.shared.b16"
FMA = "fma.rn.f32"
BOX = "cp.async.bulk.tensor.2d"
FENCE = "WARPGROUP.ARRIVE"  # the compiler adds one after each wait that it inserts
BOX_BYTES, STAGES = 8 << 10, 4
BARRIERS_AT, STAGES_AT = 60 << 10, 64 << 10  # in shared memory, behind the factors of a warpgroup multiply
INPUT_BYTES = 64 << 10  # of the boxes' tensor, all zeros
OverlapPart = Literal["both", "first", "second"]
PARTS: tuple[OverlapPart, ...] = ("both", "first", "second")


@dataclass(frozen=True)
class Partner:
    """What goes with a multiply: PTX lines for each copy, at the end of a round, before and after the loop.

    `loaded` and `results` are registers as in `Loop`. `opcodes`: what a round must have of it in machine code; `kept`:
    prefixes of other opcodes that it needs, such as waits. `ptx`: the PTX version it needs. `maps` describe tensors in
    the input.
    """

    name: str
    lines: Sequence[Sequence[str]]
    opcodes: Counts
    loaded: Sequence[str] = ()
    results: Sequence[str] = ()
    registers: Sequence[str] = ()
    before: Sequence[str] = ()
    end: Sequence[str] = ()
    after: Sequence[str] = ()
    kept: tuple[str, ...] = ()
    ptx: str = "7.8"
    maps: tuple[TensorMap, ...] = ()


def arithmetic(count: int) -> Partner:
    """`count` fma.rn.f32 with each copy."""
    results = [f"%f{j}" for j in range(COPIES)]
    lines = [f"fma.rn.f32 %f{j % COPIES}, %f{j % COPIES}, %g, %h;" for j in range(count)]
    return Partner(FMA, [lines] * COPIES, {"FFMA": COPIES * count}, ["%g", "%h", *results], results)


def loading() -> Partner:
    """An ldmatrix.x4 with each copy; what it loads is consumed."""
    registers = [", ".join(f"%l{4 * copy + j}" for j in range(4)) for copy in range(COPIES)]
    lines = [
        [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{names}}}, [%at{copy}];"] for copy, names in enumerate(registers)
    ]
    first = [f"mad.lo.u32 %at0, %from, 16, {BASE};"]
    joined = [f"xor.b32 %joined, %joined, %l{j};" for j in range(4 * COPIES)]
    return Partner(
        LOAD,
        lines,
        {"LDSM.16.M88.4": COPIES},
        ["%joined"],
        ["%joined"],
        [f".reg .b32 %l<{4 * COPIES}>;", f".reg .u32 %at<{COPIES}>;"],
        [*first, *(f"add.u32 %at{copy}, %at{copy - 1}, %zero;" for copy in range(1, COPIES))],
        [*joined, *(f"add.u32 %at{copy}, %at{copy}, %zero;" for copy in range(COPIES))],
    )


def copying() -> Partner:
    """With each copy, one thread issues a TMA box of BOX_BYTES; all wait for the box STAGES before, as a pipeline does.

    Each mbarrier is used twice in a round, so the parity of each use is constant.
    """
    area, barrier = "%memory+" + str(STAGES_AT), "%memory+" + str(BARRIERS_AT)
    lines = [
        [
            *mbarrier_wait(f"{barrier}+{8 * (copy % STAGES)}", 1 - copy // STAGES, str(copy)),
            f"@%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}+{8 * (copy % STAGES)}], {BOX_BYTES};",
            f"@%one {BOX}.shared::cluster.global.mbarrier::complete_tx::bytes "
            f"[{area}+{BOX_BYTES * (copy % STAGES)}], [%map, {{%zero, %zero}}], [{barrier}+{8 * (copy % STAGES)}];",
        ]
        for copy in range(COPIES)
    ]
    return Partner(
        BOX,
        lines,
        {"UTMALDG.2D": COPIES},
        registers=[".reg .pred %one, %done;", ".reg .u64 %map;"],
        before=[
            "setp.eq.u32 %one, %lane, 0;",
            *(f"@%one mbarrier.init.shared::cta.b64 [{barrier}+{8 * stage}], 1;" for stage in range(STAGES)),
            "fence.mbarrier_init.release.cluster;",
            "fence.proxy.async;",
            "mad.wide.u32 %map, %x, 128, %maps;",
            "fence.proxy.tensormap::generic.acquire.gpu [%map], 128;",
            "bar.sync 0, %warps;",
        ],
        after=[line for n in range(STAGES) for line in mbarrier_wait(f"{barrier}+{8 * n}", 1, f"END{n}")],
        kept=("SYNCS", "ELECT", FENCE),
        ptx="8.3",
        maps=(packed_map("UINT8", (128, 256), (128, BOX_BYTES // 128)),),
    )


def partners(instruction: Instruction) -> list[Partner]:
    """What an instruction is timed with; empty unless it is one of `overlapped()`."""
    if instruction.id not in overlapped_ids():
        return []
    wide = instruction.threads == WARPGROUP
    return [arithmetic(WIDE_ARITHMETIC), copying()] if wide else [loading(), arithmetic(ARITHMETIC)]


def overlapped_ids() -> list[str]:
    """Ids of the instructions that are timed with a partner."""
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


def combined_loop(multiply: Loop, partner: Partner, loops: OverlapPart) -> Loop:
    """The loop of a multiply and its partner, or of one of them alone.

    `multiply_loop.body` may begin with lines of the round; the rest is the same number of lines for each copy.
    """
    lines = [
        line
        for copy in range(COPIES)
        for group in (
            _copy(multiply, copy) if loops != "second" else [],
            partner.lines[copy] if loops != "first" else [],
        )
        for line in group
    ]
    head = multiply.body[: len(multiply.body) % COPIES] if loops != "second" else []
    return Loop(
        multiply.subject,
        f"{loops}.{partner.name}",
        multiply.target.at_least(partner.ptx),
        COPIES,
        [*head, *lines, *(partner.end if loops != "first" else [])],
        [*multiply.loaded, *partner.loaded],
        [*multiply.results, *partner.results],
        [*multiply.registers, *partner.registers],
        [*multiply.before, *partner.before],
        [*multiply.after, *(partner.after if loops != "first" else [])],
        multiply.wide,
        multiply.threads,
        shared=True,
        mapped=bool(partner.maps),
    )


def _copy(loop: Loop, copy: int) -> list[str]:
    head = len(loop.body) % COPIES
    each = len(loop.body) // COPIES
    return list(loop.body[head + copy * each : head + (copy + 1) * each])


def runs(instruction: Instruction, multiply: Loop, timed_block: TimedBlock) -> dict[str, Run]:
    """For each partner, the pair and both alone."""
    return {
        f"{part}.{partner.name}": Run(
            combined_loop(multiply, partner, part).kernel(),
            [timed_block],
            partner.maps,
            zeros() if partner.maps else None,
        )
        for partner in partners(instruction)
        for part in PARTS
    }


def zeros() -> Bytes:
    """The input that tensor maps describe."""
    return np.zeros((1, INPUT_BYTES), np.uint8)


def overlaps(
    instruction: Instruction, proved: ProvedNumbers, each: Mapping[str, int], around: Mapping[str, int]
) -> dict[str, Overlap]:
    """By partner, the overlap; only where all three loops have the expected opcodes.

    `each` counts the opcodes of one copy of the multiply, `around` those of the rest of its loop.
    """
    by_partner = {}
    own = {opcode: COPIES * n for opcode, n in each.items()}
    for partner in partners(instruction):
        expected = {"both": {**own, **partner.opcodes}, "first": own, "second": partner.opcodes}
        cycles = []
        for part in PARTS:
            variant = f"{part}.{partner.name}"
            beside = {**(around if part != "second" else {}), **_kept_opcodes(proved.each(variant), partner)}
            cycles.append(proved.cycles_of_round(variant, expected[part], beside, COPIES))
        if all(times is not None for times in cycles):
            together, *alone = (round(float(times[0]), DECIMALS) for times in cycles if times is not None)
            by_partner[partner.name] = Overlap(
                alone, together, WARPS if instruction.threads == WARP else WARPGROUP // WARP
            )
    return by_partner


def _kept_opcodes(loop_opcodes: Mapping[str, int], partner: Partner) -> Mapping[str, int]:
    """The opcodes of a loop that its partner needs besides its own."""
    return {opcode: n for opcode, n in loop_opcodes.items() if opcode.startswith(partner.kept)}


def rows() -> list[Instruction]:
    """The instructions that are timed with a partner."""
    return [inventory.instructions()[id_] for id_ in overlapped_ids()]
