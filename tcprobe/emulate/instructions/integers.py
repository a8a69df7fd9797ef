"""Whole numbers and bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.machine import Machine, State, Step, Where
from tcprobe.emulate.operands import NUMPY, has, operation, types
from tcprobe.emulate.ptx import Address, Immediate, Named, Register, Statement, Vector

WIDE = {
    np.dtype(np.int16): np.int32,
    np.dtype(np.uint16): np.uint32,
    np.dtype(np.int32): np.int64,
    np.dtype(np.uint32): np.uint64,
}


def _kind(statement: Statement) -> Any:
    """The NumPy type of whole numbers; None for floats, which another module knows."""
    names = types(statement)
    if not names or names[-1][0] not in "usb" or "x2" in names[-1] or names[-1].startswith("bf"):
        return None
    return NUMPY[names[-1]]


def _two(function: Callable[..., Any]) -> Callable[[Statement, Machine], Step | None]:
    def compile_(statement: Statement, machine: Machine) -> Step | None:
        kind = _kind(statement)
        if kind is None:
            return None
        has(statement)
        return operation(machine, statement, function, kind, *(kind,) * (len(statement.operands) - 1))

    return compile_


def _extreme(function: Callable[..., Any]) -> Callable[[Statement, Machine], Step | None]:
    """min, max: with .relu of zero too."""

    def compile_(statement: Statement, machine: Machine) -> Step | None:
        kind = _kind(statement)
        if kind is None:
            return None
        if "relu" not in has(statement, "relu"):
            return operation(machine, statement, function, kind, kind, kind)
        return operation(machine, statement, lambda a, b: np.maximum(function(a, b), kind.type(0)), kind, kind, kind)

    return compile_


def _logic(function: Callable[..., Any]) -> Callable[[Statement, Machine], Step | None]:
    """and, or, xor, not: of predicates too."""

    def compile_(statement: Statement, machine: Machine) -> Step | None:
        kind = NUMPY[types(statement)[-1]] if types(statement) else None
        if kind is None or kind.kind not in "ub":
            return None
        return operation(machine, statement, function, kind, *(kind,) * (len(statement.operands) - 1))

    return compile_


def _add(statement: Statement, machine: Machine) -> Step | None:
    kind = _kind(statement)
    if kind is None:
        return None
    words, subtract = has(statement, "sat", "cc"), statement.opcode.startswith("sub")
    if "cc" in words or statement.opcode in ("addc", "subc"):
        return _with_carry(statement, machine, kind, subtract, "cc" in words)
    if "sat" in words:

        def saturated(a: Any, b: Any) -> Any:
            wide = np.subtract(a, b, dtype=np.int64) if subtract else np.add(a, b, dtype=np.int64)
            return _clamped(wide)

        return operation(machine, statement, saturated, kind, kind, kind)
    return operation(machine, statement, np.subtract if subtract else np.add, kind, kind, kind)


def _clamped(wide: Any) -> Any:
    """.sat: the nearest s32."""
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


class Carry(State):
    """The carry of each thread (CC.CF)."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.flag = np.zeros(machine.count, np.bool_)

    def restart(self) -> None:
        """There is none."""
        self.flag[:] = False


def _with_carry(statement: Statement, machine: Machine, kind: Any, subtract: bool, keeps: bool) -> Step:
    kind = np.dtype(f"u{kind.itemsize}")
    carry, takes = machine.state(Carry).flag, statement.opcode.endswith("c")
    write = machine.writer(statement.operands[0], kind)
    a, b = (machine.reader(operand, kind) for operand in statement.operands[1:3])

    def run(where: Where) -> None:
        x, y = a(where), b(where)
        own = carry[where].astype(kind) if takes else kind.type(0)
        if subtract:
            made = x - y - own
            out = (x < y) | ((x == y) & (own != 0))
        else:
            made = x + y + own
            out = (made < x) | ((made == x) & (own != 0) & (y != 0))
        write(where, made)
        if keeps:
            carry[where] = out

    return run


def _high(a: Any, b: Any) -> Any:
    """The high half of a product."""
    a, b = np.asarray(a), np.asarray(b)
    kind = a.dtype
    if kind.itemsize < 8:
        wide: Any = WIDE[kind]
        return (a.astype(wide) * b.astype(wide) >> 8 * kind.itemsize).astype(kind)
    exact = np.multiply(a.astype(object), b.astype(object))
    return ((exact >> 64) & (1 << 64) - 1).astype(np.uint64).view(kind)


