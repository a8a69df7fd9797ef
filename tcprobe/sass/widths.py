"""How many registers in a row the operands of an instruction take, how many it writes, and which it does not name.

The widths agree with the life ranges that nvdisasm prints (`tests/life_ranges.py`); `isa/opcodes.csv` names the scheme
of each mnemonic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tcprobe.isa.opcodes import opcode
from tcprobe.sass.registers import ALL_PREDICATES, ALL_UNIFORM_PREDICATES, BASE, run

if TYPE_CHECKING:
    from tcprobe.sass.decode import Operand

_VECTOR = re.compile(r"(?:BF|F)(16|32)x([248])")
_GROUP = re.compile(r"[A-Z]GMMA\.(?:SP\.)?([0-9]{1,3})x([0-9]{1,3})x([0-9]{1,4})\.(\w+)")


def beside(spaces: Sequence[str]) -> int:
    """The registers that an instruction reads or writes without naming them."""
    uniform = ALL_UNIFORM_PREDICATES if "uniform predicates" in spaces else 0
    return ALL_PREDICATES | uniform if "predicates" in spaces else uniform


def outputs(mnemonic: str, operands: Sequence[Operand]) -> int:
    """How many of the first operands are written: predicates beside a register too."""
    kinds, written = [operand.kind for operand in operands], opcode(mnemonic).outputs
    if not kinds or written == "none" or (written == "granted" and kinds[0] != "UP"):
        return 0
    if written == "votes":
        return len(operands) - 1
    if kinds[0] in ("P", "UP"):
        second = len(kinds) > 1 and kinds[1] in BASE and operands[1].sign != "!"
        return 2 if second and written != "predicate" else 1
    count = 0 if kinds[0] in ("number", "constant", "address", "descriptor") else 1
    while count and count < len(kinds) and kinds[count] in ("P", "UP") and operands[count].sign != "!":
        count += 1
    return count if count < len(kinds) else min(count, 1)


def widths(mnemonic: str, modifiers: Sequence[str], operands: Sequence[Operand], outputs: int) -> list[int]:
    """How many registers in a row each operand takes, where it is one."""
    count, (scheme, *shapes) = len(operands), opcode(mnemonic).widths
    match scheme:
        case "warpgroup":
            return _warpgroup_widths(".".join([mnemonic, *modifiers]), operands)
        case "multiply":
            return [*_warp_widths(shapes, modifiers), *[1] * count][:count]
        case "product" if "WIDE" in modifiers or "HI" in modifiers:
            wide = (_addend(operands), *([0] if "WIDE" in modifiers else []))
            return [2 if j in wide else 1 for j in range(count)]
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


def bulk(mnemonic: str, modifiers: Sequence[str], operands: Sequence[Operand]) -> int:
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
