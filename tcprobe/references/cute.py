"""CuTe (CUTLASS): the (thread, value) layouts of its MMA atoms of warps and warpgroups, and of copies, as shape:stride.

A layout maps (thread, value), in colexicographic order, to sum(coordinate * stride). For A that number is m + M * k,
for B n + N * k, for C m + M * n. Atoms have the source's names, which contain the shape, the types (D, A, B, C) and the
order of A and B (T: k is contiguous; N: m or n is; TN is PTX's row.col).
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from math import prod
from typing import NamedTuple

from tcprobe import facts
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, WARPGROUP, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import WRITTEN, Role
from tcprobe.layout.table import Table, selected, slot_table
from tcprobe.references import Claim, Erratum

NAME = "CuTe"
PER_ARCH = False
SOURCE = "github.com/NVIDIA/cutlass, include/cute/atom/mma_traits_sm*.hpp and copy_traits_sm*.hpp, commit 7107b05535f8"
ERRATA: tuple[Erratum, ...] = ()

ORDERS = {"row": "T", "col": "N", None: ""}


Nested = int | tuple["Nested", ...]


class L(NamedTuple):
    """A layout: nested shape and stride, applied to an index whose leftmost coordinate varies fastest.

    >>> [apply(L((4, 2), (2, 1)), index) for index in range(8)]
    [0, 2, 4, 6, 1, 3, 5, 7]
    """

    shape: Nested
    stride: Nested


@cache
def read_layout(cell: str) -> L:
    """The layout that CuTe prints ((4,8),2):((16,1),8); ValueError for anything else."""
    shape, _, stride = cell.partition(":")
    if not re.fullmatch(r"[0-9(),]+:[0-9(),]+", cell) or re.sub(r"[0-9]+", "", shape) != re.sub(r"[0-9]+", "", stride):
        raise ValueError("is not a layout such as ((4,8),2):((16,1),8)")
    return L(_nested(shape), _nested(stride))


def _nested(text: str) -> Nested:
    """Numbers in parentheses; ValueError where these do not match."""
    if not text.startswith("("):
        return int(text)
    parts, depth = [""], 0
    for letter in text[1:-1]:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if depth or not text.endswith(")"):
        raise ValueError("has a parenthesis that is not closed")
    return tuple(map(_nested, parts))


def size(nested: Nested) -> int:
    """The number of indices of a shape."""
    return prod(flat(nested))


def apply(layout: L, index: int) -> int:
    """The layout at a colexicographic index."""
    total = 0
    for extent, stride in _digits(layout):
        index, digit = divmod(index, extent)
        total += digit * stride
    return total


@cache
def _digits(layout: L) -> tuple[tuple[int, int], ...]:
    """(extent, stride) of every coordinate, the leftmost first."""
    return tuple(zip(flat(layout.shape), flat(layout.stride), strict=True))


def modes(layout: L) -> list[L]:
    """The layouts of the outermost coordinates, such as (thread, value)."""
    assert isinstance(layout.shape, tuple)
    assert isinstance(layout.stride, tuple)
    return [L(*mode) for mode in zip(layout.shape, layout.stride, strict=True)]


def flat(nested: Nested) -> list[int]:
    """The numbers of a nested tuple in order."""
    return [nested] if isinstance(nested, int) else [leaf for part in nested for leaf in flat(part)]


class Atom(NamedTuple):
    """A line of cute_multiplies.csv: atoms that share their traits, in file `header`, and the layouts of operands."""

    header: str
    names: tuple[str, ...]
    a: L
    b: L
    c: L
    threads: L
    e: L | None
    scale_a: L | None
    scale_b: L | None
    note: str

    def layout(self, operand: str) -> L | None:
        """The layout of an operand; None if the traits have none."""
        layout: L | None = getattr(self, "c" if operand == "d" else operand)
        return layout


@cache
def atoms() -> tuple[Atom, ...]:
    """The lines of cute_multiplies.csv."""
    layouts = dict.fromkeys(("a", "b", "c", "threads"), read_layout)
    others = dict.fromkeys(("e", "scale_a", "scale_b"), facts.optional(read_layout))
    return facts.read(
        __file__, "cute_multiplies.csv", Atom, names=lambda cell: tuple(cell.split()), **layouts, **others
    )


def claim(fragment: Fragment, device: Arch) -> Claim | str:
    """What the traits state of `fragment` (the same for every arch that has the atom), or why nothing."""
    if fragment.family == "wmma":
        return "CuTe has no wmma atoms"
    if fragment.family in COPY_FAMILIES:
        return copy_claim(fragment)
    if fragment.family in WARPGROUP_HEADERS:
        return warpgroup_claim(fragment)
    return _multiply_claim(fragment) if fragment.family.startswith("mma") else tensor_memory_claim(fragment)


def _multiply_claim(fragment: Fragment) -> Claim | str:
    """What the traits state of a fragment of a warp's multiply, or why nothing."""
    instruction = inventory.instructions()[fragment.experiment]
    atom = _atom(name_of(instruction))
    if atom is None:
        return f"CuTe has no atom for {instruction.name}"
    layout = atom.layout(fragment.operand)
    if layout is None:
        return f"the atom for {instruction.name} says nothing of {fragment.operand.upper()}"
    if fragment.role is Role.SCALE:
        return _scale_claim(fragment, layout, atom.header)
    lines = fragment.shape.n if fragment.operand == "b" else fragment.shape.m
    table = _table(layout, atom.threads, lines, fragment.operand == "b", fragment.elements)
    table = selected([table]) if fragment.selectors else table
    return Claim(table, atom.header, None, table)


