"""CuTe (CUTLASS): the (thread, value) layouts of its warpgroup atoms, dense and sparse, as shape:stride.

A layout gives m + 64 * k for A, m + 64 * n for D. Those of sparse atoms count all columns of A, of which every second
is stored: the layout of the stored columns is the dense one of half as many columns. A value of the metadata is a
column of all of A; four bits govern one chunk of columns.
"""

from __future__ import annotations

from functools import cache

from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.layout.table import Table, selected, slot_table
from tcprobe.references.claim import Claim
from tcprobe.references.shape_stride import L, apply, modes

DENSE, SPARSE = "mma_traits_sm90_gmma.hpp", "mma_traits_sm90_gmma_sparse.hpp"
FAMILIES = {"wgmma": DENSE, "wgmma.sp": SPARSE}
ROWS = 64
NIBBLES = 8
# by bits of an element: ALayout_64x8, 64x16, 64x32
A = {
    32: L(((4, 8, 4), (2, 2)), ((64, 1, 16), (8, 256))),
    16: L(((4, 8, 4), (2, 2, 2)), ((128, 1, 16), (64, 8, 512))),
    8: L(((4, 8, 4), (4, 2, 2)), ((256, 1, 16), (64, 8, 1024))),
}
# by bits of an element: ELayout_64x16, 64x32, 64x64
E = {
    32: L(((2, 2, 8, 4), (8, 2)), ((512, 0, 1, 16), (64, 8))),
    16: L(((2, 2, 8, 4), (16, 2)), ((1024, 0, 1, 16), (64, 8))),
    8: L(((2, 2, 8, 4), (32,)), ((8, 2048, 1, 16), (64,))),
}


def claim(fragment: Fragment) -> Claim | str:
    """What the traits state of a fragment of wgmma, or why nothing."""
    if fragment.type == "b1" or fragment.shape.k == 256:
        return "CuTe has no wgmma of b1"
    if fragment.role is Role.METADATA:
        table = _metadata(fragment.shape.k, fragment.slot_bits, len(fragment.selectors))
    else:
        d = L(((4, 8, 4), (2, 2, fragment.cols // 8)), ((128, 1, 16), (64, 8, 512)))
        table = _table(d if fragment.operand == "d" else A[fragment.slot_bits], fragment.elements)
    return Claim(table, FAMILIES[fragment.family], None, table)


@cache
def _table(layout: L, elements: int) -> Table:
    of_thread, of_value = modes(layout)
    steps = [apply(of_value, i) for i in range(elements)]
    places = [divmod(apply(of_thread, thread) + step, ROWS) for thread in range(WARPGROUP) for step in steps]
    return slot_table(WARPGROUP, elements, {"row": tuple(r for _, r in places), "col": tuple(c for c, _ in places)})


@cache
def _metadata(k: int, bits: int, selectors: int) -> Table:
    """The stored element that each index field governs; a selector picks one pair of every four threads."""
    of_thread, of_value = modes(E[8 * 64 // k])
    fields, chunk = 4 // bits, 2 if bits == 4 else 4
    tables = []
    for selector in range(selectors):
        rows: list[int | None] = []
        cols: list[int | None] = []
        for thread in range(WARPGROUP):
            read = selectors == 1 or thread % 4 // 2 == selector
            for field in range(NIBBLES * fields):
                nibble, which = divmod(field, fields)
                col, row = divmod(apply(of_thread, thread) + apply(of_value, chunk * nibble), ROWS)
                rows.append(row if read else None)
                cols.append(col // chunk * fields + which if read else None)
        tables.append(slot_table(WARPGROUP, NIBBLES * fields, {"row": tuple(rows), "col": tuple(cols)}))
    return selected(tables)
