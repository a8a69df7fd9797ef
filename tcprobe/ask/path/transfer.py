"""Between global and shared memory by lanes: cp.async, or plain loads and stores through registers.

A warp goes along the lines of the tile, each lane a piece as wide as both memories and the lines allow.
"""

from __future__ import annotations

from tcprobe.ask.bank_access import TileAccess, addresses, parse_access, walk
from tcprobe.ask.path.registers import vector
from tcprobe.ask.path.request import TileRequest
from tcprobe.ask.path.steps import GLOBAL_TO_SHARED, SHARED_TO_GLOBAL, LaneCopy
from tcprobe.ask.tile_cost import cost
from tcprobe.errors import UsageError

WIDTHS = {"cp.async": (16, 8, 4), "plain": (16, 8, 4, 2, 1)}
EVIDENCE = "PTX ISA 9.1, {}: bytes go as they are"
COUNTED = "; its wavefronts are counted as those of {}"


def lane_copy(asked: TileRequest) -> LaneCopy:
    """The step with the widest pieces that there can be; UsageError says why there are none."""
    kind = asked.fill_kind
    if kind == "cp.async" and not asked.loads:
        raise UsageError("cp.async goes from global to shared memory only; the way back is plain or tma.")
    widths = [asked.fill_width] if asked.fill_width else list(WIDTHS[kind])
    if not set(widths) <= set(WIDTHS[kind]):
        raise UsageError(f"--fill {asked.fill}: {kind} moves {', '.join(map(str, WIDTHS[kind]))} bytes.")
    reasons = []
    for width in widths:
        try:
            return _copy(asked, width)
        except UsageError as error:
            reasons.append(str(error))
    raise UsageError(reasons[-1])


def access_of(asked: TileRequest, width: int) -> TileAccess:
    """What reaches shared memory."""
    if asked.fill_kind == "cp.async":
        return parse_access(f"cp.async.{width}")
    return parse_access(f"{'st' if asked.loads else 'ld'}.shared.b{8 * width}@rows")


def ptx_of(asked: TileRequest, width: int) -> tuple[str, ...]:
    """The instructions in order."""
    if asked.fill_kind == "cp.async":
        return (f"cp.async.{'cg' if width == 16 else 'ca'}.shared.global",)
    spaces = ("global", "shared") if asked.loads else ("shared", "global")
    return tuple(f"{move}.{space}.{vector(width)}" for move, space in zip(("ld", "st"), spaces, strict=True))


def _copy(asked: TileRequest, width: int) -> LaneCopy:
    if asked.ld_bytes % width:
        least = "" if asked.fill_width else ", the least that a lane moves"
        raise UsageError(f"{asked.fill_kind}: lines in global memory are {asked.ld_bytes} bytes apart "
                         f"(--ld {asked.ld}), no multiple of {width} bytes{least}.")  # fmt: skip
    given = access_of(asked, width)
    walked = walk(given, asked.tile, None)
    shared = addresses(walked, asked.tile, asked.shared)
    spent = cost(walked, asked.tile, asked.shared, asked.rules)
    ptx = ptx_of(asked, width)
    return LaneCopy(
        GLOBAL_TO_SHARED if asked.loads else SHARED_TO_GLOBAL, given.name.removesuffix("@rows"), ptx, width,
        walked.line, walked.byte, shared, asked.ld_bytes, spent.wavefronts, spent.ideal,
        (_evidence(asked, given, ptx),),
    )  # fmt: skip


def _evidence(asked: TileRequest, given: TileAccess, ptx: tuple[str, ...]) -> str:
    names = dict.fromkeys(text.split(".shared")[0].split(".global")[0] for text in ptx)
    counted = COUNTED.format(given.row.name) if asked.fill_kind == "cp.async" else ""
    return EVIDENCE.format(", ".join(names)) + counted
