"""Measurements of one fragment, changed, and calls of commands, for the tests of which finding counts."""

from dataclasses import replace

from tcprobe.isa import inventory
from tcprobe.layout.table import slot_table
from tcprobe.store.results import published

FRAGMENT = inventory.fragments()["wmma.m16n16k16.d.f32"]
MULTIPLY = "mma.m16n8k16.row.col.f32.f16.f16.f32"


def sass(name="sm_80", fragment=FRAGMENT):
    return published().measurement(name, "sass", fragment.experiment)


def turned(measured, by=1):
    """The same measurement, had every lane held what another does."""
    tables = {}
    for operand, table in measured.tables.items():
        slots = [s ^ by * table.elements for s in range(table.points)]
        values = {name: tuple(column[s] for s in slots) for name, column in table.values.items()}
        tables[operand] = slot_table(table.threads, table.elements, values)
    return replace(measured, tables=tables)


def without_table(measured, status, **other):
    nothing = {"tables": {}, "numbering": None, "structure": None, "unread": {}}
    return replace(measured, status=status, words="no luck", **nothing, **other)
