"""What bounds the kernel of `examples/w4a16.py`: its cycles, those of what is left without parts, and of cuBLAS on f16.

    python benchmarks/w4a16_bounds.py 4096 4096 4096    # m, n and k, multiples of the tile

Needs PyTorch, nvcc and a GPU. Cycles are those that the SMs count. What a kernel without parts computes is no product.
The last line is JSON.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch
from on_gpu import Clock, Module, cubin, launch, multiply_adds, say

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import w4a16

GROUP = 128
NEVER = "{ .reg .pred p; .reg .u32 n; mov.u32 n, %%ntid.x; setp.eq.u32 p, n, 1; @p "  # blocks have more threads than 1
SCALED = "W::scaled(made[r], factors[j][(2 * w + r / W::REGISTERS) * W::GROUPS / W::STEPS][0])"


def without(pattern: str, instead: str) -> Callable[[str], str]:
    """What takes a pattern out of a source; RuntimeError where it is not there."""

    def taken(text: str) -> str:
        found, count = re.subn(pattern, instead, text, flags=re.DOTALL)
        if not count:
            raise RuntimeError(f"the kernel has no {pattern}")
        return found

    return taken


SCALES = without(re.escape(SCALED), "made[r]")
CONVERSION = without(r"W::convert\(words\[j\]\[w\], +made\);", "for (unsigned& one : made) one = words[j][w];")
# of a tile's fragments of A only those of its first two k steps are loaded: the loop over words is unrolled
FRAGMENTS = without(
    r"(#pragma unroll\s+for \(int w = 0; w < W::WORDS[^\n]*\n\s*)unsigned x\[2\]\[DOWN\]\[4\], (.*?)(A::load_k_issue)",
    r"unsigned x[2][DOWN][4];\n\1unsigned \2if (w == 0) \3",
)
WORDS = without(
    r'asm volatile\("(ld\.shared[^;]*;)"(\s*): ([^:]*):', rf'asm volatile("{NEVER}\1 }}"\2: \3:'
)  # predicated away
COPIES = without(r'asm volatile\("cp\.async\.cg[^;]*;[^;]*;', ";")
BARRIERS = without(r"__syncthreads\(\);", "")
WAYS = {
    "whole": (),
    "without scales": (SCALES,),
    "without conversion and scales": (SCALES, CONVERSION),
    "with a quarter of ldmatrix": (FRAGMENTS,),
    "without loads of words": (WORDS,),
    "without copies": (COPIES,),
    "without barriers": (BARRIERS,),
    "multiplies, conversion, scales, a quarter of ldmatrix": (FRAGMENTS, WORDS, COPIES, BARRIERS),
    "multiplies, a quarter of ldmatrix": (SCALES, CONVERSION, FRAGMENTS, WORDS, COPIES, BARRIERS),
}


def source(asked: w4a16.Asked, parts: tuple[Callable[[str], str], ...]) -> str:
    """The kernel without parts."""
    text = w4a16.source(asked)
    for part in parts:
        text = part(text)
    return text


def prepared(asked: w4a16.Asked, code: bytes, size: tuple[int, int, int]) -> Callable[[], None]:
    """What launches one on matrices of a size."""
    m, n, k = size
    held = (
        torch.randn(m, k, device="cuda").half(),
        torch.randint(0, 1 << 31, (n * k // 8,), device="cuda").int(),
        torch.full((k // GROUP, n), 0.01, device="cuda").half(),
        torch.zeros(1, device="cuda"),
        torch.empty(m, n, device="cuda").half(),
        torch.zeros(1, device="cuda"),
    )
    arguments = [*(ctypes.c_void_p(one.data_ptr()) for one in held), ctypes.c_int(n), ctypes.c_int(k)]
    shared = w4a16.shared_bytes(asked)
    grid, block = (m // w4a16.M, n // w4a16.N, 1), (32 * w4a16.WARPS, 1, 1)
    function = Module(code).function("w4a16", shared)

    def call() -> None:
        _ = held
        launch(function, grid, block, shared, arguments)

    return call


def main(arguments: list[str]) -> int:
    """Cycles of all."""
    if len(arguments) != 3:
        print(__doc__)
        return 2
    m, n, k = size = tuple(map(int, arguments))
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    asked = w4a16.Asked("u4", GROUP, "sm_80")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clock = Clock(folder)
        with ThreadPoolExecutor(16) as pool:
            made = [
                pool.submit(cubin, source(asked, parts), folder / f"way{number}", "")
                for number, parts in enumerate(WAYS.values())
            ]
        calls = {way: prepared(asked, one.result(), size) for way, one in zip(WAYS, made, strict=True)}
        calls["cuBLAS"] = partial(
            torch.matmul, torch.randn(m, k, device="cuda").half(), torch.randn(k, n, device="cuda").half()
        )
        answers = []
        for way, call in calls.items():
            cycles = clock.cycles(call)
            answers.append(say({"way": way, "cycles": round(cycles), "rate": round(multiply_adds(size, cycles))}))
    print(json.dumps(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
