"""Axis: a named input of a map, of any size. Points are tuples of inputs, numbered with the first axis slowest.

>>> from tcprobe.layout.space import Axis, Space
>>> space = Space((Axis("thread", 128), Axis("i", 12)))
>>> space.points, space.number(thread=2, i=3), space.point(27)
(1536, 27, {'thread': 2, 'i': 3})
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from tcprobe.errors import DataError, UsageError

MOST_POINTS = 1 << 20


class Axis(NamedTuple):
    """A named input with values 0 to size - 1."""

    name: str
    size: int

    @property
    def bits(self) -> int:
        """Bits that the values need; 0 if there is only one."""
        return (self.size - 1).bit_length()

    def check(self, value: object) -> int:
        """The value; UsageError if the axis does not have it."""
        if type(value) is not int or not 0 <= value < self.size:
            raise UsageError(f"{self.name} {value!r} is not a number from 0 to {self.size - 1}.")
        return value


@dataclass(frozen=True)
class Space:
    """All tuples of values of some axes, numbered from 0; the last axis varies fastest."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        for axis in self.axes:
            if type(axis.size) is not int or axis.size < 1:
                raise DataError(f"axis {axis.name} has size {axis.size!r}; a size is a whole number of at least 1.")
        if len({axis.name for axis in self.axes}) < len(self.axes) or not self.axes:
            raise DataError(f"axes {', '.join(axis.name for axis in self.axes) or 'none'}: each needs its own name.")
        if self.points > MOST_POINTS:
            sizes = " x ".join(str(axis.size) for axis in self.axes)
            raise DataError(f"{sizes} points; at most {MOST_POINTS} are held.")

    @cached_property
    def points(self) -> int:
        """The number of tuples."""
        return prod(self.sizes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes, in order."""
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the axes, in order."""
        return tuple(axis.name for axis in self.axes)

    def number(self, *values: int, **point: int) -> int:
        """The number of a point, whose values are given in the order of the axes or by name.

        UsageError if an axis is missing, unknown, given twice, or does not have the value.
        """
        named = [*zip(self.names, values, strict=False), *point.items()]
        if sorted(name for name, _ in named) != sorted(self.names) or len(named) != len(values) + len(point):
            names = ", ".join(name for name, _ in named) or "nothing"
            raise UsageError(f"a point is given by {', '.join(self.names)}, not by {names}.")
        point = dict(named)
        total = 0
        for axis in self.axes:
            total = total * axis.size + axis.check(point[axis.name])
        return total

    def values(self, number: int) -> tuple[int, ...]:
        """The values of point `number`, in the order of the axes."""
        reversed_values = []
        for axis in reversed(self.axes):
            number, value = divmod(number, axis.size)
            reversed_values.append(value)
        return tuple(reversed(reversed_values))

    def point(self, number: int) -> dict[str, int]:
        """The values of point `number` by name."""
        return dict(zip(self.names, self.values(number), strict=True))

    def all(self) -> Iterator[tuple[int, ...]]:
        """Every point, in the order of numbers."""
        return map(self.values, range(self.points))


def slots(threads: int, elements: int) -> Space:
    """The slots of a fragment: lane (the number of a thread in its warp or warpgroup) x i."""
    return Space((Axis("lane", threads), Axis("i", elements)))
