"""What compilers of instructions share: types of PTX as NumPy's, steps with sources and a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.ptx import Operand, Statement

NUMPY: dict[str, Any] = {
    **{f"u{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
    **{f"b{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
    **{f"s{n}": np.dtype(f"i{n // 8}") for n in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "pred": np.dtype(np.bool_),
    **{name: np.dtype(np.uint32) for name in ("f16x2", "bf16x2", "u16x2", "s16x2")},
    "bf16": np.dtype(np.uint16),
}


def types(statement: Statement) -> list[str]:
    """The types that a name has, in order."""
    return [word for word in statement.modifiers if word in NUMPY]


def has(statement: Statement, *allowed: str) -> set[str]:
    """The modifiers that are no types; those that are not `allowed` are refused."""
    found = {word for word in statement.modifiers if word not in NUMPY}
    if strange := found - set(allowed):
        raise statement.refused(f"with .{min(strange)}")
    return found


def operation(machine: Machine, statement: Statement, function: Callable[..., Any], result: Any, *sources: Any) -> Step:
    """d = function(a, b, ...), of NumPy's types."""
    if len(statement.operands) != len(sources) + 1:
        raise statement.refused(f"with {len(statement.operands)} operands")
    write = machine.writer(statement.operands[0], result)
    readers = [machine.reader(o, kind) for o, kind in zip(statement.operands[1:], sources, strict=True)]
    if len(readers) == 1:
        (a,) = readers

        def one(where: Where) -> None:
            write(where, function(a(where)))

        return one
    if len(readers) == 2:
        a, b = readers

        def two(where: Where) -> None:
            write(where, function(a(where), b(where)))

        return two

    def many(where: Where) -> None:
        write(where, function(*(read(where) for read in readers)))

    return many


def vector(value: Any, size: int, kind: Any) -> Any:
    """A number or array as an array of `size` numbers."""
    return np.broadcast_to(np.asarray(value, kind), (size,))


def read_all(machine: Machine, operands: tuple[Operand, ...], kind: Any) -> Callable[[Where, int], Any]:
    """(threads, operands) numbers of several operands."""
    readers = [machine.reader(operand, kind) for operand in operands]

    def read(where: Where, count: int) -> Any:
        made = np.empty((count, len(readers)), kind)
        for number, one in enumerate(readers):
            made[:, number] = one(where)
        return made

    return read
