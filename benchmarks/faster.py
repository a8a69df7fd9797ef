"""Three kernels of others, made faster by what `tcprobe ablate` says: python benchmarks/faster.py --out faster.jsonl

    weights     a multiply by weights of 4 bits in Triton: converted by I2F, then by or-ing a constant
    attention   Triton's tutorial: exp of scaled scores, then exp2 with the scale in one multiply-add
    tile_gemm   an introduction's GEMM in CUDA: rows of 64 bytes one behind the other, then swizzled

Of each, both versions are ablated and their results compared. Lines of JSON: what the first version loses most to,
cycles of a round of both, and the largest difference of results. --build needs no GPU. Needs nvcc, Triton, CuPy and a
GPU.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ablations
import json_lines
import numpy as np

from tcprobe.loops.ablate import ablate
from tcprobe.loops.bench import Gpu
from tcprobe.loops.launch import launch_of
from tcprobe.loops.loop import main_loop
from tcprobe.loops.patch import patches
from tcprobe.sass.kernel import Kernel

HERE = Path(__file__).parent
WARPS, STAGES = 4, 3  # of Triton's
LAUNCH = """import numpy as np

rng = np.random.default_rng(3)


def f16(*shape):
    return (rng.standard_normal(shape) / 8).astype(np.float16)


def launch(kernel):
    return 1, {threads}, {shared}, {arguments}
"""


class Pair(NamedTuple):
    """A kernel in two versions: `make(better, folder)` gives its machine code and launch file; argument `out` has its
    results, of this type.
    """

    name: str
    change: str
    make: Callable[[bool, Path], tuple[bytes, str]]
    out: int
    kind: type


def of_triton(name: str, types: str, sizes: dict, arguments: str) -> tuple[bytes, str]:
    """A kernel of faster_kernels.py."""
    import faster_kernels
    import triton_kernels

    made = triton_kernels.compiled(triton_kernels.Build(getattr(faster_kernels, name), types, sizes, WARPS, STAGES), 90)
    code, shared = made.asm["cubin"], made.metadata.shared
    places = ablations.kernel_of(code).code.parameters.places
    added = ", None" * (len(places) - len(types.split()))  # Triton's scratch memory
    return code, LAUNCH.format(threads=32 * WARPS, shared=shared, arguments=f"[{arguments}{added}]")


def weights(better: bool, _: Path) -> tuple[bytes, str]:
    m, n, k = 64, 128, 8192
    given = f"f16({m}, {k}), rng.integers(-2**31, 2**31, ({k // 8}, {n}), np.int32), np.ones({n}, np.float16), "
    sizes = {"block_m": m, "block_n": n, "block_k": 64, "better": int(better)}
    given += f"np.zeros(({m}, {n}), np.float16), {m}, {n}, {k}"
    return of_triton("weights", "*fp16 *i32 *fp16 *fp16 i32 i32 i32", sizes, given)


def attention(better: bool, _: Path) -> tuple[bytes, str]:
    keys, d, m = 8192, 64, 128
    scale = (math.log2(math.e) if better else 1.0) / math.sqrt(d)
    given = f"f16({m}, {d}), f16({keys}, {d}), f16({keys}, {d}), np.zeros(({m}, {d}), np.float16), {scale!r}, {keys}"
    sizes = {"block_m": m, "block_n": 64, "d": d, "better": int(better)}
    return of_triton("attention", "*fp16 *fp16 *fp16 *fp16 fp32 i32", sizes, given)


def tile_gemm(better: bool, folder: Path) -> tuple[bytes, str]:
    k = 8192
    code = ablations.compiled((HERE / "tile_gemm.cu").read_text(), folder, "sm_90", ("-DSWIZZLED",) if better else ())
    given = f"[f16(128, {k}), f16(128, {k}), np.zeros((128, 128), np.float32), {k}]"
    return code, LAUNCH.format(threads=128, shared=0, arguments=given)


PAIRS = (
    Pair("tile_gemm", "rows swizzled", tile_gemm, 2, np.float32),
    Pair("weights", "or instead of I2F", weights, 3, np.float16),
    Pair("attention", "exp2, the scale in a multiply-add", attention, 3, np.float16),
)


def results(code: bytes, kernel: Kernel, launch: Path, pair: Pair) -> Any:
    """What a launch writes."""
    gpu, sizes = Gpu("sm_90"), [size for _, size in kernel.code.parameters.places]
    gpu.prepare(launch_of(launch, kernel.name, sizes))
    gpu.lap(gpu.load(code, kernel.name))
    held = gpu.arrays[pair.out]
    return held.get().view(pair.kind).astype(np.float64)


def measured(pair: Pair, folder: Path, build: bool) -> dict:
    """Both versions."""
    answer: dict[str, Any] = {"kernel": pair.name, "change": pair.change}
    written = []
    for version, better in (("before", False), ("after", True)):
        code, text = pair.make(better, folder)
        path = folder / f"{pair.name}_{version}.py"
        path.write_text(text)
        kernel = ablations.kernel_of(code)
        loop = main_loop(kernel)
        if build:
            answer[version] = {p.name: f"{len(p.off)} of {p.all}" for p in patches(loop)}
            continue
        found = ablate(code, loop, path)
        answer[version] = found.to_json()
        if not better:
            answer["largest"] = found.best and [found.best.name, round(found.saves(found.best), 1)]
        written.append(results(code, kernel, path, pair))
    if not build:
        answer["apart"] = float(np.abs(written[0] - written[1]).max())
        answer["of"] = float(np.abs(written[0]).max())
        total = [answer[v]["cycles"] * answer[v]["rounds"] for v in ("before", "after")]
        answer["ratio"] = round(total[0] / total[1], 3)
    return answer


def main() -> int:
    parser = ablations.options(__doc__)
    parser.add_argument("--build", action="store_true")
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    done = {row["kernel"] for row in json_lines.read(asked.out)}
    for pair in PAIRS:
        if pair.name in done or asked.only not in pair.name or time.monotonic() > end:
            continue
        try:
            with tempfile.TemporaryDirectory() as name:
                answer = measured(pair, Path(name), asked.build)
        except Exception as error:  # a line, not the end
            print(f"{pair.name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        print(json.dumps(answer), flush=True)
        if not asked.build:
            json_lines.add(asked.out, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
