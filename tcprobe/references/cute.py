"""CuTe (CUTLASS): the (thread, value) layouts of its MMA atoms of warps and warpgroups, as shape:stride.

Copy atoms are in `cute_copy`, those of tensor memory in `cute_tensor_memory`. A layout maps (thread, value), in
colexicographic order, to sum(coordinate * stride). For A that number is m + M * k, for B n + N * k, for C m + M * n.
Atoms have the source's names, which contain the shape, the types (D, A, B, C) and the order of A and B (T: k is
contiguous; N: m or n is; TN is PTX's row.col).
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tcprobe import facts
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, WARPGROUP, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import WRITTEN, Role
from tcprobe.layout.table import Table, selected, slot_table
from tcprobe.references.claim import Claim, Erratum

if TYPE_CHECKING:
    pass

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
    path = Path(__file__).with_name("cute_multiplies.csv")
    return facts.read(path, Atom, names=lambda cell: tuple(cell.split()), **layouts, **others)


def claim(fragment: Fragment, device: Arch) -> Claim | str:
    """What the traits state of `fragment` (the same for every arch that has the atom), or why nothing."""
    if fragment.family == "wmma":
        return "CuTe has no wmma atoms"
    if not fragment.family.startswith("mma"):
        return _apart(fragment)
    instruction = inventory.instructions()[fragment.experiment]
    atom = _atom(_name(instruction))
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


def _apart(fragment: Fragment) -> Claim | str:
    """What the traits say of a fragment of no multiply of a warp."""
    from tcprobe.references import cute_copy, cute_tensor_memory

    if fragment.family in cute_copy.FAMILIES:
        return cute_copy.claim(fragment)
    if fragment.family in WARPGROUP_HEADERS:
        return warpgroup_claim(fragment)
    return cute_tensor_memory.claim(fragment)


@cache
def _atom(name: str) -> Atom | None:
    """The atom of a name, whichever arch its own name begins with."""
    named = (atom for atom in atoms() for of_arch in atom.names if of_arch.partition("_")[2] == name)
    return next(named, None)


def _name(instruction: Instruction) -> str:
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
    share = QUAD // len(dict(fragment.held.picks)["thread_id"])  # of four lanes, how many are read together
    picked = tuple(
        (selector["thread_id"], selector["byte_id"]) for selector in map(fragment.held.picked, fragment.selectors)
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
