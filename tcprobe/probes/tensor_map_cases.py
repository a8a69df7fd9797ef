"""Boxes that show what each swizzle mode does, and arguments of cuTensorMapEncodeTiled, varied one at a time.

Boxes: every mode, type and width of a row (16 to 256 bytes), at shared addresses that differ in the bits that a swizzle
reads; then boxes of 1 to 5 dimensions, with few rows and with many. A map that the driver refuses is an answer, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from typing import Any

from tcprobe.isa.tensor_map import DATA_TYPES, PACKED, SPANS, SWIZZLES
from tcprobe.probes.tensor_maps import BoxCase
from tcprobe.references.shared_memory.tensor_map import TensorMap, packed_map

WIDTHS = (16, 32, 48, 64, 80, 112, 128, 144, 256)  # bytes of a row
BASES = (0, 128, 384, 896)
BOXES = ((8,), (8, 1), (16, 30), (8, 5, 3), (16, 3, 2, 4), (8, 2, 3, 2, 2))  # in elements of 2 bytes, by rank
MISALIGNED = (("NONE", 16), ("32B", 32), ("NONE", 64), ("128B", 64))  # each may cost the context
PADDING = 48  # bytes after a row of the tensor
FULL = 1 << 32


def boxes() -> list[BoxCase]:
    """All boxes that are copied both ways."""
    return [*_wide(), *_deep()]


def misaligned_boxes() -> list[BoxCase]:
    """Boxes at shared addresses that are not multiples of 128."""
    return [_case("UINT16", (16, 8), swizzle, base) for swizzle, base in MISALIGNED]


@cache
def all_boxes() -> tuple[BoxCase, ...]:
    """All boxes, the misaligned ones last."""
    return (*boxes(), *misaligned_boxes())


SPANS_BY_NAME = tuple(name for name, number in SWIZZLES.items() if number in (0, *SPANS))


def _wide() -> Iterator[BoxCase]:
    for swizzle, (kind, (_, size)), width in product(SWIZZLES, DATA_TYPES.items(), WIDTHS):
        rows = 12 if width > 128 else 17
        for base in BASES if kind.startswith("UINT") else BASES[1:2]:
            yield _case(kind, (width // size, rows), swizzle, base)


def _deep() -> Iterator[BoxCase]:
    for swizzle, box, base in product(SPANS_BY_NAME, BOXES, BASES[:2]):
        yield _case("UINT16", box, swizzle, base)


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
