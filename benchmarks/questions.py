"""What answers cost: python benchmarks/questions.py [REPEATS], ratios within this run; needs the dev extra.

- where, trace and show, against `python -c "import click, rich"`; target: at most 2
- convert and emit; target: below 0.5 s
- SASS instructions of the emitted row and col, against expressions in the style of the PTX manual, both of runtime lane
  and i, compiled for sm_90; target: at most as many
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import nvrtc

from tcprobe import emit
from tcprobe.code.names import identifier
from tcprobe.sass import toolchain
from tcprobe.sass.decode import LINE, opcode_of
from tcprobe.sass.elf import contents
from tcprobe.store.cell import load

TCPROBE = [sys.executable, "-c", "from tcprobe.__main__ import main; main()"]  # as the installed command does
KEPT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # compiled once, as when installed
FLOOR = [sys.executable, "-c", "import click, rich"]
D, A = (f"mma.m16n8k16.row.col.f32.f16.f16.f32.{operand}" for operand in "da")
COMMANDS = {
    "where": ["where", A, "--row", "3", "--col", "9"],
    "trace": ["trace", A.removesuffix(".a"), "--row", "3", "--col", "2"],
    "show": ["show", A],
    "convert": ["convert", D, "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a"],
    "emit": ["emit", A.removesuffix(".a"), "--to", "cuda"],
}
# group = lane >> 2, member = lane % 4, as PTX ISA 9.7.14.5 writes them
MANUAL = {
    A: ("i < 2 || (i >= 4 && i < 6) ? group : group + 8", "i < 4 ? member * 2 + (i & 1) : member * 2 + (i & 1) + 8"),
    A.replace(".a", ".b"): ("i < 2 ? member * 2 + (i & 1) : member * 2 + (i & 1) + 8", "group"),
    D: ("i < 2 ? group : group + 8", "member * 2 + (i & 1)"),
    "mma.m16n8k8.row.col.f32.tf32.tf32.f32.a": (
        "i == 0 || i == 2 ? group : group + 8",
        "i == 0 || i == 1 ? member : member + 4",
    ),
    "mma.m16n8k32.row.col.s32.s8.s8.s32.a": (
        "i < 4 || (i >= 8 && i < 12) ? group : group + 8",
        "i < 8 ? member * 4 + (i & 3) : member * 4 + (i & 3) + 16",
    ),
    "mma.m16n8k32.row.col.s32.s8.s8.s32.b": ("i < 4 ? member * 4 + (i & 3) : member * 4 + (i & 3) + 16", "group"),
    "mma.m16n8k64.row.col.s32.s4.s4.s32.a": (
        "i < 8 || (i >= 16 && i < 24) ? group : group + 8",
        "i < 16 ? member * 8 + (i & 7) : member * 8 + (i & 7) + 32",
    ),
    "mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc.a": (
        "i < 32 || (i >= 64 && i < 96) ? group : group + 8",
        "i < 64 ? member * 32 + (i & 0x1F) : member * 32 + (i & 0x1F) + 128",
    ),
    "mma.m8n8k4.row.col.f32.f16.f16.f32.d": (
        "lane < 16 ? (lane & 1) + (i & 2) : (lane & 1) + (i & 2) + 4",
        "(i & 4) + (lane & 2) + (i & 1)",
    ),
}
KERNEL = """
extern "C" __global__ void {name}(const {type}* in, {type}* out) {{
  const {type} lane = in[threadIdx.x], i = in[threadIdx.x + 32], group = lane >> 2, member = lane % 4;
  (void)group, (void)member;
  out[threadIdx.x] = {text};
}}
"""


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=KEPT)
    return time.perf_counter() - start


def starts(repeats: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in ("floor", *COMMANDS)}
    for command in COMMANDS.values():
        seconds([*TCPROBE, *command])
    for _ in range(repeats):
        for name, taken in times.items():
            taken.append(seconds(FLOOR if name == "floor" else [*TCPROBE, *COMMANDS[name]]))
    floor = statistics.median(times["floor"])
    print(f"import click, rich        {floor:.3f} s")
    for name in COMMANDS:
        median = statistics.median(times[name])
        target = "at most 2" if name in ("where", "trace", "show") else "below 0.5 s"
        print(f"{name:<12}{median:>8.3f} s{median / floor:>8.2f}  target: {target}")


def counts(texts: dict[str, str]) -> dict[str, int]:
    """SASS instructions of kernels by name, without NOP and the branch at the end."""
    lib, tools = nvrtc.library(), toolchain.find()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        source, cubin, image = (Path(folder) / f"code.{end}" for end in ("ptx", "cubin", "bin"))
        source.write_text(nvrtc.ptx(lib, "\n".join(texts.values()), "-arch=compute_90", "-std=c++17"))
        subprocess.run([tools.ptxas, "-arch", "sm_90", str(source), "-o", str(cubin)], check=True)
        for name, (raw, *_) in contents(cubin)[1].items():
            image.write_bytes(raw)
            done = subprocess.run(
                [tools.nvdisasm, "--binary", "SM90", str(image)], check=True, capture_output=True, text=True
            )
            opcodes = [opcode_of(m[2]) for m in map(LINE.match, done.stdout.splitlines()) if m]
            found[name] = sum(opcode not in ("NOP", "BRA") for opcode in opcodes)
    return found


def sass() -> None:
    header = emit.emit("cuda", [load(name, "sm_90") for name in MANUAL])
    texts = {"header": header}
    for name, pair in MANUAL.items():
        for output, text in zip(("row", "col"), pair, strict=True):
            key = f"{identifier(name)}_{output}"
            texts |= {f"{key}_manual": KERNEL.format(name=f"{key}_manual", type="unsigned", text=text)}
            call = f"tcprobe::{identifier(name)}::{output}(lane, i)"
            texts |= {f"{key}_ours": KERNEL.format(name=f"{key}_ours", type="int", text=call)}
    found = counts(texts)
    print(f"\n{'SASS instructions of a kernel that computes it':<62}emitted  manual")
    for name in MANUAL:
        for output in ("row", "col"):
            key = f"{identifier(name)}_{output}"
            ours, manual = found[f"{key}_ours"], found[f"{key}_manual"]
            mark = "" if ours <= manual else "  MORE"
            print(f"{name + ' ' + output:<62}{ours:>7}{manual:>8}{mark}")


if __name__ == "__main__":
    starts(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
    sass()
