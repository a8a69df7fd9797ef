"""The ways of one element of A, of B and of D through a kernel: addresses, threads and registers in its own numbers.

>>> from tcprobe.kernel.explain import explained
>>> from tcprobe.kernel.gemm import GemmOptions, gemm
>>> ways = explained(gemm(GemmOptions("sm_80", "f16")), (37, 21, 19))
>>> ways[0]["element"], ways[0]["steps"][1]
('A(37, 19)', 'cp.async.16 by thread 42 (round 2), to byte 4854 of stage 0')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcprobe.isa.arch import WARP, holder_name
from tcprobe.isa.dtypes import dtype
from tcprobe.kernel.request import Gemm
from tcprobe.kernel.warpgroups import LINES, WarpgroupGemm
from tcprobe.store.cell import Cell
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.kernel.gemm import GemmKernel

Way = Json


class At(NamedTuple):
    """An element of A (row, k), B (k, col) and D (row, col)."""

    row: int
    col: int
    k: int

    def of(self, operand: str) -> tuple[int, int]:
        """Its coordinates in a matrix."""
        return {"a": (self.row, self.k), "b": (self.k, self.col), "d": (self.row, self.col)}[operand]

    def named(self, operand: str) -> str:
        """A(37, 19)."""
        return f"{operand.upper()}{self.of(operand)}"


def explained(kernel: GemmKernel, at: tuple[int, int, int]) -> list[Way]:
    """The ways of A, B and D; `at` is (row, col, k)."""
    asked, element = kernel.asked, At(*at)
    if isinstance(asked, Gemm):
        steps = {"a": _factor(asked, "a", element), "b": _factor(asked, "b", element), "d": _result(asked, element)}
    else:
        steps = {"a": _boxed(asked, "a", element), "b": _boxed(asked, "b", element), "d": _from_group(asked, element)}
    return [{"element": element.named(name), "steps": lines} for name, lines in steps.items()]


def _memory(name: str, at: tuple[int, int], along_rows: bool, kind: str) -> str:
    """Where an element is in global memory."""
    line, place = at if along_rows else at[::-1]
    return f"global: {name} + {line} * ld{name} + {place * dtype(kind).bits // 8}"


def _factor(gemm: Gemm, operand: str, element: At) -> list[str]:
    """Global -> shared -> registers, by the path of a warp's part."""
    plan, along_rows = gemm.paths[operand], (gemm.a if operand == "a" else gemm.b) == "row"
    tile, (row, col), k = plan.request.tile, element.of(operand), gemm.tile[2]
    outer, whole, each = (row, gemm.tile[0], tile.rows) if operand == "a" else (col, gemm.tile[1], tile.cols)
    part, inside = outer % whole // each, outer % each
    at = (inside, element.k % k) if operand == "a" else (element.k % k, inside)
    line, byte = (at[0], at[1]) if along_rows else (at[1], at[0])
    byte = byte * tile.bits // 8
    step = plan.transfer
    found = np.argwhere((step.line == line) & (step.byte // step.width == byte // step.width))  # type: ignore[attr-defined]
    issue, lane = found[0].tolist()
    issue += part * len(step.line)  # type: ignore[attr-defined]
    warps = gemm.warps[0] * gemm.warps[1]
    start = part * plan.request.shared.bytes(tile) + (gemm.parts_bytes("a") if operand == "b" else 0)
    stage = element.k // k % gemm.stages
    offset = start + int(plan.request.shared.offset(tile, line, byte))
    which = f"row {part} of warps" if operand == "a" else f"column {part} of warps"
    return [
        _memory(operand, (row, col), along_rows, gemm.type),
        f"{step.instruction} by thread {issue % warps * WARP + lane} (round {issue // warps}), to byte {offset} of "
        f"stage {stage}",
        f"{plan.registers.instruction} by {which}, k step {at[operand == 'a'] // gemm.shape.k}",
        f"registers: {_held(gemm.cell(operand), at, operand)}",
    ]


def _held(cell: Cell, at: tuple[int, int], operand: str) -> str:
    """The fragment of a warp's part, the lane, and the register in the kernel's array."""
    fragment = cell.fragment
    number = at[0] // fragment.rows if operand == "a" else at[1] // fragment.cols
    lane, i = _slot(cell, at)
    register, bit = fragment.place(i)
    place = number * fragment.registers + register
    return f"{holder_name(lane, cell.table.threads)}, f{operand}[step & 1][{place}], bit {bit} on (fragment {number})"


def _slot(cell: Cell, at: tuple[int, int]) -> tuple[int, int]:
    """The first slot that holds an element of a tile of fragments."""
    wanted = (at[0] % cell.fragment.rows, at[1] % cell.fragment.cols)
    number = next(n for n, held in enumerate(cell.table.cells) if held is not None and tuple(held[:2]) == wanted)
    return divmod(number, cell.table.elements)


def _result(gemm: Gemm, element: At) -> list[str]:
    """Registers -> global."""
    (m, n), cell = gemm.warp_tile, gemm.cell("d")
    row, col = element.row % gemm.tile[0], element.col % gemm.tile[1]
    warp = row // m * gemm.warps[1] + col // n
    lane, i = _slot(cell, (row, col))
    down, across = row % m // cell.fragment.rows, col % n // cell.fragment.cols
    offset = row * gemm.line + col * dtype(gemm.out).bits // 8
    return [
        f"registers: warp {warp}, lane {lane}, d[{down}][{across}][{i}]",
        *([f"shared memory: byte {offset}, where the stages were"] if gemm.line else []),
        _memory("d", (element.row, element.col), True, gemm.out),
    ]


def _boxed(gemm: WarpgroupGemm, operand: str, element: At) -> list[str]:
    """Global -> shared, read by the multiply behind a descriptor."""
    tile, along_rows = gemm.tiles[operand], (gemm.a if operand == "a" else gemm.b) == "row"
    outer, whole = (element.row, gemm.tile[0]) if operand == "a" else (element.col, gemm.tile[1])
    line, k = outer % whole, element.k % gemm.tile[2]
    inner = (k if tile.major == "k" else line) // tile.box[0]
    offset = int(tile.offset(line, k)) + (gemm.tiles["a"].bytes if operand == "b" else 0)
    reader = f"warpgroup {1 + line // LINES}" if operand == "a" else "every consumer"
    by = (
        f", by block {line * gemm.cluster // whole} of the cluster for all"
        if (operand == "b" and gemm.cluster > 1)
        else ""
    )
    return [
        _memory(operand, element.of(operand), along_rows, gemm.type),
        f"TMA, box {inner} of the tile at k {element.k - k}{by}, to byte {offset} of stage "
        f"{element.k // gemm.tile[2] % gemm.stages}",
        f"read by {reader} in k step {k // gemm.instruction.shape.k} of the tile",
    ]


def _from_group(gemm: WarpgroupGemm, element: At) -> list[str]:
    """Registers -> shared -> global, or straight."""
    row, col, cell = element.row % gemm.tile[0], element.col % gemm.tile[1], gemm.cell("d")
    thread, i = _slot(cell, (row % LINES, col))
    steps = [f"registers: warpgroup {1 + row // LINES}, {holder_name(thread, cell.table.threads)}, d[0][{i}]"]
    if "d" in gemm.tiles:
        tile = gemm.tiles["d"]
        offset = row // LINES * tile.bytes + int(tile.offset(row % LINES, col))
        steps.append(f"stmatrix to byte {offset}, TMA, box {col // tile.box[0]}")
    return [*steps, _memory("d", (element.row, element.col), True, gemm.out)]
