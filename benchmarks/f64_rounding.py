"""f64 multiplies with .rn, .rz, .rm, .rp beside chains of fma with the same rounding: python benchmarks/f64_rounding.py

Every mma of f64 and wmma m8n8k4, CASES times with random numbers, some of which cancel, overflow, or are subnormal: how
many results differ from the chain of fused multiply-adds from C on, k ascending, each rounded the same way, as the
GPU's own fma does it, in any bit (any NaN equals any other). Then how many differ from the chain that rounds to nearest
even: the modifier does something. Needs CuPy and a GPU of sm_90.
"""

from __future__ import annotations

import json
import sys

import cupy
import numpy as np

CASES = 20_000  # warps, each one multiply
ROUNDINGS = {"rn": "__fma_rn", "rz": "__fma_rz", "rm": "__fma_rd", "rp": "__fma_ru"}
SHAPES = {"m8n8k4": (8, 4), "m16n8k4": (16, 4), "m16n8k8": (16, 8), "m16n8k16": (16, 16)}
SOURCE = r"""
extern "C" __global__ void multiply(const double *a, const double *b, const double *c, double *d, double *chain) {
    const int lane = threadIdx.x, group = lane / 4, quad = lane % 4;
    a += blockIdx.x * M * K; b += blockIdx.x * K * 8; c += blockIdx.x * M * 8; d += blockIdx.x * M * 8;
    chain += blockIdx.x * M * 8;
    double x[M * K / 32], y[K / 4], z[M / 4];
    for (int i = 0; i < M * K / 32; i++) x[i] = a[(group + 8 * (i % (M / 8))) * K + quad + 4 * (i / (M / 8))];
    for (int i = 0; i < K / 4; i++) y[i] = b[(quad + 4 * i) * 8 + group];
    for (int i = 0; i < M / 4; i++) z[i] = c[(group + 8 * (i / 2)) * 8 + 2 * quad + i % 2];
    MULTIPLY
    for (int i = 0; i < M / 4; i++) {
        const int row = group + 8 * (i / 2), col = 2 * quad + i % 2;
        double sum = c[row * 8 + col];
        for (int k = 0; k < K; k++) sum = FMA(a[row * K + k], b[k * 8 + col], sum);
        chain[row * 8 + col] = sum;
        STORE
    }
}
"""


def source(shape: str, rounding: str, wmma: bool) -> str:
    """The kernel of a form; `wmma` loads and stores fragments itself."""
    m, k = SHAPES[shape]
    if wmma:
        asm = (
            "{ .reg .f64 p, q, u, v; wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {p}, [%0], 4; "
            "wmma.load.b.sync.aligned.row.m8n8k4.global.f64 {q}, [%1], 8; "
            "wmma.load.c.sync.aligned.row.m8n8k4.global.f64 {u, v}, [%2], 8; "
            f"wmma.mma.sync.aligned.row.row.m8n8k4.{rounding}.f64.f64.f64.f64 {{u, v}}, {{p}}, {{q}}, {{u, v}}; "
            "wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%3], {u, v}, 8; }"
        )
        multiply, store = f'asm volatile("{asm}" :: "l"(a), "l"(b), "l"(c), "l"(d) : "memory");', ""
    else:
        counts = (m // 4, m * k // 32, k // 4)
        starts = np.cumsum((0, *counts))
        lists = [
            "{" + ", ".join(f"%{n}" for n in range(start, start + n)) + "}"
            for start, n in zip(starts[:-1], counts, strict=True)
        ]
        named = f"mma.sync.aligned.{shape}.row.col.{rounding}.f64.f64.f64.f64"
        asm = f"{named} {lists[0]}, {lists[1]}, {lists[2]}, {lists[0]};"
        outs = ", ".join(f'"+d"(z[{i}])' for i in range(counts[0]))
        ins = ", ".join([f'"d"(x[{i}])' for i in range(counts[1])] + [f'"d"(y[{i}])' for i in range(counts[2])])
        multiply, store = f'asm volatile("{asm}" : {outs} : {ins});', "d[row * 8 + col] = z[i];"
    return f"#define M {m}\n#define K {k}\n#define FMA {ROUNDINGS[rounding]}\n" + SOURCE.replace(
        "MULTIPLY", multiply
    ).replace("STORE", store)


def numbers(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Random numbers of one case of each kind in turn: near one, of all magnitudes, subnormal, special."""
    near = random.standard_normal(shape)
    wide = random.integers(0, 1 << 64, shape, np.uint64).view(np.float64)
    small = np.ldexp(near, random.integers(-1080, -1000, shape))
    special = random.choice(np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324]), shape)
    kind = (np.arange(shape[0]) % 4)[:, None, None]
    return np.select([kind == 0, kind == 1, kind == 2], [near, wide, small], special)


def apart(one: np.ndarray, other: np.ndarray) -> int:
    """How many bit patterns differ, but for NaN."""
    return int(((one.view(np.uint64) != other.view(np.uint64)) & ~(np.isnan(one) & np.isnan(other))).sum())


def main() -> None:
    properties, found = cupy.cuda.runtime.getDeviceProperties(0), []
    forms = [*((shape, False) for shape in SHAPES), ("m8n8k4", True)]
    for shape, wmma in forms:
        m, k = SHAPES[shape]
        random = np.random.default_rng(k + m)
        host = [numbers(random, CASES, *size) for size in ((m, k), (k, 8), (m, 8))]
        host[1][::8] = 1 / np.where(host[1][::8] == 0, 1, host[1][::8])
        inputs = [cupy.asarray(one) for one in host]
        chains: dict[str, np.ndarray] = {}
        for rounding in ROUNDINGS:
            d, chain = (cupy.zeros((CASES, m, 8)) for _ in range(2))
            kernel = cupy.RawModule(code=source(shape, rounding, wmma), options=("-std=c++17",)).get_function(
                "multiply"
            )
            kernel((CASES,), (32,), (*inputs, d, chain))
            got, chains[rounding] = d.get(), chain.get()
            line = {
                "form": f"{'wmma' if wmma else 'mma'} {shape} f64 {rounding}",
                "device": properties["name"].decode(),
                "results": got.size,
                "apart_from_chain": apart(got, chains[rounding]),
                "apart_from_nearest": apart(got, chains["rn"]),
            }
            found.append(line)
            print(json.dumps(line))
    sys.exit(any(line["apart_from_chain"] for line in found))


if __name__ == "__main__":
    main()
