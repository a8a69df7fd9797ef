"""Tensor maps: where boxes are in shared memory, and which maps the driver takes.

    tcprobe run --family tma

Every byte of the source encodes its number: low 8 bits, high 8 bits, and the complements of both, in four images. A
byte was copied if complementary images agree; otherwise it was left as it was. For types that a load rounds, whole
words encode their numbers, in bits that rounding keeps. One block makes one copy, of a box at any coordinates, to or
from any shared address. Swizzles depend on absolute addresses, so the kernel also stores where its shared memory
begins.

After WAITS tries a load is given up; the copy counts as lost.

Boxes: every mode, type and width of a row (16 to 256 bytes), at shared addresses that differ in the bits that a swizzle
reads; then boxes of 1 to 5 dimensions, with few rows and with many. A map that the driver refuses is an answer, too.
Boxes of a swizzle mode are copied both ways, and one rule is fitted to all of them. Boxes at misaligned addresses,
which are expected to cost the device, are experiments of their own. Calls of `cuTensorMapEncodeTiled` are compared with
the rules of `references.shared_memory.tensor_map`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.fit.boxes import PlacedBox, fit_boxes
from tcprobe.isa.arch import Target
from tcprobe.isa.tensor_map import DATA_TYPES, PACKED, SPANS, SWIZZLES
from tcprobe.layout.arrays import Array, Bools, Bytes, Ints
from tcprobe.probes.experiment import Bench, Context, Dialogue, Readout, array_of_text, text_lines
from tcprobe.probes.ptx import Kernel, Launch, NotEmulated, entry
from tcprobe.references.shared_memory.tensor_map import (
    MOST_RANK,
    ROUNDED,
    TensorMap,
    broken_rules,
    packed_map,
    refusing_rules,
)
from tcprobe.store.kinds.tensor_maps import (
    ENCODINGS,
    MISALIGNED,
    Body,
    BoxRecord,
    EncodeCall,
    MapCounts,
    ModeRule,
    Rule,
)

KIND = "tensor_maps"
PTX = Macros(globals(), MOST_RANK=MOST_RANK)
AREA = 8 << 10  # bytes of shared memory that a copy may access
TENSOR = 32 << 10  # bytes of global memory that a map may access
HEADER = 16  # bytes of a load's output before the area: whether the box came, where shared memory begins
THREADS = 128
WAITS = 1 << 16
UNUSED = 0xEE  # fills shared memory before a load
TARGET = Target("sm_90", "8.3")
WORD = 4  # bytes
KEPT, KEPT_SHIFT = np.uint32(0x40000000), np.uint32(14)  # a word whose 8 bits from the shift on rounding to tf32 keeps
NOWHERE = -1
DIRECTIONS = ("load", "store")


class BoxCase(NamedTuple):
    """A box of a map at `coordinates`, copied to or from byte `base` of shared memory."""

    map: TensorMap
    coordinates: tuple[int, ...]
    base: int


@dataclass(frozen=True)
class Boxing(NotEmulated):
    """The op of a kernel: boxes of `rank` dimensions, in one direction."""

    direction: str = ""
    rank: int = 0


def kernel(direction: str, rank: int) -> Kernel:
    """The kernel of a direction and a number of dimensions."""
    name = f"tma_{direction}_{rank}d"
    memory = f".extern .shared .align 1024 .b8 {name}_memory[];\n"
    text = memory + entry(name, ("given", "cases", "maps", "out"), PTX.registers(), PTX.body(name, direction, rank))
    op = Boxing("tensor maps cannot be emulated by layouts of fragments", direction=direction, rank=rank)
    return Kernel(name, op, text, TARGET)


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
    copies, grid, size = kernel(direction, rank), (len(boxes), 1, 1), len(boxes) * each
    return [
        Launch(copies, grid, (image.reshape(1, -1), case_words), 0, size, THREADS, AREA + 16, maps, not loads)
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
    found: list[Ints | str] = []
    for n, case in enumerate(boxes):
        read = [block[n] for block in blocks]
        if direction == "store":
            sources = numbers(read, is_rounded(case))
            copied = np.flatnonzero(sources != NOWHERE)
            found.append(_match(case, window + sources[copied], copied))
            continue
        came, begins = (int(word) for word in read[0][:HEADER].view(np.uint32)[:2])
        sources = numbers([raw[HEADER:] for raw in read], is_rounded(case))
        copied = np.flatnonzero(sources != NOWHERE)
        found.append(_match(case, begins + copied, sources[copied]) if came else "the box never came")
    return found


def _match(box_case: BoxCase, shared_addresses: Ints, tensor: Ints) -> Ints | str:
    """Shared addresses of the box's bytes, from pairs of shared address and byte of the tensor; or what is wrong."""
    box_bytes = offsets(box_case)
    where = np.full(TENSOR, NOWHERE, np.int64)
    where[tensor] = shared_addresses
    if len(np.unique(tensor)) < len(tensor) or len(tensor) != box_bytes.size:
        return f"{len(tensor)} bytes were copied, of a box of {box_bytes.size}"
    addresses: Ints = where[box_bytes]
    return "bytes from outside the box were copied" if (addresses == NOWHERE).any() else addresses


