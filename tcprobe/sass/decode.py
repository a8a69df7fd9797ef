"""The text that nvdisasm prints of an instruction, decoded once: all others read these fields.

>>> from tcprobe.sass.decode import decode
>>> from tcprobe.sass.registers import names
>>> form = decode("@!P0 LDS.128 R28, [R3+UR4+0x10]")
>>> form.guard, form.mnemonic, form.modifiers, [operand.kind for operand in form.operands]
('!P0', 'LDS', ('128',), ['R', 'address'])
>>> names(form.writes), names(form.reads)
(['R28', 'R29', 'R30', 'R31'], ['R3', 'UR4', 'P0'])
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

from tcprobe.isa.opcodes import opcode
from tcprobe.sass.registers import BASE, run
from tcprobe.sass.widths import beside, bulk, outputs, widths

UNPRINTED = "UNPRINTED"  # in place of an instruction that nvdisasm does not print
LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_GUARD = re.compile(r"@(!?)(U?P)([0-6T])\s+")
_COUNT = "25[0-4]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9]"
_SUFFIXES = r"(\.reuse)?((?:\.[\w?]+)*)"
_REGISTER = re.compile(
    r"([-~](?=\|?U?R)|!(?=\|?U?P))?(\|?)(UR|R|UP|P|SB|B)"
    rf"((?<=R)(?:{_COUNT}|Z)|(?<=P)[0-6T]|(?<=SB)[0-5]|(?<!S)(?<=B)(?:1[0-5]|[0-9]))(\2){_SUFFIXES}",
    re.ASCII,
)
_BRACKETS = re.compile(
    rf"([-~]?)(\|?)(?:(cx?|desc)\[(?:UR({_COUNT}|Z)|(0x[0-9a-f]+))\] ?|(?!cx?\[)(\w*))\[([^][]*)\](\2){_SUFFIXES}",
    re.ASCII,
)
_TERM = re.compile(rf"(UR|R)({_COUNT}|Z)((?:\.\w+)?)", re.ASCII)
_NUMBER = re.compile(r"(-?)0x[0-9a-f]+")
_FLOAT = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
_SPECIAL = re.compile(r"SR_[\w.]+|SRZ", re.ASCII)
_TARGET = re.compile(rf"(UR|R)({_COUNT}|Z) (-?0x[0-9a-f]+)")
_NAMED = re.compile(rf"(?<![\w.])(UR|R|UP|P)((?<=R)(?:{_COUNT})|(?<=P)[0-6])(?!\w)", re.ASCII)
_PARTS = ("", "ROW", "COL", "H0_H0", "H1_H1", "H1")  # of registers, that the exact interpreter knows
_SHIFTS = {"X4": 2, "X8": 3, "X16": 4}


class UnreadError(Exception):
    """An opcode, modifier, operand or situation that is not modelled exactly."""


class Term(NamedTuple):
    """A register in square brackets, of kind R or UR, number -1 of RZ and URZ; `part`: how it is taken, as in "64",
    "X4", "U32".
    """

    kind: str
    first: int
    part: str = ""

    @property
    def shift(self) -> int:
        """It counts 2 to this power times."""
        return _SHIFTS.get(self.part, 0)

    @property
    def wide(self) -> bool:
        """Whether it is a pair of registers."""
        return self.part == "64"

    @property
    def mask(self) -> int:
        """The registers that it names."""
        return run(self.kind, self.first, 1 + self.wide)


class Operand(NamedTuple):
    """One operand of an instruction; all but of kind other, their fields say what `text` says.

    `kind`: R, UR, P, UP, B (barrier), SB (scoreboard): register `first`, -1 for RZ, PT, and `width` in a row from it;
    number (`value`, which has its sign); float; special (SR_TID.X); target (of RET, BRX: R8 -0x500); address, constant,
    descriptor (in square brackets; `first` of the registers in them); other. `mask`: the registers that it names.

    `sign`: "-", "~", of predicates "!"; `absolute`: |R3|; `part`: what is taken of it, as in "H0_H0", "ROW", "tnspB".
    A target is a sum of `terms` and `offset`, as is what stands in square brackets; before these is `prefix` ("c",
    "desc", "gdesc", ...), with the constant's `bank`, or a `descriptor` in a pair from that UR on: desc[UR4][R2.64].
    """

    text: str
    kind: str
    first: int = -1
    width: int = 0
    mask: int = 0
    value: int = 0
    sign: str = ""
    absolute: bool = False
    reuse: bool = False
    part: str = ""
    prefix: str = ""
    bank: int | None = None
    descriptor: int | None = None
    terms: tuple[Term, ...] = ()
    offset: int = 0

    def __str__(self) -> str:
        """Without what says that it is kept for the next instruction."""
        return self.text.replace(".reuse", "")

    @property
    def encoded(self) -> int:
        """The number of the register as it is encoded: RZ is 255, PT 7."""
        return self.first if self.first >= 0 else 7 if self.kind in ("P", "UP") else 255

    @property
    def view(self) -> str:
        """Its kind, with the part that is taken of it: "R", "R.H0_H0"."""
        return f"{self.kind}.{self.part}" if self.part else self.kind

    @property
    def word(self) -> int:
        """The 32 bits of a number."""
        return self.value & 0xFFFFFFFF

    @property
    def parameter(self) -> int | None:
        """The place in constant bank 0 that it names, whatever its sign; None of all else."""
        return None if self.bank != 0 or self.terms or self.absolute or self.part else self.offset


@dataclass(eq=False, slots=True)
class Form:
    """What the text of an instruction says: `guard` as in "!P0", "" where it is always executed, "never" where it
    never is; the registers that it reads and writes, its guard's among those read; `outputs`: how many operands come
    first that are written; `mnemonic` and `modifiers`: the parts of the opcode.
    """

    text: str
    guard: str
    opcode: str
    mnemonic: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    outputs: int
    reads: int
    writes: int

    def has(self, modifier: str) -> bool:
        """Whether the opcode has a modifier, as in "128"."""
        return modifier in self.modifiers


@lru_cache(maxsize=1 << 15)
def decode(text: str) -> Form:
    """What the text of one instruction says."""
    guard, guard_mask, name, rest = _split(text)
    operands = [operand(part.strip()) for part in rest.split(",")] if rest.strip() else []
    mnemonic, modifiers, count, taken = _structure(name, tuple([(o.kind, o.sign) for o in operands]))
    operands = [o if o.width == w else _widened(o.text, w, mnemonic) for o, w in zip(operands, taken, strict=True)]
    row = opcode(name)
    writes = union(operands[:count]) | beside(row.writes)
    reads = union(operands[count:]) | beside(row.reads) | bulk(mnemonic, modifiers, operands)
    if guard == "never":
        reads = writes = 0
    return Form(text, guard, name, mnemonic, modifiers, tuple(operands), count, reads | guard_mask, writes)


def exact(text: str) -> Form:
    """As `decode`, for the exact interpreter: UnreadError if the form of an operand is not modelled there.

    A filler that is never executed becomes a NOP, whatever its text.
    """
    form = decode(text)
    if form.guard == "never":
        return decode("NOP")
    unknown = next((operand for operand in form.operands if not _modelled(operand)), None)
    if unknown is not None:
        raise UnreadError(f"operand {unknown.text!r} is not known")
    return form


def _modelled(operand: Operand) -> bool:
    """Whether the exact interpreter knows the form of an operand."""
    match operand.kind:
        case "R" | "UR" | "P" | "UP" | "B":
            return operand.part in _PARTS and not operand.absolute
        case "constant":
            place = operand.parameter
            return place is not None and place >= 0 and " " not in operand.text  # with a space: halves
        case "address":
            terms = [(term.kind, term.part) for term in operand.terms]
            known = terms[:1] in ([("R", "")], [("R", "64")]) and terms[1:] in ([], [("UR", "")])
            uniform = [operand.descriptor if operand.prefix else 0, *(term.first for term in operand.terms[1:])]
            whole = not (operand.sign or operand.absolute or operand.reuse or operand.part)
            return whole and known and all(first is not None and first >= 0 for first in uniform)
        case "target":
            return operand.terms[0].kind == "R" and operand.first >= 0 and operand.offset >= 0
    return operand.kind in ("number", "float", "special")


def _split(text: str) -> tuple[str, int, str, str]:
    """The guard and its predicate, the opcode, and the text of the operands."""
    body, guard, guard_mask = text.partition(" (*")[0].strip().rstrip(" ;"), "", 0
    match = _GUARD.match(body)
    if match:
        body = body[match.end() :]
        if match[3] != "T":
            guard, guard_mask = match[1] + match[2] + match[3], run(match[2], int(match[3]), 1)
        elif match[1]:
            guard = "never"
    name, _, rest = body.partition(" ")
    return guard, guard_mask, name, rest


def opcode_of(text: str) -> str:
    """The opcode of an instruction; that of a filler that is never executed is NOP, whatever its text."""
    guard, _, name, _ = _split(text)
    return "NOP" if guard == "never" else name


@lru_cache(maxsize=1 << 13)
def _structure(
    name: str, kinds: tuple[tuple[str, str], ...]
) -> tuple[str, tuple[str, ...], int, tuple[int, ...]]:  # fmt: skip
    """Mnemonic, modifiers, outputs and widths by an opcode and the kinds and signs of its operands."""
    mnemonic, *modifiers = name.split(".")
    operands = [Operand("", kind, sign=sign) for kind, sign in kinds]
    count = outputs(mnemonic, operands)
    return mnemonic, tuple(modifiers), count, tuple(widths(mnemonic, modifiers, operands, count))


@lru_cache(maxsize=1 << 14)
def _widened(text: str, width: int, mnemonic: str) -> Operand:
    """An operand that takes `width` registers in a row, where it is one.

    gdesc[UR4] of a warpgroup's multiply stands for the descriptors of A, UR4 and UR5, and of B, UR6 and UR7.
    """
    found = operand(text)
    if found.kind in ("R", "UR"):
        return found._replace(width=width, mask=run(found.kind, found.first, width))
    if found.kind == "descriptor" and mnemonic.endswith("GMMA"):
        return found._replace(width=4, mask=found.mask | run("UR", found.first, 4))
    return found


@lru_cache(maxsize=1 << 14)
def operand(text: str) -> Operand:
    """An operand as it stands there; registers outside brackets count one until their width is known."""
    if match := _REGISTER.fullmatch(text):
        sign, bar, kind, number, _, reuse, part = match.groups("")
        first, width = _first(number), int(kind in BASE)
        mask = run(kind, first, 1) if width else 0
        return Operand(text, kind, first, width, mask, 0, sign, bool(bar), bool(reuse), part[1:])
    if match := _NUMBER.fullmatch(text):
        return Operand(text, "number", value=int(text, 16), sign=match[1])
    if (match := _BRACKETS.fullmatch(text)) and (found := _bracketed(text, *match.groups(""))):
        return found
    if _FLOAT.fullmatch(text):
        return Operand(text, "float")
    if _SPECIAL.fullmatch(text):
        return Operand(text, "special")
    if match := _TARGET.fullmatch(text):
        base = Term(match[1], _first(match[2]), "64")
        return Operand(text, "target", base.first, mask=base.mask, terms=(base,), offset=int(match[3], 16))
    return Operand(text, "other", mask=union(Term(kind, int(number), "64") for kind, number in _NAMED.findall(text)))


def _first(number: str) -> int:
    return int(number) if number.isdigit() else -1


def union(registers: Iterable[Operand | Term]) -> int:
    """The set of registers that operands name."""
    return reduce(or_, (each.mask for each in registers), 0)


def _bracketed(
    text: str, sign: str, bar: str, chosen: str, uniform: str, bank: str, word: str, inside: str, _: str, reuse: str,
    part: str,
) -> Operand | None:  # fmt: skip
    """An address, a constant or a descriptor; None of what is no sum of registers and a number."""
    *places, last = inside.split("+")
    number = _NUMBER.fullmatch(last)
    parsed = [_TERM.fullmatch(place) for place in (places if number else (*places, last))]
    terms = tuple(Term(term[1], _first(term[2]), term[3][1:]) for term in parsed if term)
    if len(terms) < len(parsed):
        return None
    prefix, descriptor = chosen or word, _first(uniform) if uniform else None
    kind = {"c": "constant", "cx": "constant", "": "address", "desc": "address"}.get(prefix, "descriptor")
    named = terms if descriptor is None else (Term("UR", descriptor, "64"), *terms)
    if word in ("desc", "gdesc"):  # it is a pair
        named = tuple(term._replace(part="64") for term in terms)
    first = next((term.first for term in named if term.first >= 0), -1)
    place, offset = int(bank, 16) if bank else None, int(last, 16) if number else 0
    found = Operand(text, kind, first, 0, union(named), 0, sign, bool(bar), bool(reuse), part[1:])
    return found._replace(prefix=prefix, bank=place, descriptor=descriptor, terms=terms, offset=offset)
