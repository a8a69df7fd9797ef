"""PTX of a whole instruction: declared registers, each with the elements that a lane holds in it, and the instruction.

wmma: also loads and store, since they determine which register holds what. ldmatrix, stmatrix: also the address, with
the lanes whose addresses are used. wgmma: A in registers, B behind a descriptor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tcprobe.ask.describe import ranges
from tcprobe.code.cuda import holder, of_holder
from tcprobe.emit.common import formulas, heading, instructions, lanes_in_words, lanes_read
from tcprobe.isa import inventory
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, sparsity
from tcprobe.isa.operand import INPUTS, Role
from tcprobe.isa.rows.moves import row_bytes
from tcprobe.probes import tensor_memory
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell

WHAT = "PTX of an instruction, its operands laid out in comments"
ROLES = (Role.ADDRESS, Role.METADATA, Role.SCALE)
KINDS = {"f32": "f32", "f64": "f64"}  # register types; all others are packed into .b32


def emit(cells: Sequence[Cell]) -> str:
    """A block for each instruction; several are each in braces, since their registers have the same names."""
    blocks = [list(_instruction(*pair)) for pair in instructions(cells, behind=True)]
    scoped = blocks if len(blocks) == 1 else [["{", *block, "}"] for block in blocks]
    return "\n".join([*heading(cells, "//"), *(line for block in scoped for line in ("", *block))])


def _instruction(instruction: Instruction, operands: Mapping[str, Cell]) -> Iterator[str]:
    written = instruction.target
    yield f"// {instruction.name}: .target {written.name}, .version {written.ptx} or later"
    if instruction.family == "wmma":
        yield "// %pa, ...: 64-bit addresses of the matrices; %lda, ...: elements from one line to the next, .u32"
    for operand, cell in sorted(operands.items()):
        yield from _address(cell) if cell.fragment.role is Role.ADDRESS else _registers(operand, cell)
    names = {operand: _operand_text(instruction, cell) for operand, cell in operands.items()}
    if instruction.family == "wmma":
        yield from (f"{operands[o].fragment.instruction} {names[o]}, [%p{o}], %ld{o};" for o in INPUTS)
    if instruction.described:
        yield from _warpgroup_multiply(instruction, names)
        return
    if instruction.family == "tcgen05":
        yield ".reg .b32 %taddr;  // in tensor memory"
        yield tensor_memory.instruction_text(instruction)
        return
    yield f"{instruction.name}"
    yield f"  {', '.join(names[fragment.operand] for fragment in instruction.spelled)};"
    if instruction.family == "wmma":
        yield f"{operands['d'].fragment.instruction} [%pd], {names['d']}, %ldd;"


def _warpgroup_multiply(instruction: Instruction, register_lists: Mapping[str, str]) -> Iterator[str]:
    """A multiply with factors behind descriptors, and what a warpgroup waits for before and after it."""
    signs = ["1", "1"] if dtype(instruction.type("d")).is_float else []
    turned = ["0"] if len(instruction.described[0].held.majors) > 1 else []
    yield f"// B is in shared memory, behind what `tcprobe descriptor --instruction {instruction.id} --tile NxK` says"
    yield from (".reg .b64 %b_desc;", ".reg .pred %add;  // true: add to D; false: overwrite it")
    if signs:
        yield "// 1, 1 after %add: -1 for -A, and for -B"
    if turned:
        yield "// 0 at the end: 1 where n of B is contiguous"
    yield f"// A there too: %a_desc instead of its registers{', and before that 0 one for its m' if turned else ''}"
    read = (*register_lists, "b_smem")
    operands = (register_lists.get(operand.name, "%b_desc") for operand in instruction.operands if operand.name in read)
    yield from ("wgmma.fence.sync.aligned;", instruction.name, f"  {', '.join([*operands, '%add', *signs, *turned])};")
    yield from ("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;")


def _operand_text(instruction: Instruction, cell: Cell) -> str:
    """An operand in PTX: a vector in braces, an address in brackets, or a register followed by its immediates.

    movmatrix's one register has no braces.
    """
    fragment = cell.fragment
    names = ", ".join(_names(fragment.operand, fragment))
    if fragment.role is Role.ADDRESS:
        return f"[{names}]"
    if cell.selector is not None:
        immediates = ", ".join(map(str, fragment.picked(cell.selector).values()))
        return f"{names}, {f'{{{immediates}}}' if fragment.picks else immediates}"
    return names if instruction.family == "movmatrix" else f"{{{names}}}"


def _address(cell: Cell) -> Iterator[str]:
    counting = [lane for lane, row in enumerate(cell.table.values["row"]) if row is not None]
    yield f"// ADDRESS: row = {formulas(cell)['row']} of the lanes that count: {ranges(counting)}"
    size = row_bytes(inventory.instructions()[cell.fragment.experiment])
    for name in _names(cell.fragment.operand, cell.fragment):
        yield f".reg .b32 {name};  // in shared memory, of the row that the lane points to, a multiple of {size}"


def _registers(operand: str, cell: Cell) -> Iterator[str]:
    fragment = cell.fragment
    if cell.selector is not None:
        what = SELECTED[fragment.role](cell)
    else:
        what = ", ".join(f"{name} = {of_holder(str(f), fragment.threads)}" for name, f in formulas(cell).items())
    yield f"// {operand.upper()}: {what}"
    kind = KINDS.get(fragment.type, "b32") if fragment.slot_bits >= 32 else "b32"
    size = fragment.register_bits // fragment.slot_bits
    for number, name in enumerate(_names(operand, fragment)):
        first = number * size
        which = f"i = {first}" + (f" to {first + size - 1}, low bits first" if size > 1 else "")
        cells = cell.table.cells[first : first + size]
        elements = ["unused" if c is None else f"{operand.upper()}[{c[0]}][{c[1]}]" for c in cells[:4]]
        listed = ", ".join([*elements, *(["..."] if size > 4 else [])])
        yield f".reg .{kind} {name};  // {which}; in {holder(fragment.threads)} 0: {listed}"


def _scales(cell: Cell) -> str:
    """Which lanes are read, and what a byte scales."""
    require_fit(cell.fragment, cell.table)
    lanes, formula = ", ".join(map(str, lanes_read(cell))), formulas(cell)
    assert cell.selector is not None
    picked = ", ".join(f"{name.replace('_', '-')} {n}" for name, n in cell.fragment.picked(cell.selector).items())
    rows = cell.fragment.rows > cell.fragment.cols
    scaled = (
        f"row {formula['row']} of A, block {formula['col']}"
        if rows
        else (f"column {formula['col']} of B, block {formula['row']}")
    )
    return f"{picked} read lanes {lanes}; byte i there scales {scaled} along k"


def _metadata(cell: Cell) -> str:
    """Which lanes are read under the selector, and what a field means."""
    require_fit(cell.fragment, cell.table)
    rule = sparsity(cell.fragment)
    unit = "element" if cell.fragment.span == 1 else f"{cell.fragment.span} elements"
    return (
        f"selector {cell.selector} reads lanes {lanes_in_words(cell)}; field i of {rule.bits} bits says which "
        f"{unit} of a chunk of {rule.positions * rule.span} columns of A is stored as A[row][stored column]"
    )


SELECTED = {Role.METADATA: _metadata, Role.SCALE: _scales}


def _names(operand: str, fragment: Fragment) -> list[str]:
    return [f"%{operand}{number}" for number in range(fragment.registers)]


def declaration(cell: Cell) -> str:
    """The registers of one fragment, each with its content; UsageError if it cannot be expressed."""
    lines = _address(cell) if cell.fragment.role is Role.ADDRESS else _registers(cell.fragment.operand, cell)
    return "\n".join(lines)
