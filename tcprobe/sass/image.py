"""Untrusted files: the cubins and PTX texts in a file of any kind, and what a cubin says of its functions.

A fatbin is a header followed by entries. It may be anywhere in an object, library or executable of any system, so the
file is searched for its magic number. NVIDIA does not document the format: this reads what nvcc 12.9 and 13.0 write,
and trusts sizes only if they stay inside the file. Entries may be compressed, as LZ4 blocks or Zstandard frames.

Of a cubin it reads the arch, and of every function code, registers, stack and linked routines. `sass.elf` reads what
ptxas has just written; here every offset is checked against the file before it is used, and no memory is reserved
because a header asks for it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from types import ModuleType
from typing import NamedTuple

from tcprobe.errors import DataError

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
ELF, CUDA = b"\x7fELF", 190  # the first bytes of a cubin, and the machine that its header names
HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of the header, bytes of all entries
# kind, version, bytes of the header, padded size, size if compressed, -, version, arch, -, flags, -, size unpacked
ENTRY = struct.Struct("<HHIQIIIIQQQQ")
KINDS = {1: "PTX", 2: "cubin"}
LZ4, ZSTD = 0x2000, 0x8000  # flags
MOST_IMAGE = 128 << 20  # bytes of one entry unpacked
MOST_UNPACKED = 512 << 20  # bytes of all entries of a file unpacked
MOST_IMAGES = 100_000


class FatbinEntry(NamedTuple):
    """A cubin or PTX text of a file; if it cannot be read, `data` is None and `words` say why."""

    kind: str
    data: bytes | None
    words: str = ""


def images(raw: bytes) -> Iterator[FatbinEntry]:
    """The cubins and PTX texts in a file; DataError if there are none, or too many."""
    if is_cubin(raw):
        yield FatbinEntry("cubin", raw)
    elif is_ptx(raw):
        yield FatbinEntry("PTX", raw)
    elif MAGIC in raw:
        # all entries, unpacked; DataError before more is unpacked than the bounds allow, also of damaged entries
        unpacked = 0
        for number, entry in enumerate(_entries(raw)):
            unpacked += entry.cost if isinstance(entry, PackedEntry) else 0
            if number >= MOST_IMAGES or unpacked > MOST_UNPACKED:
                raise DataError(f"more than {MOST_IMAGES} entries, or {MOST_UNPACKED >> 20} MB of them unpacked.")
            yield _unpack(entry) if isinstance(entry, PackedEntry) else entry
    else:
        raise DataError("it holds no cubin, PTX or fatbin.")


def is_cubin(raw: bytes) -> bool:
    """Whether it is an ELF file for NVIDIA GPUs."""
    return raw[:4] == ELF and int.from_bytes(raw[18:20], "little") == CUDA


def is_ptx(raw: bytes) -> bool:
    """Whether it is PTX: text with .version and .target near its beginning."""
    return b".version" in raw[:65536] and b".target" in raw[:65536] and b"\0" not in raw[:65536].rstrip(b"\0")


class PackedEntry(NamedTuple):
    """An entry of a fatbin as it is in the file; `full` is the size that it states for what it unpacks to."""

    kind: str
    data: bytes
    flags: int
    full: int

    @property
    def cost(self) -> int:
        """Bytes that it is unpacked to, however that ends; one that states too many is not unpacked."""
        if not self.flags & (LZ4 | ZSTD):
            return len(self.data)
        return self.full if self.full <= MOST_IMAGE else 0


def _entries(raw: bytes) -> Iterator[PackedEntry | FatbinEntry]:
    """The entries of all fatbins; one that ends outside its fatbin is the last of that."""
    start = raw.find(MAGIC)
    while start >= 0:
        end = start + HEADER.size
        if end <= len(raw):
            end += HEADER.unpack_from(raw, start)[3]
            yield from _entries_of(raw, start + HEADER.size, end)
        start = raw.find(MAGIC, end if end <= len(raw) else start + len(MAGIC))


def _entries_of(raw: bytes, position: int, end: int) -> Iterator[PackedEntry | FatbinEntry]:
    if end > len(raw):
        yield FatbinEntry("fatbin", None, f"a fatbin ends {end - len(raw)} bytes after the file; truncated?")
        return
    while position + ENTRY.size <= end:
        kind, _, header, size, packed, *_, flags, _, full = ENTRY.unpack_from(raw, position)
        begin = position + header
        if header < ENTRY.size or begin + size > end:
            yield FatbinEntry("fatbin", None, "an entry ends outside its fatbin; damaged?")
            return
        if kind in KINDS:
            yield PackedEntry(KINDS[kind], raw[begin : begin + (packed or size)], flags, full)
        position = begin + size


def _unpack(entry: PackedEntry) -> FatbinEntry:
    kind, data, flags, full = entry
    try:
        if flags & (LZ4 | ZSTD):
            if full > MOST_IMAGE:
                raise DataError(f"{full} bytes; tcprobe unpacks at most {MOST_IMAGE}")
            data = lz4(data, full) if flags & LZ4 else zstd(data, full)
        return FatbinEntry(kind, data)
    except DataError as error:
        return FatbinEntry(kind, None, f"a compressed {kind} is not read: {error}.")


def zstd(data: bytes, size: int) -> bytes:
    """Unpack a Zstandard frame to `size` bytes; DataError if it has another size, or cannot be read."""
    module = _zstandard()
    try:
        unpacked: bytes = module.ZstdDecompressor().decompress(data, max_length=size + 1)
    except (module.ZstdError, EOFError, ValueError) as error:
        raise DataError(f"no Zstandard frame ({error})") from None
    if len(unpacked) != size:
        raise DataError(f"not the {size} bytes that it states")
    return unpacked


def _zstandard() -> ModuleType:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise DataError("it is a Zstandard frame; pip install 'tcprobe[fatbin]' brings what unpacks it")


def lz4(data: bytes, size: int) -> bytes:
    """Unpack an LZ4 block to `size` bytes: sequences of literals and a copy from before. DataError if it is damaged."""
    unpacked, place = bytearray(), 0
    try:
        while place < len(data) and len(unpacked) < size:
            token = data[place]
            count, place = _length(data, place + 1, token >> 4)
            unpacked += data[place : place + count]
            place += count
            if place >= len(data) or len(unpacked) >= size:
                break
            back = data[place] | data[place + 1] << 8
            count, place = _length(data, place + 2, token & 15)
            _copy(unpacked, back, min(count + 4, size - len(unpacked)))
    except IndexError:
        raise DataError("a damaged LZ4 block") from None
    if len(unpacked) != size:
        raise DataError(f"not the {size} bytes that it states")
    return bytes(unpacked)


def _length(data: bytes, position: int, count: int) -> tuple[int, int]:
    """(length that starts with the 4 bits `count`, place after it)."""
    if count == 15:
        while data[position] == 255:
            count, position = count + 255, position + 1
        count, position = count + data[position], position + 1
    return count, position


def _copy(unpacked: bytearray, back: int, count: int) -> None:
    """Append `count` bytes that start `back` bytes before the end; they may overlap what they append."""
    if not 0 < back <= len(unpacked):
        raise DataError("a damaged LZ4 block")
    start = len(unpacked) - back
    if count <= back:
        unpacked += unpacked[start : start + count]
    else:
        unpacked += (bytes(unpacked[start:]) * (count // back + 1))[:count]


# first of the eight bits of the compute capability in the header's flags, by ABI version (`sass.elf`)
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
    if not is_cubin(raw) or raw[4:6] != b"\2\1":
        raise DataError("no cubin of 64 bits.")
    found = list(sections(raw))
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
                tuple(routines.get(number, ())),
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
        held, place = info[place + 2 : place + 4], place + 4
        if kind == HAS_SIZE:
            held, place = info[place : place + size], place + size
        if kind == wanted:
            yield attribute, held


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
