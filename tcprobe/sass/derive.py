"""Layouts of mma.sync that follow from machine code: forms that become one tensor-core instruction of known layout.

wmma.load -> tensor-core instruction -> wmma.store anchors the instruction's layout in memory addresses: the tables of
the wmma fragments say which element each word holds. An mma.sync form that becomes the same instruction, with its
registers in order, has that layout too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcprobe import __version__
from tcprobe.isa.arch import WARP, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Table, slot_table
from tcprobe.probes.experiment import ptx_hash
from tcprobe.sass.cubin import Code, assemble
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.product_check import blocks, cells, taken, whole
from tcprobe.sass.tensor import Step, Traced, Word, form, kernel, trace
from tcprobe.sass.toolchain import Toolchain
from tcprobe.store.measurement import MEMORY, Measurement

Known = Callable[[Fragment], Table | None]


@dataclass(frozen=True)
class Anchored:
    """The layout of a tensor-core opcode: tables of a, b, d and (where it was seen) c, and what anchors them."""

    tables: Mapping[str, Table]
    source: str


@dataclass(frozen=True)
class Derived:
    """What the code of multiplies shows: measurements, and the layouts of tensor-core opcodes by name."""

    measurements: list[Measurement]
    opcodes: dict[str, Anchored]


def derive(tools: Toolchain, row: Arch, instructions: Sequence[Instruction], known: Known) -> Derived:
    """What the code of multiplies shows on `row`; `known` gives the wmma tables of the arch.

    For a wmma.mma (method sass) which elements it never reads; for an mma.sync (method derived) its layout, where it
    follows. Forms whose code is not followed, emulated ones for instance, are left out.
    """
    allowed = [i for i in instructions if i.target.on(row) and i.target.name[-1].isdigit()]
    kernels = {i.id: kernel(i) for i in allowed}
    codes, _ = assemble(tools, list(kernels.values()), row) if kernels else ({}, {})
    traces = {i.id: found for i in allowed if (found := _trace(codes.get(kernels[i.id].name), i))}
    followed = [(i, traces[i.id]) for i in allowed if i.id in traces]
    anchored = anchors([(i, traced) for i, traced in followed if i.definitions], known)
    provenance = {"device": "machine code", "driver": "none", "cuda": "none", "compiler": tools.name}
    measurements: list[Measurement] = []
    for i, traced in followed:
        about = provenance | {"ptx": ptx_hash([kernels[i.id]]), "tcprobe": __version__}
        made = _read_by(i, traced, known) if i.definitions else _inherits(i, traced, anchored)
        if made:
            method = "sass" if i.definitions else "derived"
            measurements.append(Measurement(i.id, row.name, method, "measured", about, **made))
    return Derived(measurements, anchored)


def _read_by(instruction: Instruction, traced: Traced, known: Known) -> dict[str, Any] | None:
    """Tables, and the elements that no tensor-core instruction of a wmma.mma takes."""
    tables = {f.operand: table for f in instruction.fragments if (table := known(f))}
    if len(tables) < len(instruction.fragments) or not whole(instruction, traced, tables):
        return None
    taken = {word for step in traced.steps for word in (*step.a, *step.b)}
    unread = {}
    for fragment in instruction.fragments[:2]:
        per_word = 32 / fragment.slot_bits
        missing = [i for i in range(fragment.elements) if Word(fragment.operand, int(i / per_word)) not in taken]
        if missing:
            unread[fragment.operand] = (tuple(missing),) * fragment.threads
    return {"tables": tables, "numbering": MEMORY, "unread": unread}


def _trace(code: Code | None, instruction: Instruction) -> Traced | None:
    """None where the code is not followed: an emulated form, or an opcode that is not modelled."""
    try:
        return trace(code, instruction) if code else None
    except UnreadError:
        return None


def anchors(traces: Iterable[tuple[Instruction, Traced]], known: Known) -> dict[str, Anchored]:
    """The layout of every tensor-core opcode that the wmma multiplies show and agree on."""
    found: dict[str, Anchored] = {}
    doubtful: set[str] = set()
    for instruction, traced in traces:
        given = {f.operand: known(f) for f in instruction.fragments}
        tables = {operand: table for operand, table in given.items() if table}
        if len(tables) < len(given) or not whole(instruction, traced, tables):
            continue
        for number, step in enumerate(traced.steps):
            local = _local(instruction, traced, number, step, tables)
            if local:
                before = found.setdefault(step.opcode, Anchored(local, instruction.id))
                if any(before.tables.get(operand, table) != table for operand, table in local.items()):
                    doubtful.add(step.opcode)
                elif len(local) > len(before.tables):
                    found[step.opcode] = Anchored(local, instruction.id)
    return {opcode: layout for opcode, layout in found.items() if opcode not in doubtful}


def _local(
    instruction: Instruction, traced: Traced, number: int, step: Step, tables: Mapping[str, Table]
) -> dict[str, Table] | None:
    """The opcode's layout from one step; None where the step takes A from b (a transposed product) or is incomplete.

    Products of a warp are told apart by their lanes: each must hold one whole block of A, of B and of D, at the same
    rows, columns and k. A fragment without copies leaves no other lanes to take them from.
    """
    words, places, shape = taken(traced, number), blocks(instruction, traced, number, tables), form(step.opcode)
    if words is None or places is None or "d" not in words or step.a[0].operand != "a":
        return None
    local: dict[str, dict[tuple[int, int], tuple[int, ...]]] = {operand: {} for operand in words}
    for operand, numbers in words.items():
        held = cells(instruction.fragment(operand), tables[operand], numbers)
        for lane in range(WARP):
            product = shape.product(lane)
            m, n, k = places[product]
            first = {"a": (m, k), "b": (k, n)}.get(operand, (m, n))
            moved = ((row - first[0], col - first[1], product) for row, col in held[lane])
            local[operand] |= {(lane, i): cell for i, cell in enumerate(moved)}
    return {operand: _table(found, shape.products) for operand, found in local.items()}


def _table(found: Mapping[tuple[int, int], tuple[int, ...]], products: int) -> Table:
    """Of (row, col, product) by (lane, i)."""
    names = ("row", "col", "product")[: 3 if products > 1 else 2]
    ordered = [found[slot] for slot in sorted(found)]
    return slot_table(WARP, len(found) // WARP, {n: tuple(c[j] for c in ordered) for j, n in enumerate(names)})


def _inherits(instruction: Instruction, traced: Traced, anchored: Mapping[str, Anchored]) -> dict[str, Any] | None:
    """Tables and numbering of an mma.sync form that is one known instruction with its registers in order."""
    if len(traced.steps) != 1 or traced.steps[0].opcode not in anchored:
        return None
    step = traced.steps[0]
    shape, layout = form(step.opcode), anchored[step.opcode]
    taken = {"a": step.a, "b": step.b, "c": tuple(dict.fromkeys(step.c))}
    counts = {"a": shape.a, "b": shape.b, "c": shape.c}
    in_order = all(words == tuple(Word(o, j) for j in range(counts[o])) for o, words in taken.items())
    if not in_order or traced.stored != tuple(Word("d", j) for j in range(shape.d)):
        return None
    fits = all(f.operand in layout.tables and layout.tables[f.operand].elements == f.elements
               for f in instruction.fragments)  # fmt: skip
    if not fits or (shape.m, shape.n, shape.k, shape.products) != (*instruction.shape, instruction.products):
        return None
    return {"tables": layout.tables, "numbering": f"memory addresses, through {step.opcode} of {layout.source}"}
