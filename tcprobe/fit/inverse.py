"""The inverse of a table as formulas: from an element, and the number of its copy, to lane and i.

>>> from tcprobe.fit.inverse import inverse
>>> from tcprobe.layout.table import Table
>>> found = inverse(Table(2, 2, {"row": (0, 0, 1, 1), "col": (0, 1, 0, 1)}))
>>> str(found["lane"]), str(found["i"])
('row & 1', 'col & 1')

Copies of an element are numbered in the order of their slots. Proven over every slot; None where no linear map
goes through all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcprobe.fit.formula import Formula, linear_formula
from tcprobe.fit.linear import pack, unpack
from tcprobe.layout import gf2
from tcprobe.layout.table import Table

SLOT = ("lane", "i")


def inverse(table: Table) -> dict[str, Formula] | None:
    """Formulas of lane and i in the table's outputs and, where elements have several holders, in `copy`."""
    most = max(map(len, table.inverse.values()))
    names = (*table.outputs, *(("copy",) if most > 1 else ()))
    sizes = [(extent - 1).bit_length() for extent in (*table.extent.values(), most)][: len(names)]
    total = sum(sizes)
    points = []
    for cell, slots in table.inverse.items():
        for copy, slot in enumerate(slots):
            vector = _vector((*cell, copy), sizes) | 1 << total  # the top bit carries the constant
            points.append((vector, pack(dict(zip(SLOT, divmod(slot, table.elements), strict=True)), SLOT)))
    images = gf2.solve(points, total + 1)
    if images is None:
        return None
    unpacked = [unpack(image, SLOT) for image in images]
    starts = [sum(sizes[:j]) for j in range(len(sizes))]
    found = {}
    for name in SLOT:
        parts = {n: [u[name] for u in unpacked[s : s + size]] for n, s, size in zip(names, starts, sizes, strict=True)}
        found[name] = linear_formula(parts, unpacked[total][name], names)
    return found if _proven(found, table, names) else None


def _proven(found: Mapping[str, Formula], table: Table, names: tuple[str, ...]) -> bool:
    return all(
        (found["lane"](*values), found["i"](*values)) == divmod(slot, table.elements)
        for cell, slots in table.inverse.items()
        for copy, slot in enumerate(slots)
        for values in [(*cell, copy)[: len(names)]]
    )


def _vector(values: tuple[int, ...], sizes: list[int]) -> int:
    """Values one after the other, the first in the low bits."""
    total, shift = 0, 0
    for value, size in zip(values, sizes, strict=False):
        total |= value << shift
        shift += size
    return total
