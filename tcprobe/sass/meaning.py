"""What an instruction computes: one function a mnemonic, over a domain of what registers may hold.

Domains are numbers in all lanes (`machine`), lanes of which bits may not be known (`reader`, by `lanes`), linear sums
of what a kernel is given (`sums`), and what a launch knows beside lanes (`loops.iterations`). A result is by the number
of an output, for the register behind it by HIGH more, and so on; what is not followed has none, or is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.opcodes import of_kind
from tcprobe.layout.arrays import Array, Words
from tcprobe.sass.decode import Form, Operand
from tcprobe.sass.lanes import AND_AB, OR_AB, XOR_AB

HIGH = 100
Value = TypeVar("Value")
Registers = Mapping[int, Any]  # what a domain keeps of registers, by their bit in `sass.registers`


class Domain(Generic[Value]):
    """How operands are read, and what operations make of values: each as `sass.lanes` has it, where it is there."""

    read: Callable[[Operand, Any], Value]  # with its sign: 32 bits, or a predicate
    word: Callable[[Operand, int, Any], Value]  # of an operand of several words one, the low one first
    special: Callable[[str, Form], Value | None]  # a special register
    constant: Callable[[int], Value]
    add: Callable[[Value, Value], Value]
    carry: Callable[..., Value]
    multiply: Callable[[Value, Value], Value]
    shift_left: Callable[[Value, int], Value]
    shift_right: Callable[..., Value]
    bitwise: Callable[[int, Value, Value, Value], Value]
    choose: Callable[[Value, Value, Value], Value]
    exactly: Callable[..., Value | None]  # a function of numbers; None unless all are, or where the function says None
    nonzero: Callable[[Value], Value | None]
    reciprocal: Callable[[Value], Value | None]  # as MUFU.RCP approximates it
    uniform: Callable[[Value], Value]  # what a uniform register takes of the lanes
    of_lane: Callable[[Value, int | None, Value | None], Value | None]  # by number, or in the lane that a value names
    of_the_warp: Callable[[bool], Value | None]  # one thing for all lanes, a predicate or a number

    def term(self, operand: Operand, registers: Any) -> Value:
        """A term of a sum: as `read`, where every operand may be negative."""
        return self.read(operand, registers)

    def moved(self, operand: Operand, number: int, registers: Any) -> Value:
        """A word that is moved, as `word`: it need not be known."""
        return self.word(operand, number, registers)

    def carries(self, operands: Sequence[Operand], registers: Any) -> Sequence[Value]:
        """The predicates that a sum takes as carries; their sum counts."""
        return [self.read(operand, registers) for operand in operands]

    def two_carries(self, count: Value) -> Value | None:
        """Each of two predicates, of which `count` are set; None unless both are alike, or counted together."""
        return self.exactly(lambda n: None if (n == 1).any() else n >> 1, count)


Meaning = Callable[[Domain[Any], Form, Registers], dict[int, Any]]
MEANINGS: dict[str, Meaning] = {}


def means(*mnemonics: str, known: str | None = None, sources: int | None = None) -> Callable[[Meaning], Meaning]:
    """Register a function as what mnemonics mean: with no other modifiers, and as many operands behind the outputs."""

    def register(function: Meaning) -> Meaning:
        modifiers = None if known is None else frozenset(known.split())

        def meaning(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
            if modifiers is not None and not modifiers.issuperset(form.modifiers):
                return {}
            if sources is not None and len(form.operands) - form.outputs != sources:
                return {}
            return function(on, form, registers)

        MEANINGS.update(dict.fromkeys(mnemonics, meaning))
        return meaning

    return register


def _inputs(form: Form) -> tuple[list[Operand], list[Operand]]:
    """The operands that are read: numbers, and predicates."""
    sources = form.operands[form.outputs :]
    return [o for o in sources if o.kind not in ("P", "UP")], [o for o in sources if o.kind in ("P", "UP")]


def _signed(operand: Operand) -> bool:
    return operand.kind != "number" and (operand.sign in ("-", "~") or operand.absolute)


def _power(operand: Operand) -> bool:
    """Whether it is a power of two."""
    return operand.kind == "number" and operand.word.bit_count() == 1


def _is_zero(operand: Operand) -> bool:
    return operand.first < 0 and operand.kind in ("R", "UR", "number") and operand.value == 0


# moves


@means("MOV", "UMOV", known="64 SPILL", sources=1)
def _mov(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    return {HIGH * j: on.moved(form.operands[1], j, registers) for j in range(2 if form.has("64") else 1)}


@means("R2UR", "CS2UR", known="FILL OR", sources=1)
def _to_uniform(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    return {form.outputs - 1: on.uniform(on.read(form.operands[-1], registers))}


@means("LDC", "LDCU", "ULDC", known="64 128", sources=1)
def _load_constant(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    """Whole words; bytes and halves (.U8) are not followed."""
    source = form.operands[1]
    if form.modifiers and (source.kind != "constant" or source.mask):
        return {}
    return {HIGH * j: on.moved(source, j, registers) for j in range(max(form.operands[0].width, 1))}


@means(*of_kind("special register"), sources=1)
def _special(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    value = on.special(form.operands[1].text, form)
    return {HIGH * j: value for j in range(max(form.operands[0].width, 1) if form.operands[1].text == "SRZ" else 1)}


@means("SEL", "USEL", known="64", sources=3)
def _select(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    (first, second), conditions = _inputs(form)
    a, b = on.read(first, registers), on.read(second, registers)
    same = str(first) == str(second)
    return {0: a if same else on.choose(on.read(conditions[0], registers), a, b)}


@means("HFMA2", known="MMA", sources=4)
def _half_constant(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    """Compilers move constants as two halves, which are printed exactly: -RZ * RZ + (high, low)."""
    texts = [operand.text for operand in form.operands]
    if texts[1:3] != ["-RZ", "RZ"] or any(operand.kind != "float" for operand in form.operands[3:]):
        return {}
    numbers = np.array([float(text) for text in texts[:2:-1]])
    with np.errstate(over="ignore"):
        halves = numbers.astype(np.float16)
    return {0: on.constant(int(halves.view(np.uint32)[0]))} if (halves == numbers).all() else {}


# sums and products


@means("IADD3", "UIADD3", "IADD", "VIADD", "UIADD", "UVIADD", known="X 64")
def _add(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    """Carries that are read count with .X; those that are written, where it is known which of two is set."""
    operands, carries = _inputs(form)
    if len(operands) != (3 if form.mnemonic.endswith("3") else 2) or len(carries) != (2 if form.has("X") else 0):
        return {}
    if form.has("64"):
        low, high = ([on.word(operand, j, registers) for operand in operands] for j in range(2))
        return {0: _total(on, *low), HIGH: _total(on, *high, on.carry(*low))}
    taken = on.read if form.has("X") else on.term
    values = [*(taken(operand, registers) for operand in operands), *on.carries(carries, registers)]
    results = {0: _total(on, *values)}
    written = [j for j in range(1, form.outputs) if form.operands[j].first >= 0]
    if written and not any(operand.sign in ("-", "~") for operand in operands):
        one = len(written) == 1 and sum(not _is_zero(operand) for operand in operands) < 3
        count = on.carry(*values)
        carry = on.exactly(lambda n: None if (n > 1).any() else n, count) if one else on.two_carries(count)
        results |= dict.fromkeys(written, carry)
    return results


def _total(on: Domain[Any], *values: Any) -> Any:
    total = on.constant(0)
    for value in values:
        total = on.add(total, value)
    return total


@means("IMAD", "UIMAD", known="U32 IADD SHL MOV X WIDE HI")
def _multiply_add(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    operands, carries = _inputs(form)
    if len(operands) != 3 or len(carries) != form.has("X") or (form.has("X") and form.has("HI")):
        return {}
    first, factor, addend = operands
    if form.has("MOV"):
        return {0: on.moved(addend, 0, registers)} if _is_zero(first) and _is_zero(factor) else {}
    if (form.has("IADD") and factor.value != 1) or (form.has("SHL") and not (_power(factor) and _is_zero(addend))):
        return {}
    taken = on.read if {"X", "WIDE", "HI"}.intersection(form.modifiers) else on.term
    a, b, c = (taken(operand, registers) for operand in operands)
    low = on.add(on.multiply(a, b), c)
    if form.has("X"):
        return {0: _total(on, low, *on.carries(carries, registers))}
    high = None
    if (form.has("WIDE") or form.has("HI")) and not any(map(_signed, operands[:2])):  # widened before or after it?
        high = on.exactly(_high_unsigned if form.has("U32") else _high, a, b, c, on.word(operands[2], 1, registers))
    return {0: high} if form.has("HI") else {0: low, HIGH: high} if form.has("WIDE") else {0: low}


def _high_unsigned(a: Words, b: Words, low: Words, high: Words) -> Array:
    """The high half of a product and an addend of 64 bits."""
    return (a.astype(np.uint64) * b + (low | high.astype(np.uint64) << np.uint64(32))) >> np.uint64(32)


def _high(a: Words, b: Words, low: Words, high: Words) -> Array:
    product = a.view(np.int32).astype(np.int64) * b.view(np.int32)
    return (product.view(np.uint64) + (low | high.astype(np.uint64) << np.uint64(32))) >> np.uint64(32)


@means("LEA", "ULEA", known="HI X SX32")
def _scaled_add(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    operands, carries = _inputs(form)
    if len(operands) < 3 or len(carries) != form.has("X") or operands[-1].kind != "number":
        return {}
    shift = operands[-1].value
    if not 0 <= shift < 32:
        return {}
    a, b = (on.read(operand, registers) for operand in operands[:2])
    if form.has("X"):
        if form.has("SX32") or not form.has("HI") or len(operands) != 4 or form.outputs > 1:
            return {}
        return {
            0: on.exactly(_scaled_high(shift), a, b, on.read(operands[2], registers), *on.carries(carries, registers))
        }
    if not form.has("HI"):
        scaled = on.shift_left(a, shift)
        result = {0: on.add(scaled, b)} if len(operands) == 3 else {}
        if form.outputs == 2 and not any(map(_signed, operands[:2])):
            result[1] = on.exactly(lambda carry: carry, on.carry(scaled, b))
        return result
    signed = form.has("SX32")
    if shift and (len(operands) == 3 if signed else len(operands) == 4 and _is_zero(operands[2])):
        return {0: on.add(on.shift_right(a, 32 - shift, signed), b)}
    return {}


def _scaled_high(shift: int) -> Callable[..., Array]:
    """The high half of 64 bits that are shifted left, and an addend and a carry."""

    def high(low: Words, addend: Words, above: Words, carry: Words) -> Array:
        both = (above.astype(np.uint64) << np.uint64(32) | low) << np.uint64(shift)
        return (both >> np.uint64(32)) + addend + carry

    return high


# bits


@means("LOP3", "ULOP3", "LOP", known="LUT")
def _logic(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    operands = form.operands[form.outputs :]
    if len(operands) < 4 or operands[3].kind != "number":
        return {}
    result = on.bitwise(operands[3].value, *[on.read(operand, registers) for operand in operands[:3]])
    if form.outputs == 1:
        return {0: result}
    return {1: result, 0: on.nonzero(result) if operands[-1].text in ("!PT", "!UPT") else None}


@means("PLOP3", "UPLOP3", known="LUT")
def _predicate_logic(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    """Three predicates, and a table for each of one or two results."""
    operands = form.operands[form.outputs :]
    values = [on.read(operand, registers) for operand in operands[:3]]
    tables = [operand.value for operand in operands[3:] if operand.kind == "number"]
    one, none = on.constant(1), on.constant(0)
    if len(values) != 3:
        return {}
    return {j: on.bitwise(AND_AB, on.bitwise(table, *values), one, none) for j, table in enumerate(tables[:2])}


@means("SHF", "USHF", known="L R W U32 S32 U64 S64 HI", sources=3)
def _shift(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    low, count, high = form.operands[form.outputs :]
    if form.has("W") or count.kind != "number":
        return _shift_by_lane(on, form, registers)
    wide, signed = form.has("U64") or form.has("S64"), form.has("S32") or form.has("S64")
    a, c, shift = on.read(low, registers), on.read(high, registers), count.value
    if form.has("R") and form.has("HI"):
        return {0: on.shift_right(c, shift, signed)} if wide or _is_zero(low) else {}
    if form.has("L") and not form.has("HI"):
        return {0: on.shift_left(a, shift)} if wide or high.first < 0 else {}
    if not wide or not 0 < shift < 32:
        return {}
    parts = (on.shift_right(a, shift), on.shift_left(c, 32 - shift))
    if form.has("L"):
        parts = (on.shift_left(c, shift), on.shift_right(a, 32 - shift))
    return {0: on.bitwise(OR_AB, *parts, on.constant(0))}


def _shift_by_lane(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    """A shift of a known number by another one."""
    if form.has("W") or not form.has("U32") or form.has("HI") != form.has("R"):
        return {}
    low, count, high = (on.read(operand, registers) for operand in form.operands[form.outputs :])
    value, other = (high, low) if form.has("R") else (low, high)

    def shifted(number: Words, by: Words, rest: Words) -> Array | None:
        if rest.any() or (by > 31).any():
            return None
        return number >> by if form.has("R") else number << by

    return {0: on.exactly(shifted, value, count, other)}


@means("PRMT", "UPRMT", known="", sources=3)
def _permute(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    operands = form.operands[form.outputs :]
    if operands[1].kind != "number" or operands[1].value >> 16:
        return {}
    a, c = on.read(operands[0], registers), on.read(operands[2], registers)
    total = on.constant(0)
    for byte in range(4):
        nibble = operands[1].value >> 4 * byte & 15
        if nibble > 7:
            return {}
        picked = on.shift_right(c if nibble > 3 else a, 8 * (nibble & 3))
        moved = on.bitwise(AND_AB, picked, on.constant(255), on.constant(0))
        total = on.bitwise(OR_AB, total, on.shift_left(moved, 8 * byte), on.constant(0))
    return {0: total}


@means("SGXT", "USGXT", known="U32", sources=2)
def _sign_extend(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    value, width = form.operands[form.outputs :]
    if width.kind != "number" or not 0 < width.value < 32:
        return {}
    moved = on.shift_left(on.read(value, registers), 32 - width.value)
    return {0: on.shift_right(moved, 32 - width.value, signed=not form.has("U32"))}


# comparisons

COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "NE": np.not_equal,
    "EQ": np.equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
JOINED = {"AND": AND_AB, "OR": OR_AB, "XOR": XOR_AB}  # with another predicate


@means("ISETP", "UISETP", known=" ".join((*COMPARED, *JOINED, "U32")), sources=3)
def _compare(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    operands = form.operands[form.outputs :]
    compare = next((COMPARED[m] for m in form.modifiers if m in COMPARED), None)
    joined = next((JOINED[m] for m in form.modifiers if m in JOINED), None)
    if compare is None or joined is None:
        return {}
    a, b, other = (on.read(operand, registers) for operand in operands)
    number = np.uint32 if form.has("U32") else np.int32
    truth = on.exactly(lambda left, right: compare(left.view(number), right.view(number)), a, b)
    if truth is None:
        return {}
    both = (truth, on.bitwise(XOR_AB, truth, on.constant(1), on.constant(0)))
    return {j: on.bitwise(joined, each, other, on.constant(0)) for j, each in enumerate(both)}


@means("IABS", known="", sources=1)
def _absolute(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    return {0: on.exactly(lambda a: np.abs(a.view(np.int32)).view(np.uint32), on.read(form.operands[1], registers))}


@means("IMNMX", "VIMNMX", "UIMNMX", known="U32 S32", sources=3)
def _least(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    if form.outputs > 1:
        return {}
    number = np.uint32 if form.has("U32") else np.int32

    def chosen(a: Words, b: Words, least: Words) -> Array:
        both = a.view(number), b.view(number)
        return np.where(least != 0, np.minimum(*both), np.maximum(*both)).view(np.uint32)

    return {0: on.exactly(chosen, *[on.read(operand, registers) for operand in form.operands[1:]])}


# floats

_NARROW = {"S32": np.int32, "U32": np.uint32, "S16": np.int16, "U16": np.uint16, "S8": np.int8, "U8": np.uint8}
_ROUNDED = {"RP": np.inf, "RM": -np.inf, "RZ": 0.0}


@means("I2F", "I2FP", known=" ".join((*_NARROW, *_ROUNDED, "F32")), sources=1)
def _to_float(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    """The low bits of a register as f32 (cvt: PTX ISA 9.1, section 9.7.9.21); without a type it is S32."""
    if _signed(form.operands[1]):
        return {}
    integer = next((_NARROW[m] for m in form.modifiers if m in _NARROW), np.int32)
    towards = next((_ROUNDED[m] for m in form.modifiers if m in _ROUNDED), None)

    def converted(a: Words) -> Array:
        number = a.astype(integer).astype(np.float64)
        nearest = number.astype(np.float32)
        beyond = nearest < number if towards == np.inf else nearest > number if towards else abs(nearest) > abs(number)
        moved = np.nextafter(nearest, np.float32(towards or 0))
        return np.where(beyond & (towards is not None), moved, nearest).view(np.uint32)

    return {0: on.exactly(converted, on.read(form.operands[1], registers))}


@means("MUFU", known="RCP", sources=1)
def _reciprocal(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    plain = form.has("RCP") and not _signed(form.operands[1])
    return {0: on.reciprocal(on.read(form.operands[1], registers))} if plain else {}


@means("F2I", known="U32 TRUNC FTZ NTZ", sources=1)
def _to_integer(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    """Of f32, towards zero, as U32: what is beyond is the nearest, NaN is 0 (cvt: PTX ISA 9.1, section 9.7.9.21)."""
    if not {"U32", "TRUNC"}.issubset(form.modifiers) or _signed(form.operands[1]):
        return {}

    def converted(a: Words) -> Array:
        number = np.nan_to_num(a.view(np.float32).astype(np.float64))
        return np.clip(number, 0, 0xFFFFFFFF).astype(np.uint32)

    return {0: on.exactly(converted, on.read(form.operands[1], registers))}


# between lanes


@means("SHFL", sources=3)
def _shuffle(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    value, lane, bounds = form.operands[form.outputs :]
    indexed = form.has("IDX") and bounds.value == WARP - 1
    number = 0 if _is_zero(lane) else lane.value if lane.kind == "number" else WARP
    source = on.read(lane, registers) if indexed else None
    known = number if indexed and number < WARP else None
    return {form.outputs - 1: on.of_lane(on.read(value, registers), known, source)}


@means("VOTE", "VOTEU", "REDUX", "CREDUX")
def _of_the_warp(on: Domain[Any], form: Form, registers: Registers) -> dict[int, Any]:
    return {j: on.of_the_warp(o.kind in ("P", "UP")) for j, o in enumerate(form.operands[: form.outputs])}
