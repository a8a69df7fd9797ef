"""How fast the driver compiles the kernels of wgmma, on a live GPU: python benchmarks/compile_threads.py [EVERY]

Every EVERYth form (8), in modules of 8 kernels, by the loader (cuModuleLoadData) and by the linker (cuLinkAddData, as
the worker does), with 1 to 8 threads and at the optimisation levels 4, the default, and 1; as ratios to the loader with
one thread at level 4. The driver's cache of compiled modules is off.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tcprobe.isa.arch import arch, version
from tcprobe.probes import experiments
from tcprobe.probes.ptx import module
from tcprobe.run import driver

TOGETHER = 8


def texts(every: int) -> list[bytes]:
    forms = [one for one in experiments().values() if one.group.startswith("wgmma")][::every]
    kernels = {launch.kernel.name: launch.kernel for one in forms for launch in one.launches()}
    ordered = sorted(kernels.values(), key=lambda kernel: version(kernel.target.ptx))
    return [module(ordered[at : at + TOGETHER], arch("sm_90")).encode() for at in range(0, len(ordered), TOGETHER)]


def loaded(cuda: ctypes.CDLL, text: bytes, level: int) -> bool:
    handle = ctypes.c_void_p()
    options, values = (ctypes.c_int * 1)(driver.JIT_OPTIMIZATION_LEVEL), (ctypes.c_void_p * 1)(level)
    if cuda.cuModuleLoadDataEx(ctypes.byref(handle), ctypes.c_char_p(text), 1, options, values):
        return False
    return cuda.cuModuleUnload(handle) == 0


def seconds(modules: list[bytes], threads: int, level: int, linked: bool) -> float:
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
        raise SystemExit("no usable GPU here")

    def compiled(text: bytes) -> bool:
        cuda.cuCtxSetCurrent(context)
        return bool(driver.assemble(text, level)[0]) if linked else loaded(cuda, text, level)

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        if not all(pool.map(compiled, modules)):
            raise SystemExit("the driver refuses a module")
    return time.perf_counter() - start


def main() -> None:
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    modules = texts(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
    seconds(modules[:1], 1, 4, False)
    whole = seconds(modules, 1, 4, False)
    print(f"{len(modules)} modules; the loader, one thread, level 4: {whole:.2f} s")
    for linked in (False, True):
        for level in (4, 1):
            for threads in (1, 2, 4, 8):
                spent = seconds(modules, threads, level, linked)
                print(f"{'linker' if linked else 'loader'}, level {level}, {threads} threads: {whole / spent:.1f}")


if __name__ == "__main__":
    main()
