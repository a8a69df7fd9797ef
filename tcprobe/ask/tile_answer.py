"""All accesses of a tile together: what they cost where it lies, and what would cost least.

>>> from tcprobe.ask.bank_access import parse_access, walk
>>> from tcprobe.ask.bank_rules import rules_for
>>> from tcprobe.ask.tile import Shared, parse_tile
>>> from tcprobe.store.results import published
>>> tile = parse_tile("32x32", "f32", "row")
>>> walks = [walk(parse_access(text), tile, None) for text in ("cp.async.4", "ld.shared.b32@cols")]
>>> found = answer(tile, Shared(), walks, rules_for(None, published()), proposes=True).to_json()
>>> found["wavefronts"], found["ideal"], found["swizzle"]["swizzle"], found["padding"]["bytes"]
([32, 1024], [32, 32], (5, 2, 5), 4)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tcprobe.ask.bank_access import Walk
from tcprobe.ask.bank_collisions import collision_lines
from tcprobe.ask.bank_rules import BankRules
from tcprobe.ask.plan_cost import MeasuredCosts, PlanCycles, accesses_cost, cycle_lines
from tcprobe.ask.propose import Proposal, propose
from tcprobe.ask.tile import Shared, Tile
from tcprobe.ask.tile_cost import TileCost, cost
from tcprobe.text import Described, columns
from tcprobe.values import Json


@dataclass(frozen=True, repr=False)
class TileAnswer(Described):
    """`costs` by access, of `tile` placed as `shared` says; `proposals`: swizzle and padding, if asked for."""

    tile: Tile
    shared: Shared
    costs: list[TileCost]
    proposals: tuple[Proposal, ...]
    rules: BankRules

    @property
    def cycles(self) -> dict[str, PlanCycles]:
        """What each access costs, by its name."""
        costs_on = MeasuredCosts.of(self.rules)
        return {
            c.access: accesses_cost(c.access.partition("@")[0], c.instructions, c.wavefronts, costs_on)
            for c in self.costs
        }

    @property
    def in_words(self) -> Iterator[str]:
        """The tile, its accesses, who collides in the worst instruction of each, what would avoid it, the rule."""
        tile, shared = self.tile, self.shared
        cut = f"{shared.blocks(tile)} blocks of " if shared.blocks(tile) > 1 else ""
        place = f"{shared}, {cut}{shared.pitch(tile)} bytes per line, {shared.bytes(tile)} bytes"
        yield f"{tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous; {place}"
        yield from columns(self._counts(), 1)
        yield from (f"cycles, {line}" for line in cycle_lines(self.cycles))
        for access in self.costs:
            if access.wavefronts > access.ideal:
                yield f"{access.access}, instruction {access.worst}, one of the worst:"
                yield from collision_lines(access.phases)
        for proposal in self.proposals:
            yield from proposal.in_words
        yield f"rule: {self.rules.evidence}"
        yield f"confidence: {self.rules.confidence}"

    def _counts(self) -> list[tuple[str, ...]]:
        """What each access and all of them cost, under headings."""
        rows = [(c.access, str(c.instructions), str(c.wavefronts), str(c.ideal)) for c in self.costs]
        total = ("together", "", str(sum(c.wavefronts for c in self.costs)), str(sum(c.ideal for c in self.costs)))
        return [("access", "instructions", "wavefronts", "ideal"), *rows, total]

    def to_json(self, explains: bool = False) -> Json:
        """Plain data; one entry for each access in every list. With `explains` the phases of the worst instructions."""
        tile, costs = self.tile, self.costs
        plain: Json = {
            "tile": [tile.rows, tile.cols],
            "type": tile.type,
            "global": tile.contiguous,
            "shared": str(self.shared),
            "pitch": self.shared.pitch(tile),
            "block": self.shared.block or None,
            "bytes": self.shared.bytes(tile),
            "accesses": [c.access for c in costs],
            "instructions": [c.instructions for c in costs],
            "wavefronts": [c.wavefronts for c in costs],
            "ideal": [c.ideal for c in costs],
            "cycles": [c.to_json() for c in self.cycles.values()],
            "rule": self.rules.to_json(),
        }
        if explains:
            plain["worst"] = [{"instruction": c.worst, "phases": [p.to_json() for p in c.phases]} for c in costs]
        return plain | {proposal.kind: proposal.to_json() for proposal in self.proposals}


def answer(tile: Tile, shared: Shared, walks: Sequence[Walk], rules: BankRules, proposes: bool) -> TileAnswer:
    """The cost of every access; UsageError where one cannot be as the tile lies, or the arch does not have it."""
    costs = [cost(walked, tile, shared, rules) for walked in walks]
    return TileAnswer(tile, shared, costs, propose(tile, walks, rules) if proposes else (), rules)