def _mul(statement: Statement, machine: Machine) -> Step | None:
    """mul and mad: lo, hi, wide, and of 24 bits."""
    kind = _kind(statement)
    if kind is None:
        return None
    words = has(statement, "lo", "hi", "wide", "cc", "sat")
    if "cc" in words or statement.opcode == "madc":
        return _mad_with_carry(statement, machine, kind, words)
    adds = statement.opcode == "mad"
    result = np.dtype(WIDE[kind]) if "wide" in words else kind

    def run(a: Any, b: Any, c: Any = 0) -> Any:
        if "wide" in words:
            product = np.asarray(a).astype(result) * np.asarray(b).astype(result)
        else:
            product = _high(a, b) if "hi" in words else np.multiply(a, b)
        if "sat" in words:
            return _clamped(np.add(product, c, dtype=np.int64))
        return product + c if adds else product

    return operation(machine, statement, run, result, kind, kind, *((result,) if adds else ()))


def _mad_with_carry(statement: Statement, machine: Machine, kind: Any, words: set[str]) -> Step:
    kind = np.dtype(f"u{kind.itemsize}") if "lo" in words else kind
    carry, takes = machine.state(Carry).flag, statement.opcode == "madc"
    unsigned = np.dtype(f"u{kind.itemsize}")
    write = machine.writer(statement.operands[0], unsigned)
    a, b, c = (machine.reader(operand, kind) for operand in statement.operands[1:4])

    def run(where: Where) -> None:
        x, y = a(where), b(where)
        product = np.asarray(_high(x, y) if "hi" in words else np.multiply(x, y)).view(unsigned)
        addend = np.asarray(c(where)).view(unsigned)
        own = carry[where].astype(unsigned) if takes else unsigned.type(0)
        made = product + addend + own
        write(where, made)
        if "cc" in words:
            carry[where] = (made < product) | ((made == product) & (own != 0) & (addend != 0))

    return run


def _divide(a: Any, b: Any) -> Any:
    """Toward zero; all ones for a divisor of zero."""
    a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
    none = b == 0
    safe = np.where(none, a.dtype.type(1), b)
    if a.dtype.kind == "i":
        wide = np.where(a < 0, np.uint64(0) - a.astype(np.uint64), a.astype(np.uint64))
        by = np.where(safe < 0, np.uint64(0) - safe.astype(np.uint64), safe.astype(np.uint64))
        size = wide // by
        quotient = np.where((a < 0) != (safe < 0), np.uint64(0) - size, size).astype(a.dtype)
    else:
        quotient = a // safe
    return np.where(none, np.array(-1).astype(a.dtype), quotient)


def _remainder(a: Any, b: Any) -> Any:
    """With the sign of `a`; all ones for a divisor of zero, as an H200 has it."""
    a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
    return np.where(b == 0, np.array(-1).astype(a.dtype), a - _divide(a, b) * b)


def _shift(statement: Statement, machine: Machine) -> Step | None:
    kind = _kind(statement)
    if kind is None:
        return None
    bits, left = 8 * kind.itemsize, statement.opcode == "shl"

    def run(a: Any, by: Any) -> Any:
        a = np.asarray(a)
        over = by >= bits
        amount = np.minimum(by, bits - 1).astype(kind)
        if left:
            return np.where(over, kind.type(0), a << amount)
        return np.where(over, a >> kind.type(bits - 1) if kind.kind == "i" else kind.type(0), a >> amount)

    return operation(machine, statement, run, kind, kind, np.uint32)


def _funnel(statement: Statement, machine: Machine) -> Step:
    words = has(statement, "l", "r", "wrap", "clamp")

    def run(a: Any, b: Any, by: Any) -> Any:
        both = np.asarray(b).astype(np.uint64) << np.uint64(32) | np.asarray(a).astype(np.uint64)
        amount = (by & 31 if "wrap" in words else np.minimum(by, 32)).astype(np.uint64)
        if "l" in words:
            return ((both << amount) >> np.uint64(32)).astype(np.uint32)
        return (both >> amount).astype(np.uint32)

    return operation(machine, statement, run, np.uint32, np.uint32, np.uint32, np.uint32)


_READ = {32: 255, 64: 0xFFFFFFFF}  # bits of a place and a length that count; PTX has them up to 255, an H200 does so


