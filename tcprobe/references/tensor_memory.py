"""Where tcgen05.cp writes in tensor memory: the lanes that get each row of the source in shared memory.

Source: PTX ISA 9.1, section 9.7.16, the names of shapes and of .multicast (which warps' lanes get the same rows);
Apache TVM, documentation of tirx, tcgen05.cp, for the lanes of 4x256b. Columns follow each other, from the address on.

>>> from tcprobe.references.tensor_memory import lanes
>>> lanes("64x128b", "warpx2::01_23")[33], lanes("4x256b")[2]
((65, 97), (64,))
"""

from __future__ import annotations

from tcprobe.layout.table import Axis, Space, Table

WARP_LANES = 32  # of tensor memory that a warp of a warpgroup may access
LANES = 128
# by shape and multicast: for each run of 32 source rows, the first lane of every copy
RUNS: dict[tuple[str, str], tuple[tuple[int, ...], ...]] = {
    ("128x256b", ""): ((0,), (32,), (64,), (96,)),
    ("128x128b", ""): ((0,), (32,), (64,), (96,)),
    ("64x128b", "warpx2::02_13"): ((0, 64), (32, 96)),
    ("64x128b", "warpx2::01_23"): ((0, 32), (64, 96)),
    ("32x128b", "warpx4"): ((0, 32, 64, 96),),
}
ROWS_4 = ((0,), (32,), (64,), (96,))  # 4x256b: a row in the first lane of each warp


def lanes(shape: str, multicast: str = "") -> tuple[tuple[int, ...], ...]:
    """The lanes that get each row of the source; KeyError for a combination that PTX does not have."""
    if (shape, multicast) == ("4x256b", ""):
        return ROWS_4
    return tuple(
        tuple(start + row for start in starts) for starts in RUNS[shape, multicast] for row in range(WARP_LANES)
    )


def table(shape: str, multicast: str = "") -> Table:
    """(lane, column) of tensor memory to (row, col) of the source, in 32-bit words; None for cells that are not
    written.
    """
    columns = int(shape.partition("x")[2].removesuffix("b")) // 32
    source = {lane: row for row, group in enumerate(lanes(shape, multicast)) for lane in group}
    cells = [(source.get(lane), column) for lane in range(LANES) for column in range(columns)]
    values = {
        "row": tuple(row for row, _ in cells),
        "col": tuple(None if row is None else column for row, column in cells),
    }
    return Table(Space((Axis("lane", LANES), Axis("column", columns))), values)
