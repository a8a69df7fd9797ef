"""From one fragment to another that holds the same matrix: what has to move between registers and lanes, what it costs.

>>> from tcprobe.store.cell import load
>>> d = load("mma.m16n8k16.row.col.f32.f16.f16.f32.d")
>>> a = load("mma.m16n8k16.row.col.f32.f16.f16.f32.a")
>>> found = plan_conversion(d, a)      # P = Q K of flash attention, as the A operand of P V
>>> found.summary, found.costs
('registers renamed: every lane already holds what it needs', {'cvt': 4})
>>> d, a = (load(f"mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.{operand}") for operand in "da")
>>> found = plan_conversion(d, a, permute_k=True)
>>> found.costs, found.tiling.order[:8]
({'cvt': 8, 'prmt': 4}, (0, 1, 8, 9, 2, 3, 10, 11))

Fragments are repeated as tiles until both cover the same matrix: two 16 x 8 accumulators make one 16 x 16 A. Place k of
a target whose k is permuted holds row or column order[k] of the source; the other factor must be loaded so, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tcprobe.ask.confidence import ConfidenceAnswer, least, line
from tcprobe.ask.convert.code import NAME, Cast, cast, source
from tcprobe.ask.convert.moves import (
    Movmatrix,
    Pack,
    Plan,
    Shuffle,
    Tiling,
    UnmovableError,
    bands,
    k_order,
    route,
    tiling,
)
from tcprobe.ask.plan_cost import (
    CyclesAnswer,
    MeasuredCosts,
    PlanCycles,
    busiest,
    cycle_lines,
    instructions_cost,
    moves_cost,
)
from tcprobe.code.cuda import origins
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.fit import fitted
from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.names import search
from tcprobe.isa.operand import Role
from tcprobe.layout.table import Table
from tcprobe.question.answers import Answer, plain
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell, require_warps, sources
from tcprobe.store.cell import cell as cell_of
from tcprobe.text import Described

# what costs count, as it is timed: moves between lanes, which share a pipe, and single instructions
TIMED = {"shuffle": "shfl.sync.idx.b32", "movmatrix": "movmatrix.m8n8.trans.b16"}
SINGLE = {"prmt": "prmt.b32", "select": "selp.b32"}
NOTHING = "nothing to do: the registers are the same"
RENAMED = "registers renamed: every lane already holds what it needs"
MOVMATRIX = "lanes exchanged by movmatrix"
QUAD = "lanes exchanged within a quad"
ACROSS = "lanes exchanged across the warp"
MANY = 64  # from so many selects on, shared memory may be cheaper
SHARED = "not possible by moving registers within a warp: use shared memory"


class ConvertedFragment(Answer):
    """A fragment, and how many of it."""

    id: str
    tiles: int
    evidence: str


class OtherFactor(Answer):
    """How the other factor is loaded where k is in an order: of its slot (lane, i), row and col of the matrix."""

    id: str
    row: str
    col: str


class ConversionAnswer(Answer):
    """A conversion in registers."""

    from_: ConvertedFragment
    to: ConvertedFragment
    source: str
    confidence: ConfidenceAnswer
    arch: str
    rows: int
    cols: int
    transpose: bool
    summary: str
    costs: dict[str, int]
    cycles: CyclesAnswer
    fewest_shuffles: bool
    reason: str | None
    code: str | None
    k_order: tuple[int, ...] | None
    load: OtherFactor | None


@dataclass(frozen=True, repr=False)
class Conversion(Described):
    """`summary` in words; `plan` and the CUDA `code`, both None where it is not possible, and why in `reason`.

    `costs` counts instructions a lane: shuffle, movmatrix, cvt, prmt, select. `fewest` says that no scheme that moves
    32-bit words needs fewer shuffles.
    """

    prints_code = True

    tiling: Tiling
    summary: str
    plan: Plan | None
    code: str | None
    costs: dict[str, int]
    fewest: bool = False
    reason: str | None = None

    @property
    def in_words(self) -> Iterator[str]:
        """What is tiled how, what has to move, what it costs, and the tables that it rests on."""
        yield from self.about
        yield from self.rests_on

    @property
    def about(self) -> Iterator[str]:
        """Which tiles become which, what has to move, what that costs, and an order of k where there is one."""
        tiles = self.tiling
        yield f"{tiles.rows} x {tiles.cols} on {tiles.source.arch}"
        for head, count, cell, note in (
            ("from", tiles.source_tiles, tiles.source, ""),
            ("to  ", tiles.target_tiles, tiles.target, ", transposed" if tiles.transpose else ""),
        ):
            size = f"{cell.fragment.rows} x {cell.fragment.cols} of {cell.fragment.type}"
            yield f"  {head} {count} x {cell.fragment.id}, {size}{note}"
        yield from self.moves
        if tiles.order:
            here = "  position p of this factor holds the k at position p of this list"
            yield f"{here}; the other factor needs the same order"
        if self.load:
            row, col = (self.load[name] or "no closed form" for name in ("row", "col"))
            yield f"  {self.load['id']}: load i of a lane from row {row}, column {col}"

    @property
    def moves(self) -> Iterator[str]:
        """What has to move, what that costs a lane, and the order of k."""
        yield self.summary + (f" ({self.reason})" if self.reason else "")
        if self.plan:
            if self.fills:
                yield self.fills
            fewest = self.fewest and "shuffle" in self.costs
            proof = "; no exchange of 32-bit words needs fewer shuffles" if fewest else ""
            yield f"per lane: {self.words}{proof}"
            cycles = cycle_lines({"conversion": self.cycles} if self.costs else {})
            yield from (f"cycles, {text}" for text in cycles)
        if self.permuted:
            yield f"in another order of k lanes exchange nothing, by --permute-k: {self.permuted.words}"
        if self.tiling.order:
            yield f"order of k: {' '.join(map(str, self.tiling.order))}"

    @property
    def rests_on(self) -> Iterator[str]:
        """The tables that it was made from, and how sure they are."""
        cells = self.tiling.source, self.tiling.target
        yield from origins(cells)
        yield line(least(cells))

    @cached_property
    def permuted(self) -> Conversion | None:
        """The same with k in an order in which lanes exchange nothing, where they do here and there is one."""
        t = self.tiling
        if t.order or {"shuffle", "movmatrix"}.isdisjoint(self.costs) or t.target.fragment.role is not Role.FACTOR:
            return None
        return answer_or_none(lambda: convert_tiling(replace(t, order=k_order(t))))

    @property
    def words(self) -> str:
        """What it costs a lane."""
        return ", ".join(f"{n} {name}" for name, n in self.costs.items()) or "no instruction"

    @property
    def cycles(self) -> PlanCycles:
        """What its instructions cost together; those without a price are named, and not in the number."""
        t = self.tiling
        costs_on = MeasuredCosts(t.source.arch, t.source.layers)
        kind = cast(t.source.fragment, t.target.fragment, arch.arch(t.source.arch))
        parts = [
            ("lanes", moves_cost(TIMED[name], n, costs_on))
            if name in TIMED
            else instructions_cost(name, SINGLE.get(name, kind.instruction), n, costs_on)
            for name, n in self.costs.items()
        ]
        return busiest(parts)

    @property
    def fills(self) -> str:
        """How many target tiles a source tile fills, in words; nothing where it is one, or less."""
        t = self.tiling
        count = t.target_tiles // t.source_tiles
        return f"each {t.source.fragment.id} fills {count} of {t.target.fragment.id}" if count > 1 else ""

    @cached_property
    def load(self) -> dict[str, object] | None:
        """How the other factor is loaded where k is in an order: of its slot (lane, i), row and col of the matrix."""
        other = other_factor(self.tiling) if self.tiling.order else None
        if other is None:
            return None
        formulas = fitted(other[1]).formulas
        return {"id": other[0].fragment.id, **{name: f and str(f) for name, f in formulas.items()}}

    def to_json(self) -> dict[str, object]:
        return plain(self.answer)

    @property
    def answer(self) -> ConversionAnswer:
        """What `--json` prints of it."""
        from tcprobe.ask.confidence import least

        t = self.tiling
        return ConversionAnswer.of(
            self,
            from_=ConvertedFragment(t.source.fragment.id, t.source_tiles, t.source.evidence),
            to=ConvertedFragment(t.target.fragment.id, t.target_tiles, t.target.evidence),
            source=sources((t.source, t.target)),
            confidence=least((t.source, t.target)).answer,
            arch=t.source.arch,
            rows=t.rows,
            cols=t.cols,
            transpose=t.transpose,
            cycles=self.cycles.answer,
            fewest_shuffles=self.fewest,
            k_order=t.order or None,
        )


def plan_conversion(
    from_: Cell, to: Cell, transpose: bool = False, permute_k: bool = False, name: str = NAME
) -> Conversion:
    """How the matrix in fragments `from_` gets into fragments `to`; `transpose`: its transpose.

    With `permute_k` k of the factor `to` is put in an order that spares all exchange; `name` is the function's. Of a
    warpgroup's fragments, and in a CTA's tile, each warp converts what it holds (`bands`).

    What ldmatrix loaded is a matrix in memory whose rows are those of A, or the columns of B; with .trans they are k.

    UsageError where one is of no multiply and not loaded by ldmatrix or tcgen05.ld, the two are on different archs, no
    conversion of their types is known, a warp holds several products in one of them, or a table is not a whole
    fragment's.
    """
    loaded = (from_.fragment.family, from_.fragment.operand) == ("ldmatrix", "d") and to.fragment.role is Role.FACTOR
    for cell in (to,) if loaded else (from_, to):
        require_matrix(cell)
    if loaded:
        transpose ^= (to.fragment.operand == "b") != (".trans." in from_.fragment.instruction)
    if transpose and max(from_.fragment.threads, to.fragment.threads) > WARP:
        raise UsageError("transposing a warpgroup's matrix moves elements between warps: use shared memory.")
    from_, to = bands(from_, to)
    if from_.arch != to.arch:
        raise UsageError(f"tables of two archs, {from_.arch} and {to.arch}: choose one.")
    tiles = tiling(from_, to, transpose)
    if permute_k:
        tiles = replace(tiles, order=k_order(tiles))
    return convert_tiling(tiles, name)


def convert_tiling(tiles: Tiling, name: str = NAME) -> Conversion:
    """The conversion of a tiling; UsageError where no instruction converts the types."""
    source_, target = tiles.source.fragment, tiles.target.fragment
    device = arch.arch(tiles.source.arch)
    kind = cast(source_, target, device)
    try:
        plan = route(tiles, kind, movmatrix=device.number >= 75)  # PTX ISA 9.1, section 9.7.14.5.17
    except UnmovableError as error:
        return Conversion(tiles, SHARED, None, None, {}, reason=str(error))
    costs = _costs(plan, kind)
    reason = "shared memory is probably cheaper" if costs.get("select", 0) > MANY else None
    return Conversion(tiles, _summary(plan, kind), plan, source(tiles, plan, kind, name), costs, plan.fewest, reason)


def require_matrix(cell: Cell) -> None:
    """UsageError for what holds no whole matrix of a multiply: moves, metadata, scales, and A of a sparse multiply."""
    fragment = cell.fragment
    row = inventory.instructions().get(fragment.experiment)
    if row and not row.multiplies and fragment.family != "tcgen05":
        raise search.no_multiply(row)
    if fragment.selectors or (row and row.metadata and fragment.operand == "a"):
        contents = {Role.METADATA: "index fields", Role.SCALE: "scales"}
        what = contents.get(fragment.role, "what is stored of a sparse matrix")
        raise UsageError(f"{fragment.id} holds {what}: no other fragment holds the same matrix.")
    require_warps(cell)
    require_fit(fragment, cell.table)


def with_register_type(cell: Cell, kind: str | None) -> Cell:
    """A cell whose registers, which a move of tensor memory leaves without a type, hold elements of `kind`.

    UsageError where such registers get no type, or one of another size; where others get a type at all.
    """
    fragment = cell.fragment
    if fragment.family != "tcgen05":
        if kind is not None:
            raise UsageError(
                f"`register_type` is for registers of tcgen05.ld and .st; {fragment.id} holds {fragment.type}."
            )
        return cell
    if kind is None or dtype(kind).bits != fragment.slot_bits:
        raise UsageError(
            f"{fragment.id} holds words of {fragment.slot_bits} bits: give their type, `register_type` f32 or "
            "`register_type` s32."
        )
    return replace(cell, fragment=replace(fragment, type=kind))


def _summary(plan: Plan, cast: Cast) -> str:
    shuffles = [op for op in plan.ops if isinstance(op, Shuffle)]
    if any(s // 4 != lane // 4 for op in shuffles for lane, s in enumerate(op.lanes)):
        return ACROSS
    if shuffles:
        return QUAD
    if any(isinstance(op, Movmatrix) for op in plan.ops):
        return MOVMATRIX
    return NOTHING if cast.name == "bits" and plan.identity else RENAMED


def _costs(plan: Plan, cast: Cast) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for op in plan.ops:
        counts.update(op.cost(cast))
    if cast.pair:  # a pair that several words need is converted once
        counts["cvt"] = len({pair for op in plan.ops if isinstance(op, Pack) for pair in op.pairs} - {(None, None)})
    if cast.unit:  # so is a byte
        counts["cvt"] = len({place for op in plan.ops if isinstance(op, Pack) for place in op.places} - {None})
    return {name: counts[name] for name in ("shuffle", "movmatrix", "cvt", "prmt", "select") if counts[name]}


def other_factor(tiling: Tiling) -> tuple[Cell, Table] | None:
    """The other factor of the target's multiply, and its table where k is in the order.

    None where it is in no register (B of a warpgroup), where metadata choose its k (sparse A), and where the order is
    not that of one multiply.
    """
    fragment = tiling.target.fragment
    row = inventory.instructions().get(fragment.experiment)
    if row is None or len(tiling.order) != row.shape.k or row.metadata:
        return None
    factor = next((f for f in row.factors if f.id != fragment.id), None)
    if factor is None:
        return None
    other = cell_of(factor, tiling.target.arch, tiling.target.layers)
    name = "row" if factor.operand == "b" else "col"
    changed = tuple(None if k is None else tiling.order[k] for k in other.table.values[name])
    return other, other.table.with_values({**other.table.values, name: changed})
