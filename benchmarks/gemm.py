"""The kernels of `tcprobe kernel gemm` on a GPU: exact products over odd shapes, then rates beside PyTorch's.

    python benchmarks/gemm.py check            # shapes, types, majors: elements that are wrong, writes outside D
    python benchmarks/gemm.py rate 4096 8192   # TFLOP/s of ours and theirs, alternately
    python benchmarks/gemm.py bounds 4096      # cycles of sm_80's, and without copies, fragments or barriers
    python benchmarks/gemm.py one sm_90 bf16 sm_80 s8   # a short launch of each, for compute-sanitizer

Needs PyTorch, nvcc and a GPU; kernels of archs before the GPU's are compiled for it and run on it too. Exit code 1: a
product is wrong. The last line is JSON.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from gemm_cases import BOUND, FORMS, OTHERS, RATED, SHAPES
from on_gpu import DTYPES, Clock, Matrix, Module, cubin, launch, multiply_adds, ok, say, timed

from tcprobe.isa.arch import arch
from tcprobe.kernel.gemm import GemmKernel, GemmOptions, gemm
from tcprobe.references.shared_memory.tensor_map import packed_map
from tcprobe.run import driver

# what a kernel does without: a pattern in its text, and what stands there instead
WITHOUT = {
    "copies": (r'asm volatile\("cp.async.cg[^;]*;[^;]*;', ""),
    # but for those of a tile's first k step
    "fragments": (r"const auto load = [^\n]*", r"\g<0> if (step > 0) return;"),
    "barriers": (r"__syncthreads\(\);", ""),
}
MOST = 1365  # multiply-adds of mma.sync a cycle an SM of sm_90


def compiled(kernel: GemmKernel, folder: Path) -> bytes:
    """The machine code for this GPU."""
    return cubin(kernel.source, folder / f"{kernel.name}_{abs(hash(kernel.source))}", "a" if kernel.maps else "")


class Loaded:
    """A kernel on the GPU."""

    def __init__(self, kernel: GemmKernel, code: bytes) -> None:
        self.kernel, self.options = kernel, kernel.gemm
        self.module = Module(code)
        self.function = self.module.function(kernel.name, kernel.shared_bytes)

    def prepared(self, a: Matrix, b: Matrix, d: Matrix, sizes: tuple[int, int, int]):
        """A function that launches it."""
        held = self._maps(a, b, d) if self.kernel.maps else [ctypes.c_void_p(x.start) for x in (a, b, d)]
        ends = [ctypes.c_longlong(x.ld) for x in (a, b, d)]
        whole = [ctypes.c_int(size) for size in sizes]
        stored = [ctypes.c_void_p(d.start), ends[2]]
        held += [*stored, *whole] if self.kernel.maps else [*whole, *ends]
        grid, block = self.kernel.grid(sizes[0], sizes[1]), self.kernel.block
        return partial(launch, self.function, grid, block, self.kernel.shared_bytes, held)

    def _maps(self, *matrices: Matrix) -> list[ctypes.Array]:
        found = []
        for matrix, box in zip(matrices, self.kernel.maps.values(), strict=False):
            kind, mode = box["data_type"].rpartition("_TYPE_")[2], box["swizzle"].rpartition("_SWIZZLE_")[2]
            made = packed_map(kind, (matrix.length, matrix.lines), tuple(box["box"]), mode)._replace(
                strides=(matrix.ld,)
            )
            code, raw = driver.encode_map(made, matrix.start)
            ok(code)
            held = (ctypes.c_byte * 192)()
            at = -ctypes.addressof(held) % 64
            ctypes.memmove(ctypes.addressof(held) + at, raw, 128)
            whole = (ctypes.c_byte * 128).from_buffer(held, at)
            found.append(whole)
        return found


def differing(loaded: Loaded, sizes: tuple[int, int, int], seed: int) -> tuple[int, int]:
    """(elements of D that are wrong, bytes written outside) of products of small integers."""
    (m, n, k), asked = sizes, loaded.options
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randint(-3, 4, shape, generator=generator) for shape in ((m, k), (k, n)))
    a_lines, b_lines = (a if asked.a == "row" else a.T), (b if asked.b == "row" else b.T)
    held = [Matrix(asked.type, *a_lines.shape), Matrix(asked.type, *b_lines.shape), Matrix(asked.out, m, n)]
    held[0].put(a_lines.cuda())
    held[1].put(b_lines.cuda())
    loaded.prepared(*held, sizes)()
    torch.cuda.synchronize()
    wanted = (a.double() @ b.double()).to(DTYPES[asked.out])
    return int((held[2].get().cpu() != wanted).sum()), held[2].outside()


def built(options: list[GemmOptions], folder: Path) -> list[Loaded]:
    """All kernels, compiled side by side."""
    return loaded(list(map(gemm, options)), folder)


def loaded(kernels: list[GemmKernel], folder: Path) -> list[Loaded]:
    """The same of kernels."""
    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(lambda kernel: compiled(kernel, folder), kernels))
    return [Loaded(kernel, code) for kernel, code in zip(kernels, codes, strict=True)]


def check(folder: Path) -> dict:
    """Products over shapes, types and majors."""
    options = [GemmOptions(target, kind, a=a, b=b) for target, kind, a, b in FORMS]
    options += OTHERS
    wrong = total = 0
    for number, loaded in enumerate(built(options, folder)):
        print(loaded.kernel.name, loaded.options.a, loaded.options.b, flush=True)
        for shape in SHAPES:
            bad, outside = differing(loaded, shape, number)
            total, wrong = total + 1, wrong + bool(bad or outside)
            if bad or outside:
                asked = loaded.options
                name = f"{loaded.kernel.name} {asked.a} {asked.b} {asked.out}"
                print(f"WRONG {name} {shape}: {bad} elements, {outside} outside")
    print(f"{total} products, {wrong} wrong")
    return {"products": total, "wrong": wrong}


def bounds(of: list[int], folder: Path) -> list[dict]:
    """Multiply-adds a cycle an SM of sm_80's kernels as they are, and of what is left of them without parts."""
    answers, wholes, clock = [], list(map(gemm, BOUND)), Clock(folder)
    ways = ["whole", *(f"without {name}" for name in WITHOUT)]
    all_ = loaded([one for whole in wholes for one in (whole, *without(whole))], folder)
    for number, (options, whole) in enumerate(zip(BOUND, wholes, strict=True)):
        here = all_[number * len(ways) : (number + 1) * len(ways)]
        for size in of:
            sizes = size, size, size
            held = [Matrix(kind, size, size, True) for kind in (options.type, options.type, whole.gemm.out)]
            for matrix in held[:2]:
                matrix.put(torch.randn(size, size, device="cuda"))
            found = {"kernel": whole.name, "warps": options.warps, "stages": options.stages, "size": size}
            for way, one in zip(ways, here, strict=True):
                found[way] = round(multiply_adds(sizes, clock.cycles(one.prepared(*held, sizes))))
            answers.append(say({**found, "of_most": round(found["whole"] / MOST, 3)}))
    return answers


