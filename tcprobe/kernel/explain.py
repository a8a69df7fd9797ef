"""The ways of one element of A, of B and of D through a kernel: addresses, threads and registers in its own numbers.

>>> from tcprobe.kernel.explain import explain
>>> from tcprobe.kernel.gemm import GemmOptions, gemm
>>> ways = explain(gemm(GemmOptions("sm_80", "f16")), (37, 21, 19))
>>> ways[0]["element"], ways[0]["steps"][1]
('A(37, 19)', 'cp.async.16 by thread 42 (round 2), to byte 4854 of stage 0')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcprobe.isa.arch import WARP, holder_name
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import FACTORS, MULTIPLIED
from tcprobe.kernel.mma_sync import Gemm
from tcprobe.kernel.tcgen05 import PART, WARP_ROWS, TensorGemm
from tcprobe.kernel.wgmma import LINES, WarpgroupGemm
from tcprobe.store.cell import Cell
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.kernel.gemm import GemmKernel

Way = Json
RowColK = tuple[int, int, int]  # row of A and D, column of B and D, k


class ProductPlace(NamedTuple):
    """An element of A (row, k), B (k, col) and D (row, col)."""

    row: int
    col: int
    k: int

    def coordinates(self, operand: str) -> tuple[int, int]:
        """Its coordinates in a matrix."""
        return {"a": (self.row, self.k), "b": (self.k, self.col), "d": (self.row, self.col)}[operand]

    def label(self, operand: str) -> str:
        """A(37, 19)."""
        return f"{operand.upper()}{self.coordinates(operand)}"


def explain(kernel: GemmKernel, row_col_k: RowColK) -> list[Way]:
    """The ways of A(row, k), B(k, col) and D(row, col)."""
    gemm, product_place = kernel.gemm, ProductPlace(*row_col_k)
    if isinstance(gemm, Gemm):
        factors, result = [_factor(gemm, name, product_place) for name in FACTORS], _result(gemm, product_place)
    elif isinstance(gemm, WarpgroupGemm):
        factors, result = [_in_boxes(gemm, name, product_place) for name in FACTORS], _from_group(gemm, product_place)
    else:
        factors = [_in_own_boxes(gemm, name, product_place) for name in FACTORS]
        result = _from_tensor_memory(gemm, product_place)
    steps = dict(zip(MULTIPLIED, (*factors, result), strict=True))
    return [{"element": product_place.label(name), "steps": lines} for name, lines in steps.items()]


def _memory(name: str, coordinates: tuple[int, int], along_rows: bool, kind: str) -> str:
    """Where an element is in global memory."""
    line, place = coordinates if along_rows else coordinates[::-1]
    return f"global: {name} + {line} * ld{name} + {place * dtype(kind).bits // 8}"


def _factor(gemm: Gemm, operand: str, product_place: ProductPlace) -> list[str]:
    """Global -> shared -> registers, by the path of a warp's part."""
    plan, along_rows = gemm.paths[operand], (gemm.a if operand == "a" else gemm.b) == "row"
    tile, (row, col), k = plan.request.tile, product_place.coordinates(operand), gemm.tile[2]
    outer, whole, each = (row, gemm.tile[0], tile.rows) if operand == "a" else (col, gemm.tile[1], tile.cols)
    part, inside = outer % whole // each, outer % each
    in_tile = (inside, product_place.k % k) if operand == "a" else (product_place.k % k, inside)
    line, byte = (in_tile[0], in_tile[1]) if along_rows else (in_tile[1], in_tile[0])
    byte = byte * tile.bits // 8
    step = plan.transfer
    matches = np.argwhere((step.line == line) & (step.byte // step.width == byte // step.width))  # type: ignore[attr-defined]
    issue, lane = matches[0].tolist()
    issue += part * len(step.line)  # type: ignore[attr-defined]
    warps = gemm.warps[0] * gemm.warps[1]
    start = part * plan.request.shared.bytes(tile) + (gemm.parts_bytes("a") if operand == "b" else 0)
    stage = product_place.k // k % gemm.stages
    offset = start + int(plan.request.shared.offset(tile, line, byte))
    which = f"row {part} of warps" if operand == "a" else f"column {part} of warps"
    return [
        _memory(operand, (row, col), along_rows, gemm.element),
        f"{step.instruction} by thread {issue % warps * WARP + lane} (round {issue // warps}), to byte {offset} of "
        f"stage {stage}",
        f"{plan.registers.instruction} by {which}, k step {in_tile[operand == 'a'] // gemm.shape.k}",
        f"registers: {_register_text(gemm.cell(operand), in_tile, operand)}",
    ]


def _register_text(cell: Cell, coordinates: tuple[int, int], operand: str) -> str:
    """The fragment of a warp's part, the lane, and the register in the kernel's array."""
    fragment = cell.fragment
    number = coordinates[0] // fragment.rows if operand == "a" else coordinates[1] // fragment.cols
    lane, i = _slot(cell, coordinates)
    register, bit = fragment.where(i)
    place = number * fragment.registers + register
    return f"{holder_name(lane, cell.table.threads)}, f{operand}[step & 1][{place}], bit {bit} on (fragment {number})"


def _slot(cell: Cell, coordinates: tuple[int, int]) -> tuple[int, int]:
    """The first slot that holds an element of a tile of fragments."""
    in_fragment = (coordinates[0] % cell.fragment.rows, coordinates[1] % cell.fragment.cols)
    number = next(
        n
        for n, cell_element in enumerate(cell.table.cells)
        if cell_element is not None and tuple(cell_element[:2]) == in_fragment
    )
    return divmod(number, cell.table.elements)


def _result(gemm: Gemm, product_place: ProductPlace) -> list[str]:
    """Registers -> global."""
    (m, n), cell = gemm.warp_tile, gemm.cell("d")
    row, col = product_place.row % gemm.tile[0], product_place.col % gemm.tile[1]
    warp = row // m * gemm.warps[1] + col // n
    lane, i = _slot(cell, (row, col))
    down, across = row % m // cell.fragment.rows, col % n // cell.fragment.cols
    offset = row * gemm.line + col * dtype(gemm.out).bits // 8
    return [
        f"registers: warp {warp}, lane {lane}, d[{down}][{across}][{i}]",
        *([f"shared memory: byte {offset}, where the stages were"] if gemm.line else []),
        _memory("d", (product_place.row, product_place.col), True, gemm.out),
    ]


def _in_boxes(gemm: WarpgroupGemm, operand: str, product_place: ProductPlace) -> list[str]:
    """Global -> shared, read by the multiply behind a descriptor."""
    tile, along_rows = gemm.tiles[operand], (gemm.a if operand == "a" else gemm.b) == "row"
    outer, whole = (product_place.row, gemm.tile[0]) if operand == "a" else (product_place.col, gemm.tile[1])
    line, k = outer % whole, product_place.k % gemm.tile[2]
    inner = (k if tile.major == "k" else line) // tile.box[0]
    offset = int(tile.offset(line, k)) + (gemm.tiles["a"].bytes if operand == "b" else 0)
    reader = f"warpgroup {1 + line // LINES}" if operand == "a" else "every consumer"
    by = (
        f", by block {line * gemm.cluster // whole} of the cluster for all"
        if (operand == "b" and gemm.cluster > 1)
        else ""
    )
    return [
        _memory(operand, product_place.coordinates(operand), along_rows, gemm.type),
        f"TMA, box {inner} of the tile at k {product_place.k - k}{by}, to byte {offset} of stage "
        f"{product_place.k // gemm.tile[2] % gemm.stages}",
        f"read by {reader} in k step {k // gemm.instruction.shape.k} of the tile",
    ]


def _in_own_boxes(gemm: TensorGemm, operand: str, product_place: ProductPlace) -> list[str]:
    """The same of a block of a group, which has its own part of B; two elements of 4 bits are a byte."""
    tile, along_rows = gemm.tiles[operand], (gemm.a if operand == "a" else gemm.b) == "row"
    outer = product_place.row if operand == "a" else product_place.col
    line, k = outer % tile.lines, product_place.k % gemm.tile[2]
    inside = k * tile.k // gemm.tile[2]
    offset = int(tile.offset(line, inside)) + (gemm.tiles["a"].bytes if operand == "b" else 0)
    which = outer // tile.lines % gemm.cluster
    by = f" of block {which} of the group" if gemm.cluster > 1 else ""
    box = (inside if tile.major == "k" else line) // tile.box[0]
    return [
        _memory(operand, product_place.coordinates(operand), along_rows, gemm.element),
        f"TMA, box {box} of the tile at k {product_place.k - k}, to byte {offset} of stage "
        f"{product_place.k // gemm.tile[2] % gemm.stages}{by}",
        f"read by tcgen05.mma in k step {k // gemm.instruction.shape.k} of the tile",
    ]


def _from_tensor_memory(gemm: TensorGemm, product_place: ProductPlace) -> list[str]:
    """Tensor memory -> registers -> shared -> global."""
    row, col, tile = product_place.row % gemm.tile[0], product_place.col % gemm.tile[1], gemm.tiles["d"]
    offset = row // WARP_ROWS * tile.bytes + int(tile.offset(row % WARP_ROWS, col))
    by = f" of block {product_place.row // gemm.tile[0] % 2} of the group" if gemm.cluster > 1 else ""
    return [
        f"tensor memory: lane {row}, column {col}{by}",
        f"registers: warp {row // WARP_ROWS}, lane {row % WARP_ROWS}, d[{col % PART}] of columns {col - col % PART} on",
        f"st.shared to byte {offset}, TMA, box {col // tile.box[0]}",
        _memory("d", (product_place.row, product_place.col), True, gemm.out),
    ]


def _from_group(gemm: WarpgroupGemm, product_place: ProductPlace) -> list[str]:
    """Registers -> shared -> global, or straight."""
    row, col, cell = product_place.row % gemm.tile[0], product_place.col % gemm.tile[1], gemm.cell("d")
    thread, i = _slot(cell, (row % LINES, col))
    steps = [f"registers: warpgroup {1 + row // LINES}, {holder_name(thread, cell.table.threads)}, d[0][{i}]"]
    if "d" in gemm.tiles:
        tile = gemm.tiles["d"]
        offset = row // LINES * tile.bytes + int(tile.offset(row % LINES, col))
        steps.append(f"stmatrix to byte {offset}, TMA, box {col // tile.box[0]}")
    return [*steps, _memory("d", (product_place.row, product_place.col), True, gemm.out)]
