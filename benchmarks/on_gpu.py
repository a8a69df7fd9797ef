"""What benchmarks of kernels need of a GPU: compiled code, matrices with guards, times, and cycles as SMs count them.

Needs PyTorch, nvcc and a GPU. Times are the least of several rounds, of calls in turns.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from pathlib import Path

import torch

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


def ok(code: int) -> None:
    """RuntimeError for a CUresult."""
    if code:
        raise RuntimeError(driver.result_name(code))


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


class Module:
    """Machine code on the GPU."""

    def __init__(self, code: bytes) -> None:
        torch.zeros(1, device="cuda")  # makes a context current
        self.module = ctypes.c_void_p()
        ok(CUDA.cuModuleLoadData(ctypes.byref(self.module), code))

    def function(self, name: str, shared_bytes: int = 0) -> ctypes.c_void_p:
        """A kernel, which may have so much dynamic shared memory."""
        found = ctypes.c_void_p()
        ok(CUDA.cuModuleGetFunction(ctypes.byref(found), self.module, name.encode()))
        ok(CUDA.cuFuncSetAttribute(found, DYNAMIC_SHARED, shared_bytes))
        return found


def launch(function: ctypes.c_void_p, grid: tuple, block: tuple, shared_bytes: int, held: list) -> None:
    """A kernel with ctypes values, on PyTorch's stream."""
    arguments = (ctypes.c_void_p * len(held))(*(ctypes.addressof(x) for x in held))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    ok(CUDA.cuLaunchKernel(function, *grid, *block, shared_bytes, stream, arguments, None))


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
        self.module = Module(cubin(self.SOURCE, folder / "now", ""))
        self.function = self.module.function("now")

    def read(self) -> torch.Tensor:
        """Cycles by SM, once the stream comes to it."""
        found = torch.zeros(2 * self.sms, dtype=torch.int64, device="cuda")
        launch(self.function, (4 * self.sms, 1, 1), (1, 1, 1), 0, [ctypes.c_void_p(found.data_ptr())])
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


def multiply_adds(size: tuple[int, int, int], cycles: float) -> float:
    """Of a product, a cycle an SM."""
    return math.prod(size) / cycles / torch.cuda.get_device_properties(0).multi_processor_count


def say(answer: dict) -> dict:
    """The same, printed at once."""
    print(answer, flush=True)
    return answer
