"""The path of a tile from global memory through shared memory into registers, or back: planned, proven, priced.

>>> from tcprobe.store.cell import load
>>> b = load("mma.m16n8k16.row.col.f32.f16.f16.f32.b", "sm_90")
>>> found = plan_path(request(b, PathOptions("64x64", "col", "sw:3,4,3", "ldmatrix.x4")))
>>> [(step.kind, step.instruction, step.wavefronts) for step in found.steps]
[('global->shared', 'cp.async.16', 64), ('shared->registers', 'ldmatrix.x4', 64)]
>>> found.steps[1].issues()[1]["slots"]
[[0, 16, 0], [0, 16, 2], [0, 24, 0], [0, 24, 2]]

A path is a chain of steps. It is proven by simulation: the units of every element, numbered in global memory, are moved
by each step's issues, and must come to the slots where the fragment's table on the arch has them; what is not proven is
no path. The same holds for the way back. Where there is no path, the error names the nearest ones: one option changed,
or two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, islice, product
from typing import Any, NamedTuple

import numpy as np

from tcprobe.ask.banks.accesses import (
    BlockBytes,
    Shared,
    Slots,
    Tile,
    TileAccess,
    box_placement,
    origins,
    parse_access,
    parse_shared,
    parse_tile,
    placed_tile,
    slots_of,
)
from tcprobe.ask.banks.patterns import BankRuleAnswer, BankRules, rules_for
from tcprobe.ask.confidence import ConfidenceAnswer, least, line
from tcprobe.ask.path.formula import AddressText, address, formula
from tcprobe.ask.path.steps import (
    GLOBAL_TO_SHARED,
    NOTHING,
    BoxCopy,
    LaneCopy,
    Memory,
    PathStep,
    RegisterCopy,
    box_copy,
    lane_copy,
    register_copy,
)
from tcprobe.ask.plan_cost import CyclesAnswer, MeasuredCosts, PlanCycles, accesses_cost, copy_cost, cycle_lines
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.operand import WHOLE, Role
from tcprobe.isa.shared_memory import access, widening
from tcprobe.isa.tensor_map import SPANS
from tcprobe.layout.banks import IDLE
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.references.shared_memory.tma import LEAST_ARCH
from tcprobe.store.cell import Cell
from tcprobe.store.kinds.tensor_maps import rests_on
from tcprobe.text import Described, Whole, columns, escaped
from tcprobe.values import Json

MOST_LD = 1 << 32  # elements
MOVES = ("ldmatrix", "stmatrix", "ld", "st")  # first parts of the names of what moves a fragment's registers
FILLS = ("cp.async", "tma", "plain")
_FILL = re.compile(r"(cp\.async|tma|plain)(?:\.(1|2|4|8|16))?")


Lanes = list[int | None]  # byte offsets by lane, null where a lane has none


class StepIssue(Answer):
    """One instruction of a step: byte offsets by lane in shared and global memory, `bytes` of a lane, [row, col, i] of
    each piece (`slots`); of a box its size and place; of what a multiply reads the descriptor, and where its start is.
    """

    warp: int | UnsetType = UNSET
    descriptor: str | UnsetType = UNSET
    box: tuple[int, int] | UnsetType = UNSET
    at: tuple[int, int] | UnsetType = UNSET
    shared: Lanes | int | UnsetType = UNSET
    global_: Lanes | UnsetType = UNSET
    bytes: int | UnsetType = UNSET
    slots: list[tuple[int, int, int]] | UnsetType = UNSET


class StepFormula(Answer):
    """Byte offsets from the tile's start in lane and issue; null where there is no closed form."""

    shared: str | UnsetType | None = UNSET
    global_: str | UnsetType | None = UNSET


class StepAnswer(Answer, kw_only=True):
    """One step; `swizzle` of boxes."""

    kind: str
    instruction: str
    ptx: tuple[str, ...]
    wavefronts: int | None
    ideal: int | None
    formula: StepFormula
    cycles: CyclesAnswer
    swizzle: str | UnsetType = UNSET
    issues: list[StepIssue]


class AdvanceAnswer(Answer):
    """How k goes on: the axis, how many steps, and by how many bytes shared and global addresses move."""

    axis: str
    steps: int
    issues: int | None
    op: str | None
    shared: tuple[int, ...]
    global_: int


