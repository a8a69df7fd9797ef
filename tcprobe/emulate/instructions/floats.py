"""Floats: sums, products and functions of f16, bf16, f32 and f64, rounded as PTX says.

Functions that PTX states as approximate (`ex2.approx`, `div.full` and their like) are NumPy's, rounded to f32: within
PTX's error, not the bits of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.model import rounded_to_odd
from tcprobe.emulate.forms import form_of
from tcprobe.emulate.machine import Machine, Step
from tcprobe.emulate.operands import NUMPY, operation
from tcprobe.emulate.ptx import Immediate, Operand, Statement
from tcprobe.emulate.rounding import (
    DIRECTIONS,
    NAN,
    WORDS,
    below_zero,
    directed,
    exact_sum,
    first_nan,
    flushed,
    fma64,
    nan_kept,
    narrow,
    quotient,
    root,
    widen,
    without_tiny,
)

KINDS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64")
APPROXIMATE = "functions that PTX calls approximate are within its stated error, not the bits of a GPU"
QUIET = np.float32(np.array(0x7FFFFFFF, np.uint32).view(np.float32))


def kind_of(statement: Statement) -> str:
    """The type of floats that a name ends in; empty for others."""
    return (
        next((word for word in reversed(statement.modifiers) if word in KINDS or word in NUMPY), "")
        if any(word in KINDS for word in statement.modifiers)
        else ""
    )


def in_bits(function: Callable[..., Any], machine: Machine, statement: Statement) -> Step:
    """A step of a function of bits, of the types that the form has; of pairs in one register, of both halves."""
    kinds = kinds_of(statement)
    words = [np.dtype(WORDS[kind.removesuffix("x2")]) for kind in kinds]
    operands = (_bits_of_immediate(o, k.removesuffix("x2")) for o, k in zip(statement.operands, kinds, strict=True))
    fixed = statement._replace(operands=tuple(operands))
    if not kinds[0].endswith("x2"):
        return operation(machine, fixed, lambda *bits: function(*map(np.asarray, bits)).astype(words[0]), *words)
    word, whole = words[0], np.dtype(f"u{2 * words[0].itemsize}")

    def both(*bits: Any) -> Any:
        many = np.broadcast_arrays(*map(np.asarray, bits))
        return np.ascontiguousarray(
            function(*(np.ascontiguousarray(part).view(word) for part in many)).astype(word)
        ).view(whole)

    return operation(machine, fixed, both, *(whole,) * len(kinds))


def kinds_of(statement: Statement) -> tuple[str, ...]:
    """The types of a statement's operands, as its form has them."""
    form = form_of(statement.name, len(statement.operands))
    assert form is not None
    return form.operand_types(statement.name)


def _bits_of_immediate(operand: Operand, kind: str) -> Operand:
    """A float in the text as the bits of the type that the instruction has."""
    if isinstance(operand, Immediate) and operand.type != "s64":
        own = np.array([operand.value], np.uint32 if operand.type == "f32" else np.uint64)
        return Immediate(int(narrow(widen(own, operand.type), kind)[0]))
    return operand


class Mode:
    """The modifiers of an arithmetic instruction."""

    def __init__(self, statement: Statement) -> None:
        words = statement.modifiers
        self.way = next((word for word in words if word in DIRECTIONS), "rn")
        self.flush, self.saturate, self.relu = (word in words for word in ("ftz", "sat", "relu"))

    @property
    def plain(self) -> bool:
        """Whether NumPy rounds just so."""
        return self.way == "rn" and not (self.flush or self.saturate or self.relu)

    def inputs(self, kinds: Sequence[str], bits: tuple[Any, ...]) -> list[Any]:
        """Operands as f64."""
        return [widen(flushed(b, k) if self.flush else b, k) for b, k in zip(bits, kinds, strict=True)]

    def result(self, exact: Any, kind: str) -> Any:
        """Bits of an exact result."""
        if self.saturate:
            exact = saturated(exact)
        if self.relu:
            exact = positive(exact)
        return narrow(without_tiny(exact, kind, self.way) if self.flush else exact, kind, self.way)


