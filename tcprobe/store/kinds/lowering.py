"""What a multiply or a matrix move becomes: the machine instructions of its code, by opcode how many.

All of an arch are one document, `results/sm_90/lowering.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.store.acceptance import MOST_OPCODES
from tcprobe.store.finding import Finding, from_code
from tcprobe.store.results import Results
from tcprobe.values import Json

METHODS = ("sass",)


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`opcodes` of the matrix instructions, `others` beside them, `routines` linked; or why ptxas refuses the form."""

    opcodes: dict[str, Annotated[int, msgspec.Meta(gt=0, le=MOST_OPCODES)]]
    others: Annotated[int, msgspec.Meta(ge=0, le=MOST_OPCODES)]
    refused: str | None = None
    routines: list[str] = []


def check(finding: Finding) -> None:
    """DataError unless it is of an instruction, and a refused one becomes nothing."""
    if finding.subject not in inventory.instructions():
        raise DataError(f"{finding.subject} is not an instruction that this tcprobe knows.")
    if finding.body.refused is not None and (finding.body.opcodes or finding.body.others):
        raise DataError(f"{finding.subject}: refused, but it has opcodes.")


def essence(body: Body) -> object:
    """All but the words of a refusal."""
    return {"opcodes": body.opcodes, "refused": body.refused is not None}


def words(findings: Sequence[Finding]) -> str:
    """How many forms, by which compiler."""
    return f"{findings[0].provenance['compiler']}: {len(findings)} forms lowered"


def read(results: Results, arch: str) -> Iterator[Finding]:
    """The findings of the arch's document that are of known instructions."""
    saved = results.lowering(arch) or {"instructions": {}}
    for id_, row in saved["instructions"].items():
        if id_ in inventory.instructions():
            yield from_code("lowering", id_, arch, saved["compiler"], msgspec.convert(row, Body))


def save(results: Results, findings: Sequence[Finding]) -> None:
    """Put findings of one arch and compiler into the document."""
    rows = {f.subject: _row(f.body) for f in findings}
    results.write_lowering(findings[0].arch, findings[0].provenance["compiler"], rows)


def _row(body: Body) -> Json:
    return {"opcodes": body.opcodes, "others": body.others, "refused": body.refused, "routines": body.routines}
