"""Memory and what is known of each byte: whether it exists, who wrote it, who has read it since, what is in flight.

>>> import numpy as np
>>> space = Space("shared", 64)
>>> space.exist(0, 32)
>>> space.bytes.view(np.uint32)[1] = 7
>>> space.gather(np.array([4]), 4).view(np.uint32).tolist()
[[7]]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.layout.arrays import Bytes, Ints

OUTSIDE, UNWRITTEN, WRITTEN, READ_ONLY = range(4)
READERS = 8  # readers of a byte that are remembered, by the number of their warp
SIZES = (1, 2, 4, 8, 16, 32)

GLOBAL = 0x2_0000_0000  # where buffers begin
SHARED = 0x7F00_0000_0000  # where a generic address is one of shared memory
LOCAL = 0x7E00_0000_0000
WINDOW = 1 << 32  # bytes of each of these two
RANK = 24  # bits of an address in one block's shared memory; its rank in the cluster stands above
FIRST_SHARED = 1024  # what lies below is the system's
GUARD = 4096  # bytes between buffers that belong to none
MOST_BYTES = 1 << 31  # of all buffers


class Space:
    """`size` bytes; `readers` of each are remembered where there may be races with them."""

    def __init__(self, name: str, size: int, readers: int = READERS) -> None:
        size = -(-size // 64) * 64
        self.name, self.size = name, size
        self.bytes: Bytes = np.zeros(size, np.uint8)
        self.state: Bytes = np.zeros(size, np.uint8)
        self.writer: Ints = np.zeros(size, np.int64)
        self.readers: Ints = np.zeros((readers, size), np.int64)
        self.incoming = np.zeros(size, np.uint16)  # work in flight that writes it
        self.outgoing = np.zeros(size, np.uint16)  # and that reads it
        self.flights = 0
        self.copied: NDArray[np.bool_] | None = None  # written last by cp.async, once there is some
        self._words = {n: self.bytes.view(f"V{n}") for n in SIZES}
        self._states = {n: self.state.view(f"V{n}") for n in SIZES}
        self._writers = {n: self.writer.reshape(-1, n) for n in SIZES}
        self._readers = {n: self.readers.reshape(readers, size // n, n) for n in SIZES}
        self._incoming = {n: self.incoming.reshape(-1, n) for n in SIZES}
        self._outgoing = {n: self.outgoing.reshape(-1, n) for n in SIZES}

    def exist(self, start: int, size: int, state: int = UNWRITTEN) -> None:
        """Bytes that there are."""
        self.state[start : start + size] = state

    def clear(self) -> None:
        """For the next block: nothing is written, nobody has read."""
        self.state[self.state == WRITTEN] = UNWRITTEN
        for array in (self.writer, self.readers, self.incoming, self.outgoing):
            array[...] = 0
        self.flights = 0

    def gather(self, offsets: Ints, size: int) -> Bytes:
        """`size` bytes at each offset, a multiple of it."""
        return self._words[size][offsets // size].view(np.uint8).reshape(-1, size)

    def scatter(self, offsets: Ints, data: Bytes) -> None:
        """The opposite of `gather`."""
        size = data.shape[1]
        self._words[size][offsets // size] = np.ascontiguousarray(data).view(f"V{size}")[:, 0]

    def states(self, offsets: Ints, size: int) -> Bytes:
        """Whether bytes exist and are written."""
        return self._states[size][offsets // size].view(np.uint8).reshape(-1, size)

    def write_states(self, offsets: Ints, size: int) -> None:
        """Bytes are written from here on."""
        self._states[size][offsets // size] = np.full(size, WRITTEN, np.uint8).view(f"V{size}")[0]

    def writers(self, offsets: Ints, size: int) -> Ints:
        """Tags of who wrote each byte last."""
        return self._writers[size][offsets // size]

    def set_writers(self, offsets: Ints, size: int, tags: Ints) -> None:
        """Who writes them now; nobody has read what is there since."""
        index = offsets // size
        self._writers[size][index] = tags[:, None]
        if self.copied is not None:
            self.copied.reshape(-1, size)[index] = False

    def copied_by(self, offsets: Ints, size: int, tags: Ints) -> None:
        """As `set_writers`, of what cp.async writes."""
        self.set_writers(offsets, size, tags)
        if self.copied is None:
            self.copied = np.zeros(self.size, np.bool_)
        self.copied.reshape(-1, size)[offsets // size] = True

    def were_copied(self, offsets: Ints, size: int) -> NDArray[np.bool_]:
        """Whether cp.async wrote each byte last."""
        if self.copied is None:
            return np.zeros((len(offsets), size), np.bool_)
        return self.copied.reshape(-1, size)[offsets // size]

    def readers_of(self, offsets: Ints, size: int) -> Ints:
        """(readers, lanes, bytes) tags of who has read each byte last."""
        return self._readers[size][:, offsets // size]

    def add_readers(self, slots: Ints, offsets: Ints, size: int, tags: Ints) -> None:
        """Who reads them now, in a slot each."""
        self._readers[size][slots % self.readers.shape[0], offsets // size] = tags[:, None]

    def in_flight(self, offsets: Ints, size: int, writing: bool) -> NDArray[np.bool_]:
        """(lanes,) Whether work in flight writes the bytes, or reads them where they are written."""
        index = offsets // size
        busy: NDArray[np.bool_] = np.any(self._incoming[size][index], axis=1)
        if writing:
            busy |= np.any(self._outgoing[size][index], axis=1)
        return busy


class Buffer(NamedTuple):
    """An array in global memory."""

    address: int
    size: int
    name: str


class GlobalMemory(Space):
    """Buffers with gaps between them, at addresses from GLOBAL on."""

    def __init__(self, sizes: list[int], names: list[str]) -> None:
        self.buffers: list[Buffer] = []
        at = GUARD
        for size, name in zip(sizes, names, strict=True):
            self.buffers.append(Buffer(GLOBAL + at, size, name))
            at = -(-(at + size + GUARD) // 1024) * 1024
        super().__init__("global", at, 1 if at < 1 << 25 else 0)

    def view(self, buffer: Buffer) -> Bytes:
        """The buffer's bytes."""
        start = buffer.address - GLOBAL
        return self.bytes[start : start + buffer.size]

    def fill(self, buffer: Buffer, data: bytes | Bytes, state: int = WRITTEN) -> None:
        """What a buffer has when the kernel starts."""
        self.view(buffer)[:] = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        self.exist(buffer.address - GLOBAL, buffer.size, state)
