"""Ablation beside prediction, kernel by kernel: python benchmarks/ablations.py --out FOLDER [--seconds 240]

Kernels of `tcprobe kernel gemm`, of examples/attention.py and of Triton (those of benchmarks/triton_kernels.py, where
Triton is there) are compiled for sm_90. --predict, which needs no GPU, writes into ablations_predicted.jsonl what the
model says of each loop, whole and without each class; without it FOLDER/ablations.jsonl gets what is measured. What is
there is left out, so either can be repeated until nothing is left; --only NAME,NAME: kernels whose names have one of
these in them. --table prints both side by side, where the code is the same. Needs nvcc, to measure CuPy and a GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import json_lines

from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.loops.ablate import ablate
from tcprobe.loops.loop import Loop, main_loop
from tcprobe.loops.patch import patched, patches
from tcprobe.loops.predict import predict
from tcprobe.sass import toolchain
from tcprobe.sass.disassemble import programs
from tcprobe.sass.elf import cubin
from tcprobe.sass.kernel import Kernel
from tcprobe.store.choose import layers

EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))
PREDICTED = Path(__file__).parent / "ablations_predicted.jsonl"  # committed before the kernels ran
ITERATIONS = 64
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
GEMMS = (
    GemmOptions("sm_80", "f16", (64, 64, 32), (2, 2), 3),
    GemmOptions("sm_80", "f16", (128, 64, 64), (2, 2), 3),
    GemmOptions("sm_80", "f16", (256, 128, 32), (4, 2), 3),
    GemmOptions("sm_80", "f16", (128, 128, 64), (2, 4), 2),
    GemmOptions("sm_80", "bf16", (128, 256, 32), (2, 4), 3),
    GemmOptions("sm_80", "bf16", (64, 128, 64), (2, 2), 4, "row", "row"),
    GemmOptions("sm_80", "bf16", (128, 128, 32), (4, 2), 4, "col", "col"),
    GemmOptions("sm_80", "tf32", (128, 64, 32), (2, 2), 3),
    GemmOptions("sm_80", "s8", (128, 128, 64), (2, 2), 3),
    GemmOptions("sm_80", "s8", (256, 64, 128), (4, 1), 2),
    GemmOptions("sm_75", "f16", (128, 128, 32), (2, 2), 2),
    GemmOptions("sm_75", "f16", (64, 64, 32), (2, 2), 2),
    GemmOptions("sm_90", "bf16", (64, 128, 64), None, 4),
    GemmOptions("sm_90", "f16", (128, 128, 64), None, 3),
    GemmOptions("sm_90", "e4m3", (128, 256, 128), None, 3),
    GemmOptions("sm_90", "s8", (128, 128, 128), None, 4),
    GemmOptions("sm_90", "tf32", (128, 128, 32), None, 4),
)
ATTENTION = (("sm_80", 64), ("sm_80", 128), ("sm_90", 64), ("sm_90", 128))
KEYS = 4096
ATTENTION_LAUNCH = """import sys

sys.path.insert(0, {examples!r})
import math

import attention
import cupy
import numpy as np

from tcprobe.references.shared_memory.tensor_map import packed_map
from tcprobe.run import driver

ASKED = attention.Attention({arch!r}, {head})
KEPT = []


def filled():
    numbers = np.random.default_rng(1).standard_normal(({keys}, {head})).astype(np.float32)
    KEPT.append(cupy.asarray((numbers.view(np.uint32) >> 16).astype(np.uint16)))
    return KEPT[-1]


def mapped(tile, matrix):
    from tcprobe.ask import descriptor

    box = descriptor.tma(tile)
    kind, mode = box["data_type"].rpartition("_TYPE_")[2], box["swizzle"].rpartition("_SWIZZLE_")[2]
    code, raw = driver.encode_map(packed_map(kind, ({head}, {keys}), tuple(box["box"]), mode), matrix.data.ptr)
    assert code == 0, driver.result_name(code)
    KEPT.append(cupy.asarray(np.frombuffer(raw, np.uint8)))
    return KEPT[-1]


