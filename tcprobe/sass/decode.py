"""One line of nvdisasm's output as a CodeLine: guard, opcode with modifiers, operands.

>>> from tcprobe.sass.decode import instruction
>>> instruction("@!P0 LDG.E.64 R4, desc[UR4][R2.64+0x10] ;", 0x30).opcode
'LDG.E.64'
>>> [str(o) for o in instruction("IMAD.WIDE.U32 R2, R7.reuse, c[0x0][0x170], -R2 ;", 0).operands]
['R2', 'R7', 'c[0x0][0x170]', '-R2']

An operand of unknown form raises UnreadError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

UNPRINTED = "UNPRINTED"  # in place of an instruction that nvdisasm does not print
LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_GUARD = re.compile(r"@(!?U?P(?:\d|T))\s+(.*)")
_ADDRESS = re.compile(r"(?:desc\[(UR\d+)\])?\[(R\d+|RZ)(\.64)?(?:\+(UR\d+))?(?:\+(-?0x[0-9a-f]+))?\]")
_RETURN = re.compile(r"(R\d+) (0x[0-9a-f]+)")
_CONSTANT = re.compile(r"c\[0x([0-9a-f]+)\]\[0x([0-9a-f]+)\]")


class UnreadError(Exception):
    """An opcode, modifier, operand or situation that is not modelled exactly."""


@dataclass(frozen=True)
class Argument:
    """`kind`: R, UR, P, UP, B (barrier), SR, immediate, float, constant, address or return; `negative`: -, !, ~ or
    none.
    """

    kind: str
    index: int = 0
    negative: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Address(Argument):
    """[R + UR + offset]; `descriptor` is the uniform register that describes the memory, if there is one.

    Of kind return, it is the target of RET: a pair of registers + offset.
    """

    wide: bool = False
    uniform: int | None = None
    offset: int = 0
    descriptor: int | None = None


@dataclass(frozen=True)
class CodeLine:
    """The instruction at byte `address` of the disassembled image. `opcode` has all modifiers."""

    address: int
    guard: Argument | None
    opcode: str
    operands: tuple[Argument, ...]
    text: str


REGISTER = {"RZ": 255, "URZ": 255, "PT": 7, "UPT": 7}
NEVER = ("!PT", "!UPT")  # guards of fillers, which are never executed


def instruction(text: str, address: int) -> CodeLine:
    """Decode the text of one instruction; a filler that is never executed becomes a NOP, whatever its text."""
    guard, body = None, text.strip().rstrip(";").strip()
    match = _GUARD.fullmatch(body)
    if match and match[1] in NEVER:
        return CodeLine(address, None, "NOP", (), text)
    if match:
        guard, body = operand(match[1]), match[2]
    opcode, _, rest = body.partition(" ")
    operands = tuple(operand(part.strip()) for part in rest.split(",")) if rest.strip() else ()
    return CodeLine(address, guard, opcode, operands, text)


def opcode_of(text: str) -> str:
    """The opcode as `instruction` names it, of an instruction whose operands may have unknown forms."""
    match = _GUARD.fullmatch(text.strip())
    if match and match[1] in NEVER:
        return "NOP"
    return (match[2] if match else text.strip()).split(" ")[0].rstrip(";")


def operand(text: str) -> Argument:
    """Decode one operand; UnreadError if its form is unknown."""
    negative, plain = (text[0], text[1:]) if text[:1] in "-!~" and text[1:2].isalpha() else ("", text)
    plain = plain.replace(".reuse", "")
    match = re.fullmatch(r"(UR|R|UP|P|B)(\d+|(?<=R)Z|(?<=P)T)(\.ROW|\.COL|\.H0_H0|\.H1_H1|\.H1)?", plain)
    spelling = negative + plain
    if match:  # .ROW (tensor-core instructions) and .H0_H0 (conversions) make kinds of their own, as R.ROW
        index = REGISTER.get(match[1] + match[2])
        return Argument(match[1] + (match[3] or ""), int(match[2]) if index is None else index, negative, spelling)
    if re.fullmatch(r"SR_[\w.]+|SRZ", plain):
        return Argument("SR", 0, negative, spelling)
    if re.fullmatch(r"-?0x[0-9a-f]+", text):
        return Argument("immediate", int(text, 16) & 0xFFFFFFFF, "", text)
    if re.fullmatch(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", text):
        return Argument("float", 0, "", text)
    match = _CONSTANT.fullmatch(plain)
    if match and match[1] == "0":
        return Argument("constant", int(match[2], 16), negative, spelling)
    match = _RETURN.fullmatch(text)
    if match:
        return Address("return", int(match[1][1:]), "", text, offset=int(match[2], 16))
    return _address(text)


def _address(text: str) -> Address:
    match = _ADDRESS.fullmatch(text)
    if not match:
        raise UnreadError(f"operand {text!r} is not known")
    descriptor, register, wide, uniform, offset = match.groups()
    return Address(
        "address",
        REGISTER.get(register) or int(register[1:]),
        "",
        text,
        wide=bool(wide),
        uniform=int(uniform[2:]) if uniform else None,
        offset=int(offset, 16) if offset else 0,
        descriptor=int(descriptor[2:]) if descriptor else None,
    )