@cache
def _atom(name: str) -> Atom | None:
    """The atom of a name, whichever arch its own name begins with."""
    named = (atom for atom in atoms() for of_arch in atom.names if of_arch.partition("_")[2] == name)
    return next(named, None)


def name_of(instruction: Instruction) -> str:
    """As atoms are called, without the arch: 16x8x256_S32U1U1S32_TN_XORPOPC.

    There are no types in it if one atom stands for all types of a kind.
    """
    types = "" if instruction.kind else "".join(instruction.type(operand) for operand in WRITTEN).replace("b1", "u1")
    parts = [
        *(["SPARSE"] if instruction.metadata else []),
        "{}x{}x{}".format(*instruction.shape),
        *([types.upper()] if types else []),
        "".join(ORDERS[factor.layout] for factor in instruction.factors),
        *([f"{instruction.bit_op.upper()}POPC"] if instruction.bit_op else []),
        *(["VS"] if instruction.scales else []),
    ]
    return "_".join(parts)


@cache
def _table(layout: L, threads: L, line_count: int, transposed: bool, elements: int) -> Table:
    """The layout as a table; its numbers count `line_count` rows (columns if `transposed`) fastest.

    An atom of fewer than 32 threads is one of several products of the warp.
    """
    places = {lane: (thread, product) for thread, lane, product in _lanes(threads)}
    of_thread, of_value = modes(layout)
    starts = [apply(of_thread, thread) for thread in range(size(threads.shape))]
    steps = [apply(of_value, i) for i in range(elements)]
    values: dict[str, list[int]] = {"row": [], "col": [], "product": []}
    for lane, i in product(range(WARP), range(elements)):
        thread, part = places[lane]
        k, line = divmod(starts[thread] + steps[i], line_count)
        row, col = (k, line) if transposed else (line, k)
        for column, value in zip(values.values(), (row, col, part), strict=True):
            column.append(value)
    if size(threads.shape) == WARP:
        del values["product"]
    return slot_table(WARP, elements, {name: tuple(column) for name, column in values.items()})


def _lanes(threads: L) -> list[tuple[int, int, int]]:
    """(thread of the atom, lane, product). Quad pair q of m8n8k4 has lanes 4q to 4q + 3 and 16 + 4q to 16 + 4q + 3."""
    of_atom = size(threads.shape)
    parts = WARP // of_atom
    step = flat(threads.shape)[0]  # the next product takes the next run of lanes
    return [(t, apply(threads, t) + q * step, q) for q in range(parts) for t in range(of_atom)]


QUAD = 4
TEXT = "lanes of thread-id and bytes of byte-id as in PTX ISA section 9.7.14.3"


def _scale_claim(fragment: Fragment, layout: L, header: str) -> Claim:
    """The map of scales under every pair of thread-id and byte-id.

    CuTe issues the instruction with thread-id 0 and byte-id 0, and its traits are for these. They count elements along
    k instead of blocks; lanes with stride 0 hold copies that need not be read. PTX ISA 9.1, section 9.7.14.3, states
    what the other immediates select: scales of A come from lanes with lane % 4 / 2 = thread-id, those of B from lanes
    with lane % 4 = thread-id; their bytes start at byte-id, one for each block, with rising k.
    """
    share = QUAD // len(dict(fragment.picks)["thread_id"])  # of four lanes, how many are read together
    picked = tuple(
        (selector["thread_id"], selector["byte_id"]) for selector in map(fragment.picked, fragment.selectors)
    )
    table = _scale_tables(layout, (fragment.rows, fragment.cols), fragment.elements, share, picked)
    return Claim(table, f"{header}, {TEXT}", None, table)


