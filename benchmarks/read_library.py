"""What `tcprobe read` of a large library takes: python benchmarks/read_library.py [MB [KERNELS]]

Makes a fatbin of so many MB (100) with so many kernels (1,000) for sm_90, in cubins of 20 kernels each: multiplies,
loads from shared memory and arithmetic, compiled once by ptxas; names and a constant differ in every cubin. Then
`tcprobe read --json` reads it as a process of its own. Printed: what was made, CPU seconds, those of the tools
included, wall seconds, and the largest resident size of a process. Needs ptxas, nvdisasm and Linux.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tcprobe.sass import toolchain
from tcprobe.sass.image import ENTRY, HEADER

TOGETHER = 20  # kernels of a cubin
NAME, CONSTANT = "kernel_0000_", 0x5EED0000
MULTIPLY = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {r0,r1,r2,r3}, {r4,r5}, {f0,f1,f2,f3};"


def ptx(steps: int) -> str:
    """A module of TOGETHER kernels, each of so many steps: four loads, a multiply, four instructions of arithmetic."""
    step = []
    for number in range(steps):
        step += [f"ld.shared.b32 r{i}, [a+{16 * (number % 2000) + 4 * i}];" for i in range(4)]
        step += [MULTIPLY, *(f"fma.rn.f32 f{i}, f{i}, f{(i + 1) % 4}, 0f3F{number % 128:02X}0000;" for i in range(4))]
    body = [
        ".reg .b32 r<6>; .reg .f32 f<4>; .reg .u64 p; .reg .u32 a;",
        "ld.param.u64 p, [out]; mov.u32 a, %tid.x; shl.b32 a, a, 2;",
        *(f"mov.b32 r{i}, {CONSTANT:#x};" for i in range(6)),
        *(f"mov.f32 f{i}, 0f3F800000;" for i in range(4)),
        *step,
        *(f"st.global.f32 [p+{4 * i}], f{i};" for i in range(4)),
        "st.global.b32 [p+16], r5; ret;",
    ]
    text = "\n".join(body)
    kernels = (f".visible .entry {NAME}{i:02}(.param .u64 out) {{\n{text}\n}}" for i in range(TOGETHER))
    return "\n".join([".version 8.0", ".target sm_90", ".address_size 64", *kernels])


def compiled(tools: toolchain.Toolchain, folder: Path, steps: int) -> bytes:
    source, made = folder / "k.ptx", folder / "k.cubin"
    source.write_text(ptx(steps))
    subprocess.run([tools.ptxas, "-arch", "sm_90", str(source), "-o", str(made)], check=True)
    return made.read_bytes()


def library(cubin: bytes, count: int) -> bytes:
    """A fatbin of so many cubins, with names and a constant of their own."""
    entries = []
    for number in range(count):
        own = cubin.replace(NAME.encode(), f"kernel_{number:04}_".encode())
        own = own.replace(CONSTANT.to_bytes(4, "little"), (CONSTANT + number).to_bytes(4, "little"))
        own += bytes(-len(own) % 8)
        entries.append(
            ENTRY.pack(2, 0x101, 64, len(own), 0, 0, 0x10008, 90, 0, 0x11, 0, 0) + bytes(64 - ENTRY.size) + own
        )
    body = b"".join(entries)
    return HEADER.pack(0xBA55ED50, 1, 16, len(body)) + body


def main(size: int = 100, kernels: int = 1000) -> None:
    tools, count = toolchain.find(), kernels // TOGETHER
    with tempfile.TemporaryDirectory() as folder:
        one = len(compiled(tools, Path(folder), 200))
        each = (len(compiled(tools, Path(folder), 400)) - one) / 200
        cubin = compiled(tools, Path(folder), int(200 + ((size << 20) / count - one) / each))
        path = Path(folder, "library.fatbin")
        path.write_bytes(library(cubin, count))
        print(f"{path.stat().st_size / (1 << 20):.0f} MB, {count * TOGETHER} kernels", flush=True)
        begun = time.perf_counter()
        command = [sys.executable, "-m", "tcprobe", "read", str(path), "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        found = [json.loads(line) for line in process.stdout]
        _, _, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        multiplies = sum(one["count"] for function in found for one in function["instructions"])
        cpu = used.ru_utime + used.ru_stime
        print(f"{len(found)} functions, {multiplies} matrix instructions: {cpu:.0f} CPU s, {wall:.0f} s", flush=True)
        print(f"largest resident size {used.ru_maxrss / 1024:.0f} MB; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
