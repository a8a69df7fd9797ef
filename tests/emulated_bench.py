"""A bench of `ablate` and `predict --measure` without a GPU: python emulated_bench.py [NAME=WHAT ...].

A launch takes BEFORE cycles and for each round COST of each instruction of the loop that is not predicated off: so what
is concluded can be compared with what is known. Blocks that are launched together take SLOWER times as long, in waves
of SMS x AT_ONCE, at a clock of MHZ[1]; one alone at one of MHZ[0]. The loop is that of the first kernel that is
launched, which is whole. `NAME=WHAT`: what a copy does whose loop lacks the opcode NAME: faults, dies, refused; of the
NAME grid what blocks do together.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tcprobe.loops import bench, runs
from tcprobe.loops.launch import LaunchError
from tcprobe.loops.loop import main_loop
from tcprobe.sass import toolchain
from tcprobe.sass.disassemble import programs
from tcprobe.sass.elf import cubin
from tcprobe.sass.kernel import BYTES, Instruction

BEFORE, ITERATIONS, OTHER = 10_000, 40, 1
SMS, AT_ONCE, SLOWER, MHZ = 4, 2, 1.5, (2000, 1600)
BLOCKS = 20
COST = {
    "HMMA": 16,
    "LDSM": 8,
    "LDGSTS": 4,
    "BAR": 20,
    "MUFU": 8,
    "BRA": 0,
}  # a round's way back is off in one of one round
NEVER = 0xF  # @!PT
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}"
PTX = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry loop(.param .u64 a, .param .u64 d, .param .u32 rounds) .maxntid 64, 1, 1 {{
.reg .b32 %r<8>, %s, %i, %n, %t; .reg .f32 %f<6>; .reg .b64 %a, %d, %w; .reg .pred %p;
.shared .align 16 .b8 tile[4096];
ld.param.u64 %a, [a];
ld.param.u64 %d, [d];
ld.param.u32 %n, [rounds];
mov.u32 %t, %tid.x;
mul.wide.u32 %w, %t, 16;
add.u64 %a, %a, %w;
add.u64 %d, %d, %w;
mov.u32 %s, tile;
mad.lo.u32 %s, %t, 16, %s;
ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%d];
mov.f32 %f4, 0f3F000000;
mov.u32 %i, 0;
LOOP:
.pragma "nounroll";
cp.async.ca.shared.global [%s], [%a], 16;
cp.async.wait_all;
bar.sync 0;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r0, %r1, %r2, %r3}}, [%s];
ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r4, %r5}}, [%s+1024];
{MMA}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}};
ex2.approx.ftz.f32 %f4, %f4;
fma.rn.f32 %f0, %f0, %f4, %f4;
add.u64 %a, %a, 1024;
add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, %n;
@%p bra LOOP;
st.global.v4.f32 [%d], {{%f0, %f1, %f2, %f3}};
ret;
}}
"""
LAUNCH = f"""
import numpy as np


def launch(kernel):
    a = np.zeros(1 << 16, np.uint8)
    return {BLOCKS}, 64, 0, [a, a, np.int32({ITERATIONS})]
"""


class Emulated:
    """Counts instructions."""

    device = "an emulated GPU"
    sms = SMS

    def __init__(self, ends: dict[str, str]) -> None:
        self._ends, self._tools = ends, toolchain.find(None)
        self._loop: Sequence[Instruction] = ()

    def prepare(self, launch: bench.Launch) -> list[bytes]:
        self._blocks = math.prod(launch.grid)
        return [a if isinstance(a, bytes) else (1 << 20).to_bytes(8, "little") for a in launch.arguments]

    def load(self, raw: bytes, name: str) -> tuple[float, str]:
        """Of copies the guards are read, which bits 12 to 15 of an instruction are, so that nvdisasm starts once."""
        held = cubin(raw)
        (function,) = [each for each in held.functions if each.name == name]
        if not self._loop:
            (kernel,) = programs(self._tools, held.arch, [function])
            whole = main_loop(kernel)
            self._loop = kernel.instructions[whole.first // BYTES : whole.last // BYTES + 1]
        taken = [function.code[i.address + 1] >> 4 != NEVER for i in self._loop]
        rounds = ITERATIONS if taken[-1] else 1
        live = [i.mnemonic for i, takes in zip(self._loop, taken, strict=True) if takes]
        end = next((what for stem, what in self._ends.items() if stem != "grid" and stem not in live), "")
        if end == "refused":
            raise LaunchError("is refused")
        return BEFORE + rounds * sum(COST.get(stem, OTHER) for stem in live), end

    def at_once(self, _function: tuple[float, str]) -> int:
        return AT_ONCE

    def lap(self, function: tuple[float, str]) -> bench.Lap:
        cycles, end = function
        alone = self._blocks == 1
        if not alone and self._ends.get("grid"):
            end = self._ends["grid"]
        cycles *= 1 if alone else SLOWER * -(-self._blocks // (SMS * AT_ONCE))
        if end == "dies":
            os._exit(9)
        if end:
            raise bench.LostError(end)
        return bench.Lap(cycles, 1000 * cycles / MHZ[not alone])


def shows(monkeypatch, **ends: str) -> None:
    """Have commands use this bench; `ends` by opcode."""
    command = (sys.executable, __file__, *(f"{stem}={what}" for stem, what in ends.items()))
    monkeypatch.setattr(runs, "COMMAND", command)


def written(folder: Path) -> tuple[Path, Path]:
    """The loop and its launch file."""
    (folder / "loop.ptx").write_text(PTX)
    (folder / "launch.py").write_text(LAUNCH)
    return folder / "loop.ptx", folder / "launch.py"


if __name__ == "__main__":
    ENDS = dict(text.split("=") for text in sys.argv[1:])
    bench.main(lambda *_: Emulated(ENDS))