WIDTHS = (16, 32, 48, 64, 80, 112, 128, 144, 256)  # bytes of a row
BASES = (0, 128, 384, 896)
BOXES = ((8,), (8, 1), (16, 30), (8, 5, 3), (16, 3, 2, 4), (8, 2, 3, 2, 2))  # in elements of 2 bytes, by rank
MISALIGNED_BASES = (("NONE", 16), ("32B", 32), ("NONE", 64), ("128B", 64))  # each may cost the context
PADDING = 48  # bytes after a row of the tensor
FULL = 1 << 32


def boxes() -> list[BoxCase]:
    """All boxes that are copied both ways: rows of every width, then every rank."""
    found = []
    for swizzle, (kind, (_, size)), width in product(SWIZZLES, DATA_TYPES.items(), WIDTHS):
        rows = 12 if width > 128 else 17
        bases = BASES if kind.startswith("UINT") else BASES[1:2]
        found += [_case(kind, (width // size, rows), swizzle, base) for base in bases]
    spans = [name for name, number in SWIZZLES.items() if number in (0, *SPANS)]
    return found + [_case("UINT16", box, swizzle, base) for swizzle, box, base in product(spans, BOXES, BASES[:2])]


def misaligned_boxes() -> list[BoxCase]:
    """Boxes at shared addresses that are not multiples of 128."""
    return [_case("UINT16", (16, 8), swizzle, base) for swizzle, base in MISALIGNED_BASES]


@cache
def all_boxes() -> tuple[BoxCase, ...]:
    """All boxes, the misaligned ones last."""
    return (*boxes(), *misaligned_boxes())


def _case(kind: str, box: tuple[int, ...], swizzle: str, base: int) -> BoxCase:
    """A box that starts a few elements into each dimension of a tensor with gaps after its rows."""
    size = DATA_TYPES[kind][1]
    coordinates = (16 // size, *(1 for _ in box[1:]))
    dims = (box[0] + 32 // size, *(side + 2 for side in box[1:]))
    return BoxCase(packed_map(kind, dims, box, swizzle, PADDING - dims[0] * size % 16), coordinates, base)


@dataclass(frozen=True)
class Encoding:
    """One call of the driver: `map` is a valid one except that `argument` is `value`."""

    argument: str
    value: Any
    map: TensorMap


def encodings() -> list[Encoding]:
    """All calls that are tried, in order."""
    return [
        Encoding(argument, list(value) if isinstance(value, tuple) else value, tensor_map)
        for argument, value, tensor_map in _variations()
    ]


FLAT = packed_map("FLOAT16", (256, 64), (32, 8))
WHOLE = packed_map("UINT16", (256, 64), (32, 8))
DEEP = packed_map("FLOAT16", (256, 64, 16), (32, 8, 2))


def _variations() -> Iterator[tuple[str, Any, TensorMap]]:
    yield from (("tensorMap", place, FLAT._replace(place=place)) for place in (0, 16, 32, 64))
    types = [number for number, _ in DATA_TYPES.values()]
    yield from (("tensorDataType", n, FLAT._replace(type=n)) for n in (*types, *PACKED.values(), 16, -1))
    yield from (("tensorRank", rank, _map_of_rank(rank)) for rank in range(7))
    yield from (("globalAddress", n, FLAT._replace(address=n)) for n in (2, 8, 16, 32, 48))
    yield from (("globalDim[0]", n, FLAT._replace(dims=(n, 64))) for n in (0, 1, 31, 32, 257, FULL, FULL + 1))
    yield from (("globalDim[1]", n, FLAT._replace(dims=(256, n))) for n in (0, 1, 7, FULL, FULL + 1))
    strides = (0, 2, 8, 16, 24, 32, 256, 496, 512, 520, (1 << 40) - 16, 1 << 40)
    yield from (("globalStrides[0]", n, FLAT._replace(strides=(n,))) for n in strides)
    yield from (("globalStrides[1]", n, DEEP._replace(strides=(512, n))) for n in (0, 16, 256, 520, 528, 32768))
    yield from (("boxDim[0]", n, FLAT._replace(box=(n, 8))) for n in (0, 1, 4, 8, 12, 16, 128, 256, 257, 264))
    yield from (("boxDim[1]", n, FLAT._replace(box=(32, n))) for n in (0, 1, 7, 64, 65, 255, 256, 257))
    big = ((256, 256, 1), (256, 228, 2), (256, 229, 2), (256, 227, 2), (256, 256, 2), (256, 256, 256))
    yield from (("boxDim", box, DEEP._replace(box=box)) for box in big)
    for width, (name, number) in product((16, 32, 48, 64, 80, 128, 144), SWIZZLES.items()):
        yield f"boxDim[0], swizzle {name}", width // 2, FLAT._replace(box=(width // 2, 8), swizzle=number)
    yield from (
        (f"elementStrides[{axis}]", n, FLAT._replace(steps=(n, 1) if axis == 0 else (1, n)))
        for axis in (0, 1)
        for n in (0, 1, 2, 3, 7, 8, 9)
    )
    yield from (("swizzle", n, FLAT._replace(swizzle=n, box=(16, 8))) for n in (*range(8), -1))
    yield from (("interleave", n, FLAT._replace(interleave=n, box=(16, 8))) for n in (0, 1, 2, 3, -1))
    for interleave, swizzle in product((1, 2, 3), range(4)):
        interleaved = DEEP._replace(interleave=interleave, swizzle=swizzle, box=(16, 8, 2))
        yield f"interleave, swizzle {swizzle}", interleave, interleaved
        yield f"interleave, swizzle {swizzle}, globalAddress 16", interleave, interleaved._replace(address=16)
        gaps = (528, 1 << 16)
        yield f"interleave, swizzle {swizzle}, globalStrides 528", interleave, interleaved._replace(strides=gaps)
    for width, swizzle in product((4, 8, 12, 16, 24, 32, 40, 64, 256), (0, 1)):
        interleaved = DEEP._replace(swizzle=swizzle, box=(width, 8, 2))
        yield from (
            (f"interleave, swizzle {swizzle}, boxDim[0] {width}", n, interleaved._replace(interleave=n)) for n in (1, 2)
        )
    yield from (("l2Promotion", n, FLAT._replace(promotion=n)) for n in (*range(5), -1))
    yield from (("oobFill", n, FLAT._replace(fill=n)) for n in (0, 1, 2, -1))
    yield from (("oobFill, UINT16", n, WHOLE._replace(fill=n)) for n in (0, 1))
    yield from (("oobFill 1, tensorDataType", n, FLAT._replace(fill=1, type=n)) for n in types)


def _map_of_rank(rank: int) -> TensorMap:
    """A map of `rank` dimensions; all of its values are valid if the rank is."""
    dims = (64, *(8 for _ in range(rank - 1)))[:rank]
    strides = tuple(128 * prod(dims[1:n]) for n in range(1, rank))
    return TensorMap(6, dims, strides, (32, *(2 for _ in dims[1:]))[:rank], (1,) * rank)


ACCEPTED = "CUDA_SUCCESS"
MODE_NAMES = {number: name for name, number in SWIZZLES.items()}
TYPE_NAMES = {number: name for name, (number, _) in DATA_TYPES.items()}


class TensorMapDialogue(Dialogue):
    """What these experiments share: the first arch with tensor maps."""

    kind = KIND
    target = TARGET


@dataclass(frozen=True)
class ModeExperiment(TensorMapDialogue):
    """All boxes of a swizzle mode."""

    name: str
    cases: tuple[BoxCase, ...]

    @property
    def id(self) -> str:
        return self.name

    def kernels(self) -> list[Kernel]:
        """The kernels of both directions, for each number of dimensions."""
        return _kernels(self.cases)

    def measure(self, bench: Bench) -> Readout:
        """ "maps": the driver's answer to each map; "load", "store": where boxes are; "wrong": copies that could not be
        followed.
        """
        answers = [bench.map_result(case.map) for case in self.cases]
        accepted = {n: case for n, case in enumerate(self.cases) if answers[n] == ACCEPTED}
        return {"maps": array_of_text(answers), **_copy_boxes(bench, accepted)}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The rule; none if the driver takes no map. ProbeError if it takes maps but no box can be followed."""
        answers = text_lines(reading["maps"])
        unlike = [n for n, case in enumerate(self.cases) if (answers[n] == ACCEPTED) == bool(refusing_rules(case.map))]
        accepted = answers.count(ACCEPTED)
        maps = MapCounts(accepted, len(answers) - accepted, [_box(self.cases[n], result=answers[n]) for n in unlike])
        mode = self._mode(reading)
        if accepted and mode is None:
            raise ProbeError(f"no box of {accepted} maps could be followed, first {text_lines(reading['wrong'])[0]}.")
        return Body(mode=mode, maps=maps)

    def _mode(self, reading: Readout) -> ModeRule | None:
        placed = {way: dict(_boxes_of(reading[way], self.cases)) for way in DIRECTIONS}
        every = [box for of_way in placed.values() for box in of_way.values()]
        if not every:
            return None
        swizzles = [(fitted, fitted.rule.swizzle.to_json()) for fitted in fit_boxes(every)]
        first, second = (Rule(f.rule.pitch or "row", (s[0], s[1], s[2]), len(f.misfits)) for f, s in swizzles)
        used = [self.cases[n] for n in sorted({n for of_way in placed.values() for n in of_way})]
        lost = [line.split(" ", 2) for line in text_lines(reading["wrong"])]
        return ModeRule(
            first.pitch,
            first.swizzle,
            first.misfits,
            sum(box.addresses.size for box in every),
            len(placed["load"]),
            len(placed["store"]),
            sorted({TYPE_NAMES[case.map.type] for case in used}),
            sorted({case.map.row_bytes for case in used}),
            sorted({case.base for case in used}),
            sorted({case.map.rank for case in used}),
            second,
            [_box(self.cases[int(n)], direction=way, words=words) for way, n, words in lost],
        )


@dataclass(frozen=True)
class MisalignedExperiment(TensorMapDialogue):
    """A box at a misaligned address."""

    number: int
    case: BoxCase

    @property
    def id(self) -> str:
        return f"{MISALIGNED}{self.number}"

    def kernels(self) -> list[Kernel]:
        return _kernels([self.case])

    def measure(self, bench: Bench) -> Readout:
        """As `ModeExperiment.measure`, for one box and without "maps"."""
        return _copy_boxes(bench, {0: self.case})

    def conclude(self, reading: Readout, context: Context) -> Body:
        """Whether it was copied, else what went wrong."""
        wrong = text_lines(reading["wrong"])
        return Body(fault=_box(self.case, words=wrong[0].split(" ", 2)[2] if wrong else "copied"))

    def instead(self, event: str, words: str) -> Body | None:
        """The error by which the device was lost."""
        return Body(fault=_box(self.case, words=words)) if event in ("fault", "hangs") else None


class EncodingsExperiment(TensorMapDialogue):
    """The driver's answers to maps."""

    id = ENCODINGS

    def kernels(self) -> list[Kernel]:
        """No kernels: the driver answers."""
        return []

    def measure(self, bench: Bench) -> Readout:
        """ "maps": the driver's answer to each map."""
        return {"maps": array_of_text([bench.map_result(encoding.map) for encoding in encodings()])}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """Each call, and the rules that it breaks."""
        calls = []
        for call, words in zip(encodings(), text_lines(reading["maps"]), strict=True):
            broken = [rule.name for rule in broken_rules(call.map)]
            differs = (words == ACCEPTED) != bool(refusing_rules(call.map))
            calls.append(EncodeCall(call.argument, call.value, words, broken, differs))
        return Body(calls=calls)


def _kernels(boxes: Sequence[BoxCase]) -> list[Kernel]:
    ranks = sorted({case.map.rank for case in boxes})
    return [kernel(direction, rank) for direction in DIRECTIONS for rank in ranks]


def _copy_boxes(bench: Bench, numbered_boxes: Mapping[int, BoxCase]) -> Readout:
    """By direction the boxes, one after the other, as `_boxes_of` reads them; "wrong": the copies that failed."""
    arrays: dict[str, list[NDArray[np.int32]]] = {direction: [] for direction in DIRECTIONS}
    wrong = []
    for rank, rounded in sorted({(case.map.rank, is_rounded(case)) for case in numbered_boxes.values()}):
        alike = {n: case for n, case in numbered_boxes.items() if (case.map.rank, is_rounded(case)) == (rank, rounded)}
        window = 0
        for direction in DIRECTIONS:
            outputs = bench.run(launches(direction, rank, list(alike.values())))
            if direction == "load":
                window = int(outputs[0][:HEADER].view(np.uint32)[1])
            for n, addresses in zip(alike, decode(direction, list(alike.values()), outputs, window), strict=True):
                if isinstance(addresses, str):
                    wrong.append(f"{direction} {n} {addresses}")
                else:
                    arrays[direction].append(np.array([n, window, *addresses.shape, *addresses.ravel()], np.int32))
    flat = {direction: np.concatenate([np.zeros(0, np.int32), *parts]) for direction, parts in arrays.items()}
    return {**flat, "wrong": array_of_text(wrong)}


def _boxes_of(flat: Array, boxes: Sequence[BoxCase]) -> Iterator[tuple[int, PlacedBox]]:
    """(number, box) from an array of: number, start of shared memory, rows, bytes of a row, addresses."""
    start = 0
    while start < len(flat):
        number, window, rows, width = (int(n) for n in flat[start : start + 4])
        addresses = flat[start + 4 : start + 4 + rows * width].reshape(rows, width).astype(np.int64)
        if not 0 <= number < len(boxes):
            raise ProbeError(f"there is no box {number}.")
        yield number, PlacedBox(window + boxes[number].base, addresses)
        start += 4 + rows * width


def _box(box_case: BoxCase, **more: Any) -> BoxRecord:
    return BoxRecord(
        TYPE_NAMES[box_case.map.type], list(box_case.map.box), MODE_NAMES[box_case.map.swizzle], box_case.base, **more
    )


def experiments() -> list[Dialogue]:
    """Every mode, then the driver's answers, and last what may cost the device."""
    by_mode: dict[int, list[BoxCase]] = {}
    for box in boxes():
        by_mode.setdefault(box.map.swizzle, []).append(box)
    modes = [ModeExperiment(MODE_NAMES[number], tuple(cases)) for number, cases in by_mode.items()]
    return [*modes, EncodingsExperiment(), *(MisalignedExperiment(n, box) for n, box in enumerate(misaligned_boxes()))]