class PathAnswer(Answer, kw_only=True):
    """The way of a tile, step by step; a step's fields depend on its kind. `block`, `major`, `descriptor`, `reasons`:
    of operands behind descriptors.
    """

    fragment: str
    arch: str
    tile: tuple[int, int]
    type: str
    global_: str
    ld: int
    shared: str
    pitch: int
    block: BlockBytes
    bytes: int
    alignment: int
    fill: str
    fragments: int
    registers: int
    major: str | UnsetType = UNSET
    descriptor: str | UnsetType = UNSET
    reasons: dict[str, str] | UnsetType = UNSET
    proven: bool
    needs: str | UnsetType = UNSET
    steps: list[StepAnswer]
    k: AdvanceAnswer | None
    evidence: list[str]
    confidence: ConfidenceAnswer
    rule: BankRuleAnswer


@dataclass(frozen=True)
class TileRequest:
    """A tile between global and shared memory: `ld` elements from line to line in global memory.

    `fill` is one of FILLS, perhaps with a width: cp.async.8. `boxes`: what is known of boxes of tensor maps, in words.
    """

    tile: Tile
    ld: int
    shared: Shared
    fill: str
    rules: BankRules
    boxes: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        match = _FILL.fullmatch(self.fill)
        if not match or (match[1] == "tma" and match[2]):
            raise UsageError(f"`fill` {self.fill[:30]!r} is not one of {', '.join(FILLS)}; cp.async.8 moves 8 bytes.")
        if not self.tile.length <= self.ld <= MOST_LD:
            raise UsageError(
                f"`ld` {self.ld}: lines are {self.tile.length} elements long, and at most {MOST_LD} apart."
            )
        if self.ld * self.tile.bits % 8:
            raise UsageError(
                f"`ld` {self.ld}: a line of {self.ld} elements of {self.tile.bits} bits is not whole bytes."
            )

    @property
    def loads(self) -> bool:
        """Whether the tile goes from global to shared memory."""
        return True

    @property
    def ends(self) -> tuple[str, str]:
        """What has the tile in the end, and what reaches it there."""
        raise NotImplementedError

    @property
    def ld_bytes(self) -> int:
        """Bytes from line to line in global memory."""
        return self.ld * self.tile.bits // 8

    @property
    def placed(self) -> dict[str, Any]:
        """How answers call where the tile is, and how that is filled."""
        more = {"global_": self.tile.contiguous, "ld": self.ld, "fill": self.fill, "rule": self.rules.answer}
        return placed_tile(self.tile, self.shared) | more

    @property
    def fill_kind(self) -> str:
        """cp.async, tma or plain."""
        return self.fill.removesuffix(f".{self.fill_width}")

    @property
    def fill_width(self) -> int | None:
        """Bytes that a lane is to move at a time, if they are asked for."""
        match = _FILL.fullmatch(self.fill)
        return int(match[2]) if match and match[2] else None


