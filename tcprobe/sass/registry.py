"""Opcodes by name (with modifiers), and what their functions share.

A function takes the machine and the operands as nvdisasm prints them. One that only computes takes inputs and returns
the output. A function models exactly the forms that it accepts, and raises UnreadError for all others. Tests marked
`gpu` run all of them against hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.layout.arrays import Array, Bools, Words
from tcprobe.sass.decode import Argument, UnreadError
from tcprobe.sass.machine import U32, U64, ZERO, Machine

Handler = Callable[..., None]
Computation = Callable[..., Array]
OPCODES: dict[str, Handler] = {}


def opcode(*names: str, into: dict[str, Handler] = OPCODES) -> Callable[[Handler], Handler]:
    """Register a function under opcode names."""

    def register(function: Handler) -> Handler:
        into.update(dict.fromkeys(names, function))
        return function

    return register


class Input(NamedTuple):
    """An input operand of an opcode, and the machine on which it is read."""

    machine: Machine
    operand: Argument

    def read(self, sign: str = "") -> U32:
        """As `Machine.read`."""
        return self.machine.read(self.operand, sign)

    def read64(self) -> U64:
        """As `Machine.read64`."""
        return self.machine.read64(self.operand)

    def test(self) -> Bools:
        """As `Machine.test`."""
        return self.machine.test(self.operand)


def computes(*names: str, words: int = 1, into: dict[str, Handler] = OPCODES) -> Callable[[Computation], Computation]:
    """Register a function of `Input`s under opcode names; its result is written to the first operand."""

    def register(computation: Computation) -> Computation:
        @opcode(*names, into=into)
        def run(m: Machine, d: Argument, *sources: Argument) -> None:
            m.write(d, computation(*[Input(m, source) for source in sources]), words)

        return computation

    return register


def must(condition: bool, words: str) -> None:
    """Raise UnreadError with `words` unless the condition holds."""
    if not condition:
        raise UnreadError(words)


def wide(words: Words) -> NDArray[np.uint64]:
    """The same numbers in 64 bits."""
    return words.astype(np.uint64)


def is_zero(argument: Argument) -> bool:
    """Whether it is RZ or URZ."""
    return argument.kind in ("R", "UR") and argument.index == ZERO and not argument.negative
