"""What a lane's elements come to by row or column: which slots combine, which exchanges follow, who has the result.

A lane's *parts* are its slots by row, one value each. In a round it exchanges words with lane ^ v: where both hold the
same rows each keeps half of the parts and sends the other half, so a round of n parts takes n / 2 shuffles; one part
left is exchanged whole. Every round doubles what a part covers. The way back is the same rounds in reverse, without the
last ones, after which both lanes have the result anyway. The four warps of a warpgroup do the same, each with rows of
its own.

In a step of online softmax the new maximum is exchanged, sums stay in their lanes until the end: a lane adds up its own
elements, and rescales what it has by the same factor as all lanes of the row. So a step takes the shuffles of one
maximum; the total takes those of one sum, once.

>>> from tcprobe.store.cell import load
>>> found = reduce_fragment(load("mma.m16n8k16.row.col.f32.f16.f16.f32.d"), "row", "max")
>>> found.plan.groups, found.plan.shuffles, found.plan.back, found.plan.fewest
(((0, 1), (2, 3)), 2, 1, True)
>>> tile = fragment_tile(load("mma.m16n8k16.row.col.f32.f16.f16.f32.d"), "32x16")
>>> tile.fragments, tile.table.at(lane=5, i=13), tile.place(13)
(4, {'row': 17, 'col': 11}, 'x[3][1]')
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Annotated, NamedTuple

from tcprobe.code.cuda import DeviceFunction, Parameter, fragment_title, holder, origin
from tcprobe.code.names import FUNCTION, require_legal
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.table import Element, Table, slot_table
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell, require_warps
from tcprobe.text import Described, quoted
from tcprobe.values import Json

MOST = 512  # elements of a thread: more than registers hold


class FragmentTile(NamedTuple):
    """`down` x `across` fragments of `cell`, and the `table` of all their elements."""

    cell: Cell
    down: int
    across: int
    table: Table

    @property
    def fragments(self) -> int:
        """How many of them."""
        return self.down * self.across

    def place(self, i: int) -> str:
        """Where element i of a thread is, in C++."""
        tile, element = divmod(i, self.cell.table.elements)
        return f"x[{tile}][{element}]" if self.fragments > 1 else f"x[{i}]"

    @property
    def parameter(self) -> str:
        """The elements of a thread, as an argument."""
        elements = f"[{self.cell.table.elements}]"
        return f"(&x)[{self.fragments}]{elements}" if self.fragments > 1 else f"(&x){elements}"

    @property
    def words(self) -> str:
        """What the argument is."""
        fragment, elements = self.cell.fragment, self.cell.table.elements
        each = f"the {elements} elements of a {holder(fragment.threads)}"
        if self.fragments == 1:
            return each
        return (
            f"{each}, of {self.fragments} fragments: x[f] is the one at row {fragment.rows} * (f / {self.across}), "
            f"column {fragment.cols} * (f % {self.across})"
        )


def require_elements(cell: Cell, by_column: bool) -> None:
    """UsageError for what holds no elements of a matrix (addresses, metadata, scales), and a table that cannot be.

    With `by_column` for sparse A too: its metadata decide the column of a stored element.
    """
    fragment = cell.fragment
    if fragment.role not in WHOLE:
        raise UsageError(f"{fragment.id} holds no elements of a matrix: its role is {fragment.role.value}.")
    row = inventory.instructions().get(fragment.experiment)
    if by_column and row and row.metadata and fragment.operand == "a":
        raise UsageError(
            f"{fragment.id} holds a compressed sparse matrix: the columns of its elements depend on the metadata."
        )
    require_fit(fragment, cell.table)


def fragment_tile(cell: Cell, size: str | None = None) -> FragmentTile:
    """The tile of `size`, ROWSxCOLS, or one fragment; UsageError where whole fragments do not make it up."""
    if size is None:
        return FragmentTile(cell, 1, 1, cell.table)
    down, across = _counts(cell, size)
    fragment, table = cell.fragment, cell.table
    if table.elements * down * across > MOST:
        raise UsageError(f"{size}: {table.elements * down * across} elements per thread; the limit is {MOST}.")
    if "product" in table.outputs:
        raise UsageError(f"{fragment.id} holds {fragment.products} products: it has no tiles.")
    values: dict[str, list[int]] = {"row": [], "col": []}
    for thread in range(table.threads):
        for tile in range(down * across):
            for place in table.cells[thread * table.elements : (thread + 1) * table.elements]:
                if place is None:
                    raise UsageError(f"{fragment.id} has unused slots: there are no tiles of it.")
                values["row"].append(place[0] + tile // across * fragment.rows)
                values["col"].append(place[1] + tile % across * fragment.cols)
    whole = slot_table(table.threads, table.elements * down * across, {k: tuple(v) for k, v in values.items()})
    return FragmentTile(cell, down, across, whole)


def _counts(cell: Cell, size: str) -> tuple[int, int]:
    """How many fragments stand below and beside each other."""
    fragment, match = cell.fragment, re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", size)
    if not match:
        raise UsageError(f"{quoted(size)} is not a tile such as {fragment.rows}x{2 * fragment.cols}: rows x columns.")
    rows, cols = int(match[1]), int(match[2])
    if rows % fragment.rows or cols % fragment.cols:
        nearest = f"{-(-rows // fragment.rows) * fragment.rows}x{-(-cols // fragment.cols) * fragment.cols}"
        raise UsageError(
            f"{size} is not a whole number of {fragment.rows} x {fragment.cols} fragments; next is {nearest}."
        )
    return rows // fragment.rows, cols // fragment.cols


@dataclass(frozen=True)
class Round:
    """Exchange with lane ^ `lane`; the partner's part matches[p] is of the row of part p.

    A lane without the bit `bit` keeps the parts keep[0], one with it keep[1]; both empty: every part stays.
    """

    lane: int
    matches: tuple[int, ...]
    keep: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def bit(self) -> int:
        """The bit of the lane in which the two partners differ and that tells them apart."""
        return self.lane & -self.lane

    @property
    def words(self) -> int:
        """Words that a lane sends."""
        return len(self.keep[0]) or len(self.matches)


@dataclass(frozen=True)
class Scheme:
    """`groups` lists a lane's slots by part, copies left out; rows[lane][part] is the row (or column) of a part.

    `rounds` in order; final_rows[lane] are the rows whose result a lane has after them.
    """

    groups: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]
    rounds: tuple[Round, ...]
    final_rows: tuple[tuple[int, ...], ...]
    least: int

    @property
    def shuffles(self) -> int:
        """Shuffles of all rounds."""
        return sum(round_.words for round_ in self.rounds)

    @property
    def back(self) -> int:
        """Shuffles after which every lane has the result of each of its rows."""
        return sum(round_.words for round_ in self.rounds if round_.keep[0])

    @property
    def fewest(self) -> bool:
        """Whether no scheme that sends words between lanes takes fewer shuffles."""
        return self.shuffles == self.least


State = list[list[tuple[int, frozenset[Element]]]]  # by lane and part: its row, and the elements that it covers


def plan(table: Table, axis: int) -> Scheme:
    """The plan over rows (`axis` 0) or columns (1); UsageError where lanes are too unlike for one code."""
    if None in table.cells:
        raise UsageError("a reduction is for fragments that use all their slots.")
    _check_warps(table, axis)
    groups = _groups(table, axis)
    lanes = [table.cells[lane * table.elements : (lane + 1) * table.elements] for lane in range(table.threads)]
    state = [[_part(table, axis, [cells[i] for i in group]) for group in groups] for cells in lanes]
    rows = tuple(tuple(row for row, _ in parts) for parts in state)
    by_row: dict[int, set[Element]] = {}
    for cell in table.inverse:
        by_row.setdefault(_number(table, cell, axis), set()).add(cell)
    whole = {row: frozenset(cells) for row, cells in by_row.items()}
    rounds: list[Round] = []
    while any(covered != whole[row] for parts in state for row, covered in parts):
        round_ = _next(state)
        if round_ is None:
            raise UsageError("these rows need a different exchange in different lanes, which no shuffle does.")
        state = combine(state, round_)
        rounds.append(round_)
    final_rows = tuple(tuple(row for row, _ in parts) for parts in state)
    return Scheme(groups, rows, tuple(rounds), final_rows, _least(table, axis, whole))


def _check_warps(table: Table, axis: int) -> None:
    """UsageError where lanes of several warps hold a row: only those of one exchange words."""
    warps: dict[int, set[int]] = {}
    for slot, cell in enumerate(table.cells):
        assert cell is not None
        warps.setdefault(_number(table, cell, axis), set()).add(slot // table.elements // WARP)
    if any(len(of_row) > 1 for of_row in warps.values()):
        name, other = ("row", "col") if axis == 0 else ("column", "row")
        raise UsageError(
            f"a {name} is spread over several warps, and only lanes of one warp exchange registers: "
            f"reduce over {other} instead."
        )


def combine(state: State, round_: Round) -> State:
    """What every part covers after a round."""
    after: State = []
    for lane, parts in enumerate(state):
        theirs, upper = state[lane ^ round_.lane], bool(lane & round_.bit)
        kept = round_.keep[upper] or range(len(parts))
        after.append([(parts[p][0], parts[p][1] | theirs[round_.matches[p]][1]) for p in kept])
    return after


def key(element: Element, axis: int) -> Element:
    """The row (or column) of an element, with its product, as one index."""
    return (*element[2:], element[axis])


def _groups(table: Table, axis: int) -> tuple[tuple[int, ...], ...]:
    """Slots by row, the same for every lane, without copies inside a lane."""
    ways = {_groups_of(table, lane, axis) for lane in range(table.threads)}
    if len(ways) > 1:
        raise UsageError("which of a lane's slots share a row differs from lane to lane.")
    return ways.pop()


def _groups_of(table: Table, lane: int, axis: int) -> tuple[tuple[int, ...], ...]:
    by_row: dict[Element, dict[Element, int]] = {}
    for i in range(table.elements):
        cell = table.cells[lane * table.elements + i]
        assert cell is not None
        by_row.setdefault(key(cell, axis), {}).setdefault(cell, i)
    return tuple(tuple(cells.values()) for cells in by_row.values())


def _part(table: Table, axis: int, part_elements: Sequence[Element | None]) -> tuple[int, frozenset[Element]]:
    elements = frozenset(cell for cell in part_elements if cell is not None)
    return _number(table, next(iter(elements)), axis), elements


def _number(table: Table, element: Element, axis: int) -> int:
    """The row or column; where a warp holds several products, counted through."""
    size = table.extent["row" if axis == 0 else "col"]
    return element[axis] + (element[2] * size if len(element) > 2 else 0)


def _next(state: State) -> Round | None:
    """The round with the nearest partner whose parts are of the same rows and cover other elements."""
    for lane in range(1, WARP):
        matches = _matches(state, lane)
        if matches:
            return Round(lane, matches, _halves(matches))
    return None


def _matches(state: State, partner_lane: int) -> tuple[int, ...]:
    """For each part the partner's part of the same row, the same in all lanes; () where there is none."""
    pairs = [(state[lane], state[lane ^ partner_lane]) for lane in range(len(state))]
    parts = range(len(state[0]))
    matches = []
    for p in parts:
        fits = [q for q in parts if all(a[p][0] == b[q][0] and not a[p][1] & b[q][1] for a, b in pairs)]
        if not fits:
            return ()
        matches.append(fits[0])
    return tuple(matches)


