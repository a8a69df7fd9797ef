"""The steps of a path: each moves pieces of a tile, by lanes, by matrices or by boxes, and can do it in Memory.

A step is proven by what it does there, together with the steps before and after it; so a new way of moving a tile is
one more class with `kind`, `instruction`, `ptx`, `wavefronts`, `ideal`, `evidence`, `issues` and `move`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tcprobe.ask.path.memory import Memory
from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import IDLE
from tcprobe.values import Json

GLOBAL_TO_SHARED, SHARED_TO_REGISTERS = "global->shared", "shared->registers"
REGISTERS_TO_SHARED, SHARED_TO_GLOBAL = "registers->shared", "shared->global"


class PathStep(Protocol):
    """One step; `ptx` are its instructions in full, `wavefronts` None where no rule counts them."""

    @property
    def kind(self) -> str:
        """From where to where: one of the four above."""

    @property
    def instruction(self) -> str:
        """The instruction that reaches shared memory, as `tcprobe banks` names it."""

    @property
    def ptx(self) -> tuple[str, ...]:
        """The instructions in PTX, in order."""

    @property
    def wavefronts(self) -> int | None:
        """In shared memory over the whole tile, beats included."""

    @property
    def ideal(self) -> int | None:
        """What they would be if no lanes collided."""

    @property
    def evidence(self) -> tuple[str, ...]:
        """What the step rests on."""

    def issues(self) -> list[Json]:
        """Plain data: every issue of a warp in order."""

    def move(self, memory: Memory) -> None:
        """Move the units of the tile as the instructions do."""


@dataclass(frozen=True)
class LaneCopy:
    """Between global and shared memory: each lane of an issue moves `width` bytes; addresses of shape (issues, 32).

    `line` and `byte` in the line are where a lane's piece lies in the tile, IDLE for lanes without one.
    """

    kind: str
    instruction: str
    ptx: tuple[str, ...]
    width: int
    line: Ints
    byte: Ints
    shared: Ints
    ld: int
    wavefronts: int
    ideal: int
    evidence: tuple[str, ...]

    @property
    def globals(self) -> Ints:
        """Byte addresses in global memory, from the tile's start."""
        addresses: Ints = np.where(self.line == IDLE, IDLE, self.line * self.ld + self.byte)
        return addresses

    def issues(self) -> list[Json]:
        """`shared`, `global`: 32 byte offsets or null; `bytes` of a lane."""
        pairs = zip(_lanes(self.shared), _lanes(self.globals), strict=True)
        return [{"shared": shared, "global": global_, "bytes": self.width} for shared, global_ in pairs]

    def move(self, memory: Memory) -> None:
        """Copy, one way or the other."""
        if self.kind == GLOBAL_TO_SHARED:
            memory.write_shared(self.shared, memory.read_global(self.globals, self.width))
        else:
            memory.write_global(self.globals, memory.read_shared(self.shared, self.width))


@dataclass(frozen=True)
class MatrixTables:
    """What ldmatrix or stmatrix does: row of memory -> the lane that gives its address; (lane, i) -> (row, bit)."""

    lane_of_row: Ints
    row: Ints
    bit: Ints


@dataclass(frozen=True)
class RegisterCopy:
    """Between shared memory and registers: `shared` of shape (issues, 32), `fragments` and first slots `i` of pieces.

    A piece is `piece` bytes of each lane's registers: a matrix's, or all that ld or st moves. `origins` of fragments,
    of which each of `warps` holds a part of its own: part p of fragment f counts as fragment f * warps + p. `line` and
    `byte` as of LaneCopy.
    """

    kind: str
    instruction: str
    ptx: tuple[str, ...]
    piece: int
    line: Ints
    byte: Ints
    shared: Ints
    fragments: Ints
    i: Ints
    origins: Ints
    wavefronts: int | None
    ideal: int | None
    evidence: tuple[str, ...]
    tables: MatrixTables | None
    warps: int = 1

    def issues(self) -> list[Json]:
        """`shared`: 32 byte offsets or null; `slots`: [row, col, i] of each piece: fragment origin, first slot.

        `warp`, where there are several: whose issue it is.
        """
        starts = np.concatenate([self.origins[self.fragments], self.i[..., None]], axis=2).tolist()
        pieces = [{"shared": shared, "slots": slots} for shared, slots in zip(_lanes(self.shared), starts, strict=True)]
        if self.warps == 1:
            return pieces
        warps = (self.fragments[:, 0] % self.warps).tolist()
        return [{"warp": warp} | piece for warp, piece in zip(warps, pieces, strict=True)]

    def move(self, memory: Memory) -> None:
        """Load or store every piece; matrices by the tables of their instruction."""
        count, pieces = self.piece * memory.per_byte, self.fragments.shape[1]
        addresses, width = self.shared, self.piece
        if self.tables:
            addresses = self.shared[:, self.tables.lane_of_row[self.tables.row]] + self.tables.bit // 8
            width = 2  # (issues, 32, elements of b16)
        if self.kind == SHARED_TO_REGISTERS:
            units = memory.read_shared(addresses, width).reshape(len(self.shared), WARP, pieces, count)
            memory.write_registers((self.fragments, self.i), units.swapaxes(1, 2))
        else:
            units = memory.read_registers((self.fragments, self.i), count).swapaxes(1, 2)
            memory.write_shared(addresses, units.reshape(*addresses.shape, width * memory.per_byte))


@dataclass(frozen=True)
class WideningCopy(RegisterCopy):
    """From shared memory into registers, where an element takes more bits; its number stays what it is."""

    def move(self, memory: Memory) -> None:
        """Load every matrix by the tables of the instruction, element by element, each of one unit."""
        assert self.tables
        rows = self.shared[:, self.tables.lane_of_row[self.tables.row]] * memory.per_byte
        units = memory.shared[rows + self.tables.bit * memory.per_byte // 8]
        shape = (len(self.shared), WARP, self.fragments.shape[1], -1)
        memory.write_registers((self.fragments, self.i), units.reshape(shape).swapaxes(1, 2))


def _lanes(addresses: Ints) -> Sequence[list[int | None]]:
    """Lists of 32, None for idle lanes."""
    return [[None if a == IDLE else a for a in row] for row in addresses.tolist()]


_VECTORS = {1: "u8", 2: "u16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}


def vector(width: int, register_bits: int = 32) -> str:
    """How PTX writes a load or store of `width` bytes of registers: v4.b32, b64, u8."""
    if register_bits == 64 and width >= 8:
        return "b64" if width == 8 else "v2.b64"
    return _VECTORS[width]