@cache
def _scale_tables(
    layout: L, matrix_size: tuple[int, int], elements: int, share: int, picked: tuple[tuple[int, int], ...]
) -> Table:
    """By (thread-id, byte-id), the block of each lane and byte; lines are rows of A, or columns of B."""
    (rows, cols), blocks, lines = matrix_size, min(matrix_size), [apply(modes(layout)[0], lane) for lane in range(WARP)]
    tables = []
    for thread_id, byte_id in picked:
        slots = [
            (lane % QUAD // share == thread_id and 0 <= i - byte_id < blocks, lines[lane], i - byte_id)
            for lane in range(WARP)
            for i in range(elements)
        ]
        line, block = (tuple(slot[part] if slot[0] else None for slot in slots) for part in (1, 2))
        tables.append(
            slot_table(WARP, elements, {"row": line, "col": block} if rows > cols else {"row": block, "col": line})
        )
    return selected(tables)


DENSE, SPARSE = "mma_traits_sm90_gmma.hpp", "mma_traits_sm90_gmma_sparse.hpp"
WARPGROUP_HEADERS = {"wgmma": DENSE, "wgmma.sp": SPARSE}
ROWS = 64
NIBBLES = 8
# by bits of an element: ALayout_64x8, 64x16, 64x32
A = {
    32: L(((4, 8, 4), (2, 2)), ((64, 1, 16), (8, 256))),
    16: L(((4, 8, 4), (2, 2, 2)), ((128, 1, 16), (64, 8, 512))),
    8: L(((4, 8, 4), (4, 2, 2)), ((256, 1, 16), (64, 8, 1024))),
}
# by bits of an element: ELayout_64x16, 64x32, 64x64
E = {
    32: L(((2, 2, 8, 4), (8, 2)), ((512, 0, 1, 16), (64, 8))),
    16: L(((2, 2, 8, 4), (16, 2)), ((1024, 0, 1, 16), (64, 8))),
    8: L(((2, 2, 8, 4), (32,)), ((8, 2048, 1, 16), (64,))),
}


def warpgroup_claim(fragment: Fragment) -> Claim | str:
    """What the traits state of a fragment of wgmma, or why nothing.

    A layout gives m + 64 * k for A, m + 64 * n for D. Those of sparse atoms count all columns of A, of which every
    second is stored: the layout of the stored columns is the dense one of half as many columns. A value of the metadata
    is a column of all of A; four bits govern one chunk of columns.
    """
    if fragment.type == "b1" or fragment.shape.k == 256:
        return "CuTe has no wgmma of b1"
    if fragment.role is Role.METADATA:
        table = _warpgroup_metadata(fragment.shape.k, fragment.slot_bits, len(fragment.selectors))
    else:
        d = L(((4, 8, 4), (2, 2, fragment.cols // 8)), ((128, 1, 16), (64, 8, 512)))
        table = _warpgroup_table(d if fragment.operand == "d" else A[fragment.slot_bits], fragment.elements)
    return Claim(table, WARPGROUP_HEADERS[fragment.family], None, table)


@cache
def _warpgroup_table(layout: L, elements: int) -> Table:
    of_thread, of_value = modes(layout)
    steps = [apply(of_value, i) for i in range(elements)]
    places = [divmod(apply(of_thread, thread) + step, ROWS) for thread in range(WARPGROUP) for step in steps]
    return slot_table(WARPGROUP, elements, {"row": tuple(r for _, r in places), "col": tuple(c for c, _ in places)})


@cache
def _warpgroup_metadata(k: int, bits: int, selectors: int) -> Table:
    """The stored element that each index field governs; a selector picks one pair of every four threads."""
    of_thread, of_value = modes(E[8 * 64 // k])
    fields, chunk = 4 // bits, 2 if bits == 4 else 4
    tables = []
    for selector in range(selectors):
        rows: list[int | None] = []
        cols: list[int | None] = []
        for thread in range(WARPGROUP):
            read = selectors == 1 or thread % 4 // 2 == selector
            for field in range(NIBBLES * fields):
                nibble, which = divmod(field, fields)
                col, row = divmod(apply(of_thread, thread) + apply(of_value, chunk * nibble), ROWS)
                rows.append(row if read else None)
                cols.append(col // chunk * fields + which if read else None)
        tables.append(slot_table(WARPGROUP, NIBBLES * fields, {"row": tuple(rows), "col": tuple(cols)}))
    return selected(tables)


# Copy atoms of ldmatrix, stmatrix and movmatrix. For each side of the copy an atom maps (thread, bit) to a bit of the
# matrices, whose rows have 128 bits. On the side of memory a thread's bits are those at its address; on the other
# side, those of its registers. Threads with stride 0 repeat the address of an earlier thread. After ldmatrix the copy
# may permute bytes: `order` has, for each byte of the result, the byte that was loaded.
COPY_FAMILIES = ("ldmatrix", "stmatrix", "movmatrix")
ROW_BITS = 128
IDENTITY = (
    "source and destination have one layout, which would make the copy an identity; read as each in "
    "its own matrix's coordinates, the one the transpose of the other"
)


class CopyAtom(NamedTuple):
    """A line of cute_copies.csv: `name` and `header` as in the source; the layouts of the registers' side and of the
    memory's. `form` is PTX's name without .sync.aligned.
    """

    form: str
    name: str
    header: str
    registers: L
    memory: L
    order: tuple[int, ...]


@cache
def copy_atoms() -> dict[str, CopyAtom]:
    """The lines of cute_copies.csv by form."""
    rows = facts.read(
        __file__, "cute_copies.csv", CopyAtom, registers=read_layout, memory=read_layout, order=facts.numbers
    )
    return {row.form: row for row in rows}


def copy_claim(fragment: Fragment) -> Claim | str:
    """What the traits state of a fragment of these families (the same for every arch), or why nothing."""
    atom, where = copy_atoms().get(fragment.experiment), ""
    if atom is None:
        # PTX ISA 9.1, section 9.7.14.5.15, figure 105 draws the registers of all three formats of m16n16 as one
        atom = copy_atoms().get(fragment.experiment.partition(".b8x16")[0] + ".b8")
        where = " of .b8, whose registers PTX ISA draws as one with these (figure 105)"
    if atom is None:
        return f"CuTe has no atom for {fragment.instruction}"
    if fragment.family == "movmatrix":
        return _exchange(fragment, atom)
    table = _addresses(atom.memory) if fragment.role is Role.ADDRESS else _registers(atom, fragment.slot_bits)
    return Claim(table, f"{atom.header}, {atom.name}{where}", None, table)


def _exchange(fragment: Fragment, atom: CopyAtom) -> Claim:
    """movmatrix: both sides are registers of 8 rows of 8 elements."""
    where = f"{atom.header}, {atom.name}"
    as_stated = _registers(atom, fragment.slot_bits, {ROW_BITS * row: row for row in range(8)})
    if fragment.operand == "a":
        return Claim(as_stated, where, None, as_stated)
    transposed = as_stated.with_values({"row": as_stated.values["col"], "col": as_stated.values["row"]})
    return Claim(as_stated, where, IDENTITY, transposed)


@cache
def _addresses(memory: L) -> Table:
    """The row that each lane points to; None for a lane that repeats an address."""
    (threads, _), rows = modes(memory), _memory_rows(memory)
    starts = [apply(threads, lane) for lane in range(WARP)]
    values = (rows[start] if starts.index(start) == lane else None for lane, start in enumerate(starts))
    return slot_table(WARP, 1, {"row": tuple(values)})


def _memory_rows(memory: L) -> dict[int, int]:
    """The number of each row by its first bit, in the order of the lanes that point to them."""
    threads, _ = modes(memory)
    starts = dict.fromkeys(apply(threads, lane) for lane in range(WARP))
    return {start: row for row, start in enumerate(starts)}


def _registers(atom: CopyAtom, slot_bits: int, row_of_offset: dict[int, int] | None = None) -> Table:
    """The element of every slot, as ldmatrix leaves it or stmatrix takes it."""
    (threads, bits), row_of_offset = modes(atom.registers), row_of_offset or _memory_rows(atom.memory)
    count = len(row_of_offset) * ROW_BITS // slot_bits // WARP
    places = [atom.order.index(i) for i in range(count)] if atom.order else list(range(count))
    offsets = [apply(threads, lane) + apply(bits, places[i] * slot_bits) for lane in range(WARP) for i in range(count)]
    values = {
        "row": tuple(row_of_offset[offset - offset % ROW_BITS] for offset in offsets),
        "col": tuple(offset % ROW_BITS // slot_bits for offset in offsets),
    }
    return slot_table(WARP, count, values)


# Copy atoms of tcgen05.ld and tcgen05.st. An atom maps (thread, bit) to a bit of a piece of tensor memory, in which
# lanes (CuTe's data paths) are `columns` x 32 bits apart. Rows are lanes of tensor memory, columns its columns of 32
# bits; both count from the address. .xNUM repeats the registers of .x1 NUM times, each time `columns` columns further
# on. In 16x32bx2, half of the lanes makes a second access; CuTe puts it right behind the first, NUM columns further
# on.
MEMORY_HEADER = "copy_traits_sm100.hpp"
CELL_BITS = 32


class MemoryAtom(NamedTuple):
    """The name after SM100_TMEM_LOAD_ and SM100_TMEM_STORE_, the columns, and the layout of the registers."""

    name: str
    columns: int
    registers: L
    accesses: int = 1


MEMORY_ATOMS = {
    "32x32b": MemoryAtom("32dp32b1x", 1, L((32, 32), (32, 1))),
    "16x64b": MemoryAtom("16dp64b1x", 2, L(((2, 2, 8), 32), ((512, 32, 64), 1))),
    "16x32bx2": MemoryAtom("16dp32b1x", 2, L(((16, 2), 32), ((64, 32), 1)), 2),
    "16x128b": MemoryAtom("16dp128b1x", 4, L(((4, 8), (32, 2)), ((32, 128), (1, 1024)))),
    "16x256b": MemoryAtom("16dp256b1x", 8, L(((4, 8), (64, 2)), ((64, 256), (1, 2048)))),
}
MEMORY_NAMES = {"tcgen05.ld": "LOAD", "tcgen05.st": "STORE"}
REDUCING = {
    shape: f"CuTe DSL, nvgpu.tcgen05.{name}"
    for shape, name in (("32x32b", "LdRed32x32bOp"), ("16x32bx2", "LdRed16x32bx2Op"))
}
LEAST_REPETITIONS = {"tcgen05.ld.red": 2}  # repetitions; 1 for all others
_FORM = r"(tcgen05\.(?:ld\.red|ld|st))\.(\w+?)(?:\.x([0-9]+))?"


def tensor_memory_claim(fragment: Fragment) -> Claim | str:
    """What the traits, or CuTe DSL's atoms, state of a load's or store's registers (the same for every arch), or why
    nothing.
    """
    form = re.fullmatch(_FORM, fragment.experiment)
    if form is None:
        return f"CuTe's traits are taken for tcgen05.ld and tcgen05.st only, not for {fragment.experiment}"
    op, shape, number = form[1], form[2], int(form[3] or LEAST_REPETITIONS.get(form[1], 1))
    if fragment.operand == "redval":
        return "CuTe says nothing of what a reduction leaves beside the registers"
    registers = tensor_memory_table(shape, number)
    atom = MEMORY_ATOMS[shape].name.removesuffix("1x")
    where = (
        REDUCING[shape]
        if op not in MEMORY_NAMES
        else (f"{MEMORY_HEADER}, SM100_TMEM_{MEMORY_NAMES[op]}_{atom}{number}x")
    )
    return Claim(registers, where, None, registers)


@cache
def tensor_memory_table(shape: str, number: int) -> Table:
    """The cell (row, col) of tensor memory in register i of each lane, for .x`number` of a shape."""
    atom = MEMORY_ATOMS[shape]
    threads, bits = modes(atom.registers)
    once = size(bits.shape) // CELL_BITS
    cells = []
    for lane in range(WARP):
        for repetition, i in ((n, i) for n in range(number) for i in range(once)):
            row, col = divmod((apply(threads, lane) + apply(bits, i * CELL_BITS)) // CELL_BITS, atom.columns)
            width = atom.columns // atom.accesses
            access, col = divmod(col, width)
            cells.append((row, (access * number + repetition) * width + col))
    values = {"row": tuple(row for row, _ in cells), "col": tuple(col for _, col in cells)}
    return slot_table(WARP, once * number, values)
