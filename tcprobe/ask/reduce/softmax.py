"""A step of online softmax over rows: the new maximum is exchanged, sums stay in their lanes until the end.

A sum needs no exchange in a step: a lane adds up its own elements, and rescales what it has by the same factor as all
lanes of the row. So a step takes the shuffles of one maximum; the total takes those of one sum, once.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.ask.reduce.code import exchange_lines, lane_lines
from tcprobe.ask.reduce.plan import Scheme
from tcprobe.ask.reduce.tile import FragmentTile
from tcprobe.code.cuda import DeviceFunction, Parameter, origin
from tcprobe.errors import UsageError

LEAST = "T(-__int_as_float(0x7f800000))"


def source(scheme: Scheme, tile: FragmentTile, name: str) -> str:
    """The functions `name`(x, maximum, sum, scale) and `name`_total(sum); UsageError where a lane holds copies."""
    if sum(map(len, scheme.groups)) < tile.table.elements:
        raise UsageError(f"{tile.cell.fragment.id}: a lane holds elements twice, so there is no softmax in place.")
    groups, threads, notes = len(scheme.groups), tile.cell.fragment.threads, (origin(tile.cell),)
    step = (
        Parameter(f"T {tile.parameter}", f"{tile.words}, times log2(e); then 2^(x - maximum)"),
        Parameter(f"T (&maximum)[{groups}]", "of each row up to here; -infinity before the first step"),
        Parameter(f"T (&sum)[{groups}]", "of what this lane had of each row; 0 before the first step"),
        Parameter(f"T (&scale)[{groups}]", "what earlier results of each row are to be multiplied by"),
    )
    total = (Parameter(f"T (&sum)[{groups}]", "of this lane; then of each row, in every lane that holds it"),)
    of_step = DeviceFunction(name, step, tuple(_step(scheme, tile)), threads, notes)
    of_total = DeviceFunction(f"{name}_total", total, tuple(_total(scheme)), threads, notes)
    return f"{of_step}\n\n{of_total}"


def _step(scheme: Scheme, tile: FragmentTile) -> Iterator[str]:
    yield from lane_lines(scheme, "fmax", tile)
    lines, maxima = exchange_lines(scheme, "fmax", [f"p{part}" for part in range(len(scheme.groups))])
    yield from lines
    for part, (group, value) in enumerate(zip(scheme.groups, maxima, strict=True)):
        yield f"const T n{part} = {value};"
        yield f"const T m{part} = fmax(maximum[{part}], n{part});"
        yield f"const T z{part} = m{part} == {LEAST} ? T(0) : m{part};  // a row that is all masked"
        yield f"scale[{part}] = exp2(maximum[{part}] - z{part});"
        yield f"maximum[{part}] = m{part};"
        yield f"sum[{part}] *= scale[{part}];"
        yield from (f"sum[{part}] += {tile.place(i)} = exp2({tile.place(i)} - z{part});" for i in group)


def _total(scheme: Scheme) -> Iterator[str]:
    parts = range(len(scheme.groups))
    yield from (f"const T p{part} = sum[{part}];" for part in parts)
    lines, sums = exchange_lines(scheme, "sum", [f"p{part}" for part in parts])
    yield from lines
    yield from (f"sum[{part}] = {value};" for part, value in enumerate(sums))
