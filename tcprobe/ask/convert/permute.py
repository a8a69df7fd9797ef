"""The order of k in which a conversion moves nothing between lanes: k is summed over, so both factors may have another.

>>> from tcprobe.ask.convert import convert
>>> from tcprobe.store.cell import load
>>> d, a = (load(f"mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.{operand}") for operand in "da")
>>> found = convert(d, a, permute_k=True)
>>> found.costs, found.tiling.order[:8]
({'cvt': 8, 'prmt': 4}, (0, 1, 8, 9, 2, 3, 10, 11))

Place k of the target then holds row or column order[k] of the source, and the other factor must be loaded so, too.
Where a scale belongs to a block of k, every k stays in its block.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tcprobe.ask.convert.units import Tiling
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.operand import Role

Need = tuple[int, int]  # (lane, the index that is not k)


def k_order(tiling: Tiling) -> tuple[int, ...]:
    """For each place of k in the target which of the source goes there, so that every lane holds it already.

    UsageError where the target is not a factor, or no order does it.
    """
    fragment = tiling.target.fragment
    if fragment.role is not Role.FACTOR:
        raise UsageError(f"{fragment.id} has no k: `permute_k` needs a factor, A or B, as its target.")
    order = _match_places(_choices(tiling))
    if order is None:
        raise UsageError(
            f"no order of k avoids exchanges between lanes from {tiling.source.fragment.id} to {fragment.id}."
        )
    return order


def _choices(tiling: Tiling) -> list[tuple[int, ...]]:
    """For each place of k the indices of the source that every lane which needs it holds."""
    available: dict[int, set[Need]] = {}
    for unit, holders in tiling.holders.items():
        for element in unit:
            available.setdefault(element[tiling.k_axis], set()).update(
                (lane, element[1 - tiling.k_axis]) for lane, _ in holders
            )
    needed: dict[int, set[Need]] = {}
    table = tiling.target.table
    for tile, lane, place in product(range(tiling.target_tiles), range(table.threads), range(tiling.places)):
        for element in tiling.needed_unit(lane, (tile, place)):
            needed.setdefault(element[tiling.k_axis], set()).add((lane, element[1 - tiling.k_axis]))
    block = _scaled_together(tiling) or len(needed)
    return [
        tuple(k for k in sorted(needed) if k // block == place // block and needed[place] <= available[k])
        for place in sorted(needed)
    ]


def _scaled_together(tiling: Tiling) -> int | None:
    """How many k of the target have one scale; None without scales."""
    row = inventory.instructions().get(tiling.target.fragment.experiment)
    scales = [f.cols for f in row.of_role(Role.SCALE) if f.operand == "scale_a"] if row else []
    return row.shape.k // scales[0] if row and scales else None


def _match_places(choices: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Another index for each place, in ascending order among places with the same choice; None if there are too few."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, possible in enumerate(choices):
        groups.setdefault(tuple(sorted(possible)), []).append(place)
    matching = dict(pair for possible, places in groups.items() for pair in zip(places, possible, strict=False))
    order = [matching.get(place, -1) for place in range(len(choices))]
    return tuple(order) if sorted(order) == list(range(len(order))) else None
