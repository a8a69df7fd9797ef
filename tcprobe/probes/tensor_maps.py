"""Where a tensor map puts each byte: boxes from global to shared memory and back.

Every byte of the source encodes its number: low 8 bits, high 8 bits, and the complements of both, in four images. A
byte was copied if complementary images agree; otherwise it was left as it was. For types that a load rounds, whole
words encode their numbers, in bits that rounding keeps. One block makes one copy, of a box at any coordinates, to or
from any shared address. Swizzles depend on absolute addresses, so the kernel also stores where its shared memory
begins.

After WAITS tries a load is given up; the copy counts as lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.target import Target
from tcprobe.layout.arrays import Bools, Bytes, Ints
from tcprobe.probes.ptx import EmulatedCore, Kernel, Launch, entry
from tcprobe.references.shared_memory.tensor_map import MOST_RANK, ROUNDED, TensorMap

AREA = 8 << 10  # bytes of shared memory that a copy may access
TENSOR = 32 << 10  # bytes of global memory that a map may access
HEADER = 16  # bytes of a load's output before the area: whether the box came, where shared memory begins
THREADS = 128
WAITS = 1 << 16
UNUSED = 0xEE  # fills shared memory before a load
TARGET = Target("sm_90", "8.3")
WORD = 4  # bytes
KEPT, KEPT_SHIFT = (
    np.uint32(0x40000000),
    np.uint32(14),
)  # a word with 8 bits, from the shift on, that rounding to tf32 keeps
NOWHERE = -1
DIRECTIONS = ("load", "store")


class BoxCase(NamedTuple):
    """A box of a map at `coordinates`, copied to or from byte `base` of shared memory."""

    map: TensorMap
    coordinates: tuple[int, ...]
    base: int


@dataclass(frozen=True)
class Boxing:
    """The op of a kernel: boxes of `rank` dimensions, in one direction."""

    direction: str
    rank: int
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Raises ProbeError: layouts of fragments do not determine what tensor maps do."""
        raise ProbeError(f"{launch.kernel.name}: tensor maps cannot be emulated by layouts of fragments.")


def kernel(direction: str, rank: int) -> Kernel:
    """The kernel of a direction and a number of dimensions."""
    name = f"tma_{direction}_{rank}d"
    memory = f".extern .shared .align 1024 .b8 {name}_memory[];\n"
    registers = [
        ".reg .u32 %memory, %barrier, %base, %bytes, %word, %at, %tries, %done;",
        f".reg .u32 %c<{MOST_RANK}>;",
        ".reg .u64 %from;",
        ".reg .pred %first, %more, %p;",
    ]
    body = [*_case(name), *(_load(rank) if direction == "load" else _store(rank))]
    text = memory + entry(name, ("given", "cases", "maps", "out"), registers, body)
    return Kernel(name, Boxing(direction, rank), text, TARGET)


def _case(name: str) -> list[str]:
    """Load what block x does, and the address of its map."""
    return [
        f"mov.u32 %memory, {name}_memory;",
        f"add.u32 %barrier, %memory, {AREA};",
        "mad.wide.u32 %cases, %x, 32, %cases;",
        "ld.global.u32 %base, [%cases];",
        "ld.global.u32 %bytes, [%cases+4];",
        *(f"ld.global.u32 %c{n}, [%cases+{8 + 4 * n}];" for n in range(MOST_RANK)),
        "add.u32 %base, %base, %memory;",
        "mad.wide.u32 %maps, %x, 128, %maps;",
        "setp.eq.u32 %first, %lane, 0;",
    ]


def _each(label: str, count: int, ptx_lines: Sequence[str]) -> list[str]:
    """`ptx_lines` for every word number %at below `count`; threads share the work."""
    return [
        "mov.u32 %at, %lane;",
        f"{label}:",
        *ptx_lines,
        f"add.u32 %at, %at, {THREADS};",
        f"setp.lt.u32 %more, %at, {count};",
        f"@%more bra {label};",
    ]


def _coordinates(rank: int) -> str:
    return "{" + ", ".join(f"%c{n}" for n in range(rank)) + "}"


