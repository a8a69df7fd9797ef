"""What compilers of instructions share: types of PTX as NumPy's, steps with sources and a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.ptx import Address, Operand, Register, Statement

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


COMBINED: dict[str, Any] = {  # two whole numbers, by the word of an instruction
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def types(statement: Statement) -> list[str]:
    """The types that a name has, in order."""
    return [word for word in statement.modifiers if word in NUMPY]


def has(statement: Statement, *allowed: str) -> set[str]:
    """The modifiers that are no types; those that are not `allowed` are refused."""
    statement.only(*NUMPY, *allowed)
    return {word for word in statement.modifiers if word not in NUMPY}


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


def by_modifier(compilers: Mapping[str, Callable[[Statement, Machine], Step]]) -> Callable[..., Step | None]:
    """The compiler of an opcode whose first modifier says what it does; None for those of other modules."""

    def compile_(statement: Statement, machine: Machine) -> Step | None:
        own = compilers.get(statement.modifiers[0])
        return None if own is None else own(statement, machine)

    return compile_


def only(statement: Statement, *words: str) -> None:
    """Refuse a tcgen05 instruction that has modifiers beyond these, its CTA group, kind and collectors."""
    for word in statement.modifiers[1:]:
        if word not in words and not word.startswith(("cta_group::", "kind::", "collector::")):
            raise statement.refused(f"with .{word}")


def tensor_address(machine: Machine, operand: Operand) -> Callable[[Where], Any]:
    """An address in tensor memory: the lane above, the column in the low 16 bits."""
    if not isinstance(operand, Address):
        raise machine.refuse("without an address in tensor memory")
    if operand.base is None:
        return lambda where: np.int64(operand.offset)
    assert isinstance(operand.base, Register)
    read, added = machine.reader(operand.base, np.uint32), operand.offset
    return lambda where: np.asarray(read(where)).astype(np.int64) + added
