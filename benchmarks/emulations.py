"""Whether the emulator gives a GPU's bits: kernels that tcprobe prints, its examples, and Triton's tutorials.

    python benchmarks/emulations.py --measure --out DIR --seconds 90     on a GPU: a digest of every result
    python benchmarks/emulations.py --compare benchmarks/emulations_h200.json    here: the table

A case is PTX and a launch whose operands come from a seed. `--measure` runs the PTX through the driver and writes
DIR/NAME.json with digests of PTX and results; what is there is not run again. `--compare` emulates the same PTX and
prints a line a case; `--only PATTERN` chooses. Kernels of tcprobe need nvcc, Triton's a Triton; a case whose PTX is
another one than was measured is not compared.
"""

from __future__ import annotations

import argparse
import ctypes
import fnmatch
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tcprobe.emulate.launch import Argument, BufferArgument, Launch, MapArgument, check_shape, of_json, scalar
from tcprobe.emulate.ptx import parse
from tcprobe.emulate.run import Options, emulate
from tcprobe.errors import EnvironmentUnfitError, TcprobeError
from tcprobe.isa.dtypes import dtype
from tcprobe.kernel.compiled import compiled as by_nvcc
from tcprobe.kernel.emulated import HostLines, launch_of
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.kernel.products import result_bits

SIZE = (200, 264, 136)  # of products, with edges on every side
APPROXIMATE = "ex2.approx"
POINTER_BYTES = 8


@dataclass(frozen=True)
class Case:
    """PTX, a launch; `result` is the argument that the kernel writes. `approximate`: by functions that are no bits."""

    name: str
    ptx: str
    launch: Launch
    result: int
    kind: str = "f32"
    approximate: bool = False