def launch(kernel):
    cupy.cuda.runtime.free(0)
    q, k, v, o = (filled() for _ in "qkvo")
    held = [q, k, v, o]
    if {arch!r} == "sm_90":
        held = [mapped(attention.tiles(ASKED)[name], one) for name, one in zip("qkv", (q, k, v))] + [o]
    scale = np.float32(math.log2(math.e) / math.sqrt({head}))
    arguments = [*held, np.int32({keys}), scale]
    return (1, 1, 1), attention.threads(ASKED), attention.shared_bytes(ASKED), arguments
"""


class Case(NamedTuple):
    """A kernel: its name, and what makes its machine code and its launch file."""

    name: str
    make: Callable[[Path], tuple[bytes, str]]


def cases() -> Iterator[Case]:
    """All kernels."""
    for number, options in enumerate(GEMMS):
        yield Case(f"gemm_{number:02}_{options.arch}_{options.type}", lambda folder, o=options: of_gemm(o, folder))
    for arch, head in ATTENTION:
        yield Case(f"attention_{arch}_{head}", lambda folder, a=arch, h=head: of_attention(a, h, folder))
    try:
        import triton_kernels
    except ImportError:
        print("Triton is not there: its kernels are left out", flush=True)
        return
    for number, build in enumerate(triton_kernels.builds()):
        if build.kernel.fn.__name__ in ("matmul", "attention") and not build.sizes.get("causal"):
            yield Case(
                f"triton_{build.kernel.fn.__name__}_{number:02}", lambda _, b=build: of_triton(triton_kernels, b)
            )


def compiled(source: str, folder: Path, target: str, flags: tuple[str, ...] = ()) -> bytes:
    """Machine code for sm_90, of CUDA C++."""
    path, made = folder / "kernel.cu", folder / "kernel.cubin"
    path.write_text(source)
    number = target.removeprefix("sm_")
    command = [NVCC, f"-gencode=arch=compute_{number},code=sm_{number}", "-std=c++17", *flags, "-cubin"]
    done = subprocess.run([*command, "-o", str(made), str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[:300])
    return made.read_bytes()


def of_gemm(options: GemmOptions, folder: Path) -> tuple[bytes, str]:
    """A kernel of `tcprobe kernel gemm`, and its launch file."""
    made = gemm(options)
    return compiled(made.source, folder, "sm_90a" if made.maps else "sm_90"), made.launch_file()


def of_attention(arch: str, head: int, folder: Path) -> tuple[bytes, str]:
    """A kernel of examples/attention.py."""
    import attention

    source = attention.source(attention.Attention(arch, head))
    target = "sm_90a" if arch == "sm_90" else "sm_90"
    code = compiled(source, folder, target, ("-ftz=true", "-DTCPROBE_ANY_ARCH"))
    return code, ATTENTION_LAUNCH.format(examples=str(EXAMPLES), arch=arch, head=head, keys=KEYS)


TRITON = Lock()  # one compilation at a time


def of_triton(kernels, build) -> tuple[bytes, str]:
    """A kernel of Triton's, over one tile of rows and columns."""
    with TRITON:
        made = kernels.compiled(build, 90)
    sizes, kind = build.sizes, build.types.split()[0].strip("*")
    plain = {"fp16": "f16", "fp8e5": "e5m2"}[kind]
    if "block_k" in sizes:
        m, n, k = sizes["block_m"], sizes["block_n"], ITERATIONS * sizes["block_k"]
        given = [f"{plain}:{m}x{k}", f"{plain}:{k}x{n}", f"f16:{m}x{n}", *map(str, (m, n, k, k, n, n))]
    else:
        given = [f"f16:{KEYS}x{sizes['d']}"] * 4 + ["0.125f", str(KEYS)]
    from triton_launch import launch_file

    about = {"name": made.metadata.name, "num_warps": made.metadata.num_warps, "shared": made.metadata.shared}
    return made.asm["cubin"], launch_file(about, made.asm["cubin"], given)


