"""The timed loop in machine code: the opcodes in it, and those outside it while the clock runs.

A loop ends with a backward branch. The timed one is the longest between the first and the last clock reading. If a
group of warpgroup multiplies is empty, the compiler inserts a multiply without effect; its name gets "->RZ".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tcprobe.isa.arch import Arch
from tcprobe.probes.experiment import TimedCode
from tcprobe.sass.decode import opcode_of
from tcprobe.sass.toolchain import Toolchain, disassembler
from tcprobe.system.children import Scratch

if TYPE_CHECKING:
    from tcprobe.sass.cubin import ListedInstruction

_BRANCH = re.compile(r"(?:@!?U?P\d\s+)?BRA(?:\.\w+)*\s+(?:!?U?P\d\s*,\s*)?(0x[0-9a-f]+)")
LINE_BYTES = 16
_CLOCK = "SR_CLOCKLO"
_NOTHING = re.compile(r"[A-Z]GMMA\S* RZ, gdesc\[URZ\]")


def timed_codes(kernels: Mapping[str, bytes], arch: Arch, tools: Toolchain | None = None) -> dict[str, TimedCode]:
    """What is timed in each kernel of raw machine code, by name; nvdisasm runs once."""
    from tcprobe.sass.cubin import listing

    with Scratch() as scratch:
        lines = listing(tools or disassembler(), arch, scratch, b"".join(kernels.values()))
    codes, start = {}, 0
    for name, raw in kernels.items():
        end = start + len(raw) // LINE_BYTES
        codes[name] = timed_code(lines[start:end])
        start = end
    return codes


def timed_code(listed_lines: Sequence[ListedInstruction]) -> TimedCode:
    """The timed opcodes in a kernel's lines; the loop is empty if there is none."""
    readings = [address for address, text in listed_lines if _CLOCK in text]
    if len(readings) < 2:
        return TimedCode((), ())
    between = [(address, text) for address, text in listed_lines if readings[0] < address < readings[-1]]
    loops = [
        (target, address) for address, text in between for target in _targets(text) if readings[0] < target < address
    ]
    first, last = max(loops, key=lambda loop: loop[1] - loop[0], default=(0, -1))
    inside = tuple(_opcode(text) for address, text in between if first <= address <= last)
    return TimedCode(inside, tuple(_opcode(text) for address, text in between if not first <= address <= last))


def _opcode(text: str) -> str:
    return sys.intern(opcode_of(text) + ("->RZ" if _NOTHING.search(text) else ""))


def _targets(text: str) -> list[int]:
    match = _BRANCH.match(text)
    return [int(match[1], 16)] if match else []
