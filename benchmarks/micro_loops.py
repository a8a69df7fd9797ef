"""Loops of one class of instruction each, ablated: does the patch free what it claims?

    python benchmarks/micro_loops.py --out micro.jsonl [--seconds 60] [--classes fp32,multiplies] [--filler nop]
    python benchmarks/micro_loops.py --out guard.jsonl --filler guard
    python benchmarks/micro_loops.py --table micro.jsonl guard.jsonl       # as in docs/ablate.md

Each loop does some instructions of its class a round in WARPS warps of one block. Without them a round takes no more
than its issue slots: a scheduler's warps issue one instruction a cycle, and each warp keeps its stall counts. A class
is freed where `without` is within TOLERANCE of that bound.
Lines of JSON are added to --out; classes that are there are not run again. --filler: what stands in place of what is
patched away; guard: the instruction itself, its guard false. Needs CuPy and a GPU; --table does not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import json_lines

from tcprobe.loops import patch, runs
from tcprobe.loops.ablate import ablate
from tcprobe.loops.loop import Loop, main_loop
from tcprobe.sass import toolchain
from tcprobe.sass.code_files import CodeFiles
from tcprobe.sass.disassemble import programs
from tcprobe.sass.kernel import Kernel

WARPS, ITERATIONS, TOLERANCE = 16, 200, 1.1
SLACK = 30  # cycles of a round for the branch, the counter and the phases of warps
REGISTERS = 8  # chains


def chains(count: int, form: str) -> str:
    """Instructions in REGISTERS chains."""
    return "\n".join(form.format(j % REGISTERS) for j in range(count))


MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
BODIES = {
    "multiplies": "\n".join(
        f"{MMA} {d}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {d};"
        for d in ("{" + ", ".join(f"%f{j}{i}" for i in range(4)) + "}" for j in (1, 2, 3, 4) * 4)
    ),
    "shared-loads": "\n".join(
        f"ld.volatile.shared.v4.u32 {{%t{4 * j}, %t{4 * j + 1}, %t{4 * j + 2}, %t{4 * j + 3}}}, [%sa+{512 * j}];"
        for j in range(16)
    )
    + "\n"
    + "\n".join(f"xor.b32 %r{j % REGISTERS}, %r{j % REGISTERS}, %t{4 * j};" for j in range(16)),
    "shared-stores": "\n".join(
        f"st.volatile.shared.v4.u32 [%sa+{512 * j}], {{%r0, %r1, %r2, %r3}};" for j in range(16)
    ),
    "copies": "\n".join(f"cp.async.ca.shared.global [%sa+{512 * j}], [%ga+{512 * j}], 16;" for j in range(8))
    + "\ncp.async.wait_all;",
    "global-stores": "\n".join(f"st.volatile.global.v4.u32 [%ga+{512 * j}], {{%r0, %r1, %r2, %r3}};" for j in range(8)),
    "special-functions": chains(32, "ex2.approx.ftz.f32 %f{0}, %f{0};"),
    "fp32": chains(64, "fma.rn.f32 %f{0}, %f{0}, %f8, %f9;"),
    "fp16": chains(64, "fma.rn.f16x2 %r{0}, %r{0}, %r8, %r9;"),
    "fp64": chains(16, "fma.rn.f64 %d{0}, %d{0}, %d8, %d9;"),
    "integer": chains(64, "mad.lo.s32 %r{0}, %r{0}, %r8, %r9;"),
    "conversions": chains(32, "cvt.rzi.s32.f32 %r{0}, %f{0};\ncvt.rn.f32.s32 %f{0}, %r{0};"),
    "shuffles": chains(32, "shfl.sync.bfly.b32 %r{0}, %r{0}, 1, 31, -1;"),
    "barriers": "\n".join(["bar.sync 0;"] * 8),
}
ROUND = {  # what a round does, in SASS, in the table's order
    "multiplies": "16 HMMA.16816",
    "shared-loads": "16 LDS.128",
    "shared-stores": "16 STS.128",
    "copies": "8 LDGSTS.128",
    "special-functions": "32 MUFU.EX2",
    "fp32": "64 FFMA",
    "fp16": "64 HFMA2",
    "fp64": "16 DFMA",
    "integer": "64 IMAD",
    "conversions": "32 F2I, 32 I2F",
    "shuffles": "32 SHFL",
    "barriers": "8 BAR",
    "global-stores": "8 STG.128",
}
KERNEL = """.version 8.0
.target {target}
.address_size 64
.visible .entry loop(.param .u64 out, .param .u32 rounds) .maxntid {threads}, 1, 1 {{
.reg .b32 %r<16>, %t<64>, %sa, %i, %th; .reg .f32 %f<64>; .reg .f64 %d<16>; .reg .b64 %ga, %w; .reg .pred %p;
.shared .align 16 .b8 tile[{shared}];
ld.param.u64 %ga, [out];
ld.param.u32 %i, [rounds];
mov.u32 %th, %tid.x;
mul.wide.u32 %w, %th, 16;
add.u64 %ga, %ga, %w;
mov.u32 %sa, tile;
mad.lo.u32 %sa, %th, 16, %sa;
ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%ga];
ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%ga+16];
ld.global.v4.u32 {{%r8, %r9, %r10, %r11}}, [%ga+32];
{floats}
LOOP:
.pragma "nounroll";
{body}
sub.u32 %i, %i, 1;
setp.ne.u32 %p, %i, 0;
@%p bra LOOP;
{stores}
ret;
}}
"""
LAUNCH = """import numpy as np