def _field(statement: Statement, machine: Machine) -> Step | None:
    """bfe."""
    kind = _kind(statement)
    bits, unsigned = 8 * kind.itemsize, np.dtype(f"u{kind.itemsize}")
    read = _READ[bits]

    def run(a: Any, at: Any, length: Any) -> Any:
        a = np.asarray(a)
        at, length = (np.asarray(n).astype(np.int64) & read for n in (at, length))
        word = a.view(unsigned)
        taken = np.where(at < bits, word >> np.minimum(at, bits - 1).astype(unsigned), 0).astype(unsigned)
        mask = np.where(
            length >= bits,
            ~unsigned.type(0),
            (unsigned.type(1) << np.minimum(length, bits - 1).astype(unsigned)) - unsigned.type(1),
        )
        made = taken & mask
        if kind.kind == "i":
            top = np.minimum(at + length - 1, bits - 1)
            sign = np.where(length > 0, word >> np.maximum(top, 0).astype(unsigned) & unsigned.type(1), 0)
            present = np.where(at < bits, np.minimum(length, bits - at), 0)
            above = np.where(
                present >= bits,
                unsigned.type(0),
                ~((unsigned.type(1) << np.clip(present, 0, bits - 1).astype(unsigned)) - unsigned.type(1)),
            )
            made = np.where(sign != 0, made & ~above | above, made)
        return made.astype(unsigned).view(kind)

    return operation(machine, statement, run, kind, kind, np.uint32, np.uint32)


def _insert(statement: Statement, machine: Machine) -> Step:
    """bfi: the low bits of a into b."""
    kind = NUMPY[types(statement)[-1]]
    bits = 8 * kind.itemsize
    read = _READ[bits]

    def run(a: Any, b: Any, at: Any, length: Any) -> Any:
        at, length = (np.asarray(n).astype(np.int64) & read for n in (at, length))
        mask = np.where(
            length >= bits, ~kind.type(0), (kind.type(1) << np.minimum(length, bits - 1).astype(kind)) - kind.type(1)
        )
        moved = np.where(at < bits, mask << np.minimum(at, bits - 1).astype(kind), 0).astype(kind)
        return b & ~moved | (np.asarray(a) << np.minimum(at, bits - 1).astype(kind)) & moved

    return operation(machine, statement, run, kind, kind, kind, np.uint32, np.uint32)


def _count(statement: Statement, machine: Machine) -> Step:
    """popc, clz, bfind, brev."""
    kind = NUMPY[types(statement)[-1]]
    words, bits, unsigned = has(statement, "shiftamt"), 8 * kind.itemsize, np.dtype(f"u{kind.itemsize}")

    def top(a: Any) -> Any:
        word = np.asarray(a).view(unsigned).astype(np.uint64)
        length = np.zeros(word.shape, np.int64)
        for step in (32, 16, 8, 4, 2, 1):
            more = word >> np.uint64(step) != 0
            length += np.where(more, step, 0)
            word = np.where(more, word >> np.uint64(step), word)
        return np.where(word == 0, -1, length)

    def run(a: Any) -> Any:
        if statement.opcode == "popc":
            return np.bitwise_count(np.asarray(a).view(unsigned)).astype(np.uint32)
        if statement.opcode == "clz":
            return (bits - 1 - top(a)).astype(np.uint32)
        if statement.opcode == "bfind":
            value = np.asarray(a)
            place = top(np.where(value < 0, ~value, value) if kind.kind == "i" else value)
            return (
                np.where(place < 0, -1, bits - 1 - place if "shiftamt" in words else place)
                .astype(np.int32)
                .view(np.uint32)
            )
        raw = np.ascontiguousarray(np.broadcast_to(a, np.shape(a) or (1,))).astype(f">u{kind.itemsize}").view(np.uint8)
        turned = np.packbits(np.unpackbits(raw.reshape(-1, kind.itemsize), axis=1)[:, ::-1], axis=1)
        return turned.copy().view(f">u{kind.itemsize}")[:, 0].astype(unsigned)

    return operation(machine, statement, run, unsigned if statement.opcode == "brev" else np.uint32, kind)


