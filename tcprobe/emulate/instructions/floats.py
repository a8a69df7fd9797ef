"""Floats: sums, products and functions of f16, bf16, f32 and f64, rounded as PTX says.

Functions that PTX states as approximate (`ex2.approx`, `div.full` and their like) are NumPy's, rounded to f32: within
PTX's error, not the bits of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tcprobe.emulate.machine import Machine, Step
from tcprobe.emulate.operands import NUMPY, operation
from tcprobe.emulate.ptx import Immediate, Operand, Statement
from tcprobe.emulate.rounding import DIRECTIONS, NAN, WORDS, exact_fma, exact_sum, flushed, fma64, narrow, widen

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


def in_bits(function: Callable[..., Any], kind: str, machine: Machine, statement: Statement, operands: int) -> Step:
    """A step of a function of bits; of pairs in one register, of both halves."""
    scalar = kind.removesuffix("x2")
    word = np.dtype(WORDS[scalar])
    whole = np.dtype(f"u{word.itemsize * (2 if kind.endswith('x2') else 1)}")
    fixed = statement._replace(operands=tuple(_bits_of_immediate(o, scalar) for o in statement.operands))
    if whole == word:
        return operation(
            machine, fixed, lambda *bits: function(*map(np.asarray, bits)).astype(word), word, *(word,) * operands
        )

    def both(*bits: Any) -> Any:
        many = np.broadcast_arrays(*map(np.asarray, bits))
        return np.ascontiguousarray(
            function(*(np.ascontiguousarray(part).view(word) for part in many)).astype(word)
        ).view(whole)

    return operation(machine, fixed, both, whole, *(whole,) * operands)


def _bits_of_immediate(operand: Operand, kind: str) -> Operand:
    """A float in the text as the bits of the type that the instruction has."""
    if isinstance(operand, Immediate) and operand.type != "s64":
        own = np.array([operand.value], np.uint32 if operand.type == "f32" else np.uint64)
        return Immediate(int(narrow(widen(own, operand.type), kind)[0]))
    return operand


class Mode:
    """The modifiers of an arithmetic instruction."""

    def __init__(self, statement: Statement, *more: str) -> None:
        words = [word for word in statement.modifiers if word not in KINDS]
        self.way = next((word for word in words if word in DIRECTIONS), "rn")
        self.flush, self.saturate, self.relu = (word in words for word in ("ftz", "sat", "relu"))
        statement.only(*DIRECTIONS, "ftz", "sat", "relu", *more, *KINDS, *NUMPY)

    @property
    def plain(self) -> bool:
        """Whether NumPy rounds just so."""
        return self.way == "rn" and not (self.flush or self.saturate or self.relu)

    def inputs(self, kind: str, bits: tuple[Any, ...]) -> list[Any]:
        """Operands as f64."""
        return [widen(flushed(part, kind) if self.flush else part, kind) for part in bits]

    def result(self, exact: Any, kind: str) -> Any:
        """Bits of an exact result."""
        if self.saturate:
            exact = np.where(np.isnan(exact), 0.0, np.clip(exact, 0.0, 1.0))
        if self.relu:
            exact = np.where(np.isnan(exact), exact, np.maximum(exact, 0.0))
        bits = narrow(exact, kind, self.way)
        return flushed(bits, kind) if self.flush else bits


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
        scalar = kind.removesuffix("x2")
        if kind == "f32" and mode.plain and name in ("add", "sub", "mul"):
            plain = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
            return operation(
                machine, statement, lambda a, b: _canonical(plain(a, b)), np.float32, np.float32, np.float32
            )
        count = 3 if name in ("fma", "mad") else 2
        return in_bits(partial(_computed, name, mode, scalar), kind, machine, statement, count)

    return compile_


def _computed(name: str, mode: Mode, kind: str, *bits: Any) -> Any:
    numbers = mode.inputs(kind, bits)
    if kind == "f64":
        if mode.way != "rn":
            return _directed64(name, mode.way, numbers)
        a, b, *c = numbers
        made = fma64(a, b, c[0]) if c else {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](a, b)
        return mode.result(made, kind)
    a, b, *c = numbers
    if name in ("fma", "mad"):
        exact = exact_fma(a, b, c[0])
    elif name == "mul":
        exact = a * b
    else:
        exact = exact_sum(a, -b if name == "sub" else b)
    return mode.result(exact, kind)


def _directed64(name: str, way: str, numbers: list[Any]) -> Any:
    """f64 in another direction than to nearest: by fractions, one number at a time."""
    from fractions import Fraction

    def one(*parts: float) -> float:
        if not all(map(np.isfinite, parts)):
            near: float = (
                parts[0] * parts[1] + (parts[2] if len(parts) > 2 else 0)
                if name in ("fma", "mul", "mad")
                else parts[0] + parts[1]
            )
            return near
        a, b, *c = map(Fraction, parts)
        exact = a * b + (c[0] if c else 0) if name in ("fma", "mul", "mad") else a - b if name == "sub" else a + b
        near = float(exact)
        if way == "rm" or (way == "rz" and exact > 0):
            return float(np.nextafter(near, -np.inf)) if Fraction(near) > exact else near
        return float(np.nextafter(near, np.inf)) if Fraction(near) < exact else near

    return np.vectorize(one)(*np.broadcast_arrays(*numbers)).astype(np.float64).view(np.uint64)


def _extreme(name: str) -> Callable[[Statement, Machine], Step | None]:
    """min, max: of two or three; a NaN gives the other, or with .NaN a NaN."""

    def compile_(statement: Statement, machine: Machine) -> Step | None:
        kind = kind_of(statement)
        if not kind:
            return None
        mode = Mode(statement, "NaN", "xorsign", "abs")
        scalar, nan = kind.removesuffix("x2"), "NaN" in statement.modifiers
        if "xorsign" in statement.modifiers:
            raise statement.refused("with .xorsign")

        def two(first: Any, second: Any) -> Any:
            a, b = mode.inputs(scalar, (first, second))
            sign = np.signbit(a) if name == "min" else ~np.signbit(a)
            smaller = (a < b) if name == "min" else (a > b)
            takes = smaller | ((a == b) & sign) | np.isnan(b)
            takes = np.where(np.isnan(a), False, takes)
            both = np.isnan(a) & np.isnan(b) | (nan & (np.isnan(a) | np.isnan(b)))
            if mode.flush:
                first, second = flushed(first, scalar), flushed(second, scalar)
            made: Any = np.where(takes, first, second)
            return np.where(both, made.dtype.type(NAN.get(scalar, 0x7FF8000000000000)), made)

        return in_bits(
            lambda *bits: two(bits[0], bits[1]) if len(bits) == 2 else two(two(bits[0], bits[1]), bits[2]),
            kind,
            machine,
            statement,
            len(statement.operands) - 1,
        )

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
            return flushed(made, scalar) if mode.flush else made

        return in_bits(run, kind, machine, statement, 1)

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
        mode = Mode(statement, "approx", "full")
        approximate = "approx" in statement.modifiers
        if not approximate and name not in ("rcp", "sqrt"):
            raise statement.refused()
        if approximate:
            machine.report.note(APPROXIMATE)
        scalar = kind.removesuffix("x2")

        def run(bits: Any) -> Any:
            (x,) = mode.inputs(scalar, (bits,))
            made = FUNCTIONS[name](x)
            if not approximate and scalar != "f64" and mode.way != "rn":
                made = _nudged(name, x, made)
            return mode.result(made, scalar)

        return in_bits(run, kind, machine, statement, 1)

    return compile_


def _nudged(name: str, x: Any, made: Any) -> Any:
    """A quotient or root in f64, rounded to odd: its error has the sign of what is left."""
    rest = 1.0 - made * x if name == "rcp" else x - made * made
    odd = made.view(np.int64) & 1 == 0
    toward = np.where(rest * (np.sign(x) if name == "rcp" else 1.0) > 0, np.inf, -np.inf)
    return np.where((rest != 0) & odd & np.isfinite(made), np.nextafter(made, toward), made)


def _divide(statement: Statement, machine: Machine) -> Step | None:
    kind = kind_of(statement)
    if not kind:
        return None
    mode = Mode(statement, "approx", "full")
    if {"approx", "full"} & set(statement.modifiers):
        machine.report.note(APPROXIMATE)

    def run(a: Any, b: Any) -> Any:
        x, y = mode.inputs(kind, (a, b))
        made = x / y
        if kind != "f64" and mode.way != "rn":
            rest = fma64(-made, y, x)
            even = np.asarray(made).view(np.int64) & 1 == 0
            toward = np.where(rest * np.sign(y) > 0, np.inf, -np.inf)
            made = np.where(
                (rest != 0) & even & np.isfinite(made) & np.isfinite(rest), np.nextafter(made, toward), made
            )
        return mode.result(made, kind)

    return in_bits(run, kind, machine, statement, 2)


def _copysign(statement: Statement, machine: Machine) -> Step | None:
    kind = kind_of(statement)

    def run(a: Any, b: Any) -> Any:
        top = a.dtype.type(1 << 8 * a.dtype.itemsize - 1)
        return a & top | b & ~top

    return in_bits(run, kind, machine, statement, 2)


def _test(statement: Statement, machine: Machine) -> Step:
    """testp."""
    kind = kind_of(statement)
    what = statement.modifiers[0]
    word = WORDS[kind]
    tests: dict[str, Callable[[Any], Any]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
    }
    if what not in tests:
        raise statement.refused()
    return operation(machine, statement, lambda bits: tests[what](widen(bits, kind)), np.bool_, word)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    **{name: _arithmetic(name) for name in ("add", "sub", "mul", "fma", "mad")},
    **{name: _extreme(name) for name in ("min", "max")},
    **{name: _sign(name) for name in ("abs", "neg")},
    **{name: _function(name) for name in FUNCTIONS},
    "div": _divide,
    "copysign": _copysign,
    "testp": _test,
}
