"""Whether the multiplies of a run form their products by the tables that they use, and agree about these tables.

The words that an instruction takes hold a block of A and a block of B, one for each product of a warp. Together the
instructions must form every A[m][k] x B[k][n] once, start from C, end in D, all in the right places and in the types of
the multiply. So a word taken from elsewhere, by changed or misread code, is detected. Words that no instruction takes
must be copies, lane by lane, of words that one takes; ptxas makes such copies for every arch.

A tensor-core instruction holds each operand in one layout, in whatever multiply. So do instructions of the same shape
and width of elements; C has D's layout if it has D's width. So the tables of all fragments, followed through the
multiplies that take them, must give one layout for each of these places, slot by slot. If most give one, the others are
wrong; if neither side has a clear majority, both are in doubt. Factors must also agree with each other: A, cut to as
many rows as B has columns, is B's transpose.

Strictly, hardware only determines which registers meet. But every opcode of every arch from sm_70 to sm_121 is like
this: places with ptxas 12.2, 12.6, 12.9, 13.0, 13.1 and 13.5 (12.0 up to sm_87), A and B with 12.9 and 13.5, copies
with 12.9. Deviations are reported, not believed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.arrays import Ints
from tcprobe.layout.structure import elements
from tcprobe.layout.table import Tables
from tcprobe.sass.tensor import Traced, Word, computes, form

BlockElement = tuple[int, int]
BlockShape = tuple[int, int, int]  # first m, n and k


class MisfitError(Exception):
    """Why a product is wrong: "step 2 (HMMA.1688.F16): ...", without the multiply's name."""


@dataclass(frozen=True)
class Piece:
    """What words of a fragment hold: the first row and column of each product, and all places relative to these.

    `layout` is (2, WARP, elements): row and column, in the instruction's own orientation.
    """

    fragment: Fragment
    first: tuple[BlockElement, ...]
    layout: Ints


@dataclass(frozen=True)
class Stage:
    """A step of a multiply: its opcode, and whether it forms the transposed product (`turned`).

    `pieces` are by the opcode's own operand: a and b; d if the results were followed; c if it adds C.
    """

    opcode: str
    turned: bool
    pieces: Mapping[str, Piece]

    @property
    def blocks(self) -> list[BlockShape]:
        """For each product of the warp the first m, n and k, in the multiply's own orientation."""
        corners = zip(self.pieces["a"].first, self.pieces["b"].first, strict=True)
        return [(n, m, k) if self.turned else (m, n, k) for (m, k), (_, n) in corners]


def stages(instruction: Instruction, traced: Traced, tables: Tables) -> list[Stage]:
    """The steps of a multiply; MisfitError unless they form the whole product."""
    multiply = _Multiply(instruction, traced, tables)
    steps = [multiply.stage(number) for number in range(len(traced.steps))]
    multiply.check_sums(steps)
    multiply.check_copies()
    formed = np.zeros(instruction.shape, np.int64)
    for stage in steps:
        shape = form(stage.opcode)
        rows, cols = (shape.n, shape.m) if stage.turned else (shape.m, shape.n)
        for m, n, k in stage.blocks:
            formed[m : m + rows, n : n + cols, k : k + shape.k] += 1
    if not (formed == 1).all():
        raise MisfitError(f"its {len(steps)} tensor-core instructions do not form every product once")
    return steps