def kernel_of(code: bytes) -> Kernel:
    """The one function of a cubin."""
    held = cubin(code)
    (kernel,) = programs(toolchain.find(None), held.arch, held.functions)
    return kernel


def predicted(code: bytes, loop: Loop) -> dict:
    """What the model says of a loop, whole and without each class: cycles of a round, or why it says nothing."""

    def cycles(same: Loop) -> float | str:
        found = predict(same, None, layers(None, False))
        return found.refused or sum(found.cycles) / 2

    whole = cycles(loop)
    if isinstance(whole, str):
        return {"refused": whole}
    copies = {p.name: patched(code, loop.kernel, p) for p in patches(loop) if p.off}
    return {"cycles": whole, "without": {n: cycles(Loop(kernel_of(c), loop.blocks)) for n, c in copies.items()}}


def largest(whole: float, without: dict) -> str:
    """The class without which a round is shortest."""
    numbers = {name: value for name, value in without.items() if isinstance(value, int | float)}
    return min(numbers, key=numbers.__getitem__, default="")


def table(folder: Path) -> None:
    """Ablation beside prediction."""
    told = {(row["case"], row["code"]): row for row in json_lines.read(PREDICTED)}
    agreed = compared = 0
    for row in json_lines.read(folder / "ablations.jsonl"):
        model = told.get((row["case"], row["code"]), {})
        guess = largest(0, model.get("without", {}))
        found = largest(0, row["without"])
        compared, agreed = compared + bool(guess), agreed + (guess == found)
        shown = model.get("cycles", model.get("refused"))
        print(f"| {row['case']} | {row['cycles']} | {shown} | {found} ({row['without'].get(found)}) | {guess or '-'} |")
    print(f"{agreed} of {compared} agree")


def options(words: str) -> argparse.ArgumentParser:
    """--out, --seconds and --only."""
    parser = argparse.ArgumentParser(description=words.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--only", default="")
    return parser


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.table:
        table(asked.out)
        return 0
    end = time.monotonic() + asked.seconds
    path = PREDICTED if asked.predict else asked.out / "ablations.jsonl"
    done = {row["case"] for row in json_lines.read(path)}
    left = [case for case in cases() if case.name not in done]
    left = [case for case in left if any(name in case.name for name in asked.only.split(","))]

    def run(case: Case) -> bool:
        begun = time.monotonic()
        if begun > end:
            return False
        try:
            with tempfile.TemporaryDirectory() as name:
                words = one(case, Path(name), path, asked.predict)
        except Exception as error:  # a line, not the end
            words = f"{type(error).__name__}: {str(error)[:300]}"
        print(f"{case.name}: {words} ({time.monotonic() - begun:.1f} s)", flush=True)
        return True

    with ThreadPoolExecutor(asked.at_once) as pool:  # what launches takes turns on the GPU
        tried = sum(pool.map(run, left))
    print(f"{len(left) - tried} kernels are left" if tried < len(left) else "nothing is left", flush=True)
    return 0


def one(case: Case, folder: Path, out: Path, predicting: bool) -> str:
    """A kernel, predicted or launched; its row has the hash of its code."""
    code, text = case.make(folder)
    loop = main_loop(kernel_of(code))
    if loop is None:
        raise RuntimeError("no loop")
    about = {"case": case.name, "code": hashlib.sha256(loop.kernel.code.code).hexdigest()[:16]}
    if predicting:
        told = predicted(code, loop)
        json_lines.add(out, {**about, **told})
        return str(told)
    (folder / "launch.py").write_text(text)
    found = ablate(code, loop, folder / "launch.py")
    json_lines.add(out, {**about, **found.to_json()})
    best = found.best
    return f"{found.cycles:.1f} cycles; " + (f"{best.name} saves {found.saves(best):.1f}" if best else "nothing saves")


if __name__ == "__main__":
    sys.exit(main())