def without(whole: GemmKernel) -> list[GemmKernel]:
    """The kernel without each of WITHOUT."""
    found = []
    for name, (pattern, instead) in WITHOUT.items():
        text, count = re.subn(pattern, instead, whole.source)
        if not count:
            raise RuntimeError(f"{whole.name} has no {name}")
        found.append(replace(whole, source=text))
    return found


def rate(sizes: list[int], folder: Path) -> list[dict]:
    """TFLOP/s beside PyTorch's."""
    answers, loads, clock = [], built(list(RATED), folder), Clock(folder)
    for size in sizes:
        for loaded in loads:
            kind, out = loaded.options.type, loaded.options.out
            values = [torch.randn(size, size, device="cuda") for _ in "ab"]
            a, b, d = Matrix(kind, size, size, True), Matrix(kind, size, size, True), Matrix(out, size, size, True)
            a.put(values[0])
            b.put(values[1])
            ours = loaded.prepared(a, b, d, (size, size, size))
            x, y, one = a.get(), b.get(), torch.ones((), device="cuda")
            theirs = partial(torch.matmul, x, y.T)
            if kind != "bf16":
                theirs = partial(torch._scaled_mm, x, y.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
            mine, other = timed([ours, theirs], 5)
            apart = float((d.get().float() - theirs().float()).abs().max())
            cycles, flops = clock.cycles(ours), 2 * size**3
            answers.append(
                say(
                    {
                        "kernel": loaded.kernel.name,
                        "warps": getattr(loaded.options, "warps", None),
                        "cluster": getattr(loaded.options, "cluster", None),
                        "stages": loaded.options.stages,
                        "size": size,
                        "tflops": round(flops / mine / 1e9, 1),
                        "theirs": round(flops / other / 1e9, 1),
                        "ratio": round(other / mine, 3),
                        "cycles": round(cycles),
                        "multiply_adds_a_cycle_an_sm": round(multiply_adds((size, size, size), cycles)),
                        "apart": apart,
                    }
                )
            )
    return answers


def main(arguments: list[str]) -> int:
    """One of the three."""
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments[:1] == ["check"]:
            answer: object = check(folder)
        elif arguments[:1] == ["rate"]:
            answer = rate(list(map(int, arguments[1:])), folder)
        elif arguments[:1] == ["bounds"]:
            answer = bounds(list(map(int, arguments[1:])), folder)
        elif arguments[:1] == ["one"]:
            asked = [
                GemmOptions(arch(one).name, kind) for one, kind in zip(arguments[1::2], arguments[2::2], strict=True)
            ]
            asked += [one._replace(cluster=2) for one in asked if one.arch == "sm_90"]
            wrong = sum(any(differing(one, (200, 300, 150), 1)) for one in built(asked, folder))
            answer = {"products": len(asked), "wrong": wrong}
        else:
            print(__doc__)
            return 2
    print(json.dumps(answer))
    return int(isinstance(answer, dict) and answer["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
