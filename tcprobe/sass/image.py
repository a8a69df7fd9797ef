"""Untrusted files: the cubins and PTX texts in a file of any kind.

A fatbin is a header followed by entries. It may be anywhere in an object, library or executable of any system, so the
file is searched for its magic number, which machine code of the host can hold as well: what follows it then is no
entry. NVIDIA does not document the format: this reads what nvcc 12.9 to 13.5 write, and trusts sizes only if they stay
inside the file. Entries may be compressed, as LZ4 blocks or Zstandard frames; each says its arch, so that those of
others need not be unpacked.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple

import lz4.block

from tcprobe.errors import DataError
from tcprobe.sass.elf import is_cubin

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of the header, bytes of all entries
# kind, version, bytes of the header, padded size, size if compressed, -, version, arch, -, flags, -, size unpacked
ENTRY = struct.Struct("<HHIQIIIIQQQQ")
VERSION, MOST_HEADER = 0x101, 4096  # of an entry
KINDS = {1: "PTX", 2: "cubin"}
LZ4, ZSTD = 0x2000, 0x8000  # flags
MOST_IMAGE = 128 << 20  # bytes of one entry unpacked
MOST_UNPACKED, MOST_RATIO = 512 << 20, 64  # bytes of all entries, or times the file; libraries of 2026 have 2 to 14
MOST_IMAGES = 100_000


class Entry(NamedTuple):
    """A cubin or PTX text as it is in a file: `size` bytes from `begin` on.

    `arch` is that of its fatbin, as "sm_90", None of a file that is one image; `full` the size that it states for what
    it unpacks to.
    """

    kind: str
    arch: str | None
    raw: bytes | mmap
    begin: int
    size: int
    flags: int = 0
    full: int = 0

    @property
    def cost(self) -> int:
        """Bytes that it is unpacked to, however that ends; one that states too many is not unpacked."""
        if not self.flags & (LZ4 | ZSTD):
            return self.size
        return self.full if self.full <= MOST_IMAGE else 0

    def unpacked(self) -> bytes:
        """The image; DataError where it is damaged, or has more than MOST_IMAGE bytes."""
        data = self.raw[self.begin : self.begin + self.size]
        if not self.flags & (LZ4 | ZSTD):
            return data
        try:
            if self.full > MOST_IMAGE:
                raise DataError(f"{self.full} bytes; tcprobe unpacks at most {MOST_IMAGE}")
            return of_lz4(data, self.full) if self.flags & LZ4 else of_zstd(data, self.full)
        except DataError as error:
            raise DataError(f"a compressed {self.kind} is not read: {error}.") from None


def entries(raw: bytes | mmap) -> list[Entry | DataError]:
    """The cubins and PTX texts in a file, none of them unpacked yet, and what is damaged.

    DataError if there are none, more than MOST_IMAGES, or more bytes than such a file unpacks to.
    """
    if is_cubin(raw[:64]):
        return [Entry("cubin", None, raw, 0, len(raw))]
    if is_ptx(raw[:65536]):
        return [Entry("PTX", None, raw, 0, len(raw))]
    found, cost, most = list[Entry | DataError](), 0, max(MOST_UNPACKED, MOST_RATIO * len(raw))
    for entry in _entries(raw):
        found.append(entry)
        cost += entry.cost if isinstance(entry, Entry) else 0
        if len(found) > MOST_IMAGES or cost > most:
            raise DataError(f"more than {MOST_IMAGES} entries, or {most >> 20} MB of them unpacked.")
    if not found:
        raise DataError("it holds no cubin, PTX or fatbin.")
    return found


def is_ptx(beginning: bytes) -> bool:
    """Whether it is PTX: text with .version and .target near its beginning."""
    return b".version" in beginning and b".target" in beginning and b"\0" not in beginning.rstrip(b"\0")


def _entries(raw: bytes | mmap) -> Iterator[Entry | DataError]:
    """The entries of all fatbins; one that ends outside its fatbin is the last of that."""
    place = raw.find(MAGIC)
    while place >= 0:
        begin, end = place + HEADER.size, place + len(MAGIC)  # of what is no fatbin
        if begin <= len(raw):
            size = HEADER.unpack_from(raw, place)[3]
            if not size or _is_entry(raw, begin):
                end = begin + size
                yield from _entries_of(raw, begin, end)
        place = raw.find(MAGIC, end)


def _is_entry(raw: bytes | mmap, place: int) -> bool:
    if place + ENTRY.size > len(raw):
        return False
    _, version, header, *_ = ENTRY.unpack_from(raw, place)
    return bool(version == VERSION and ENTRY.size <= header <= MOST_HEADER)


def _entries_of(raw: bytes | mmap, position: int, end: int) -> Iterator[Entry | DataError]:
    if end > len(raw):
        yield DataError(f"a fatbin ends {end - len(raw)} bytes after the file; truncated?")
        return
    while position + ENTRY.size <= end:
        kind, _, header, size, packed, _, _, number, _, flags, _, full = ENTRY.unpack_from(raw, position)
        begin = position + header
        if header < ENTRY.size or begin + size > end or packed > size:
            yield DataError("an entry ends outside its fatbin; damaged?")
            return
        if kind in KINDS:
            yield Entry(KINDS[kind], f"sm_{number}", raw, begin, packed or size, flags, full)
        position = begin + size


def of_zstd(data: bytes, size: int) -> bytes:
    """Unpack a Zstandard frame to `size` bytes; DataError if it has another size, or cannot be read."""
    try:
        unpacked: bytes = zstd.ZstdDecompressor().decompress(data, max_length=size + 1)
    except (zstd.ZstdError, EOFError, ValueError) as error:
        raise DataError(f"no Zstandard frame ({error})") from None
    return _whole(unpacked, size)


def of_lz4(data: bytes, size: int) -> bytes:
    """Unpack an LZ4 block to `size` bytes; DataError if it has another size, or is damaged."""
    try:
        unpacked: bytes = lz4.block.decompress(data, uncompressed_size=size)
    except lz4.block.LZ4BlockError:
        raise DataError("a damaged LZ4 block") from None
    return _whole(unpacked, size)


def _whole(unpacked: bytes, size: int) -> bytes:
    if len(unpacked) != size:
        raise DataError(f"not the {size} bytes that it states")
    return unpacked
