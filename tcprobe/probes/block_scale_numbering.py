"""From the bytes that scale products to tables of scales: which row of A or column of B, and which block along k.

A block is a run of columns of A; all blocks have the same length. If the structure tensor's numbering puts other
columns together, the columns are renumbered by rule: blocks in the order of their lowest column, inside a block as
before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import sparsity
from tcprobe.layout.arrays import Ints
from tcprobe.layout.structure import elements
from tcprobe.layout.table import Table, Tables, selected, slot_table
from tcprobe.probes.experiment import OWN_RULE, Conclusion


class Scales(NamedTuple):
    """`d_slots`: the D slots that each A slot reaches, ascending. `scale_a`, `scale_b`: the byte that scales a product,
    by choice of selectors, A slot and D slot met.
    """

    d_slots: Ints
    scale_a: Ints
    scale_b: Ints


def with_scales(instruction: Instruction, unscaled: Conclusion, scales: Scales) -> Conclusion:
    """The conclusion, with tables of the scales added; ProbeError if the scales do not map to blocks."""
    tables, numbering = dict(unscaled.tables), unscaled.numbering
    block = _blocks(instruction, tables, scales)
    length = instruction.fragment("a").cols // _count(instruction)
    if (block != np.arange(len(block)) // length).any():
        move = _renumbering(instruction, block)
        tables, numbering = _renumber(instruction, tables, move), OWN_RULE
    row, stored, _ = elements(tables["a"])
    _, col, _ = elements(tables["d"])
    block_of_slot = stored // length
    a, b = instruction.scales
    lines = np.broadcast_to(row[:, None], scales.d_slots.shape), col[scales.d_slots]
    blocks = np.broadcast_to(block_of_slot[:, None], scales.d_slots.shape)
    tables["scale_a"] = _table(instruction, _Answers(a, lines[0], blocks), scales.scale_a)
    tables["scale_b"] = _table(instruction, _Answers(b, blocks, lines[1]), scales.scale_b)
    return replace(unscaled, tables=tables, numbering=numbering)


def _count(instruction: Instruction) -> int:
    """Blocks in a row of A."""
    return instruction.fragment("scale_a").cols


def _blocks(instruction: Instruction, tables: Tables, scales: Scales) -> Ints:
    """The block of each stored column of A: columns of one block are scaled by the same bytes of B's scales.

    Blocks are numbered in the order of their lowest column. ProbeError unless there are as many as documented, equally
    long.
    """
    _, stored, _ = elements(tables["a"])
    _, col, _ = elements(tables["d"])
    order = np.argsort(col[scales.d_slots], axis=1)
    bytes_by_col = np.take_along_axis(scales.scale_b[0], order, axis=1)
    of_column: dict[int, tuple[int, ...]] = {}
    for column, key in zip(stored.tolist(), map(tuple, bytes_by_col.tolist()), strict=True):
        if of_column.setdefault(column, key) != key:
            raise ProbeError(f"{instruction.name}: column {column} of A is scaled by several blocks of B's scales.")
    keys = list(dict.fromkeys(of_column[column] for column in sorted(of_column)))
    block = np.array([keys.index(of_column[column]) for column in sorted(of_column)])
    sizes = np.bincount(block)
    if len(sizes) != _count(instruction) or len(set(sizes.tolist())) > 1:
        raise ProbeError(
            f"{instruction.name}: blocks of {sizes.tolist()} columns, not {_count(instruction)} equal ones."
        )
    return block


def _units(instruction: Instruction) -> tuple[int, int]:
    """How many stored columns of A, and how many k, are renumbered together: 1 and 1, or a chunk of a sparse A."""
    if not instruction.metadata:
        return 1, 1
    rule = sparsity(instruction.metadata)
    return rule.fields * rule.span, rule.positions * rule.span


def _renumbering(instruction: Instruction, block_of_column: Ints) -> Ints:
    """The new number of each unit of columns."""
    unit, _ = _units(instruction)
    units = block_of_column.reshape(-1, unit)
    if (units != units[:, :1]).any():
        raise ProbeError(f"{instruction.name}: a chunk of metadata is scaled by several blocks.")
    order = np.argsort(units[:, 0], kind="stable")
    new_number = np.empty(len(order), np.int64)
    new_number[order] = np.arange(len(order))
    return new_number


def _renumber(instruction: Instruction, tables: Tables, new_number: Ints) -> dict[str, Table]:
    """The tables with columns along k renumbered."""
    stored, whole = _units(instruction)
    moved = {"a": ("col", stored), "b": ("row", whole), "e": ("col", stored)}
    return {o: _remap(t, moved[o][0], _mover(new_number, moved[o][1])) if o in moved else t for o, t in tables.items()}


def _mover(new_number: Ints, unit: int) -> Callable[[int], int]:
    return lambda value: int(new_number[value // unit]) * unit + value % unit


def _remap(table: Table, output: str, mover: Callable[[int], int]) -> Table:
    values = tuple(None if v is None else mover(v) for v in table.values[output])
    return table.with_values({**table.values, output: values})


class _Answers(NamedTuple):
    """An operand of scales, and for each answer the row and column of the scale that it needs."""

    fragment: Fragment
    row: Ints
    col: Ints


def _table(instruction: Instruction, scale_answers: _Answers, scale_bytes: Ints) -> Table:
    """By selector, the block that each byte scales; `scale_bytes` are the bytes of the answers, by choice."""
    fragment, tables = scale_answers.fragment, []
    for selector in fragment.selectors:
        first, *others = scale_bytes[selector :: len(fragment.selectors)]
        if any((first != other).any() for other in others):
            raise ProbeError(
                f"{instruction.name}: the other operand's byte-id or thread-id changes {fragment.operand}."
            )
        tables.append(_selection(instruction, scale_answers, first))
    return selected(tables)


def _selection(instruction: Instruction, scale_answers: _Answers, scale_bytes: Ints) -> Table:
    fragment, row, col = scale_answers
    rows, cols = np.full(fragment.slots, -1), np.full(fragment.slots, -1)
    rows[scale_bytes], cols[scale_bytes] = row, col
    used = rows >= 0
    places = set((rows * fragment.cols + cols)[used].tolist())
    if (rows[scale_bytes] != row).any() or (cols[scale_bytes] != col).any() or len(places) != used.sum():
        raise ProbeError(
            f"{instruction.name}: a byte of {fragment.operand} scales several blocks, or several bytes one."
        )
    if len(places) != fragment.rows * fragment.cols:
        raise ProbeError(f"{instruction.name}: {len(places)} of {fragment.rows * fragment.cols} blocks have a scale.")
    return slot_table(fragment.threads, fragment.elements, {"row": _numbers(rows), "col": _numbers(cols)})


def _numbers(places: Ints) -> tuple[int | None, ...]:
    """A column of a table: None for what is below 0, which scales nothing."""
    return tuple(None if place < 0 else place for place in places.tolist())
