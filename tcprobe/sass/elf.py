"""Cubins: the arch, and of every function code, registers, stack, parameters and linked routines.

Nothing is trusted: every offset is checked against the file before it is used, and no memory is reserved because a
header asks for it. If the compiler cannot express something by instructions, it links its own routines; they follow
the kernel's code, in its section. The format was found by comparing what ptxas 12.0 to 13.5 write for every arch that
they know.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import NamedTuple

from tcprobe.errors import DataError, EnvironmentUnfitError

ELF, CUDA = b"\x7fELF", 190  # the first bytes of a cubin, and the machine that its header names
# first of the eight bits of the compute capability in the header's flags, by ABI version. ptxas 13 writes version
# 8, as do 12.7 and later for Blackwell
ARCH_SHIFT = {7: 0, 8: 8}
SECTION, SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
# attributes of .nv.info, each with the number of a function's symbol: bytes of stack, registers of a thread
FRAME_SIZE, REGISTERS = 0x11, 0x2F
# attributes of .nv.info.<function>: where parameters are in constant bank 0; place and size of each
PARAM_CBANK, KPARAM_INFO = 0x0A, 0x17
MOST_THREADS, THREADS = 0x05, 0x10  # .maxntid and .reqntid: three sizes
CLUSTER = 0x3D  # .reqnctapercluster: three sizes
BRANCH_TARGETS = 0x34  # address of an indirect branch, 4 bytes, number of targets, their addresses; and the next branch
RELOCATIONS = {4: 24, 9: 16}  # types of their sections, with and without addends: bytes of each
MOST_BLOCK = 1024  # threads of a block
HAS_SIZE, HAS_BYTE = 0x04, 0x02  # formats of an attribute: its value follows; its value is one byte of the size's two
BARRIERS = 0x4C  # barriers of a block, in a byte
BARRIERS_SHIFT, MOST_BARRIERS = 20, 127  # of ABI version 7, in the flags of the code's section
SYMTAB, NOBITS = 2, 8
VENDOR_TYPES = 0x70000000  # types of NVIDIA's own from here on; some, as 0x7000000a of shared memory, have no bytes
SYMBOL_NUMBER = 0xFFFFFF  # bits of a code section's sh_info with the number of its symbol
FUNCTION = 2
MOST_NAME = 4096
LEAST_ARCH = 70  # the first with tensor cores, and with instructions of 16 bytes
_ROUTINE = re.compile(r"\$__internal_\d+_\$(\w{1,200})")


def is_cubin(raw: bytes) -> bool:
    """Whether it is an ELF file for NVIDIA GPUs."""
    return raw[:4] == ELF and int.from_bytes(raw[18:20], "little") == CUDA


class Section(NamedTuple):
    """A section's name, type and bytes, the fields sh_link and sh_info, its size as stated, its place, its sh_flags."""

    name: str
    type: int
    data: bytes
    link: int
    info: int
    size: int
    place: int
    flags: int


class Symbol(NamedTuple):
    """A symbol's name, whether it is a function, its section's number, and its place there."""

    name: str
    function: bool
    section: int
    value: int


class Parameters(NamedTuple):
    """Where parameters begin in constant bank 0, None if the file does not say; and (offset, size) of each."""

    base: int | None
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FunctionCode:
    """A kernel or device function: `code` with 16 bytes per instruction, registers of a thread, bytes of stack.

    `registers` and `stack` are None if the file does not say. `routines` are the compiler's, linked into it.
    `parameters` is None for device functions, and for kernels without any. `branches`: the targets of each indirect
    branch whose targets the file lists, by address; `relocated`: the addresses that a linker still fills. `threads`:
    the shape of its block, and `most_threads`: their number at most, where the file states them. `shared`: bytes of
    shared memory that it declares itself, `barriers` those of `bar.sync`. `cluster`: the blocks of a cluster, where the
    file states them. `place`: the code's in the file.
    """

    name: str
    code: bytes
    registers: int | None
    stack: int | None
    routines: tuple[str, ...] = ()
    parameters: Parameters | None = None
    branches: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    relocated: frozenset[int] = frozenset()
    threads: tuple[int, int, int] | None = None
    most_threads: int | None = None
    shared: int = 0
    cluster: tuple[int, int, int] | None = None
    place: int = field(default=0, repr=False, compare=False)
    barriers: int = 0


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
    found = _sections_of(raw)
    symbols = _symbols(found)
    attributes = {
        (kind, number): value for s in found if s.name == ".nv.info" for kind, number, value in _attributes(s.data)
    }
    functions = tuple(_functions(found, symbols, attributes))
    return Cubin(arch_of(raw), functions, any(s.name == ".debug_line" for s in found))


