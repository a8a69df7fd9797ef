"""Whether the multiplies of a run agree about the tables that they use, and which tables they contradict.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tcprobe.isa.instruction import Instruction
from tcprobe.sass.product_check import Piece, Stage
from tcprobe.sass.tensor import form

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
        return {place: layout for place, votes in self._votes.items() if (layout := _majority(votes))}

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


def _majority(votes: Mapping[bytes, Mapping[str, Piece]]) -> bytes | None:
    best = max(votes, key=lambda layout: len(votes[layout]))
    return best if len(votes[best]) >= MAJORITY * sum(map(len, votes.values())) else None


def _bytes(piece: Piece) -> bytes:
    return piece.layout.tobytes()


def _first(accounts: Sequence[Account]) -> str:
    more = f" and {len(accounts) - 1} more multiplies" if len(accounts) > 1 else ""
    return f"{accounts[0].instruction.id}{more}"


def _difference(ours: Piece, theirs: Piece, what: str) -> str:
    lane, i = np.argwhere((ours.layout != theirs.layout).any(axis=0))[0]
    ends = ("row {} col {} by ".format(*p.layout[:, lane, i]) + p.fragment.experiment for p in (ours, theirs))
    return f"lane {lane}, element {i} of {what} is {', but '.join(ends)}"
