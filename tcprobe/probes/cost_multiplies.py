"""Loops of warp-level multiplies: chains through each operand, independent chains, and a single copy for comparison.

- c1, c2, c4, c8: so many chains D = A B + D, side by side. c1 is also the chain through C
- a, b: the next multiply takes D's registers as A or B, as many as it has; their values do not matter. wmma is two
  opcodes: the D of one goes to A or B, the D of the other to C
- once: a loop with one copy, which shows what a copy becomes

With `changed`, every copy first XORs A and B with a zero that comes from memory: otherwise the compiler would convert
the inputs of an emulated form once, before the loop. In the other loops a round consists of COPIES multiplies alone. At
its end the compiler waits for all results (some 20 cycles), which counts only if one warp runs; COPIES makes it small.

Pairs that kernels overlap are timed too: a multiply with a move or with f32 arithmetic; both together, and each alone.

    hidden = (first alone + second alone - both) / the shorter of the two

Each multiply of a warp goes with ARITHMETIC f32 instructions or an ldmatrix, each multiply of a warpgroup with
WIDE_ARITHMETIC of them or a TMA box. Up to four warpgroup multiplies are in flight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, WARPGROUP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, is_native, tensor_opcodes
from tcprobe.isa.operand import ACCUMULATORS, FACTORS, Role
from tcprobe.probes import ptx, timing
from tcprobe.probes.experiment import Context, FormDialogue, Readout
from tcprobe.probes.timing import (
    DECIMALS,
    MOVES,
    RANDOM,
    Costs,
    Counts,
    ProvedNumbers,
    Run,
    TimedBlock,
    TimedLoop,
    threads_for,
)
from tcprobe.references.shared_memory.tensor_map import TensorMap, packed_map
from tcprobe.store.kinds.cost import Body, Overlap, Point

KIND = timing.KIND
PAIR_COPIES = 8
PAIR_WARPS = 8
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

    `loaded` and `results` are registers as in `TimedLoop`. `opcodes`: what a round must have of it in machine code;
    `kept`: prefixes of other opcodes that it needs, such as waits. `ptx`: the PTX version it needs. `maps` describe
    tensors in the input.
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
    results = [f"%f{j}" for j in range(PAIR_COPIES)]
    lines = [f"fma.rn.f32 %f{j % PAIR_COPIES}, %f{j % PAIR_COPIES}, %g, %h;" for j in range(count)]
    return Partner(FMA, [lines] * PAIR_COPIES, {"FFMA": PAIR_COPIES * count}, ["%g", "%h", *results], results)


def loading() -> Partner:
    """An ldmatrix.x4 with each copy; what it loads is consumed."""
    registers = [", ".join(f"%l{4 * copy + j}" for j in range(4)) for copy in range(PAIR_COPIES)]
    lines = [
        [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{names}}}, [%at{copy}];"] for copy, names in enumerate(registers)
    ]
    first = [f"mad.lo.u32 %at0, %from, 16, {BASE};"]
    joined = [f"xor.b32 %joined, %joined, %l{j};" for j in range(4 * PAIR_COPIES)]
    return Partner(
        LOAD,
        lines,
        {"LDSM.16.M88.4": PAIR_COPIES},
        ["%joined"],
        ["%joined"],
        [f".reg .b32 %l<{4 * PAIR_COPIES}>;", f".reg .u32 %at<{PAIR_COPIES}>;"],
        [*first, *(f"add.u32 %at{copy}, %at{copy - 1}, %zero;" for copy in range(1, PAIR_COPIES))],
        [*joined, *(f"add.u32 %at{copy}, %at{copy}, %zero;" for copy in range(PAIR_COPIES))],
    )


def copying() -> Partner:
    """With each copy, one thread issues a TMA box of BOX_BYTES; all wait for the box STAGES before, as a pipeline does.

    Each mbarrier is used twice in a round, so the parity of each use is constant.
    """
    area, barrier = "%memory+" + str(STAGES_AT), "%memory+" + str(BARRIERS_AT)
    lines = [
        [
            *timing.PTX.mbarrier_wait(f"{barrier}+{8 * (copy % STAGES)}", 1 - copy // STAGES, str(copy)),
            f"@%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}+{8 * (copy % STAGES)}], {BOX_BYTES};",
            f"@%one {BOX}.shared::cluster.global.mbarrier::complete_tx::bytes "
            f"[{area}+{BOX_BYTES * (copy % STAGES)}], [%map, {{%zero, %zero}}], [{barrier}+{8 * (copy % STAGES)}];",
        ]
        for copy in range(PAIR_COPIES)
    ]
    return Partner(
        BOX,
        lines,
        {"UTMALDG.2D": PAIR_COPIES},
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
        after=[line for n in range(STAGES) for line in timing.PTX.mbarrier_wait(f"{barrier}+{8 * n}", 1, f"END{n}")],
        kept=("SYNCS", "ELECT", FENCE),
        ptx="8.3",
        maps=(packed_map("UINT8", (128, 256), (128, BOX_BYTES // 128)),),
    )


def partners(instruction: Instruction) -> list[Partner]:
    """What an instruction is timed with; empty unless it is one of `overlapped_ids()`."""
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


def combined_loop(multiply: TimedLoop, partner: Partner, loops: OverlapPart) -> TimedLoop:
    """The loop of a multiply and its partner, or of one of them alone.

    `multiply.body` may begin with lines of the round; the rest is the same number of lines for each copy.
    """
    each, head = divmod(len(multiply.body), PAIR_COPIES)
    lines = list(multiply.body[:head]) if loops != "second" else []
    for copy in range(PAIR_COPIES):
        lines += multiply.body[head + copy * each : head + (copy + 1) * each] if loops != "second" else []
        lines += partner.lines[copy] if loops != "first" else []
    return replace(
        multiply,
        variant=f"{loops}.{partner.name}",
        target=multiply.target.at_least(partner.ptx),
        copies=PAIR_COPIES,
        body=[*lines, *(partner.end if loops != "first" else [])],
        loaded=[*multiply.loaded, *partner.loaded],
        results=[*multiply.results, *partner.results],
        registers=[*multiply.registers, *partner.registers],
        before=[*multiply.before, *partner.before],
        after=[*multiply.after, *(partner.after if loops != "first" else [])],
        shared=True,
        mapped=bool(partner.maps),
    )


def runs(instruction: Instruction, multiply: TimedLoop, timed_block: TimedBlock) -> dict[str, Run]:
    """For each partner, the pair and both alone."""
    return {
        f"{part}.{partner.name}": combined_loop(multiply, partner, part).run(
            [timed_block], partner.maps, np.zeros((1, INPUT_BYTES), np.uint8) if partner.maps else None
        )
        for partner in partners(instruction)
        for part in PARTS
    }


def overlaps(
    instruction: Instruction, proved: ProvedNumbers, each: Mapping[str, int], around: Mapping[str, int]
) -> dict[str, Overlap]:
    """By partner, the overlap; only where all three loops have the expected opcodes.

    `each` counts the opcodes of one copy of the multiply, `around` those of the rest of its loop.
    """
    by_partner = {}
    own = {opcode: PAIR_COPIES * n for opcode, n in each.items()}
    for partner in partners(instruction):
        expected = {"both": {**own, **partner.opcodes}, "first": own, "second": partner.opcodes}
        cycles = []
        for part in PARTS:
            variant = f"{part}.{partner.name}"
            kept = {opcode: n for opcode, n in proved.each(variant).items() if opcode.startswith(partner.kept)}
            beside = {**(around if part != "second" else {}), **kept}
            cycles.append(proved.cycles_of_round(variant, expected[part], beside, PAIR_COPIES))
        if all(times is not None for times in cycles):
            together, *alone = (round(float(times[0]), DECIMALS) for times in cycles if times is not None)
            by_partner[partner.name] = Overlap(
                alone, together, PAIR_WARPS if instruction.threads == WARP else WARPGROUP // WARP
            )
    return by_partner


def rows() -> list[Instruction]:
    """The instructions that are timed with a partner."""
    return [inventory.instructions()[id_] for id_ in overlapped_ids()]


COPIES = 128
WIDE_COPIES = 32  # of f64
EMULATED_COPIES = 16  # of forms that some arch emulates: a copy may be many opcodes, or a call
CHAINS = (1, 2, 4, 8)
WARPS = (1, 4, 8, 16, 32)
OVERLAPPED_CHAINS = 4
RANDOM_CHAINS = 2  # these are timed with random inputs too
CLOSE = 0.01  # points of a curve that count as equal
METADATA = 0x44444444  # legal for every type
EMULATION = 150  # registers that an emulated form may take
MOST_REGISTERS = 224  # of a thread: more would spill


@dataclass(frozen=True)
class ChainLoop:
    """`chains` side by side through operand `through`: "c", "a" or "b"."""

    row: Instruction
    through: str = "c"
    chains: int = 1
    copies: int = COPIES
    changed: bool = False

    @property
    def variant(self) -> str:
        shape = "once" if self.copies == 1 else self.through + (str(self.chains) if self.through == "c" else "")
        return shape + ("_changed" if self.changed else "")

    @property
    def registers(self) -> int:
        """32-bit registers of all operands."""
        inputs = sum(ptx.thread_bytes(f) // 4 for f in self.row.given if f.operand != "c")
        c, d = (ptx.thread_bytes(self.row.fragment(o)) // 4 for o in ACCUMULATORS)
        return inputs + self.chains * d + (0 if c == d and self.through == "c" else c)

    @property
    def threads(self) -> int:
        """Most threads of a block."""
        return threads_for(self.registers + (EMULATION if may_be_emulated(self.row) else 0))

    def blocks(self) -> list[TimedBlock]:
        """Chains through C in blocks of every number of warps; the others in one warp."""
        if self.through != "c" or self.copies == 1:
            return [TimedBlock(WARP)]
        warps = [n for n in WARPS if n * WARP <= self.threads]
        random = [TimedBlock(warps[-1] * WARP, RANDOM)] if self.chains == RANDOM_CHAINS else []
        return [*(TimedBlock(n * WARP) for n in warps), *random]

    def loop(self) -> TimedLoop:
        results = [name for chain in range(self.chains) for name in self._names("d", chain)]
        # metadata and scales are values that the compiler does not know
        others = [f for f in self.row.given if f not in self._plain]
        hidden = [(f, METADATA if f.role is Role.METADATA else f.one * 0x01010101) for f in others]
        loaded = [*(name for f in self._plain for name in self._own(f)), *results]
        return TimedLoop(
            self.row.id,
            self.variant,
            self.row.target,
            self.copies,
            [line for copy in range(self.copies) for line in self._copy(copy % self.chains)],
            loaded,
            results,
            [ptx.declare(f.operand, f) for f in others],
            [f"xor.b32 %{f.operand}0, %zero, {word:#x};" for f, word in hidden],
            wide=frozenset(loaded if self.row.fragment("d").register_bits == 64 else ()),
            threads=self.threads,
        )

    @property
    def _plain(self) -> list[Fragment]:
        """Inputs that are matrices: factors and accumulator."""
        return [f for f in self.row.given if f.role in (Role.FACTOR, Role.ACCUMULATOR)]

    def _own(self, fragment: Fragment) -> list[str]:
        return [f"%{fragment.operand}{j}" for j in range(fragment.registers)]

    def _names(self, operand: str, chain: int) -> list[str]:
        return [f"%d{chain}_{j}" for j in range(self.row.fragment(operand).registers)]

    def _copy(self, chain: int) -> list[str]:
        """One multiply, and what changes before it."""
        results = self._names("d", chain)
        operands = {f.operand: self._own(f) for f in self._plain}
        folded = self._feed(operands, results)
        changes = [name for f in self.row.factors for name in operands[f.operand] if name not in results]
        changed = [f"xor.b32 {name}, {name}, %zero;" for name in changes if self.changed]
        written = {name: f"{{{', '.join(registers)}}}" for name, registers in {**operands, "d": results}.items()}
        text = ", ".join(written.get(f.operand) or ptx.operand(f, 0) for f in self.row.spelled)
        return [*changed, *folded, f"{self.row.name} {text};"]

    def _feed(self, operand_registers: dict[str, list[str]], result_registers: list[str]) -> list[str]:
        """Replace registers in `operand_registers` by D's; returns PTX that this needs.

        All of D's registers are used if the form may become several opcodes.
        """
        own, c = operand_registers[self.through], operand_registers["c"]
        if self.through == "c":
            operand_registers["c"] = [result_registers[j % len(result_registers)] for j in range(len(c))]
            return [
                f"xor.b32 {operand_registers['c'][j % len(c)]}, {operand_registers['c'][j % len(c)]}, {name};"
                for j, name in enumerate(result_registers)
                if j >= len(c)
            ]
        emulated = may_be_emulated(self.row)
        whole = self.row.family == "wmma" and not emulated
        half = max(1, len(result_registers) // 2) if self.row.family == "wmma" else len(result_registers)
        count = min(len(own), half)
        operand_registers[self.through] = [*result_registers[:count], *own[count:]]
        rest = result_registers[half if whole else count :] if whole or emulated else []
        if len(c) >= len(rest):
            operand_registers["c"] = [*c[: len(c) - len(rest)], *rest]
        return []


def loops(instruction: Instruction) -> list[ChainLoop]:
    """All loops of a multiply; `changed` ones too if some arch emulates it."""
    copies = round_of(instruction)
    kinds = [("c", 1, 1), *(("c", n, copies) for n in CHAINS), ("a", 1, copies), ("b", 1, copies)]
    emulated = (False, True) if may_be_emulated(instruction) else (False,)
    every = [ChainLoop(instruction, *kind, changed) for changed in emulated for kind in kinds]
    return [chained for chained in every if chained.registers <= MOST_REGISTERS]


def round_of(instruction: Instruction) -> int:
    """Copies in a round: few if each may be many opcodes, or if ptxas spills in long rounds."""
    if may_be_emulated(instruction):
        return EMULATED_COPIES
    return WIDE_COPIES if instruction.type("d") == "f64" else COPIES


def may_be_emulated(instruction: Instruction) -> bool:
    """Whether some arch emulates the form: its code prepares the inputs before it multiplies."""
    a = instruction.type("a")
    return (a in ("e4m3", "e5m2", "s4", "u4", "b1") and not instruction.kind) or instruction.products > 1


class MultiplyCosts(FormDialogue, Costs):
    """Latency by operand, interval by warps and chains, and overlap with other instructions."""

    def runs(self) -> dict[str, Run]:
        """Every loop by name; independent chains with every number of warps."""
        first = ChainLoop(self.row, chains=OVERLAPPED_CHAINS, copies=PAIR_COPIES)
        pairs = runs(self.row, first.loop(), TimedBlock(PAIR_WARPS * WARP))
        return {chained.variant: chained.loop().run(chained.blocks()) for chained in loops(self.row)} | pairs

    def found(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError if no loop's machine code is as expected."""
        plain = body(self.row, ProvedNumbers(reading), changed=False)
        if not may_be_emulated(self.row) or not plain.emulated:
            return plain
        return body(self.row, ProvedNumbers(reading), changed=True)


