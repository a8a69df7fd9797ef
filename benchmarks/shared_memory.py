"""What fits of shared-memory layouts cost: python benchmarks/shared_memory.py [REPEATS], medians within this run.

- a fit of a table of 4,096 elements, of each kind; target: 20 ms
- its names, and reading the same table from a print-out
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tcprobe.fit.swizzle import fit_address
from tcprobe.layout.address import AddressMap
from tcprobe.layout.address_files import read_address_map
from tcprobe.layout.swizzle import Swizzle
from tcprobe.references.shared_memory.catalogue import Options, names_of, tabulate

TARGET = 20.0  # ms


def table(extent: tuple[int, int], offset: Callable[..., np.ndarray]) -> AddressMap:
    first, second = (axis.ravel() for axis in np.indices(extent))
    return AddressMap.of(first, second, offset(first, second))


def named(name: str, extent: tuple[int, int], stride: int | None = None) -> AddressMap:
    offsets = tabulate(name, extent, Options(stride=stride)).offsets
    return table(extent, lambda a, b: offsets[a, b])


TABLES = {
    "affine, 64 x 64": table((64, 64), lambda a, b: a * 72 + b),
    "swizzle, 64 x 64": table((64, 64), lambda a, b: Swizzle(3, 3, 3)(a * 64 + b)),
    "swizzle, S < 0": table((64, 64), lambda a, b: Swizzle(2, 3, -5)(a * 64 + b)),
    "swizzle, CUTLASS": named("TensorOpMultiplicandCrosswise<16,32>", (32, 128)),
    "coordinate, pitch 96": named("TensorOpMultiplicandCrosswise<16,32>", (64, 64), 96),
    "two swizzles": named("VoltaTensorOpMultiplicandCrosswise<16,32>", (64, 64)),
    "none": table((64, 64), lambda a, b: a * b),
}


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def main(repeats: int) -> None:
    for what, address in TABLES.items():
        fresh = lambda a=address: fit_address(  # noqa: E731, what a map keeps for itself is made again
            AddressMap(a.first, a.second, a.offsets, a.low, a.high)
        )
        cost = milliseconds(fresh, repeats)
        found = fit_address(address)
        names = milliseconds(lambda a=address, f=found: names_of(a, f) if f else [], repeats)
        kind = found.kind if found else "no layout"
        over = "" if cost <= TARGET else "  OVER"
        print(f"{what:<24}{address.cells:>6} elements  {kind:<11} fit {cost:7.2f} ms{over}  names {names:7.2f} ms")
    cells = [f"({k % 64}, {k // 64})" for k in range(4096)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "printed"
        path.write_text("\n".join("|".join(cells[start : start + 16]) for start in range(0, 4096, 16)))
        taken = milliseconds(lambda: read_address_map(path), repeats)
        print(f"{'reading a print-out':<24}{4096:>6} elements{taken:>24.2f} ms")
    print(f"target of a fit: {TARGET:g} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
