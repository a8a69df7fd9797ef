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
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from tcprobe.isa.arch import arch
from tcprobe.kernel.gemm import GemmKernel, GemmOptions, gemm
from tcprobe.references.shared_memory.tensor_map import packed
from tcprobe.run import driver

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "tf32": torch.float32,
    "f32": torch.float32,
    "s8": torch.int8,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "s32": torch.int32,
}
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
CUDA = ctypes.CDLL("libcuda.so.1")
DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
SHAPES = ((128, 128, 64), (1, 1, 1), (127, 129, 65), (300, 77, 193), (513, 260, 31), (64, 1000, 130))
FORMS = (
    *(
        (target, kind, "row", "col")
        for target, kind in (
            ("sm_70", "f16"),
            ("sm_75", "f16"),
            ("sm_75", "s8"),
            ("sm_80", "f16"),
            ("sm_80", "bf16"),
            ("sm_80", "tf32"),
            ("sm_80", "s8"),
            ("sm_89", "e4m3"),
            ("sm_89", "e5m2"),
            ("sm_90", "f16"),
            ("sm_90", "bf16"),
            ("sm_90", "tf32"),
            ("sm_90", "e4m3"),
            ("sm_90", "e5m2"),
            ("sm_90", "s8"),
        )
    ),
    *(("sm_80", kind, a, b) for kind in ("f16", "tf32", "s8") for a, b in (("col", "row"), ("row", "row"))),
    *(("sm_90", "bf16", a, b) for a, b in (("col", "col"), ("row", "row"), ("col", "row"))),
    ("sm_75", "f16", "col", "row"),
    ("sm_70", "f16", "col", "row"),
)
OTHERS = (
    GemmOptions("sm_90", "bf16", (64, 96, 64), a="col", b="row", out="f32"),
    GemmOptions("sm_90", "f16", (128, 128, 64)),
    GemmOptions("sm_90", "e4m3", (192, 128, 64)),
    GemmOptions("sm_80", "f16", (64, 256, 32), (1, 4), 4, out="f32"),
    *(GemmOptions("sm_90", kind, cluster=2) for kind in ("f16", "tf32", "e4m3", "s8")),
    GemmOptions("sm_90", "bf16", (64, 128, 64), a="col", b="row", cluster=2),
    GemmOptions("sm_90", "bf16", (192, 128, 64), out="f32", cluster=2),
)
RATED = (
    GemmOptions("sm_90", "bf16", (128, 128, 64), stages=4),
    GemmOptions("sm_90", "bf16", (128, 256, 64), stages=4),
    GemmOptions("sm_90", "bf16", (128, 256, 64), stages=4, cluster=2),
    GemmOptions("sm_90", "bf16", (128, 128, 64), stages=4, cluster=2),
    GemmOptions("sm_90", "bf16", (128, 192, 64), stages=4),
    GemmOptions("sm_90", "bf16", (192, 128, 64), stages=4),
    GemmOptions("sm_90", "e4m3", (128, 256, 128), stages=4, out="bf16"),
    GemmOptions("sm_90", "e4m3", (128, 256, 128), stages=4, out="bf16", cluster=2),
    GemmOptions("sm_90", "e4m3", (128, 128, 128), stages=4, out="bf16"),
    GemmOptions("sm_80", "bf16", (128, 128, 64), stages=3),
    GemmOptions("sm_80", "bf16", (128, 128, 32), stages=4),
    GemmOptions("sm_80", "bf16", (128, 128, 64), warps=(2, 4), stages=3),
    GemmOptions("sm_80", "bf16", (128, 256, 64), warps=(2, 4), stages=3),
    GemmOptions("sm_80", "bf16", (256, 128, 64), warps=(4, 2), stages=3),
    GemmOptions("sm_80", "bf16", (128, 256, 32), warps=(2, 4), stages=4),
)
BOUND = (
    *(GemmOptions("sm_80", "bf16", (128, 128, 32), stages=stages) for stages in (4, 5)),
    GemmOptions("sm_80", "bf16", (128, 128, 64), stages=3),
    *(GemmOptions("sm_80", "bf16", (128, 256, 32), (2, 4), stages) for stages in (4, 6)),
    GemmOptions("sm_80", "bf16", (128, 256, 64), (2, 4), 3),
    GemmOptions("sm_80", "bf16", (256, 128, 64), (4, 2), 3),
)
# what a kernel does without: a pattern in its text, and what stands there instead
WITHOUT = {
    "copies": (r'asm volatile\("cp.async.cg[^;]*;[^;]*;', ""),
    "fragments": (
        r'asm volatile\("ldmatrix[^;]*;[^;]*;',
        'asm volatile("" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));',
    ),
    "barriers": (r"__syncthreads\(\);", ""),
}
MOST = 1365  # multiply-adds of mma.sync a cycle an SM of sm_90


