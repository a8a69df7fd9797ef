"""Source lines from a cubin's own table: what nvdisasm prints of it, and nothing of a damaged one."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest
from machine_code import needs_tools

from tcprobe.sass import toolchain
from tcprobe.sass.decode import LINE
from tcprobe.sass.elf import sections
from tcprobe.sass.source_lines import source_lines

pytestmark = needs_tools
SOURCE = re.compile(r'\s*//## File "([^"]*)", line (\d+)$')
FUNCTION = re.compile(r"\.text\.(.+):")
TEXT = """.version 7.8
.target sm_80
.address_size 64
.file 1 "/src/kernel.cu"
.file 2 "/src/deep/helper.cuh"
"""
BODY = """
.visible .entry {name}(.param .u64 out) {{
.reg .b32 a, b, c; .reg .b64 p;
.loc 1 {first} 0
ld.param.u64 p, [out];
mov.u32 a, %tid.x;
.loc 1 {call} 3
st.global.u32 [p+12], a;
.loc 2 8 1, function_name $L_helper, inlined_at 1 {call} 3
mad.lo.u32 b, a, a, 5;
.loc 2 300 0, function_name $L_helper, inlined_at 2 8 1
st.global.u32 [p], b;
.loc 1 {last} 0
membar.gl;
ld.global.u32 c, [p+4];
st.global.u32 [p+8], c;
ret;
}}
"""
NAMES = ".section .debug_str {\n$L_helper:\n.b8 104, 101, 108, 112, 0\n}\n"


def built(folder: Path) -> Path:
    """Two kernels with lines, some of them inlined."""
    text = TEXT + BODY.format(name="one", first=11, call=12, last=20)
    text += BODY.format(name="two", first=400, call=10, last=5)
    source, output = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(text + NAMES)
    ptxas = toolchain.find(None).ptxas
    subprocess.run([ptxas, "-lineinfo", "-arch", "sm_80", source, "-o", output], check=True)
    return output


def printed(cubin: Path) -> dict[tuple[str, int], tuple[str, int]]:
    """What nvdisasm prints right above an instruction, by function and address: of several the outermost."""
    command = [toolchain.find(None).nvdisasm, "-c", "-gi", cubin]
    found, function, line = {}, "", None
    for text in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if match := FUNCTION.fullmatch(text):
            function, line = match[1], None
        elif match := SOURCE.match(text):
            line = match[1], int(match[2])
        elif match := LINE.match(text):
            if line:
                found[function, int(match[1], 16)] = line
            line = None
    return found


def test_lines_are_those_that_nvdisasm_prints(tmp_path: Path) -> None:
    cubin = built(tmp_path)
    lines, wanted = source_lines(cubin.read_bytes()), printed(cubin)
    assert {name for name, _ in wanted} == set(lines) == {"one", "two"}
    assert len(wanted) > 8
    assert {(name, place): lines[name].at(place) for name, place in wanted} == wanted
    assert {file for file, _ in wanted.values()} == {"/src/kernel.cu"}
    assert {number for _, number in wanted.values()} == {11, 12, 20, 400, 10, 5}


def test_damaged_tables_give_no_lines_or_others(tmp_path: Path) -> None:
    raw = built(tmp_path).read_bytes()
    table = next(section.data for section in sections(raw) if section.name == ".debug_line")
    begin = raw.index(table)
    rng = random.Random(3)
    for _ in range(400):
        bad = bytearray(raw)
        for _ in range(rng.randint(1, 4)):
            bad[begin + rng.randrange(len(table))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        for lines in source_lines(bytes(bad)).values():
            lines.at(0)
    program = begin + 10 + int.from_bytes(table[6:10], "little")
    endless = b"\x03" + b"\x80" * (begin + len(table) - program - 1)  # a number that does not end
    assert source_lines(raw)
    assert source_lines(raw[:program] + endless + raw[begin + len(table) :]) == {}


@pytest.mark.parametrize("raw", [b"", b"\x7fELF", b"\x7fELF" + bytes(100)])
def test_what_is_no_cubin_has_no_lines(raw: bytes) -> None:
    assert source_lines(raw) == {}