PERMUTED = {  # by a mode and the low bits of its selector the bytes, the lowest first (PTX ISA 9.1, 9.7.9.7)
    "f4e": ("0123", "1234", "2345", "3456"),
    "b4e": ("0765", "1076", "2107", "3210"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("0123", "1123", "2223", "3333"),
    "ecr": ("0000", "0111", "0122", "0123"),
    "rc16": ("0101", "2323", "0101", "2323"),
}


def _permute(statement: Statement, machine: Machine) -> Step:
    """prmt."""
    mode = next((word for word in statement.modifiers if word in PERMUTED), None)
    selectors = np.array([int(bytes_[::-1], 16) for bytes_ in PERMUTED[mode]], np.uint32) if mode else None

    def run(a: Any, b: Any, selector: Any) -> Any:
        both = np.asarray(b).astype(np.uint64) << np.uint64(32) | np.asarray(a).astype(np.uint64)
        selector = np.asarray(selector) if selectors is None else selectors[np.asarray(selector) & np.uint32(3)]
        made: Any = np.uint64(0)
        for byte in range(4):
            wanted = (selector >> np.uint32(4 * byte) & np.uint32(15)).astype(np.uint64)
            value = both >> (wanted & np.uint64(7)) * np.uint64(8) & np.uint64(255)
            value = np.where(
                wanted & np.uint64(8), np.where(value & np.uint64(128), np.uint64(255), np.uint64(0)), value
            )
            made = made | value << np.uint64(8 * byte)
        return made.astype(np.uint32)

    return operation(machine, statement, run, np.uint32, np.uint32, np.uint32, np.uint32)


def _lookup(statement: Statement, machine: Machine) -> Step:
    """lop3: the table is a number of the text."""
    last = statement.operands[-1]
    if not isinstance(last, Immediate) or len(statement.operands) != 5:
        raise statement.refused()

    def run(a: Any, b: Any, c: Any, table: Any) -> Any:
        del table
        made = np.uint32(0)
        for minterm in range(8):
            if last.value >> minterm & 1:
                made = made | (a if minterm & 4 else ~a) & (b if minterm & 2 else ~b) & (c if minterm & 1 else ~c)
        return made

    return operation(machine, statement, run, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32)


def _dot(statement: Statement, machine: Machine) -> Step:
    """dp4a, dp2a."""
    first, second = types(statement)
    words = has(statement, "lo", "hi")
    result = np.dtype(np.int32 if "s32" in (first, second) else np.uint32)

    def parts(word: Any, signed: bool, bits: int) -> list[Any]:
        word = np.asarray(word).astype(np.int64)
        every = [word >> bits * n & (1 << bits) - 1 for n in range(32 // bits)]
        return [(n ^ 1 << bits - 1) - (1 << bits - 1) if signed else n for n in every]

    def run(a: Any, b: Any, c: Any) -> Any:
        left = parts(a, first == "s32", 8 if statement.opcode == "dp4a" else 16)
        right = parts(b, second == "s32", 8)
        right = right[2:] if "hi" in words else right[: len(left)]
        total = sum(x * y for x, y in zip(left, right, strict=True)) + np.asarray(c).astype(np.int64)
        return (total & 0xFFFFFFFF).astype(np.uint32).view(result)

    return operation(machine, statement, run, result, np.uint32, np.uint32, result)


def _sad(statement: Statement, machine: Machine) -> Step | None:
    kind = _kind(statement)
    return operation(
        machine, statement, lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c, kind, kind, kind, kind
    )


def _select(statement: Statement, machine: Machine) -> Step:
    """selp."""
    kind = NUMPY[types(statement)[-1]]
    bits = np.dtype(f"u{kind.itemsize}")
    own = kind if kind.kind == "f" else bits
    write = machine.writer(statement.operands[0], own)
    a, b = (machine.reader(operand, own) for operand in statement.operands[1:3])
    p = machine.reader(statement.operands[3], np.bool_)

    def run(where: Where) -> None:
        write(where, np.where(p(where), a(where), b(where)))

    return run


def _move(statement: Statement, machine: Machine) -> Step:
    """mov: registers, addresses, and vectors as one register or the other way round."""
    target, source = statement.operands
    kind = statement.modifiers[-1]
    if isinstance(target, Vector) or isinstance(source, Vector):
        return _repack(statement, machine)
    if kind == "b128":
        assert isinstance(target, Register)
        assert isinstance(source, Register)
        to, of = machine.register(target), machine.register(source)

        def whole(where: Where) -> None:
            to[where] = of[where]

        return whole
    dtype = NUMPY[kind]
    if isinstance(source, Address) and not isinstance(source.base, Named):
        raise statement.refused()
    if isinstance(source, Named) and source.name in machine.code.functions:
        start = machine.code.starts[source.name]
        return operation(machine, statement._replace(operands=(target, Immediate(start))), lambda a: a, dtype, dtype)
    return operation(machine, statement, lambda a: a, dtype, dtype)


def _repack(statement: Statement, machine: Machine) -> Step:
    target, source = statement.operands
    whole = {"b16": 2, "b32": 4, "b64": 8, "b128": 16}.get(statement.modifiers[-1])
    if whole is None:
        raise statement.refused()
    many = machine.items(source if isinstance(source, Vector) else target)
    part: Any = np.dtype(f"u{whole // len(many)}") if whole // len(many) in (1, 2, 4, 8) else None
    if part is None:
        raise statement.refused()
    single = target if isinstance(source, Vector) else source
    if whole == 16:
        assert isinstance(single, Register)
        array = machine.register(single)
        one_read: Any = array.__getitem__
        one_write: Any = array.__setitem__
        word: Any = np.dtype(np.uint64)
    else:
        word = np.dtype(f"u{whole}")
        one_read = machine.reader(single, word) if not isinstance(source, Vector) else None
        one_write = machine.writer(single, word) if isinstance(source, Vector) else None
    if isinstance(source, Vector):
        readers = [machine.reader(item, part) for item in many]

        def pack(where: Where) -> None:
            made = np.empty((machine.threads[where].size, len(many)), part)
            for number, read in enumerate(readers):
                made[:, number] = read(where)
            made = made.view(word)
            one_write(where, made if whole == 16 else made[:, 0])

        return pack
    writers = [machine.writer(item, part) for item in many]

    def unpack(where: Where) -> None:
        parts = np.ascontiguousarray(
            np.broadcast_to(one_read(where), (machine.threads[where].size, *((2,) if whole == 16 else ())))
        )
        parts = parts.view(part).reshape(-1, len(many))
        for number, write in enumerate(writers):
            write(where, parts[:, number])

    return unpack


def _compare_sign(statement: Statement, machine: Machine) -> Step:
    """slct: a where c >= 0."""
    first, second = types(statement)
    kind = np.dtype(f"u{NUMPY[first].itemsize}")
    least = -(2.0**-126) if "ftz" in statement.modifiers else 0  # what is above it is zero

    def run(a: Any, b: Any, c: Any) -> Any:
        return np.where((c > least) | (c == 0), a, b)

    return operation(machine, statement, run, kind, kind, kind, NUMPY[second])


def _mask(statement: Statement, machine: Machine) -> Step:
    """bmsk: `length` ones from a place on."""
    words = has(statement, "clamp", "wrap")

    def run(at: Any, length: Any) -> Any:
        at, length = np.asarray(at).astype(np.int64), np.asarray(length).astype(np.int64)
        at, length = (at & 31, length & 31) if "wrap" in words else (np.minimum(at, 32), np.minimum(length, 32))
        return (((1 << length) - 1 << at) & 0xFFFFFFFF).astype(np.uint32)

    return operation(machine, statement, run, np.uint32, np.uint32, np.uint32)


def _short_pairs(statement: Statement, machine: Machine) -> Step | None:
    """add, min, max of u16x2 and s16x2."""
    names = types(statement)
    if names[-1:] not in (["u16x2"], ["s16x2"]):
        return None
    has(statement, "relu")
    half = np.dtype(np.int16 if names[-1] == "s16x2" else np.uint16)
    function = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum}[statement.opcode]

    def run(a: Any, b: Any) -> Any:
        a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
        made = function(np.ascontiguousarray(a).view(half), np.ascontiguousarray(b).view(half))
        return np.maximum(made, half.type(0)).view(np.uint32) if "relu" in statement.modifiers else made.view(np.uint32)

    return operation(machine, statement, run, np.uint32, np.uint32, np.uint32)


def _either(*compilers: Callable[[Statement, Machine], Step | None]) -> Callable[[Statement, Machine], Step | None]:
    def compile_(statement: Statement, machine: Machine) -> Step | None:
        return next((step for one in compilers if (step := one(statement, machine)) is not None), None)

    return compile_


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "add": _either(_add, _short_pairs),
    "sub": _either(_add, _short_pairs),
    "addc": _add,
    "subc": _add,
    "mul": _mul,
    "mad": _mul,
    "madc": _mul,
    "div": _two(_divide),
    "rem": _two(_remainder),
    "min": _either(_extreme(np.minimum), _short_pairs),
    "max": _either(_extreme(np.maximum), _short_pairs),
    "abs": _two(np.abs),
    "neg": _two(np.negative),
    "and": _logic(np.bitwise_and),
    "or": _logic(np.bitwise_or),
    "xor": _logic(np.bitwise_xor),
    "not": _logic(np.invert),
    "cnot": _two(lambda a: (np.asarray(a) == 0).astype(np.asarray(a).dtype)),
    "shl": _shift,
    "shr": _shift,
    "shf": _funnel,
    "bfe": _field,
    "bfi": _insert,
    "bmsk": _mask,
    "popc": _count,
    "clz": _count,
    "bfind": _count,
    "brev": _count,
    "prmt": _permute,
    "lop3": _lookup,
    "dp4a": _dot,
    "dp2a": _dot,
    "sad": _sad,
    "selp": _select,
    "slct": _compare_sign,
    "mov": _move,
}
