"""Kernels that only move data: runs their code to find the memory byte that each stored byte comes from.

Every byte of memory holds one digit of its own address. One warp runs the code once for each digit, and once for a
check digit. If the stored digits are not an address with its check digit, something was computed, and the kernel is
refused; unless all runs store the same bytes: those are numbers that the kernel makes of lane numbers alone. Parameters
of 8 bytes are pointers, each to a memory of its own; parameters of 4 bytes get the number LEADING.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Bytes, Ints
from tcprobe.sass.cubin import Code
from tcprobe.sass.decode import Operand, UnreadError
from tcprobe.sass.elf import Parameters
from tcprobe.sass.emulation import EMULATION
from tcprobe.sass.machine import U32, U64, Image, Machine
from tcprobe.sass.opcodes import Handler, must

LEADING = 64  # the value of 32-bit parameters, such as leading dimensions
BYTES = 1 << 16  # of each pointer's memory
MOST_POINTERS = 8
BASES = tuple((0x7F12_0000_0000 - 0x0123_0000_0000 * number) for number in range(MOST_POINTERS))
MOST_CODE = 1 << 16  # bytes of a kernel that is run
DIGITS = 4  # three bytes of an address, and the check digit
# (arch, offset): where parameters begin in constant bank 0 from that arch on, if the file does not say
PARAMETER_BASES = ((100, 0x380), (90, 0x210), (70, 0x160))
POISONS = (0x9E3779B9, 0x61C88647, 0xA5C3965A, 0x5A3C69A5)  # what unwritten registers hold, by run
_WITH_HINTS = (".CONSTANT", ".STRONG.SYS", ".EF", ".NA")


@dataclass(frozen=True)
class Copied:
    """For every byte that a kernel stored: the lane that stored it, and its two places, as pointer * BYTES + offset."""

    lane: Ints
    to: Ints
    source: Ints
    readers: dict[int, int]  # the lane that read each source, -1 if several did


@dataclass(frozen=True)
class Numbered:
    """Bytes that a kernel stored and that depend on no memory: the lane that stored each, its place, its value."""

    lane: Ints
    to: Ints
    content: Bytes


class _Watched(Machine):
    """A machine that records which lane reads and which lane writes each byte."""

    def __init__(self, images: Sequence[Image], parameters: bytes, base: int, digit: int) -> None:
        super().__init__(1, images, parameters, base)
        self.poison: U32 = np.full(self.lanes, POISONS[digit], np.uint32)
        self.read_by: dict[int, int] = {}
        self.written_by: dict[int, int] = {}

    def load(self, addresses: U64, size: int) -> Bytes:
        self._note(self.read_by, addresses, size)
        return super().load(addresses, size)

    def store(self, addresses: U64, stored_bytes: Bytes) -> None:
        self._note(self.written_by, addresses, stored_bytes.shape[1])
        super().store(addresses, stored_bytes)

    def _note(self, by: dict[int, int], addresses: U64, size: int) -> None:
        for lane in np.flatnonzero(self.active).tolist():
            place = _place(int(addresses[lane]))
            for byte in range(place, place + size):
                by[byte] = lane if by.get(byte, lane) == lane else -1


def _place(address: int) -> int:
    for number, base in enumerate(BASES):
        if base <= address < base + BYTES:
            return number * BYTES + address - base
    raise UnreadError("memory outside the images is accessed")


def follow_copies(code: Code, parameters: Parameters, number: int) -> Copied | Numbered:
    """What a kernel of sm_`number` copies, or the numbers that it stores whatever memory holds.

    UnreadError if its code is not followed exactly, or computes from memory.
    """
    if code.unread:
        raise UnreadError(next(iter(code.unread.values())))
    base = (
        next((parameter_base for least, parameter_base in PARAMETER_BASES if number >= least), 0)
        if parameters.base is None
        else parameters.base
    )
    constants, pointers = _parameter_bytes(parameters)
    runs = [_run(code, constants, base, pointers, digit) for digit in range(DIGITS)]
    machine = runs[0][0]
    if any((other.written_by, other.read_by) != (machine.written_by, machine.read_by) for other, _ in runs[1:]):
        raise UnreadError("which memory it takes depends on what is in it")
    places = np.array(sorted(machine.written_by), np.int64)
    if not len(places):
        raise UnreadError("it stores nothing")
    lanes = np.array([machine.written_by[place] for place in places.tolist()], np.int64)
    if (lanes < 0).any():
        raise UnreadError("several lanes write the same place")
    stored = [np.concatenate([image.data for image in images])[places] for _, images in runs]
    if all((other == stored[0]).all() for other in stored[1:]):
        return Numbered(lanes, places, stored[0])
    digits = [part.astype(np.int64) for part in stored]
    source = digits[0] | digits[1] << 8 | digits[2] << 16
    if (digits[3] != _check(source)).any() or (source >= pointers * BYTES).any():
        raise UnreadError("what it stores is computed, not copied")
    return Copied(lanes, places, source, machine.read_by)


def _parameter_bytes(parameters: Parameters) -> tuple[bytes, int]:
    """(content of the kernel's parameters, how many of them are pointers)."""
    end = max(offset + size for offset, size in parameters.places)
    if end > 4096 or any(size not in (4, 8) for _, size in parameters.places):
        raise UnreadError("parameters other than pointers and 32-bit numbers are not modelled")
    content, pointers = bytearray(end), 0
    for offset, size in parameters.places:
        if size == 8:
            if pointers == MOST_POINTERS:
                raise UnreadError(f"more than {MOST_POINTERS} pointers")
            content[offset : offset + 8] = BASES[pointers].to_bytes(8, "little")
            pointers += 1
        else:
            content[offset : offset + 4] = LEADING.to_bytes(4, "little")
    return bytes(content), pointers


def _run(code: Code, constants: bytes, base: int, pointers: int, digit: int) -> tuple[_Watched, list[Image]]:
    """The machine, and its memory, after a run on one digit of every address."""
    every = np.arange(pointers * BYTES, dtype=np.int64)
    digit_bytes = (_check(every) if digit == DIGITS - 1 else every >> 8 * digit & 255).astype(np.uint8)
    images = [Image(BASES[n], digit_bytes[n * BYTES : (n + 1) * BYTES].copy()) for n in range(pointers)]
    machine = _Watched(images, constants, base, digit)
    machine.run(code.instructions, code.start, _opcodes(code))
    return machine, images


def _check(places: Ints) -> Ints:
    return (places * 7 ^ (places >> 8) * 29 ^ (places >> 16) * 101 ^ places >> 5) + 5 & 255


def _merge(m: Machine, d: Operand, a: Operand, selector: Operand, c: Operand) -> None:
    """PRMT, also with bytes of a register that nobody wrote; their values differ in each run, so nothing can depend on
    them.

    Compilers leave such bytes in the half of a register that they do not store.
    """
    first, second = (m.read(o) if m.is_written(o) else m.poison for o in (a, c))  # type: ignore[attr-defined]
    both = first.astype(np.uint64) | second.astype(np.uint64) << np.uint64(32)
    nibbles = [selector.word >> 4 * byte & 15 for byte in range(4)]
    must(selector.kind == "number" and max(nibbles) < 8, "PRMT by a register, or of a sign, is not modelled")
    parts = (((both >> np.uint64(8 * n)) & np.uint64(255)) << np.uint64(8 * byte) for byte, n in enumerate(nibbles))
    m.write(d, sum(parts, np.zeros(m.lanes, np.uint64)))


def _opcodes(code: Code) -> dict[str, Handler]:
    """EMULATION, with loads and stores that have cache modifiers, or generic addresses, treated as those of global
    memory.

    All pointers are to global memory here, so generic addresses lead nowhere else.
    """
    opcodes = EMULATION | {"PRMT": _merge}
    for name in {step.opcode for step in code.instructions.values()} - opcodes.keys():
        plain = f"{name[:2]}G{name[2:]}" if name.startswith(("LD.E", "ST.E")) else name
        for hint in _WITH_HINTS:
            plain = plain.replace(hint, "")
        if plain in opcodes and name.startswith(("LD.", "LDG.", "ST.", "STG.")):
            opcodes[name] = opcodes[plain]
    return opcodes


def lanes_of(owner: Ints, places: Ints) -> tuple[int, Ints] | None:
    """(bytes per lane, their indices by lane in order), or None.

    None unless the places are contiguous, and each lane owns the same number of bytes, lane after lane.
    """
    order = np.argsort(places)
    ordered, owners = places[order], owner[order]
    each = len(places) // WARP
    if not each or len(places) % WARP or (np.diff(ordered) != 1).any():
        return None
    if (owners != np.arange(len(places)) // each).any():
        return None
    return each, order.reshape(WARP, each)
