"""What a lane's elements come to by row or column: which slots combine, which exchanges follow, who has the result.

    tile, plan             the elements of a lane, and the exchanges
    code, softmax          the code
    mask, condition,
    number                 elements changed by their row and col

>>> from tcprobe.ask.reduce import reduce
>>> from tcprobe.store.cell import load
>>> found = reduce(load("mma.m16n8k16.row.col.f32.f16.f16.f32.d"), "row", "max")
>>> found.plan.groups, found.plan.shuffles, found.plan.back, found.plan.fewest
(((0, 1), (2, 3)), 2, 1, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcprobe.ask.reduce import softmax
from tcprobe.ask.reduce.code import OPS, source
from tcprobe.ask.reduce.plan import Scheme, plan
from tcprobe.ask.reduce.tile import FragmentTile, fragment_tile, require_elements
from tcprobe.code.cuda import fragment_title, origin
from tcprobe.code.names import FUNCTION, require_legal
from tcprobe.errors import UsageError
from tcprobe.store.cell import Cell
from tcprobe.text import Described, quoted
from tcprobe.values import Json

AXES = ("row", "col")
SOFTMAX = "softmax"


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
        return {
            "id": self.cell.fragment.id,
            "arch": self.cell.arch,
            "source": self.cell.source,
            "evidence": self.cell.evidence,
            "over": self.over,
            "op": self.op,
            "fragments": [self.tile.down, self.tile.across],
            "groups": [list(group) for group in scheme.groups],
            "rounds": [{"lane_xor": round_.lane, "shuffles": round_.words} for round_ in scheme.rounds],
            "shuffles": {"combine": scheme.shuffles, "back": scheme.back},
            "fewest": scheme.fewest,
            "held": [list(rows) for rows in scheme.final_rows],
            "results": [list(rows) for rows in scheme.rows],
            "code": self.code,
        }


def reduce(cell: Cell, over: str, op: str = "sum", name: str = "reduce", size: str | None = None) -> Reduction:
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
    require_legal(name, FUNCTION, used=("T", "x", "out", "lane", "thread"))
    tile = fragment_tile(cell, size)
    scheme = plan(tile.table, AXES.index(over))
    code = softmax.source(scheme, tile, name) if op == SOFTMAX else source(scheme, op, tile, name)
    return Reduction(tile, over, op, scheme, code)
