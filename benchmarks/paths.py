"""Wavefronts of paths, predicted and counted: by the clock of a GPU, or by its counters while the emitted code runs.

    python benchmarks/paths.py [--device N]     by the clock
    python benchmarks/paths.py --cycles         whole plans, beside what measured costs say of them
    python benchmarks/paths.py --ncu            by Nsight Compute, which must be installed

plans a path for every fragment, major and place in shared memory that has one. By the clock, the very addresses of its
issues are timed as `tcprobe run --family banks` times patterns: 16 warps, many accesses in flight; an issue takes
whole cycles, so those of each are rounded before they are added. By the counters, the emitted header of a path runs
once in one warp: `fill` and `load`, or `store` and `drain`, with plain loads and stores between global and shared
memory. Prints a Markdown table of what the rule of banks says of all issues together, and of what is counted.
With --cycles all issues of a plan run in a loop, eight in flight, in 16 warps and in one: cycles of an SM beside those
that `tcprobe path` says, and cycles of a warp alone. Of the plans' plain fills the half in shared memory is timed.
"""

import argparse
import csv
import io
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np

from tcprobe.ask.path.code import name as struct
from tcprobe.ask.path.code import source
from tcprobe.ask.path.plan import PathOptions, plan_path, request
from tcprobe.ask.plan_cost import MeasuredCosts, accesses_cost, measured_name
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.isa.shared_memory import accesses
from tcprobe.probes import banks, dialogues, timing
from tcprobe.probes.banks import AREA, BankExperiment, Cases
from tcprobe.probes.timing import IMAGE_WORDS, TimedBlock, TimedLoop
from tcprobe.store.cell import load
from tcprobe.store.choose import default

F16, HALF = "mma.m16n8k16.row.col.f32.f16.f16.f32", "mma.m16n8k16.row.col.f16.f16.f16.f16"
TF32, S8 = "mma.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.m16n8k32.row.col.s32.s8.s8.s32"
E4M3, F64 = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", "mma.m16n8k8.row.col.f64.f64.f64.f64"
FRAGMENTS = {
    f"{F16}.a": "64x64",
    f"{F16}.b": "64x64",
    f"{TF32}.a": "64x32",
    f"{TF32}.b": "32x64",
    f"{S8}.a": "64x64",
    f"{S8}.b": "64x64",
    f"{E4M3}.a": "32x64",
    f"{F64}.a": "32x16",
    f"{F64}.b": "16x32",
    f"{F16}.d": "64x32",
    f"{HALF}.d": "64x64",
    f"{S8}.d": "32x32",
    f"{F64}.d": "32x16",
}
PLACES = ("plain", "pad:16", "sw:2,4,3", "sw:3,4,3", "sw:2,5,2")
COUNTER = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
OF_LOAD, OF_STORE = COUNTER.format("ld"), COUNTER.format("st")
WARPS, FLIGHT, PART = 16, 8, 32  # of timed plans: warps, issues in flight, issues in a loop
MODULE = 16  # kernels that are compiled together
NCU = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")  # where it is, if not on PATH
KERNEL = """
extern "C" __global__ void path_{number}(unsigned char* memory, {p}::Word* held) {{
  extern __shared__ __align__(1024) unsigned char raw[];
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(raw)), lane = threadIdx.x;
  {p}::Word registers[{p}::REGISTERS];
{body}}}
"""
LOADS = """  {p}::fill(shared, memory, lane, 32);
  __syncthreads();
  {p}::load(shared, lane, registers);
  for (int j = 0; j < {p}::REGISTERS; ++j) held[lane * {p}::REGISTERS + j] = registers[j];
"""
STORES = """  for (int j = 0; j < {p}::REGISTERS; ++j) registers[j] = held[lane * {p}::REGISTERS + j];
  {p}::store(shared, lane, registers);
  __syncthreads();
  {p}::drain(shared, memory, lane, 32);
"""


def plans():
    """(fragment, global, shared, plan) of every combination that there is."""
    for (fragment, size), major, placed in product(FRAGMENTS.items(), ("row", "col"), PLACES):
        try:
            options = PathOptions(size, major, placed, fill="plain")
            yield (fragment, major, placed), plan_path(request(load(fragment, "sm_90"), options))
        except UsageError:
            continue


