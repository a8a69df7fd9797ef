"""Which registers an instruction reads and writes, from the text that nvdisasm prints.

A set of registers is an integer, bit by bit: R0 to R254 from bit 0, UR0 to UR254 from UNIFORM, P0 to P6 from PREDICATE,
UP0 to UP6 from UNIFORM_PREDICATE. RZ, PT and their like are in none.

>>> from tcprobe.sass.registers import decode, names
>>> form = decode("@!P0 LDS.128 R28, [R3+UR4+0x10]")
>>> names(form.writes), names(form.reads)
(['R28', 'R29', 'R30', 'R31'], ['R3', 'UR4', 'P0'])

The widths agree with the life ranges that nvdisasm prints (`tests/life_ranges.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from tcprobe.isa.opcodes import opcode

UNIFORM, PREDICATE, UNIFORM_PREDICATE = 256, 512, 520
ALL_PREDICATES = 0x7F << PREDICATE
ALL_UNIFORM_PREDICATES = 0x7F << UNIFORM_PREDICATE
BASE = {"R": 0, "UR": UNIFORM, "P": PREDICATE, "UP": UNIFORM_PREDICATE}  # the bit of the first register
_GUARD = re.compile(r"@(!?)(U?P)([0-9T])\s+")
_REGISTER = re.compile(r"(?<![\w.])(UR|R|UP|P)([0-9]{1,3}|Z|T)(?!\w)((?:\.\w+)*)")
_NUMBER = re.compile(r"-?0x[0-9a-f]+$")
_VECTOR = re.compile(r"(?:BF|F)(16|32)x([248])")
_GROUP = re.compile(r"[A-Z]GMMA\.(?:SP\.)?([0-9]{1,3})x([0-9]{1,3})x([0-9]{1,4})\.(\w+)")


class Operand(NamedTuple):
    """One operand of an instruction.

    `kind`: R, UR, P, UP (the register `first`, and `width` in a row from it; -1 for RZ, PT), address (in square
    brackets), descriptor (gdesc, idesc, tmem: from UR `first` on), constant, number (`value`) or other. `mask`: the
    registers it names.
    """

    text: str
    kind: str
    first: int = -1
    width: int = 0
    mask: int = 0
    value: int = 0
    negated: bool = False


class Form:
    """What the text of an instruction says: `guard` as in "!P0", "" where it is always executed, "never" where it
    never is; the registers that it reads and writes, its guard's among those read; `outputs`: how many operands come
    first that are written; `mnemonic` and `modifiers`: the parts of the opcode.
    """

    __slots__ = ("guard", "mnemonic", "modifiers", "opcode", "operands", "outputs", "reads", "writes")

    def __init__(
        self, guard: str, structure: Structure, operands: tuple[Operand, ...], reads: int = 0, writes: int = 0
    ) -> None:
        self.guard, self.operands, self.reads, self.writes = guard, operands, reads, writes
        self.opcode, self.mnemonic, self.modifiers, self.outputs, _ = structure

    def has(self, modifier: str) -> bool:
        """Whether the opcode has a modifier, as in "128"."""
        return modifier in self.modifiers


class Structure(NamedTuple):
    """What instructions with one opcode and the same kinds of operands have in common."""

    opcode: str
    mnemonic: str
    modifiers: tuple[str, ...]
    outputs: int
    widths: tuple[int, ...]


def names(mask: int) -> list[str]:
    """The registers of a set by name."""
    found = []
    for prefix, base in BASE.items():
        found += [f"{prefix}{bit}" for bit in bits_of(mask >> base & ((1 << 255) - 1 if base < PREDICATE else 0x7F))]
    return found


def bits_of(mask: int) -> Iterator[int]:
    """The numbers of the bits of a set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def guard_mask(guard: str) -> int:
    """The predicate of a guard."""
    return 0 if guard in ("", "never") else 1 << guard_bit(guard)


@cache
def guard_bit(guard: str) -> int:
    """The predicate of a guard that names one."""
    kind = "UP" if "UP" in guard else "P"
    return BASE[kind] + int(guard.lstrip("!UP"))


def run(kind: str, index: int, count: int) -> int:
    """`count` registers in a row; none from RZ, PT."""
    return 0 if index < 0 else ((1 << count) - 1) << BASE[kind] + index


@lru_cache(maxsize=1 << 15)
def decode(text: str) -> Form:
    """What an instruction reads and writes."""
    body, guard, guard_mask = text.partition(" (*")[0].strip().rstrip(" ;"), "", 0
    match = _GUARD.match(body)
    if match:
        body = body[match.end() :]
        if match[3] != "T":
            guard, guard_mask = match[1] + match[2] + match[3], run(match[2], int(match[3]), 1)
        elif match[1]:
            guard = "never"
    name, _, rest = body.partition(" ")
    operands = [_operand(part.strip()) for part in rest.split(",")] if rest.strip() else []
    structure = _structure(name, tuple([operand[1:2] + operand[-1:] for operand in operands]))
    _, mnemonic, modifiers, outputs, widths = structure
    operands = [o if o.width == w else _widened(o.text, w, mnemonic) for o, w in zip(operands, widths, strict=True)]
    row = opcode(name)
    writes = _union(operands[:outputs]) | _beside(row.writes)
    reads = _union(operands[outputs:]) | _beside(row.reads) | _bulk(mnemonic, modifiers, operands)
    if guard == "never":
        reads = writes = 0
    return Form(guard, structure, tuple(operands), reads | guard_mask, writes)


