"""The arguments of cuTensorMapEncodeTiled, and what the driver checks of them, each rule with its source.

>>> tensor_map = packed_map("FLOAT16", (64, 128), (64, 8), swizzle="128B")
>>> tensor_map.strides, tensor_map.row_bytes, broken_rules(tensor_map)
((128,), 128, [])
>>> [rule.argument for rule in broken_rules(tensor_map._replace(box=(72, 8)))]
['swizzle']

Dimensions are inner first, as in the driver. Rules with source MANUAL are stated by the CUDA driver API, section on
tensor map objects; MEASURED ones are not, but an H200's driver follows them. `tcprobe run --family tma` varies the
arguments one at a time and compares every answer of the driver with these rules.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from tcprobe.isa.tensor_map import (
    DATA_TYPES,
    EVERY_SPAN,
    FILLS,
    INTERLEAVES,
    PACKED,
    PACKED_BITS,
    PADDED,
    PROMOTIONS,
    SINCE,
    SPANS,
    SWIZZLES,
)

FLOATS = frozenset(number for name, (number, _) in DATA_TYPES.items() if "FLOAT" in name)
ROUNDED = frozenset((11, 12))  # types whose elements a load rounds to tf32, as measured on an H200
SIZES = dict(DATA_TYPES.values())
MOST_RANK, MOST_BOX, MOST_STEP, MOST_DIM, MOST_STRIDE = 5, 256, 8, 1 << 32, 1 << 40
MOST_BYTES = 228 << 10  # of a box
MANUAL, MEASURED = "CUDA driver API", "measured"


class TensorMap(NamedTuple):
    """`dims`, `box` and `steps` of each dimension, inner first; `strides` in bytes, of all but the inner one.

    `address` is the tensor's, `place` the map's own; only their alignment matters.
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
    place: int = 0

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """Bytes of an element; 1 if the type is unknown."""
        return SIZES.get(self.type, 1)

    @property
    def row_bytes(self) -> int:
        """Bytes of a box along the inner dimension."""
        return self.box[0] * self.bits // 8 if self.box else 0

    @property
    def bits(self) -> int:
        """Bits of an element in shared memory, including its share of padding."""
        return PACKED_BITS.get(self.type, (0, 8 * self.size))[1]

    @property
    def rows(self) -> int:
        """Rows of a box: the product of all other dimensions."""
        return prod(self.box[1:])

    @property
    def bytes(self) -> int:
        """Bytes of a box."""
        return self.row_bytes * self.rows


class MapRule(NamedTuple):
    """What the driver refuses; `name` begins with the argument at fault.

    `checked`: whether the driver really refuses it. The rule holds for arch numbers from `since` to below `until`.
    """

    name: str
    words: str
    source: str
    breaks: Callable[[TensorMap], bool]
    checked: bool = True
    since: int = 90
    until: int = 1000

    @property
    def argument(self) -> str:
        """The argument at fault."""
        return self.name.partition(":")[0]


