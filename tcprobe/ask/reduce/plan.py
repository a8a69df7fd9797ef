"""Rounds in which the lanes of a warp combine what they hold of a row (or column), and give the result back.

The four warps of a warpgroup do the same, each with rows of its own.

A lane's *parts* are its slots by row, one value each. In a round it exchanges words with lane ^ v: where both hold the
same rows each keeps half of the parts and sends the other half, so a round of n parts takes n / 2 shuffles; one part
left is exchanged whole. Every round doubles what a part covers. The way back is the same rounds in reverse, without the
last ones, after which both lanes have the result anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.layout.table import Element, Table


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
    whole = _whole(table, axis)
    rounds: list[Round] = []
    while any(covered != whole[row] for parts in state for row, covered in parts):
        round_ = _next(state)
        if round_ is None:
            raise UsageError("no exchange that is the same for all lanes combines these rows.")
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


def _whole(table: Table, axis: int) -> dict[int, frozenset[Element]]:
    by_row: dict[int, set[Element]] = {}
    for cell in table.inverse:
        by_row.setdefault(_number(table, cell, axis), set()).add(cell)
    return {row: frozenset(cells) for row, cells in by_row.items()}


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
