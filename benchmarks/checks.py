"""What the rules of `tcprobe check` are about, on a GPU: elements that are wrong, and cycles that a mend saves.

Of each rule on correctness a kernel that breaks it and the same one mended, many blocks on each SM, several launches:
how many words of D differ from NumPy's, a launch. Needs PyTorch, ptxas and a GPU of sm_90; `--seconds` is a limit for
all, and FILE is written after each experiment, so that a run that was stopped goes on where it was.

    python benchmarks/checks.py --seconds 60 -o checks.json
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import check_kernels
import numpy as np
import wgmma_loops

from tcprobe.sass import toolchain

BLOCKS_EACH_SM = 8
LAUNCHES = 20
STEPS = 64
Values = np.ndarray


class Case(NamedTuple):
    """A kernel with its data, and D as NumPy has it for one block; `counted` says which of D count, None: all.

    D is compared as words of 32 bits: f32, or pairs of 16 bits.
    """

    text: str
    a: Values
    b: Values
    expected: Values
    steps: int = STEPS
    counted: Values | None = None


class Experiment(NamedTuple):
    """A rule, what is tried, and the kernels by name: of those that break the rule and those that do not."""

    rule: str
    name: str
    cases: Callable[[], dict[str, Case]]


def small(rng: np.random.Generator, *shape: int) -> Values:
    """Whole numbers whose products and sums are exact in f32."""
    return rng.integers(-2, 3, shape).astype(np.float32)


def as_bf16(values: Values) -> Values:
    """The bits."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def matrices(tile: Values) -> Values:
    """A tile, lines of k, as 8 x 8 matrices one after the other, the next one along k first: bits in order."""
    rows, k = tile.shape
    return as_bf16(tile).reshape(rows // 8, 8, k // 8, 8).transpose(0, 2, 1, 3).reshape(-1)


def swizzled(tile: Values) -> Values:
    """A tile of 64 of k as lines of 128 bytes, their 16 bytes exclusive-ored with the line's number in its eight."""
    lines = as_bf16(tile).reshape(-1, 8, 8, 8)
    there = np.empty_like(lines)
    for row in range(8):
        there[:, row, np.arange(8) ^ row] = lines[:, row]
    return there.reshape(-1)


def accumulators(d: Values) -> Values:
    """D (64 x n) as 128 threads hold it, (128, n / 2)."""
    thread, i = np.arange(128)[:, None], np.arange(d.shape[1] // 2)[None]
    row = thread // 32 * 16 + thread % 32 // 4 + (i // 2 % 2) * 8
    return d[row, i // 4 * 8 + thread % 4 * 2 + i % 2]


def factor_registers(tile: Values) -> Values:
    """A (64 x 16) as 128 threads hold it in 4 registers: bits, (128, 8)."""
    thread, i = np.arange(128)[:, None], np.arange(8)[None]
    row = thread // 32 * 16 + thread % 32 // 4 + (i // 2 % 2) * 8
    return as_bf16(tile[row, thread % 4 * 2 + i % 2 + i // 4 * 8])


def loops(n: int, each: int) -> dict[str, Case]:
    """The legal loop: A is loaded before the wait, as this ptxas compiles it, or behind it."""
    rng = np.random.default_rng(n + each)
    a, b = small(rng, wgmma_loops.STAGES, each, 64, 16), small(rng, n, 16)
    bits = np.concatenate([factor_registers(tile).reshape(-1) for stage in a for tile in stage])
    expected = accumulators(a.sum((0, 1)) @ b.T * (STEPS // wgmma_loops.STAGES))
    return {
        name: Case(wgmma_loops.loop(n, each, early=early, unrolled=False), bits, matrices(b), expected)
        for name, early in (("breaks", True), ("mended", False))
    }


def proxies(fill: str, n: int = 64) -> dict[str, Case]:
    """A into shared memory without a proxy fence before wgmma, and with one."""
    rng = np.random.default_rng(1)
    a, b = small(rng, check_kernels.STAGES, 64, 64), small(rng, n, 64)
    expected = accumulators(a.sum(0) @ b.T * (STEPS // check_kernels.STAGES))
    bits = np.concatenate([matrices(tile) for tile in a])
    return {
        name: Case(check_kernels.multiply("kernel", n, fill, fenced), bits, matrices(b), expected)
        for name, fenced in (("breaks", False), ("mended", True))
    }


def descriptors(n: int = 64) -> dict[str, Case]:
    """SWIZZLE_128B with 512 bytes from eight lines to the next, and with 1,024."""
    rng = np.random.default_rng(2)
    a, b = small(rng, check_kernels.STAGES, 64, 64), small(rng, n, 64)
    expected = accumulators(a.sum(0) @ b.T * (STEPS // check_kernels.STAGES))
    bits = np.concatenate([swizzled(tile) for tile in a])
    return {
        name: Case(check_kernels.multiply("kernel", n, "st", True, descriptor), bits, matrices(b), expected)
        for name, descriptor in (("breaks", check_kernels.OVERLAPPING), ("mended", check_kernels.SWIZZLED))
    }


def refilled(fill: str, n: int) -> dict[str, Case]:
    """A filled anew while the multiplies of the step before may read it, and behind the wait for them."""
    rng = np.random.default_rng(6)
    a, b = small(rng, check_kernels.STAGES, 64, 64), small(rng, n, 64)
    expected = accumulators(a.sum(0) @ b.T * (STEPS // check_kernels.STAGES))
    bits = np.concatenate([matrices(tile) for tile in a])
    texts = {
        "breaks": check_kernels.refill("kernel", n, fill),
        "mended": check_kernels.multiply("kernel", n, fill, True),
    }
    return {name: Case(text, bits, matrices(b), expected) for name, text in texts.items()}


def noise(seed: int) -> Values:
    """A of STAGES tiles, as 16-bit words."""
    words = check_kernels.STAGES * check_kernels.TILE // 2
    return np.random.default_rng(seed).integers(0, 1 << 16, words).astype(np.uint16)


def bulk_copies() -> dict[str, Case]:
    """A through shared memory to global memory by a bulk copy, without a proxy fence and with one."""
    a, steps = noise(3), 16
    expected = np.tile(a, steps // check_kernels.STAGES)
    return {
        name: Case(check_kernels.copy_out("kernel", fenced), a, a[:8], expected, steps)
        for name, fenced in (("breaks", False), ("mended", True))
    }


def copies() -> dict[str, Case]:
    """cp.async read by another warp's threads without a wait, and with one."""
    a, steps = noise(4), 16
    part = a.reshape(check_kernels.STAGES, -1, 8)[:, np.arange(128) ^ 63]
    expected = np.tile(part.reshape(-1), steps // check_kernels.STAGES)
    return {
        name: Case(check_kernels.copy_in("kernel", waits), a, a[:8], expected, steps)
        for name, waits in (("breaks", False), ("mended", True))
    }


def half_warps() -> dict[str, Case]:
    """ldmatrix by half of each warp, and by all of it: what the lower half gets."""
    a, steps = noise(5), 16
    lines = a[: 128 * 8].reshape(4, 32, 4, 2)  # by warp: lines of 16 bytes, as pairs of elements
    lane, register = np.arange(32)[:, None], np.arange(4)[None]
    held = lines[:, register * 8 + lane // 4, lane % 4]  # warp, lane, register, pair
    counted = np.broadcast_to(np.arange(32)[None, :, None, None] < 16, held.shape)
    return {
        name: Case(
            check_kernels.half_warp("kernel", whole),
            a,
            a[:8],
            np.tile(held.reshape(-1), steps),
            steps,
            np.tile(counted.reshape(-1), steps),
        )
        for name, whole in (("breaks", False), ("mended", True))
    }


EXPERIMENTS = (
    *(
        Experiment("wgmma-operands", f"loop of m64n{n}k16, {each} a group", lambda n=n, each=each: loops(n, each))
        for n, each in ((128, 1), (128, 2), (64, 1), (256, 1), (256, 2), (128, 4), (8, 1))
    ),
    Experiment("async-proxy", "st.shared, then wgmma", lambda: proxies("st")),
    Experiment("cp-async-proxy", "cp.async, then wgmma", lambda: proxies("cp.async")),
    Experiment("async-proxy", "st.shared, then a bulk copy", bulk_copies),
    *(
        Experiment("wgmma-shared", f"{fill} into A of m64n{n}k16 in flight", lambda n=n, fill=fill: refilled(fill, n))
        for fill, n in (("st", 64), ("st", 256), ("cp.async", 256))
    ),
    Experiment("unfinished-copy", "cp.async read without a wait", copies),
    Experiment("descriptor", "SWIZZLE_128B with SBO 512", descriptors),
    Experiment("partial-warp", "ldmatrix by half of a warp", half_warps),
)


def compiled(ptxas: str, text: str) -> bytes:
    """The cubin for sm_90a."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text)
        command = [ptxas, "-arch", "sm_90a", str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[:500])
        return made.read_bytes()


def found_by_rules(cubin: bytes, rule: str) -> int:
    """How many errors `tcprobe check` finds by a rule in a cubin."""
    from tcprobe.check.rule import rules
    from tcprobe.sass.disassemble import programs
    from tcprobe.sass.elf import cubin as read

    code = read(cubin)
    (kernel,) = programs(toolchain.disassembler(), code.arch, code.functions)
    return sum(finding.severity == "error" for finding in rules()[rule].check(kernel)) if rule in rules() else -1


def measured(case: Case, cubin: bytes, launches: int, until: float) -> list[int]:
    """Elements of D that are wrong, by launch; fewer launches where time is over."""
    import torch
    from on_gpu import Module, launch

    function = Module(cubin).function(case.text.split(".entry ")[1].split("(")[0])
    blocks = BLOCKS_EACH_SM * torch.cuda.get_device_properties(0).multi_processor_count
    a, b = (torch.from_numpy(values.view(np.int16)).cuda() for values in (case.a, case.b))
    expected = torch.from_numpy(np.ascontiguousarray(case.expected).view(np.int32).reshape(-1)).cuda()
    d = torch.empty((blocks, expected.numel()), dtype=torch.int32, device="cuda")
    counted = None
    if case.counted is not None:
        counted = torch.from_numpy(np.ascontiguousarray(case.counted).reshape(-1, 2)[:, 0]).cuda()
    held = [ctypes.c_uint64(x.data_ptr()) for x in (a, b, d)] + [ctypes.c_uint32(case.steps)]
    wrong = []
    for _ in range(launches):
        d.fill_(-1)
        launch(function, (blocks, 1, 1), (check_kernels.THREADS, 1, 1), 0, held)
        torch.cuda.synchronize()
        differs = d != expected
        wrong.append(int((differs & counted).sum() if counted is not None else differs.sum()))
        if time.monotonic() > until:
            break
    return wrong


def results(ptxas: str, launches: int, until: float, only: str | None, known: dict) -> Iterator[tuple[str, dict]]:
    """What came of each experiment, by its name."""
    for experiment in EXPERIMENTS:
        key = f"{experiment.rule}: {experiment.name}"
        if key in known or (only and only not in key):
            continue
        if time.monotonic() > until:
            print(f"no time for {key}", file=sys.stderr)
            return
        found = {}
        for name, case in experiment.cases().items():
            cubin = compiled(ptxas, case.text)
            elements = case.expected.nbytes // 4 if case.counted is None else int(case.counted.sum()) // 2
            wrong = measured(case, cubin, launches, until)
            found[name] = {"errors": found_by_rules(cubin, experiment.rule), "of": elements, "wrong": wrong}
        yield key, found


def main(words: list[str] | None = None) -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description="What breaks where a rule of tcprobe check is broken.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--launches", type=int, default=LAUNCHES)
    parser.add_argument("--only", help="part of an experiment's name")
    parser.add_argument("--cuda", type=Path, help="folder with the ptxas to use")
    parser.add_argument("-o", "--output", type=Path, default=Path("checks.json"))
    given = parser.parse_args(words)
    import torch

    ptxas = toolchain.compiler(given.cuda)
    properties = torch.cuda.get_device_properties(0)
    known = json.loads(given.output.read_text())["experiments"] if given.output.is_file() else {}
    until = time.monotonic() + given.seconds
    blocks = BLOCKS_EACH_SM * properties.multi_processor_count
    about = {"device": properties.name, "ptxas": toolchain.version(ptxas), "blocks": blocks}
    for key, found in results(ptxas, given.launches, until, given.only, known):
        known[key] = found
        given.output.write_text(json.dumps(about | {"experiments": known}, indent=1) + "\n")
        for name, of in found.items():
            most = max(of["wrong"])
            print(
                f"{key}, {name}: {of['errors']} errors found, {most} of {of['of'] * blocks} wrong at most", flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
