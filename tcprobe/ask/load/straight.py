"""A fragment straight from global memory: the widest loads that its table and the leading dimension allow.

>>> from tcprobe.ask.load import load
>>> found = load("mma.m16n8k16.row.col.f32.f16.f16.f32.a", ld=64, arch="sm_90")
>>> [(move.instruction, move.slots) for move in found.moves][:2], len(found.moves)
([('ld.global.b32', (0,)), ('ld.global.b32', (4,))], 4)

Slots whose elements lie side by side in every lane make one load of 1, 2, 4, 8 or 16 bytes, in whatever registers they
are; slots whose distances differ from lane to lane are loaded one by one. Proven by doing it, on every slot.
`source` has them as a CUDA device function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcprobe import __version__
from tcprobe.ask.banks.accesses import Slots, Tile, slots_of
from tcprobe.ask.confidence import ConfidenceAnswer, least, line
from tcprobe.ask.path.formula import formula
from tcprobe.ask.path.plan import MOST_LD
from tcprobe.ask.path.steps import NOTHING, Memory, vector
from tcprobe.ask.plan_cost import CyclesAnswer, PlanCycles, cycle_lines
from tcprobe.code.cuda import holder, of_holder, once, origin
from tcprobe.code.names import identifier
from tcprobe.errors import InternalError, UsageError, check_choice
from tcprobe.isa.arch import WARP
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.arrays import Ints
from tcprobe.question.answers import Answer, plain
from tcprobe.store.cell import Cell
from tcprobe.text import Described, Whole, columns, comment, escaped
from tcprobe.values import Json

if TYPE_CHECKING:
    pass


MOST = 16  # bytes of a load
SECTOR = 32  # bytes of global memory that are fetched together


class Move(NamedTuple):
    """One load: `width` bytes of each lane to the slots in `order` of memory; `line`, `byte` of shape (32,).

    `slots` are the first of each of its pieces, runs of `run` slots.
    """

    instruction: str
    width: int
    line: Ints
    byte: Ints
    order: tuple[int, ...]
    run: int

    @property
    def slots(self) -> tuple[int, ...]:
        """The first slot of each piece."""
        return self.order[:: self.run]


class LoadIssue(Answer):
    """One load: by lane its byte offset, the bytes of a lane, and the slots (row, col of the fragment, i) it fills."""

    global_: list[int]
    bytes: int
    slots: list[tuple[int, int, int]]


class LoadStep(Answer):
    """All loads of one width."""

    kind: str
    instruction: str
    sectors: int
    least: int
    cycles: CyclesAnswer
    issues: list[LoadIssue]


class LoadFormula(Answer):
    """In lane and issue, the number of the load; null where there is no closed form."""

    line: str | None
    byte: str | None


class LoadAnswer(Answer):
    """The widest loads of a fragment, step by step."""

    fragment: str
    arch: str
    type: str
    global_: str
    ld: int
    proven: bool
    steps: list[LoadStep]
    formula: LoadFormula
    evidence: list[str]
    confidence: ConfidenceAnswer


@dataclass(frozen=True, repr=False)
class StraightLoad(Described):
    """`moves` bring a fragment's every slot; the matrix has lines of `ld` elements."""

    cell: Cell
    tile: Tile
    ld: int
    moves: tuple[Move, ...]

    @property
    def in_words(self) -> Iterator[str]:
        """The matrix, each load with the slots that it fills, the addresses, the proof."""
        tile, name = self.tile, self.cell.fragment.id
        yield (
            f"{name}: {tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous, "
            f"{self.ld_bytes} bytes apart"
        )
        if self.cell.fragment.container:
            yield self.cell.fragment.container
        yield from columns([("issue", "instruction", "slots i", "sectors", "least"), *self._counts()], 2)
        yield from (f"cycles, {text}" for text in cycle_lines(self.cycles))
        for where, text in zip(("line", "byte in it"), self.formulas, strict=True):
            yield Whole(f"  {where:<11} {text or 'no closed form; --json has them all'}")
        yield f"proven: all {self.cell.table.points} slots' elements arrive at their places"
        yield escaped(f"{name} on {self.cell.arch}: {self.cell.evidence}")
        yield line(least([self.cell]))

    def _counts(self) -> Iterator[tuple[str, ...]]:
        for number, move in enumerate(self.moves):
            last = move.run - 1
            slots = " ".join(f"{i}-{i + last}" if last else str(i) for i in move.slots)
            yield str(number), move.instruction, slots, str(self.sectors(move)), str(self.least(move))

    @property
    def code(self) -> str:
        """A CUDA header of it."""

        return source(self)

    @property
    def ld_bytes(self) -> int:
        """From line to line."""
        return self.ld * self.tile.bits // 8

    def addresses(self, fetch: Move) -> Ints:
        """Byte offsets of the lanes from the fragment's first element."""
        offsets: Ints = fetch.line * self.ld_bytes + fetch.byte
        return offsets

    def sectors(self, fetch: Move) -> int:
        """How many 32-byte sectors a load of all warps touches; the fragment's start is taken as aligned to them."""
        warps = self.addresses(fetch).reshape(-1, WARP)
        ends = (np.concatenate([first // SECTOR, (first + fetch.width - 1) // SECTOR]) for first in warps)
        return sum(len(np.unique(sectors)) for sectors in ends)

    def least(self, fetch: Move) -> int:
        """How many sectors its bytes would fill, each once, without a gap."""
        warps = self.addresses(fetch).reshape(-1, WARP)
        return sum(-(-len(np.unique(first)) * fetch.width // SECTOR) for first in warps)

    @property
    def cycles(self) -> dict[str, PlanCycles]:
        """Of the loads by instruction: nothing is measured of what comes from global memory."""
        names = dict.fromkeys(move.instruction for move in self.moves)
        return {name: PlanCycles(missing=("loads from global memory",)) for name in names}

    @property
    def formulas(self) -> tuple[str | None, str | None]:
        """Line, and byte in it, in lane and issue: the number of the move."""
        line, byte = (formula(np.stack([getattr(move, name) for move in self.moves])) for name in ("line", "byte"))
        return line, byte

    def to_json(self) -> Json:
        """Plain data; a step for each width, its issues in order."""
        steps: dict[str, list[Move]] = {}
        for move in self.moves:
            steps.setdefault(move.instruction, []).append(move)
        answer = LoadAnswer(
            self.cell.fragment.id,
            self.cell.arch,
            self.tile.type,
            self.tile.contiguous,
            self.ld,
            proven=True,
            steps=[
                LoadStep(
                    "global->registers",
                    name,
                    sectors=sum(map(self.sectors, moves)),
                    least=sum(map(self.least, moves)),
                    cycles=self.cycles[name].answer,
                    issues=[
                        LoadIssue(self.addresses(move).tolist(), move.width, [(0, 0, i) for i in move.slots])
                        for move in moves
                    ],
                )
                for name, moves in steps.items()
            ],
            formula=LoadFormula(*self.formulas),
            evidence=[self.cell.evidence],
            confidence=least([self.cell]).answer,
        )
        return plain(answer)


def straight_load(cell: Cell, contiguous: str, ld: int | None = None) -> StraightLoad:
    """The widest loads, proven; `ld` elements from line to line, without it lines without gaps."""
    fragment = cell.fragment
    if fragment.role not in WHOLE:
        raise UsageError(f"{fragment.id} is {fragment.role.value}, not a matrix: there is nothing to load.")
    check_choice("contiguous", contiguous, ("row", "col"))
    tile = Tile(fragment.rows, fragment.cols, fragment.type, fragment.slot_bits, contiguous)
    ld = tile.length if ld is None else ld
    if not tile.length <= ld <= MOST_LD or ld * tile.bits % 8:
        raise UsageError(f"`ld` {ld}: give at least {tile.length} elements, in whole bytes, and at most {MOST_LD}.")
    slots = slots_of(cell)
    plan = StraightLoad(cell, tile, ld, tuple(_moves(slots, tile, ld * tile.bits // 8)))
    for first in range(0, len(slots.row), WARP):
        warp = slice(first, first + WARP)
        memory = Memory(plan.tile, plan.ld_bytes, 1, 1, slots.row.shape[1])
        for move in plan.moves:
            units = memory.read_global(plan.addresses(move)[warp], move.width).reshape(WARP, len(move.order), -1)
            for number, i in enumerate(move.order):
                memory.write_registers((np.array(0), np.array(i)), units[:, number])
        expected = memory.of_elements(slots.row[warp], slots.col[warp]).reshape(WARP, -1)
        if not np.array_equal(memory.registers[0], expected):
            raise InternalError(f"the loads of {slots.name} are not proven: elements would land elsewhere.")
    return plan


def _moves(slots: Slots, tile: Tile, ld: int) -> Iterator[Move]:
    line, place = (slots.row, slots.col) if tile.contiguous == "row" else (slots.col, slots.row)
    if (line == NOTHING).any():
        raise UsageError(f"{slots.name} leaves slots unused; only whole fragments are loaded.")
    bits = line * ld * 8 + place * tile.bits
    for order in _orders(bits):
        start = 0
        while start < len(order):
            count = _count(bits[:, order[start:]], tile.bits)
            load_slots = order[start : start + count]
            width = count * tile.bits // 8
            register_bits = max(32, tile.bits)
            yield Move(
                f"ld.global.{vector(width, register_bits)}",
                width,
                line[:, load_slots[0]],
                place[:, load_slots[0]] * tile.bits // 8,
                tuple(load_slots),
                _run(load_slots),
            )
            start += count


def _orders(bit_offsets: Ints) -> list[list[int]]:
    """Slots in the order of their addresses, those with an address that another slot has in a list of their own."""
    apart = bit_offsets - bit_offsets[:, :1]
    if not (apart == apart[:1]).all():
        return [[i] for i in range(bit_offsets.shape[1])]
    by_address: dict[int, list[int]] = {}
    for i, distance in enumerate(apart[0].tolist()):
        by_address.setdefault(distance, []).append(i)
    copies = max(map(len, by_address.values()))
    return [[same[number] for _, same in sorted(by_address.items()) if number < len(same)] for number in range(copies)]


def _count(bit_offsets: Ints, size: int) -> int:
    """How many elements, from the first on, one load brings; UsageError where not even a byte is whole."""
    for width in (MOST, 8, 4, 2, 1):
        count = 8 * width // size
        side_by_side = (
            count <= bit_offsets.shape[1]
            and (bit_offsets[:, :count] == bit_offsets[:, :1] + size * np.arange(count)).all()
        )
        if count and side_by_side and not (bit_offsets[:, 0] % (8 * width)).any():
            return count
    raise UsageError(
        f"elements of {size} bits do not fill whole bytes in memory: no load fetches them.", "no whole bytes"
    )


def _run(order: Sequence[int]) -> int:
    """The longest run, a power of two, by which all of `order` is made of consecutive slots."""
    run = len(order)
    while run > 1 and any(order[n + j] != order[n] + j for n in range(0, len(order), run) for j in range(run)):
        run //= 2
    return run


def source(loads: StraightLoad) -> str:
    """The header; UsageError where addresses have no closed form."""
    cell, tile = loads.cell, loads.tile
    fragment, (line, byte) = cell.fragment, loads.formulas
    if line is None or byte is None:
        raise UsageError(f"{fragment.id}: its addresses have no closed form, so there is no code.", "no code")
    name = identifier(f"load_{fragment.id}_{tile.contiguous}_ld{loads.ld}")
    lines = [
        f"// made by tcprobe {__version__}: {fragment.id}, {tile.contiguous}s contiguous, {len(loads.moves)} loads",
        f"// {comment(origin(cell))}; its loads are proven on every slot",
        "",
        *once(_struct(loads, name)),
        "",
    ]
    return "\n".join(lines)


def _struct(loads: StraightLoad, name: str) -> list[str]:
    fragment, (line, byte) = (
        loads.cell.fragment,
        (of_holder(str(f), loads.cell.fragment.threads) for f in loads.formulas),
    )
    word = "unsigned long long" if fragment.register_bits == 64 else "unsigned"
    widest = max(move.width for move in loads.moves)
    return [
        f"struct {name} {{",
        f"  using Word = {word};",
        f"  static constexpr int REGISTERS = {fragment.registers};",
        f"  static constexpr long long LD = {loads.ld_bytes};  // bytes from line to line",
        "",
        "  /// `global`: the fragment's first element; it and `ld` are multiples of " + str(widest) + " bytes.",
        f"  /// `{holder(fragment.threads)}`: 0 to {fragment.threads - 1}",
        f"  __device__ static inline void load(const void* global, unsigned {holder(fragment.threads)}, "
        "Word (&registers)[REGISTERS], "
        "long long ld = LD) {",
        "    const char* start = static_cast<const char*>(global);",
        f"    const auto at = [=](unsigned issue) {{ return start + ({line}) * ld + ({byte}); }};",
        *(f"    Word v{number}[{_words(loads, move)}];" for number, move in enumerate(loads.moves)),
        *(f"    {_read(loads, number, move)}" for number, move in enumerate(loads.moves)),
        *(f"    registers[{number}] = {text};" for number, text in enumerate(_register_expressions(loads))),
        "  }",
        "};",
    ]


def _words(loads: StraightLoad, fetch: Move) -> int:
    return max(1, 8 * fetch.width // loads.cell.fragment.register_bits)


def _read(loads: StraightLoad, number: int, fetch: Move) -> str:
    count, wide = _words(loads, fetch), loads.cell.fragment.register_bits == 64
    letter = "l" if wide else "r"
    places = ", ".join(f"%{j}" for j in range(count))
    outputs = ", ".join(f'"={letter}"(v{number}[{j}])' for j in range(count))
    braced = f"{{{places}}}" if count > 1 else places
    return f'asm volatile("{fetch.instruction} {braced}, [%{count}];" : {outputs} : "l"(at({number})));'


def _register_expressions(loads: StraightLoad) -> Iterator[str]:
    """Every register from the pieces that were loaded."""
    bits, register_bits = loads.tile.bits, loads.cell.fragment.register_bits
    parts: dict[int, list[str]] = {}
    for number, move in enumerate(loads.moves):
        size = min(move.run * bits, register_bits)  # of a piece within one register
        for index in range(0, len(move.order), size // bits):
            register, to = divmod(move.order[index] * bits, register_bits)
            word, from_bit = divmod(index * bits, register_bits)
            parts.setdefault(register, []).append(
                _bit_expression(f"v{number}[{word}]", from_bit, to, size, register_bits)
            )
    yield from (" | ".join(parts[register]) for register in sorted(parts))


def _bit_expression(text: str, from_bit: int, to_bit: int, size: int, register_bits: int) -> str:
    """`size` bits from bit `from_bit` of a word to bit `to_bit` of a register."""
    if size == register_bits:
        return text
    text = f"{text} >> {from_bit}" if from_bit else text
    return f"({text} & {(1 << size) - 1:#x}u) << {to_bit}" if to_bit else f"({text} & {(1 << size) - 1:#x}u)"
