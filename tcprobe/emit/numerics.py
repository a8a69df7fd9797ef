"""C++17: what the multiplies compute that have a fragment, bit by bit, by the parameters that were measured."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe import numerics
from tcprobe.arithmetic.forms import types
from tcprobe.arithmetic.header import Entry, header
from tcprobe.arithmetic.parameters import Arithmetic
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.probes.ptx import identifier
from tcprobe.store.cell import Cell

WHAT = "C++17 header: what a multiply computes, bit by bit, for hosts and CUDA: dot<form>(a, b, c)"


def emit(tables: Sequence[Cell]) -> str:
    """A struct for each multiply; UsageError where its arithmetic was not measured, or is of integers."""
    name = tables[0].arch
    rows = {row.id: row for cell in tables for row in _multiplies(cell)}
    return header(_entry(row, name) for row in rows.values())


def _multiplies(cell: Cell) -> list[Instruction]:
    """The multiplies that have a fragment; UsageError where it is of none."""
    fragment = cell.fragment
    if fragment.role not in (Role.FACTOR, Role.ACCUMULATOR, Role.RESULT):
        raise UsageError(f"numerics has no words for the {fragment.role.value} {fragment.id}.")
    known = inventory.instructions()
    ids = inventory.user_ids(fragment.id) if fragment.shared else (fragment.experiment,)
    rows = [known[id_] for id_ in ids if known[id_].multiplies]
    if not rows:
        raise UsageError(f"{fragment.id} is moved, not multiplied: numerics writes what a multiply computes.")
    return rows


def _entry(row: Instruction, name: str) -> Entry:
    rule = numerics.model(row, name)
    if not isinstance(rule, Arithmetic):
        raise UsageError(f"{row.id}: sums of integers are exact, up to 32 bits: numerics writes those of floats.")
    sourced = numerics.measured(row, name)
    method = sourced.finding.method if sourced else ""
    return Entry(identifier(row.id), f"{row.id} on {name}, measured: {method}", types(row), rule)