def launch(kernel):
    return 1, {threads}, 0, [np.zeros(1 << 18, np.uint32), np.int32({rounds})]
"""


def text(name: str, target: str) -> str:
    """The PTX of a class's loop: what it computes is stored, so that ptxas keeps it."""
    singles = [f"%f{j}" for j in (*range(10), *(10 * a + b for a in (1, 2, 3, 4) for b in range(4)))]
    floats = "\n".join(
        [
            *(f"ld.volatile.global.f32 {register}, [%ga+{4 * j}];" for j, register in enumerate(singles)),
            *(f"ld.volatile.global.f64 %d{j}, [%ga+{8 * j}];" for j in range(10)),
        ]
    )
    used = {
        "fp64": [f"st.global.f64 [%ga+{8 * j}], %d{j};" for j in range(REGISTERS)],
        "multiplies": [f"st.global.f32 [%ga+{4 * j}], {r};" for j, r in enumerate(singles[10:])],
    }
    plain = [f"st.global.f32 [%ga+{4 * j}], %f{j};" for j in range(REGISTERS)]
    plain += [f"st.global.u32 [%ga+{64 + 4 * j}], %r{j};" for j in range(REGISTERS)]
    return KERNEL.format(
        target=target,
        threads=32 * WARPS,
        shared=32 * WARPS * 16 + 8192,
        floats=floats,
        body=BODIES[name],
        stores="\n".join(used.get(name, plain)),
    )


def bound(loop: Loop) -> int:
    """Cycles of a round whose instructions do nothing: a warp's stall counts, or a scheduler's issue slots."""
    path = loop.path()
    return max(sum(max(1, step.control.stall) for step in path), WARPS // 4 * len(path))


def loop_of(name: str, arch: str, folder: Path) -> tuple[bytes, Loop]:
    """The machine code of a class's loop."""
    tools, path = toolchain.find(None), folder / f"{name}.ptx"
    path.write_text(text(name, arch))
    (compiled,) = CodeFiles(tools, (arch,)).read(path)
    (kernel,) = programs(tools, arch, compiled.cubin.functions)
    return compiled.raw, main_loop(kernel)


def measured(name: str, arch: str, folder: Path) -> dict:
    """A class's loop, whole and without the class."""
    launch = folder / "launch.py"
    launch.write_text(LAUNCH.format(threads=32 * WARPS, rounds=ITERATIONS))
    raw, loop = loop_of(name, arch, folder)
    found = ablate(raw, loop, launch).to_json()
    without, least = found["without"].get(name), bound(loop)
    freed = without is not None and without <= least * TOLERANCE + SLACK
    return {"class": name, "freed": freed, "bound": least, **found}


def guarded(cubin: bytes, kernel: Kernel, of: patch.Patch) -> bytes:
    """With @!PT before each instruction of a class."""
    return patch.patched(cubin, kernel, of._replace(off=(), never=(*of.never, *of.off)))


def table(away: Path, guarded: Path) -> Iterator[str]:
    """Markdown: cycles of a round whole, with a false guard before each instruction, patched away, and the bound."""
    found, beside = ({row["class"]: row for row in json_lines.read(path)} for path in (away, guarded))
    yield "| a round | whole | `@!PT` | patched away | bound |"
    yield "| --- | --- | --- | --- | --- |"
    for name, words in ROUND.items():
        if name in found and name in beside:
            row = found[name]
            taken = (row["cycles"], beside[name]["without"][name], row["without"][name], row["bound"])
            yield f"| {words} | " + " | ".join("" if cycles is None else f"{cycles:.0f}" for cycles in taken) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("micro.jsonl"))
    parser.add_argument("--table", type=Path, nargs=2, metavar=("FILE", "GUARDED"))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--classes", default=",".join(BODIES))
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--filler", choices=("ffma", "nop", "guard"), default="ffma")
    asked = parser.parse_args()
    if asked.table:
        print("\n".join(table(*asked.table)))
        return 0
    patch.FILLER = patch.NOP if asked.filler == "nop" else patch.FFMA
    if asked.filler == "guard":
        runs.patched = guarded
    end = time.monotonic() + asked.seconds
    done = {row["class"] for row in json_lines.read(asked.out)}
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.classes.split(","):
            if name in done or time.monotonic() > end:
                continue
            begun = time.monotonic()
            try:
                answer = measured(name, asked.arch, Path(folder))
            except Exception as error:  # a line, not the end
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
                continue
            print(
                f"{name}: {answer['cycles']} cycles, without {answer['without'].get(name)} (bound {answer['bound']}), "
                f"freed {answer['freed']}; patched {answer['patched']}, failed {answer['failed']}, "
                f"{time.monotonic() - begun:.1f} s",
                flush=True,
            )
            json_lines.add(asked.out, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