def random_bits(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Bits of normally distributed floats, of the type's whole precision; any whole numbers."""
    if kind == "s8":
        return rng.integers(-128, 128, shape).astype(np.int8).view(np.uint8)
    numbers = rng.standard_normal(shape).astype(np.float32)
    if kind == "f16":
        return numbers.astype(np.float16).view(np.uint16)
    if kind == "bf16":
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)
    if kind in ("e4m3", "e5m2"):
        return numbers.astype({"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[kind]).view(np.uint8)
    return numbers.view(np.uint32)


def gemm_options() -> Iterator[GemmOptions]:
    """Kernels of `kernel gemm`: types, tiles, orders, results."""
    for kind in ("f16", "bf16", "tf32", "s8"):
        bits = dtype(kind).bits
        yield GemmOptions("sm_80", kind)
        yield GemmOptions("sm_80", kind, (64, 64, 512 // bits), (2, 2), 2)
        yield GemmOptions("sm_80", kind, (128, 64, 1024 // bits), (4, 1), 4)
        yield GemmOptions("sm_80", kind, (64, 128, 512 // bits), (1, 4))
    for kind in ("f16", "bf16"):
        for a, b in (("col", "col"), ("row", "row"), ("col", "row")):
            yield GemmOptions("sm_80", kind, a=a, b=b)
            yield GemmOptions("sm_90", kind, a=a, b=b)
        yield GemmOptions("sm_80", kind, out="f32")
        yield GemmOptions("sm_90", kind, out="f32")
        yield GemmOptions("sm_90", kind, (64, 256, 64))
        yield GemmOptions("sm_90", kind, (192, 128, 64))
        yield GemmOptions("sm_90", kind, (64, 64, 32), stages=2)
    yield GemmOptions("sm_75", "f16")
    for kind in ("e4m3", "e5m2"):
        yield GemmOptions("sm_89", kind)
    for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8"):
        yield GemmOptions("sm_90", kind)
        yield GemmOptions("sm_90", kind, (128, 128, 1024 // dtype(kind).bits), cluster=2)
        yield GemmOptions("sm_90", kind, (128, 64, 1024 // dtype(kind).bits), stages=3)
        yield GemmOptions("sm_90", kind, multiply="mma")


def gemm_case(options: GemmOptions, size: tuple[int, int, int] = SIZE) -> Case:
    """A kernel and a product; D's gaps between lines are part of the digest."""
    made = gemm(options)
    words = [made.name, options.a, options.b, made.gemm.out]
    words += [
        f"{made.gemm.stages}",
        *(("cluster",) if options.cluster > 1 else ()),
        *((options.multiply,) if options.multiply else ()),
    ]
    name = "_".join(words)
    rng = np.random.default_rng(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16))
    m, n, k = size
    shapes = ((m, k) if options.a == "row" else (k, m), (k, n) if options.b == "row" else (n, k))
    lines = [HostLines(random_bits(options.type, shape, rng)) for shape in shapes]
    d = HostLines(~result_bits(made, size))
    launch = launch_of(made, (lines[0], lines[1], d), size, [])
    ptx = compiled(made.source, made.to_json(None)["target"])
    return Case(name, ptx, launch, made.parameters.index("d"), made.gemm.out)


def without_fence() -> Case:
    """A kernel whose stores of D are not fenced for the async proxy, which copies them."""
    case = gemm_case(GemmOptions("sm_90", "bf16"))
    lines = [line for line in case.ptx.splitlines() if line.strip() != "fence.proxy.async.shared::cta;"]
    return replace(case, name=f"{case.name}_without_fence", ptx="\n".join(lines))


def compiled(source: str, target: str) -> str:
    """PTX by nvcc, or by NVRTC where there is CuPy and no nvcc."""
    try:
        return by_nvcc(source, target, "ptx").decode()
    except EnvironmentUnfitError:
        from cupy.cuda import nvrtc

        program = nvrtc.createProgram(source, "kernel.cu", (), ())
        nvrtc.compileProgram(program, (f"-arch={target}",))
        ptx = nvrtc.getPTX(program)
        return (ptx if isinstance(ptx, str) else ptx.decode()).rstrip("\0")


def examples() -> Iterator[Callable[[], Case]]:
    """The kernels of examples/, of the launches there."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import launches

    for example in launches.every():
        yield lambda example=example: example_case(example)


def example_case(example: Any) -> Case:
    """An example's kernel as its launch file has it."""
    ptx = compiled(f"#define TCPROBE_ANY_ARCH\n{example.source}", example.target)
    return Case(example.name, ptx, of_json(example.launch, Path()), example.result, "bf16", APPROXIMATE in ptx)


def triton_cases() -> Iterator[Callable[[], Case]]:
    """The kernels of Triton's tutorials, for sm_80 and sm_90."""
    try:
        import triton_kernels
    except ImportError:
        return
    for number in (80, 90):
        for build in triton_kernels.builds():
            yield lambda build=build, number=number: triton_case(triton_kernels, build, number)


def triton_case(kernels: Any, build: Any, number: int) -> Case:
    """A kernel with operands from a seed."""
    made = kernels.compiled(build, number)
    if made.metadata.shared > 227 << 10:
        raise TcprobeError(f"{build.sizes} takes more shared memory than an H200 has")
    title = build.kernel.fn.__name__
    kind = build.types.split()[0].strip("*")
    name = f"triton_{title}_{kind}_{'_'.join(map(str, build.sizes.values()))}.sm_{number}"
    rng = np.random.default_rng(7)
    i32 = lambda n: scalar("s32", n)  # noqa: E731
    if title == "matmul":
        m, n, k = 208, 272, 160  # multiples of 16, as Triton was told
        of = {"fp16": "f16", "fp8e5": "e5m2"}[kind]
        a, b = random_bits(of, (m, k), rng), random_bits(of, (k, n), rng)
        arguments: list[Argument] = [BufferArgument(x) for x in (a, b, np.zeros((m, n), np.uint16))]
        arguments += [i32(x) for x in (m, n, k, k, n, n)]
        tiles = -(-m // build.sizes["block_m"]) * -(-n // build.sizes["block_n"])
        grid, result = (tiles, 1, 1), 2
    elif title == "attention":
        keys, d = 256, build.sizes["d"]
        q, kk, v = (random_bits("f16", (2 * keys, d), rng) for _ in range(3))
        arguments = [BufferArgument(x) for x in (q, kk, v, np.zeros((2 * keys, d), np.uint16))]
        arguments += [scalar("f32", 0.18), i32(keys)]
        grid, result = (keys // build.sizes["block_m"], 2, 1), 3
    elif title == "softmax":
        rows, cols = 16, 784
        arguments = [
            BufferArgument(np.zeros((rows, cols), np.uint32)),
            BufferArgument(random_bits("f32", (rows, cols), rng)),
        ]
        arguments += [i32(x) for x in (cols, cols, rows, cols)]
        grid, result = (3, 1, 1), 0
    else:
        cols = 1152
        arguments = [BufferArgument(np.zeros((3, cols), np.uint16)), BufferArgument(random_bits("f16", (3, cols), rng))]
        arguments += [BufferArgument(random_bits("f16", (1, cols), rng)) for _ in range(2)]
        arguments += [i32(cols), i32(cols), scalar("f32", 1e-5)]
        grid, result = (3, 1, 1), 0
    module = parse(made.asm["ptx"])
    (function,) = [f for f in module.functions.values() if f.entry]
    extra = len(function.parameters) - len(arguments)
    arguments += [BufferArgument(np.zeros(1024, np.uint8)) for _ in range(extra)]  # Triton's scratch pointers
    shape = check_shape(grid, (32 * build.warps, 1, 1), (1, 1, 1), made.metadata.shared)
    approximate = "approx" in made.asm["ptx"]
    out = "f32" if title == "softmax" else "f16"
    return Case(name, made.asm["ptx"], Launch(function.name, shape, arguments), result, out, approximate)


def cases() -> Iterator[Callable[[], Case]]:
    """All of them, made when they are called."""
    for options in gemm_options():
        yield lambda options=options: gemm_case(options)
    yield without_fence
    yield from examples()
    yield from triton_cases()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def measure(out: Path, seconds: float, only: str) -> None:
    """Run every case on the first GPU."""
    import cupy

    from tcprobe.run import driver

    out.mkdir(parents=True, exist_ok=True)
    end = time.time() + seconds
    cupy.zeros(1)
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    with ThreadPoolExecutor(12) as pool:
        for made in pool.map(_tried, cases()):
            if time.time() > end:
                print("no time is left", flush=True)
                break
            if isinstance(made, str):
                print(made, flush=True)
                continue
            path = out / f"{made.name}.json"
            if path.exists() or not fnmatch.fnmatch(made.name, only):
                continue
            try:
                result = run_on_gpu(cupy, driver, made)
            except Exception as error:  # one case is not all
                print(f"{made.name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                continue
            told = {"name": made.name, "ptx": digest(made.ptx.encode()), "result": digest(result), "device": name}
            if made.approximate:
                np.save(out / f"{made.name}.npy", np.frombuffer(result, np.uint8))
            (out / f"{made.name}.ptx").write_text(made.ptx)
            path.write_text(json.dumps(told) + "\n")
            print(f"{made.name}: {told['result'][:16]}", flush=True)
    every = {p.stem: json.loads(p.read_text()) for p in sorted(out.glob("*.json")) if p.stem != "all"}
    (out / "all.json").write_text(json.dumps(every, indent=1) + "\n")


def _tried(make: Callable[[], Case]) -> Case | str:
    try:
        return make()
    except (TcprobeError, Exception) as error:
        return f"not made: {type(error).__name__}: {str(error)[:200]}"


def run_on_gpu(cupy: Any, driver: Any, case: Case) -> bytes:
    """The bytes of the result."""
    module = cupy.cuda.function.Module()
    module.load(case.ptx.encode() + b"\0")
    kernel = parse(case.ptx).kernel(case.launch.kernel)
    function = module.get_function(kernel.name)
    shape = case.launch.shape
    cupy.cuda.driver.funcSetAttribute(function.ptr, 8, shape.dynamic)
    memories = {
        n: cupy.asarray(np.ascontiguousarray(a.array).reshape(-1).view(np.uint8))
        for n, a in enumerate(case.launch.arguments)
        if isinstance(a, BufferArgument)
    }
    passed: list[Any] = []
    maps: list[Any] = []
    for number, argument in enumerate(case.launch.arguments[: len(kernel.parameters)]):
        if isinstance(argument, BufferArgument):
            passed.append(ctypes.c_void_p(memories[number].data.ptr))
        elif isinstance(argument, MapArgument):
            code, raw = driver.encode_map(argument.map._replace(address=0), memories[argument.of].data.ptr)
            if code:
                raise RuntimeError(f"cuTensorMapEncodeTiled: {driver.result_name(code)}")
            if kernel.parameters[number].size == POINTER_BYTES:  # the map is behind it
                kept = cupy.asarray(np.frombuffer(raw, np.uint8))
                maps.append(kept)
                passed.append(ctypes.c_void_p(kept.data.ptr))
                continue
            holder = (ctypes.c_byte * (len(raw) + 64))()
            start = -ctypes.addressof(holder) % 64
            ctypes.memmove(ctypes.addressof(holder) + start, raw, len(raw))
            passed.append((ctypes.c_byte * len(raw)).from_buffer(holder, start))
        else:
            passed.append((ctypes.c_byte * len(argument.raw)).from_buffer_copy(argument.raw))
    code = driver.launch_kernel(function.ptr, shape.grid, shape.block, shape.dynamic, passed)
    if code:
        raise RuntimeError(driver.result_name(code))
    cupy.cuda.runtime.deviceSynchronize()
    result: bytes = memories[case.result].get().tobytes()
    return result


def compare(measured: Path, only: str, options: Options, table: Path | None) -> int:  # noqa: C901
    """Emulate what was measured; how many differ."""
    known = json.loads(measured.read_text())
    lines, bad = [], 0
    for make in cases():
        made = _tried(make)
        if isinstance(made, str):
            print(made, flush=True)
            continue
        if not fnmatch.fnmatch(made.name, only):
            continue
        told = known.get(made.name)
        text = made.ptx
        beside = measured.parent / f"{made.name}.ptx"
        if told and told["ptx"] != digest(text.encode()) and beside.exists():
            text = beside.read_text()  # what another compiler made there
        start = time.process_time()
        try:
            done = emulate(parse(text), made.launch, options)
        except TcprobeError as error:
            print(f"{made.name}: {error}", flush=True)
            bad += 1
            continue
        seconds = time.process_time() - start
        result = np.ascontiguousarray(done.buffers[made.result]).tobytes()
        same = "not measured"
        if told and told["ptx"] != digest(text.encode()):
            same = "another PTX"
        elif told:
            same = "same bits" if told["result"] == digest(result) else "DIFFERENT"
            if same == "DIFFERENT" and made.approximate:
                same = _near(measured, made, result)
        found = len(done.report.findings)
        bad += found > 0 or same == "DIFFERENT"
        count = done.report.instructions
        lines.append((made.name, same, found, count, seconds))
        print(f"{made.name}: {same}, {found} findings, {count} instructions, {seconds:.1f} s", flush=True)
        for finding in done.report.findings[:3]:
            print(f"  {finding.in_words}", flush=True)
    if table:
        names = ("kernel", "bits against the H200", "findings", "instructions of warps", "CPU seconds")
        head = f"| {' | '.join(names)} |\n|{' --- |' * len(names)}\n"
        table.write_text(head + "".join(f"| {n} | {s} | {f} | {c:,} | {t:.1f} |\n" for n, s, f, c, t in lines))
    return bad


def _near(measured: Path, case: Case, result: bytes) -> str:
    """How far a kernel with approximate functions is away; the GPU's bytes are beside the digests."""
    there = measured.parent / f"{case.name}.npy"
    if not there.exists():
        return "DIFFERENT, as ex2.approx is no bits"
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}.get(case.kind, np.float32)
    ours, theirs = (
        np.frombuffer(x, np.uint8).view(kind).astype(np.float64) for x in (result, np.load(there).tobytes())
    )
    differ = int((ours != theirs).sum())
    far = float(np.max(np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-6)))
    return f"{differ} of {ours.size} elements differ, by {far:.1e} at most: approximate functions"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("emulations"))
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--schedule", default="late")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.out, asked.seconds, asked.only)
        return 0
    if asked.compare:
        return int(
            compare(
                asked.compare, asked.only, Options(arch="sm_90", schedule=asked.schedule, seed=asked.seed), asked.table
            )
            > 0
        )
    parser.print_usage()
    return 2


if __name__ == "__main__":
    sys.exit(main())