def body(instruction: Instruction, proved: ProvedNumbers, changed: bool) -> Body:
    """The body from the loops without `changed`, or from those with it."""
    end = "_changed" if changed else ""
    each = proved.each(f"once{end}")
    points, random = _curve(instruction, proved, each, end)
    native = is_native(instruction, tensor_opcodes(each))
    copies = round_of(instruction)
    chained = {o: proved.cycles_of_copy(o + end, copies, each) for o in FACTORS}
    latency = {o: float(cycles[0]) for o, cycles in chained.items() if cycles is not None}
    if "c1" + end not in proved.refused and points:
        latency["c"] = next(p.cycles for p in points if (p.warps, p.chains) == (1, 1))
    if not points:
        if not native and not changed:  # then the loops with `changed` count
            return Body(opcodes=dict(each), spread=0.0, emulated=True)
        raise proved.refusal()
    best, named = interval(points), [name + end for name in ("a", "b", *(f"c{n}" for n in CHAINS))]
    return proved.body(
        each,
        emulated=not native,
        latency=latency,
        at_most=_upper_bounds(instruction, proved, latency, native, end),
        interval=best,
        curve=points,
        one_warp=min(p.cycles for p in points if p.warps == 1),
        macs_per_cycle=round(instruction.triples / best.cycles, 1),
        random=random,
        overlap=overlaps(instruction, proved, each, {}),
        refused={k: v for k, v in proved.refused.items() if k in named},
    )