@dataclass(frozen=True)
class PathRequest(TileRequest):
    """On its way into the registers of a fragment, or back."""

    cell: Cell
    access: TileAccess

    def __post_init__(self) -> None:
        if self.cell.fragment.role not in WHOLE:
            role = self.cell.fragment.role.value
            raise UsageError(f"{self.cell.fragment.id} is {role}, not a matrix: there is no tile of it.")
        super().__post_init__()
        if self.move not in MOVES or self.access.order != "slots":
            raise UsageError(
                f"`access` {self.access.name} is not one of ldmatrix, stmatrix, ld.shared and st.shared, which "
                "move a fragment's registers."
            )

    @property
    def loads(self) -> bool:
        """Whether the tile goes from memory into registers."""
        return self.access.row.name.startswith("ld")

    @property
    def ends(self) -> tuple[str, str]:
        """The fragment, and the access."""
        return self.cell.fragment.id, self.access.name

    @property
    def move(self) -> str:
        """The first part of the access's name: ldmatrix, st."""
        return self.access.name.partition(".")[0]

    @property
    def warps(self) -> int:
        """Warps that share a fragment."""
        return self.cell.table.threads // WARP

    @property
    def slots(self) -> Slots:
        """The fragment's slots, of as many bits as in memory; its copies follow each other along k outermost."""
        slots = slots_of(self.cell)._replace(outer=self.cell.fragment.depth or "row")
        return slots._replace(bits=slots.bits // self.access.row.wider)

    @property
    def widens(self) -> bool:
        """Whether elements take more bits in registers than in memory."""
        return self.access.row.wider > 1

    @property
    def words(self) -> str:
        """What of it can be varied."""
        return f"`ld` {self.ld} `placed` {self.shared.spelling} `fill` {self.fill} `access` {self.access.name}"

    def having(self, access: str | None = None, **changed: object) -> PathRequest:
        """This request with other options."""
        if access:
            changed["access"] = parse_access(access)
        return replace(self, **changed)  # type: ignore[arg-type]


OptionChange = tuple[str, dict[str, object]]  # as an option, and as a change of the request
MOST = 3


def nearest(kinds: Sequence[Sequence[OptionChange]], makes: Callable[[dict[str, object]], object]) -> str:
    """Up to MOST ways to change one option, the first of each kind that `makes` a path, else one to change two."""

    def exists(changed: dict[str, object]) -> bool:
        return answer_or_none(lambda: makes(changed)) is not None

    ones = (next((words for words, changed in kind if exists(changed)), "") for kind in kinds)
    pairs = (
        f"{words} {more}"
        for first, second in combinations(kinds, 2)
        for (words, a), (more, b) in product(first, second)
        if exists(a | b)
    )
    near = list(filter(None, ones))[:MOST] or list(islice(pairs, 1))
    return f"Nearest that exists: {', or '.join(near)}." if near else "No change of one or two options gives a path."


def _accesses(request: PathRequest) -> Iterator[OptionChange]:
    """Other instructions of the same direction: with or without .trans first, then fewer matrices, then lanes."""

    name = request.access.row.name
    options = WIDENING if request.widens else LOADS if request.loads else STORES
    turned = name.removesuffix(".trans") if name.endswith(".trans") else f"{name}.trans"
    for other in (turned, *options):
        if other in options and other != name:
            yield f"`access` {other}", {"access": other}


def _places(request: PathRequest) -> Iterator[OptionChange]:
    """The next padding that keeps 16 bytes whole, the same swizzle of whole 16 bytes, TMA's modes, plain."""
    if request.shared.padding:
        whole = -(-request.shared.padding // 16) * 16
        yield f"`placed` pad:{whole}", {"shared": Shared(whole)}
    b, m, s = request.shared.swizzle
    if b and m < 4:
        yield f"`placed` sw:{b},4,{s}", {"shared": Shared(swizzle=(b, 4, s))}
    for span in sorted(SPANS.values(), key=lambda span: (span > request.tile.line_bytes, -span)):
        yield f"`placed` SWIZZLE_{span}B", {"shared": box_placement(span)}
    yield "`placed` plain", {"shared": Shared()}


def _leadings(request: PathRequest) -> Iterator[OptionChange]:
    """The next leading dimensions of whole 4 and 16 bytes."""
    for width in (4, 16):
        unit = max(1, 8 * width // request.tile.bits)
        ld = -(-request.ld // unit) * unit
        if ld != request.ld:
            yield f"`ld` {ld}", {"ld": ld}


def _fills(request: PathRequest) -> Iterator[OptionChange]:
    for fill in FILLS:
        if fill != request.fill:
            yield f"`fill` {fill}", {"fill": fill}


def _majors(request: PathRequest) -> Iterator[OptionChange]:
    """The same matrix stored the other way, without gaps between lines."""
    other = "col" if request.tile.contiguous == "row" else "row"
    if tile := answer_or_none(lambda: replace(request.tile, contiguous=other)):
        yield f"`contiguous` {other}", {"tile": tile, "ld": tile.length}


class Advance(NamedTuple):
    """The k-loop: `axis` of the fragment that k is, its `steps` in the tile, and `issues` of each.

    A step's shared addresses are those of step 0, + or ^ (`op`) its number in `shared`; the next tile lies `global_`
    bytes on. `op` is "" where no one number of each step does it, and `issues` 0 where issues serve several steps.
    """

    axis: str
    steps: int
    issues: int
    op: str
    shared: tuple[int, ...]
    global_: int

    @property
    def answer(self) -> AdvanceAnswer:
        """What `--json` prints of it."""
        return AdvanceAnswer.of(self, issues=self.issues or None, op=self.op or None)

    def to_json(self) -> Json:
        return plain(self.answer)


def advance(plan: PathPlan) -> Advance | None:
    """The k-loop's advance; None where the tile is not loaded, or has no k."""
    fragment, tile, request = plan.request.cell.fragment, plan.request.tile, plan.request
    axis = fragment.depth
    if not axis or not request.loads:
        return None
    extent, each = (tile.rows, fragment.rows) if axis == "row" else (tile.cols, fragment.cols)
    beyond = extent * (8 * request.ld_bytes if axis == tile.contiguous else tile.bits) // 8
    steps, shared = extent // each, plan.registers.shared
    count, rest = divmod(len(shared), steps)
    if rest:
        return Advance(axis, steps, 0, "", (), beyond)
    by_step = shared.reshape(steps, count, -1)
    for op, apart in (("+", by_step - by_step[:1]), ("^", by_step ^ by_step[:1])):
        if (apart == apart[:, :1, :1])[:, by_step[0] != IDLE].all():
            return Advance(axis, steps, count, op, tuple(apart[:, 0, 0].tolist()), beyond)
    return Advance(axis, steps, count, "", (), beyond)


def shared_address(request: TileRequest, shared_copy: LaneCopy | RegisterCopy) -> AddressText | None:
    """The byte offset in shared memory, from the tile's start."""
    line = shared_copy.line
    linear = np.where(line == IDLE, IDLE, request.shared.linear(request.tile, line, shared_copy.byte))
    return address(shared_copy.shared, linear, request.shared.swizzle)


def formulas(request: TileRequest, step: PathStep) -> dict[str, str | None]:
    """Byte offsets from the tile's start in lane and issue, None where they have no closed form; none of boxes."""
    if not isinstance(step, LaneCopy | RegisterCopy):
        return {}
    shared = shared_address(request, step)
    offsets = {"shared": str(shared) if shared else None}
    return offsets | ({"global": formula(step.globals)} if isinstance(step, LaneCopy) else {})


MEASURED_LINE = 128  # bytes of a line of the boxes whose round trips are measured, without a swizzle


def step_cycles(request: TileRequest, step: PathStep) -> PlanCycles:
    """What one step costs; nothing for what a multiply reads by itself, since its own cost includes that."""
    costs_on = MeasuredCosts.of(request.rules)
    if isinstance(step, BoxCopy):
        # the cost of one box whose lines are as long as the timed ones; several boxes, or other lines, were not timed
        inner, rows = step.box
        name = f"{step.instruction}.{'shared.global' if step.kind == GLOBAL_TO_SHARED else 'global.shared'}"
        line = inner * step.bits // 8
        if len(step.corners) > 1 or line != MEASURED_LINE:
            return PlanCycles(missing=(f"{len(step.corners)} x {name}, {rows} lines of {line} bytes",))
        cycles = copy_cost(name, line * rows, costs_on)
        return cycles if step.mode.span is None else cycles.lacking(f"what {step.swizzle} adds")
    if not isinstance(step, LaneCopy | RegisterCopy):
        return PlanCycles()
    cycles = accesses_cost(step.instruction, len(step.shared), step.wavefronts, costs_on)
    others = [text for text in step.ptx if ".global" in text and ".shared" not in text]
    return cycles.lacking(*others)


def path_cycles(request: TileRequest, steps: Sequence[PathStep]) -> dict[str, PlanCycles]:
    """What every step costs by its kind, in order."""
    return {step.kind: step_cycles(request, step) for step in steps}


FILLERS: dict[str, Callable[[TileRequest], PathStep]] = {"cp.async": lane_copy, "plain": lane_copy, "tma": box_copy}
# by the first part of an access's name; what reaches a fragment otherwise is one more of these
ENDS: dict[str, Callable[[PathRequest], RegisterCopy]] = dict.fromkeys(MOVES, register_copy)
LOADS = (
    "ldmatrix.x4",
    "ldmatrix.x4.trans",
    "ldmatrix.x2",
    "ldmatrix.x2.trans",
    "ldmatrix.x1",
    "ldmatrix.x1.trans",
    *(f"ld.shared.b{8 * n}" for n in (16, 8, 4, 2, 1)),
)
WIDENING = tuple(widening())
STORES = tuple(name.replace("ld", "st", 1) for name in LOADS)


class Planned(Described):
    """A path of a tile through shared memory, proven: its steps in words, and what every link rests on."""

    @property
    def in_words(self) -> Iterator[str]:
        """The path, and how sure it is."""
        yield from self.planned(full=False)
        yield from self.certainty

    @property
    def in_full(self) -> Iterator[str]:
        """With each piece of an issue, and what every link rests on."""
        yield from self.planned(full=True)
        yield from self.rests_on

    @property
    def rests_on(self) -> Iterator[str]:
        """What every link rests on, and how sure it is."""
        yield from map(escaped, self.evidence)
        yield from self.certainty

    def planned(self, full: bool) -> Iterator[str]:
        """The steps in words."""
        raise NotImplementedError

    @property
    def evidence(self) -> list[str]:
        """What every link rests on."""
        raise NotImplementedError

    @property
    def certainty(self) -> Iterator[str]:
        """How sure it is, where a line of its own says so."""
        yield from ()


@dataclass(frozen=True, repr=False)
class PathPlan(Planned):
    """`steps` in the order in which they are made, proven."""

    request: PathRequest
    steps: tuple[PathStep, ...]

    @property
    def certainty(self) -> Iterator[str]:
        """How sure the fragment's table is."""
        yield line(least([self.request.cell]))

    def planned(self, full: bool) -> Iterator[str]:
        """The steps with their addresses."""
        request, tile, shared = self.request, self.request.tile, self.request.shared
        yield global_words(request)
        yield (
            f"in shared memory {shared}: {shared.words(tile)}, {shared.bytes(tile)} bytes, "
            f"start aligned to {self.alignment}"
        )
        if request.widens:
            yield f"{request.cell.fragment.type} in registers; needs {self.needs}"
        yield from counts_table(request, self.steps)
        for step in self.steps:
            yield from step_words(request, step)
            if full and step is self.registers:
                yield from _order(self, self.registers)
        yield from _k_loop(self)
        elements = "slots' elements" if request.loads else "elements"
        count = self.fragments * request.cell.table.points if request.loads else tile.rows * tile.cols
        yield f"proven: all {count} {elements} arrive at their places"

    @property
    def code(self) -> str:
        """A CUDA header of it."""
        from tcprobe.ask.path.code import source

        return source(self)

    @property
    def cute(self) -> str:
        """CuTe's text of it."""
        from tcprobe.ask.path.code import cute_source

        return cute_source(self)

    @property
    def registers(self) -> RegisterCopy:
        """The step that has to do with registers."""
        return next(step for step in self.steps if isinstance(step, RegisterCopy))

    @property
    def transfer(self) -> PathStep:
        """The other one."""
        return next(step for step in self.steps if not isinstance(step, RegisterCopy))

    @property
    def fragments(self) -> int:
        """How many cover the tile."""
        return len(self.registers.origins) // self.registers.warps

    @property
    def alignment(self) -> int:
        """Of the tile's start in shared memory, in bytes, so that a swizzle acts on addresses as on offsets."""
        b, m, s = self.request.shared.swizzle
        return max(128 if self.request.fill_kind == "tma" else 16, 1 << m + abs(s) + b if b else 1)

    @property
    def needs(self) -> str:
        """The first arch with all the instructions, or the targets and the PTX version that alone have them."""
        row = self.request.access.row
        if self.request.widens:
            return f"{row.needed}, and PTX {row.target.ptx}"
        filled = {"cp.async": 80, "tma": LEAST_ARCH, "plain": 0}[self.request.fill_kind]
        return f"sm_{max(filled, int(row.target.name.removeprefix('sm_')))} or later"

    @property
    def evidence(self) -> list[str]:
        """What each link rests on."""
        cell = self.request.cell
        links = [f"{step.instruction}: {words}" for step in self.steps for words in step.evidence]
        return [f"{cell.fragment.id} on {cell.arch}: {cell.evidence}", *links, f"banks: {self.request.rules.evidence}"]

    def to_json(self) -> Json:
        """The whole answer as plain data."""
        request, ahead = self.request, advance(self)
        answer = PathAnswer.of(
            self,
            fragment=request.cell.fragment.id,
            arch=request.cell.arch,
            **request.placed,
            registers=request.cell.fragment.registers,
            proven=True,
            needs=self.needs,
            steps=[step_answer(request, step) for step in self.steps],
            k=ahead and ahead.answer,
            confidence=least([request.cell]).answer,
        )
        return plain(answer)


class PathOptions(NamedTuple):
    """The options of `tcprobe path` as they are written: --tile, --global, --shared, --with, --ld, --fill, --type."""

    tile: str
    contiguous: str
    placed: str = "plain"
    access: str | None = None
    ld: int | None = None
    fill: str | None = None
    kind: str | None = None

    def type_in_memory(self, type_: str) -> str:
        """That of the elements, or what becomes of it in registers, of the fragment's type; UsageError for another."""
        widened = self.access is not None and parse_access(self.access).row.wider > 1
        if type_ == "s8" and (widened or (self.kind == "s4" and self.access is None)) and self.kind in (None, "s4"):
            return "s4"
        if widened:
            instead = f"`kind` {str(self.kind)[:20]}" if type_ == "s8" else f"the fragment's elements are {type_}"
            raise UsageError(f"`access` {self.access}: it turns s4 in memory into s8 in registers; {instead}.")
        self.check_type(type_)
        return type_

    def check_type(self, type_: str) -> None:
        """UsageError where --type is another one than the fragment's."""
        if self.kind not in (None, type_):
            raise UsageError(f"`kind` {str(self.kind)[:20]}: the elements are {type_}.")


def request(cell: Cell, options: PathOptions) -> PathRequest:
    """What the options of `tcprobe path` mean; UsageError for any that means nothing.

    Without `access` the first of LOADS, for results of STORES, for s8 of s4 in memory of WIDENING, that there is a path
    with; without `ld` lines without gaps; without `fill` cp.async on the way in where the arch has it, else plain.
    """
    fragment = cell.fragment
    kind = options.type_in_memory(fragment.type)
    narrow = kind != fragment.type
    tile = parse_tile(options.tile, kind, options.contiguous, None if narrow else fragment.slot_bits)
    usual = WIDENING if narrow else STORES if fragment.role is Role.RESULT else LOADS
    names = [options.access] if options.access else list(usual)
    rules = rules_for(cell.arch, cell.layers)
    way_in = "cp.async" if access("cp.async.ca.4").target.on(arch(cell.arch)) else "plain"
    boxes = rests_on(cell.layers, rules.for_arch) if options.fill == "tma" else ""
    requests = [
        PathRequest(
            tile,
            tile.length if options.ld is None else options.ld,
            parse_shared(options.placed),
            options.fill or (way_in if name.startswith("ld") else "plain"),
            rules,
            cell,
            parse_access(name),
            boxes=boxes,
        )
        for name in names
    ]
    # one with a path, or whose access can at least move the registers, so that something else is in the way
    ways: tuple[Callable[[PathRequest], object], ...] = (prove, lambda one: ENDS[one.move](one))
    able = (one for way in ways for one in requests if answer_or_none(partial(way, one)) is not None)
    return requests[0] if len(requests) == 1 else next(able, requests[0])


def plan_path(request: PathRequest) -> PathPlan:
    """The proven path; UsageError says why there is none, and names the nearest ones."""
    try:
        return prove(request)
    except UsageError as error:
        kinds = [list(kind(request)) for kind in (_accesses, _places, _leadings, _fills, _majors)]
        hint = nearest(kinds, lambda changed: prove(request.having(**changed)))  # type: ignore[arg-type]
        raise UsageError(f"no such path. {error} {hint}") from None


def prove(request: PathRequest) -> PathPlan:
    """The path, gone from end to end; UsageError where it cannot be."""
    registers = ENDS[request.move](request)
    transfer = FILLERS[request.fill_kind](request)
    steps: tuple[PathStep, ...] = (transfer, registers) if request.loads else (registers, transfer)
    slots, tile = request.slots, request.tile
    starts = origins(slots, tile)
    memory = Memory(
        tile, request.ld_bytes, request.shared.bytes(tile), len(starts) * request.warps, request.cell.fragment.elements
    )
    row, col = (
        np.where(slots.row == NOTHING, NOTHING, start[:, None, None] + values)
        for start, values in zip(starts.T, (slots.row, slots.col), strict=True)
    )
    units = memory.of_elements(row, col).reshape(memory.registers.shape)
    if not request.loads:
        memory.registers[:] = units
    for step in steps:
        step.move(memory)
    expected = units if request.loads else np.arange(len(memory.back))
    if memory.strays or not np.array_equal(memory.registers if request.loads else memory.back, expected):
        tables = "the tables of the fragment and of the instructions contradict each other"
        raise UsageError(f"{request.words}: elements would land elsewhere; {tables}.")
    return PathPlan(request, steps)


def step_answer(request: TileRequest, step: PathStep) -> StepAnswer:
    """What `--json` prints of a step."""
    return StepAnswer.of(
        step,
        formula=formulas(request, step),
        cycles=step_cycles(request, step).answer,
        swizzle=step.swizzle if isinstance(step, BoxCopy) else UNSET,
        issues=step.issues(),
    )


def global_words(request: TileRequest) -> str:
    """The tile, and how it lies in global memory."""
    tile = request.tile
    return (
        f"{tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous, {request.ld_bytes} bytes apart "
        f"in global memory"
    )


def counts_table(request: TileRequest, steps: Sequence[PathStep]) -> Iterator[str]:
    """A line for each step, then what they cost in cycles."""
    heads = ("step", "instruction", "issues", "wavefronts", "ideal")
    yield from columns([heads, *map(_count, steps)], 2)
    yield from (f"cycles, {text}" for text in cycle_lines(path_cycles(request, steps)))


def _count(step: PathStep) -> tuple[str, ...]:
    counted = ["-" if n is None else str(n) for n in (step.wavefronts, step.ideal)]
    return (step.kind, step.instruction, str(len(step.issues())), *counted)


def step_words(request: TileRequest, step: PathStep) -> Iterator[str]:
    """The instructions of a step and its addresses."""
    yield f"{step.kind}: {', '.join(step.ptx)}"
    if isinstance(step, BoxCopy):
        yield f"  boxes of {step.box[0]} x {step.box[1]} elements, {step.swizzle}"
    for where, text in formulas(request, step).items():
        yield Whole(f"  {where + ' address':<15} {text or 'no closed form; --json has them all'}")


def _order(plan: PathPlan, copy: RegisterCopy) -> Iterator[str]:
    """The first issue's pieces, and which fragment follows which."""
    what, arrow = "matrix" if copy.tables else "piece", "->" if plan.request.loads else "<-"
    for number, (row, col, i) in enumerate(copy.issues()[0]["slots"]):
        register, bit = plan.request.cell.fragment.where(i)
        of = f", bit {bit} on" if bit else ""
        where = f"the fragment at ({row}, {col}), i = {i} on: its register {register}{of}"
        yield f"  {what} {number} of issue 0 {arrow} {where}"
    if plan.fragments > 1:
        (row, col), inner = (
            copy.origins[copy.warps].tolist(),
            "rows" if plan.request.slots.outer == "col" else "columns",
        )
        yield f"  {plan.fragments} fragments follow each other along {inner}: the next at ({row}, {col})"
    if copy.warps > 1:
        each = len(copy.shared) // len(copy.origins)
        yield f"  {copy.warps} warps: each has its own {each} issues of a fragment, warp 0 the first {each}"


def _k_loop(plan: PathPlan) -> Iterator[str]:
    loop = advance(plan)
    if not loop:
        return
    ahead = f"the next tile {loop.global_} bytes further in global memory"
    if not loop.issues:
        yield f"k: {loop.steps} steps along {loop.axis}s; an issue serves several; {ahead}"
        return
    sign = {"+": "+ ", "^": "^ "}.get(loop.op, "")
    by = f"shared address {sign}{', '.join(map(str, loop.shared))}" if sign else "addresses as the formula says"
    yield f"k: {loop.steps} steps along {loop.axis}s of {loop.issues} issues each, {by}; {ahead}"