def arch_of(raw: bytes) -> str:
    """The arch in a cubin's header; DataError if it is unknown."""
    version, flags = raw[8], int.from_bytes(raw[48:52], "little")
    if version not in ARCH_SHIFT:
        raise DataError(f"a cubin of ABI version {version}, which tcprobe does not know.")
    number = flags >> ARCH_SHIFT[version] & 0xFF
    if number < LEAST_ARCH:
        raise DataError(f"code for sm_{number}, which has no tensor cores.")
    return f"sm_{number}"


def sections(raw: bytes) -> Iterator[Section]:
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
        yield Section(name, head[1], _data(raw, head, needed), head[6], head[7], head[5], head[4], head[2])


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
        Symbol(_text(texts, name), info & 15 == FUNCTION, section, value)
        for name, info, _, section, value, _ in SYMBOL.iter_unpack(whole)
    ]


def _functions(
    sections: list[Section], symbols: list[Symbol], attributes: dict[tuple[int, int], int]
) -> Iterator[FunctionCode]:
    routines = _routines(symbols)
    relocations = {s.name.removeprefix(".rela").removeprefix(".rel"): _relocations(s) for s in sections}
    infos = {s.name.removeprefix(".nv.info."): s.data for s in sections if s.name.startswith(".nv.info.")}
    shared = {s.name.removeprefix(".nv.shared."): s.size for s in sections if s.name.startswith(".nv.shared.")}
    for number, section in enumerate(sections):
        if section.name.startswith(".text.") and section.data:
            symbol_number, name = section.info & SYMBOL_NUMBER, section.name.removeprefix(".text.")
            yield FunctionCode(
                name,
                section.data[: len(section.data) // 16 * 16],
                attributes.get((REGISTERS, symbol_number)),
                attributes.get((FRAME_SIZE, symbol_number)),
                tuple(name for _, name in routines.get(number, ())),
                _parameters(infos.get(name)),
                _branches(infos.get(name, b"")),
                frozenset(place // 16 * 16 for place in relocations.get(section.name, ())),
                _threads(infos.get(name, b""), THREADS),
                prod(most) if (most := _threads(infos.get(name, b""), MOST_THREADS)) else None,
                shared.get(name, 0),
                _threads(infos.get(name, b""), CLUSTER),
                section.place,
                section.flags >> BARRIERS_SHIFT & MOST_BARRIERS or _barriers(infos.get(name, b"")),
            )


def _barriers(info: bytes) -> int:
    """The barriers that a function's own attributes state; 0 where they state none, as for a function without any."""
    return next((value[0] for attribute, value in _values(info, HAS_BYTE) if attribute == BARRIERS), 0)


def _routines(symbols: list[Symbol]) -> dict[int, list[tuple[int, str]]]:
    """(address, name) of the compiler's routines, as the file lists them, by number of their section."""
    found: dict[int, list[tuple[int, str]]] = {}
    for symbol in symbols:
        match = _ROUTINE.fullmatch(symbol.name) if symbol.function else None
        if match:
            found.setdefault(symbol.section, []).append((symbol.value, match[1]))
    return found


def _threads(info: bytes, wanted: int) -> tuple[int, int, int] | None:
    """The sizes of a block that an attribute states, if each is one that a block may have."""
    for attribute, value in _values(info):
        if attribute == wanted and len(value) == 12:
            x, y, z = struct.unpack("<III", value)
            return (x, y, z) if 0 < x * y * z <= MOST_BLOCK else None
    return None


def _relocations(section: Section) -> tuple[int, ...]:
    """The places in its section that each entry of a section of relocations is about."""
    size = RELOCATIONS.get(section.type)
    if size is None:
        return ()
    whole = range(0, len(section.data) // size * size, size)
    return tuple(int.from_bytes(section.data[at : at + 8], "little") for at in whole)


def _branches(info: bytes) -> dict[int, tuple[int, ...]]:
    """The targets of indirect branches by address, from a function's own attributes."""
    found = {}
    for attribute, value in _values(info):
        place = 0
        while attribute == BRANCH_TARGETS and place + 12 <= len(value):
            address, _, count = struct.unpack_from("<III", value, place)
            end = place + 12 + 4 * count
            if end > len(value):
                break
            found[address] = struct.unpack_from(f"<{count}I", value, place + 12)
            place = end
    return found


def _values(info: bytes, wanted: int = HAS_SIZE) -> Iterator[tuple[int, bytes]]:
    """(attribute, its bytes) of those of a format: that of a value which follows, or of a byte."""
    place = 0
    while place + 4 <= len(info):
        kind, attribute, size = struct.unpack_from("<BBH", info, place)
        value, place = info[place + 2 : place + 4], place + 4
        if kind == HAS_SIZE:
            value, place = info[place : place + size], place + size
        if kind == wanted:
            yield attribute, value


def _parameters(info: bytes | None) -> Parameters | None:
    """A kernel's parameters, from its own attributes; None if it has none."""
    base, places = None, []
    for attribute, value in _values(info or b""):
        if attribute == PARAM_CBANK and len(value) == 8:
            base = struct.unpack_from("<IH", value)[1]
        elif attribute == KPARAM_INFO and len(value) == 12:
            _, _, offset, flags = struct.unpack("<IHHI", value)
            places.append((offset, flags >> 18))
    return Parameters(base, tuple(sorted(places))) if places else None


def _attributes(info: bytes) -> Iterator[tuple[int, int, int]]:
    """(attribute, number of a function's symbol, value), from .nv.info."""
    for attribute, value in _values(info):
        if attribute in (FRAME_SIZE, REGISTERS) and len(value) == 8:
            yield (attribute, *struct.unpack("<II", value))


# what ptxas has just written, of which nothing may be missing


class Content(NamedTuple):
    """A kernel's raw code, offset and size of its parameters in constant bank 0, and the routines linked into it."""

    raw: bytes
    offset: int
    size: int
    routines: tuple[str, ...] = ()


def contents(cubin: Path) -> tuple[str, dict[str, Content]]:
    """(arch as "sm_90", content by kernel); EnvironmentUnfitError if the cubin is unreadable or contradicts itself."""
    try:
        raw = cubin.read_bytes()
        found = _sections_of(raw)
        symbols = _symbols(found)
        routines = _routines(symbols)
        kernels = [number for number, section in enumerate(found) if section.name.startswith(".text.")]
        return arch_of(raw), {
            found[n].name.removeprefix(".text."): _content(found, n, symbols, routines.get(n, [])) for n in kernels
        }
    except (DataError, struct.error, IndexError, UnicodeDecodeError, OSError) as error:
        raise EnvironmentUnfitError(f"ptxas wrote no cubin that can be read: {error}") from None


def _content(sections: list[Section], number: int, symbols: list[Symbol], routines: list[tuple[int, str]]) -> Content:
    """A kernel's content; EnvironmentUnfitError unless the names of its sections and its symbol agree."""
    code = sections[number]
    name = code.name.removeprefix(".text.")
    info = next((s for s in sections if s.name == f".nv.info.{name}"), None)
    symbol = symbols[code.info & SYMBOL_NUMBER]
    if (symbol.name, symbol.section, info and info.info) != (name, number, number):
        raise EnvironmentUnfitError(f"ptxas wrote a cubin whose code section {name} belongs to symbol {symbol.name}.")
    for attribute, value in _values(info.data if info else b""):
        if attribute == PARAM_CBANK:
            _, offset, size = struct.unpack_from("<IHH", value)
            return Content(code.data, offset, size, tuple(routine for _, routine in sorted(routines)))
    raise DataError(f"it does not say where parameters of {name} are.")


def _sections_of(raw: bytes) -> list[Section]:
    """The sections of a cubin; DataError if it is none."""
    if not is_cubin(raw) or raw[4:6] != b"\2\1":
        raise DataError("no cubin of 64 bits.")
    return list(sections(raw))


def code_by_kernel(cubin: bytes) -> dict[str, bytes]:
    """The raw code of every kernel, by any compiler; EnvironmentUnfitError if the cubin is unreadable."""
    try:
        named = [section for section in _sections_of(cubin) if section.name.startswith(".text.")]
        return {section.name.removeprefix(".text."): section.data for section in named}
    except (DataError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise EnvironmentUnfitError(f"the compiler made no cubin that can be read: {error}") from None


def replace_code(cubin: bytes, changed: Mapping[str, Callable[[bytes], bytes]]) -> bytes:
    """A cubin whose kernels have the code that a function by kernel makes of theirs, of the same length."""
    by_name = {section.name: section for section in _sections_of(cubin)}
    for name, change in changed.items():
        section = by_name[f".text.{name}"]
        cubin = cubin[: section.place] + change(section.data) + cubin[section.place + len(section.data) :]
    return cubin
