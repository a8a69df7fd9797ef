"""Whether what a measurement says hangs together: its tables, its structure tensor, and what anchors them.

A multiply's tables must predict the very structure tensor that was measured, with its anchor. Measurements of earlier
versions have no anchor, and what is read from machine code has no structure tensor: each of their tables must be one
that is published, that a reference states, or that an opcode of the same folder has.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.errors import DataError
from tcprobe.isa import arch, inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.structure import predict_hash, read_slots
from tcprobe.layout.table import Table
from tcprobe.references import Claim, claim_of, references
from tcprobe.store import acceptance
from tcprobe.store.finding import FROM_CODE, Measurement
from tcprobe.store.results import Results, published


def check(measured: Measurement, results: Results) -> None:
    """DataError unless the tables can be those of the experiment, and are those that its structure, or opcode, says."""
    acceptance.belongs(measured)
    row = inventory.instructions().get(measured.experiment)
    if row is None or not row.multiplies or measured.status != "measured":
        return
    if measured.structure is None:
        if measured.method in FROM_CODE:
            _check_known(measured, row, results, "follows from no opcode, published table or reference")
        return
    tables = {o: read_slots(table, measured.unread.get(o)) for o, table in measured.tables.items()}
    expected = predict_hash(row, tables)
    if measured.structure.anchor is None:
        expected = expected._replace(anchor=None)
    if expected != measured.structure:
        raise DataError(f"{row.id} on {measured.arch}: its tables do not give its structure tensor.")
    if measured.structure.anchor is None:
        _check_known(measured, row, results, "is not anchored: an earlier version measured it, and it is a new table")


def _check_known(measured: Measurement, instruction: Instruction, results: Results, why: str) -> None:
    for operand, table in measured.tables.items():
        if not any(table == known for known in _other_tables(measured, instruction.fragment(operand), results)):
            raise DataError(f"{instruction.id} on {measured.arch}: its table of {operand} {why}. Measure it again.")


def _other_tables(measured: Measurement, fragment: Fragment, results: Results) -> Iterator[Table]:
    """The tables of a fragment that others know on the arch."""
    for method in published().methods(measured.arch):
        if table := published().table(measured.arch, method, fragment):
            yield table
    for reference in references():
        claim = claim_of(reference, fragment, arch.arch(measured.arch))
        if isinstance(claim, Claim):
            yield claim.meant
    for folder in (results, published()):
        for opcode in folder.opcodes(measured.arch).values():
            if fragment.operand in opcode["layouts"]:
                yield folder.layout(opcode["layouts"][fragment.operand])
    shared = fragment.experiment != measured.experiment  # then loads and stores of the same folder show it
    if shared and (table := results.table(measured.arch, measured.method, fragment)):
        yield table
