"""CuTe's layouts: nested shape and stride, applied to an index whose leftmost coordinate varies fastest.

>>> from tcprobe.references.shape_stride import L, apply
>>> [apply(L((4, 2), (2, 1)), index) for index in range(8)]
[0, 2, 4, 6, 1, 3, 5, 7]
"""

from functools import cache
from math import prod
from typing import NamedTuple

Nested = int | tuple["Nested", ...]


class L(NamedTuple):
    """A layout: nested shape and stride."""

    shape: Nested
    stride: Nested


def size(nested: Nested) -> int:
    """The number of indices of a shape."""
    return prod(flat(nested))


def apply(layout: L, index: int) -> int:
    """The layout at a colexicographic index."""
    total = 0
    for extent, stride in _digits(layout):
        index, digit = divmod(index, extent)
        total += digit * stride
    return total


@cache
def _digits(layout: L) -> tuple[tuple[int, int], ...]:
    """(extent, stride) of every coordinate, the leftmost first."""
    return tuple(zip(flat(layout.shape), flat(layout.stride), strict=True))


def modes(layout: L) -> list[L]:
    """The layouts of the outermost coordinates, such as (thread, value)."""
    assert isinstance(layout.shape, tuple)
    assert isinstance(layout.stride, tuple)
    return [L(*mode) for mode in zip(layout.shape, layout.stride, strict=True)]


def flat(nested: Nested) -> list[int]:
    """The numbers of a nested tuple in order."""
    return [nested] if isinstance(nested, int) else [leaf for part in nested for leaf in flat(part)]