@dataclass(frozen=True)
class _Multiply:
    """A followed multiply; `number` counts its steps from 0."""

    instruction: Instruction
    traced: Traced
    tables: Tables

    def name(self, number: int) -> str:
        return f"step {number + 1} of {len(self.traced.steps)} ({self.traced.steps[number].opcode})"

    def stage(self, number: int) -> Stage:
        """One step; MisfitError unless its blocks are whole and belong together."""
        step = self.traced.steps[number]
        turned = step.a[0].operand == "b"
        if not computes(step.opcode, self.instruction, turned):
            raise MisfitError(f"{self.name(number)} does not multiply the types of {self.instruction.id}")
        words_by_role = self.words_by_role(number).items()
        pieces = {role: self.piece(number, Cut(step.opcode, role, turned), *words) for role, words in words_by_role}
        for a, b, *others in zip(*(piece.first for piece in pieces.values()), strict=True):
            if a[1] != b[0] or any(other != (a[0], b[1]) for other in others):
                raise MisfitError(f"{self.name(number)} takes blocks that do not belong together")
        return Stage(step.opcode, turned, pieces)

    def piece(self, number: int, cut: Cut, operand: str, word_numbers: Sequence[int]) -> Piece:
        """What a step takes of an operand; MisfitError unless it is a whole block."""
        fragment = self.instruction.fragment(operand)
        # (first row and column in each product's lanes, places relative to them); None if it is not a whole block
        table = self.tables[operand]
        slot_numbers = _slots(fragment, word_numbers)
        key = (table.id, slot_numbers, cut.size, cut.turned, form(cut.opcode).products)
        if key not in _CUTS:
            slot_elements = elements(table)[:2].reshape(2, WARP, -1)[:, :, slot_numbers]
            _CUTS[key] = _block(slot_elements[::-1] if cut.turned else slot_elements, cut)
        block = _CUTS[key]
        if block is None:
            rows, cols = cut.size
            raise MisfitError(f"what {self.name(number)} takes of {fragment.id} is not a block of {rows} x {cols}")
        return Piece(fragment, *block)

    def words_by_role(self, number: int) -> dict[str, tuple[str, list[int]]]:
        """(operand, words) by role in a step: a and b; d, where results end, if known; c, if it adds C."""
        step = self.traced.steps[number]
        sides = [{w.operand for w in words} for words in (step.a, step.b)]
        if sorted(map(sorted, sides)) != [["a"], ["b"]]:
            raise MisfitError(f"{self.name(number)} does not take A from one operand and B from the other")
        words_by_role = {
            role: (words[0].operand, [w.number for w in words]) for role, words in (("a", step.a), ("b", step.b))
        }
        if self.traced.stored is not None:
            words_by_role["d"] = "d", self.homes(number)
        added = [w.number for w in dict.fromkeys(step.c) if w is not None and w.operand == "c"]
        return words_by_role | ({"c": ("c", added)} if added else {})

    def homes(self, number: int) -> list[int]:
        """The words of D in which a step's results end, through the steps that add to them."""
        words = self.results(number)
        for later, step in enumerate(self.traced.steps):
            if later > number and step.c == words:
                words = self.results(later)
        places = {word: place for place, word in enumerate(self.traced.stored or ())}
        if not all(word in places for word in words):
            raise MisfitError(f"the results of {self.name(number)} do not reach D")
        return [places[word] for word in words]

    def results(self, number: int) -> tuple[Word, ...]:
        return tuple(Word("d", number * 256 + j) for j in range(form(self.traced.steps[number].opcode).d))

    def check_sums(self, stages: Sequence[Stage]) -> None:
        """MisfitError unless each step adds C, or all results of one step at the same place.

        Each place must start from C once.
        """
        starts: Counter[tuple[int, int]] = Counter()
        for number, stage in enumerate(stages):
            before = self.before(number)
            if before is None:
                starts.update(block[:2] for block in stage.blocks)
            elif [b[:2] for b in stages[before].blocks] != [b[:2] for b in stage.blocks]:
                raise MisfitError(f"{self.name(number)} adds to results of another place")
        if self.traced.stored is not None and set(starts.values()) != {1}:  # if not followed, later code may add C
            raise MisfitError(f"its {len(stages)} tensor-core instructions do not start from C once")

    def check_copies(self) -> None:
        """MisfitError unless words of A and B that no step takes repeat words that some step takes."""
        words_taken = {word for step in self.traced.steps for word in (*step.a, *step.b)}
        for fragment in self.instruction.fragments[:2]:
            fragment_elements = elements(self.tables[fragment.operand])[:2].reshape(2, WARP, -1)
            words = [Word(fragment.operand, number) for number in range(fragment.elements * fragment.slot_bits // 32)]
            content = {word: fragment_elements[:, :, _slots(fragment, [word.number])].tobytes() for word in words}
            if not set(content.values()) <= {content[word] for word in words_taken & set(words)}:
                raise MisfitError(f"words of {fragment.id} that no step takes are not copies of words that one takes")

    def before(self, number: int) -> int | None:
        """The step whose results this one adds to; None if it adds C (even converted), or nothing yet."""
        added = self.traced.steps[number].c
        kinds = {word and word.operand for word in added}
        if kinds in ({"c"}, {None}) or (not added and self.traced.stored is None):
            return None
        earlier = next((j for j in range(number) if self.results(j) == added), None)
        if earlier is None:
            raise MisfitError(f"{self.name(number)} adds words of several places")
        return earlier


@dataclass(frozen=True)
class Cut:
    """The block that an opcode takes as its operand `role`; `turned` if the table's rows are its columns."""

    opcode: str
    role: str
    turned: bool

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns, in the opcode's own orientation."""
        shape = form(self.opcode)
        return {"a": (shape.m, shape.k), "b": (shape.k, shape.n)}.get(self.role, (shape.m, shape.n))


_CUTS: dict[tuple[object, ...], tuple[tuple[BlockElement, ...], Ints] | None] = {}  # many multiplies share few tables


def _slots(fragment: Fragment, word_numbers: Sequence[int]) -> tuple[int, ...]:
    """The elements of a thread in some of its 32-bit words, low bits first; two words share an f64."""
    per_word = 32 / fragment.slot_bits
    return tuple(dict.fromkeys(int(word * per_word) + j for word in word_numbers for j in range(max(1, int(per_word)))))


def _block(slot_elements: Ints, cut: Cut) -> tuple[tuple[BlockElement, ...], Ints] | None:
    shape, (rows, cols) = form(cut.opcode), cut.size
    products = np.array([shape.product(lane) for lane in range(WARP)])
    layout, first = slot_elements.copy(), []
    for product in range(shape.products):
        part = slot_elements[:, products == product]
        row, col = (int(n) for n in part.min(axis=(1, 2)))
        places = part - np.array([[[row]], [[col]]])
        inside = row >= 0 and (places.max(axis=(1, 2)) < (rows, cols)).all()
        if not inside or len(np.unique(places[0] * cols + places[1])) != rows * cols:
            return None
        layout[:, products == product] = places
        first.append((row, col))
    return tuple(first), layout


OTHER = {"ROW": "COL", "COL": "ROW", "": ""}
MAJORITY = 2 / 3  # of the fragments that show a place's layout
# an operand of an opcode: "a", "b" or "d", rows, columns, ROW or COL or none, bits of a slot, products of a warp
CodePlace = tuple[str, int, int, str, int, int]
PieceShown = tuple[CodePlace, str, Piece]  # a place, the opcode, and the piece of a fragment there


@dataclass(frozen=True)
class Account:
    """What the code of a wmma.mma shows: its steps; or `misfit`, why they do not form the product."""

    instruction: Instruction
    stages: Sequence[Stage] = ()
    misfit: str = ""

    @property
    def experiments(self) -> set[str]:
        """The experiments of its fragments."""
        return {fragment.experiment for fragment in self.instruction.fragments}

    @cached_property
    def pieces_shown(self) -> list[PieceShown]:
        """The layouts that its steps show, in order; A's also as B's, which must be alike."""
        return [piece_shown for stage in self.stages for piece_shown in _pieces_shown(stage)]


def _pieces_shown(stage: Stage) -> Iterator[PieceShown]:
    shape, order = form(stage.opcode), re.findall(r"ROW|COL", stage.opcode) or ["", ""]
    sizes = {"a": (shape.m, shape.k, order[0]), "b": (shape.k, shape.n, order[1])}
    for role, piece in stage.pieces.items():
        place = (role, *sizes[role]) if role in sizes else ("d", shape.m, shape.n, "")
        yield (*place, piece.fragment.slot_bits, shape.products), stage.opcode, piece
    a = stage.pieces["a"]
    as_b = replace(a, layout=a.layout[::-1, :, (a.layout[0] < shape.n).any(axis=0)])
    place = ("b", shape.k, shape.n, OTHER[order[0]])
    yield (*place, a.fragment.slot_bits, shape.products), stage.opcode, as_b


class Crosscheck:
    """Which tables and multiplies of a run hold, all computed from `accounts`."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        self.accounts = accounts

    @cached_property
    def agreeing(self) -> list[Account]:
        """The multiplies that nothing contradicts."""
        return [a for a in self.accounts if a.instruction.id not in self.failed]

    @cached_property
    def withheld(self) -> dict[str, str]:
        """Experiments of fragments that some multiply contradicts and none confirms; and why."""
        return {
            e: f"withheld: contradicted by {_first(accounts)}: {self._why(accounts[0])}"
            for e, accounts in self._against.items()
        }

    @cached_property
    def failed(self) -> dict[str, str]:
        """Multiplies that allow no conclusion; and why.

        Some take a withheld fragment without showing what is wrong, because a conversion comes between.
        """
        failed = {a.instruction.id: f"contradicts the others: {self._why(a)}" for a in self._contradicting}
        for account in self.accounts:
            rests = sorted(account.experiments & self._against.keys())
            if rests:
                failed[account.instruction.id] = f"rests on {', '.join(rests)}, which multiplies contradict"
        return failed

    @cached_property
    def misread(self) -> list[str]:
        """Multiplies that contradict the others although all their fragments are confirmed."""
        return [a.instruction.id for a in self._contradicting if not a.experiments & self._against.keys()]

    @cached_property
    def _contradicting(self) -> list[Account]:
        return [a for a in self.accounts if a.misfit or any(self._differing(a))]

    @cached_property
    def _against(self) -> dict[str, list[Account]]:
        """By experiment that no account confirms, the accounts that contradict it."""
        borne_out = {experiment for account in self.accounts for experiment in self._borne_out(account)}
        blamed = sorted({e for a in self._contradicting for e in a.experiments} - borne_out)
        return {e: [a for a in self._contradicting if e in a.experiments] for e in blamed}

    def _borne_out(self, account: Account) -> set[str]:
        """The experiments of an account all of whose pieces have the common layout."""
        differing = {piece.fragment.experiment for _, _, piece in self._differing(account)}
        return {piece.fragment.experiment for _, _, piece in account.pieces_shown} - differing

    def _differing(self, account: Account) -> Iterator[PieceShown]:
        """What an account shows that differs from the common layout."""
        return (shown for shown in account.pieces_shown if self._common.get(shown[0]) != _bytes(shown[2]))

    @cached_property
    def _common(self) -> dict[CodePlace, bytes]:
        """The layout of every place on which a majority agrees."""
        common = {}
        for place, votes in self._votes.items():
            best = max(votes, key=lambda layout: len(votes[layout]))
            if len(votes[best]) >= MAJORITY * sum(map(len, votes.values())):
                common[place] = best
        return common

    @cached_property
    def _votes(self) -> dict[CodePlace, dict[bytes, dict[str, Piece]]]:
        """By place and layout: the experiments that show it, each with a piece that does."""
        votes: dict[CodePlace, dict[bytes, dict[str, Piece]]] = {}
        for place, _, piece in (piece_shown for account in self.accounts for piece_shown in account.pieces_shown):
            votes.setdefault(place, {}).setdefault(_bytes(piece), {}).setdefault(piece.fragment.experiment, piece)
        return votes

    def _why(self, account: Account) -> str:
        """The account's misfit; or the first place where it differs from the others, and one slot that differs."""
        if account.misfit:
            return account.misfit
        place, opcode, ours = next(self._differing(account))
        others = {layout: votes for layout, votes in self._votes[place].items() if layout != _bytes(ours)}
        most = max(others.values(), key=len)
        theirs = min(most.values(), key=lambda piece: piece.fragment.experiment == ours.fragment.experiment)
        more = f" and {len(most) - 1} more" if len(most) > 1 else ""
        return f"{_difference(ours, theirs, f'{place[0].upper()} of {opcode}')}{more}"


def _bytes(piece: Piece) -> bytes:
    return piece.layout.tobytes()


def _first(accounts: Sequence[Account]) -> str:
    more = f" and {len(accounts) - 1} more multiplies" if len(accounts) > 1 else ""
    return f"{accounts[0].instruction.id}{more}"


def _difference(ours: Piece, theirs: Piece, what: str) -> str:
    lane, i = np.argwhere((ours.layout != theirs.layout).any(axis=0))[0]
    ends = ("row {} col {} by ".format(*p.layout[:, lane, i]) + p.fragment.experiment for p in (ours, theirs))
    return f"lane {lane}, element {i} of {what} is {', but '.join(ends)}"
