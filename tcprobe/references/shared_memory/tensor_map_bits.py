"""The 128 bytes of a CUtensorMap: which bits hold what.

NVIDIA does not document them. Read off 18,162 random maps that the driver 580.159.04 (CUDA 13.0) encoded for an H200,
15,200 tiled and 2,962 im2col ones, by a forerunner of `benchmarks/tensor_map_bits.py`, and equal to all of them; 800
are kept with the tests. The benchmark draws others: of 10,000 that it tried there, none differs. Types 13 to 15 and the
swizzle modes 4 to 6 are of sm_100 and later, whose maps that driver does not encode there. What stands from byte 64 on
follows from the rest.

>>> raw = encode(MapFields(6, (64, 16), (128,), (64, 8), (1, 1), swizzle=3, address=0x7000))
>>> decode(raw).dims, field_of(77).name
((64, 16), 'swizzle')
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.references.shared_memory.tensor_map import SIZES

BYTES = 128
# by the driver's number of a type that of its bits: PTX's; tf32 is f32 with the bit of rounding (11, 12)
TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7, 8)
ROUNDED = (11, 12)
CORNER = {3: 16, 4: 8, 5: 5}  # bits of a corner of an im2col box, by rank


class Field(NamedTuple):
    """A field of a map: its first bit, its width, and what it holds."""

    name: str
    first: int
    bits: int
    holds: str

    def of(self, number: int) -> int:
        """What a map holds there, as a whole number of 1,024 bits."""
        return number >> self.first & (1 << self.bits) - 1


def _each(name: str, first: int, bits: int, count: int, holds: str) -> tuple[Field, ...]:
    """Fields in a row, one a dimension."""
    return tuple(Field(f"{name}{i}", first + bits * i, bits, holds.format(i)) for i in range(count))


FIELDS = (
    Field("address", 0, 64, "where the tensor begins, in bytes"),
    Field("im2col", 64, 1, "0: tiled, 1: im2col"),
    Field("not_known", 65, 3, "0 in all of them"),
    Field("rank", 68, 3, "dimensions - 1"),
    Field("type", 71, 4, "the element's, as tensormap.replace numbers it: 0 u8 to 7 f32, 8 f32.ftz, 9 f64, 10 bf16"),
    Field("interleave", 75, 2, "0: none, 1: 16 bytes, 2: 32 bytes"),
    Field("swizzle", 77, 2, "0: none, 1: 32, 2: 64, 3: 128 bytes"),
    Field("fill", 79, 1, "0: zeros outside the tensor, 1: NaN"),
    Field("tf32", 80, 1, "1: f32 is rounded to tf32"),
    Field("promotion", 81, 2, "L2 fetches at least 0: what is asked, 1: 64, 2: 128, 3: 256 bytes"),
    *_each("stride", 96, 32, 4, "bytes / 16 between steps of dimension {} + 1, bits 0 to 31"),
    *_each("high", 224, 4, 4, "bits 32 to 35 of stride{}"),
    *_each("dim", 256, 32, 5, "elements of dimension {} - 1"),
    *_each("step", 416, 3, 5, "element stride of dimension {} - 1"),
    *_each("box", 440, 8, 5, "elements of a box along dimension {} - 1; box0 of im2col: channels - 1"),
    Field("lower", 448, 16, "of im2col, where tiled maps have box1: lower corner, 16, 8 or 5 bits a dimension, signed"),
    Field("upper", 464, 16, "of im2col, where tiled maps have box3: upper corner, likewise"),
    Field("pixels", 480, 10, "of im2col: pixels of a column - 1"),
    Field("box_bytes", 512, 32, "bytes of a box, which follow from the rest: sides / steps, rounded down"),
    Field("plain", 580, 1, "1 without a swizzle"),
    Field("swizzled", 584, 3, "1, 2, 4 with a swizzle of 32, 64, 128 bytes"),
)
BY_NAME = {field.name: field for field in FIELDS}


class MapFields(NamedTuple):
    """The arguments of cuTensorMapEncodeTiled, or with `corners` (lower, upper) those of cuTensorMapEncodeIm2col.

    Numbers as in the driver's enums; dimensions inner first; `strides` in bytes. Of im2col `box` is (channels, pixels).
    """

    type: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: int = 0
    swizzle: int = 0
    promotion: int = 0
    fill: int = 0
    address: int = 0
    corners: tuple[tuple[int, ...], tuple[int, ...]] | None = None


def field_of(bit: int) -> Field:
    """The first field that a bit is of; UsageError where it is of none."""
    found = next((field for field in FIELDS if field.first <= bit < field.first + field.bits), None)
    if found is None:
        raise UsageError(f"bit {bit} of a tensor map is of no field that is known.")
    return found


def encode(given: MapFields) -> bytes:
    """The 128 bytes, as the driver writes them; UsageError for a number that its field does not hold."""
    number = 0
    for name, value in _numbers(given):
        field = BY_NAME[name]
        if not 0 <= value < 1 << field.bits:
            raise UsageError(f"{name} of a tensor map has {field.bits} bits: {value} is not held.")
        number |= value << field.first
    return number.to_bytes(BYTES, "little")


def _numbers(given: MapFields) -> Iterator[tuple[str, int]]:
    rank = len(given.dims)
    if not (0 <= given.type < len(TYPES) and 1 <= rank <= 5):
        raise UsageError(f"a tensor map of type {given.type} and {rank} dimensions is not known to the bit.")
    size = SIZES[given.type]
    yield "address", given.address
    yield "im2col", int(given.corners is not None)
    yield "rank", rank - 1
    yield "type", TYPES[given.type]
    yield "tf32", int(given.type in ROUNDED)
    for name in ("interleave", "swizzle", "fill", "promotion"):
        yield name, getattr(given, name)
    for i, stride in enumerate(given.strides):
        yield f"stride{i}", stride >> 4 & (1 << 32) - 1
        yield f"high{i}", stride >> 36
    for i, (dim, step) in enumerate(zip(given.dims, given.steps, strict=True)):
        yield f"dim{i}", dim - 1
        yield f"step{i}", step - 1
    if given.corners is None:
        for i, (side, step) in enumerate(zip(given.box, given.steps, strict=True)):
            yield f"box{i}", side - 1
            size *= side // step
    else:
        channels, pixels = given.box
        width = CORNER[rank]
        yield "box0", channels - 1
        yield "pixels", pixels - 1
        for name, corner in zip(("lower", "upper"), given.corners, strict=True):
            yield name, sum((place & (1 << width) - 1) << width * i for i, place in enumerate(corner))
        size *= channels * pixels
    yield "box_bytes", size
    yield ("swizzled", 1 << given.swizzle - 1) if given.swizzle else ("plain", 1)


def decode(raw: bytes) -> MapFields:
    """What the first 64 bytes say; UsageError for what no map has."""
    if len(raw) != BYTES:
        raise UsageError(f"a tensor map has {BYTES} bytes, not {len(raw)}.")
    number = int.from_bytes(raw[:64], "little")
    held = {name: field.of(number) for name, field in BY_NAME.items()}
    rank, code = held["rank"] + 1, held["type"] + (100 if held["tf32"] else 0)
    kinds = {known + (100 if kind in ROUNDED else 0): kind for kind, known in enumerate(TYPES)}
    if rank > 5 or code not in kinds or held["interleave"] > 2 or (held["im2col"] and rank < 3):
        raise UsageError(f"no tensor map has rank {rank}, type {held['type']} and interleave {held['interleave']}.")
    corners = None
    box = tuple(held[f"box{i}"] + 1 for i in range(rank))
    if held["im2col"]:
        box = held["box0"] + 1, held["pixels"] + 1
        corners = _corner(held["lower"], rank), _corner(held["upper"], rank)
    return MapFields(
        kinds[code],
        tuple(held[f"dim{i}"] + 1 for i in range(rank)),
        tuple((held[f"stride{i}"] | held[f"high{i}"] << 32) << 4 for i in range(rank - 1)),
        box,
        tuple(held[f"step{i}"] + 1 for i in range(rank)),
        held["interleave"],
        held["swizzle"],
        held["promotion"],
        held["fill"],
        held["address"],
        corners,
    )


def _corner(packed: int, rank: int) -> tuple[int, ...]:
    """The places of a corner, signed."""
    width = CORNER[rank]
    places = (packed >> width * i & (1 << width) - 1 for i in range(rank - 2))
    return tuple(place - (place >> width - 1 << width) for place in places)
