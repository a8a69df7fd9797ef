"""What several formats share: comments about a source, names in code, and the layout if it must be linear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe import __version__
from tcprobe.code.cuda import holder
from tcprobe.code.names import identifier
from tcprobe.code.origin import origin
from tcprobe.errors import UsageError
from tcprobe.fit import Formula, Layout, fitted
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import search
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell
from tcprobe.text import comment


def id_and_selector(cell: Cell) -> str:
    """The id of a cell's fragment, and the selector that its table is of."""
    return cell.fragment.id + ("" if cell.selector is None else f", selector {cell.selector}")


def about(cell: Cell) -> list[str]:
    """A comment about a table: its fragment, arch, size and evidence."""
    fragment = cell.fragment
    size = f"{fragment.rows} x {fragment.cols} of {fragment.type}, {fragment.elements} elements a "
    return [
        f"{id_and_selector(cell)} on {cell.arch}: {size}{holder(fragment.threads)}, layout {cell.table.id}",
        f"{origin(cell)}; numbers from {cell.numbering}",
    ]


def counting(cells: Sequence[Cell]) -> str:
    """What lane and i count in formulas of these tables."""
    several = max(cell.fragment.threads for cell in cells)
    lane = f"; lane is the thread of a warpgroup, 0 to {several - 1}, for tables of {several}" if several > WARP else ""
    return f"i counts a lane's elements from the low bits of its first register{lane}"


def heading(cells: Sequence[Cell], mark: str) -> list[str]:
    """The comment at the top of a file; each line begins with `mark`."""
    lines = [f"made by tcprobe {__version__}; {counting(cells)}"]
    lines += [line for cell in cells for line in about(cell)]
    return [f"{mark} {comment(line)}" for line in lines]


def formulas(cell: Cell) -> dict[str, Formula]:
    """Formulas of all outputs; UsageError if one has no closed form, or the table is not a whole fragment's."""
    by_output = fitted(cell.table).formulas
    whole = {name: formula for name, formula in by_output.items() if formula is not None}
    if len(whole) < len(by_output):
        raise UsageError(f"{cell.fragment.id} on {cell.arch}: no closed form, so this format cannot express it.")
    require_fit(cell.fragment, cell.table)
    return whole


def layout(cell: Cell) -> Layout:
    """The linear layout.

    UsageError if the map is not linear, if lane 0 i 0 does not hold element (0, 0), or if the table is not a whole
    fragment's.
    """
    fit = fitted(cell.table)
    if fit.layout is None:
        raise UsageError(f"{cell.fragment.id} on {cell.arch} is not linear: {fit.contradiction}.")
    if fit.layout.offset:
        raise UsageError(
            f"{cell.fragment.id} on {cell.arch} does not begin at zero: lane 0 i 0 holds {fit.layout.origin}."
        )
    require_fit(cell.fragment, cell.table)
    return fit.layout


def cell_identifier(cell: Cell) -> str:
    """The identifier of a fragment; for metadata with its selector."""
    return identifier(cell.fragment.id) + ("" if cell.selector is None else f"_selector{cell.selector}")


def instructions(cells: Sequence[Cell], behind: bool = False) -> Iterator[tuple[Instruction, dict[str, Cell]]]:
    """The instructions all of whose fragments are among `cells`, for each arch; for formats of whole instructions.

    With `behind`, also those with factors behind descriptors, in shared memory. UsageError if there is none, or if a
    table is not a whole fragment's.
    """
    by_id = {cell.fragment.id: cell for cell in cells}
    rows_by_id = inventory.instructions()
    rows = {
        **{row.id: row for n in dict.fromkeys(c.fragment.threads for c in cells) for row in inventory.executed_by(n)},
        **{
            c.fragment.experiment: rows_by_id[c.fragment.experiment]
            for c in cells
            if c.fragment.experiment in rows_by_id
        },
    }
    whole = [
        (row, {f.operand: by_id[f.id] for f in row.fragments})
        for row in rows.values()
        if row.fragments and all(f.id in by_id for f in row.fragments)
    ]
    elsewhere = [row.id for row, _ in whole if row.described and not behind]
    if elsewhere:
        raise UsageError(f"{elsewhere[0]} has a factor in shared memory, and this format describes registers only.")
    if not whole:
        raise UsageError("this format describes a whole instruction: give that, not single fragments.")
    for cell in cells:
        require_fit(cell.fragment, cell.table)
    yield from whole


def multiplies(cells: Sequence[Cell]) -> Iterator[tuple[Instruction, dict[str, Cell]]]:
    """As `instructions`; UsageError if one does not multiply."""
    for row, operands in instructions(cells):
        if not row.multiplies:
            raise search.no_multiply(row)
        yield row, operands
