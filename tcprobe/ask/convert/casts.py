"""Conversions between element types, one row each: how many source elements one instruction takes, and its PTX.

Source: PTX ISA 9.1, sections 9.7.9.21 (cvt) and 9.7.9.22 (cvt.pack), for instructions and least targets.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcprobe.errors import UsageError
from tcprobe.isa.arch import Arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment


@dataclass(frozen=True)
class Cast:
    """`pair` converts two elements (low, high) into the low bits of a word, `single` one into a word of its own, `unit`
    two that are next to each other into the byte that they share.

    `bits` is the size of a converted element, `source` the C type of a source register, `target` the least arch.
    """

    name: str
    bits: int
    source: str
    pair: str = ""
    single: str = ""
    unit: str = ""
    target: int = 70


def _cvt_pair(to: str, bits: int, least_arch: int) -> Cast:
    rounding, output = ("rn.satfinite", "=h") if bits == 8 else ("rn", "=r")
    text = f"cvt.{rounding}.{to}x2.f32 %0, %1, %2;"
    return Cast(
        f"f32 to {to}", bits, "float", pair=f'asm("{text}" : "{output}"(d) : "f"(high), "f"(low));', target=least_arch
    )


def _cvt_pack(to: str) -> Cast:
    text = f'asm("cvt.pack.sat.{to}.s32.b32 %0, %1, %2, 0;" : "=r"(d) : "r"(high), "r"(low));'
    return Cast(f"s32 to {to}", 8, "int", pair=text, target=72)


# two conversions and a move, for archs before cvt.f16x2
_TWO_HALVES = "{.reg .f16 l, h; cvt.rn.f16.f32 l, %2; cvt.rn.f16.f32 h, %1; mov.b32 %0, {l, h};}"

# two numbers of 4 bits in a byte, the first below; from sm_100a, sm_120a and their families on
_E2M1X2 = (
    'asm("{.reg .b8 both; cvt.rn.satfinite.e2m1x2.f32 both, %1, %2; cvt.u32.u8 %0, both;}" : "=r"(d) '
    ': "f"(high), "f"(low));'
)

CASTS = {
    ("f32", "f16"): _cvt_pair("f16", 16, 80),
    ("f32", "bf16"): _cvt_pair("bf16", 16, 80),
    ("f32", "e4m3"): _cvt_pair("e4m3", 8, 89),
    ("f32", "e5m2"): _cvt_pair("e5m2", 8, 89),
    ("f32", "tf32"): Cast(
        "f32 to tf32", 32, "float", single='asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(d) : "f"(x));', target=80
    ),
    ("f16", "e4m3"): Cast(
        "f16 to e4m3",
        8,
        "unsigned",
        pair='asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(d) : "r"(both));',
        target=89,
    ),
    ("f16", "e5m2"): Cast(
        "f16 to e5m2",
        8,
        "unsigned",
        pair='asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(d) : "r"(both));',
        target=89,
    ),
    ("f32", "e2m1"): Cast("f32 to e2m1", 8, "float", pair=f"{_E2M1X2} d = (d & 15) << 2 | (d & 240) << 6;", target=100),
    ("s32", "s8"): _cvt_pack("s8"),
    ("s32", "u8"): _cvt_pack("u8"),
}


# into elements of 4 bits; those in containers of 8 bits, which are shifted, are above
PACKED = {("f32", "e2m1"): Cast("f32 to packed e2m1", 8, "float", unit=_E2M1X2, target=100)}
OLDER = {
    ("f32", "f16"): Cast(
        "f32 to f16 in two", 16, "float", pair=f'asm("{_TWO_HALVES}" : "=r"(d) : "f"(high), "f"(low));'
    ),
}


def cast(from_: Fragment, to: Fragment, device: Arch) -> Cast:
    """The conversion from the type of one fragment to that of another on an arch; of none for the same type.

    UsageError where no instruction does it, or the arch does not have it.
    """
    pair = (from_.type, to.type)
    same = from_.type == to.type or (from_.type, dtype(to.type).bits) == (
        f"b{from_.slot_bits}",
        from_.slot_bits,
    )
    if same and from_.slot_bits == to.slot_bits:
        return Cast("bits", max(8, from_.slot_bits), "double" if from_.slot_bits == 64 else "unsigned")
    conversion = PACKED.get(pair) if to.slot_bits == 4 else CASTS.get(pair)
    if conversion is None or to.slot_bits not in (4, conversion.bits):
        conversions = ", ".join(f"{a} to {b}" for a, b in CASTS)
        raise UsageError(f"no conversion from {from_.type} to {to.type}; known: the same type, {conversions}.")
    if device.number < conversion.target:
        conversion = OLDER.get(pair, conversion)
    if device.number < conversion.target:
        raise UsageError(
            f"{device.name} has no instruction from {from_.type} to {to.type}; sm_{conversion.target} has."
        )
    return conversion
