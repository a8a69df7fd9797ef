"""What holds at a place of a kernel: what lanes hold in registers, and which lanes may be there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tcprobe.layout.arrays import Bools
from tcprobe.sass import lanes
from tcprobe.sass.frame import SLOTS
from tcprobe.sass.lanes import CHOICE, UNKNOWN, Lanes, constant
from tcprobe.sass.registers import BASE, PREDICATE, UNIFORM, UNIFORM_PREDICATE

PLACES = 12  # bits of a register's number, in an definition
NEVER = lanes.unknown("a register that nothing has written")
NEVER_BIT = lanes.unknown("a predicate that nothing has written", 1)


class Register(NamedTuple):
    """What a register holds, and where that is from, a place: two of one definition are the same in every lane.

    Negative where several ways brought it, -1 where nothing is known of that.
    """

    value: Lanes
    definition: int = -1


Registers = dict[int, Register]  # by their bit in `sass.registers`, or in `frame`


class State(NamedTuple):
    """What holds at a place; the lanes that may be there; `sure`: whether it is known which of them are."""

    registers: Registers
    active: Bools
    sure: bool = True

    def only(self, bits: frozenset[int]) -> State:
        """With what these registers hold alone."""
        return State({bit: each for bit, each in self.registers.items() if bit in bits}, self.active, self.sure)

    def changed(self, bits: frozenset[int], how: Callable[[int, Register], Register]) -> State:
        """With these registers changed, each by a function of its bit and of what it holds."""
        return self._replace(
            registers={bit: how(bit, each) if bit in bits else each for bit, each in self.registers.items()}
        )

    def beside(self, other: State) -> State:
        """With the lanes of another one, too; what registers hold is not joined."""
        return self._replace(active=np.asarray(self.active | other.active), sure=self.sure and other.sure)

    def behind_exit(self, condition: Lanes) -> State:
        """Behind an exit its lanes are gone, where it is known which they are."""
        active = np.asarray(self.active & (condition.known == 0)) if condition.exact else self.active
        return self._replace(active=active, sure=self.sure and (condition.exact or condition.uniform))

    def sides(self, taken: Lanes, ways: Sequence[int]) -> list[tuple[int, State]]:
        """Where lanes come that do not take a branch, and where those that do, if it is known of each."""
        where = np.broadcast_to(taken.known != 0, self.active.shape)
        both = zip(ways, (self.active & ~where, self.active & where), strict=True)
        return [(after, self._replace(active=active)) for after, active in both if active.any()]


def read_register(kind: str, index: int, registers: Registers) -> Register:
    """What a register holds; RZ and PT have no index."""
    if index < 0:
        return Register(constant(kind in ("P", "UP")))
    bit = BASE[kind] + index
    return registers.get(bit) or unset(bit)


_UNSET = (Register(NEVER), Register(UNKNOWN), Register(NEVER_BIT), Register(CHOICE))


def unset(bit: int) -> Register:
    """A register before it is written; what it holds does not count where a way brings another value."""
    if bit < PREDICATE or bit >= SLOTS:
        return _UNSET[0] if bit < UNIFORM or bit >= SLOTS else _UNSET[1]
    return _UNSET[2] if bit < UNIFORM_PREDICATE else _UNSET[3]


def same(one: Register, other: Register) -> bool:
    """Whether two registers hold the same, from one place."""
    return one == other or (one.definition == other.definition and lanes.same(one.value, other.value))


def same_state(one: State, other: State) -> bool:
    """Whether the same lanes may be at two places, and hold the same."""
    return (
        one.sure == other.sure
        and one.registers.keys() == other.registers.keys()
        and bool((one.active == other.active).all())
        and (
            one.registers == other.registers  # the very same objects, which is seen at once
            or all(same(register, other.registers[bit]) for bit, register in one.registers.items())
        )
    )


def alike(bit: int, value: Lanes) -> Lanes:
    """What a uniform register may hold: one value, whatever the lanes brought."""
    return value if value.uniform else CHOICE if bit >= PREDICATE else UNKNOWN
