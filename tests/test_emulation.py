"""Opcodes that only emulated multiplies have: exact, or refused."""

import re

import numpy as np
import pytest

from tcprobe.isa.dtypes import dtype
from tcprobe.sass.decode import UnreadError, exact, operand
from tcprobe.sass.emulation import DEPTH, EMULATION, MANTISSA, fp8
from tcprobe.sass.machine import Machine

LANES = np.arange(32, dtype=np.uint32)


def machine(**registers):
    found = Machine(1, [], bytes(20), 0x160)
    for name, value in registers.items():
        found.set("R", int(name[1:]), np.broadcast_to(np.asarray(value, np.uint32), 32))
    return found


def step(m, text):
    m.next = 0
    m._step(exact(text), EMULATION)


def f32(*values):
    return [int(np.float32(v).view(np.uint32)) for v in values]


def halves(low, high):
    return int(np.array([low, high], np.float16).view(np.uint32)[0])


@pytest.mark.parametrize(
    ("text", "registers", "expected"),
    [
        ("FFMA R0, R1, R2, R3", dict(zip(("R1", "R2", "R3"), f32(-3, 5, 40), strict=True)), f32(25)[0]),
        ("FMUL R0, R1, R2", dict(zip(("R1", "R2"), f32(-3, 5), strict=True)), f32(-15)[0]),
        ("FADD R0, R1, R2", dict(zip(("R1", "R2"), f32(-3, 5), strict=True)), f32(2)[0]),
        ("HADD2 R0, R1, R2", {"R1": halves(1, -7), "R2": halves(2, 9)}, halves(3, 2)),
        ("HADD2.F32 R0, -RZ, R1.H0_H0", {"R1": halves(11, -7)}, f32(11)[0]),
        ("HADD2.F32 R0, -RZ, R1.H1_H1", {"R1": halves(11, -7)}, f32(-7)[0]),
        ("F2FP.PACK_AB R0, R1, R2", dict(zip(("R1", "R2"), f32(-3, 5), strict=True)), halves(5, -3)),
        ("F2FP.F16.F32.PACK_AB R0, R1, R2", dict(zip(("R1", "R2"), f32(-3, 5), strict=True)), halves(5, -3)),
        ("F2FP.F16.E4M3.UNPACK_B R0, R1", {"R1": 0xB8_B4_00_40 & 0xFFFF0000 | 0x38_C0}, halves(-2, 1)),
        ("F2FP.F16.E4M3.UNPACK_B R0, R1.H1", {"R1": 0x38C0_0000}, halves(-2, 1)),
        ("F2FP.F16.E5M2.UNPACK_B R0, R1", {"R1": 0x3CC0}, halves(-2, 1)),
        ("SHF.R.S32.HI R0, RZ, 0x4, R1", {"R1": 0x8000_0070}, 0xF800_0007),
        ("CS2R R0, SRZ", {}, 0),
    ],
)
def test_what_they_compute(text, registers, expected):
    m = machine(**registers)
    step(m, text)
    assert (m.word("R", 0) == expected).all()


def test_shuffles_take_the_word_of_the_lane_named():
    m = machine(R1=LANES * 3, R2=31 - LANES, R3=LANES + 32)
    step(m, "SHFL.IDX PT, R0, R1, R2, 0x1f")
    assert (m.word("R", 0) == (31 - LANES) * 3).all()
    step(m, "SHFL.IDX PT, R0, R1, R3, 0x1f")  # the lane counts modulo 32
    assert (m.word("R", 0) == LANES * 3).all()
    step(m, "SHFL.IDX PT, RZ, RZ, RZ, RZ")


@pytest.mark.parametrize(
    "text",
    [
        "FADD R0, R1, R1",  # 0.5
        "FFMA R0, R2, R2, RZ",  # 2^13 squared is above 2^24
        "FADD R0, R3, RZ",  # not a number
        "FADD R0, -R4, R4",
        "FADD.FTZ R0, R4, R4",
        "HADD2 R0, R5, R5",  # 2048 + 2048
        "HADD2.F32 R0, R4, R5.H0_H0",
        "HADD2.F32 R0, -RZ, R5",
        "F2FP.PACK_AB R0, R2, R2",  # 8192 is not an exact f16 for sure
        "F2FP.F16.E4M3.UNPACK_B R0, R6",  # the largest exponent
        "F2FP.F16.E4M3.UNPACK_B R0, R5.H0_H0",
        "SHFL.IDX PT, R0, R4, R4, 0x1c1f",
        "SHFL.IDX P0, R0, R4, R4, 0x1f",
        "SHFL.BFLY PT, R0, R4, R4, 0x1f",
        "CS2R R0, SR_CLOCKLO",
        "SHF.R.S32.HI R0, R4, 0x4, R4",
        "RET.REL.NODEC R10 0x0",
        "CALL.REL.NOINC R4",
        "@P0 SHFL.IDX PT, R0, R4, R4, 0x1f",
    ],
)
def test_what_is_not_exact_is_refused(text):
    half, large, nan, four = f32(0.5, 2.0**13, np.nan, 4)
    m = machine(R1=half, R2=large, R3=nan, R4=four, R5=halves(2048, 2048), R6=0x7F7F, R10=16, R11=0)
    m.decide(operand("P0"), LANES < 7)
    with pytest.raises(UnreadError):
        step(m, text)


def test_routines_come_back_to_where_they_were_called():
    code = [
        "MOV R4, 0x20",
        "CALL.REL.NOINC 0x40",
        "IADD3 R0, R0, 0x1, RZ",
        "EXIT",
        "IADD3 R0, R0, 0x10, RZ",
        "RET.REL.NODEC R4 0x0",
    ]
    m = machine(R0=0, R5=0)
    m.run({16 * j: exact(text) for j, text in enumerate(code)}, 0, EMULATION)
    assert (m.word("R", 0) == 0x11).all()
    code[0] = "MOV R4, 0x30"
    with pytest.raises(UnreadError, match="a return to elsewhere than after its call"):
        machine_run(code)
    endless = ["CALL.REL.NOINC 0x0"]
    with pytest.raises(UnreadError, match="calls this deep within each other are not modelled"):
        machine_run(endless)
    assert DEPTH < 10


def machine_run(code):
    lines = {16 * j: exact(text) for j, text in enumerate(code)}
    machine(R0=0, R5=0).run(lines, 0, EMULATION)


@pytest.mark.parametrize("kind", MANTISSA)
def test_fp8_is_what_the_type_says(kind):
    """Whole numbers by `DType.pattern`, all other bytes by their sign, exponent and fraction."""
    row, mantissa = dtype(kind.lower()), MANTISSA[kind]
    for value in range(-8, 9):
        assert fp8(np.array([row.pattern(value, 8)], np.uint8), mantissa)[0] == value
    raw = np.arange(256, dtype=np.uint8)
    bias = (1 << 7 - mantissa - 1) - 1
    for byte, found in zip(raw.tolist(), fp8(raw, mantissa).tolist(), strict=True):
        exponent, fraction = byte >> mantissa & (1 << 7 - mantissa) - 1, byte & (1 << mantissa) - 1
        if exponent == (1 << 7 - mantissa) - 1:
            assert np.isnan(found)
            continue
        one = 1 if exponent else 0
        wanted = (one + fraction / (1 << mantissa)) * 2.0 ** (max(exponent, 1) - bias)
        assert found == (-wanted if byte >> 7 else wanted), byte


def test_every_name_is_an_opcode():
    assert all(re.fullmatch(r"[A-Z0-9_]+(\.[A-Z0-9_]+)*", name) for name in EMULATION)
