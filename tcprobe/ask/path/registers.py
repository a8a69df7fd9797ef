"""Between shared memory and registers: by matrices (ldmatrix, stmatrix) or lane by lane (ld.shared, st.shared).

What a matrix instruction does is its own table on the arch, measured or documented, not assumed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tcprobe.ask.bank_access import Slots, addresses, matrix_ways, origins, walk
from tcprobe.ask.path.steps import (
    REGISTERS_TO_SHARED,
    SHARED_TO_REGISTERS,
    MatrixTables,
    RegisterCopy,
    WideningCopy,
    vector,
)
from tcprobe.ask.tile_cost import cost
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import resolve
from tcprobe.isa.shared_memory import SharedAccess
from tcprobe.layout.arrays import Ints
from tcprobe.store.cell import Cell, cell

if TYPE_CHECKING:
    from tcprobe.ask.path.request import PathRequest

MATRIX_BYTES = 4  # of a matrix in each lane


def register_copy(request: PathRequest) -> RegisterCopy:
    """The step; UsageError says why there is none."""
    slots, row = request.slots, request.access.row
    row.check_on(arch(request.rules.for_arch))
    if row.is_matrix:
        _check_way(request, slots)
    walked = walk(request.access, request.tile, slots)
    shared = addresses(walked, request.tile, request.shared)
    pieces = row.lanes // 8 if row.is_matrix else 1
    piece = MATRIX_BYTES if row.is_matrix else row.bytes
    number = np.arange(len(shared) * pieces).reshape(-1, pieces)
    slot_bits = request.cell.fragment.slot_bits
    fragments, part = np.divmod(number, request.cell.fragment.elements * slot_bits // (8 * piece))
    if (fragments % request.warps != fragments[:, :1] % request.warps).any():
        raise UsageError(
            f"{row.name}: an instruction would serve several warps, as each holds fewer registers of "
            f"{slots.name}; fewer matrices do."
        )
    spent = cost(walked, request.tile, request.shared, request.rules) if row.wider == 1 else None
    tables, evidence = (
        _matrix_tables(request, row)
        if row.is_matrix
        else (None, ("PTX ISA 9.1, ld and st: low bytes of the first register first",))
    )
    return (RegisterCopy if spent else WideningCopy)(
        SHARED_TO_REGISTERS if request.loads else REGISTERS_TO_SHARED,
        row.name,
        (ptx_of(request, row),),
        piece,
        walked.line,
        walked.byte,
        shared,
        fragments,
        part * 8 * piece // slot_bits,
        np.repeat(origins(slots, request.tile), request.warps, axis=0),
        spent.wavefronts if spent else None,
        spent.ideal if spent else None,
        evidence,
        tables,
        request.warps,
    )


def ptx_of(request: PathRequest, access: SharedAccess) -> str:
    """The instruction in full."""
    if access.is_matrix:
        return _matrix_row(access)
    return f"{access.name.partition('.')[0]}.shared.{vector(access.bytes, request.cell.fragment.register_bits)}"


def _matrix_row(access: SharedAccess) -> str:
    """PTX's name of ldmatrix or stmatrix of 8 x 8 matrices of b16, or of s4 into s8."""
    if access.wider > 1:
        _, shape, count, types = access.name.split(".", 3)
        return f"ldmatrix.sync.aligned.{shape}.{count}.shared.{types}"
    move, rest = access.name.split(".", 1)
    return f"{move}.sync.aligned.m8n8.{rest}.shared.b16"


def _check_way(request: PathRequest, slots: Slots) -> None:
    """UsageError where the matrices lie the other way than the instruction takes them, or in none."""
    tile, name = request.tile, request.access.row.name
    ways = matrix_ways(slots, tile, request.access.row.wider)
    suffix = ".trans" if name.endswith(".trans") else ""
    if suffix in ways:
        return
    along = f"with {tile.contiguous}s contiguous in memory"
    if ways:
        instead = "without .trans" if suffix else "with .trans"
        raise UsageError(f"{name}: {along} the matrices of {slots.name} need it {instead}.")
    why = "its registers are not 8 x 8 matrices of b16, whose rows are 16 contiguous bytes"
    if request.widens:
        why = "a register needs elements from several lines, and the instruction has no .trans"
    elif tile.bits != 16 and suffix:
        why = f".trans exchanges elements of 16 bits, not the {tile.bits} of {tile.type}"
    elif tile.bits != 16 and _other_way(request, slots):
        other = "columns" if tile.contiguous == "row" else "rows"
        why = (
            f"a register needs elements of {tile.bits} bits from several lines; only with {other} contiguous is it "
            f"a matrix of b16, and .trans exchanges elements of 16 bits"
        )
    raise UsageError(f"{name}: {along}, {slots.name}: {why}.")


def _other_way(request: PathRequest, slots: Slots) -> bool:
    """Whether matrices are found with the other coordinate contiguous."""
    from dataclasses import replace

    other = "col" if request.tile.contiguous == "row" else "row"
    return bool(matrix_ways(slots, replace(request.tile, contiguous=other)))


def _matrix_tables(request: PathRequest, access: SharedAccess) -> tuple[MatrixTables, tuple[str, ...]]:
    """The tables of the instruction on the arch, and their evidence."""
    form = resolve(_matrix_row(access)).instruction
    data_operand = "d" if request.loads else "a"
    address, data = (_table_of(form.fragment(operand).id, request.cell) for operand in ("address", data_operand))
    lane_of_row = np.full(form.fragment("address").rows, -1)
    for lane, value in enumerate(address.table.values["row"]):
        if value is not None:
            lane_of_row[value] = lane
    rows, cols = (_column(data, name) for name in ("row", "col"))
    bits = 16 if access.wider == 1 else request.tile.bits
    words = tuple(dict.fromkeys(f"{c.fragment.id}: {c.evidence}" for c in (data, address)))
    return MatrixTables(lane_of_row, rows, bits * cols), words


def _column(fragment: Cell, name: str) -> Ints:
    return np.array(fragment.table.values[name], np.int64).reshape(fragment.table.threads, -1)


def _table_of(name: str, like: Cell) -> Cell:
    return cell(inventory.fragment(name), like.arch, like.layers)
