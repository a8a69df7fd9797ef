"""What CUDA's runtime gives to device code, by the names that a compiler calls: vprintf and __assertfail.

CUDA C++ Programming Guide, "Formatted Output" and "Assertion"; the call of vprintf: PTX Writer's Guide to
Interoperability, section 5.1. Formats come from the kernel's memory: widths and lengths are bounded.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tcprobe.layout.arrays import Bytes
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.emulate.machine import Machine

MOST_STRING = 1024  # bytes of a string in memory, and of one that is printed
MOST_WIDE = 200  # characters that a format may ask for
_FIELD = re.compile(r"%([-+ #0]*)([0-9]*|\*)(\.[0-9]*|\.\*)?(hh|h|ll|l|z|j|t)?([diouxXcspfFeEgGaA%])")
_WIDE = ("ll", "l", "z", "j", "t")


def printed(machine: Machine, thread: int, format_at: int, arguments_at: int) -> str:
    """What one call of vprintf prints: a format, and the arguments as a struct of them, both by generic addresses."""
    place = arguments_at

    def taken(size: int) -> int:
        nonlocal place
        place = -(-place // size) * size + size
        return int.from_bytes(_bytes(machine, thread, place - size, size), "little")

    def given(number: str | None) -> str:
        return str((taken(4) ^ 1 << 31) - (1 << 31)) if number == "*" else number or ""

    def field(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        width, digits = given(width), precision and "." + given(precision[1:])
        if any(abs(int(number or 0)) > MOST_WIDE for number in (width, (digits or "")[1:])):
            return str(match[0])
        value = taken(8 if kind in "spfFeEgGaA" or length in _WIDE else 4)
        text = _string(machine, thread, value) if kind == "s" else ""
        return _shown(flags, f"{width}{digits or ''}", kind, value, 64 if length in _WIDE else 32, text)

    return _FIELD.sub(field, _string(machine, thread, format_at))[:MOST_STRING]


def _shown(flags: str, width: str, kind: str, value: int, bits: int, text: str) -> str:
    """A value by its bits, or a string's `text`, as C's conversion shows it."""
    if kind in "fFeEgGaA":
        number: float = struct.unpack("<d", value.to_bytes(8, "little"))[0]
        return f"%{flags}{width}s" % number.hex() if kind in "aA" else f"%{flags}{width}{kind}" % number
    if kind in "di":
        return f"%{flags}{width}d" % ((value ^ 1 << bits - 1) - (1 << bits - 1))
    flags = flags.replace("+", "").replace(" ", "")  # of numbers that have a sign
    if kind in "scp":
        return f"%{flags}{width}s" % {"s": text, "c": chr(value & 255), "p": hex(value)}[kind]
    if "#" in flags and (kind == "o" or not value):  # C's other form of 8 is 010, and 0 has none
        return f"%{flags.replace('#', '')}{width}s" % (f"0{value:o}" if value else "0")
    return f"%{flags}{width}{'d' if kind == 'u' else kind}" % value


def _string(machine: Machine, thread: int, address: int) -> str:
    """The characters up to a zero, of at most MOST_STRING."""
    return b"".join(_characters(machine, thread, address)).decode(errors="backslashreplace")


def _characters(machine: Machine, thread: int, address: int) -> Iterator[bytes]:
    for place in range(address, address + MOST_STRING):
        one = _bytes(machine, thread, place, 1)
        if one == b"\0":
            return
        yield one


def _bytes(machine: Machine, thread: int, address: int, size: int) -> bytes:
    return machine.load("generic", np.int64(address), size, np.array([thread])).tobytes()


def _print(machine: Machine, thread: int, given: list[int]) -> bool:
    machine.report.printed(printed(machine, thread, given[0], given[1]))
    return True


def _fail(machine: Machine, thread: int, given: list[int]) -> bool:
    condition, file, line, function, *_ = given
    words = (_string(machine, thread, at) for at in (condition, function, file))
    what, where, source = (escaped(text) for text in words)
    machine.find("assert", thread, f"assertion `{what}` failed in {where}, {source}:{line}; the thread ends")
    return False


# by name: what it does for a thread with the values of its parameters, and whether the thread goes on after it
RUNTIME: Mapping[str, Callable[[Machine, int, list[int]], bool]] = {"vprintf": _print, "__assertfail": _fail}


def values(parameters: list[Bytes], thread: int) -> list[int]:
    """The parameters of a thread's call as whole numbers; bytes of each by (thread, byte)."""
    return [int.from_bytes(one[thread].tobytes(), "little") for one in parameters]
