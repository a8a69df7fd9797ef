"""Opcodes by name (opcode with modifiers), and what their functions share.

A function takes the machine and the operands as nvdisasm prints them. It models exactly the forms that it accepts
and raises UnreadError for all others. `gpu` tests run every one of them against real hardware.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tcprobe.sass.decode import Argument, UnreadError
from tcprobe.sass.machine import ZERO

Function = Callable[..., None]
OPCODES: dict[str, Function] = {}


def named(*names: str, into: dict[str, Function] = OPCODES) -> Callable[[Function], Function]:
    """Register a function under opcode names."""

    def register(function: Function) -> Function:
        into.update(dict.fromkeys(names, function))
        return function

    return register


def must(condition: bool, words: str) -> None:
    """UnreadError with `words` unless the condition holds."""
    if not condition:
        raise UnreadError(words)


def wide(value: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The same number in 64 bits."""
    return value.astype(np.uint64)


def is_zero(operand: Argument) -> bool:
    """Whether it is RZ or URZ."""
    return operand.kind in ("R", "UR") and operand.index == ZERO and not operand.negative