def _load(rank: int) -> list[str]:
    clear = [
        "mad.lo.u32 %word, %at, 4, %memory;",
        f"mov.u32 %done, {UNUSED * 0x01010101:#x};",
        "st.shared.u32 [%word], %done;",
    ]
    copy = [
        "mad.lo.u32 %word, %at, 4, %memory;",
        "ld.shared.u32 %word, [%word];",
        "mad.wide.u32 %from, %at, 4, %out;",
        f"st.global.u32 [%from+{HEADER}], %word;",
    ]
    return [
        f"mad.wide.u32 %out, %x, {HEADER + AREA}, %out;",
        *_each("CLEAR", AREA // 4, clear),
        "@%first mbarrier.init.shared::cta.b64 [%barrier], 1;",
        "@%first fence.mbarrier_init.release.cluster;",
        "fence.proxy.async;",
        "bar.sync 0;",
        "@!%first bra WAIT;",
        "fence.proxy.tensormap::generic.acquire.gpu [%maps], 128;",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], %bytes;",
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%base], [%maps, {_coordinates(rank)}], [%barrier];",
        "WAIT:",
        "mov.u32 %tries, 0;",
        "AGAIN:",
        "mbarrier.try_wait.parity.shared::cta.b64 %p, [%barrier], 0;",
        "selp.u32 %done, 1, 0, %p;",
        "add.u32 %tries, %tries, 1;",
        f"setp.lt.u32 %more, %tries, {WAITS};",
        "@%p bra CAME;",
        "@%more bra AGAIN;",
        "CAME:",
        "bar.sync 0;",
        *_each("COPY", AREA // 4, copy),
        "@%first st.global.v2.u32 [%out], {%done, %memory};",
        "@%first st.global.v2.u32 [%out+8], {%done, %memory};",
    ]


def _store(rank: int) -> list[str]:
    fill = [
        "mad.wide.u32 %from, %at, 4, %given;",
        "ld.global.u32 %done, [%from];",
        "mad.lo.u32 %word, %at, 4, %memory;",
        "st.shared.u32 [%word], %done;",
    ]
    return [
        *_each("FILL", AREA // 4, fill),
        "fence.proxy.async;",
        "bar.sync 0;",
        "@!%first bra DONE;",
        "fence.proxy.tensormap::generic.acquire.gpu [%maps], 128;",
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%maps, {_coordinates(rank)}], [%base];",
        "cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group 0;",
        "DONE:",
    ]


