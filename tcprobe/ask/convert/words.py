"""A conversion in words, as `tcprobe convert` prints it: what moves and what it costs, then what that rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tcprobe.ask.confidence import line
from tcprobe.ask.plan_cost import PlanCycles, told
from tcprobe.ask.table_confidence import least
from tcprobe.code.cuda import holder, of_holder
from tcprobe.code.origin import of_tables, origin, title
from tcprobe.isa.arch import WARP
from tcprobe.text import Whole

if TYPE_CHECKING:
    from tcprobe.ask.convert import Conversion
    from tcprobe.ask.convert.stmatrix import Stored


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
    if conversion.tiling.order:
        yield f"order of k: {' '.join(map(str, conversion.tiling.order))}"


def rests_on(conversion: Conversion) -> Iterator[str]:
    """The tables that it was made from, and how sure they are."""
    cells = conversion.tiling.source, conversion.tiling.target
    yield from dict.fromkeys(map(origin, cells))
    yield line(least(cells))


def about_stored(stored_tile: Stored) -> Iterator[str]:
    """The tile in shared memory, what happens in registers, and the addresses."""
    tile, shared, threads = stored_tile.tile, stored_tile.shared, stored_tile.cell.fragment.threads
    yield title(stored_tile.cell)
    yield (
        f"into {tile.rows} x {tile.cols} of {tile.type} in shared memory, {tile.contiguous}s contiguous, "
        f"{shared.words(tile).removeprefix('lines ')}, {shared}: {shared.bytes(tile)} bytes, "
        f"start aligned to {stored_tile.alignment}"
    )
    yield f"{stored_tile.conversion.summary}; per lane: {stored_tile.conversion.words}"
    wavefronts = f"{stored_tile.wavefronts} wavefronts for all warps, ideal {stored_tile.ideal}"
    yield f"{len(stored_tile.addresses)} x {stored_tile.ptx}: {wavefronts}"
    yield from _cycles({stored_tile.access: stored_tile.cycles})
    formula = of_holder(str(stored_tile.formula), threads) if stored_tile.formula else "no closed form"
    yield Whole(f"  byte of {holder(threads)} 0 to {threads - 1}: {formula}")
    yield "  issue, warp: bytes of its lanes"
    for issue, addresses in enumerate(stored_tile.addresses.tolist()):
        for warp in range(len(addresses) // WARP):
            active = [str(byte) for byte in addresses[WARP * warp : WARP * (warp + 1)] if byte >= 0]
            yield Whole(f"  {issue:3} {warp}: {' '.join(active)}")


def stored_rests_on(stored_tile: Stored) -> Iterator[str]:
    """What the way of a tile to shared memory rests on, and how sure its table is."""
    yield from map(of_tables, stored_tile.evidence)
    yield line(least([stored_tile.cell]))


def _cycles(cycles: Mapping[str, PlanCycles]) -> Iterator[str]:
    yield from (f"cycles, {text}" for text in told(cycles))
