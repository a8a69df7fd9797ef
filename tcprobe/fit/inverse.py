"""The inverse of a table as formulas: from an element, and the number of its copy, to lane and i (its inputs).

>>> from tcprobe.fit.inverse import inverse
>>> from tcprobe.layout.table import slot_table
>>> found = inverse(slot_table(2, 2, {"row": (0, 0, 1, 1), "col": (0, 1, 0, 1)}))
>>> str(found["lane"]), str(found["i"])
('row & 1', 'col & 1')

Copies of an element are numbered in the order of their slots. Formulas are proven for every slot; there are none if no
linear map goes through all slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcprobe.fit.formula import Formula, linear_formula
from tcprobe.fit.linear import pack, unpack
from tcprobe.layout import gf2
from tcprobe.layout.table import Table

_INVERTED: dict[str, dict[str, Formula] | None] = {}  # by layout id: many fragments share few layouts


def inverse(table: Table) -> dict[str, Formula] | None:
    """Formulas of the inputs in the table's outputs and, if elements have several holders, `copy`; None if there are
    none.
    """
    inputs = table.space.names
    most = max(map(len, table.inverse.values()))
    names = (*table.outputs, *(("copy",) if most > 1 else ()))
    sizes = [(extent - 1).bit_length() for extent in (*table.extent.values(), most)][: len(names)]
    total = sum(sizes)
    points = []
    for cell, slots in table.inverse.items():
        for copy, slot in enumerate(slots):
            vector = _vector((*cell, copy), sizes) | 1 << total  # the top bit stands for the constant
            points.append((vector, pack(table.space.point(slot), inputs)))
    images = gf2.solve(points, total + 1)
    if images is None:
        return None
    unpacked = [unpack(image, inputs) for image in images]
    starts = [sum(sizes[:j]) for j in range(len(sizes))]
    formulas = {}
    for name in inputs:
        parts = {n: [u[name] for u in unpacked[s : s + size]] for n, s, size in zip(names, starts, sizes, strict=True)}
        formulas[name] = linear_formula(parts, unpacked[total][name], names)
    return formulas if _is_proven(formulas, table, names) else None


def cached_inverse(table: Table) -> dict[str, Formula] | None:
    """As `inverse`, computed once for each layout; for callers with the tables of many fragments."""
    if table.id not in _INVERTED:
        _INVERTED[table.id] = inverse(table)
    return _INVERTED[table.id]


def _is_proven(formulas: Mapping[str, Formula], table: Table, names: tuple[str, ...]) -> bool:
    return all(
        tuple(formulas[name](*values) for name in table.space.names) == table.space.values(slot)
        for cell, slots in table.inverse.items()
        for copy, slot in enumerate(slots)
        for values in [(*cell, copy)[: len(names)]]
    )


def _vector(values: Sequence[int], sizes: list[int]) -> int:
    """Values side by side in one number, the first in the low bits."""
    total, shift = 0, 0
    for value, size in zip(values, sizes, strict=False):
        total |= value << shift
        shift += size
    return total
