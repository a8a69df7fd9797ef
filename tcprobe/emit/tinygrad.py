"""Python code for tinygrad: the rows of a TensorCore, with its opts and swizzle.

tinygrad names the bits of the matrices: l0, l1, ... and u0, u1, ... are the bits of the accumulator's lane and i,
assigned by `opts` to N (0) and M (1), lowest first; r0, r1, ... are the bits of k. For A and for B, a swizzle lists the
named bit of each lane bit and of each bit of i (highest first, over the u, then the r positions); bits that the operand
does not have fill the rest. Source: tinygrad 0.14, codegen/opt/tc.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcprobe.code.names import identifier
from tcprobe.emit.common import heading, layout, multiplies
from tcprobe.errors import UsageError
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.store.cell import Cell

WHAT = "Python code for tinygrad: dims, opts and swizzle of a TensorCore"
Bit = tuple[str, int]  # ("m", "n" or "k", number of the bit)
TinygradSwizzle = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
AXES = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n"), "d": ("m", "n")}


def emit(cells: Sequence[Cell]) -> str:
    """Arguments of a TensorCore for each multiply."""
    lines = heading(cells, "#")
    for instruction, operands in multiplies(cells):
        opts, swizzle = rows(instruction, operands)
        m, n, k = instruction.shape
        elements = tuple(operands[o].table.elements for o in MULTIPLIED)
        lines += [
            "",
            f"{identifier(instruction.id)} = dict(",
            f"    dims={(n, m, k)},",
            "    threads=32,",
            f"    elements_per_thread={elements},",
            f"    opts={opts},",
            f"    swizzle={swizzle},",
            ")",
        ]
    return "\n".join(lines)


def rows(
    instruction: Instruction, operands: Mapping[str, Cell]
) -> tuple[tuple[str, ...], tuple[TinygradSwizzle, TinygradSwizzle]]:
    """(opts, swizzle of A and B); UsageError if some bit of lane or i is not one bit of a matrix."""
    if instruction.metadata:
        raise UsageError(f"{instruction.id} is sparse; tinygrad cannot express metadata.")
    bits = {operand: _bits(instruction, operands[operand]) for operand in MULTIPLIED}
    lane, i = bits["d"]
    names = {bit: f"l{j}" for j, bit in enumerate(lane)} | {bit: f"u{j}" for j, bit in enumerate(i)}
    opts = _opts(names, instruction)
    names |= {("k", j): f"r{j}" for j in range((instruction.shape.k - 1).bit_length())}
    return opts, (_swizzle(bits["a"], names, len(i)), _swizzle(bits["b"], names, len(i)))


def _bits(instruction: Instruction, cell: Cell) -> tuple[list[Bit], list[Bit]]:
    """(the matrix bit of each bit of lane, of each bit of i)."""
    if instruction.products > 1:
        raise UsageError(f"{instruction.id} does {instruction.products} products at a time; tinygrad expresses one.")
    linear = layout(cell)
    axes = dict(zip(("row", "col"), AXES[cell.fragment.operand], strict=True))
    by_variable: dict[str, list[Bit]] = {"lane": [], "i": []}
    for variable, bits in by_variable.items():
        for base in linear.bases[variable]:
            bits.append(_bit(cell.fragment, variable, {axes[name]: value for name, value in base.items() if value}))
    return by_variable["lane"], by_variable["i"]


def _bit(fragment: Fragment, variable: str, changed: Mapping[str, int]) -> Bit:
    if not changed:
        raise UsageError(f"{fragment.id} holds elements several times, which tinygrad cannot express.")
    (axis, value), *others = changed.items()
    if others or value.bit_count() != 1:
        raise UsageError(f"{fragment.id}: a bit of {variable} is not exactly one bit of row or col.")
    return axis, value.bit_length() - 1


def _opts(bit_names: Mapping[Bit, str], instruction: Instruction) -> tuple[str, ...]:
    """Names, so ordered that n, m, l and u each count up; "u0" says that the next u is the next bit of axis 0 (n)."""
    left = {
        axis: [bit_names[axis, j] for j in range((size - 1).bit_length())]
        for axis, size in (("n", instruction.shape.n), ("m", instruction.shape.m))
    }
    next_ = {"l": 0, "u": 0}
    opts: list[str] = []
    while any(left.values()):
        for axis, digit in (("n", "0"), ("m", "1")):
            name = left[axis][0] if left[axis] else ""
            if name and int(name[1:]) == next_[name[0]]:
                next_[name[0]] += 1
                opts.append(name[0] + digit)
                left[axis].pop(0)
                break
        else:
            raise UsageError(f"{instruction.id}: the accumulator's bits are in an order that opts cannot express.")
    return tuple(opts)


def _swizzle(operand_bits: tuple[list[Bit], list[Bit]], bit_names: Mapping[Bit, str], upcasts: int) -> TinygradSwizzle:
    lane, i = ([bit_names[bit] for bit in part] for part in operand_bits)
    depth = sum(axis == "k" for axis, _ in bit_names)
    positions = [f"u{j}" for j in reversed(range(upcasts))] + [f"r{j}" for j in reversed(range(depth))]
    placed = dict(zip(positions, reversed(i), strict=False))
    rest = sorted((name for name in bit_names.values() if name not in (*lane, *i)), key=lambda n: (n[0] == "u", n))
    free = [f"r{j}" for j in range(depth)] + [f"u{j}" for j in range(upcasts)]
    placed |= dict(zip((p for p in free if p not in placed), rest, strict=True))
    upcast, reduce = ([placed[f"{kind}{j}"] for j in range(size)] for kind, size in (("u", upcasts), ("r", depth)))
    return tuple(lane), tuple(upcast), tuple(reduce)
