"""A layout as code to copy, one tab a language beside the formula; what a format cannot say has no tab."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tcprobe.code.names import identifier
from tcprobe.emit import cute, cute_dsl, ptx, tilelang, triton
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.fit import fitted
from tcprobe.fit.inverse import cached_inverse
from tcprobe.isa.operand import WHOLE
from tcprobe.store.cell import Cell

Tab = tuple[str, str]
MOST_REGISTERS = 16  # that are written one by one


def tabs(cell: Cell) -> list[Tab]:
    """(language, code) of a table; none for operands with unused slots."""
    if cell.fragment.role not in WHOLE or None in cell.table.cells:
        return []
    texts = {name: answer_or_none(partial(write, cell)) for name, write in WRITERS.items()}
    return [(name, text) for name, text in texts.items() if text is not None]


def _cuda(cell: Cell) -> str:
    """Constexpr functions of the formulas, and of their inverse where it is linear."""
    forward = {name: formula for name, formula in fitted(cell.table).formulas.items() if formula}
    back = cached_inverse(cell.table) or {}
    lines = [
        f"// {cell.fragment.id} on {cell.arch}, layout {cell.table.id}",
        f"namespace {identifier(cell.fragment.id)} {{",
    ]
    for way in (forward, back):
        for name, formula in way.items():
            parameters = ", ".join(f"int {n}" for n in _arguments(cell, way is back))
            function = f"{name if way is forward else name + '_of'}({parameters})"
            lines.append(f"__host__ __device__ constexpr int {function} {{\n  return {formula};\n}}")
    return "\n".join([*lines, "}"])


def _arguments(cell: Cell, back: bool) -> list[str]:
    """Names of the arguments: inputs of the table, or its outputs and which copy."""
    if not back:
        return list(cell.table.space.names)
    return [*cell.table.outputs, *(["copy"] if max(cell.table.copies) > 1 else [])]


def _cute(cell: Cell) -> str:
    shape, stride = cute.thread_value(cell)
    written = cute.layout_code(cell).replace("cute::", "")
    return f"// {cute.mode_text(shape)}:{cute.mode_text(stride)}\nusing namespace cute;\n{written}"


def _ptx(cell: Cell) -> str:
    if cell.fragment.registers > MOST_REGISTERS:
        raise UsageError(f"{cell.fragment.id} has {cell.fragment.registers} registers.")
    return ptx.declaration(cell)


WRITERS: dict[str, Callable[[Cell], str]] = {
    "CUDA": _cuda,
    "CuTe C++": _cute,
    "CuTe DSL": cute_dsl.layout_code,
    "Triton": triton.layout_code,
    "tilelang": tilelang.layout_code,
    "PTX": _ptx,
}
