"""How an opcode is encoded, and which mma forms are that one instruction.

All of an arch are one document, `results/sm_90/encodings.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from tcprobe.store import encodings
from tcprobe.store.finding import Finding, from_code
from tcprobe.store.results import Results

METHODS = ("sass",)


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """`bits`: hexadecimal digits, one text a step; `forms`: ids of the mma forms."""

    bits: Annotated[list[Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,32}$")]], msgspec.Meta(min_length=1)]
    forms: list[str]


def check(finding: Finding) -> None:
    """DataError unless the document would take it."""
    plain = {"bits": list(finding.body.bits), "forms": list(finding.body.forms)}
    document = {"compiler": finding.provenance["compiler"], "opcodes": {finding.subject: plain}}
    encodings.check(document, finding.arch)


def essence(body: Body) -> object:
    """The bits."""
    return body.bits


def words(findings: Sequence[Finding]) -> str:
    """How many opcodes, by which compiler."""
    return f"{findings[0].provenance['compiler']}: {len(findings)} opcodes encoded"


def read(results: Results, arch: str) -> Iterator[Finding]:
    """The findings of the arch's document."""
    saved = encodings.read(results, arch) or {"opcodes": {}}
    for opcode, row in saved["opcodes"].items():
        yield from_code("encodings", opcode, arch, saved["compiler"], msgspec.convert(row, Body))


def save(results: Results, findings: Sequence[Finding]) -> None:
    """Put findings of one arch and compiler into the document."""
    rows = {f.subject: (f.body.bits, f.body.forms) for f in findings}
    encodings.write(results, findings[0].arch, findings[0].provenance["compiler"], rows)