def _upper_bounds(
    instruction: Instruction, proved: ProvedNumbers, latency: Mapping[str, float], native: bool, end: str
) -> list[str]:
    """The operands whose latency is an upper bound: moves are in the chain, or C is added by an ordinary addition."""
    codes = {o: proved.code((f"{o}1" if o == "c" else o) + end) for o in latency}
    moves = {o: sum(n for opcode, n in code.loop.items() if MOVES.match(opcode)) for o, code in codes.items()}
    bounds = {o for o, count in moves.items() if native and count >= round_of(instruction)}
    if instruction.type("c") != instruction.type("d"):  # the rest of D goes to C, through a conversion
        bounds |= {o for o in FACTORS if latency.get(o, inf) <= latency.get("c", 0)}
    if not native and latency.get("c", 0) < min((latency[o] for o in latency if o != "c"), default=0):
        bounds.add("c")
    return sorted(bounds)


def _curve(instruction: Instruction, proved: ProvedNumbers, each: Counts, end: str) -> tuple[list[Point], float | None]:
    """(cycles of an SM by chains and warps; cycles with random inputs relative to zeros)."""
    points: list[Point] = []
    random = None
    for chained in loops(instruction):
        if chained.through != "c" or chained.copies == 1 or chained.variant != f"c{chained.chains}{end}":
            continue
        cycles = proved.cycles_of_copy(chained.variant, chained.copies, each)
        blocks = chained.blocks()
        for block, value in zip(blocks, [] if cycles is None else cycles.tolist(), strict=False):
            if block.image == RANDOM:
                random = round(value / points[-1].cycles / points[-1].warps, 3)
            else:
                warps = block.threads // WARP
                points.append(Point(round(value / warps, DECIMALS), warps, chained.chains))
    return points, random


def interval(points: Sequence[Point]) -> Point:
    """The best point: of those within CLOSE of the least, the one with the fewest chains in all, then warps."""
    least = min(point.cycles for point in points)
    near = [point for point in points if point.cycles <= least * (1 + CLOSE)]
    return min(near, key=lambda point: (point.warps * point.chains, point.warps))


def experiments() -> list[MultiplyCosts]:
    """One experiment for each warp-level multiply with all matrices in registers."""
    rows = inventory.executed_by(WARP)
    return [MultiplyCosts(row) for row in rows if row.multiplies_registers]
