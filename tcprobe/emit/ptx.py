"""PTX of a whole multiply: registers declared, each with the elements that a lane holds in it, and the instruction.

wmma: the loads, the multiply and the store as well, since their order of registers is that of the fragments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tcprobe.emit.common import formulas, heading, multiplies
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import sparsity
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell

WHAT = "PTX of a multiply, its operands laid out in comments"
KINDS = {"f32": "f32", "f64": "f64"}  # register types; everything else is packed into .b32


def emit(tables: Sequence[Cell]) -> str:
    """A block a multiply."""
    lines = heading(tables, "//")
    for instruction, operands in multiplies(tables):
        lines += ["", *_multiply(instruction, operands)]
    return "\n".join(lines)


def _multiply(instruction: Instruction, operands: Mapping[str, Cell]) -> Iterator[str]:
    target, ptx = instruction.target.name, instruction.target.ptx
    yield f"// {instruction.name}: .target {target}, .version {ptx} or later"
    if instruction.family == "wmma":
        yield "// %pa, ...: 64-bit addresses of the matrices; %lda, ...: elements from one line to the next, .u32"
    for operand in operands:
        yield from _registers(operand, operands[operand])
    names = {o: "{" + ", ".join(_names(o, operands[o].fragment)) + "}" for o in operands}
    if instruction.family == "wmma":
        yield from (f"{operands[o].fragment.instruction} {names[o]}, [%p{o}], %ld{o};" for o in "abc")
    yield f"{instruction.name}"
    metadata = f", %e0, {operands['e'].selector}" if "e" in operands else ""
    yield f"  {names['d']}, {names['a']}, {names['b']}, {names['c']}{metadata};"
    if instruction.family == "wmma":
        yield f"{operands['d'].fragment.instruction} [%pd], {names['d']}, %ldd;"


def _registers(operand: str, cell: Cell) -> Iterator[str]:
    fragment = cell.fragment
    yield f"// {operand.upper()}: " + (_metadata(cell) if cell.selector is not None else _formulas(cell))
    kind = KINDS.get(fragment.type, "b32") if fragment.slot_bits >= 32 else "b32"
    size = fragment.register_bits // fragment.slot_bits
    for number, name in enumerate(_names(operand, fragment)):
        first = number * size
        which = f"i = {first}" + (f" to {first + size - 1}, low bits first" if size > 1 else "")
        cells = cell.table.cells[first : first + size]
        shown = ", ".join("unused" if c is None else f"{operand.upper()}[{c[0]}][{c[1]}]" for c in cells[:4])
        yield f".reg .{kind} {name};  // {which}; in lane 0: {shown}{', ...' if size > 4 else ''}"


def _formulas(cell: Cell) -> str:
    return ", ".join(f"{name} = {f}" for name, f in formulas(cell).items())


def _metadata(cell: Cell) -> str:
    """Which lanes are read under the selector, and what a field says."""
    require_fit(cell.fragment, cell.table)
    size = cell.table.elements
    read = [lane for lane in range(cell.table.threads) if any(cell.table.cells[lane * size :][:size])]
    rule = sparsity(cell.fragment)
    unit = "element" if cell.fragment.span == 1 else f"{cell.fragment.span} elements"
    return (
        f"selector {cell.selector} reads lanes {', '.join(map(str, read))}; field i of {rule.bits} bits says which "
        f"{unit} of a chunk of {rule.positions * rule.span} columns of A is stored as A[row][stored column]"
    )


def _names(operand: str, fragment: Fragment) -> list[str]:
    return [f"%{operand}{number}" for number in range(fragment.registers)]