def saturated(exact: Any) -> Any:
    """.sat: from +0 to 1; +0 for a NaN."""
    return np.where(exact > 0, np.minimum(exact, 1.0), 0.0)


def positive(exact: Any) -> Any:
    """.relu: +0 for what is negative; a NaN stays."""
    return np.where(exact <= 0, 0.0, exact)


def _canonical(numbers: Any) -> Any:
    """A NaN of f32 is the one that PTX's arithmetic gives."""
    wrong = np.isnan(numbers)
    return np.where(wrong, QUIET, numbers) if wrong.any() else numbers


def _arithmetic(name: str) -> Callable[[Statement, Machine], Step | None]:
    def compile_(statement: Statement, machine: Machine) -> Step | None:
        kind = kind_of(statement)
        if not kind:
            return None
        mode = Mode(statement)
        kinds = [each.removesuffix("x2") for each in kinds_of(statement)]
        if set(kinds) == {"f32"} and kind == "f32" and mode.plain and name in ("add", "sub", "mul"):
            plain = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
            return operation(
                machine, statement, lambda a, b: _canonical(plain(a, b)), np.float32, np.float32, np.float32
            )
        return in_bits(partial(_computed, name, mode, kinds), machine, statement)

    return compile_


def _computed(name: str, mode: Mode, kinds: Sequence[str], *bits: Any) -> Any:
    """A sum, difference, product, or product and sum."""
    a, b, *c = mode.inputs(kinds[1:], bits)
    if kinds[0] == "f64":
        return mode.result(first_nan(_computed64(name, mode.way, a, b, *c), b, *c, a), "f64")
    if name == "mul":
        return mode.result(a * b, kinds[0])
    first, second = (a * b, c[0]) if c else (a, -b if name == "sub" else b)  # a product is exact in f64
    return mode.result(below_zero(exact_sum(first, second), mode.way, first, second), kinds[0])


def _computed64(name: str, way: str, a: Any, b: Any, *c: Any) -> Any:
    """Likewise of f64, rounded."""
    if c:
        return fma64(a, b, c[0], way)
    if way == "rn":
        return {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](a, b)
    if name == "mul":
        return fma64(a, b, np.copysign(0.0, np.copysign(1.0, a) * np.copysign(1.0, b)), way)
    return fma64(a, 1.0, -b if name == "sub" else b, way)


def _extreme(name: str) -> Callable[[Statement, Machine], Step | None]:
    """min, max: of two or three; a NaN gives the other, or with .NaN a NaN."""

    def compile_(statement: Statement, machine: Machine) -> Step | None:
        kind = kind_of(statement)
        if not kind:
            return None
        mode, scalar = Mode(statement), kind.removesuffix("x2")
        nan, magnitude = ("NaN" in statement.modifiers), ("abs" in statement.modifiers)

        def two(first: Any, second: Any) -> Any:
            if mode.flush:
                first, second = flushed(first, scalar), flushed(second, scalar)
            top = first.dtype.type(1 << 8 * first.dtype.itemsize - 1)
            sign = (first ^ second) & top if magnitude else top ^ top
            if magnitude:
                first, second = first & ~top, second & ~top
            a, b = widen(first, scalar), widen(second, scalar)
            negative = np.signbit(a) if name == "min" else ~np.signbit(a)
            takes = ((a < b) if name == "min" else (a > b)) | ((a == b) & negative) | np.isnan(b)
            made: Any = np.where(takes & ~np.isnan(a), first, second) | sign
            none = (np.isnan(a) | np.isnan(b)) if nan else (np.isnan(a) & np.isnan(b))
            canonical = nan_kept(second, "f64", "f64") if scalar == "f64" else made.dtype.type(NAN[scalar])
            return np.where(none, canonical, made)

        return in_bits(lambda *bits: reduce(two, bits), machine, statement)

    return compile_


