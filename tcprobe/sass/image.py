"""Any cubin, from anywhere: its arch; of every function code, registers, stack and linked routines.

`sass.elf` reads what ptxas has just written; this reads files of strangers. Every offset is checked against the file
before it is used, and no memory is reserved because a header asks for it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tcprobe.errors import DataError
from tcprobe.sass.fatbin import is_cubin

# first of the eight bits of the compute capability in the header's flags, by ABI version (`sass.elf`)
ARCH_SHIFT = {7: 0, 8: 8}
SECTION, SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
# attributes of .nv.info, each with the number of a function's symbol: bytes of stack, registers of a thread
FRAME_SIZE, REGISTERS = 0x11, 0x2F
# attributes of .nv.info.<function>: where parameters are in constant bank 0; place and size of each
PARAM_CBANK, KPARAM_INFO = 0x0A, 0x17
HAS_SIZE = 0x04  # format of an attribute that is followed by its value
SYMTAB, NOBITS = 2, 8
VENDOR_TYPES = 0x70000000  # types of NVIDIA's own from here on; some, as 0x7000000a of shared memory, have no bytes
SYMBOL_NUMBER = 0xFFFFFF  # bits of a code section's sh_info with the number of its symbol
FUNCTION = 2
MOST_NAME = 4096
LEAST_ARCH = 70  # the first with tensor cores, and with instructions of 16 bytes
_ROUTINE = re.compile(r"\$__internal_\d+_\$(\w{1,200})")


class Section(NamedTuple):
    """A section's name, type and bytes, and the fields sh_link and sh_info."""

    name: str
    type: int
    data: bytes
    link: int
    info: int


class Symbol(NamedTuple):
    """A symbol's name, whether it is a function, and its section's number."""

    name: str
    function: bool
    section: int


class Parameters(NamedTuple):
    """Where parameters begin in constant bank 0, None if the file does not say; and (offset, size) of each."""

    base: int | None
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FunctionCode:
    """A kernel or device function: `code` with 16 bytes per instruction, registers of a thread, bytes of stack.

    `registers` and `stack` are None if the file does not say. `routines` are the compiler's, linked into it.
    `parameters` is None for device functions, and for kernels without any.
    """

    name: str
    code: bytes
    registers: int | None
    stack: int | None
    routines: tuple[str, ...] = ()
    parameters: Parameters | None = None


@dataclass(frozen=True)
class Cubin:
    """The arch (as "sm_90"), the functions in order, and whether there is line information."""

    arch: str
    functions: tuple[FunctionCode, ...]
    lines: bool


def cubin(raw: bytes) -> Cubin:
    """Read a cubin; DataError if it is damaged, or not for an arch with tensor cores."""
    try:
        return _cubin(raw)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DataError(f"a damaged cubin ({error}).") from None


def _cubin(raw: bytes) -> Cubin:
    if not is_cubin(raw) or raw[4:6] != b"\2\1":
        raise DataError("no cubin of 64 bits.")
    sections = list(_sections(raw))
    symbols = _symbols(sections)
    attributes = {
        (kind, number): value for s in sections if s.name == ".nv.info" for kind, number, value in _attributes(s.data)
    }
    functions = tuple(_functions(sections, symbols, attributes))
    return Cubin(arch_of(raw), functions, any(s.name == ".debug_line" for s in sections))


def arch_of(raw: bytes) -> str:
    """The arch in a cubin's header; DataError if it is unknown."""
    version, flags = raw[8], int.from_bytes(raw[48:52], "little")
    if version not in ARCH_SHIFT:
        raise DataError(f"a cubin of ABI version {version}, which tcprobe does not know.")
    number = flags >> ARCH_SHIFT[version] & 0xFF
    if number < LEAST_ARCH:
        raise DataError(f"code for sm_{number}, which has no tensor cores.")
    return f"sm_{number}"