def ok(code: int) -> None:
    """RuntimeError for a CUresult."""
    if code:
        raise RuntimeError(driver.result_name(code))


def compiled(kernel: GemmKernel, folder: Path) -> bytes:
    """The machine code for this GPU."""
    return cubin(kernel.source, folder / f"{kernel.name}_{abs(hash(kernel.source))}", "a" if kernel.maps else "")


def cubin(source: str, stem: Path, variant: str) -> bytes:
    """The machine code of CUDA C++ for this GPU."""
    number = "".join(map(str, torch.cuda.get_device_capability())) + variant
    stem.with_suffix(".cu").write_text(source)
    command = [
        NVCC,
        f"-gencode=arch=compute_{number},code=sm_{number}",
        "-Xptxas",
        "-v",
        "-cubin",
        "-o",
        str(stem.with_suffix(".cubin")),
        str(stem.with_suffix(".cu")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or "C75" in done.stderr or "warning" in done.stderr.replace("warning #177", ""):
        print(done.stderr[:2000])
    if done.returncode:
        raise RuntimeError(f"{stem.name} does not compile")
    return stem.with_suffix(".cubin").read_bytes()


class Loaded:
    """A kernel on the GPU."""

    def __init__(self, kernel: GemmKernel, code: bytes) -> None:
        self.kernel, self.options = kernel, kernel.asked
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        ok(CUDA.cuModuleLoadData(ctypes.byref(module), code))
        ok(CUDA.cuModuleGetFunction(ctypes.byref(self.function), module, kernel.name.encode()))
        ok(CUDA.cuFuncSetAttribute(self.function, DYNAMIC_SHARED, kernel.shared_bytes))

    def prepared(self, a: Matrix, b: Matrix, d: Matrix, sizes: tuple[int, int, int]):
        """A function that launches it."""
        held = self._maps(a, b, d) if self.kernel.maps else [ctypes.c_void_p(x.start) for x in (a, b, d)]
        ends = [ctypes.c_longlong(x.ld) for x in (a, b, d)]
        whole = [ctypes.c_int(size) for size in sizes]
        stored = [ctypes.c_void_p(d.start), ends[2]]
        held += [*stored, *whole] if self.kernel.maps else [*whole, *ends]
        arguments = (ctypes.c_void_p * len(held))(*(ctypes.addressof(x) for x in held))
        grid, block = self.kernel.grid(sizes[0], sizes[1]), self.kernel.block
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

        def launch() -> None:
            _ = held
            ok(CUDA.cuLaunchKernel(self.function, *grid, *block, self.kernel.shared_bytes, stream, arguments, None))

        return launch

    def _maps(self, *matrices: Matrix) -> list[ctypes.Array]:
        found = []
        for matrix, box in zip(matrices, self.kernel.maps.values(), strict=False):
            kind, mode = box["data_type"].rpartition("_TYPE_")[2], box["swizzle"].rpartition("_SWIZZLE_")[2]
            made = packed(kind, (matrix.length, matrix.lines), tuple(box["box"]), mode)._replace(strides=(matrix.ld,))
            code, raw = driver.encoded(made, matrix.start)
            ok(code)
            held = (ctypes.c_byte * 192)()
            at = -ctypes.addressof(held) % 64
            ctypes.memmove(ctypes.addressof(held) + at, raw, 128)
            whole = (ctypes.c_byte * 128).from_buffer(held, at)
            found.append(whole)
        return found


class Matrix:
    """Lines in GPU memory, a multiple of 16 bytes apart, with bytes around them that nobody may read or write."""

    GUARD = 4096

    def __init__(self, kind: str, lines: int, length: int, tight: bool = False) -> None:
        self.dtype, self.lines, self.length = DTYPES[kind], lines, length
        size = torch.empty((), dtype=self.dtype).element_size()
        self.ld = -(-length * size // 16) * 16 + (0 if tight else 16)
        self.raw = torch.full((2 * self.GUARD + lines * self.ld,), 0x7F, dtype=torch.uint8, device="cuda")
        body = self.raw[self.GUARD : self.GUARD + lines * self.ld].view(lines, self.ld)
        self.view = body[:, : length * size]

    @property
    def start(self) -> int:
        """Address of the first element."""
        return self.raw.data_ptr() + self.GUARD

    def put(self, values: torch.Tensor) -> None:
        """Values by line."""
        self.view.copy_(values.float().to(self.dtype).contiguous().view(torch.uint8).view(self.lines, -1))

    def get(self) -> torch.Tensor:
        """What is there."""
        return self.view.contiguous().view(self.dtype).view(self.lines, self.length)

    def outside(self) -> int:
        """Bytes around the lines that are not as they were."""
        copy = self.raw.clone()
        body = copy[self.GUARD : self.GUARD + self.lines * self.ld].view(self.lines, self.ld)
        body[:, : self.view.shape[1]] = 0x7F
        return int((copy != 0x7F).sum())


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


def timed(calls: list, rounds: int) -> list[float]:
    """Least milliseconds of each call, taken alternately."""
    best = [float("inf")] * len(calls)
    for number in range(rounds + 1):
        for which, call in enumerate(calls):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(4):
                call()
            end.record()
            torch.cuda.synchronize()
            if number:
                best[which] = min(best[which], begin.elapsed_time(end) / 4)
    return best


class Clock:
    """Every SM's own counter of cycles, read by a kernel of one thread an SM before and after what is timed."""

    SOURCE = """extern "C" __global__ void now(unsigned long long* of) {
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  of[sm] = clock64();
}
"""

    def __init__(self, folder: Path) -> None:
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        ok(CUDA.cuModuleLoadData(ctypes.byref(module), cubin(self.SOURCE, folder / "now", "")))
        ok(CUDA.cuModuleGetFunction(ctypes.byref(self.function), module, b"now"))

    def read(self) -> torch.Tensor:
        """Cycles by SM, once the stream comes to it."""
        found = torch.zeros(2 * self.sms, dtype=torch.int64, device="cuda")
        to = ctypes.c_void_p(found.data_ptr())
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(to))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        ok(CUDA.cuLaunchKernel(self.function, 4 * self.sms, 1, 1, 1, 1, 1, 0, stream, arguments, None))
        return found

    def cycles(self, call, rounds: int = 5, calls: int = 4) -> float:
        """Of a call: the median over the SMs, the least of all rounds."""
        best = float("inf")
        for number in range(rounds + 1):
            before = self.read()
            for _ in range(calls):
                call()
            after = self.read()
            torch.cuda.synchronize()
            both = (before > 0) & (after > 0)
            if number:
                best = min(best, float((after - before)[both].double().median()) / calls)
        return best


def multiply_adds(size: int, cycles: float) -> float:
    """Of a square product, a cycle an SM."""
    return size**3 / cycles / torch.cuda.get_device_properties(0).multi_processor_count


def bounds(sizes: list[int], folder: Path) -> list[dict]:
    """Multiply-adds a cycle an SM of sm_80's kernels as they are, and of what is left of them without parts."""
    answers, wholes, clock = [], list(map(gemm, BOUND)), Clock(folder)
    ways = ["whole", *(f"without {name}" for name in WITHOUT)]
    all_ = loaded([one for whole in wholes for one in (whole, *without(whole))], folder)
    for number, (options, whole) in enumerate(zip(BOUND, wholes, strict=True)):
        here = all_[number * len(ways) : (number + 1) * len(ways)]
        for size in sizes:
            held = [Matrix(kind, size, size, True) for kind in (options.type, options.type, whole.asked.out)]
            for matrix in held[:2]:
                matrix.put(torch.randn(size, size, device="cuda"))
            found = {"kernel": whole.name, "warps": options.warps, "stages": options.stages, "size": size}
            for way, one in zip(ways, here, strict=True):
                found[way] = round(multiply_adds(size, clock.cycles(one.prepared(*held, (size, size, size)))))
            answers.append({**found, "of_most": round(found["whole"] / MOST, 3)})
            print(answers[-1], flush=True)
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
                    "multiply_adds_a_cycle_an_sm": round(multiply_adds(size, cycles)),
                    "apart": apart,
                }
            )
            print(answers[-1], flush=True)
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
