"""JAX's Mosaic GPU (Pallas): TiledLayouts of warpgroups, and MMALayouts of the warps of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from tcprobe.audit.statement import Statement, statement, uncompared_statement

PACKAGE = "jax"
REPORTED: Mapping[str, str] = {}
WIDTHS = (8, 16, 24, 64, 128, 256)
Dims = Sequence[tuple[int, int]]  # (size, stride)
TYPES = {"F16Type": "f16", "BF16Type": "bf16", "Float8E4M3FNType": "e4m3", "Float8E5M2Type": "e5m2"}
APART = {
    "WGMMA_LAYOUT_UPCAST_2X": "for conversions, of no instruction",
    "WGMMA_LAYOUT_UPCAST_4X": "for conversions, of no instruction",
    "WGMMA_TRANSPOSED_LAYOUT": "of a matrix that is stored transposed",
    "WGMMA_ROW_LAYOUT": "of a vector",
    "WGMMA_COL_LAYOUT": "of a vector",
    "TCGEN05_LAYOUT": "of two loads of tensor memory together",
    "TMEM_NATIVE_LAYOUT": "of loads of tensor memory of 128 lanes",
}


def statements() -> Iterator[Statement]:
    """The layouts of wgmma and of mma."""
    from jax.experimental.mosaic.gpu import fragmented_array as fa

    for n in WIDTHS:
        for name in ("WGMMA_LAYOUT", "WGMMA_LAYOUT_ACC_32BIT"):
            yield _tiled(f"fa.{name}", getattr(fa, name), f"wgmma.mma_async.m64n{n}k16.f32.f16.f16.d", (64, n))
    yield _tiled("fa.WGMMA_LAYOUT", fa.WGMMA_LAYOUT, "wgmma.mma_async.m64n8k16.f32.f16.f16.a", (64, 16))
    yield _tiled("fa.WGMMA_LAYOUT_8BIT", fa.WGMMA_LAYOUT_8BIT, "wgmma.mma_async.m64n8k32.s32.s8.s8.a", (64, 32))
    # MMALayouts: 16 rows of A and D a warp; all four hold B
    from jax.experimental.mosaic.gpu.mma import MMALayouts
    from jaxlib.mlir import ir

    for kind, short in TYPES.items():
        k = 16 if short.endswith("f16") else 32
        form = f"mma.m16n8k{k}.row.col.f32.{short}.{short}.f32"
        with ir.Context():
            mma_layouts = MMALayouts(getattr(ir, kind).get())
        for operand, field, size in (("a", "lhs", (64, k)), ("b", "rhs", (k, 8)), ("d", "acc", (64, 8))):
            layout_name = f"MMALayouts(ir.{kind}.get()).{field}"
            yield _tiled(layout_name, getattr(mma_layouts, field), f"{form}.{operand}", size, atom=kind, bands=4)
    for name, reason in APART.items():
        if hasattr(fa, name):
            yield uncompared_statement(f"fa.{name}", "", reason)


def _tiled(name: str, tiled: Any, fragment: str, tile_size: tuple[int, int], **more: str | int) -> Statement:
    slot_elements = elements(tiled, tile_size)
    count = len(slot_elements) // 128
    code = CODE.format(name=name, size=tile_size)
    return statement(
        f"{name} as {fragment.rsplit('.', 1)[1].upper()} of {fragment.rsplit('.', 1)[0]}",
        fragment,
        (128, count),
        lambda thread, i: divmod(slot_elements[thread * count + i], tile_size[1]),
        code=code,
        **more,
    )


def elements(tiled: Any, extent: tuple[int, int]) -> list[int]:
    """The number of the element in every slot: registers count by tiles, each a vector."""
    sizes = tiled.tiling.tile_shape(extent)
    dims = list(zip(sizes, tiled.tiling.tile_strides((extent[1], 1)), strict=True))
    every = (*tiled.warp_dims, *tiled.lane_dims, tiled.vector_dim)
    owned = {len(dims) + d for d in every if isinstance(d, int)}
    registers = [range(size) if d not in owned else (0,) for d, (size, _) in enumerate(dims)]
    inside = [sum(n * step for n, (_, step) in zip(position, dims, strict=True)) for position in product(*registers)]
    length, step = dims[tiled.vector_dim]
    elements_of_thread = [first + v * step for first in inside for v in range(length)]
    starts = [_start(t // 32, tiled.warp_dims, dims) + _start(t % 32, tiled.lane_dims, dims) for t in range(128)]
    return [first + element for first in starts for element in elements_of_thread]


def _start(number: int, owned: Sequence[Any], tile_dims: Dims) -> int:
    """Where a warp or lane begins: its dimensions count from the last one on; of copies the stride is 0."""
    start = 0
    for dim in reversed(owned):
        size, step = tile_dims[dim] if isinstance(dim, int) else (dim.times, 0)
        number, digit = divmod(number, size)
        start += digit * step
    return start


CODE = """\
from itertools import product
from jax.experimental.mosaic.gpu import fragmented_array as fa
from jax.experimental.mosaic.gpu.mma import MMALayouts
from jaxlib.mlir import ir
with ir.Context():
    layout, size = {name}, {size}
dims = list(zip(layout.tiling.tile_shape(size), layout.tiling.tile_strides((size[1], 1))))
owned = {{len(dims) + d for d in (*layout.warp_dims, *layout.lane_dims, layout.vector_dim) if isinstance(d, int)}}
registers = [range(n) if d not in owned else (0,) for d, (n, _) in enumerate(dims)]
length, step = dims[layout.vector_dim]
inside = [sum(n * s for n, (_, s) in zip(at, dims)) + v * step for at in product(*registers) for v in range(length)]
def start(number, own):
    found = 0
    for dim in reversed(own):
        n, s = dims[dim] if isinstance(dim, int) else (dim.times, 0)
        number, digit = divmod(number, n)
        found += digit * s
    return found
def stated(thread, i):
    first = start(thread // 32, layout.warp_dims) + start(thread % 32, layout.lane_dims)
    return divmod(first + inside[i], size[1])"""
