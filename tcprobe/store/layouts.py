"""How a layout is written: value by value, or, a warpgroup's, by its bases where it is linear.

>>> from tcprobe.layout.table import slot_table
>>> from tcprobe.store.layouts import read, to_json
>>> rows, cols = zip(*(divmod(slot, 24) for slot in range(64 * 24)))
>>> table = slot_table(128, 12, {"row": rows, "col": cols})
>>> "bases" in to_json(table), read(to_json(table)) == table
(False, True)

A layout of 128 threads x 128 elements takes 100 KB written out; by its bases 1 KB. Its id is that of the table, the
same however it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcprobe.errors import DataError
from tcprobe.isa.arch import WARP
from tcprobe.layout.table import MOST_SLOTS, MOST_VALUE, SLOT_OUTPUTS, Axis, Space, Table, slots
from tcprobe.values import Json

_KEYS = {"threads", "elements", "outputs", "origin", "bases"}
MOST = 1 << 12  # threads, and elements a thread


def to_json(table: Table) -> Json:
    """Plain data: `Table.to_json`, or the bases of a linear layout of more than a warp."""
    if table.threads <= WARP or table.space != slots(table.threads, table.elements):
        return table.to_json()
    from tcprobe.fit.linear import Layout, fit_layout

    linear = fit_layout(table)
    if not isinstance(linear, Layout) or None in table.values[table.outputs[0]]:
        return table.to_json()
    bases = {name: [[base[o] for o in table.outputs] for base in of] for name, of in linear.bases.items()}
    return {
        "threads": table.threads,
        "elements": table.elements,
        "outputs": list(table.outputs),
        "origin": [linear.origin[o] for o in table.outputs],
        "bases": bases,
    }


def read(data: object) -> Table:
    """The inverse of `to_json`; DataError where anything is missing or of the wrong kind."""
    if not isinstance(data, dict) or "bases" not in data:
        return Table.from_json(data)
    if set(data) != _KEYS:
        raise DataError(f"a layout given by its bases needs {', '.join(sorted(_KEYS))}.")
    return _by_bases(data)


def _by_bases(data: Json) -> Table:
    from tcprobe.fit.linear import Layout, unpacked

    space = _space(data["threads"], data["elements"])
    outputs = tuple(data["outputs"])
    if outputs not in (("row",), ("row", "col"), SLOT_OUTPUTS):
        raise DataError("outputs must be row, col and product, in this order.")
    images = tuple(image for axis in reversed(space.axes) for image in _images(data["bases"], axis, outputs))
    layout = Layout(space, outputs, images, _packed(data["origin"], outputs)).packed()
    return Table(space, {o: tuple(column) for o, column in zip(outputs, unpacked(layout, len(outputs)), strict=True)})


def _space(threads: object, elements: object) -> Space:
    if not all(type(n) is int and 0 < n <= MOST for n in (threads, elements)):
        raise DataError(f"threads and elements must be numbers from 1 to {MOST}.")
    assert isinstance(threads, int)
    assert isinstance(elements, int)
    if threads & (threads - 1) or threads * elements > MOST_SLOTS:
        raise DataError(
            f"{threads} threads x {elements} elements: not a power of two, or more than {MOST_SLOTS} slots."
        )
    return slots(threads, elements)


def _images(bases: Any, axis: Axis, outputs: Sequence[str]) -> list[int]:
    of = bases[axis.name]
    if not isinstance(of, list) or len(of) != axis.bits or set(bases) != {"lane", "i"}:
        raise DataError(f"{axis.name} needs {axis.bits} bases, and there are those of lane and i.")
    return [_packed(base, outputs) for base in of]


def _packed(image: Any, outputs: Sequence[str]) -> int:
    """One element as a number; DataError where it is none."""
    from tcprobe.fit.linear import pack

    fits = isinstance(image, list) and len(image) == len(outputs)
    if not fits or not all(type(v) is int and 0 <= v < MOST_VALUE for v in image):
        raise DataError(f"a base needs {', '.join(outputs)}, each a number below {MOST_VALUE}.")
    return pack(dict(zip(outputs, image, strict=True)), outputs)