def images(count: int, rounded: bool) -> list[Bytes]:
    """Four images of `count` bytes that encode the numbers of bytes (of words if `rounded`): low, high, complements."""
    number = np.arange(count // WORD if rounded else count)
    pieces = [(number & 0xFF).astype(np.uint8), (number >> 8).astype(np.uint8)]
    pieces += [~piece for piece in pieces]
    return [(KEPT | piece.astype(np.uint32) << KEPT_SHIFT).view(np.uint8) if rounded else piece for piece in pieces]


def numbers(images_read: Sequence[Bytes], rounded: bool) -> Ints:
    """The byte number that each copied byte encodes in the four images, NOWHERE if nothing was copied."""
    if not rounded:
        return _byte_numbers(list(images_read), np.ones(len(images_read[0]), np.bool_))
    words = [np.ascontiguousarray(raw).view(np.uint32) for raw in images_read]
    whole = np.all([word & ~np.uint32(0xFF << KEPT_SHIFT) == KEPT for word in words], axis=0)
    word_numbers = _byte_numbers([(word >> KEPT_SHIFT & 0xFF).astype(np.uint8) for word in words], whole)
    each = np.where(word_numbers[:, None] == NOWHERE, NOWHERE, word_numbers[:, None] * WORD + np.arange(WORD))
    return np.asarray(each.ravel(), np.int64)


def _byte_numbers(pieces: Sequence[Bytes], copied_bits: Bools) -> Ints:
    low, high, not_low, not_high = pieces
    copied = copied_bits & (low == ~not_low) & (high == ~not_high)
    return np.asarray(np.where(copied, low.astype(np.int64) | high.astype(np.int64) << 8, NOWHERE), np.int64)


def is_rounded(box_case: BoxCase) -> bool:
    """Whether a load rounds the elements."""
    return box_case.map.type in ROUNDED


def launches(direction: str, rank: int, boxes: Sequence[BoxCase]) -> list[Launch]:
    """The four launches of all cases of one kernel; all cases must be rounded, or none."""
    rows = np.zeros((len(boxes), 8), np.uint32)
    for row, case in zip(rows, boxes, strict=True):
        row[:2] = case.base, case.map.bytes
        row[2 : 2 + rank] = case.coordinates
    loads = direction == "load"
    each = HEADER + AREA if loads else TENSOR
    maps = tuple(case.map if loads else case.map._replace(address=n * TENSOR) for n, case in enumerate(boxes))
    case_words = rows.view(np.uint8).reshape(1, -1)
    return [
        Launch(
            kernel(direction, rank),
            (len(boxes), 1, 1),
            (image.reshape(1, -1), case_words),
            0,
            len(boxes) * each,
            THREADS,
            AREA + 16,
            maps,
            not loads,
        )
        for image in images(TENSOR if loads else AREA, is_rounded(boxes[0]))
    ]


def offsets(box_case: BoxCase) -> Ints:
    """Where the box's bytes are in global memory, from the tensor's first byte: (rows, bytes of a row)."""
    tensor_map = box_case.map
    outer = np.array([list(reversed(n)) for n in product(*(range(side) for side in reversed(tensor_map.box[1:])))])
    start = box_case.coordinates[0] * tensor_map.size
    rows = ((outer + np.array(box_case.coordinates[1:], np.int64)) * np.array(tensor_map.strides, np.int64)).sum(axis=1)
    return np.asarray(rows.astype(np.int64)[:, None] + start + np.arange(tensor_map.row_bytes)[None, :], np.int64)


def decode(direction: str, boxes: Sequence[BoxCase], images_read: Sequence[Bytes], window: int = 0) -> list[Ints | str]:
    """For each case, the absolute shared address of every byte of its box, (rows, bytes); or a text that says what is
    wrong.

    `window` is where shared memory begins, for stores; a load's output has it.
    """
    each = HEADER + AREA if direction == "load" else TENSOR
    blocks = [raw.reshape(len(boxes), each) for raw in images_read]
    decode_case = _decode_load if direction == "load" else _decode_store
    return [decode_case(case, [block[n] for block in blocks], window) for n, case in enumerate(boxes)]


def window_of(images_read: Sequence[Bytes]) -> int:
    """Where shared memory begins, from the outputs of a load."""
    return int(images_read[0][:HEADER].view(np.uint32)[1])


def _decode_load(box_case: BoxCase, images_read: Sequence[Bytes], _window: int) -> Ints | str:
    came, window = (int(word) for word in images_read[0][:HEADER].view(np.uint32)[:2])
    if not came:
        return "the box never came"
    sources = numbers([raw[HEADER:] for raw in images_read], is_rounded(box_case))
    return _match(box_case, window + np.flatnonzero(sources != NOWHERE), sources[sources != NOWHERE])


def _decode_store(box_case: BoxCase, images_read: Sequence[Bytes], window: int) -> Ints | str:
    sources = numbers(images_read, is_rounded(box_case))
    return _match(box_case, window + sources[sources != NOWHERE], np.flatnonzero(sources != NOWHERE))


def _match(box_case: BoxCase, shared_addresses: Ints, tensor: Ints) -> Ints | str:
    """Shared addresses of the box's bytes, from pairs of shared address and byte of the tensor; or what is wrong."""
    box_bytes = offsets(box_case)
    where = np.full(TENSOR, NOWHERE, np.int64)
    where[tensor] = shared_addresses
    if len(np.unique(tensor)) < len(tensor) or len(tensor) != box_bytes.size:
        return f"{len(tensor)} bytes were copied, of a box of {box_bytes.size}"
    addresses: Ints = where[box_bytes]
    return "bytes from outside the box were copied" if (addresses == NOWHERE).any() else addresses
