"""Untrusted files: the cubins and PTX texts in a file of any kind.

A fatbin is a header followed by entries. It may be anywhere in an object, library or executable of any system, so the
file is searched for its magic number. NVIDIA does not document the format: this reads what nvcc 12.9 and 13.0 write,
and trusts sizes only if they stay inside the file. Entries may be compressed, as LZ4 blocks or Zstandard frames.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from tcprobe.errors import DataError
from tcprobe.sass.elf import is_cubin

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
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
