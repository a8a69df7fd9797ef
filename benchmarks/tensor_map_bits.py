"""What the driver writes into a CUtensorMap, beside our bits of it: python benchmarks/tensor_map_bits.py [N] [-o FILE]

Encodes N (20,000) random maps, tiled and im2col, of all types and modes that the driver takes, and says how many differ
from `tensor_map_bits.encode`. With -o the first 400 of each kind go to a CSV, which tests hold. It needs libcuda.
"""

from __future__ import annotations

import csv
import ctypes
import random
import sys
from pathlib import Path

from tcprobe.references.shared_memory.tensor_map import SIZES
from tcprobe.references.shared_memory.tensor_map_bits import BYTES, TYPES, MapFields, encode

SPAN = {0: 256, 1: 32, 2: 64, 3: 128}
CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
KEPT = 400


def random_map(rng: random.Random, im2col: bool) -> MapFields:
    """One that the driver mostly takes."""
    kind, rank = rng.randrange(len(TYPES)), rng.randint(3 if im2col else 1, 5)
    interleave, swizzle = rng.choice((0, 0, 0, 1, 2)), rng.randrange(4)
    rank = max(rank, 3) if interleave else rank
    dims = tuple(rng.randrange(1, 1 << rng.choice((3, 8, 16, 32))) for _ in range(rank))
    align = 32 if interleave == 2 else 16
    strides = tuple(
        min(rng.randrange(1, 1 << rng.choice((4, 12, 24, 35))) * align, (1 << 40) - align) for _ in dims[1:]
    )
    box = [rng.randint(1, rng.choice((8, 32, 256))) for _ in dims]
    if not interleave:
        whole = max(1, 16 // SIZES[kind])
        box[0] = max(whole, rng.randint(1, max(1, SPAN[swizzle] // SIZES[kind])) // whole * whole)
    steps = tuple(1 if rng.random() < 0.6 else rng.randint(1, 8) for _ in dims)
    corners = None
    if im2col:
        low, high = CORNERS[rank]
        corners = tuple(tuple(rng.randint(low, high) for _ in dims[2:]) for _ in range(2))
        box = [box[0], rng.randint(1, rng.choice((32, 1024)))]
    address = rng.randrange(1 << rng.choice((20, 33, 40, 47))) // 256 * 256
    modes = interleave, swizzle, rng.randrange(4), rng.randrange(2)
    return MapFields(kind, dims, strides, tuple(box), steps, *modes, address, corners)


def by_driver(one: MapFields) -> bytes | None:
    """The bytes that the driver writes; None for a map that it refuses."""
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0
    room = (ctypes.c_uint8 * (2 * BYTES))()
    place = -(-ctypes.addressof(room) // BYTES) * BYTES
    rank = len(one.dims)

    def array(kind, values):
        return (kind * max(1, len(values)))(*values)

    given = [ctypes.c_void_p(place), one.type, rank, ctypes.c_void_p(one.address)]
    given += [array(ctypes.c_uint64, one.dims), array(ctypes.c_uint64, one.strides)]
    modes = one.interleave, one.swizzle, one.promotion, one.fill
    if one.corners is None:
        sides = array(ctypes.c_uint32, one.box), array(ctypes.c_uint32, one.steps)
        code = cuda.cuTensorMapEncodeTiled(*given, *sides, *modes)
    else:
        corners = [array(ctypes.c_int, corner) for corner in one.corners]
        code = cuda.cuTensorMapEncodeIm2col(*given, *corners, *one.box, array(ctypes.c_uint32, one.steps), *modes)
    return ctypes.string_at(place, BYTES) if code == 0 else None


def row_of(one: MapFields, raw: bytes) -> list[object]:
    """A row of the CSV."""
    lists = (one.dims, one.strides, one.box, one.steps, *(one.corners or ((), ())))
    modes = one.type, one.interleave, one.swizzle, one.promotion, one.fill, one.address
    return [*modes, *(" ".join(map(str, part)) for part in lists), raw.hex()]


def read_row(row: list[str]) -> tuple[MapFields, bytes]:
    """A map and its bytes."""
    kind, *modes, address = map(int, row[:6])
    dims, strides, box, steps, *corners = (tuple(map(int, part.split())) for part in row[6:12])
    return MapFields(
        kind, dims, strides, box, steps, *modes, address, tuple(corners) if corners[0] else None
    ), bytes.fromhex(row[12])


def tried(count: int, seed: int = 1) -> tuple[list[tuple[MapFields, bytes]], int]:
    """Maps that the driver took, with its bytes, and how many of `count` it refused."""
    rng, found, refused = random.Random(seed), [], 0
    for number in range(count):
        one = random_map(rng, number % 4 == 0)
        raw = by_driver(one)
        refused += raw is None
        found += [(one, raw)] if raw else []
    return found, refused


def main() -> None:
    """Measure, compare, say."""
    words = [word for word in sys.argv[1:] if word.isdigit()]
    found, refused = tried(int(words[0]) if words else 20_000)
    different = sum(encode(one) != raw for one, raw in found)
    kinds = [sum((one.corners is not None) == im2col for one, _ in found) for im2col in (False, True)]
    print(f"{kinds[0]} tiled and {kinds[1]} im2col maps, {refused} refused: {different} differ from our bits")
    if "-o" in sys.argv:
        rows = [pair for im2col in (False, True) for pair in [p for p in found if bool(p[0].corners) == im2col][:KEPT]]
        with Path(sys.argv[sys.argv.index("-o") + 1]).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(row_of(one, raw) for one, raw in rows)
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
