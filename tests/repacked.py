"""Repacked weights as cases: what a code is worth comes from ml_dtypes and NumPy; what a slot holds, from the table."""

import importlib.util
import itertools
import re
import shutil
import tempfile
from pathlib import Path

import emitted
import ml_dtypes
import numpy as np
import pytest

from tcprobe.ask.load import repack_code
from tcprobe.ask.load.repack import repack, with_zeros
from tcprobe.code import dequantize
from tcprobe.errors import UsageError
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import Role

F16 = "mma.m16n8k16.row.col.f32.f16.f16.f32"
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
NAN = (0x7F, 0xFF)  # of e4m3
ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")


def worth(stored):
    """The value of every code; NaN is 0, as no packer takes one."""
    bits = dtype(stored).bits
    codes = np.arange(1 << bits, dtype=np.uint8)
    if stored in ("s4", "s8"):
        return ((codes.astype(int) ^ 1 << bits - 1) - (1 << bits - 1)).astype(float)
    if stored == "u4":
        return codes.astype(float)
    known = codes.view(ml_dtypes.float8_e4m3fn) if stored == "e4m3" else codes.view(ml_dtypes.float4_e2m1fn)
    return np.nan_to_num(known.astype(float), nan=0.0)


def patterns(values, target):
    """The bits of values in a type, which has to hold them exactly; those of 16 bits as uint16, of 8 as uint8."""
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "s8": np.int8, "u8": np.uint8}[target]
    made = values.astype(kind)
    assert (made.astype(float) == values).all()
    return made.view(np.uint8 if made.itemsize == 1 else np.uint16)


def as_given(stored, codes):
    """What a packer takes for codes."""
    return worth(stored).astype(int)[codes] if not dtype(stored).is_float else codes


def module(plan, packer, folder):
    """The module that is printed, in a folder of its own: Python keeps what it compiled by a file's second and size."""
    file = Path(tempfile.mkdtemp(dir=folder)) / f"{packer}_packer.py"
    file.write_text(repack_code.packer_source(plan, packer))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def plans(cells, group=False, zeros=False):
    """Every stored type for each fragment, where there are zero points those that have them."""
    for cell, stored in itertools.product(cells, dequantize.STORED):
        try:
            plan = repack(cell, stored)
            if not group or cell.fragment.type in ("f16", "bf16"):
                size = plan.k // 2 if plan.steps > 1 else plan.k
                plan = repack(cell, stored, None, size) if group else plan
                yield with_zeros(plan) if zeros else plan
        except UsageError:
            continue


def factors():
    return [cell for cell in emitted.cells() if cell.fragment.role is Role.FACTOR]


def every_code(plan):
    """Codes (k, lines) of as many blocks along k as there are codes: every slot of a block has each once."""
    stored = plan.conversion.source
    count = 1 << dtype(stored).bits
    at = np.random.default_rng(2).integers(0, count, (plan.k, plan.lines))
    codes = (at[None] + np.arange(count)[:, None, None]) % count
    if stored == "e4m3" and plan.conversion.target != stored:
        codes[np.isin(codes, NAN)] = 0
    return codes.reshape(-1, plan.lines)


def seen_by_threads(plan, values):
    """What each register's elements are, [block, thread, step, slot], of a matrix (k, lines)."""
    fragment, cells = plan.cell.fragment, plan.cell.table.cells
    row, col = np.array(cells).reshape(fragment.threads, fragment.elements, -1)[..., :2].transpose(2, 0, 1)
    depth, line = (col, row) if fragment.operand == "a" else (row, col)
    step = np.arange(plan.steps)[:, None] * plan.step_k
    blocks = values.reshape(-1, plan.k, plan.lines)
    return blocks[:, depth[:, None] + step, np.broadcast_to(line[:, None], (len(line), plan.steps, line.shape[1]))]


BODY = """for (int b = 0; b < {blocks}; ++b) {{
    unsigned words[{name}::WORDS], registers[{name}::STEPS][{name}::REGISTERS];
    {name}::load(input, b, running, words);
    {convert}
    {scale}
    memcpy(output + (b * {threads} + running) * sizeof registers, registers, sizeof registers);
  }}"""
CONVERT = "{name}::convert(words, registers);"
CONVERT_LESS_ZEROS = """unsigned zeros_of[{name}::GROUPS][{name}::SCALES][{name}::ZEROS];
    {name}::load_zeros(input + {at}, {lines}, b, 0, running, zeros_of);
    {name}::convert(words, zeros_of, registers);"""
CONVERT_OF = re.compile(r"(?:unsigned zeros_of.*?)?\w+::\w+::convert\(words,[^;]*;", re.DOTALL)
SCALE_OF = re.compile(r"unsigned held.*?scale\(held, registers\);", re.DOTALL)
SCALE = """unsigned held[{name}::GROUPS][{name}::SCALES];
    {name}::load_scales(input + {at}, {lines}, b, 0, running, held);
    {name}::scale(held, registers);"""


def case(plan, folder):
    """All blocks loaded and converted, with scales and zero points where the plan has them."""
    codes, threads, target = every_code(plan), plan.cell.fragment.threads, plan.conversion.target
    given = as_given(plan.conversion.source, codes)
    packer = module(plan, "numpy", folder)
    words = packer.repack(given.T if plan.cell.fragment.operand == "a" else given)
    name = f"{plan.cell.arch}::{repack_code.name(plan)}"
    data, scale, convert = words.tobytes(), "", CONVERT.format(name=name)
    if plan.conversion.source == target:
        elements = seen_by_threads(plan, codes)
        wanted = emitted.packed(elements, dtype(target).bits, np.uint32).tobytes()
    else:
        values = worth(plan.conversion.source)[codes]
        if plan.group:
            kind = np.float16 if target == "f16" else ml_dtypes.bfloat16
            factor = np.random.default_rng(4).uniform(0.01, 2, (len(codes) // plan.group, plan.lines)).astype(kind)
            if plan.zeros:
                convert = CONVERT_LESS_ZEROS.format(name=name, at=len(data), lines=plan.lines)
                least, most = plan.zero_range
                zeros = np.random.default_rng(5).integers(least, most + 1, factor.shape)
                zeros[:, 0] = np.arange(len(zeros)) % (most + 1 - least) + least
                values = values - np.repeat(zeros, plan.group, 0)
                data += packer.pack_zeros(zeros).tobytes()
            values = (values.astype(kind) * np.repeat(factor, plan.group, 0)).astype(float)
            scale = SCALE.format(name=name, at=len(data), lines=plan.lines)
            data += factor.tobytes()
        wanted = patterns(seen_by_threads(plan, values), target).tobytes()
    body = BODY.format(blocks=len(codes) // plan.k, name=name, threads=threads, convert=convert, scale=scale)
    what = f"{plan.cell.fragment.id} of {plan.conversion.source}, {plan.group}{', zeros' * plan.zeros}"
    # the guard is of the text: two archs with the same code have it twice here
    text = re.sub(r"\bTCPROBE_[0-9a-f]{12}\b", rf"\g<0>_{plan.cell.arch}", repack_code.source(plan))
    code = f"namespace {plan.cell.arch} {{ {text} }}"
    return emitted.Case(what, code, body, threads, data, wanted)
