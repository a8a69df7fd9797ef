"""Loops of warp-level multiplies: chains through each operand, independent chains, and a single copy for comparison.

- c1, c2, c4, c8: so many chains D = A B + D, side by side. c1 is also the chain through C
- a, b: the next multiply takes D's registers as A or B, as many as it has; their values do not matter. wmma is two
  opcodes: the D of one goes to A or B, the D of the other to C
- once: a loop with one copy, which shows what a copy becomes

With `changed`, every copy first XORs A and B with a zero that comes from memory: otherwise the compiler would convert
the inputs of an emulated form once, before the loop. In the other loops a round consists of COPIES multiplies alone. At
its end the compiler waits for all results (some 20 cycles), which counts only if one warp runs; COPIES makes it small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.native import is_native, tensor
from tcprobe.isa.operand import ACCUMULATORS, FACTORS, Role
from tcprobe.probes import cost_overlap, ptx
from tcprobe.probes.cost import DECIMALS, KIND, Costs, OfRow, ProvedNumbers, Run
from tcprobe.probes.experiment import Context, Readout
from tcprobe.probes.proof import MOVES, Counts, Seen
from tcprobe.probes.timing import RANDOM, Loop, TimedBlock, threads_for
from tcprobe.store.kinds.cost import Body, Point

__all__ = ("KIND", "experiments")
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
Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Chained:
    """`chains` side by side through operand `through`: "c", "a" or "b"."""

    row: Instruction
    through: str = "c"
    chains: int = 1
    copies: int = COPIES
    changed: bool = False

    @property
    def variant(self) -> str:
        """The loop's name."""
        shape = "once" if self.copies == 1 else self.through + (str(self.chains) if self.through == "c" else "")
        return shape + ("_changed" if self.changed else "")

    @property
    def registers(self) -> int:
        """32-bit registers of all operands."""
        inputs = sum(ptx.thread_bytes(f) // 4 for f in self.row.given if f.operand != "c")
        c, d = (ptx.thread_bytes(self.row.fragment(o)) // 4 for o in ACCUMULATORS)
        return inputs + self.chains * d + (0 if c == d and self.through == "c" else c)

    @property
    def _spare(self) -> int:
        """Most registers that an emulated form takes for itself."""
        return EMULATION if may_be_emulated(self.row) else 0

    @property
    def fits(self) -> bool:
        """Whether a thread has enough registers."""
        return self.registers <= MOST_REGISTERS

    @property
    def threads(self) -> int:
        """Most threads of a block."""
        return threads_for(self.registers + self._spare)

    def blocks(self) -> list[TimedBlock]:
        """Chains through C in blocks of every number of warps; the others in one warp."""
        if self.through != "c" or self.copies == 1:
            return [TimedBlock(WARP)]
        warps = [n for n in WARPS if n * WARP <= self.threads]
        random = [TimedBlock(warps[-1] * WARP, RANDOM)] if self.chains == RANDOM_CHAINS else []
        return [*(TimedBlock(n * WARP) for n in warps), *random]

    def loop(self) -> Loop:
        """The loop to be timed."""
        results = [name for chain in range(self.chains) for name in self._names("d", chain)]
        return Loop(
            self.row.id,
            self.variant,
            self.row.target,
            self.copies,
            [line for copy in range(self.copies) for line in self._copy(copy % self.chains)],
            [*(name for f in self._plain for name in self._own(f)), *results],
            results,
            self._declarations(),
            self._before(),
            wide=frozenset(n for n in self._all if self._wide),
            threads=self.threads,
        )

    @property
    def _plain(self) -> list[Fragment]:
        """Inputs that are matrices: factors and accumulator."""
        return [f for f in self.row.given if f.role in (Role.FACTOR, Role.ACCUMULATOR)]

    @property
    def _others(self) -> list[Fragment]:
        return [f for f in self.row.given if f not in self._plain]

    @property
    def _wide(self) -> bool:
        return self.row.fragment("d").register_bits == 64

    @property
    def _all(self) -> list[str]:
        return [
            *(n for f in self._plain for n in self._own(f)),
            *(n for c in range(self.chains) for n in self._names("d", c)),
        ]

    def _own(self, fragment: Fragment) -> list[str]:
        return [f"%{fragment.operand}{j}" for j in range(fragment.registers)]

    def _names(self, operand: str, chain: int) -> list[str]:
        count = self.row.fragment(operand).registers
        return [f"%d{chain}_{j}" for j in range(count)]

    def _declarations(self) -> list[str]:
        return [ptx.declare(f.operand, f) for f in self._others]

    def _before(self) -> list[str]:
        """Metadata and scales, from values that the compiler does not know."""
        words = [(f, METADATA if f.role is Role.METADATA else f.one * 0x01010101) for f in self._others]
        return [f"xor.b32 %{f.operand}0, %zero, {word:#x};" for f, word in words]

    def _copy(self, chain: int) -> list[str]:
        """One multiply, and what changes before it."""
        results = self._names("d", chain)
        operands = {f.operand: self._own(f) for f in self._plain}
        folded = self._feed(operands, results)
        changes = [name for f in self.row.factors for name in operands[f.operand] if name not in results]
        changed = [f"xor.b32 {name}, {name}, %zero;" for name in changes if self.changed]
        return [*changed, *folded, f"{self.row.name} {operand_text(self.row, {**operands, 'd': results})};"]

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


def operand_text(instruction: Instruction, register_names: Names) -> str:
    """The operands as PTX writes them, with the registers of `register_names`."""
    return ", ".join(
        f"{{{', '.join(register_names[f.operand])}}}" if f.operand in register_names else ptx.operand(f, 0)
        for f in instruction.spelled
    )


def loops(instruction: Instruction) -> list[Chained]:
    """All loops of a multiply; `changed` ones too if some arch emulates it."""
    return [
        chained
        for changed in ((False, True) if may_be_emulated(instruction) else (False,))
        for chained in _loops(instruction, changed)
        if chained.fits
    ]


def _loops(instruction: Instruction, changed: bool) -> list[Chained]:
    copies = round_of(instruction)
    return [
        Chained(instruction, copies=1, changed=changed),
        *(Chained(instruction, chains=n, copies=copies, changed=changed) for n in CHAINS),
        *(Chained(instruction, through, copies=copies, changed=changed) for through in ("a", "b")),
    ]


def round_of(instruction: Instruction) -> int:
    """Copies in a round: few if each may be many opcodes, or if ptxas spills in long rounds."""
    if may_be_emulated(instruction):
        return EMULATED_COPIES
    return WIDE_COPIES if instruction.type("d") == "f64" else COPIES


def may_be_emulated(instruction: Instruction) -> bool:
    """Whether some arch emulates the form: its code prepares the inputs before it multiplies."""
    a = instruction.type("a")
    return (a in ("e4m3", "e5m2", "s4", "u4", "b1") and not instruction.kind) or instruction.products > 1


class MultiplyCosts(OfRow, Costs):
    """Latency by operand, interval by warps and chains, and overlap with other instructions."""

    def runs(self) -> dict[str, Run]:
        """Every loop by name; independent chains with every number of warps."""
        first = Chained(self.row, chains=OVERLAPPED_CHAINS, copies=cost_overlap.COPIES)
        pairs = cost_overlap.runs(self.row, first.loop(), TimedBlock(cost_overlap.WARPS * WARP))
        return {chained.variant: Run(chained.loop().kernel(), chained.blocks()) for chained in loops(self.row)} | pairs

    def conclude(self, reading: Readout, context: Context) -> Body:
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
    native = is_native(instruction, tensor(each))
    latency = _latency(instruction, proved, points, end)
    if not points:
        if not native and not changed:  # then the loops with `changed` count
            return Body(opcodes=dict(each), spread=0.0, emulated=True)
        raise ProbeError(next(iter(proved.refused.values())))
    best = interval(points)
    return Body(
        opcodes={o: float(n) for o, n in each.items()},
        spread=proved.spread,
        emulated=not native,
        latency=latency,
        at_most=_upper_bounds(instruction, proved, latency, native, end),
        interval=best,
        curve=points,
        one_warp=min(p.cycles for p in points if p.warps == 1),
        macs_per_cycle=round(instruction.triples / best.cycles, 1),
        random=random,
        mhz=proved.mhz,
        overlap=cost_overlap.overlaps(instruction, proved, each, {}),
        refused={k: v for k, v in proved.refused.items() if k in _chain_names(end)},
    )


def _latency(instruction: Instruction, proved: ProvedNumbers, points: Sequence[Point], end: str) -> dict[str, float]:
    """Cycles from each operand to D, where its chain is proved."""
    each, copies = proved.each(f"once{end}"), round_of(instruction)
    latency = {
        o: float(cycles[0]) for o in ("a", "b") if (cycles := proved.cycles_of_copy(o + end, copies, each)) is not None
    }
    if "c1" + end not in proved.refused and points:
        latency["c"] = next(p.cycles for p in points if (p.warps, p.chains) == (1, 1))
    return latency


def _upper_bounds(
    instruction: Instruction, proved: ProvedNumbers, latency: Mapping[str, float], native: bool, end: str
) -> list[str]:
    """The operands whose latency is an upper bound: moves are in the chain, or C is added by an ordinary addition."""
    codes = {o: proved.code((f"{o}1" if o == "c" else o) + end) for o in latency}
    bounds = {o for o, code in codes.items() if native and _has_moves(code, round_of(instruction))}
    if instruction.type("c") != instruction.type("d"):  # the rest of D goes to C, through a conversion
        bounds |= {o for o in FACTORS if latency.get(o, inf) <= latency.get("c", 0)}
    if not native and latency.get("c", 0) < min((latency[o] for o in latency if o != "c"), default=0):
        bounds.add("c")
    return sorted(bounds)


def _chain_names(end: str) -> list[str]:
    return [name + end for name in ("a", "b", *(f"c{n}" for n in CHAINS))]


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


def _has_moves(counted: Seen, copies: int) -> bool:
    """Whether the loop moves registers for every copy."""
    return sum(n for opcode, n in counted.loop.items() if MOVES.match(opcode)) >= copies


def experiments() -> list[MultiplyCosts]:
    """One experiment for each warp-level multiply with all matrices in registers."""
    rows = inventory.executed_by(WARP)
    return [MultiplyCosts(row) for row in rows if row.multiplies_registers]
