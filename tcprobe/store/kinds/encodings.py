"""How the tensor-core opcodes of an arch are encoded, and which mma forms are that one instruction.

All of an arch are one document beside the opcodes' layouts, `results/sm_90/encodings.json`:
{"compiler": ..., "opcodes": {opcode: {"bits": [hexadecimal digits, one text a step], "forms": [mma forms that it is]}}}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from tcprobe.errors import DataError, NewerSchemaError
from tcprobe.isa import arch, inventory
from tcprobe.store import documents
from tcprobe.store.documents import naming
from tcprobe.store.finding import Finding, from_code
from tcprobe.store.results import Results
from tcprobe.system import files
from tcprobe.text import one_line
from tcprobe.values import Json

DOCUMENT = "encodings"
MOST = 100  # texts in a list: HMMA.884 has 4 steps
_OPCODE = re.compile(r"[A-Z0-9_.x]{1,80}")
_BITS = re.compile(r"[0-9a-f]{1,32}")


def path_of(results: Results, name: str) -> Path:
    """Where they are saved."""
    return results.root / name / "encodings.json"


def read_document(results: Results, name: str) -> Json | None:
    """The body of an arch, None if there is none; DataError if the file cannot be trusted."""
    path = path_of(results, name)
    body = documents.read(path, DOCUMENT)
    if body is not None:
        with naming(path):
            check_document(body, name)
    return body


def write_document(
    results: Results, name: str, compiler: str, seen: Mapping[str, tuple[Iterable[str], Iterable[str]]]
) -> list[str]:
    """Save (bits, forms) by opcode; what is saved of others by the same compiler stays.

    What cannot be trusted is replaced, and complained of. NewerSchemaError where a later tcprobe wrote the file.
    """
    compiler, complaints, before = one_line(compiler), [], None
    with files.locked(results.root / name):
        try:
            before = read_document(results, name)
        except NewerSchemaError:
            raise
        except DataError as error:
            complaints.append(str(error))
        opcodes = before["opcodes"] if before and before["compiler"] == compiler else {}
        for opcode, (bits, forms) in seen.items():
            same = opcode in opcodes and opcodes[opcode]["bits"] == list(bits)
            kept = opcodes[opcode]["forms"] if same else []
            opcodes[opcode] = {"bits": list(bits), "forms": sorted({*kept, *forms})}
        text = documents.seal(DOCUMENT, {"compiler": compiler, "opcodes": opcodes})
        files.write(path_of(results, name), text.encode(), parents=True)
    return complaints


def check_document(body: Json, name: str) -> None:
    """DataError unless `body` has the keys above, and forms that are mma forms of the arch."""
    if set(body) != {"compiler", "opcodes"} or not isinstance(body["compiler"], str):
        raise DataError("its keys are not those of encodings.")
    for opcode, saved in body["opcodes"].items():
        if not _OPCODE.fullmatch(opcode) or set(saved) != {"bits", "forms"}:
            raise DataError(f"{opcode}: not an opcode with bits and forms.")
        if not all(isinstance(value, list) and len(value) <= MOST for value in saved.values()) or not saved["bits"]:
            raise DataError(f"{opcode}: bits and forms are lists, bits not empty.")
        if not all(isinstance(bits, str) and _BITS.fullmatch(bits) for bits in saved["bits"]):
            raise DataError(f"{opcode}: bits need hexadecimal digits.")
        rows = [inventory.instructions().get(form) for form in saved["forms"]]
        if not all(row and row.family == "mma" and row.target.on(arch.arch(name)) for row in rows):
            raise DataError(f"{opcode}: forms are not mma forms of {name}.")


METHODS = ("sass",)


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """`bits`: hexadecimal digits, one text a step; `forms`: ids of the mma forms."""

    bits: Annotated[list[Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,32}$")]], msgspec.Meta(min_length=1)]
    forms: list[str]


def check(finding: Finding) -> None:
    """DataError unless the document would take it."""
    plain = {"bits": list(finding.body.bits), "forms": list(finding.body.forms)}
    document = {"compiler": finding.provenance["compiler"], "opcodes": {finding.subject: plain}}
    check_document(document, finding.arch)


def essence(body: Body) -> object:
    """The bits."""
    return body.bits


def words(findings: Sequence[Finding]) -> str:
    """How many opcodes, by which compiler."""
    return f"{findings[0].provenance['compiler']}: {len(findings)} opcodes encoded"


def read(results: Results, arch: str) -> Iterator[Finding]:
    """The findings of the arch's document."""
    saved = read_document(results, arch) or {"opcodes": {}}
    for opcode, row in saved["opcodes"].items():
        yield from_code("encodings", opcode, arch, saved["compiler"], msgspec.convert(row, Body))


def save(results: Results, findings: Sequence[Finding]) -> None:
    """Put findings of one arch and compiler into the document."""
    rows = {f.subject: (f.body.bits, f.body.forms) for f in findings}
    write_document(results, findings[0].arch, findings[0].provenance["compiler"], rows)
