"""Python code for tilelang: functions with // and %, and the T.Fragment that they make.

tilelang's convention: NAME(thread_id, local_id) is the place in the matrix; NAME_thread and NAME_local lead back, and
T.Fragment takes these two. For a fragment with several products the first coordinate is the product's number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tcprobe.emit.common import cell_identifier, formulas, heading
from tcprobe.errors import UsageError
from tcprobe.fit import Formula
from tcprobe.fit.formula import Term
from tcprobe.fit.linear import cached_inverse
from tcprobe.store.cell import Cell

WHAT = "Python code for tilelang: functions with // and %, and the T.Fragment that they make"
ORDER = ("product", "row", "col")  # of coordinates, as tensors of several matrices have it
NAMES = {"lane": "thread_id", "i": "local_id"}
COPIED = "# no T.Fragment: the local_id of an element's copies differs, and its replicate is one of threads alone"
CROSSED = "# no T.Fragment: tilelang finds no extent for an XOR"


def emit(cells: Sequence[Cell]) -> str:
    """Functions for each table."""
    lines = [*heading(cells, "#"), "import tilelang.language as T"]
    return "\n\n\n".join(["\n".join(lines), *map(layout_code, cells)])


def layout_code(cell: Cell) -> str:
    """The functions of a table, under the fragment's name."""
    forward = formulas(cell)
    crooked = [f"{name} = {formula}" for name, formula in forward.items() if not formula.linear]
    if crooked:
        why = f"is not linear, and no sum of // and % expresses that: {'; '.join(crooked)}"
        raise UsageError(f"{cell.fragment.id} on {cell.arch} {why}.")
    name, table = cell_identifier(cell), cell.table
    axes, bits = [axis for axis in ORDER if axis in table.outputs], _bits(cell)
    size = f"{cell.fragment.rows} x {cell.fragment.cols} of {cell.fragment.type} on {cell.arch}, layout {table.id}"
    lines = [
        f"def {name}(thread_id, local_id):",
        f'    """The {", ".join(axes)} that a slot holds: {size}."""',
        *(f"    {axis} = {divide(forward[axis], bits)}" for axis in axes),
        f"    return {', '.join(axes)}",
    ]
    return "\n".join([*lines, *_holders(cell, axes, bits)])


def _holders(cell: Cell, axes: Sequence[str], widths: Mapping[str, int]) -> Iterator[str]:
    """From an element, and its copy if it has several holders, to thread_id and local_id; and their T.Fragment."""
    name, back = cell_identifier(cell), cached_inverse(cell.table)
    if back is None:
        raise UsageError(f"{cell.fragment.id} on {cell.arch}: the inverse has no closed form, which tilelang needs.")
    copied = ["copy"] if "copy" in widths else []
    inside = copied if any(term.variable == "copy" for term in _terms(back["i"])) else []
    yield from _head(f"{name}_thread", [*axes, *copied], "the thread that holds an element")
    yield f"    return {divide(back['lane'], widths)}"
    yield from _head(f"{name}_local", [*axes, *inside], "its slot in that thread")
    yield f"    return {divide(back['i'], widths)}"
    if inside or any(formula.overlapping for formula in back.values()):
        yield from ("", "", COPIED if inside else CROSSED)
    else:
        yield from _fragment(name, [cell.table.extent[axis] for axis in axes], max(cell.table.copies))


def _bits(cell: Cell) -> dict[str, int]:
    """Bits that each variable needs; those of the copy only if elements have several holders."""
    table, copies = cell.table, max(cell.table.copies)
    sizes = {"lane": table.threads, "i": table.elements, **table.extent} | ({"copy": copies} if copies > 1 else {})
    return {name: (size - 1).bit_length() for name, size in sizes.items()}


def _fragment(name: str, shape: Sequence[int], copies: int) -> Iterator[str]:
    yield from _head(f"{name}_fragment", [], "for T.annotate_layout")
    replicate = f", replicate={copies}" if copies > 1 else ""
    yield f"    return T.Fragment({shape}, forward_thread_fn={name}_thread, forward_index_fn={name}_local{replicate})"


def _head(name: str, arguments: Sequence[str], what: str) -> Iterator[str]:
    yield from ("", "", f"def {name}({', '.join(arguments)}):  # {what}")


def divide(formula: Formula, widths: Mapping[str, int]) -> str:
    """A linear formula with //, % and *, for variables of so many bits."""
    parts = [part for term in _terms(formula) for part in _parts(term, widths)]
    parts += [str(formula.constant)] if formula.constant or not parts else []
    return (" ^ " if formula.overlapping else " + ").join(parts)


def _terms(formula: Formula) -> list[Term]:
    return [term for term in formula.terms if isinstance(term, Term)]


def _parts(term: Term, widths: Mapping[str, int]) -> Iterator[str]:
    """What each run of bits of a mask adds; all are shifted by the term's shift."""
    for low, count in _runs(term.mask):
        text = NAMES.get(term.variable, term.variable)
        text += f" // {1 << low}" if low else ""
        text += f" % {1 << count}" if low + count < widths[term.variable] else ""
        yield text + (f" * {1 << low + term.shift}" if low + term.shift else "")


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """(lowest bit, number of bits) of each run of ones, the lowest first."""
    while mask:
        low = (mask & -mask).bit_length() - 1
        ones = mask >> low
        count = (~ones & ones + 1).bit_length() - 1
        yield low, count
        mask &= -1 << low + count
