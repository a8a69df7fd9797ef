"""A tile's transfer, simulated: which piece of which element is where in global memory, shared memory and registers.

>>> from tcprobe.ask.tile import parse_tile
>>> memory = Memory(parse_tile("2x8", "f16", "row"), 20, 64, 1, 2)
>>> memory.of_elements(np.array([1, 0]), np.array([3, 2])).tolist()
[[22, 23], [4, 5]]
>>> memory.read_global(np.array([20, 36]), 2).tolist()
[[16, 17], [-1, -1]]

A *unit* is a byte, or an element where that is less. Units are numbered line by line; NOTHING stands where there is
none: in the gaps between lines, and where nobody wrote.
"""

from __future__ import annotations

import numpy as np

from tcprobe.ask.tile import Tile
from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import IDLE

NOTHING = -1


class Memory:
    """`ld` bytes from line to line in global memory, `shared` bytes, `fragments` of `elements` slots a lane."""

    def __init__(self, tile: Tile, ld: int, shared: int, fragments: int, elements: int) -> None:
        unit = min(8, tile.bits)
        self.tile, self.ld = tile, ld
        self.per_byte, self.per_element = 8 // unit, tile.bits // unit
        self.line_units = tile.line_bytes * self.per_byte
        self.shared = np.full(shared * self.per_byte, NOTHING, np.int64)
        self.registers = np.full((fragments, WARP, elements * self.per_element), NOTHING, np.int64)
        self.back = np.full(tile.lines * self.line_units, NOTHING, np.int64)
        self.strays = 0

    def of_elements(self, row: Ints, col: Ints) -> Ints:
        """The units of elements, NOTHING where the row is NOTHING; shape (..., units of an element)."""
        line, place = (row, col) if self.tile.contiguous == "row" else (col, row)
        number = (line * self.tile.length + place)[..., None] * self.per_element + np.arange(self.per_element)
        return np.where(row[..., None] == NOTHING, NOTHING, number)

    def read_global(self, addresses: Ints, count: int) -> Ints:
        """The units of `count` bytes from each address on, NOTHING outside the tile; shape (..., units)."""
        places = self._places(addresses, count)
        line, unit = np.divmod(places, self.ld * self.per_byte)
        inside = (places != IDLE) & (line < self.tile.lines) & (unit < self.line_units)
        return np.where(inside, line * self.line_units + unit, NOTHING)

    def write_global(self, addresses: Ints, units: Ints) -> None:
        """Put units of whole bytes back; `strays` counts those that would lie outside the tile."""
        places = self.read_global(addresses, units.shape[-1] // self.per_byte)
        inside = places != NOTHING
        self.back[places[inside]] = units[inside]
        self.strays += int((~inside & (addresses != IDLE)[..., None]).sum())

    def read_shared(self, addresses: Ints, count: int) -> Ints:
        """The units of `count` bytes from each address on, NOTHING for idle lanes; shape (..., units)."""
        places = self._places(addresses, count)
        return np.where(places == IDLE, NOTHING, self.shared[places])

    def write_shared(self, addresses: Ints, units: Ints) -> None:
        """Put units of whole bytes at byte addresses; idle lanes write nothing."""
        places = self._places(addresses, units.shape[-1] // self.per_byte)
        self.shared[places[places != IDLE]] = units[places != IDLE]

    def read_registers(self, first_slots: tuple[Ints, Ints], count: int) -> Ints:
        """`count` units of every lane from slots on: fragments, the first slot of each; shape (..., 32, units)."""
        return self.registers[self._held(first_slots, count)]

    def write_registers(self, first_slots: tuple[Ints, Ints], units: Ints) -> None:
        """Put units of shape (..., 32, units) into fragments, from the slots given on."""
        self.registers[self._held(first_slots, units.shape[-1])] = units

    def _held(self, first_slots: tuple[Ints, Ints], count: int) -> tuple[Ints, Ints, Ints]:
        fragments, start = first_slots
        units = start[..., None, None] * self.per_element + np.arange(count)
        return fragments[..., None, None], np.arange(WARP)[:, None], units

    def _places(self, addresses: Ints, count: int) -> Ints:
        places = addresses[..., None] * self.per_byte + np.arange(count * self.per_byte)
        return np.where(addresses[..., None] == IDLE, IDLE, places)
