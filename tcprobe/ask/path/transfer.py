"""Between global and shared memory by lanes: cp.async, or plain loads and stores through registers.

A warp goes along the lines of the tile, each lane a piece as wide as both memories and the lines allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcprobe.ask.bank_access import TileAccess, addresses, parse_access, walk
from tcprobe.ask.path.steps import GLOBAL_TO_SHARED, SHARED_TO_GLOBAL, LaneCopy, vector
from tcprobe.ask.tile_cost import cost
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from tcprobe.ask.path.request import TileRequest

WIDTHS = {"cp.async": (16, 8, 4), "plain": (16, 8, 4, 2, 1)}
EVIDENCE = "PTX ISA 9.1, {}: bytes go as they are"
COUNTED = "; its wavefronts are counted as those of {}"


def lane_copy(request: TileRequest) -> LaneCopy:
    """The step with the widest pieces that there can be; UsageError says why there are none."""
    kind = request.fill_kind
    if kind == "cp.async" and not request.loads:
        raise UsageError("cp.async copies only from global to shared memory; use plain or tma for the way back.")
    widths = [request.fill_width] if request.fill_width else list(WIDTHS[kind])
    if not set(widths) <= set(WIDTHS[kind]):
        raise UsageError(f"`fill` {request.fill}: {kind} moves {', '.join(map(str, WIDTHS[kind]))} bytes.")
    reasons = []
    for width in widths:
        try:
            return _copy(request, width)
        except UsageError as error:
            reasons.append(str(error))
    raise UsageError(reasons[-1])


def access_of(request: TileRequest, width: int) -> TileAccess:
    """What reaches shared memory."""
    if request.fill_kind == "cp.async":
        return parse_access(f"cp.async.{width}")
    return parse_access(f"{'st' if request.loads else 'ld'}.shared.b{8 * width}@rows")


def ptx_of(request: TileRequest, width: int) -> tuple[str, ...]:
    """The instructions in order."""
    if request.fill_kind == "cp.async":
        return (f"cp.async.{'cg' if width == 16 else 'ca'}.shared.global",)
    spaces = ("global", "shared") if request.loads else ("shared", "global")
    return tuple(f"{move}.{space}.{vector(width)}" for move, space in zip(("ld", "st"), spaces, strict=True))


def _copy(request: TileRequest, width: int) -> LaneCopy:
    if request.ld_bytes % width:
        least = "" if request.fill_width else ", the least that a lane can move"
        raise UsageError(
            f"{request.fill_kind}: lines in global memory are {request.ld_bytes} bytes apart "
            f"(`ld` {request.ld}), not a multiple of {width} bytes{least}."
        )
    tile_access = access_of(request, width)
    walked = walk(tile_access, request.tile, None)
    shared = addresses(walked, request.tile, request.shared)
    spent = cost(walked, request.tile, request.shared, request.rules)
    ptx = ptx_of(request, width)
    return LaneCopy(
        GLOBAL_TO_SHARED if request.loads else SHARED_TO_GLOBAL,
        tile_access.name.removesuffix("@rows"),
        ptx,
        width,
        walked.line,
        walked.byte,
        shared,
        request.ld_bytes,
        spent.wavefronts,
        spent.ideal,
        (_evidence(request, tile_access, ptx),),
    )


def _evidence(request: TileRequest, tile_access: TileAccess, ptx_lines: tuple[str, ...]) -> str:
    names = dict.fromkeys(text.split(".shared")[0].split(".global")[0] for text in ptx_lines)
    counted = COUNTED.format(tile_access.row.name) if request.fill_kind == "cp.async" else ""
    return EVIDENCE.format(", ".join(names)) + counted
