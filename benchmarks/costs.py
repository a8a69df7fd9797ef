"""Costs of one run beside those of another, and well-known forms beside what papers state.

    python benchmarks/costs.py RESULTS [OTHER]

With two folders: how many numbers differ by more than 2 % (at most 1 % of them on two machines of one kind), and
the ones that differ most. Then the table of well-known forms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tcprobe.ask.cost import KIND, InstructionCost, costs, stated_numbers
from tcprobe.ask.cost_words import words
from tcprobe.isa.arch import ARCHS
from tcprobe.store.choose import alone
from tcprobe.store.results import Results

APART = 0.02
SHOWN = 30
KNOWN = (
    "mma.m16n8k8.row.col.f??.f16*",
    "mma.m16n8k16.row.col.f??.*f16*",
    "mma.m16n8k?.row.col.f32.tf32*",
    "mma.m*.f64*",
    "mma.m16n8k32.row.col.s32.s8.s8*",
    "mma.m16n8k32.row.col.f32.e4m3.e4m3*",
    "mma.sp.m16n8k32.row.col.f32.f16*",
    "wmma.mma.row.col.m16n16k16.f32.f32",
    "wgmma.mma_async.m64n8k16.f32.bf16*",
    "wgmma.mma_async.m64n64k16.f32.bf16*",
    "wgmma.mma_async.m64n256k16.f32.bf16*",
    "wgmma.mma_async.sp.m64n256k32.f32.bf16*",
    "ldmatrix*",
    "stmatrix*",
    "movmatrix*",
    "ld.shared*",
    "st.shared*",
    "shfl*",
    "cp.async*",
    "mma.m8n8k4.row.col.f32.f16.f16.f32",
)
IGNORED = ("spread", "mhz", "random", "bytes", "warps", "chains", "passes", "swizzle", "warpgroups", "in_flight")


def numbers(body: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every cycle of a body by where it stands."""
    if isinstance(body, dict):
        for name, value in body.items():
            if name not in IGNORED:
                yield from numbers(value, f"{path}.{name}")
    elif isinstance(body, list):
        for number, value in enumerate(body):
            yield from numbers(value, f"{path}[{number}]")
    elif isinstance(body, float):
        yield path, body


def found(folder: str) -> dict[str, InstructionCost]:
    """All costs of a folder, by arch and id."""
    layers = alone(Results(Path(folder)))
    archs = [row.name for row in ARCHS if layers.findings(KIND, row.name)]
    return {f"{cost.arch} {cost.id}": cost for name in archs for cost in costs([], name, layers)}


def compare(first: dict[str, InstructionCost], second: dict[str, InstructionCost]) -> None:
    """How many numbers differ, and which."""
    apart, count = [], 0
    for key in first.keys() & second.keys():
        one, other = (dict(numbers(msgspec.to_builtins(side[key].body))) for side in (first, second))
        for path in one.keys() & other.keys():
            count += 1
            apart.append((abs(one[path] - other[path]) / max(one[path], other[path], 1e-9), key, path, one, other))
    far = sorted((a for a in apart if a[0] > APART), key=lambda a: -a[0])
    print(f"{len(first)} and {len(second)} instructions, {len(first.keys() ^ second.keys())} in one only")
    print(f"{len(far)} of {count} numbers differ by more than {APART:.0%}: {len(far) / max(count, 1):.2%}")
    for share, key, path, one, other in far[:SHOWN]:
        print(f"  {share:6.1%} {key}{path}: {one[path]:g} and {other[path]:g}")


def main(folders: list[str]) -> None:
    """Compare, then show."""
    every = [found(folder) for folder in folders]
    if len(every) > 1:
        compare(*every[:2])
    layers = alone(Results(Path(folders[0])))
    for pattern in KNOWN:
        try:
            shown = costs([pattern], None, layers)
        except Exception as error:  # a form that the arch lacks
            print(f"{pattern}: {error}")
            continue
        for cost in shown:
            print("\n".join(words(cost)))
    for one in stated_numbers(list(every[0].values())):
        print(f"{'agrees ' if one.agrees else 'DIFFERS'} {one.id} {one.row.number}: {one.measured:g}, {one.row.words}")


if __name__ == "__main__":
    main(sys.argv[1:])