def _sections(raw: bytes) -> Iterator[Section]:
    """All sections; DataError unless their table is inside the file."""
    (table,) = struct.unpack_from("<Q", raw, 40)
    size, count, names = struct.unpack_from("<HHH", raw, 58)
    if size != SECTION.size or table + size * count > len(raw) or names >= count:
        raise DataError("a cubin whose table of sections is not in the file; truncated?")
    heads = [SECTION.unpack_from(raw, table + size * j) for j in range(count)]
    texts = _data(raw, heads[names])
    for head in heads:
        name = _text(texts, head[0])
        needed = head[1] < VENDOR_TYPES or name.startswith((".text.", ".nv.info"))
        yield Section(name, head[1], _data(raw, head, needed), head[6], head[7])


def _data(raw: bytes, head: tuple[int, ...], needed: bool = True) -> bytes:
    """A section's bytes; none where the file has none and nothing here reads them."""
    start, size = head[4], head[5]
    if head[1] in (0, NOBITS):
        return b""
    if start + size > len(raw):
        if not needed:
            return b""
        raise DataError("a section of the cubin ends outside the file; truncated?")
    return raw[start : start + size]


def _text(texts: bytes, position: int) -> str:
    """A zero-terminated name; bytes that are not UTF-8 are escaped."""
    end = texts.find(b"\0", position, position + MOST_NAME)
    if end < 0:
        raise DataError(f"a name in the cubin that does not end within {MOST_NAME} bytes.")
    return texts[position:end].decode(errors="backslashreplace")


def _symbols(sections: list[Section]) -> list[Symbol]:
    table = next((s for s in sections if s.type == SYMTAB), None)
    if table is None:  # stripped
        return []
    texts = sections[table.link].data
    whole = table.data[: len(table.data) // SYMBOL.size * SYMBOL.size]
    return [
        Symbol(_text(texts, name), info & 15 == FUNCTION, section)
        for name, info, _, section, _, _ in SYMBOL.iter_unpack(whole)
    ]


def _functions(
    sections: list[Section], symbols: list[Symbol], attributes: dict[tuple[int, int], int]
) -> Iterator[FunctionCode]:
    routines: dict[int, list[str]] = {}
    for symbol in symbols:
        match = _ROUTINE.fullmatch(symbol.name) if symbol.function else None
        if match:
            routines.setdefault(symbol.section, []).append(match[1])
    infos = {s.name.removeprefix(".nv.info."): s.data for s in sections if s.name.startswith(".nv.info.")}
    for number, section in enumerate(sections):
        if section.name.startswith(".text.") and section.data:
            symbol_number = section.info & SYMBOL_NUMBER
            yield FunctionCode(
                section.name.removeprefix(".text."),
                section.data[: len(section.data) // 16 * 16],
                attributes.get((REGISTERS, symbol_number)),
                attributes.get((FRAME_SIZE, symbol_number)),
                tuple(routines.get(number, ())),
                _parameters(infos.get(section.name.removeprefix(".text."))),
            )


def _parameters(info: bytes | None) -> Parameters | None:
    """A kernel's parameters, from its own attributes; None if it has none."""
    base, places, position = None, [], 0
    while info is not None and position + 4 <= len(info):
        kind, attribute, value = struct.unpack_from("<BBH", info, position)
        position += 4
        if kind == HAS_SIZE:
            if attribute == PARAM_CBANK and value == 8:
                base = struct.unpack_from("<IH", info, position)[1]
            elif attribute == KPARAM_INFO and value == 12:
                _, _, offset, flags = struct.unpack_from("<IHHI", info, position)
                places.append((offset, flags >> 18))
            position += value
    return Parameters(base, tuple(sorted(places))) if places else None


def _attributes(info: bytes) -> Iterator[tuple[int, int, int]]:
    """(attribute, number of a function's symbol, value), from .nv.info."""
    place = 0
    while place + 4 <= len(info):
        kind, attribute, value = struct.unpack_from("<BBH", info, place)
        place += 4
        if kind == HAS_SIZE:
            if attribute in (FRAME_SIZE, REGISTERS) and value == 8 and place + 8 <= len(info):
                yield (attribute, *struct.unpack_from("<II", info, place))
            place += value