@lru_cache(maxsize=1 << 13)
def _structure(name: str, kinds: tuple[tuple[str, bool], ...]) -> Structure:
    """`kinds`: of each operand its kind and whether it is negated."""
    mnemonic, *modifiers = name.split(".")
    operands = [Operand("", kind, negated=negated) for kind, negated in kinds]
    outputs = _outputs(mnemonic, operands)
    return Structure(name, mnemonic, tuple(modifiers), outputs, tuple(_widths(mnemonic, modifiers, operands, outputs)))


@lru_cache(maxsize=1 << 14)
def _widened(text: str, width: int, mnemonic: str) -> Operand:
    """An operand that takes `width` registers in a row, where it is one.

    gdesc[UR4] of a warpgroup's multiply stands for the descriptors of A, UR4 and UR5, and of B, UR6 and UR7.
    """
    operand = _operand(text)
    if operand.kind in ("R", "UR"):
        return operand._replace(width=width, mask=run(operand.kind, operand.first, width))
    if operand.kind == "descriptor" and mnemonic.endswith("GMMA"):
        return operand._replace(width=4, mask=run("UR", operand.first, 4))
    return operand


def _beside(spaces: Sequence[str]) -> int:
    """The registers that an instruction reads or writes without naming them."""
    uniform = ALL_UNIFORM_PREDICATES if "uniform predicates" in spaces else 0
    return ALL_PREDICATES | uniform if "predicates" in spaces else uniform


def _union(operands: Sequence[Operand]) -> int:
    mask = 0
    for operand in operands:
        mask |= operand.mask
    return mask


@lru_cache(maxsize=1 << 14)
def _operand(text: str) -> Operand:
    """An operand as it stands there; registers outside brackets count one until their width is known."""
    bare = text.lstrip("-!~+|")
    negated = text[:1] == "!"
    match = _REGISTER.match(bare)
    if match and "[" not in bare and " " not in bare:
        index = int(match[2]) if match[2].isdigit() else -1
        return Operand(text, match[1], index, 1, run(match[1], index, 1), negated=negated)
    if _NUMBER.match(bare):
        return Operand(text, "number", value=-int(bare, 16) if text[:1] == "-" else int(bare, 16))
    if "[" in text:
        return _bracketed(text)
    mask = 0
    for kind, index, _ in _registers(text):  # as of BRX R8 -0x500, RET.REL R20 0x0: a pair
        mask |= run(kind, index, 2)
    return Operand(text, "other", mask=mask)


def _registers(text: str) -> Iterator[tuple[str, int, str]]:
    for match in _REGISTER.finditer(text):
        if match[2].isdigit():
            yield match[1], int(match[2]), match[3]


def _bracketed(text: str) -> Operand:
    """An address, a constant, or a descriptor: the uniform registers of a descriptor are a pair."""
    mask, first = 0, -1
    for part in re.finditer(r"(\w*)\[([^\]]*)\]", text):
        for kind, index, suffix in _registers(part[2]):
            wide = part[1] in ("desc", "cx", "gdesc") or ".64" in suffix
            mask |= run(kind, index, 2 if wide else 1)
            if first < 0:
                first = index
    prefix = text.lstrip("-|!~").partition("[")[0]
    kind = {"c": "constant", "cx": "constant", "": "address", "desc": "address"}.get(prefix, "descriptor")
    return Operand(text, kind, first, mask=mask)


def _outputs(mnemonic: str, operands: Sequence[Operand]) -> int:
    """How many of the first operands are written: predicates beside a register too."""
    kinds, outputs = [operand.kind for operand in operands], opcode(mnemonic).outputs
    if not kinds or outputs == "none" or (outputs == "granted" and kinds[0] != "UP"):
        return 0
    if outputs == "votes":
        return len(operands) - 1
    if kinds[0] in ("P", "UP"):
        second = len(kinds) > 1 and kinds[1] in BASE and not operands[1].negated
        return 2 if second and outputs != "predicate" else 1
    count = 1 if kinds[0] in ("R", "UR", "other") else 0
    while count and count < len(kinds) and kinds[count] in ("P", "UP") and not operands[count].negated:
        count += 1
    return count if count < len(kinds) else min(count, 1)


def _widths(mnemonic: str, modifiers: Sequence[str], operands: Sequence[Operand], outputs: int) -> list[int]:
    """How many registers in a row each operand takes, where it is one."""
    count, (scheme, *shapes) = len(operands), opcode(mnemonic).widths
    match scheme:
        case "warpgroup":
            return _warpgroup_widths(".".join([mnemonic, *modifiers]), operands)
        case "multiply":
            return [*_warp_widths(shapes, modifiers), *[1] * count][:count]
        case "product" if "WIDE" in modifiers:
            return [2 if j in (0, _addend(operands)) else 1 for j in range(count)]
        case "special":
            return [1 if "32" in modifiers else 2] * count
        case "conversion":
            return _converted(mnemonic, modifiers, count)
        case "matrices":
            return [next((int(m) for m in modifiers if m in ("2", "4")), 1)] * count
        case "tensor":
            return [_tensor_memory(modifiers)] * count
        case "memory":
            return [_memory_width(modifiers)] * count
        case "match":
            return [1 if j < outputs else _memory_width(modifiers) for j in range(count)]
    return [2 if scheme == "pair" or "64" in modifiers else 1] * count


