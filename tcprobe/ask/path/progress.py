"""How the addresses of a path run: by lane and issue within a step, and from one k step to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcprobe.ask.path.formula import AddressText, address, formula
from tcprobe.ask.path.request import TileRequest
from tcprobe.ask.path.steps import LaneCopy, PathStep, RegisterCopy
from tcprobe.layout.banks import IDLE
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.path import PathPlan


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

    def to_json(self) -> Json:
        """Plain data."""
        return {
            "axis": self.axis,
            "steps": self.steps,
            "issues": self.issues or None,
            "op": self.op or None,
            "shared": list(self.shared),
            "global": self.global_,
        }


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
