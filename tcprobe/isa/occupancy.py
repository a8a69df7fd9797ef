"""How many blocks an SM holds at once, by each of its limits, as CUDA's cuda_occupancy.h counts them.

>>> from tcprobe.isa.occupancy import Block, held
>>> held(120, Block(threads=64, registers=112, shared=0, barriers=1))
{'shared memory': 100, 'registers': 8, 'threads': 24, 'resident blocks': 24, 'barriers': 24}
>>> held(90, Block(threads=96, registers=255, shared=0))["registers"]
2

An SM is four sub-partitions, each with a quarter of the registers, and a warp's registers lie in one of them: of 112
registers four warps fit each, 16 an SM, though 18 would fit its registers together. A block whose warps, rounded up to
four, take more registers than there are is not launched (0 blocks).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from tcprobe import facts
from tcprobe.isa.arch import WARP

REGISTERS = 1 << 16  # of an SM, and the most of a block
REGISTER_UNIT = 256  # registers that a warp is given at a time
PARTITIONS = 4  # of an SM, each with its own registers
MOST_THREADS = 1024  # of a block


class Limits(NamedTuple):
    """A line of occupancy.csv: what an SM has; None where nobody states it, or the header knows no such limit.

    `shared_kib` is the largest carve-out; `reserved_kib` the system's, of each block; shared memory is given by
    `shared_unit` bytes.
    """

    number: int
    threads: int | None
    blocks: int
    shared_kib: int
    reserved_kib: int
    shared_unit: int
    barriers: int | None
    tmem_columns: int
    source: str


class Block(NamedTuple):
    """What a block takes: threads, registers of each, bytes of shared memory, barriers of `bar.sync` (0: uncounted)."""

    threads: int
    registers: int
    shared: int
    barriers: int = 0


@cache
def limits(number: int) -> Limits:
    """Those of an arch."""
    rows = facts.read(
        __file__,
        "occupancy.csv",
        Limits,
        number=facts.number,
        threads=facts.optional(facts.number),
        blocks=facts.number,
        shared_kib=facts.number,
        reserved_kib=facts.number,
        shared_unit=facts.number,
        barriers=facts.optional(facts.number),
        tmem_columns=facts.number,
    )
    return next(row for row in rows if row.number == number)


def held(number: int, block: Block) -> dict[str, int | None]:
    """The blocks of 1 to 1,024 threads that an SM of an arch holds by each limit; None where that limit is not stated.

    Limits of what a block takes none of are left out, and that of barriers on archs for which the header has none.
    """
    of, warps = limits(number), -(-block.threads // WARP)
    fits: dict[str, int | None] = {}
    if shared := _whole(block.shared + (of.reserved_kib << 10), of.shared_unit):
        fits["shared memory"] = (of.shared_kib << 10) // shared
    if block.registers:
        fits["registers"] = _by_registers(warps, block.registers)
    fits["threads"] = None if of.threads is None else of.threads // WARP // warps
    fits["resident blocks"] = of.blocks
    if of.barriers and block.barriers:
        fits["barriers"] = of.barriers // block.barriers
    return fits


def least(fits: Mapping[str, int | None]) -> int:
    """The blocks by all limits that are stated."""
    return min(count for count in fits.values() if count is not None)


def warp_registers(registers: int) -> int:
    """The registers that a warp is given."""
    return _whole(registers * WARP, REGISTER_UNIT)


def block_registers(threads: int, registers: int) -> int:
    """The registers that a launch asks for: as if every sub-partition held as many warps."""
    return warp_registers(registers) * _whole(-(-threads // WARP), PARTITIONS)


def _by_registers(warps: int, registers: int) -> int:
    if block_registers(warps * WARP, registers) > REGISTERS:
        return 0
    return REGISTERS // PARTITIONS // warp_registers(registers) * PARTITIONS // warps


def _whole(count: int, unit: int) -> int:
    return -(-count // unit) * unit