def _halves(matches: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which parts a lane keeps, and which its partner, so that each row stays with one of them."""
    if len(matches) % 2:
        return (), ()
    lower = tuple(range(len(matches) // 2))
    theirs = {matches[p] for p in lower}
    return lower, tuple(p for p in range(len(matches)) if p not in theirs)


def _least(table: Table, axis: int, whole: dict[int, frozenset[Element]]) -> int:
    """No scheme takes fewer shuffles: a row in n lanes needs n - 1 words, a shuffle brings each lane one; and what is
    in n lanes is in no fewer than n / 2 after it.
    """
    lanes: dict[int, set[int]] = {row: set() for row in whole}
    for slot, cell in enumerate(table.cells):
        assert cell is not None
        lanes[_number(table, cell, axis)].add(slot // table.elements)
    copies = max(len({slot // table.elements for slot in slots}) for slots in table.inverse.values())
    parts = [max(1, len(holders) // copies) for holders in lanes.values()]
    return max(ceil(sum(n - 1 for n in parts) / table.threads), ceil(log2(max(parts))))


OPS = {"max": "{0} > {1} ? {0} : {1}", "sum": "{0} + {1}"}
JOINS = OPS | {"fmax": "fmax({0}, {1})"}  # of numbers that have a fraction: one instruction


def combining_source(scheme: Scheme, op: str, tile: FragmentTile, name: str) -> str:
    """The function `name`(x, out): out[g] is the result of the row of group g, in every lane that holds it."""
    cell, groups = tile.cell, len(scheme.groups)
    parameters = (
        Parameter(f"const T {tile.parameter}", tile.words),
        Parameter(f"T (&out)[{groups}]", f"{op}s, in every lane that holds elements of them"),
    )
    return str(DeviceFunction(name, parameters, tuple(_body(scheme, op, tile)), cell.fragment.threads, (origin(cell),)))


def _body(scheme: Scheme, op: str, tile: FragmentTile) -> Iterator[str]:
    yield from lane_lines(scheme, op, tile)
    lines, values = exchange_lines(scheme, op, [f"p{part}" for part in range(len(scheme.groups))])
    yield from lines
    yield from (f"out[{part}] = {value};" for part, value in enumerate(values))


def lane_lines(scheme: Scheme, op: str, tile: FragmentTile) -> Iterator[str]:
    """What a lane's own elements come to, in p0, p1, ... by part."""
    for part, group in enumerate(scheme.groups):
        yield f"T p{part} = {tile.place(group[0])};"
        yield from (f"p{part} = {JOINS[op].format(f'p{part}', tile.place(i))};" for i in group[1:])


def exchange_lines(scheme: Scheme, op: str, part_values: Sequence[str]) -> tuple[list[str], list[str]]:
    """The rounds and the way back for a value a part, and where every part's result is then."""
    stages, lines = [list(part_values)], []
    for number, round_ in enumerate(scheme.rounds):
        more, after_round = _Stage(round_, f"r{number}_").combine(op, stages[-1])
        lines += more
        stages.append(after_round)
    results = stages[-1]
    for number, round_ in reversed(list(enumerate(scheme.rounds))):
        more, results = _Stage(round_, f"b{number}_").back(results, len(stages[number]))
        lines += more
    return lines, results


class _Stage(NamedTuple):
    """A round, and how the names of what it receives begin."""

    round: Round
    prefix: str

    def combine(self, op: str, part_values: Sequence[str]) -> tuple[list[str], list[str]]:
        """Send what the partner keeps, join what comes with what is kept."""
        round_, lines, kept = self.round, [], []
        upper = f"lane & {round_.bit}"
        for number in range(round_.words):
            low, high = (round_.keep[0][number], round_.keep[1][number]) if round_.keep[0] else (number, number)
            sent = _either(upper, part_values[round_.matches[high]], part_values[round_.matches[low]])
            own = _either(upper, part_values[low], part_values[high])
            name = f"{self.prefix}{number}"
            lines.append(f"const T {name}t = __shfl_xor_sync(0xffffffffu, {sent}, {round_.lane});")
            lines.append(f"const T {name}k = {own};")
            lines.append(f"const T {name} = {JOINS[op].format(f'{name}k', f'{name}t')};")
            kept.append(name)
        return lines, kept

    def back(self, part_values: Sequence[str], count: int) -> tuple[list[str], list[str]]:
        """The parts before a round, from the results that a lane and its partner have after it."""
        round_, prefix = self.round, self.prefix
        if not round_.keep[0]:
            return [], list(part_values)
        lines = [
            f"const T {prefix}{n} = __shfl_xor_sync(0xffffffffu, {value}, {round_.lane});"
            for n, value in enumerate(part_values)
        ]
        low, high = self._places(round_.keep, part_values), self._places(round_.keep[::-1], part_values)
        return lines, [_either(f"lane & {round_.bit}", low[part], high[part]) for part in range(count)]

    def _places(self, keep: Sequence[Sequence[int]], part_values: Sequence[str]) -> dict[int, str]:
        """By part of a lane that keeps keep[0]: its own result, or the one that its partner sends."""
        own = {part: part_values[n] for n, part in enumerate(keep[0])}
        return own | {self.round.matches.index(part): f"{self.prefix}{n}" for n, part in enumerate(keep[1])}


def _either(upper: str, lower: str, high: str) -> str:
    return lower if lower == high else f"({upper} ? {high} : {lower})"


LEAST = "T(-__int_as_float(0x7f800000))"


def softmax_source(scheme: Scheme, tile: FragmentTile, name: str) -> str:
    """The functions `name`(x, maximum, sum, scale) and `name`_total(sum); UsageError where a lane holds copies."""
    if sum(map(len, scheme.groups)) < tile.table.elements:
        raise UsageError(f"{tile.cell.fragment.id}: a lane holds elements twice, so there is no softmax in place.")
    groups, threads, notes = len(scheme.groups), tile.cell.fragment.threads, (origin(tile.cell),)
    step = (
        Parameter(f"T {tile.parameter}", f"{tile.words}, times log2(e); then 2^(x - maximum)"),
        Parameter(f"T (&maximum)[{groups}]", "of each row up to here; -infinity before the first step"),
        Parameter(f"T (&sum)[{groups}]", "of what this lane had of each row; 0 before the first step"),
        Parameter(f"T (&scale)[{groups}]", "what earlier results of each row are to be multiplied by"),
    )
    total = (Parameter(f"T (&sum)[{groups}]", "of this lane; then of each row, in every lane that holds it"),)
    of_step = DeviceFunction(name, step, tuple(_step(scheme, tile)), threads, notes)
    of_total = DeviceFunction(f"{name}_total", total, tuple(_total(scheme)), threads, notes)
    return f"{of_step}\n\n{of_total}"


def _step(scheme: Scheme, tile: FragmentTile) -> Iterator[str]:
    yield from lane_lines(scheme, "fmax", tile)
    lines, maxima = exchange_lines(scheme, "fmax", [f"p{part}" for part in range(len(scheme.groups))])
    yield from lines
    for part, (group, value) in enumerate(zip(scheme.groups, maxima, strict=True)):
        yield f"const T n{part} = {value};"
        yield f"const T m{part} = fmax(maximum[{part}], n{part});"
        yield f"const T z{part} = m{part} == {LEAST} ? T(0) : m{part};  // a row that is all masked"
        yield f"scale[{part}] = exp2(maximum[{part}] - z{part});"
        yield f"maximum[{part}] = m{part};"
        yield f"sum[{part}] *= scale[{part}];"
        yield from (f"sum[{part}] += {tile.place(i)} = exp2({tile.place(i)} - z{part});" for i in group)


def _total(scheme: Scheme) -> Iterator[str]:
    parts = range(len(scheme.groups))
    yield from (f"const T p{part} = sum[{part}];" for part in parts)
    lines, sums = exchange_lines(scheme, "sum", [f"p{part}" for part in parts])
    yield from lines
    yield from (f"sum[{part}] = {value};" for part, value in enumerate(sums))


AXES = ("row", "col")
SOFTMAX = "softmax"


class RoundAnswer(Answer):
    """An exchange between lanes, and how many shuffles it takes."""

    lane_xor: int
    shuffles: int


class ShuffleCount(Answer):
    """Shuffles that combine, and that give results back."""

    combine: int
    back: int


Held = tuple[tuple[int, ...], ...]


class ReductionAnswer(Answer):
    """A reduction over rows or columns."""

    id: str
    arch: str
    source: str
    evidence: str
    over: str
    op: str
    fragments: Annotated[
        tuple[int, int],
        Meta(
            description="How many fragments of the tile stand below and beside each other; elements are counted "
            "through, row by row of fragments."
        ),
    ]
    groups: Held
    rounds: list[RoundAnswer]
    shuffles: ShuffleCount
    fewest: bool
    held: Annotated[
        Held, Meta(description="By lane what it holds before results are handed back, counted like results.")
    ]
    results: Annotated[
        Held,
        Meta(
            description="By lane the row or column that out[k] belongs to; those of a warp's product p are counted on, "
            "by p times the rows or columns."
        ),
    ]
    code: str


@dataclass(frozen=True, repr=False)
class Reduction(Described):
    """The plan of combining a fragment `over` rows or columns with `op`, and its CUDA `code`."""

    prints_code = True

    tile: FragmentTile
    over: str
    op: str
    plan: Scheme
    code: str

    @property
    def cell(self) -> Cell:
        """The table of the fragment."""
        return self.tile.cell

    @property
    def in_words(self) -> Iterator[str]:
        """What the code does, and the table that it was made from."""
        yield fragment_title(self.cell)
        yield from self.words()
        yield origin(self.cell)

    def words(self) -> Iterator[str]:
        """What happens in a lane, between lanes, and who ends up with what."""
        scheme, index = self.plan, self.over
        groups = "; ".join(", ".join(map(self.tile.place, group)) for group in scheme.groups)
        yield f"in a lane, of one {index} each: {groups}"
        for round_ in scheme.rounds:
            keep = ", each keeps half of its parts" if round_.keep[0] else ""
            yield f"exchange with lane ^ {round_.lane}{keep}: {round_.words} shuffle{'s' * (round_.words > 1)}"
        proof = (
            "no exchange of words between lanes needs fewer" if scheme.fewest else f"at least {scheme.least} are needed"
        )
        results_left = f"a lane has {len(scheme.final_rows[0])} of its {len(scheme.groups)} results"
        yield f"{scheme.shuffles} shuffles, {proof}; {results_left}"
        owned = "; ".join(", ".join(map(str, rows)) for rows in scheme.rows[:4])
        yield f"sent back: {scheme.back} more; out[g] of lanes 0 to 3, by {index}: {owned}"

    def to_json(self) -> Json:
        """Plain data; `results[lane]` lists the row (or column) of each entry of out, `held` what a lane ends up with
        before results are given back.
        """
        scheme = self.plan
        answer = ReductionAnswer.of(
            self.cell,
            id=self.cell.fragment.id,
            over=self.over,
            op=self.op,
            fragments=(self.tile.down, self.tile.across),
            groups=scheme.groups,
            rounds=[RoundAnswer(round_.lane, round_.words) for round_ in scheme.rounds],
            shuffles=ShuffleCount(scheme.shuffles, scheme.back),
            fewest=scheme.fewest,
            held=scheme.final_rows,
            results=scheme.rows,
            code=self.code,
        )
        return plain(answer)


def reduce_fragment(cell: Cell, over: str, op: str = "sum", name: str = "reduce", size: str | None = None) -> Reduction:
    """The reduction of a fragment, or of a tile of them of `size` (64x128); copies of an element count once.

    UsageError for an unknown `over` or `op`, a table that is not a whole fragment's, and where no exchange that is the
    same for all lanes does it.
    """
    axes, ops = ", ".join(AXES), (*OPS, SOFTMAX)
    if over not in AXES or op not in ops:
        raise UsageError(
            f"no reduction over {quoted(over)} with {quoted(op)}; known: over {axes}, with {', '.join(ops)}."
        )
    require_elements(cell, over == "col")
    require_warps(cell)
    require_legal(name, FUNCTION, used=("T", "x", "out", "lane", "thread"))
    tile = fragment_tile(cell, size)
    scheme = plan(tile.table, AXES.index(over))
    code = softmax_source(scheme, tile, name) if op == SOFTMAX else combining_source(scheme, op, tile, name)
    return Reduction(tile, over, op, scheme, code)
