"""tilelang: functions from (thread, local) to a place in a tile, and back, of its CUDA intrinsics."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import product
from typing import Any, NamedTuple, TypeVar

from tcprobe.audit.statement import StatedPlace, Statement, invert, statement, uncompared_statement

PACKAGE = "tilelang"
REPORTED: Mapping[str, str] = {
    "shared_16x64_to_mma_a_32x32_layout": "no report is known",
    "metadata_8bit_load_32x4_to_shared_16x4_layout_32bit": "no report is known",
}


class TileFunction(NamedTuple):
    """A function of a module, the fragment that its tile is, times n side by side, and whether it lists n before k."""

    name: str
    fragment: str
    across: int = 1
    turned: bool = False


class MetadataFunction(NamedTuple):
    """A function of metadata, the form, index fields of a register, and how many of them are one of its units."""

    name: str
    form: str
    fields: int
    unit: int
    every: bool = False  # all lanes are read, not two of four


Named = TypeVar("Named", TileFunction, MetadataFunction)
B8, B16 = "mma.m16n8k32.row.col.s32.s8.s8.s32", "mma.m16n8k16.row.col.f32.f16.f16.f32"
B32, B4 = "mma.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.m16n8k64.row.col.s32.s4.s4.s32"
SP32 = "mma.sp.m16n8k16.row.col.f32.tf32.tf32.f32"
SP16, SP8 = "mma.sp.m16n8k32.row.col.f32.f16.f16.f32", "mma.sp.m16n8k64.row.col.s32.s8.s8.s32"
FORWARD: tuple[TileFunction, ...] = (
    TileFunction("mma_load_a_32x4_to_shared_16x8_layout", f"{B32}.a"),
    TileFunction("mma_load_a_32x8_to_shared_16x16_layout", f"{B16}.a"),
    TileFunction("mma_load_a_32x16_to_shared_16x32_layout", f"{B8}.a"),
    TileFunction("mma_load_a_32x32_to_shared_16x64_layout", f"{B4}.a"),
    TileFunction("mma_load_b_32x4_to_shared_16x8_layout", f"{B32}.b", 2, True),
    TileFunction("mma_load_b_32x8_to_shared_16x16_layout", f"{B16}.b", 2, True),
    TileFunction("mma_load_b_32x16_to_shared_16x32_layout", f"{B8}.b", 2, True),
    TileFunction("mma_load_b_32x16_to_shared_8x64_layout", f"{B4}.b", 1, True),
    TileFunction("mma_32x8_to_shared_16x16_layout", f"{B16}.d", 2),
    TileFunction("mma_store_32x8_to_shared_16x16_layout", f"{B16}.d", 2),
    TileFunction("mma_store_32x2_to_shared_8x8_layout_fp64", "mma.m8n8k4.row.col.f64.f64.f64.f64.d"),
)
SPARSE: tuple[TileFunction, ...] = (
    TileFunction("mma_sp_load_a_32x4_to_shared_16x16_layout", f"{SP32}.a"),
    TileFunction("mma_sp_load_a_32x8_to_shared_16x32_layout", f"{SP16}.a"),
    TileFunction("mma_sp_load_a_32x16_to_shared_16x64_layout", f"{SP8}.a"),
    TileFunction("mma_sp_load_b_32x8_to_shared_16x16_layout", f"{SP32}.b", 2, True),
    TileFunction("mma_sp_load_b_32x16_to_shared_16x32_layout", f"{SP16}.b", 2, True),
    TileFunction("mma_sp_load_b_32x32_to_shared_16x64_layout", f"{SP8}.b", 2, True),
)
BACK: tuple[TileFunction, ...] = (
    TileFunction("shared_16x8_to_mma_a_32x4_layout", f"{B32}.a"),
    TileFunction("shared_16x16_to_mma_a_32x8_layout", f"{B16}.a"),
    TileFunction("shared_16x32_to_mma_a_32x16_layout", f"{B8}.a"),
    TileFunction("shared_16x64_to_mma_a_32x32_layout", f"{B4}.a"),
    TileFunction("shared_16x8_to_mma_b_32x4_layout", f"{B32}.b", 2, True),
    TileFunction("shared_16x16_to_mma_b_32x8_layout", f"{B16}.b", 2, True),
    TileFunction("shared_16x32_to_mma_b_32x16_layout", f"{B8}.b", 2, True),
    TileFunction("shared_8x64_to_mma_b_32x16_layout", f"{B4}.b", 1, True),
)
SPARSE_BACK: tuple[TileFunction, ...] = (
    TileFunction("shared_16x16_to_mma_sp_layout_sr_a", f"{SP32}.a"),
    TileFunction("shared_16x32_to_mma_sp_layout_sr_a", f"{SP16}.a"),
    TileFunction("shared_16x64_to_mma_sp_layout_sr_a", f"{SP8}.a"),
    TileFunction("shared_16x16_to_mma_sp_layout_sr_b", f"{SP32}.b", 2, True),
    TileFunction("shared_16x32_to_mma_sp_layout_sr_b", f"{SP16}.b", 2, True),
    TileFunction("shared_16x64_to_mma_sp_layout_sr_b", f"{SP8}.b", 2, True),
)
METADATA = (
    MetadataFunction("metadata_8bit_load_32x4_to_shared_16x4_layout_32bit", SP32, 8, 2),
    MetadataFunction("metadata_16bit_load_32x2_to_shared_16x2_layout_32bit", SP32, 8, 4),
    MetadataFunction("metadata_8bit_load_32x4_to_shared_16x4_layout_16bit", SP16, 16, 4),
    MetadataFunction("metadata_16bit_load_32x2_to_shared_16x2_layout_16bit", SP16, 16, 8),
    MetadataFunction("metadata_8bit_load_32x4_to_shared_16x8_layout_8bit", SP8, 16, 4, True),
    MetadataFunction("metadata_16bit_load_32x2_to_shared_16x4_layout_8bit", SP8, 16, 8, True),
    MetadataFunction("metadata_32bit_load_32x1_to_shared_16x2_layout_8bit", SP8, 16, 16, True),
)
WIDTHS = (8, 16, 24, 32, 64, 128, 256)
APART = {
    "T.gemm on sm_90 with block_N = 8 mod 16": "code of a whole kernel, and no layout: open as "
    "tile-ai/tilelang#2593; sparse #2603 is closed",
    "mma_sm70_layout": "tiles of 16 x 16 x 4, of the four products of m8n8k4",
    "mma_sm100_layout": "tensor memory, no registers",
    "ldmatrix_*": "addresses and tiles of ldmatrix, no multiply",
}


def statements() -> Iterator[Statement]:
    """Every function that this version has, and the accumulator of a warpgroup."""
    for module, tiles in (("mma_layout", FORWARD), ("mma_sp_layout", SPARSE)):
        for tile in _functions_present(module, tiles):
            yield _tile(module, tile, _forward(_function(module, tile.name), tile.turned), "")
    for module, backward in (("mma_layout", BACK), ("mma_sp_layout", SPARSE_BACK)):
        for tile in _functions_present(module, backward):
            rows, cols = _size(tile)
            function = _function(module, tile.name)
            places = list(product(range(cols), range(rows))) if tile.turned else list(product(range(rows), range(cols)))
            yield _tile(module, tile, _forward(invert(places, function), tile.turned), f"{places[-1]}")
    yield from map(_metadata, _functions_present("mma_sp_layout", METADATA))
    yield from map(_accumulator, WIDTHS)
    for name, reason in APART.items():
        yield uncompared_statement(name, "", reason)


def _functions_present(module: str, functions: Iterable[Named]) -> list[Named]:
    """Those of functions that a module has; earlier versions have fewer."""
    return [function for function in functions if hasattr(importlib.import_module(_module(module)), function.name)]


def _function(module: str, name: str) -> Any:
    return getattr(importlib.import_module(_module(module)), name)


@cache
def _module(name: str) -> str:
    """Where a module of intrinsics is: it had no folder of its own before 0.1.10."""
    kind = "macro" if "macro" in name else "layout"
    newest = f"tilelang.cuda.intrinsics.{kind}.{name}"
    return newest if find_spec("tilelang.cuda") else f"tilelang.intrinsics.{name}"


def _size(layout_function: TileFunction) -> tuple[int, int]:
    """Rows and columns, k x n for B."""
    shapes = {
        B8: (16, 8, 32),
        B16: (16, 8, 16),
        B32: (16, 8, 8),
        B4: (16, 8, 64),
        SP32: (16, 8, 16),
        SP16: (16, 8, 32),
        SP8: (16, 8, 64),
    }
    form, _, operand = layout_function.fragment.rpartition(".")
    m, n, k = shapes.get(form, (8, 8, 4))
    stored = k // 2 if form.startswith("mma.sp") else k
    return {"a": (m, stored), "b": (k, n * layout_function.across), "d": (m, n * layout_function.across)}[operand]


def _tile(
    module: str, layout_function: TileFunction, placed: Callable[[int, int], StatedPlace], last_place: str
) -> Statement:
    rows, cols = _size(layout_function)
    code = BACK_CODE if last_place else FORWARD_CODE
    sizes = (cols, rows) if layout_function.turned else (rows, cols)
    text = code.format(
        module=_module(module), name=layout_function.name, sizes=sizes, turn="[::-1]" if layout_function.turned else ""
    )
    slots = (32, rows * cols // 32)
    return statement(
        layout_function.name, layout_function.fragment, slots, placed, across=layout_function.across, code=text
    )


def _forward(layout_function: Callable[[int, int], Any], turned: bool) -> Callable[[int, int], StatedPlace]:
    def place(thread: int, i: int) -> StatedPlace:
        tile_place = layout_function(thread, i)
        return tile_place if tile_place is None or not turned else (tile_place[1], tile_place[0])

    return place


def _metadata(loader: MetadataFunction) -> Statement:
    """A unit is some index fields next to each other; of two lanes of four selector 0 reads the first two."""
    function = _function("mma_sp_layout", loader.name)

    def place(thread: int, i: int) -> StatedPlace:
        if not loader.every and thread % 4 > 1:
            return None
        row, unit = function(thread, i // loader.unit)
        return row, unit * loader.unit + i % loader.unit

    skip = "" if loader.every else "    if thread % 4 > 1:\n        return None\n"
    module = _module("mma_sp_layout")
    text = METADATA_CODE.format(module=module, name=loader.name, unit=loader.unit, skip=skip)
    return statement(loader.name, f"{loader.form}.e", (32, loader.fields), place, selector=0, code=text)


def _accumulator(n: int) -> Statement:
    """D of wgmma, one warpgroup."""
    emitter = _function("wgmma_macro_generator", "TensorCoreIntrinEmitter")
    script = "tvm.tirx" if find_spec("tvm.tirx") else "tvm.tir"
    tirx = importlib.import_module(script)
    options = {
        "accum_dtype": "float32",
        "block_row_warps": 4,
        "block_col_warps": 1,
        "warp_row_tiles": 16,
        "warp_col_tiles": n,
        "b_transposed": True,
    }
    layout = emitter(**options).make_mma_store_layout(tirx.decl_buffer((64, n), "float32", scope="local.fragment"))
    place = invert(
        product(range(64), range(n)),
        lambda row, col: (int(layout.map_forward_thread([row, col])[0]), int(layout.map_forward_index([row, col])[0])),
    )
    fragment = f"wgmma.mma_async.m64n{n}k16.f32.f16.f16.d"
    package, name = script.split(".")
    text = STORE_CODE.format(
        how=options, n=n, module=_module("wgmma_macro_generator"), script=f"{package} import {name}"
    )
    return statement(f"wgmma make_mma_store_layout, n {n}", fragment, (128, n // 2), place, code=text)


FORWARD_CODE = """\
from {module} import {name} as place
def stated(thread, i):
    return tuple(place(thread, i)){turn}"""
BACK_CODE = """\
from {module} import {name} as holder
first, second = {sizes}
held = {{holder(x, y): (x, y){turn} for x in range(first) for y in range(second)}}
def stated(thread, i):
    return held.get((thread, i))"""
METADATA_CODE = """\
from {module} import {name} as place
def stated(thread, i):  # i counts index fields of the register
{skip}    row, unit = place(thread, i // {unit})
    return row, unit * {unit} + i % {unit}"""
STORE_CODE = """\
from {module} import TensorCoreIntrinEmitter
from {script} as script
held = script.decl_buffer((64, {n}), "float32", scope="local.fragment")
made = TensorCoreIntrinEmitter(**{how}).make_mma_store_layout(held)
of = {{(int(made.map_forward_thread([r, c])[0]), int(made.map_forward_index([r, c])[0])): (r, c)
      for r in range(64) for c in range({n})}}
def stated(thread, i):
    return of.get((thread, i))"""
