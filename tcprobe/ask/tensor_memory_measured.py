"""What was measured of an operand in tensor memory, as a statement that counts more than what is documented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.instruction import Instruction
from tcprobe.references.memory_operand import CELL, CellStatement, Stated, TensorCell
from tcprobe.store.choose import Layers
from tcprobe.store.evidence import how, whence
from tcprobe.store.finding import Sourced
from tcprobe.store.kinds.tensor_memory import KIND, Subject


class MeasuredPlaces(NamedTuple):
    """A finding on an arch as a statement; documented ones that say the same, and those that do not."""

    statement: CellStatement
    arch: str
    agreeing: tuple[CellStatement, ...]
    differing: tuple[CellStatement, ...]


def find_measured_places(
    instruction: Instruction, finding_subject: Subject, documented: Stated, known_by: tuple[Layers, str | None]
) -> MeasuredPlaces | None:
    """The finding of a subject on the named archs (comma-separated), or without a name, or with all, on any arch that
    has the form, the newest first; None where nobody measured it."""
    layers, name = known_by
    for row in _archs(instruction, name):
        if sourced := layers.finding(KIND, row, str(finding_subject)):
            statement = statement_of(sourced)
            agreeing = tuple(other for other in documented if same_places(other, statement))
            return MeasuredPlaces(
                statement, row, agreeing, tuple(other for other in documented if other not in agreeing)
            )
    return None


def _archs(instruction: Instruction, name: str | None) -> Sequence[str]:
    if name in (None, "all"):
        return [row.name for row in reversed(ARCHS) if instruction.target.on(row)]
    return [arch(each).name for each in str(name).split(",")]


def statement_of(sourced: Sourced) -> CellStatement:
    """What a finding says; NoMajorityError where as many devices found something else."""
    finding = sourced.settled
    body = finding.body
    places: dict[tuple[int, int], list[TensorCell]] = {}
    for row, col, cta, lane, bit in body.held:
        places.setdefault((row, col), []).append(TensorCell(cta, lane, *divmod(bit, CELL)))
    source = f"measured on {finding.arch}: {how(finding)}, {whence(sourced.source)}"
    source += f"; {sourced.contradiction}" if sourced.otherwise else ""
    return CellStatement(source, body.bits, body.rows, body.cols, lambda row, col: tuple(places[row, col]))


def same_places(first_statement: CellStatement, second_statement: CellStatement) -> bool:
    """Whether two put every element in the same places."""
    return first_statement[2:4] == second_statement[2:4] and all(
        set(first_statement.holding(row, col)) == set(second_statement.holding(row, col))
        for row in range(first_statement.rows)
        for col in range(first_statement.cols)
    )
