"""Opcodes that only occur in the code of emulated multiplies: calls, exchange between lanes, floats.

Floats are modelled for whole numbers that their types hold exactly, so neither rounding nor the order of sums matters;
all others are refused. `registry` has the other rules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Array, Bytes, Floats
from tcprobe.sass import opcodes
from tcprobe.sass.decode import Operand
from tcprobe.sass.machine import U32, U64, Machine
from tcprobe.sass.opcodes import OPCODES, Handler, must

Computation = Callable[..., Array]
EMULATION: dict[str, Handler] = dict(OPCODES)
EXACT = {np.float16: 2.0**11, np.float32: 2.0**24, np.float64: 2.0**53}  # up to here whole numbers are exact
DEPTH = 3  # nested calls; code of ptxas has at most a routine that calls another
# mantissa bits of FP8; the sign has one bit and the exponent the rest (PTX ISA 9.1, section 5.2.3)
MANTISSA = {"E4M3": 3, "E5M2": 2}
# the types of what I2F converts, by modifier; without one it is S32
INTEGERS: dict[str, Any] = {
    "S32": np.int32, "U32": np.uint32, "S16": np.int16, "U16": np.uint16, "S8": np.int8, "U8": np.uint8,
}  # fmt: skip
INTEGERS_64: dict[str, Any] = {"S64": np.int64, "U64": np.uint64}


named = partial(opcodes.opcode, into=EMULATION)


class Input(NamedTuple):
    """An input operand of an opcode, and the machine on which it is read."""

    machine: Machine
    operand: Operand

    def read(self) -> U32:
        """As `Machine.read`."""
        return self.machine.read(self.operand)

    def read64(self) -> U64:
        """As `Machine.read64`."""
        return self.machine.read64(self.operand)


def computed(*names: str) -> Callable[[Computation], Computation]:
    """Register a function of `Input`s under opcode names; its result is written to the first operand, or a pair."""

    def register(computation: Computation) -> Computation:
        @named(*names)
        def run(m: Machine, d: Operand, *sources: Operand) -> None:
            result = computation(*[Input(m, source) for source in sources])
            m.write(d, *np.ascontiguousarray(result).view(np.uint32).reshape(m.lanes, -1).T)

        return computation

    return register


# routines and lanes


@named("CALL.REL.NOINC")
def call(m: Machine, target: Operand) -> None:
    """Continue at a routine, all lanes together; RET comes back. Nesting is limited, so the run ends."""
    must(target.kind == "number" and bool(m.active.all()), "a call on which lanes disagree")
    must(m.next is not None and len(m.returns) < DEPTH, "calls this deep within each other are not modelled")
    m.returns.append(m.next or 0)
    m.next = target.word


@named("RET.REL.NODEC")
def ret(m: Machine, target: Operand) -> None:
    """Continue after the call: the pair of registers + offset must be that address."""
    must(target.kind == "target" and bool(m.active.all()), f"{target} is not a return")
    back = bool(m.returns) and bool((m.address(target) == m.returns[-1]).all())
    must(back, "a return to elsewhere than after its call")
    m.next = m.returns.pop()


@named("SHFL.IDX")
def shfl_idx(m: Machine, p: Operand, d: Operand, a: Operand, lane: Operand, clamp: Operand) -> None:
    """d = a of another lane of the warp. Into RZ it does nothing; otherwise all lanes take part, without clamping."""
    must(str(p) == "PT", "SHFL with a predicate is not modelled")
    if d.view == "R" and d.first < 0:
        return
    must(bool(m.active.all()), "SHFL with inactive lanes is not modelled")
    must(clamp.kind == "number" and clamp.word == WARP - 1, "SHFL within parts of a warp is not modelled")
    first = np.arange(m.lanes) // WARP * WARP
    m.write(d, m.read(a)[first + (m.read(lane) % WARP)])


# floats


def whole(numbers: Array, float_type: Any = np.float32) -> Floats:
    """The numbers in 64 bits; UnreadError unless all are whole numbers that `float_type` holds exactly."""
    doubles: Floats = numbers.astype(np.float64)
    with np.errstate(invalid="ignore"):
        small = (np.abs(doubles) <= EXACT[float_type]) & (doubles == np.rint(doubles))
    must(bool(small.all()), "floats that are not small whole numbers are not modelled")
    return doubles


def _f32(float_input: Input) -> Floats:
    return whole(np.ascontiguousarray(float_input.read()).view(np.float32))


def _f32_bits(floats: Floats) -> U32:
    """Registers that hold f32 values."""
    return whole(floats).astype(np.float32).view(np.uint32)


@computed("FFMA")
def ffma(a: Input, b: Input, c: Input) -> U32:
    """a * b + c."""
    return _f32_bits(_f32(a) * _f32(b) + _f32(c))


@computed("FMUL")
def fmul(a: Input, b: Input) -> U32:
    """a * b."""
    return _f32_bits(_f32(a) * _f32(b))


@computed("FADD")
def fadd(a: Input, b: Input) -> U32:
    """a + b."""
    return _f32_bits(_f32(a) + _f32(b))


def _converted(source: str) -> Computation:
    def converted(a: Input) -> Floats:
        """A whole number as f32 or f64, which must be exact, so that how it is rounded does not matter.

        Narrow sources are the low bits of a register (cvt: PTX ISA 9.1, section 9.7.9.21).
        """
        if source in INTEGERS_64:
            return np.asarray(a.read64().view(INTEGERS_64[source]), np.float64)
        low = np.ascontiguousarray(a.read()).view(INTEGERS[source])
        return np.asarray(low[:: len(low) // a.machine.lanes], np.float64)

    return converted


def _to_f32(convert: Computation) -> Computation:
    return lambda a: _f32_bits(convert(a))


def _to_f64(convert: Computation) -> Computation:
    return lambda a: whole(convert(a), np.float64).view(np.uint64)


for _source in (*INTEGERS, *INTEGERS_64):
    _from, _suffix = _converted(_source), "" if _source == "S32" else f".{_source}"
    for _rounding in ("", ".RZ", ".RM", ".RP"):
        computed(f"I2F{_suffix}{_rounding}")(_to_f32(_from))
        computed(f"I2F.F64{_suffix}{_rounding}")(_to_f64(_from))
        if _source in ("S32", "U32"):
            computed(f"I2FP.F32.{_source}{_rounding}")(_to_f32(_from))


def _halves(register_words: U32) -> Floats:
    """Both f16 of every word, the low one first: (lanes, 2)."""
    return whole(np.ascontiguousarray(register_words).view(np.float16).reshape(-1, 2), np.float16)


def _half_bits(pairs: Floats) -> U32:
    """Registers that hold pairs of f16."""
    halves = np.ascontiguousarray(whole(pairs, np.float16).astype(np.float16))
    return halves.view(np.uint32).reshape(-1)


@computed("HADD2")
def hadd2(a: Input, b: Input) -> U32:
    """a + b in both halves."""
    return _half_bits(_halves(a.read()) + _halves(b.read()))


@computed("HADD2.F32")
def hadd2_f32(zero: Input, a: Input) -> U32:
    """One half of a as f32; the first term must be -0."""
    half = {"R.H0_H0": 0, "R.H1_H1": 1}.get(a.operand.view)
    conversion = str(zero.operand) == "-RZ" and half is not None and not a.operand.sign
    must(conversion, "HADD2.F32 that is not a conversion")
    return _f32_bits(_halves(a.machine.word("R", a.operand.encoded))[:, half or 0])


@computed("F2FP.PACK_AB", "F2FP.F16.F32.PACK_AB")
def pack(a: Input, b: Input) -> U32:
    """Converted a in the high half, converted b in the low half (cvt.rn.f16x2.f32: PTX ISA 9.1, section 9.7.9.21)."""
    return _half_bits(np.stack([_f32(b), _f32(a)], axis=1))


def _unpack(kind: str) -> Computation:
    def unpack(a: Input) -> U32:
        """Two halves: the low two bytes of a, or with .H1 the high two, each an FP8 number."""
        must(a.operand.view in ("R", "R.H1") and not a.operand.sign, f"{a.operand} is not modelled here")
        raw = np.ascontiguousarray(a.machine.word("R", a.operand.encoded)).view(np.uint8).reshape(-1, 4)
        return _half_bits(fp8(raw[:, 2:] if a.operand.view == "R.H1" else raw[:, :2], MANTISSA[kind]))

    return unpack


for _kind in MANTISSA:
    computed(f"F2FP.F16.{_kind}.UNPACK_B")(_unpack(_kind))


def fp8(raw: Bytes, mantissa: int) -> Floats:
    """FP8 bytes as numbers; the largest exponent, which has infinities or NaN, gives NaN."""
    bits = raw.astype(np.int64)
    exponent, fraction, top = bits >> mantissa & (1 << 7 - mantissa) - 1, bits & (1 << mantissa) - 1, 1 << 7 - mantissa
    significand = np.where(exponent > 0, 1 << mantissa, 0) + fraction
    value = significand * 2.0 ** (np.maximum(exponent, 1) - top / 2 + 1 - mantissa)
    value = np.where(exponent == top - 1, np.nan, value)
    return np.asarray(np.where(bits >> 7, -value, value), np.float64)