def _sign(name: str) -> Callable[[Statement, Machine], Step | None]:
    """abs, neg."""

    def compile_(statement: Statement, machine: Machine) -> Step | None:
        kind = kind_of(statement)
        if not kind:
            return None
        mode, scalar = Mode(statement), kind.removesuffix("x2")

        def run(bits: Any) -> Any:
            top = bits.dtype.type(1 << 8 * bits.dtype.itemsize - 1)
            made = bits & ~top if name == "abs" else bits ^ top
            none = np.isnan(widen(bits, scalar))
            canonical = nan_kept(bits, "f64", "f64") if scalar == "f64" else made.dtype.type(NAN[scalar])
            return np.where(none, canonical, flushed(made, scalar) if mode.flush else made)

        return in_bits(run, machine, statement)

    return compile_


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "rcp": lambda x: 1.0 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


def _function(name: str) -> Callable[[Statement, Machine], Step | None]:
    def compile_(statement: Statement, machine: Machine) -> Step | None:
        kind = kind_of(statement)
        if not kind:
            return None
        mode, scalar = Mode(statement), kind.removesuffix("x2")
        if "approx" in statement.modifiers:
            machine.report.note(APPROXIMATE)
        parts: Callable[..., Any] | None = {"rcp": lambda x: quotient(np.ones_like(x), x), "sqrt": root}.get(name)

        def run(bits: Any) -> Any:
            (x,) = mode.inputs([scalar], (bits,))
            made = FUNCTIONS[name](x)
            if mode.way != "rn" and parts is not None:
                ordinary = np.isfinite(x) & ((x > 0) | (x < 0) & (name == "rcp"))
                made = _directed(made, parts, (x,), ordinary, mode.way, scalar)
            return mode.result(first_nan(made, x) if scalar == "f64" else made, scalar)

        return in_bits(run, machine, statement)

    return compile_


def _directed(
    near: Any, parts: Callable[..., Any], operands: tuple[Any, ...], ordinary: Any, way: str, kind: str
) -> Any:
    """Of `ordinary` operands what `parts` says, in a direction, or of narrower types to odd; of others what is near."""
    top, rest, scale = parts(*(np.where(ordinary, x, 1.0) for x in operands))
    if kind == "f64":
        return np.where(ordinary, directed(top, rest, scale, way), near)
    return np.where(ordinary, np.ldexp(rounded_to_odd(top, rest), scale), near)


def _divide(statement: Statement, machine: Machine) -> Step | None:
    kind = kind_of(statement)
    if not kind:
        return None
    mode = Mode(statement)
    if {"approx", "full"} & set(statement.modifiers):
        machine.report.note(APPROXIMATE)

    def run(a: Any, b: Any) -> Any:
        x, y = mode.inputs([kind, kind], (a, b))
        made = x / y
        if mode.way != "rn":
            ordinary = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
            made = _directed(made, quotient, (x, y), ordinary, mode.way, kind)
        return mode.result(first_nan(made, x, y) if kind == "f64" else made, kind)

    return in_bits(run, machine, statement)


def _copysign(statement: Statement, machine: Machine) -> Step:
    def run(a: Any, b: Any) -> Any:
        top = a.dtype.type(1 << 8 * a.dtype.itemsize - 1)
        return a & top | b & ~top

    return in_bits(run, machine, statement)


def _test(statement: Statement, machine: Machine) -> Step:
    """testp."""
    what, kind = statement.modifiers[0], kind_of(statement)
    least = 2.0 ** FORMATS[kind].least
    tests: dict[str, Callable[[Any], Any]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & ((abs(x) >= least) | (x == 0)),  # as PTX counts zeros
        "subnormal": lambda x: (abs(x) < least) & (x != 0),
    }
    return operation(machine, statement, lambda bits: tests[what](widen(bits, kind)), np.bool_, WORDS[kind])


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    **{name: _arithmetic(name) for name in ("add", "sub", "mul", "fma", "mad")},
    **{name: _extreme(name) for name in ("min", "max")},
    **{name: _sign(name) for name in ("abs", "neg")},
    **{name: _function(name) for name in FUNCTIONS},
    "div": _divide,
    "copysign": _copysign,
    "testp": _test,
}
