"""A call with its operands in place: filled with samples or masks, called again and again over the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tcprobe.errors import TcprobeError
from tcprobe.layout.arrays import Array
from tcprobe.order.calls import Call, CallError
from tcprobe.order.memory import fill_from_samples, matrix


class Shape(NamedTuple):
    """Of A (m x k), B (k x n), D (m x n)."""

    m: int
    n: int
    k: int


class Alike(NamedTuple):
    """Rows 0, step, 2 step, ... of D, or columns, so many, whose elements are summed in one order."""

    step: int
    number: int

    @property
    def lines(self) -> slice:
        """Which they are."""
        return slice(0, self.step * (self.number - 1) + 1, self.step)


class Bench:
    """`calls` counts them; `beat` is told before and after each, so that who waits can give up.

    The elements of D in the rows and columns `alike` are summed in the same order.
    """

    def __init__(self, call: Call, shape: Shape, beat: Callable[[str], None] | None = None) -> None:
        self.call, self.shape, self.calls, self.beat = call, shape, 0, beat or (lambda _: None)
        memory = call.memory
        self.a = matrix(memory, (shape.m, shape.k), call.types[0], call.a, call.apart)
        self.b = None if call.sums else matrix(memory, (shape.k, shape.n), call.types[1], call.b, call.apart)
        self.given = [
            side if call.raw else memory.typed(side, kind)
            for side, kind in zip((self.a, self.b), call.types, strict=True)
            if side is not None
        ]
        self.d_kind = call.d or ""
        self.alike = Alike(1, shape.m), Alike(1, self.width)

    @property
    def width(self) -> int:
        """Columns of D that differ in B; of a reduction one."""
        return 1 if self.call.sums else self.shape.n

    def run(self) -> Any:
        """D as whole numbers on the device; CallError where the call raises or returns another thing than D."""
        self.beat("calls")
        try:
            d = self._matrix_of(self.call.function(*self.given))
        except TcprobeError:
            raise
        except (Exception, SystemExit) as error:
            words = str(error).strip().splitlines() or [""]
            raise CallError(f"{self.call.name} raises {type(error).__name__}: {words[0][:300]}") from error
        finally:
            self.calls += 1
        self.beat("called")
        return d

    def _matrix_of(self, result: Any) -> Any:
        """What was returned, checked, as whole numbers."""
        memory, shape = self.call.memory, self.shape
        d = memory.own(result)
        wanted = (shape.m, self.width)
        sides = tuple(map(int, d.shape))
        if sides != wanted and not (self.call.sums and sides == wanted[:1]):
            raise CallError(f"{self.call.name} returns {_sides(sides)}, where D of A and B is {_sides(wanted)}.")
        if self.call.raw:
            return d
        kind = memory.kind_of(d)
        if kind is None or (self.d_kind and kind != self.d_kind):
            wants = f", where {self.d_kind} was asked for" if self.d_kind else ""
            raise CallError(f"{self.call.name} returns elements of {kind or d.dtype}{wants}.")
        self.d_kind = kind
        return memory.bits(d).reshape(wanted)

    def fill(self, a: Array, b: Array | None) -> None:
        """Rows of A and columns of B, again and again over the whole: whole numbers, (rows, k) and (k, columns)."""
        memory = self.call.memory
        fill_from_samples(memory, self.a, a, 0)
        if self.b is not None and b is not None:
            fill_from_samples(memory, self.b, b, 1)

    def sampled(self, a: Array, b: Array | None) -> Array:
        """D of samples in rows and columns that are alike, (rows, columns), as whole numbers; of more than there are
        by several calls.
        """
        (_, down), (_, across) = self.alike
        parts = [None] if b is None else [b[:, at : at + across] for at in range(0, b.shape[1], across)]
        return np.block(
            [[self._called(a[at : at + down], part) for part in parts] for at in range(0, a.shape[0], down)]
        )

    def _called(self, a: Array, b: Array | None) -> Array:
        """D of as many samples as there are rows and columns, or fewer."""
        rows, columns = self.alike
        self.fill(np.repeat(a, rows.step, axis=0), None if b is None else np.repeat(b, columns.step, axis=1))
        d = self.run()[rows.lines, columns.lines]
        return self.call.memory.get(d[: a.shape[0], : 1 if b is None else b.shape[1]])


def _sides(sides: tuple[int, ...]) -> str:
    return " x ".join(map(str, sides)) or "a scalar"