RULES = (
    MapRule("tensorMap: alignment", "its address must be a multiple of 64", MANUAL, lambda m: m.place % 64 != 0, False),
    MapRule(
        "tensorDataType: known",
        "must be a type of 1, 2, 4 or 8 bytes; packed types of 4 and 6 bits need sm_100",
        MANUAL,
        lambda m: m.type not in SIZES,
        until=SINCE,
    ),
    MapRule(
        "tensorDataType: known to sm_100",
        "must be a type of 1, 2, 4 or 8 bytes, or packed of 4 or 6 bits",
        MANUAL,
        lambda m: m.type not in SIZES and m.type not in PACKED.values(),
        since=SINCE,
    ),
    MapRule("tensorRank: 1 to 5", "must be 1 to 5", MANUAL, lambda m: not 1 <= m.rank <= MOST_RANK),
    MapRule(
        "tensorRank: interleave",
        "must be 3 or more with interleave",
        MANUAL,
        lambda m: m.interleave != 0 and m.rank < 3,
    ),
    MapRule("globalAddress: 16", "must be a multiple of 16", MANUAL, lambda m: m.address % 16 != 0),
    MapRule(
        "globalAddress: 32",
        "must be a multiple of 32 with interleave 32B",
        MANUAL,
        lambda m: m.interleave == 2 and m.address % 32 != 0,
    ),
    MapRule("globalDim: range", "must be 1 to 2**32", MANUAL, lambda m: not all(1 <= n <= MOST_DIM for n in m.dims)),
    MapRule(
        "globalStrides: 16",
        "must be multiples of 16 below 2**40",
        MANUAL,
        lambda m: any(n % 16 or n >= MOST_STRIDE for n in m.strides),
    ),
    MapRule(
        "globalStrides: 32",
        "must be multiples of 32 with interleave 32B",
        MANUAL,
        lambda m: m.interleave == 2 and any(n % 32 for n in m.strides),
    ),
    MapRule("boxDim: range", "must be 1 to 256", MANUAL, lambda m: not all(1 <= n <= MOST_BOX for n in m.box)),
    MapRule(
        "boxDim: 16 bytes",
        "a row of the box must be a multiple of 16 bytes without interleave",
        MANUAL,
        lambda m: m.interleave == 0 and m.row_bytes % 16 != 0,
    ),
    MapRule(
        "boxDim: 16 bytes, interleaved",
        "a row of the box must be a multiple of 16 bytes with interleave too",
        MEASURED,
        lambda m: m.interleave != 0 and m.row_bytes % 16 != 0,
    ),
    MapRule(
        "boxDim: bytes",
        f"the box must have at most {MOST_BYTES} bytes, the shared memory of an SM",
        MEASURED,
        lambda m: m.bytes > MOST_BYTES,
    ),
    MapRule("elementStrides: range", "must be 1 to 8", MANUAL, lambda m: not all(1 <= n <= MOST_STEP for n in m.steps)),
    MapRule(
        "interleave: known", "must be NONE, 16B or 32B", MANUAL, lambda m: m.interleave not in INTERLEAVES.values()
    ),
    MapRule(
        "swizzle: known",
        "must be NONE, 32B, 64B or 128B; modes with other atoms need sm_100",
        MANUAL,
        lambda m: m.swizzle not in (0, *SPANS),
        until=SINCE,
    ),
    MapRule(
        "swizzle: known to sm_100",
        "must be NONE, 32B, 64B, 128B or 128B with other atoms",
        MANUAL,
        lambda m: m.swizzle not in (0, *EVERY_SPAN),
        since=SINCE,
    ),
    MapRule(
        "swizzle: span with other atoms",
        "a row of the box must not be wider than 128 bytes",
        MANUAL,
        lambda m: m.interleave == 0 and m.swizzle not in SPANS and m.row_bytes > EVERY_SPAN.get(m.swizzle, m.row_bytes),
        since=SINCE,
    ),
    MapRule(
        "swizzle: padded types",
        "must be NONE, 128B or 128B_ATOM_32B with 16U4_ALIGN16B (loads only) and "
        "16U6_ALIGN16B, and there, for stores only, 128B_ATOM_64B",
        MANUAL,
        lambda m: m.type in PADDED and m.swizzle not in ((0, 3, 4, 6) if m.type == PADDED[1] else (0, 3, 4)),
        since=SINCE,
    ),
    MapRule(
        "globalAddress: padded types",
        "must be a multiple of 32 with 16U4_ALIGN16B and 16U6_ALIGN16B",
        MANUAL,
        lambda m: m.type in PADDED and m.address % 32 != 0,
        since=SINCE,
    ),
    MapRule(
        "globalDim: padded types",
        "the inner one must be a multiple of 128 with 16U4_ALIGN16B and 16U6_ALIGN16B",
        MANUAL,
        lambda m: m.type in PADDED and m.dims[0] % 128 != 0,
        since=SINCE,
    ),
    MapRule(
        "globalDim: 16U4_ALIGN8B",
        "the inner one must be a multiple of 2 with 16U4_ALIGN8B",
        MANUAL,
        lambda m: m.type == PACKED["16U4_ALIGN8B"] and m.dims[0] % 2 != 0,
        since=SINCE,
    ),
    MapRule(
        "globalStrides: padded types",
        "must be multiples of 32 with 16U4_ALIGN16B and 16U6_ALIGN16B",
        MANUAL,
        lambda m: m.type in PADDED and any(n % 32 for n in m.strides),
        since=SINCE,
    ),
    MapRule(
        "boxDim: padded types",
        "the inner one must be 128 with 16U4_ALIGN16B and 16U6_ALIGN16B",
        MANUAL,
        lambda m: m.type in PADDED and m.box[:1] != (128,),
        since=SINCE,
    ),
    MapRule(
        "interleave: 16U6_ALIGN16B",
        "must be NONE with 16U6_ALIGN16B",
        MANUAL,
        lambda m: m.type == PADDED[1] and m.interleave != 0,
        since=SINCE,
    ),
    MapRule(
        "swizzle: interleave",
        "must be 32B with interleave 32B",
        MANUAL,
        lambda m: m.interleave == 2 and m.swizzle != 1,
        False,
    ),
    MapRule(
        "swizzle: span",
        "a row of the box must not be wider than the span: 32, 64 or 128 bytes",
        MANUAL,
        lambda m: m.interleave == 0 and m.row_bytes > SPANS.get(m.swizzle, m.row_bytes),
    ),
    MapRule(
        "l2Promotion: known",
        "must be NONE, L2_64B, L2_128B or L2_256B",
        MANUAL,
        lambda m: m.promotion not in PROMOTIONS.values(),
    ),
    MapRule("oobFill: known", "must be NONE or NAN_REQUEST_ZERO_FMA", MANUAL, lambda m: m.fill not in FILLS.values()),
    MapRule(
        "oobFill: floats",
        "NAN_REQUEST_ZERO_FMA is for floating-point types",
        MANUAL,
        lambda m: m.fill == 1 and m.type not in FLOATS,
    ),
)


def rules_on(number: int) -> list[MapRule]:
    """The rules for an arch, by its number."""
    return [rule for rule in RULES if rule.since <= number < rule.until]


def broken_rules(tensor_map: TensorMap, number: int = 90) -> list[MapRule]:
    """The rules of an arch that a map breaks; if the driver checks none of these, it accepts the map."""
    return [rule for rule in rules_on(number) if rule.breaks(tensor_map)]


def refusing_rules(tensor_map: TensorMap) -> list[MapRule]:
    """The broken rules that the driver checks, on sm_90; it refuses the map if there are any."""
    return [rule for rule in broken_rules(tensor_map) if rule.checked]


def packed_map(
    kind: str, dims: tuple[int, ...], box: tuple[int, ...], swizzle: str = "NONE", padding: int = 0
) -> TensorMap:
    """A map of a tensor without gaps except `padding` bytes after each row; KeyError for an unknown type or mode."""
    number, size = DATA_TYPES[kind]
    strides = tuple((dims[0] * size + padding) * prod(dims[1:n]) for n in range(1, len(dims)))
    return TensorMap(number, dims, strides, box, (1,) * len(dims), swizzle=SWIZZLES[swizzle])
