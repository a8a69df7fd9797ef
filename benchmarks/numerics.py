"""The model of arithmetic: how fast it is, what promotion buys, and when D changes.

    python benchmarks/numerics.py speed [SIZE]  # CPU seconds of a GEMM of SIZE x SIZE x SIZE (512), by form
    python benchmarks/numerics.py promotion     # error of fp8 by wgmma, sums of every n products added in f32
    python benchmarks/numerics.py changes       # how many of D's bits another order, k or split of k changes

By what was measured on sm_90. The last line is JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe import numerics
from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.parameters import types_of
from tcprobe.isa import names

SPEED = (
    "mma.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.m16n8k8.row.col.f32.tf32.tf32.f32",
    "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "wgmma.mma_async.m64n8k32.f32.e4m3.e4m3",
    "mma.m8n8k4.row.col.f64.f64.f64.f64",
    "mma.m16n8k32.row.col.s32.s8.s8.s32",
)
K16, K8 = SPEED[0], "mma.m16n8k8.row.col.f32.f16.f16.f32"
WGMMA, MMA = SPEED[4], SPEED[3]
LENGTH, SIDE = 4096, 32
EVERY = (4096, 1024, 512, 256, 128, 64, 32)
Matrix = NDArray[Any]


def drawn(form: str, shape: tuple[int, int], seed: int) -> Matrix:
    """Normally distributed numbers of a form's A; small whole ones of integers."""
    kind, rng = types_of(names.resolve(form).instruction).a, np.random.default_rng(seed)
    if kind not in FORMATS:
        return rng.integers(-9, 10, shape)
    return rng.normal(size=shape).astype(FORMATS[kind].numpy)


def zeros(form: str, shape: tuple[int, int]) -> Matrix:
    """A C of zeros."""
    kind = types_of(names.resolve(form).instruction).c
    return np.zeros(shape, FORMATS[kind].numpy if kind in FORMATS else np.int32)


def speed(side: int) -> dict[str, Any]:
    """CPU seconds of this process, which NumPy's matrix products alone share among cores."""
    found = {}
    for form in SPEED:
        a, b, c = drawn(form, (side, side), 1), drawn(form, (side, side), 2), zeros(form, (side, side))
        started = time.process_time()
        numerics.multiply(form, a, b, c)
        seconds = time.process_time() - started
        found[form] = {
            "seconds": round(seconds, 2),
            "million_multiply_adds_a_second": round(side**3 / seconds / 1e6, 1),
        }
        print(f"{form}: {side}^3 in {seconds:.1f} s, {side**3 / seconds / 1e6:.1f} million multiply-adds a second")
    return found


def promotion() -> dict[str, float]:
    """Relative error, root mean square, of 1,024 dot products."""
    found = {}
    for form, every in ((WGMMA, EVERY), (MMA, EVERY[:1])):
        a, b = drawn(form, (SIDE, LENGTH), 3), drawn(form, (LENGTH, SIDE), 4)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        for n in every:
            error = split(form, a, b, n).astype(np.float64) - exact
            size = float(np.sqrt((error**2).mean() / (exact**2).mean()))
            found[f"{form.split('.', maxsplit=1)[0]} {n}"] = size
            print(f"{form}: sums of {n} products added in f32, relative error {size:.1e}")
    return found


def split(form: str, a: Matrix, b: Matrix, every: int) -> Matrix:
    """D, sums of every so many products added one after another in D's type."""
    d, c = None, zeros(form, (len(a), b.shape[1]))
    for at in range(0, a.shape[1], every):
        part = numerics.multiply(form, a[:, at : at + every], b[at : at + every], c)
        d = part if d is None else d + part
    assert d is not None
    return d


def changes() -> dict[str, int]:
    """Of 1,024 dot products of 4,096 how many are other bits."""
    a, b = drawn(K16, (SIDE, LENGTH), 5), drawn(K16, (LENGTH, SIDE), 6)
    fp8 = drawn(MMA, (SIDE, LENGTH), 7), drawn(MMA, (LENGTH, SIDE), 8)
    one, last = split(K16, a, b, LENGTH), np.arange(LENGTH).reshape(-1, 16)
    within = last[:, ::-1].reshape(-1)
    pairs = {
        "k descending": (one, split(K16, a[:, ::-1], b[::-1], LENGTH)),
        "k descending inside each multiply": (one, split(K16, a[:, within], b[within], LENGTH)),
        "m16n8k8 in place of m16n8k16": (one, split(K8, a, b, LENGTH)),
        "k split in 2": (one, split(K16, a, b, LENGTH // 2)),
        "k split in 8": (one, split(K16, a, b, LENGTH // 8)),
        "e4m3 by wgmma in place of mma": (split(MMA, *fp8, LENGTH), split(WGMMA, *fp8, LENGTH)),
    }
    found = {name: int(np.count_nonzero(one != other)) for name, (one, other) in pairs.items()}
    for name, count in found.items():
        print(f"{name}: {count} of {SIDE * SIDE} other bits")
    return found


def main(words: list[str]) -> dict[str, Any]:
    """What was asked."""
    known: dict[str, Any] = {"promotion": promotion, "changes": changes}
    if words[:1] == ["speed"]:
        return speed(int(words[1]) if len(words) > 1 else 512)
    if len(words) != 1 or words[0] not in known:
        raise SystemExit(__doc__)
    answer: dict[str, Any] = known[words[0]]()
    return answer


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
