"""Where tcgen05 keeps matrices in tensor memory, and which registers loads and stores move: from PTX's text.

Written from PTX ISA 9.1, sections 9.7.16.2 (shapes of data movement), 9.7.16.10.5 (D and A), 9.7.16.10.7 (scales),
9.7.16.10.8.4 (metadata), with no code in common with what prints kernels; tests compare it with CUTLASS's layouts.
Tensor memory of a CTA has 128 lanes x 512 columns of 32 bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tcprobe.layout.arrays import Ints

LANES, COLUMNS, CELL = 128, 512, 4  # bytes of a cell


class Cells(NamedTuple):
    """Of every element the CTA of the pair, lane and column, counted from an operand's own."""

    cta: Ints
    lane: Ints
    column: Ints


def accumulator(m: int, n: int, pair: bool, weight_stationary: bool) -> Cells:
    """D (m, n): a column of 32 bits an element.

    >>> [int(part[130, 77]) for part in accumulator(256, 128, True, False)]
    [1, 2, 77]
    >>> [int(part[40, 3]) for part in accumulator(64, 128, False, False)]
    [0, 72, 3]
    """
    row, col = np.indices((m, n))
    if pair:
        cta, row = row // (m // 2), row % (m // 2)
        if m == 256:
            return Cells(cta, row, col)
        return Cells(cta, row + 64 * (col // (n // 2)), col % (n // 2))
    none = np.zeros_like(row)
    if m == 128:
        return Cells(none, row, col)
    if weight_stationary:
        parts = 128 // m
        return Cells(none, row + m * (col // (n // parts)), col % (n // parts))
    return Cells(none, row // 16 * 32 + row % 16, col)


def banks(m: int, pair: bool, weight_stationary: bool) -> int:
    """Parts of N that lie one below the other in lanes; each is multiplied with what lies in its own lanes."""
    return 2 if pair and m == 128 else LANES // m if weight_stationary else 1


class Indices(NamedTuple):
    """Of the index fields of every row of A: CTA, lane and column of the cell, and the lowest bit."""

    cta: Ints
    lane: Ints
    column: Ints
    bit: Ints


def metadata(kind: str, m: int, pair: bool, weight_stationary: bool, selector: int) -> Indices:
    """(m, fields) of the first bank, counted from the operand's own address.

    A row has 32 fields of two bits, in two columns; of f16 16 and of tf32 8 of four bits, of which the cells of the
    selected column hold half for two rows that are 8 apart, the other half 8 lanes further on.

    >>> [int(part[9, 12]) for part in metadata("f16", 128, False, False, 1)]
    [0, 9, 1, 24]
    """
    bits = 4 if kind == "tf32" else 2
    row, field = np.indices((m, {"f16": 16, "tf32": 8}.get(kind, 32)))
    cta = row // (m // 2) if pair else np.zeros_like(row)
    row = row % (m // 2) if pair else row
    lane = row if m != 64 or weight_stationary else row // 16 * 32 + row % 16
    if kind not in ("f16", "tf32"):
        return Indices(cta, lane, field * bits // 32, field * bits % 32)
    half, inside = np.divmod(field, 16 // bits)
    upper = row // 8 % 2
    return Indices(cta, lane - 8 * upper + 8 * half, np.full_like(row, selector), 16 * upper + inside * bits)


def registers(shape: str, number: int, split: int = 0) -> tuple[Ints, Ints]:
    """(lane, column) of (threads, registers) of a load or store of .x`number`, counted from its address.

    >>> lane, column = registers("16x256b", 1)
    >>> lane[5].tolist(), column[5].tolist()
    ([1, 1, 9, 9], [2, 3, 2, 3])
    """
    each = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}[shape]
    thread, j = np.indices((32, each * number))
    if shape == "32x32b":
        return thread, j
    if shape == "16x32bx2":
        return thread % 16, j + split * (thread // 16)
    if shape == "16x64b":
        return thread // 4 + 8 * (thread % 2), 2 * j + thread // 2 % 2
    if shape == "16x128b":
        return thread // 4 + 8 * (j % 2), 4 * (j // 2) + thread % 4
    return thread // 4 + 8 * (j // 2 % 2), 8 * (j // 4) + 2 * (thread % 4) + j % 2


ROWS_APART = (4, 2, ((0,), (32,), (64,), (96,)))  # 4x256b: a row to the first lane of each warp
# by shape and multicast: rows of the source, 16-byte pieces of a row, for each run of 32 rows its first lanes
COPIES = {
    ("128x256b", ""): (128, 2, ((0,), (32,), (64,), (96,))),
    ("128x128b", ""): (128, 1, ((0,), (32,), (64,), (96,))),
    ("64x128b", "warpx2::02_13"): (64, 1, ((0, 64), (32, 96))),
    ("64x128b", "warpx2::01_23"): (64, 1, ((0, 32), (64, 96))),
    ("32x128b", "warpx4"): (32, 1, ((0, 32, 64, 96),)),
}


def copied(shape: str, multicast: str) -> tuple[Ints, Ints, Ints]:
    """(row of the source, its word of 32 bits, lane) of every cell that tcgen05.cp writes; the word is the column.

    >>> row, word, lane = copied("32x128b", "warpx4")
    >>> row.size, sorted(set(lane[(row == 5) & (word == 2)].tolist()))
    (512, [5, 37, 69, 101])
    """
    rows, pieces, runs = ROWS_APART if shape == "4x256b" else COPIES[shape, multicast]
    run = 1 if shape == "4x256b" else 32
    cells = [
        (row, word, first + row % run)
        for row in range(rows)
        for word in range(4 * pieces)
        for first in runs[row // run]
    ]
    row, word, lane = np.array(cells).T
    return row, word, lane
