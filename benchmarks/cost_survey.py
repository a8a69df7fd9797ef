"""Where time and memory of `run --family cost` go: python benchmarks/cost_survey.py [EVERY] [THREADS] [TOGETHER]

Every EVERYth experiment (10), stage after stage, nothing side by side: texts, compiling with so many THREADS (16) and
so many kernels TOGETHER (4) in a module, reading machine code, loading, running. Seconds by the clock, CPU seconds of
this process and of its children, resident memory at the end of each stage and at most. Without a GPU ptxas takes the
driver's place, and nothing is run.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import arch, version
from tcprobe.probes import dialogues
from tcprobe.probes.ptx import Kernel, module
from tcprobe.run import driver
from tcprobe.sass import cubin as sass_cubin
from tcprobe.sass.elf import code_by_kernel
from tcprobe.sass.toolchain import LIMIT, Ptxas, compiler

READ = 1 << 20


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def resident() -> float:
    """MB, now."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize() / 1e6


@contextmanager
def stage(name: str) -> Iterator[None]:
    start, own, others = time.perf_counter(), cpu(resource.RUSAGE_SELF), cpu(resource.RUSAGE_CHILDREN)
    yield
    spent = time.perf_counter() - start, cpu(resource.RUSAGE_SELF) - own, cpu(resource.RUSAGE_CHILDREN) - others
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    figures = " | ".join(f"{value:.2f}" for value in spent)
    print(f"| {name} | {figures} | {resident():.0f} | {most:.0f} |", flush=True)


def opened() -> Any:
    """A GPU, None where there is none."""
    from tcprobe.run.gpu import Gpu

    try:
        gpu = Gpu()
        gpu.open(0)
        return gpu
    except EnvironmentUnfitError as error:
        print(f"no GPU: {error}")
        return None


def modules(every: list[Kernel], together: int) -> list[str]:
    ordered = sorted(every, key=lambda kernel: version(kernel.target.ptx))
    return [module(ordered[at : at + together], arch("sm_90")) for at in range(0, len(ordered), together)]


def compiled(gpu: Any, texts: list[str], threads: int) -> list[bytes]:
    tools = None if gpu else Ptxas(compiler(), LIMIT)

    def one(text: str) -> bytes:
        if tools:
            return tools.assemble(arch("sm_90"), text, True)[0]
        gpu.cupy.cuda.Device(0).use()
        return driver.assemble(text.encode(), driver.BEST)[0]

    with ThreadPoolExecutor(threads) as pool:
        return [cubin for cubin in pool.map(one, texts) if cubin]


def read(codes: dict[str, bytes], threads: int) -> int:
    """Kernels of which a loop was found."""
    batches: list[dict[str, bytes]] = [{}]
    for name, raw in codes.items():
        if sum(map(len, batches[-1].values())) > READ:
            batches.append({})
        batches[-1][name] = raw
    with ThreadPoolExecutor(threads) as pool:
        return sum(
            len(found) for found in pool.map(lambda batch: sass_cubin.timed_codes(batch, arch("sm_90")), batches)
        )


def run(gpu: Any, cubins: list[bytes], experiments: list[Any], names: set[str]) -> int:
    done = 0
    for cubin in cubins:
        loaded = gpu.cupy.cuda.function.Module()
        loaded.load(cubin)
        gpu._functions |= {name: loaded.get_function(name) for name in code_by_kernel(cubin)}
    gpu.timed_code = lambda kernel: sass_cubin.TimedCode((), ())
    for experiment in experiments:
        if {kernel.name for kernel in experiment.kernels()} <= names:
            experiment.measure(gpu)
            done += 1
    return done


def main(every: int = 10, threads: int = 16, together: int = 4) -> None:
    print(f"every {every}th, {threads} threads, {together} in a module")
    print("| stage | seconds | CPU | of children | MB | MB at most |\n|---|--:|--:|--:|--:|--:|")
    with stage("experiments"):
        found = [one for one in dialogues("cost").values() if one.target.on(arch("sm_90"))][::every]
        found = [one for one in found if version(one.target.ptx) < (9, 0)]
    with stage("CuPy, context"):
        gpu = opened()
    with stage("texts"):
        kernels = [kernel for one in found for kernel in one.kernels()]
        texts = modules(kernels, together)
    with stage("compiling"):
        cubins = compiled(gpu, texts, threads)
    with stage("reading"):
        codes = {name: raw for cubin in cubins for name, raw in code_by_kernel(cubin).items()}
        loops_found = read(codes, threads)
    size = sum(map(len, codes.values())) / 1e6
    print(f"{len(found)} experiments, {len(kernels)} kernels, {size:.1f} MB of code, {loops_found} loops")
    if gpu:
        with stage("loading, running"):
            done = run(gpu, cubins, found, set(codes))
        print(f"{done} experiments ran")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
