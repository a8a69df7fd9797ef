"""Apache TVM: the functions from a shared tile to (thread, local) of its tensor intrinsics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

from tcprobe.audit.statement import Statement, invert, statement

PACKAGE = "apache-tvm"
REPORTED: Mapping[str, str] = {}
MODULE = "tvm.s_tir.tensor_intrin.cuda"


class TvmFunction(NamedTuple):
    """A function, the rows and columns that it takes, what it is the layout of, and how many times n."""

    name: str
    size: tuple[int, int]
    fragment: str
    across: int = 1


F16, S8 = "mma.m16n8k16.row.col.f32.f16.f16.f32", "mma.m16n8k32.row.col.s32.s8.s8.s32"
BACK = (
    TvmFunction("shared_16x16_to_ldmatrix_32x8_layout", (16, 16), f"{F16}.a"),
    TvmFunction("shared_16x16_to_ldmatrix_32x8_layout", (16, 16), f"{F16}.d", 2),
    TvmFunction("shared_16x32_to_ldmatrix_32x16_layout", (16, 32), f"{S8}.a"),
    TvmFunction("shared_32x16_to_ldmatrix_32x16_layout", (32, 16), f"{S8}.b", 2),
)
FORWARD = TvmFunction("ldmatrix_32x8_to_shared_16x16_layout", (16, 16), f"{F16}.d", 2)


def statements() -> Iterator[Statement]:
    """What each function says of the fragment that its tile is."""
    import importlib

    module = importlib.import_module(MODULE)
    for function in BACK:
        to_slot, (rows, cols) = getattr(module, function.name), function.size
        place = invert(product(range(rows), range(cols)), to_slot)
        code = BACK_CODE.format(module=MODULE, name=function.name, rows=rows, cols=cols)
        slots = (32, rows * cols // 32)
        name = f"{function.name} as {function.fragment[-1].upper()}"
        yield statement(name, function.fragment, slots, place, across=function.across, code=code)
    code = f"from {MODULE} import {FORWARD.name} as stated"
    yield statement(FORWARD.name, FORWARD.fragment, (32, 8), getattr(module, FORWARD.name), across=2, code=code)


BACK_CODE = """\
from {module} import {name} as holder
held = {{tuple(map(int, holder(row, col))): (row, col) for row in range({rows}) for col in range({cols})}}
def stated(thread, i):
    return held.get((thread, i))"""
