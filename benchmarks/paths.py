"""Wavefronts of paths, predicted and timed: every access of shared memory that a path makes, by the clock of a GPU.

    python benchmarks/paths.py [--device N]

plans a path for every fragment, major and place in shared memory that has one, and times the very addresses of its
issues as `tcprobe run --family banks` times patterns: 16 warps, many accesses in flight. Prints a Markdown table: what the
rule of banks says of all issues together and what the clock counts. Steps of cp.async and of tensor maps are left out:
what they cost is not decided by the banks of shared memory alone.
"""

import argparse
from itertools import product

import numpy as np

from tcprobe.ask.path import PathOptions, path, request
from tcprobe.ask.path.steps import LaneCopy
from tcprobe.errors import UsageError
from tcprobe.isa.shared_memory import accesses
from tcprobe.probes import banks
from tcprobe.probes.banks import AREA, Cases
from tcprobe.run.banks import measure
from tcprobe.store.cell import load

F16, HALF = "mma.m16n8k16.row.col.f32.f16.f16.f32", "mma.m16n8k16.row.col.f16.f16.f16.f16"
TF32, S8 = "mma.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.m16n8k32.row.col.s32.s8.s8.s32"
E4M3, F64 = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", "mma.m16n8k8.row.col.f64.f64.f64.f64"
FRAGMENTS = {f"{F16}.a": "64x64", f"{F16}.b": "64x64", f"{TF32}.a": "64x32", f"{TF32}.b": "32x64", f"{S8}.a": "64x64",
             f"{S8}.b": "64x64", f"{E4M3}.a": "32x64", f"{F64}.a": "32x16", f"{F64}.b": "16x32", f"{F16}.d": "64x32",
             f"{HALF}.d": "64x64", f"{S8}.d": "32x32", f"{F64}.d": "32x16"}  # fmt: skip
PLACES = ("plain", "pad:16", "sw:2,4,3", "sw:3,4,3", "sw:2,5,2")


def plans():
    """(fragment, global, shared, plan) of every combination that there is."""
    for (fragment, size), major, placed in product(FRAGMENTS.items(), ("row", "col"), PLACES):
        try:
            yield (fragment, major, placed), path(
                request(load(fragment, "sm_90"), PathOptions(size, major, placed, fill="plain"))
            )
        except UsageError:
            continue


def steps():
    """(what, access, addresses, predicted wavefronts) of every step that reaches shared memory by lanes or matrices."""
    for what, plan in plans():
        for step in plan.steps:
            name = step.instruction
            reach = step.shared.max() + accesses()[name].bytes
            if reach <= AREA and not (isinstance(step, LaneCopy) and name.startswith("cp")):
                yield what, name, step.shared, step.wavefronts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, default=0)
    found = list(steps())
    rows = timed(parser.parse_args().device, found)
    print("| fragment | global | shared | access | issues | predicted | clock | steady |\n|---|---|---|---|--:|--:|--:|--:|")
    for (what, name, shared, predicted), (cycles, steady) in zip(found, rows, strict=True):
        print(f"| {' | '.join(what)} | {name} | {len(shared)} | {predicted} | {cycles:.1f} | {steady} |")
    equal = sum(round(cycles) == predicted for (*_, predicted), (cycles, _) in zip(found, rows, strict=True))
    print(f"\n{equal} of {len(found)} steps of {len({what for what, *_ in found})} paths as predicted")


def timed(device, found):
    """(cycles of all issues together, issues that were timed without ambiguity) of each step."""
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(device)
    names = sorted({name for _, name, *_ in found})
    assert gpu.load([banks.kernel(accesses()[name]) for name in names]) == {}
    shared_bytes, rows = gpu.shared_bytes() // 2 + 1024, {}
    for name in names:
        chosen = [n for n, (_, access, *_) in enumerate(found) if access == name]
        address = np.concatenate([found[n][2] for n in chosen])
        if accesses()[name].is_matrix:  # lanes that do not count may give any address
            address = np.where(address < 0, 0, address)
        cycles, steady = measure(gpu, accesses()[name], Cases(address, np.zeros_like(address)), shared_bytes)
        at = 0
        for n in chosen:
            end = at + len(found[n][2])
            rows[n] = float(cycles[at:end].sum()), int(steady[at:end].sum())
            at = end
    return [rows[n] for n in range(len(found))]


if __name__ == "__main__":
    main()
