"""cvt, setp, set: from type to type, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.emulate.instructions.floats import kind_of, positive, saturated
from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.operands import NUMPY, operation
from tcprobe.emulate.ptx import Both, Immediate, Negated, Operand, Sink, Statement
from tcprobe.emulate.rounding import (
    DIRECTIONS,
    NAN,
    WORDS,
    flushed,
    nan_kept,
    narrow,
    of_integer,
    widen,
    without_tiny,
)

PAIRS = {
    "f16x2": "f16",
    "bf16x2": "bf16",
    "e4m3x2": "e4m3",
    "e5m2x2": "e5m2",
    "e2m1x2": "e2m1",
    "e2m3x2": "e2m3",
    "e3m2x2": "e3m2",
}
FLOATS = ("f16", "bf16", "f32", "f64", "tf32")
TO_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _convert(statement: Statement, machine: Machine) -> Step | None:
    words = statement.modifiers
    known = (*NUMPY, *PAIRS, *FLOATS)
    names = [word for word in words if word in known]
    if "pack" in words:
        return _packed(statement, machine)
    to, of = names
    if to in PAIRS or of in PAIRS:
        return _pair(statement, machine, to, of)
    if to in FLOATS or of in FLOATS:
        return _scalar(statement, machine, to, of)
    return _whole(statement, machine, to, of)


def _whole(statement: Statement, machine: Machine, to: str, of: str) -> Step:
    target, source = NUMPY[to], NUMPY[of]
    if "sat" in statement.modifiers:
        info = np.iinfo(target)

        def run(a: Any) -> Any:
            wide = np.asarray(a)
            low = max(info.min, int(np.iinfo(source).min))
            high = min(info.max, int(np.iinfo(source).max))
            return np.clip(wide, source.type(low), source.type(high)).astype(target)

        return operation(machine, statement, run, target, source)
    return operation(machine, statement, lambda a: np.asarray(a).astype(target), target, source)


def _scalar(statement: Statement, machine: Machine, to: str, of: str) -> Step:
    words = statement.modifiers
    way = next((word for word in words if word in DIRECTIONS), "rn")
    whole = next((word for word in words if word in TO_WHOLE), None)
    flush, saturate, relu = "ftz" in words, "sat" in words, "relu" in words
    source: Any = np.dtype(WORDS[of]) if of in FLOATS else NUMPY[of]
    target: Any = np.dtype(WORDS[to]) if to in FLOATS else NUMPY[to]

    if words in (("f32", "f32"), ("f32", "bf16"), ("f64", "f64")):  # the bits of a NaN stay, too
        left = target.type(8 * (target.itemsize - source.itemsize))
        return operation(machine, statement, lambda a: np.asarray(a).astype(target) << left, target, source)

    def run(a: Any) -> Any:
        a = np.asarray(a)
        # PTX ISA 9.1 says that .ftz makes subnormal operands zeros here, too; an H200 keeps those that become f16
        given = flushed(a, of) if flush and of == "f32" and to != "f16" else a
        x = widen(given, of).reshape(a.shape) if of in FLOATS else _of_whole(a, way if to == "f64" else "")
        if whole:
            x = TO_WHOLE[whole](x)
        if to not in FLOATS:
            return _to_whole(x, target, of)
        if saturate:
            x = saturated(x)
        if relu:
            x = positive(x)
        if flush and to == "f32":
            x = without_tiny(x, "f32", way)
        bits = narrow(x, to, way, saturate="satfinite" in words)
        if to == "tf32" and way == "rna":
            return _tf32_nan(a, bits, "satfinite" in words)
        if "f64" not in (to, of) or not (none := np.isnan(x)).any():
            return bits
        return np.where(none, nan_kept(np.uint32(NAN["f32"]) if flush and of == "f32" else a, of, to), bits)

    return operation(machine, statement, run, target, source)


def _of_whole(numbers: Any, way: str) -> Any:
    """Whole numbers as f64, rounded to odd, or in a direction."""
    if numbers.dtype.itemsize < 8:
        return numbers.astype(np.float64)
    return of_integer(numbers, way)


def _tf32_nan(a: Any, bits: Any, finite: bool) -> Any:
    """cvt.rna.tf32 of a NaN, as an H200 has it: its bits, cut off; with .satfinite one unit less."""
    none = np.isnan(widen(a, "f32")).reshape(a.shape)
    unit = np.uint32(1 << 13)
    cut = a & ~(unit - np.uint32(1))
    return np.where(none, cut - unit if finite else cut, bits)


def _to_whole(x: Any, target: Any, of: str) -> Any:
    """Clamped; a NaN is 0, but of f64 or as 64 bits the highest bit alone (PTX ISA 9.1, section 9.7.9.21)."""
    info = np.iinfo(target)
    over, under, nan = x >= float(info.max), x <= float(info.min), np.isnan(x)
    inside = np.where(over | under | nan, 0.0, x)
    made = inside.astype(np.uint64).astype(target) if target.kind == "u" else inside.astype(np.int64).astype(target)
    made = np.where(over, target.type(info.max), made)
    made = np.where(under, target.type(info.min), made)
    if of != "f64" and info.bits != 64:
        return made
    highest = np.array(1 << info.bits - 1, np.uint64).astype(f"u{target.itemsize}").view(target)[()]
    return np.where(nan, highest, made)


def _pair(statement: Statement, machine: Machine, to: str, of: str) -> Step:
    """Two numbers in one register: the first operand is the upper one."""
    words = statement.modifiers
    way = next((word for word in words if word in DIRECTIONS), "rn")
    relu, satfinite = "relu" in words, "satfinite" in words
    if to in PAIRS:
        kind = PAIRS[to]
        bits = 4 if kind == "e2m1" else 8 * np.dtype(WORDS.get(kind, np.uint8)).itemsize
        word: Any = np.dtype(f"u{max(1, bits // 4)}") if kind != "e2m1" else np.dtype(np.uint8)

        def join(upper: Any, lower: Any) -> Any:
            halves = []
            for x in (upper, lower):
                halves.append(narrow(positive(x) if relu else x, kind, way, saturate=satfinite).astype(word))
            return (halves[0] << word.type(bits) | halves[1]).astype(word)

        if of == "f32":
            return operation(
                machine, statement, lambda a, b: join(widen(a, "f32"), widen(b, "f32")), word, np.uint32, np.uint32
            )
        inner = PAIRS[of]

        def from_pair(pair: Any) -> Any:
            pair = np.asarray(pair)
            half = WORDS[inner]
            return join(widen((pair >> np.uint32(16)).astype(half), inner), widen(pair.astype(half), inner))

        return operation(machine, statement, from_pair, word, np.uint32)
    raise statement.refused()


def _unpair(statement: Statement, machine: Machine) -> Step | None:
    """cvt.rn.f16x2.e4m3x2 and its like."""
    names = [word for word in statement.modifiers if word in PAIRS]
    if len(names) != 2 or names[1] in ("f16x2", "bf16x2"):
        return None
    to, of = (PAIRS[name] for name in names)
    relu = "relu" in statement.modifiers
    source: Any = np.dtype(np.uint8 if of == "e2m1" else np.uint16)
    bits = 4 if of == "e2m1" else 8
    read = (1 << FORMATS[of].bits) - 1

    def run(pair: Any) -> Any:
        halves = []
        for shift in (0, bits):
            x = widen((np.asarray(pair) >> source.type(shift) & source.type(read)).astype(np.uint8), of)
            halves.append(narrow(positive(x) if relu else x, to).astype(np.uint32))
        return halves[1] << np.uint32(16) | halves[0]

    return operation(machine, statement, run, np.uint32, source)


def _packed(statement: Statement, machine: Machine) -> Step:
    """cvt.pack.sat: two s32 as 16 bits or 8 bits each."""
    names = [word for word in statement.modifiers if word in NUMPY]
    to = NUMPY[names[0]]
    info, bits = np.iinfo(to), 8 * to.itemsize
    word = np.dtype(f"u{to.itemsize}")

    def run(a: Any, b: Any, c: Any = 0) -> Any:
        upper, lower = (
            np.clip(np.asarray(n), info.min, info.max).astype(to).view(word).astype(np.uint32) for n in (a, b)
        )
        made = upper << np.uint32(bits) | lower
        return made if bits == 16 else np.asarray(c) << np.uint32(16) | made

    return operation(machine, statement, run, np.uint32, np.int32, np.int32, *((np.uint32,) if bits == 8 else ()))


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
JOINED: dict[str, Callable[[Any, Any], Any]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def _comparison(statement: Statement, of: str) -> Callable[[Any, Any], Any]:
    """The function of two numbers, of floats as bits."""
    name = next(word for word in statement.modifiers if word in COMPARISONS or word in UNORDERED)
    if of.removesuffix("x2") not in FLOATS:
        return COMPARISONS[name]
    flush = "ftz" in statement.modifiers

    def run(a: Any, b: Any) -> Any:
        x, y = (widen(flushed(np.asarray(n), of) if flush else np.asarray(n), of) for n in (a, b))
        unordered = np.isnan(x) | np.isnan(y)
        if name in ("num", "nan"):
            return unordered == (name == "nan")
        if name in UNORDERED:
            return COMPARISONS[name[:-1]](x, y) | unordered
        return COMPARISONS[name](x, y) & ~unordered

    return run


def _set_predicate(statement: Statement, machine: Machine) -> Step:
    """setp: of numbers the second predicate has the opposite, of pairs it is of the upper halves."""
    target, *sources = statement.operands
    first, second = (target.first, target.second) if isinstance(target, Both) else (target, None)
    words = statement.modifiers
    of = kind_of(statement) or next(word for word in reversed(words) if word in NUMPY)
    if second and of in ("f16", "bf16"):
        raise statement.refused("with two predicates")  # PTX ISA 9.1, section 9.7.7.2
    pairs, of = of.endswith("x2"), of.removesuffix("x2")
    compare = _comparison(statement, of)
    kind: Any = np.dtype(np.uint32 if pairs else WORDS[of] if of in FLOATS else NUMPY[of])
    a, b = (machine.reader(_as_bits(o, of), kind) for o in sources[:2])
    join = next((JOINED[word] for word in words if word in JOINED), None)
    extra = _predicate(sources[2], machine) if join else None
    write, write_second = (
        None if o is None or isinstance(o, Sink) else machine.writer(o, np.bool_) for o in (first, second)
    )

    def run(where: Where) -> None:
        x, y, more = a(where), b(where), extra(where) if extra else None
        holds = compare(*_halves(of, 0, x, y)) if pairs else compare(x, y)
        other = compare(*_halves(of, 16, x, y)) if pairs else ~holds
        if join:
            holds, other = join(holds, more), join(other, more)
        if write:
            write(where, holds)
        if write_second:
            write_second(where, other)

    return run


def _predicate(operand: Operand, machine: Machine) -> Callable[[Where], Any]:
    """A predicate, or !p."""
    if not isinstance(operand, Negated):
        return machine.reader(operand, np.bool_)
    read = machine.reader(operand.register, np.bool_)
    return lambda where: ~read(where)


def _halves(of: str, shift: int, *pairs: Any) -> list[Any]:
    """The lower or the upper halves of registers."""
    return [(np.asarray(pair) >> np.uint32(shift)).astype(WORDS[of]) for pair in pairs]


def _as_bits(operand: Any, of: str) -> Any:
    if of in FLOATS and isinstance(operand, Immediate) and operand.type != "s64":
        own = np.array([operand.value], np.uint32 if operand.type == "f32" else np.uint64)
        return Immediate(int(narrow(widen(own, operand.type), of)[0]))
    return operand


def _set(statement: Statement, machine: Machine) -> Step:
    """set: all ones or 1.0."""
    to, of = (word for word in statement.modifiers if word in NUMPY or word in FLOATS)
    if of.endswith("x2"):
        return _set_halves(statement, machine, to, of.removesuffix("x2"))
    compare = _comparison(statement, of)
    kind: Any = np.dtype(WORDS[of]) if of in FLOATS else NUMPY[of]
    target: Any = np.dtype(WORDS[to]) if to in FLOATS else NUMPY[to]
    yes = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(to, (1 << 8 * target.itemsize) - 1)
    ones = np.array(yes, np.dtype(f"u{target.itemsize}")).view(target)[()]
    return operation(machine, statement, lambda a, b: np.where(compare(a, b), ones, target.type(0)), target, kind, kind)


def _set_halves(statement: Statement, machine: Machine, to: str, of: str) -> Step:
    compare = _comparison(statement, of)
    yes = np.uint32({"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(to, 0xFFFF))

    def run(a: Any, b: Any) -> Any:
        parts = [compare(*_halves(of, shift, a, b)) for shift in (0, 16)]
        return np.where(parts[0], yes, np.uint32(0)) | np.where(parts[1], yes << np.uint32(16), np.uint32(0))

    return operation(machine, statement, run, np.uint32, np.uint32, np.uint32)


def _cvt(statement: Statement, machine: Machine) -> Step | None:
    return _unpair(statement, machine) or _convert(statement, machine)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {"cvt": _cvt, "setp": _set_predicate, "set": _set}
