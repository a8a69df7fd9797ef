"""Published tables for every format: of a warp and of a warpgroup, and two that are spoilt; and emitted Python, run."""

import runpy
import tempfile
from functools import cache
from pathlib import Path

from tcprobe.isa import inventory
from tcprobe.isa.names import select
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import for_emit, load
from tcprobe.store.results import published

RESULTS = published()

WARPGROUP = (
    "m64n8k16.f32.f16.f16.d",
    "m64n24k16.f32.f16.f16.d",
    "m64n256k16.f32.f16.f16.d",
    "m64n8k8.*.a",
    "m64n8k16.*.a",
    "m64n8k32.*.a",
    "m64n8k256.*.a",
    "sp.m64n8k*.a",
)


@cache
def distinct():
    """A table of every published layout, and of every operand."""
    found = {}
    for table in for_emit([f for f in inventory.of_a_warp().values() if f.role in WHOLE], "all", RESULTS):
        found.setdefault((table.table.id, table.fragment.operand), table)
    return list(found.values())


@cache
def warpgroup():
    """Of the 128 threads of wgmma: every layout of A, and D of some N, 24 and its 12 elements a thread among them."""
    found = {}
    for table in for_emit(select(*(f"wgmma.mma_async.{p}" for p in WARPGROUP)), "sm_90", RESULTS):
        found.setdefault((table.table.id, table.fragment.operand), table)
    return list(found.values())


def run_python(text):
    """What a program that was emitted defines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "emitted.py"
        path.write_text(text)
        return runpy.run_path(str(path))


def number(fragment, cell):
    """CuTe's number of an element."""
    row, col, product = (*cell, 0)[:3]
    size = fragment.rows * fragment.cols * product
    return size + (col + fragment.cols * row if fragment.operand == "b" else row + fragment.rows * col)


def scrambled():
    """A table that needs XOR: rows differ by the lane's low bits."""
    table = load("mma.m16n8k16.row.col.f32.f16.f16.f32.d")
    swizzled = tuple(c ^ (r & 7) for r, c in zip(table.table.values["row"], table.table.values["col"], strict=True))
    import dataclasses

    return dataclasses.replace(table, table=slot_table(32, 4, {"row": table.table.values["row"], "col": swizzled}))


def nonlinear():
    import dataclasses

    table = load("mma.m16n8k16.row.col.f32.f16.f16.f32.d")
    col = list(table.table.values["col"])
    col[5], col[6] = col[6], col[5]
    return dataclasses.replace(table, table=slot_table(32, 4, {"row": table.table.values["row"], "col": tuple(col)}))
