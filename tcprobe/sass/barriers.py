"""Which barrier an instruction arrives at or waits at: a named one by its number, an mbarrier by its address.

What a thread does before it arrives is seen by those who wait there, and by nobody else.
"""

from __future__ import annotations

import numpy as np

from tcprobe.sass.kernel import Instruction
from tcprobe.sass.lanes import Lanes
from tcprobe.sass.reader import Reader
from tcprobe.sass.shared_bytes import exact, places, takes_part
from tcprobe.sass.state import State, read_register

ARRIVALS = ("BAR.", "SYNCS.ARRIVE", "UCGABAR_ARV", "ARRIVES")
WAITS = ("BAR.SYNC", "BAR.RED", "SYNCS.PHASECHK", "UCGABAR_WAIT")
CLUSTER, NAMED = -2, -16  # no addresses; named barrier n is NAMED - n
Barriers = frozenset[int]


def arrives(instruction: Instruction) -> bool:
    """Whether it arrives at a barrier; one that waits there, too, does both."""
    return instruction.guard != "never" and instruction.opcode.startswith(ARRIVALS)


def waits(instruction: Instruction) -> bool:
    """Whether it waits at a barrier."""
    return instruction.guard != "never" and instruction.opcode.startswith(WAITS)


def barriers(instruction: Instruction, reader: Reader, state: State) -> Barriers | None:
    """The barriers that its lanes name; none where no lane executes it, None where they do not follow."""
    if instruction.mnemonic.startswith("UCGABAR"):
        return frozenset({CLUSTER})
    if instruction.mnemonic == "BAR":
        numbers = _values(reader.read(instruction.operands[0], state.registers), instruction, reader, state)
        return None if numbers is None else frozenset(NAMED - number for number in numbers)
    operand = next((o for o in instruction.operands if o.kind == "address"), None)
    return None if operand is None else _values(reader.address(operand, state.registers), instruction, reader, state)


def numbers_by_warp(instruction: Instruction, reader: Reader, state: State) -> tuple[int | None, ...]:
    """The number of the named barrier of each warp; None where it is not known, or the warp is not there."""
    value = reader.read(instruction.operands[0], state.registers)
    active = np.asarray(state.active)
    if not value.exact:
        return (None,) * len(active)
    numbers = np.broadcast_to(value.known, active.shape)
    return tuple(
        int(row[0]) if lanes.any() and (row == row[0]).all() else None
        for row, lanes in zip(numbers, active, strict=True)
    )


def completes_at(instruction: Instruction, reader: Reader, state: State) -> Barriers | None:
    """The mbarrier at which a bulk copy into shared memory says how much it brought: beside its place there."""
    value = read_register("UR", instruction.operands[0].first + 1, state.registers).value
    return _values(value, instruction, reader, state)


def _values(value: Lanes, instruction: Instruction, reader: Reader, state: State) -> Barriers | None:
    """What the lanes hold that take part, inside the block's shared memory."""
    return places(value, takes_part(instruction, reader, state).tobytes()) if exact(value) else None