def steps():
    """(what, access, addresses, predicted wavefronts) of every step."""
    for what, plan in plans():
        for step in plan.steps:
            if step.shared.max() + accesses()[step.instruction].bytes <= AREA:
                yield what, step.instruction, step.shared, step.wavefronts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--ncu", action="store_true")
    parser.add_argument("--cycles", action="store_true")
    parser.add_argument("--kernels", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.kernels:
        run_kernels()
    elif asked.cycles:
        print("\n".join(cycled(asked.device)))
    else:
        print("\n".join(counted() if asked.ncu else clocked(asked.device)))


# --- by the clock ---------------------------------------------------------------------------------------------------


def clocked(device):
    found = list(steps())
    rows = timed(device, found)
    yield "| fragment | global | shared | access | issues | predicted | clock |\n|---|---|---|---|--:|--:|--:|"
    for (what, name, shared, predicted), cycles in zip(found, rows, strict=True):
        yield f"| {' | '.join(what)} | {name} | {len(shared)} | {predicted} | {cycles} |"
    equal = sum(cycles == predicted for (*_, predicted), cycles in zip(found, rows, strict=True))
    yield f"\n{equal} of {len(found)} steps of {len({what for what, *_ in found})} paths as predicted"


def timed(device, found):
    """Cycles of all issues of each step together."""
    from tcprobe.run.worker import WorkerBench

    gpu = opened(device)
    names = sorted({name for _, name, *_ in found})
    assert gpu.load([banks.kernel(accesses()[name]) for name in names]) == {}
    desk, rows = WorkerBench(gpu, gpu.devices()[device], None), {}
    for name in names:
        chosen = [n for n, (_, access, *_) in enumerate(found) if access == name]
        address = np.concatenate([found[n][2] for n in chosen])
        if accesses()[name].is_matrix:  # lanes that do not count may give any address
            address = np.where(address < 0, 0, address)
        cycles, _ = BankExperiment(accesses()[name]).time_cases(desk, Cases(address, np.zeros_like(address)))
        ends = np.cumsum([len(found[n][2]) for n in chosen])
        for n, part in zip(chosen, np.split(cycles.round().astype(int), ends[:-1]), strict=True):
            rows[n] = int(part.sum())
    return [rows[n] for n in range(len(found))]


def opened(device):
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(device)
    return gpu


# --- whole plans ----------------------------------------------------------------------------------------------------


def cycled(device):
    """A table of plans: predicted and measured cycles of an SM with WARPS warps, and measured ones of one warp."""
    costs_on, found = MeasuredCosts("sm_90", default()), list(steps())
    predicted = [accesses_cost(name, len(shared), count, costs_on) for _, name, shared, count in found]
    measured = run_steps(opened(device), found)
    rows = {}
    for (what, *_), said, clock in zip(found, predicted, measured, strict=True):
        row = rows.setdefault(what, np.zeros(3))
        row += (said.interval, *clock)
    yield f"| fragment | global | shared | `path` says | clock, {WARPS} warps | clock, one warp |"
    yield "|---|---|---|--:|--:|--:|"
    for what, row in rows.items():
        yield f"| {' | '.join(what)} | {' | '.join(f'{value:.1f}' for value in row)} |"
    said, clock, _ = np.array(list(rows.values())).T
    off = np.abs(said / clock - 1)
    yield (
        f"\n{(off <= 0.05).sum()} of {len(off)} plans within 5 %, median {np.median(off):.1%}, at most {off.max():.1%}"
    )


def run_steps(gpu, found):
    """(cycles of an SM, cycles of one warp) of all issues of each step, from the clock."""
    parts = {}  # by access and how many: (step, addresses)
    for n, (_, name, shared, _) in enumerate(found):
        for start in range(0, len(shared), PART):
            part = shared[start : start + PART]
            parts.setdefault((name, len(part)), []).append((n, np.maximum(part, 0)))
    loops = {key: issues_loop(*key) for key in parts}
    assert gpu.load([loop.kernel() for loop in loops.values()]) == {}
    cycles = np.zeros((len(found), 2))
    for (name, count), given in parts.items():
        images = np.zeros((len(given), IMAGE_WORDS // WARP, WARP), np.uint32)
        images[:, :count] = [part for _, part in given]
        blocks = [TimedBlock(warps * WARP, n) for n in range(len(given)) for warps in (WARPS, 1)]
        kernel, alone = loops[name, count].kernel(), gpu.shared_bytes() // 2 + 1024
        launch = timing.launch(kernel, blocks, alone, images.view(np.uint8).reshape(1, -1))
        least = timing.decode(launch, gpu.run([launch])[0])[:, timing.RUNS].reshape(-1, 2)
        for (n, _), (many, one) in zip(given, least, strict=True):
            cycles[n] += count * many / WARPS, count * one
    return cycles


def issues_loop(name, count):
    """A loop over so many issues of an access, whose addresses are words of the image."""
    move = dialogues("cost")[measured_name(name)]
    held = [[f"%v{j * move.registers + r}" for r in range(move.registers)] for j in range(FLIGHT)]
    body = []
    for j in range(count):
        body.append(move.ptx_text(held[j % FLIGHT], f"%at{j}"))
        if move.loads and (j % FLIGHT == FLIGHT - 1 or j == count - 1):
            body += [f"xor.b32 %joined, %joined, {v};" for names in held[: j % FLIGHT + 1] for v in names]
    addresses = [f"%at{j}" for j in range(count)]
    names = [v for one in held for v in one]
    return TimedLoop(
        f"{name}.{count}",
        "plan",
        move.target,
        count,
        [*body, *(f"add.u32 {a}, {a}, %zero;" for a in addresses)],
        [*addresses, *names, "%joined"],
        ["%joined"],
        (),
        [f"add.u32 {a}, {a}, %memory;" for a in addresses],
        threads=WARPS * WARP,
        shared=True,
    )


# --- by the counters ------------------------------------------------------------------------------------------------


def programs():
    """(what, plan, number, code) of every path that has code."""
    for number, (what, plan) in enumerate(plans()):
        p = struct(plan)
        body = (LOADS if plan.request.loads else STORES).format(p=p)
        yield what, plan, number, source(plan) + KERNEL.format(number=number, p=p, body=body)


def run_kernels():
    """Each once, in order; what Nsight Compute watches."""
    import cupy

    every = list(programs())
    memory, held = cupy.zeros(1 << 20, cupy.uint8), cupy.zeros(1 << 20, cupy.uint8)
    for start in range(0, len(every), MODULE):
        part = every[start : start + MODULE]
        module = cupy.RawModule(code="\n".join(code for *_, code in part), options=("-std=c++17",))
        for _, plan, number, _ in part:
            size = plan.request.shared.bytes(plan.request.tile)
            module.get_function(f"path_{number}")((1,), (32,), (memory, held), shared_mem=size)
    cupy.cuda.runtime.deviceSynchronize()


def counted():
    """The table, by the counters of one run of every kernel."""
    command = [
        nsight(),
        "--csv",
        "--page",
        "raw",
        "--kernel-name",
        "regex:path_[0-9]+",
        "--metrics",
        f"{OF_LOAD},{OF_STORE}",
        sys.executable,
        __file__,
        "--kernels",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if not lines:
        raise SystemExit(done.stdout[-1000:] + done.stderr[-1000:])
    rows = {row["Kernel Name"].partition("(")[0]: row for row in csv.DictReader(io.StringIO("\n".join(lines)))}
    yield "| fragment | global | shared | access | predicted | counted |\n|---|---|---|---|--:|--:|"
    equal, count = 0, 0
    for what, plan, number, _ in programs():
        for step in plan.steps:
            counter = OF_LOAD if step.instruction.startswith("ld") else OF_STORE
            found = int(float(rows[f"path_{number}"][counter].replace(",", "")))
            equal, count = equal + (found == step.wavefronts), count + 1
            yield f"| {' | '.join(what)} | {step.instruction} | {step.wavefronts} | {found} |"
    yield f"\n{equal} of {count} steps of {count // 2} paths as predicted"


def nsight():
    """Nsight Compute."""
    places = [shutil.which("ncu"), *(shutil.which("ncu", path=folder) for folder in NCU)]
    return next((found for found in places if found and Path(found).exists()), "ncu")


if __name__ == "__main__":
    main()
