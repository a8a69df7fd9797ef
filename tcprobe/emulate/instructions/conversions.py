"""cvt, setp, set: from type to type, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.instructions.floats import kind_of
from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.operands import NUMPY, operation
from tcprobe.emulate.ptx import Both, Immediate, Negated, Sink, Statement
from tcprobe.emulate.rounding import DIRECTIONS, WORDS, flushed, narrow, of_integer, widen

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
MODES = (*DIRECTIONS, *TO_WHOLE, "ftz", "sat", "satfinite", "relu")


def _convert(statement: Statement, machine: Machine) -> Step | None:
    words = statement.modifiers
    known = (*NUMPY, *PAIRS, *FLOATS)
    names = [word for word in words if word in known]
    if strange := [word for word in words if word not in known and word not in MODES]:
        if strange == ["pack"]:
            return _packed(statement, machine)
        raise statement.refused(f"with .{strange[0]}")
    if len(names) != 2:
        raise statement.refused()
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

    def run(a: Any) -> Any:
        a = np.asarray(a)
        if of in FLOATS:
            x = widen(flushed(a, of) if flush and of == "f32" else a, of)
            if a.ndim == 0:
                x = x.reshape(())
        else:
            x = (
                of_integer(a.astype(np.uint64 if source.kind == "u" else np.int64))
                if source.itemsize == 8
                else a.astype(np.float64)
            )
        if whole:
            x = TO_WHOLE[whole](x)
        if to not in FLOATS:
            return _to_whole(TO_WHOLE[whole or "rzi"](x), target)
        if saturate:
            x = np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0))
        if relu:
            x = np.where(np.isnan(x), x, np.maximum(x, 0.0))
        bits = narrow(x, to, way, saturate="satfinite" in words)
        return flushed(bits, to) if flush and to == "f32" else bits

    return operation(machine, statement, run, target, source)


def _to_whole(x: Any, target: Any) -> Any:
    """Clamped; a NaN is 0."""
    info = np.iinfo(target)
    over, under = x >= float(info.max), x <= float(info.min)
    inside = np.where(over | under | np.isnan(x), 0.0, x)
    made = inside.astype(np.uint64).astype(target) if target.kind == "u" else inside.astype(np.int64).astype(target)
    made = np.where(over, target.type(info.max), made)
    return np.where(under, target.type(info.min), made)


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
                positive = np.where(np.isnan(x), x, np.maximum(x, 0.0)) if relu else x
                halves.append(narrow(positive, kind, way, saturate=satfinite).astype(word))
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

    def run(pair: Any) -> Any:
        halves = []
        for shift in (0, bits):
            x = widen((np.asarray(pair) >> source.type(shift) & source.type((1 << bits) - 1)).astype(np.uint8), of)
            x = np.where(np.isnan(x), x, np.maximum(x, 0.0)) if relu else x
            halves.append(narrow(x, to).astype(np.uint32))
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


def _comparison(statement: Statement, of: str) -> Callable[[Any, Any], Any]:
    """The function of two numbers, of floats as bits."""
    name = statement.modifiers[0]
    if of.removesuffix("x2") not in FLOATS:
        if name not in COMPARISONS:
            raise statement.refused()
        return COMPARISONS[name]
    flush = "ftz" in statement.modifiers

    def run(a: Any, b: Any) -> Any:
        x, y = (widen(flushed(np.asarray(n), of) if flush else np.asarray(n), of) for n in (a, b))
        unordered = np.isnan(x) | np.isnan(y)
        if name in ("num", "nan"):
            return unordered == (name == "nan")
        if name.endswith("u") and name != "u":
            return COMPARISONS[name[:-1]](x, y) | unordered
        return COMPARISONS[name](x, y) & ~unordered

    if name not in (*COMPARISONS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        raise statement.refused()
    return run


def _set_predicate(statement: Statement, machine: Machine) -> Step:
    target, *sources = statement.operands
    first, second = (target.first, target.second) if isinstance(target, Both) else (target, Sink())
    words = statement.modifiers
    of = kind_of(statement) or next(word for word in reversed(words) if word in NUMPY)
    if of.endswith("x2"):
        return _set_pair(statement, machine, of.removesuffix("x2"), first, second)
    compare = _comparison(statement, of)
    kind: Any = np.dtype(WORDS[of]) if of in FLOATS else NUMPY[of]
    a, b = (machine.reader(_as_bits(o, of), kind) for o in sources[:2])
    join = next((JOINED[word] for word in words[1:] if word in JOINED), None)
    other = sources[2] if join else None
    inverted = isinstance(other, Negated)
    extra = (
        machine.reader(other.register if isinstance(other, Negated) else other, np.bool_) if other is not None else None
    )
    write, write_not = (
        machine.writer(first, np.bool_),
        None if isinstance(second, Sink) else machine.writer(second, np.bool_),
    )

    def run(where: Where) -> None:
        holds = compare(a(where), b(where))
        opposite = ~holds if write_not else None
        if join and extra is not None:
            more = extra(where)
            more = ~more if inverted else more
            holds = join(holds, more)
            opposite = join(opposite, more) if write_not else None
        write(where, holds)
        if write_not:
            write_not(where, opposite)

    return run


def _as_bits(operand: Any, of: str) -> Any:
    if of in FLOATS and isinstance(operand, Immediate) and operand.type != "s64":
        own = np.array([operand.value], np.uint32 if operand.type == "f32" else np.uint64)
        return Immediate(int(narrow(widen(own, operand.type), of)[0]))
    return operand


def _set_pair(statement: Statement, machine: Machine, of: str, first: Any, second: Any) -> Step:
    """setp of f16x2: of the lower and of the upper halves."""
    compare = _comparison(statement, of)
    a, b = (machine.reader(o, np.uint32) for o in statement.operands[1:3])
    writers = [machine.writer(o, np.bool_) for o in (first, second)]
    half = WORDS[of]

    def run(where: Where) -> None:
        x, y = np.asarray(a(where)), np.asarray(b(where))
        for shift, write in zip((0, 16), writers, strict=True):
            write(where, compare((x >> np.uint32(shift)).astype(half), (y >> np.uint32(shift)).astype(half)))

    return run


def _set(statement: Statement, machine: Machine) -> Step:
    """set: all ones or 1.0."""
    names = [word for word in statement.modifiers if word in NUMPY or word in FLOATS]
    if len(names) != 2 or any(word in JOINED for word in statement.modifiers):
        raise statement.refused()
    to, of = names
    if of.endswith("x2"):
        return _set_halves(statement, machine, to, of.removesuffix("x2"))
    compare = _comparison(statement, of)
    kind: Any = np.dtype(WORDS[of]) if of in FLOATS else NUMPY[of]
    target: Any = np.dtype(WORDS[to]) if to in FLOATS else NUMPY[to]
    yes = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(to, (1 << 8 * target.itemsize) - 1)
    ones = np.array(yes, np.dtype(f"u{target.itemsize}")).view(target)[()]
    return operation(machine, statement, lambda a, b: np.where(compare(a, b), ones, target.type(0)), target, kind, kind)


def _set_halves(statement: Statement, machine: Machine, to: str, of: str) -> Step:
    compare, half = _comparison(statement, of), WORDS[of]
    yes = np.uint32({"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(to, 0xFFFF))

    def run(a: Any, b: Any) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        parts = [compare((a >> np.uint32(n)).astype(half), (b >> np.uint32(n)).astype(half)) for n in (0, 16)]
        return np.where(parts[0], yes, np.uint32(0)) | np.where(parts[1], yes << np.uint32(16), np.uint32(0))

    return operation(machine, statement, run, np.uint32, np.uint32, np.uint32)


def _cvt(statement: Statement, machine: Machine) -> Step | None:
    return _unpair(statement, machine) or _convert(statement, machine)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {"cvt": _cvt, "setp": _set_predicate, "set": _set}
