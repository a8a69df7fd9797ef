"""From a structure tensor to tables, numbered by memory, by a reference, or by rule.

- The fragments of wmma.mma are anchored in memory. Its structure tensor must be the one that the tables of load and
  store predict. It also shows which slots it reads, where an element has several.
- For other multiplies, each reference predicts a structure tensor. The first that is equal, triple by triple, gives the
  numbers. If none is, rows, columns and k are numbered by rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.arrays import Ints
from tcprobe.layout.structure import Triples, agreement, elements, number
from tcprobe.layout.table import Tables, slot_table
from tcprobe.probes.experiment import OWN_RULE, Conclusion, Context
from tcprobe.references import Claim, claim_of, references
from tcprobe.store.measurement import MEMORY


class Meetings(NamedTuple):
    """The slots that meet: the triples of A, B and D, and the D slot of each C slot."""

    triples: Triples
    c_to_d: Ints


def number_by_anchor_or_reference(instruction: Instruction, meetings: Meetings, context: Context) -> Conclusion:
    """The tables; ProbeError if the triples are not a matrix product, or contradict what is known."""
    if instruction.definitions:
        tables, numbering = _by_anchors(instruction, meetings, context), MEMORY
    else:
        tables, numbering = _by_reference(instruction, meetings, context.device)
    return Conclusion(tables, numbering, meetings.triples.digest(), _unread(instruction, meetings.triples))


def _by_anchors(instruction: Instruction, meetings: Meetings, context: Context) -> Tables:
    known_tables = {f.operand: context.known_table(f) for f in instruction.fragments}
    tables = {operand: table for operand, table in known_tables.items() if table is not None}
    missing = [f.id for f in instruction.fragments if f.operand not in tables]
    if missing:
        raise ProbeError(f"{instruction.name}: nothing to compare with, since {', '.join(missing)} was not measured.")
    agreed = agreement(instruction, meetings.triples, tables)
    if not agreed.total:
        raise ProbeError(
            f"{instruction.name}: the structure tensor is not the one that wmma.load and wmma.store predict: "
            f"{agreed.matched} of {agreed.needed} triples agree; {'; '.join(agreed.first)}."
        )
    if not _c_agrees(tables, meetings.c_to_d):
        raise ProbeError(f"{instruction.name}: C slots do not reach the D slots that load.c and store.d predict.")
    return tables


def _by_reference(instruction: Instruction, meetings: Meetings, device: Arch) -> tuple[Tables, str]:
    for reference in references():
        claims = {f.operand: claim_of(reference, f, device) for f in instruction.fragments if f.role in WHOLE}
        tables = {operand: claim.meant for operand, claim in claims.items() if isinstance(claim, Claim)}
        agrees = len(tables) == 4 and agreement(instruction, meetings.triples, tables).total
        if agrees and _c_agrees(tables, meetings.c_to_d):
            return tables, reference.NAME
    tables = number(instruction, meetings.triples)
    d, c = tables["d"], instruction.fragment("c")
    values = {name: tuple(column[t] for t in meetings.c_to_d.tolist()) for name, column in d.values.items()}
    return tables | {"c": slot_table(c.threads, c.elements, values)}, OWN_RULE


def _c_agrees(tables: Tables, c_to_d: Ints) -> bool:
    return bool((elements(tables["c"]) == elements(tables["d"])[:, c_to_d]).all())


def _unread(instruction: Instruction, triples: Triples) -> dict[str, tuple[tuple[int, ...], ...]]:
    """By operand with slots in no triple: their i, lane by lane."""
    unread = {}
    for fragment, slots in zip(instruction.factors, (triples.a, triples.b), strict=True):
        read = np.zeros(fragment.slots, bool)
        read[slots] = True
        if not read.all():
            lanes = ~read.reshape(fragment.threads, fragment.elements)
            unread[fragment.operand] = tuple(tuple(np.flatnonzero(lane).tolist()) for lane in lanes)
    return unread
