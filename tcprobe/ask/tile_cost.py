"""What the accesses of a tile cost together, with the tile's layout in shared memory.

>>> from tcprobe.ask.bank_access import parse_access, walk
>>> from tcprobe.ask.bank_rules import rules_for
>>> from tcprobe.ask.tile import Shared, parse_tile
>>> from tcprobe.store.results import published
>>> tile, rules = parse_tile("32x32", "f32", "row"), rules_for(None, published())
>>> walks = [walk(parse_access(text), tile, None) for text in ("st.shared.b32@rows", "ld.shared.b32@cols")]
>>> [[cost(walked, tile, shared, rules).wavefronts for walked in walks] for shared in (Shared(), Shared(4))]
[[32, 1024], [32, 32]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tcprobe.ask.bank_access import Walk, addresses
from tcprobe.ask.bank_collisions import Phase, phases
from tcprobe.ask.bank_patterns import check_pattern
from tcprobe.ask.tile import Shared, Tile
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import IDLE, Judge

if TYPE_CHECKING:
    from tcprobe.ask.bank_rules import BankRules


@dataclass(frozen=True)
class TileCost:
    """Over the tile: instructions, wavefronts with their beats, and `ideal`: one for each phase before any joins.

    `worst` is the number of the first instruction that costs most, `phases` are its.
    """

    access: str
    instructions: int
    wavefronts: int
    ideal: int
    worst: int
    phases: list[Phase]


def cost(walked: Walk, tile: Tile, shared: Shared, rules: BankRules) -> TileCost:
    """The cost of one access; UsageError if the tile's layout does not allow it, or the arch lacks it."""
    rules.rule(walked.access.instruction)  # checks that the arch has it
    judge, offsets = rules.judge(walked.access.row), addresses(walked, tile, shared)
    each = judge.cycles(offsets)
    worst = int(each.argmax())
    pattern = check_pattern(judge.row, [None if a == IDLE else a for a in offsets[worst].tolist()])
    return TileCost(
        walked.access.name, len(offsets), int(each.sum()), ideal(judge, offsets), worst, phases(pattern, judge.rule)
    )


def ideal(judge: Judge, offsets: Ints) -> int:
    """The least that addresses can cost: one wavefront for each phase in which some lane is active."""
    row = judge.row
    lanes = offsets[:, : row.lanes].reshape(len(offsets), -1, min(judge.rule.phase, row.lanes))
    return int(np.count_nonzero((lanes != IDLE).any(axis=2)))
