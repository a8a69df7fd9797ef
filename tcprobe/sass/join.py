"""What registers hold where ways meet in a block, register by register.

Lanes of a warp that come by several ways at once bring each their own; of ways that a warp takes as a whole it comes by
one. So the ways to a block are given in groups: those of a group may be taken at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tcprobe.sass import lanes
from tcprobe.sass.lanes import Lanes
from tcprobe.sass.registers import ALL_UNIFORM_PREDICATES, PREDICATE, UNIFORM
from tcprobe.sass.state import NEVER, NEVER_BIT, PLACES, Register, Registers, State, alike, same, unset

UNIFORM_REGISTERS = (1 << PREDICATE) - (1 << UNIFORM) | ALL_UNIFORM_PREDICATES  # one for a warp
SETTLED = 3  # visits of a block after which what still changes is taken for all that it may become
MOST_VISITS = 40
How = Callable[[Lanes, Lanes], Lanes]


class Join:
    """What comes to a block by ways of these states, by the block that each is from. `active`, `sure`: as of a state.

    It reads the states' registers when it is asked. `plan` is equal for two joins that do the same with what registers
    hold.
    """

    def __init__(self, number: int, groups: Iterable[Sequence[tuple[int, State]]]) -> None:
        self._number = number
        self._groups: list[list[tuple[Registers, How]]] = []
        self.plan: list[tuple[int, bytes]] = []
        at_all: list[State] = []
        for (at, first), *others in groups:
            joined, parts = first, list[tuple[Registers, How]]([(first.registers, lanes.join)])
            self.plan.append((at, b"first"))
            for block, state in others:
                known = joined.sure and state.sure and not (joined.active & state.active).any()
                parts.append((state.registers, partial(lanes.select, joined.active) if known else lanes.mixed))
                self.plan.append((block, joined.active.tobytes() if known else b""))
                joined = joined.beside(state)
            self._groups.append(parts)
            at_all.append(joined)
        self._alone = self._groups[0][0][0] if len(self.plan) == 1 else None  # of the only way
        total, *rest = at_all
        for state in rest:
            total = total.beside(state)
        self.active, self.sure = total.active, total.sure

    def bits(self) -> set[int]:
        """The registers that come by any way."""
        return {bit for parts in self._groups for registers, _ in parts for bit in registers}

    def registers(self) -> Registers:
        """What all of them hold."""
        return dict(self._alone) if self._alone is not None else {bit: self.register(bit) for bit in self.bits()}

    def register(self, bit: int) -> Register:
        """What one of them holds."""
        if self._alone is not None:
            return self._alone.get(bit) or unset(bit)
        found = [self._of_group(bit, parts) for parts in self._groups]
        joined = found[0]
        for other in found[1:]:
            joined = self._met(bit, joined, other, lanes.join)
        return joined

    def _of_group(self, bit: int, parts: Sequence[tuple[Registers, How]]) -> Register:
        (first, _), *others = parts
        joined = first.get(bit) or unset(bit)
        for registers, how in others:
            joined = self._met(bit, joined, registers.get(bit) or unset(bit), how)
        return joined

    def _met(self, bit: int, a: Register, b: Register, how: How) -> Register:
        """What a register holds where two ways meet; what comes unchanged by both is what it was."""
        own = _own(self._number, bit)
        if a is b or b.definition == own:
            return a
        if a.definition == own or a.value is NEVER or a.value is NEVER_BIT:
            return b
        if b.value is NEVER or b.value is NEVER_BIT:
            return a
        if a.definition == b.definition != -1:
            return Register(lanes.shared(lanes.join(a.value, b.value)), a.definition)
        alone = UNIFORM_REGISTERS >> bit & 1
        met = alike(bit, lanes.join(a.value, b.value)) if alone else how(a.value, b.value)
        return Register(lanes.shared(met), own)


def _own(number: int, bit: int) -> int:
    """The definition of what a block itself brings together."""
    return -2 - (number << PLACES | bit)


def widened(number: int, bit: int, before: Register, coming: Register, visits: int) -> Register:
    """A register at a block's entry on another visit: it only grows, and from some visit on at once as far as it may.

    `before` itself where it does not grow.
    """
    if same(before, coming):
        return before
    definition = coming.definition
    if visits > SETTLED and definition != before.definition:
        definition = _own(number, bit)
    value = lanes.join(before.value, coming.value)
    if visits > SETTLED and not lanes.same(before.value, value):
        value = lanes.widened(value) if visits < MOST_VISITS else lanes.unknown(value.why or "it does not settle")
    if definition == before.definition and lanes.same(before.value, value):
        return before
    return Register(lanes.shared(value), definition)


def uneven(register: Register) -> Register:
    """A register of which lanes left a loop one by one."""
    value = register.value
    return register if value.exact else Register(lanes.shared(lanes.uneven(value)))
