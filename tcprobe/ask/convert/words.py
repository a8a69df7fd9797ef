"""A conversion in words, as `tcprobe convert` prints it: what moves and what it costs, then what that rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tcprobe.ask.confidence import line
from tcprobe.ask.plan_cost import PlanCycles, cycle_lines
from tcprobe.ask.table_confidence import least
from tcprobe.code.cuda import fragment_title, holder, of_holder, origin, origin_of_tables
from tcprobe.isa.arch import WARP
from tcprobe.text import Whole

if TYPE_CHECKING:
    from tcprobe.ask.convert import Conversion
    from tcprobe.ask.convert.stmatrix import StorePlan


def about(conversion: Conversion) -> Iterator[str]:
    """Which tiles become which, what has to move, what that costs, and an order of k where there is one."""
    tiles = conversion.tiling
    yield f"{tiles.rows} x {tiles.cols} on {tiles.source.arch}"
    for head, count, cell, note in (
        ("from", tiles.source_tiles, tiles.source, ""),
        ("to  ", tiles.target_tiles, tiles.target, ", transposed" if tiles.transpose else ""),
    ):
        size = f"{cell.fragment.rows} x {cell.fragment.cols} of {cell.fragment.type}"
        yield f"  {head} {count} x {cell.fragment.id}, {size}{note}"
    yield from moves(conversion)
    if tiles.order:
        here = "  position p of this factor holds the k at position p of this list"
        yield f"{here}; the other factor needs the same order"
    if conversion.load:
        row, col = (conversion.load[name] or "no closed form" for name in ("row", "col"))
        yield f"  {conversion.load['id']}: load i of a lane from row {row}, column {col}"


def moves(conversion: Conversion) -> Iterator[str]:
    """What has to move, what that costs a lane, and the order of k."""
    yield conversion.summary + (f" ({conversion.reason})" if conversion.reason else "")
    if conversion.plan:
        if conversion.fills:
            yield conversion.fills
        fewest = conversion.fewest and "shuffle" in conversion.costs
        proof = "; no exchange of 32-bit words needs fewer shuffles" if fewest else ""
        yield f"per lane: {conversion.words}{proof}"
        yield from _cycles({"moves between lanes": conversion.cycles} if conversion.costs else {})
    if conversion.permuted:
        yield f"in another order of k lanes exchange nothing, by --permute-k: {conversion.permuted.words}"
    if conversion.tiling.order:
        yield f"order of k: {' '.join(map(str, conversion.tiling.order))}"


def rests_on(conversion: Conversion) -> Iterator[str]:
    """The tables that it was made from, and how sure they are."""
    cells = conversion.tiling.source, conversion.tiling.target
    yield from dict.fromkeys(map(origin, cells))
    yield line(least(cells))


def about_stored(store: StorePlan) -> Iterator[str]:
    """The tile in shared memory, what happens in registers, and the addresses."""
    tile, shared, threads = store.tile, store.shared, store.cell.fragment.threads
    yield fragment_title(store.cell)
    yield (
        f"into {tile.rows} x {tile.cols} of {tile.type} in shared memory, {tile.contiguous}s contiguous, "
        f"{shared.words(tile).removeprefix('lines ')}, {shared}: {shared.bytes(tile)} bytes, "
        f"start aligned to {store.alignment}"
    )
    yield f"{store.conversion.summary}; per lane: {store.conversion.words}"
    wavefronts = f"{store.wavefronts} wavefronts for all warps, ideal {store.ideal}"
    yield f"{len(store.addresses)} x {store.ptx}: {wavefronts}"
    yield from _cycles({store.access: store.cycles})
    formula = of_holder(str(store.formula), threads) if store.formula else "no closed form"
    yield Whole(f"  byte of {holder(threads)} 0 to {threads - 1}: {formula}")
    yield "  issue, warp: bytes of its lanes"
    for issue, addresses in enumerate(store.addresses.tolist()):
        for warp in range(len(addresses) // WARP):
            active = [str(byte) for byte in addresses[WARP * warp : WARP * (warp + 1)] if byte >= 0]
            yield Whole(f"  {issue:3} {warp}: {' '.join(active)}")


def stored_rests_on(store: StorePlan) -> Iterator[str]:
    """What the way of a tile to shared memory rests on, and how sure its table is."""
    yield from map(origin_of_tables, store.evidence)
    yield line(least([store.cell]))


def _cycles(cycles: Mapping[str, PlanCycles]) -> Iterator[str]:
    yield from (f"cycles, {text}" for text in cycle_lines(cycles))
