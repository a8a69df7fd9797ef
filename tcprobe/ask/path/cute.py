"""A path in CuTe's terms: layouts of both memories, a TiledCopy between them, and the copy atom of the registers.

Coordinates are CuTe's: (M, K) of A, (N, K) of B, (M, N) of C and D. What CuTe cannot say is refused: a swizzle that
acts inside an element, lines that are not whole elements apart, lanes of a warp that do not fill whole lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tcprobe import __version__
from tcprobe.ask.descriptor import CUTE_TYPES
from tcprobe.ask.path.boxes import BoxCopy
from tcprobe.ask.path.request import TileRequest
from tcprobe.ask.path.steps import LaneCopy, PathStep
from tcprobe.ask.tile import Tile
from tcprobe.code.cuda import origin_of_tables
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.layout.swizzle import Swizzle
from tcprobe.text import comment

if TYPE_CHECKING:
    from tcprobe.ask.path import PathPlan

CuteMode = int | tuple[int, ...]
_MATRIX = re.compile(r"(ld|st)matrix\.x([124])(\.trans)?")


def head(proven: str, evidence: Iterable[str], atom: str) -> list[str]:
    """The first lines of a header of CuTe's terms: what it is proven on, what it rests on, what it includes."""
    lines = [f"// made by tcprobe {__version__}, proven {proven}"]
    lines += [f"// {comment(origin_of_tables(words))}" for words in evidence]
    return [*lines, "#pragma once", "#include <cute/tensor.hpp>", f"#include <cute/atom/{atom}.hpp>", ""]


def source(plan: PathPlan) -> str:
    """The text; UsageError where CuTe has no words for it."""
    request, tile, step = plan.request, plan.request.tile, plan.transfer
    if request.widens:
        raise UsageError(f"CuTe: it has no copy atom of {request.access.name}.", "code in CUDA")
    if tile.type not in CUTE_TYPES:
        raise UsageError(f"CuTe: no type here for {tile.type}; it has {', '.join(CUTE_TYPES)}.")
    lines = head(f"on every slot on {request.cell.arch}", plan.evidence, "copy_atom")
    lines += [f"using Element = {CUTE_TYPES[tile.type]};"]
    turned = request.cell.fragment.depth == "row"  # B is (N, K)
    lines += [f"using Global = {layout(tile, turned, request.ld)};", f"using Shared = {_shared(plan, turned)};"]
    lines += list(_boxes(step) if isinstance(step, BoxCopy) else lanes(request, turned, step))
    return "\n".join([*lines, *_registers(plan), ""])


def layout(tile: Tile, turned: bool, pitch: int, block: int = 0) -> str:
    """The tile in elements, `pitch` of them from line to line; rows and columns exchanged where `turned`.

    `block`: the elements of each of several blocks that a line is cut into.
    """
    line: tuple[CuteMode, CuteMode] = (tile.lines, pitch)
    place: tuple[CuteMode, CuteMode] = (tile.length, 1)
    if block:
        place = ((block, tile.length // block), (1, tile.lines * block))
    modes = [line, place] if (tile.contiguous == "row") != turned else [place, line]
    shape, stride = (tuple(mode[n] for mode in modes) for n in (0, 1))
    return f"cute::Layout<{_ints('Shape', shape)}, {_ints('Stride', stride)}>"


def _ints(kind: str, extents: tuple[CuteMode, ...]) -> str:
    texts = (f"cute::Int<{n}>" if isinstance(n, int) else _ints(kind, n) for n in extents)
    return f"cute::{kind}<{', '.join(texts)}>"


def _shared(plan: PathPlan, turned: bool) -> str:
    request, bits = plan.request, plan.request.tile.bits
    apart = request.shared.pitch(request.tile)
    pitch, rest = divmod(8 * apart, bits)
    if rest:
        raise UsageError(f"CuTe: lines {apart} bytes apart are not whole elements of {bits} bits.")
    cut = request.shared.blocks(request.tile) > 1
    plain = layout(request.tile, turned, pitch, 8 * request.shared.block // bits if cut else 0)
    if not request.shared.swizzle[0]:
        return plain
    swizzle = Swizzle(*request.shared.swizzle).in_elements(bits)
    if swizzle is None:
        raise UsageError(f"CuTe: {request.shared} acts inside elements of {bits} bits.")
    b, m, s = swizzle.to_json()
    return f"decltype(cute::composition(cute::Swizzle<{b}, {m}, {s}>{{}}, {plain}{{}}))"


def _boxes(box_copy: BoxCopy) -> Iterator[str]:
    direction = "LOAD" if box_copy.kind == "global->shared" else "STORE"
    yield f"// host: auto copy = cute::make_tma_copy(cute::SM90_TMA_{direction}{{}}, tensor, Shared{{}});"
    yield f"// boxes of {box_copy.box[0]} x {box_copy.box[1]} elements, {box_copy.swizzle}"


def lanes(request: TileRequest, turned: bool, step: PathStep) -> Iterator[str]:
    """A TiledCopy of one warp; UsageError where CuTe has none."""
    assert isinstance(step, LaneCopy)
    tile = request.tile
    across = tile.line_bytes // step.width
    if WARP % across and across % WARP:
        raise UsageError(f"CuTe: a line of {across} pieces and the {WARP} lanes of a warp do not divide each other.")
    count, per_line = step.width * 8 // tile.bits, min(across, WARP)
    if not count:
        raise UsageError(f"CuTe: {step.width} bytes are less than an element.")
    inner_first = (tile.contiguous == "row") == turned
    threads, value = (WARP // per_line, per_line), (1, count)
    strides = (per_line, 1)
    if inner_first:
        threads, value, strides = threads[::-1], value[::-1], strides[::-1]
    yield "// a warp; more of them along the lines of threads"
    yield "using Copy = decltype(cute::make_tiled_copy("
    yield f"    cute::Copy_Atom<{_operation(request.fill_kind, step)}, Element>{{}},"
    yield f"    cute::Layout<{_ints('Shape', threads)}, {_ints('Stride', strides)}>{{}},"
    yield f"    cute::Layout<{_ints('Shape', value)}>{{}}));"


def _operation(kind: str, lane_copy: LaneCopy) -> str:
    word = f"cute::uint{8 * lane_copy.width}_t"
    cache = "GLOBAL" if lane_copy.width == 16 else "ALWAYS"
    return f"cute::SM80_CP_ASYNC_CACHE{cache}<{word}>" if kind == "cp.async" else f"cute::UniversalCopy<{word}>"


def _registers(plan: PathPlan) -> Iterator[str]:
    """The atom, for make_tiled_copy_A, _B or _C of the TiledMma."""
    operand = plan.request.cell.fragment.operand
    side = {"a": "A", "b": "B"}.get(operand, "C")
    yield f"using Registers = cute::Copy_Atom<{_atom(plan.registers.instruction)}, Element>;"
    yield f"// cute::make_tiled_copy_{side}(Registers{{}}, tiled_mma)"


def _atom(instruction: str) -> str:
    match = _MATRIX.fullmatch(instruction)
    if not match:
        bits = instruction.rpartition("b")[2]
        return f"cute::UniversalCopy<cute::uint{bits}_t>"
    first, move = ("SM75", "LDSM") if match[1] == "ld" else ("SM90", "STSM")
    kind = f"U16x{2 * int(match[2])}_{move}_T" if match[3] else f"U32x{match[2]}_{move}_N"
    return f"cute::{first}_{kind}"
