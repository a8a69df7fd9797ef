"""The layouts of a tensor-core opcode's operands, as loads and stores of a wmma.mma anchor them.

All of an arch are one document, `results/sm_90/opcodes.json`; here each finding holds its layouts written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tcprobe.errors import DataError
from tcprobe.isa import arch, inventory
from tcprobe.store import acceptance
from tcprobe.store.finding import Finding, from_code
from tcprobe.store.results import Results, layout_json, read_layout
from tcprobe.values import Json

METHODS = ("sass",)


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """`layouts` by operand, as `store.results` writes them; `source`: the wmma.mma that showed them."""

    layouts: dict[str, Json]
    source: str


def check(finding: Finding) -> None:
    """DataError unless the layouts are those of a product, and a wmma.mma of the arch showed them."""
    source = inventory.instructions().get(finding.body.source)
    if source is None or source.family != "wmma" or not source.target.on(arch.arch(finding.arch)):
        raise DataError(f"{finding.subject}: {finding.body.source} is not a wmma.mma of {finding.arch}.")
    if not {"a", "b", "d"} <= set(finding.body.layouts) <= {"a", "b", "c", "d"}:
        raise DataError(f"{finding.subject}: layouts of a, b and d are needed.")
    acceptance.product(finding.subject, {o: read_layout(layout) for o, layout in finding.body.layouts.items()})


def essence(body: Body) -> object:
    """The layouts."""
    return body.layouts


def words(findings: Sequence[Finding]) -> str:
    """How many opcodes, by which compiler."""
    return f"{findings[0].provenance['compiler']}: layouts of {len(findings)} opcodes"


def read(results: Results, name: str) -> Iterator[Finding]:
    """The findings of the arch's document."""
    for opcode, row in results.opcodes(name).items():
        written = {o: layout_json(results.layout(id_)) for o, id_ in row["layouts"].items()}
        yield from_code("opcodes", opcode, name, row["compiler"], Body(written, row["source"]))


def save(results: Results, findings: Sequence[Finding]) -> None:
    """Put findings of one arch and compiler into the document."""
    rows = {f.subject: ({o: read_layout(part) for o, part in f.body.layouts.items()}, f.body.source) for f in findings}
    results.write_opcodes(findings[0].arch, findings[0].provenance["compiler"], rows)
