"""Between shared memory and registers: by matrices (ldmatrix, stmatrix) or lane by lane (ld.shared, st.shared).

What a matrix instruction does is its own table on the arch, measured or documented, not assumed here.
"""

from __future__ import annotations

import numpy as np

from tcprobe.ask.bank_access import Slots, addresses, matrix_ways, origins, walk
from tcprobe.ask.path.request import PathRequest
from tcprobe.ask.path.steps import REGISTERS_TO_SHARED, SHARED_TO_REGISTERS, MatrixTables, RegisterCopy
from tcprobe.ask.tile_cost import cost
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.names import resolve
from tcprobe.isa.shared_memory import SharedAccess
from tcprobe.layout.banks import Ints
from tcprobe.store.cell import Cell, cell

MATRIX_BYTES = 4  # of a matrix in each lane
_VECTORS = {1: "u8", 2: "u16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}


def register_copy(asked: PathRequest) -> RegisterCopy:
    """The step; UsageError says why there is none."""
    slots, row = asked.slots, asked.access.row
    asked.rules.rule(row)  # the arch has it
    if row.is_matrix:
        _check_way(asked, slots)
    walked = walk(asked.access, asked.tile, slots)
    shared = addresses(walked, asked.tile, asked.shared)
    pieces = row.lanes // 8 if row.is_matrix else 1
    piece = MATRIX_BYTES if row.is_matrix else row.bytes
    number = np.arange(len(shared) * pieces).reshape(-1, pieces)
    fragments, part = np.divmod(number, asked.cell.fragment.elements * asked.tile.bits // (8 * piece))
    if (fragments % asked.warps != fragments[:, :1] % asked.warps).any():
        raise UsageError(f"{row.name}: an instruction would serve several warps, as each holds fewer registers of "
                         f"{slots.name}; fewer matrices do.")  # fmt: skip
    spent = cost(walked, asked.tile, asked.shared, asked.rules)
    tables, evidence = _matrix_tables(asked, row) if row.is_matrix else (None, ("PTX ISA 9.1, ld and st: low bytes of "
                                       "the first register first",))  # fmt: skip
    return RegisterCopy(
        SHARED_TO_REGISTERS if asked.loads else REGISTERS_TO_SHARED, row.name, (ptx_of(asked, row),), piece,
        walked.line, walked.byte, shared, fragments, part * 8 * piece // asked.tile.bits,
        np.repeat(origins(slots, asked.tile), asked.warps, axis=0), spent.wavefronts, spent.ideal, evidence, tables,
        asked.warps,
    )  # fmt: skip


def ptx_of(asked: PathRequest, row: SharedAccess) -> str:
    """The instruction in full."""
    if row.is_matrix:
        return _matrix_row(row)
    return f"{row.name.partition('.')[0]}.shared.{vector(row.bytes, asked.cell.fragment.register_bits)}"


def vector(width: int, register_bits: int = 32) -> str:
    """How PTX writes a load or store of `width` bytes of registers: v4.b32, b64, u8."""
    if register_bits == 64 and width >= 8:
        return "b64" if width == 8 else "v2.b64"
    return _VECTORS[width]


def _matrix_row(row: SharedAccess) -> str:
    """PTX's name of ldmatrix or stmatrix of 8 x 8 matrices of b16."""
    move, rest = row.name.split(".", 1)
    return f"{move}.sync.aligned.m8n8.{rest}.shared.b16"


def _check_way(asked: PathRequest, slots: Slots) -> None:
    """UsageError where the matrices lie the other way than the instruction takes them, or in none."""
    tile, name = asked.tile, asked.access.row.name
    ways = matrix_ways(slots, tile)
    wanted = ".trans" if name.endswith(".trans") else ""
    if wanted in ways:
        return
    along = f"with {tile.contiguous}s contiguous in memory"
    if ways:
        instead = "without .trans" if wanted else "with .trans"
        raise UsageError(f"{name}: {along} the matrices of {slots.name} lie so that they need it {instead}.")
    why = "its registers are no 8 x 8 matrices of b16, whose rows are 16 bytes in one piece"
    if tile.bits != 16 and wanted:
        why = f".trans exchanges elements of 16 bits, not the {tile.bits} of {tile.type}"
    elif tile.bits != 16 and _other_way(asked, slots):
        other = "columns" if tile.contiguous == "row" else "rows"
        why = (f"a register needs elements of {tile.bits} bits from several lines; only with {other} contiguous is it "
               f"a matrix of b16, and .trans exchanges elements of 16 bits")  # fmt: skip
    raise UsageError(f"{name}: {along}, {slots.name}: {why}.")


def _other_way(asked: PathRequest, slots: Slots) -> bool:
    """Whether matrices are found with the other coordinate contiguous."""
    from dataclasses import replace

    other = "col" if asked.tile.contiguous == "row" else "row"
    return bool(matrix_ways(slots, replace(asked.tile, contiguous=other)))


def _matrix_tables(asked: PathRequest, row: SharedAccess) -> tuple[MatrixTables, tuple[str, ...]]:
    """The tables of the instruction on the arch, and their evidence."""
    form = resolve(_matrix_row(row)).instruction
    held = "d" if asked.loads else "a"
    address, data = (_table_of(form.fragment(operand).id, asked.cell) for operand in ("address", held))
    lane_of_row = np.full(form.fragment("address").rows, -1)
    for lane, value in enumerate(address.table.values["row"]):
        if value is not None:
            lane_of_row[value] = lane
    rows, cols = (_column(data, name) for name in ("row", "col"))
    words = tuple(dict.fromkeys(f"{c.fragment.id}: {c.evidence}" for c in (data, address)))
    return MatrixTables(lane_of_row, rows, 2 * cols), words


def _column(fragment: Cell, name: str) -> Ints:
    return np.array(fragment.table.values[name], np.int64).reshape(fragment.table.threads, -1)


def _table_of(name: str, like: Cell) -> Cell:
    return cell(inventory.fragment(name), like.arch, like.layers)
