"""From a reading to a measurement: tables, numbered and checked against everything known.

- A wmma fragment's reading is its table; every element must be held by some slot.
- A wmma.mma's structure tensor must be the one that the load and store tables predict; it shows besides
  which slots, among copies, the multiply reads.
- An mma's structure tensor is compared with the one that each reference predicts; the first that is equal,
  triple by triple, lends its numbers. Where none is, rows, columns and k are numbered by rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import Arch
from tcprobe.isa.instruction import THREADS, Fragment, Instruction
from tcprobe.layout.table import Table
from tcprobe.probes import Experiment, MultiplyExperiment, Reading
from tcprobe.probes.structure import Ints, Triples, agreement, elements, number
from tcprobe.references import Claim, references
from tcprobe.store.measurement import Measurement

Known = Callable[[Fragment], Table | None]
MEMORY = "memory addresses"
OWN_RULE = "own rule: lowest slot first"


@dataclass(frozen=True)
class Context:
    """Where a reading comes from, and what was measured there before (`known`)."""

    device: Arch
    method: str
    provenance: Mapping[str, str]
    known: Known


def conclude(experiment: Experiment, reading: Reading, context: Context) -> Measurement:
    """The measurement that `reading` of `experiment` amounts to.

    ProbeError where the reading is no layout or no matrix product, or contradicts what is known.
    """
    if not isinstance(experiment, MultiplyExperiment):
        table = memory_table(experiment.fragments[0], reading["elements"].tolist())
        return _measured(experiment, context, {fragment.operand: table for fragment in experiment.fragments}, MEMORY)
    instruction = experiment.instruction
    triples = Triples(*(reading[operand].astype(np.int64) for operand in "abd"))
    c_to_d = reading["c"].astype(np.int64)
    if instruction.family == "wmma":
        tables, numbering = _wmma_tables(instruction, triples, c_to_d, context.known), MEMORY
    else:
        tables, numbering = _mma_tables(instruction, triples, c_to_d, context.device)
    found = _measured(experiment, context, tables, numbering)
    return replace(found, structure=triples.digest(), unread=_unread(instruction, triples))


def _measured(experiment: Experiment, context: Context, tables: dict[str, Table], numbering: str) -> Measurement:
    name, method = context.device.name, context.method
    return Measurement(experiment.id, name, method, "measured", context.provenance, tables, numbering)


def memory_table(fragment: Fragment, numbers: list[int]) -> Table:
    """The table of element numbers row * cols + col by slot, -1 meaning unused.

    Every element must be held as often as the slots allow: so it is on every GPU seen, and a probe that went
    wrong rarely leaves it so. A GPU that needs less would have to be looked at before anything is published.
    """
    rows, cols = fragment.rows, fragment.cols
    held = Counter(numbers)
    wrong = [n for n in range(rows * cols) if held[n] != fragment.copies]
    if wrong:
        row, col = divmod(wrong[0], cols)
        raise ProbeError(
            f"{fragment.id}: {len(wrong)} elements are not held {fragment.copies} times, "
            f"first row {row} col {col}: {held[wrong[0]]} times."
        )
    values = {
        "row": tuple(None if n < 0 else n // cols for n in numbers),
        "col": tuple(None if n < 0 else n % cols for n in numbers),
    }
    return Table(fragment.threads, fragment.elements, values)


def _wmma_tables(instruction: Instruction, triples: Triples, c_to_d: Ints, known: Known) -> dict[str, Table]:
    found = {f.operand: known(f) for f in instruction.fragments}
    tables = {operand: table for operand, table in found.items() if table is not None}
    missing = [f.id for f in instruction.fragments if f.operand not in tables]
    if missing:
        raise ProbeError(f"{instruction.name}: nothing to compare with, since {', '.join(missing)} was not measured.")
    result = agreement(instruction, triples, tables)
    if not result.total:
        raise ProbeError(
            f"{instruction.name}: the structure tensor is not the one that wmma.load and wmma.store predict: "
            f"{result.matched} of {result.needed} triples agree; {'; '.join(result.first)}."
        )
    if not _c_agrees(tables, c_to_d):
        raise ProbeError(f"{instruction.name}: C slots do not reach the D slots that load.c and store.d predict.")
    return tables


def _mma_tables(instruction: Instruction, triples: Triples, c_to_d: Ints, device: Arch) -> tuple[dict[str, Table], str]:
    for reference in references():
        claims = {f.operand: reference.claim(f, device) for f in instruction.fragments}
        tables = {operand: claim.meant for operand, claim in claims.items() if isinstance(claim, Claim)}
        if len(tables) == 4 and agreement(instruction, triples, tables).total and _c_agrees(tables, c_to_d):
            return tables, reference.NAME
    tables = number(instruction, triples)
    d, c = tables["d"], instruction.fragments[2]
    values = {name: tuple(column[t] for t in c_to_d.tolist()) for name, column in d.values.items()}
    return tables | {"c": Table(c.threads, c.elements, values)}, OWN_RULE


def _c_agrees(tables: Mapping[str, Table], c_to_d: Ints) -> bool:
    return bool((elements(tables["c"]) == elements(tables["d"])[:, c_to_d]).all())


def _unread(instruction: Instruction, triples: Triples) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Per operand with slots in no triple: their i, lane by lane."""
    unread = {}
    for fragment, slots in zip(instruction.fragments, (triples.a, triples.b), strict=False):
        read = np.zeros(THREADS * fragment.elements, bool)
        read[slots] = True
        if not read.all():
            lanes = ~read.reshape(THREADS, fragment.elements)
            unread[fragment.operand] = tuple(tuple(np.flatnonzero(lane).tolist()) for lane in lanes)
    return unread
