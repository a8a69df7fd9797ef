"""CuTe's text of a path: its layouts, computed here by CuTe's rules, are the path's own addresses."""

import itertools
import json
import re

import numpy as np
import pytest
from path_cases import CASES, E4M3, F16, F64, HALF, S8, Case, plan

from tcprobe.ask.path.code import cute_source as source
from tcprobe.errors import UsageError
from tcprobe.layout.swizzle import Swizzle

BY_LANES = [case for case in CASES if case.fill != "tma"]


def parts(text, kind):
    """The numbers of cute::Shape<...> or cute::Stride<...>, nested as they are."""
    start = text.index(f"cute::{kind}<")
    python = re.sub(r"cute::Int<(\d+)>", r"\1", text[start:]).replace(f"cute::{kind}<", "[")
    depth = np.cumsum([{"[": 1, ">": -1}.get(sign, 0) for sign in python])
    return json.loads(python[: int(np.argmin(depth > 0)) + 1].replace(">", "]"))


def layout(line):
    """(shape, stride) of the first Shape and Stride of a line."""
    return parts(line, "Shape"), parts(line, "Stride") if "Stride" in line else None


def strided(coordinate, shape, stride):
    """A coordinate times its stride; of a nested mode its digits, each times its own."""
    if isinstance(shape, int):
        return coordinate * stride
    return coordinate % shape[0] * stride[0] + coordinate // shape[0] * stride[1]


def line_of(text, start):
    return next(line for line in text.splitlines() if line.strip().startswith(start))


def written(case):
    try:
        return source(plan(case))
    except UsageError as error:
        return str(error)


@pytest.mark.parametrize("case", BY_LANES, ids=str)
def test_layouts_are_the_addresses(case):
    """In CuTe's coordinates: B is (N, K)."""
    text, asked = written(case), plan(case).request
    if text.startswith("CuTe:"):
        return
    tile, b = asked.tile, asked.cell.fragment.operand == "b"
    row, col = np.mgrid[: tile.rows, : tile.cols]
    coordinates = (col, row) if b else (row, col)
    size = tile.bits // 8
    for name, pitch, swizzle in (("Global", asked.ld * size, None), ("Shared", asked.shared.pitch(tile), asked.shared)):
        line = line_of(text, f"using {name} ")
        shape, stride = layout(line)
        sizes = [int(np.prod(mode)) for mode in shape]
        assert sizes == ([tile.cols, tile.rows] if b else [tile.rows, tile.cols])
        offset = sum(strided(*mode) for mode in zip(coordinates, shape, stride, strict=True))
        if "Swizzle<" in line:
            three = re.search(r"Swizzle<(\d+), (\d+), (-?\d+)>", line).groups()
            offset = Swizzle(*map(int, three))(offset)
        lines, places = (row, col) if tile.contiguous == "row" else (col, row)
        linear = lines * pitch + places * size
        wanted = swizzle.offset(tile, lines, places * size) if swizzle else linear
        assert (offset * size == wanted).all()


@pytest.mark.parametrize("case", BY_LANES, ids=str)
def test_a_warp_of_the_tiled_copy_is_the_first_issue(case):
    text, step, asked = written(case), plan(case).transfer, plan(case).request
    if text.startswith("CuTe:"):
        return
    threads, values = (line for line in text.splitlines() if line.startswith("    cute::Layout<"))
    shape, stride = layout(threads)
    value, _ = layout(values)
    assert int(np.prod(value)) * asked.tile.bits == 8 * step.width
    assert f"uint{8 * step.width}_t" in line_of(text, "cute::Copy_Atom")
    for a, b in itertools.product(*map(range, shape)):
        lane = a * stride[0] + b * stride[1]
        at = (a * value[0], b * value[1])
        row, col = at[::-1] if asked.cell.fragment.operand == "b" else at
        line, place = (row, col) if asked.tile.contiguous == "row" else (col, row)
        if step.line[0, lane] != -1 and line < asked.tile.lines:
            assert (step.line[0, lane], step.byte[0, lane]) == (line, place * asked.tile.bits // 8)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case(F16 + ".a", "64x64", "row", "sw:3,4,3", "ldmatrix.x4"), ["Swizzle<3, 3, 3>", "SM75_U32x4_LDSM_N"]),
        (Case(F16 + ".b", "64x64", "row", "plain", "ldmatrix.x2.trans"), ["SM75_U16x4_LDSM_T", "tiled_copy_B"]),
        (Case(HALF + ".d", "64x64", "row", "plain", "stmatrix.x4"), ["SM90_U32x4_STSM_N", "tiled_copy_C"]),
        (Case(F16 + ".a", "64x64", "row", "SWIZZLE_128B", "ldmatrix.x4", None, "tma"), ["SM90_TMA_LOAD"]),
        (Case(F64 + ".a", "32x16", "row", "plain", "ld.shared.b64"), ["UniversalCopy<cute::uint64_t>"]),
        (Case(E4M3 + ".a", "32x64", "row", "sw:2,4,3", "ldmatrix.x4"), ["float_e4m3_t", "Swizzle<2, 4, 3>"]),
    ],
    ids=str,
)
def test_atoms(case, words):
    for word in words:
        assert word in written(case)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case(F16 + ".a", "48x48", "row", "plain", "ldmatrix.x4"), "do not divide each other"),
        (Case(S8 + ".a", "32x64", "row", "pad:4", "ld.shared.b8"), "int8_t"),
        (Case("mma.m16n8k64.row.col.s32.s4.s4.s32.a", "16x64", "row", "plain", "ldmatrix.x4"), "no type here for s4"),
    ],
    ids=str,
)
def test_what_cute_can_and_cannot_say(case, words):
    assert words in written(case)