def _memory_width(modifiers: Sequence[str]) -> int:
    """Registers of what a load, store or atomic moves; 256 bits are two operands of four."""
    bits = next((int(m) for m in modifiers if m in ("64", "128", "256")), 32)
    vector = next((match for m in modifiers if (match := _VECTOR.fullmatch(m))), None)
    if vector:
        bits = int(vector[1]) * int(vector[2])
    elif {"U64", "S64", "F64"} & set(modifiers):
        bits = max(bits, 64)
    return 4 if "ENL2" in modifiers else max(1, bits // 32)


def _warp_widths(shapes: Sequence[str], modifiers: Sequence[str]) -> tuple[int, ...]:
    """D, A, B, C of a warp's multiply; `shapes`: as "16816:4,2,4", registers of A, B and D."""
    shape = next((m for m in modifiers if m[:1].isdigit()), "")
    numbers = next((each for each in shapes if each.partition(":")[0] == shape), ":4,2,4").partition(":")[2]
    a, b, d = map(int, numbers.split(","))
    if "F16" in modifiers and "F32" not in modifiers and shape != "884":
        d = 2
    if "TF32" in modifiers and shape == "1688":
        a, b = 4, 2
    return d, a, b, d


def _addend(operands: Sequence[Operand]) -> int:
    """The place of C of D = A B + C: the third of those that are no output."""
    first = next((j for j in range(1, len(operands)) if operands[j].kind not in ("P", "UP")), 1)
    return first + 2


def _converted(mnemonic: str, modifiers: Sequence[str], count: int) -> list[int]:
    """Registers of a conversion's result and source: the types stand in this order where both are named."""
    types = [m for m in modifiers if re.fullmatch(r"(?:B?F|[USB])[0-9]+", m)]
    wide = [t.endswith("64") for t in types]
    if len(types) == 1:  # the float of I2F and F2I has 32 bits where it is not named, so has the integer
        integer = types[0][0] in "US"
        to = wide[0] if mnemonic == "FRND" else wide[0] and integer == (mnemonic == "F2I")
        source = wide[0] if mnemonic == "FRND" else wide[0] and integer == (mnemonic == "I2F")
    else:
        to, source = (*wide, False, False)[:2]
    return [2 if to else 1, *[2 if source else 1] * (count - 1)][:count]


def _tensor_memory(modifiers: Sequence[str]) -> int:
    """Registers of a load or store of tensor memory, by lanes x bits x repetitions."""
    times = next((int(m[1:]) for m in modifiers if re.fullmatch(r"x[0-9]+", m)), 1)
    shape = next((match for m in modifiers if (match := re.fullmatch(r"([0-9]+)dp([0-9]+)b?(?:it)?(?:x2)?", m))), None)
    each = max(1, int(shape[1]) * int(shape[2]) // 1024) if shape else 1
    return times * each


def _warpgroup_widths(opcode: str, operands: Sequence[Operand]) -> list[int]:
    """D, A in registers if it is, C as D; the index of sparse factors one."""
    match = _GROUP.match(opcode)
    d = int(match[2]) // (4 if match[4] == "F16" else 2) if match else 1
    in_registers = len(operands) > 1 and operands[1].kind == "R"
    return [*([d, 4, 1, d] if in_registers else [d, 1, d]), *[1] * len(operands)][: len(operands)]


def _bulk(mnemonic: str, modifiers: Sequence[str], operands: Sequence[Operand]) -> int:
    """Uniform registers behind the brackets of a bulk or tensor copy: coordinates and barrier follow the address."""
    if not mnemonic.startswith(("UTMA", "UBLK")) or not operands:
        return 0
    dims = next((int(m[0]) for m in modifiers if re.fullmatch(r"[0-9]D", m)), 0)
    width = {"UTMALDG": 2 + dims, "UTMASTG": 1 + dims, "UTMAREDG": 1 + dims, "UTMAPF": 1 + dims}.get(mnemonic, 2)
    mask = run("UR", operands[0].first, width)
    for operand in operands[1:]:
        mask |= run("UR", operand.first, 2) if operand.kind == "address" else 0
    return mask


def group_sizes(opcode: str) -> tuple[int, int, int]:
    """m, n, k of a warpgroup's multiply; zeros of another opcode."""
    match = _GROUP.match(opcode)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def group_shape(opcode: str) -> str:
    """The shape and types of a warpgroup's multiply, as accumulators of the same one agree: "64x128x16.F32"."""
    match = _GROUP.match(opcode)
    return f"{match[1]}x{match[2]}.{match[4]}" if match else ""
