"""What the kernels of warpgroup multiplies do on a tensor core with any layouts and address maps, for the emulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.layout.descriptor import decode
from tcprobe.probes.emulation import NUMBERS, RAW, elements
from tcprobe.probes.ptx import POISON, Bytes, Launch, Tables
from tcprobe.probes.slots import pack, unpack

Kind = Literal["meetings", "codes", "raw"]
Ints = NDArray[np.int64]
IMAGES_SHIFT = 24  # the leading dimension of a launch: bytes of an image, and from this bit on how many there are
BAD = 1 << 16  # of a word of meetings: the answers are none that one product of zeros and ones can give
SLOT_SHIFT = 17
ODD = 1 << 31  # of a word of codes: an answer was neither zero nor one
VALUES = range(-8, 9)  # numbers that products are made of


@dataclass(frozen=True)
class Warpgroup:
    """One kernel: `coded` is the operand whose image changes, `majors` are those of A and B."""

    instruction: Instruction
    kind: Kind
    coded: str
    majors: tuple[str, str]
    from_code: bool = False

    def emulate(self, launch: Launch, tables: Tables) -> Bytes:
        """What the launch would leave in its output."""
        run = {"meetings": self._meetings, "codes": self._codes, "raw": self._raw}[self.kind]
        return run(launch, tables).reshape(-1).view(np.uint8)

    def _meetings(self, launch: Launch, tables: Tables) -> Any:
        row = self.instruction
        a, d, n = row.fragment("a"), row.fragment("d"), row.shape.n
        acc = np.zeros((row.shape.k, n), np.int64)
        for number, image in enumerate(launch.inputs[0]):
            acc |= self._shared("b_smem", image, _descriptors(launch)[0, 0], tables) << number
        bad = (acc & (1 | 1 << len(launch.inputs[0]) - 1)) != 1
        words = (acc >> 1 & BAD - 1) | np.where(bad, BAD, 0)
        holder = np.array([[tables.table(d).inverse[m, c][0] for c in range(n)] for m in range(row.shape.m)])
        out = np.full((a.slots, 1 + n), np.frombuffer(bytes([POISON] * 4), np.uint32)[0], np.uint32)
        for slot, (m, k) in enumerate(tables.table(a).cells):  # type: ignore[misc]
            found = holder[m] << SLOT_SHIFT | words[k]
            out[slot, 0], out[slot, 1:] = n, found
        return out

    def _codes(self, launch: Launch, tables: Tables) -> Any:
        coded, others, wanted = launch.inputs[0], launch.inputs[1], _descriptors(launch)
        d = self.instruction.fragment("d")
        out = np.zeros((launch.grid[1], launch.grid[0], d.slots), np.uint32)
        for y, other in enumerate(others):
            for x, (first, second) in enumerate(wanted):
                still = self._still(other, second, tables)
                for number, image in enumerate(coded):
                    found = self._slots(self._product(self._shared(self.coded, image, first, tables), still), tables)
                    out[y, x] |= np.where(found == 1, np.uint32(1) << np.uint32(number), 0).astype(np.uint32)
                    out[y, x] |= np.where((found != 0) & (found != 1), ODD, 0).astype(np.uint32)
        return out

    def _raw(self, launch: Launch, tables: Tables) -> Any:
        d, out = self.instruction.fragment("d"), []
        for image, other, (first, second) in zip(*launch.inputs[:2], _descriptors(launch), strict=True):
            still = self._still(other, second, tables)
            found = self._slots(self._product(self._shared(self.coded, image, first, tables), still), tables)
            out.append(pack(found.astype(NUMBERS[d.type]).view(RAW[d.type])[None], d.slot_bits)[0])
        return np.stack(out)

    def _product(self, coded: Ints, still: Ints) -> Ints:
        return coded @ still if self.coded == "a_smem" else still @ coded

    def _still(self, image: Bytes, descriptor: int, tables: Tables) -> Ints:
        """The matrix that is not coded."""
        if self.coded == "a_smem":
            return self._shared("b_smem", image, descriptor, tables)
        a = self.instruction.fragment("a")
        index, used = elements(tables.table(a), a)
        found = np.zeros(a.rows * a.cols, np.int64)
        found[index] = values(a.type, unpack(image[None], a.slot_bits)[0])[used]
        return found.reshape(a.rows, a.cols)

    def _shared(self, name: str, image: Bytes, descriptor: int, tables: Tables) -> Ints:
        one = behind(self.instruction, name)
        major = self.majors[name == "b_smem"]
        bits = tables.behind(one, decode(int(descriptor)), major)
        return values(one.held.type, unpack(image[None], one.held.slot_bits)[0])[bits // one.held.slot_bits]

    def _slots(self, matrix: Ints, tables: Tables) -> Ints:
        d: Fragment = self.instruction.fragment("d")
        index, used = elements(tables.table(d), d)
        found = np.zeros(d.slots, np.int64)
        found[used] = matrix.reshape(-1)[index]
        return found


def behind(instruction: Instruction, name: str) -> SharedOperand:
    """The operand a_smem or b_smem."""
    return next(one for one in instruction.described if one.held.name == name)


def values(kind: str, raw: NDArray[Any]) -> Ints:
    """Whole numbers from their bit patterns; 99 for one that is not among VALUES."""
    row = dtype(kind)
    known = {row.pattern(v, row.bits): v for v in VALUES if _holds(kind, v)}
    patterns = np.array(sorted(known))
    at = np.searchsorted(patterns, raw).clip(max=len(patterns) - 1)
    numbers = np.array([known[p] for p in patterns.tolist()])
    return np.where(patterns[at] == raw, numbers[at], 99)


def _holds(kind: str, value: int) -> bool:
    """Whether a type has a number: unsigned ones no negative, bits nothing but 0 and 1."""
    if kind == "b1":
        return value in (0, 1)
    return value >= 0 or not kind.startswith("u")


def _descriptors(launch: Launch) -> NDArray[np.uint64]:
    """By x: that of the coded matrix, and that of the other."""
    return launch.inputs[2].view(np.uint64).reshape(-1, 2)
