"""What sparse multiplies do beyond PTX's text: values of metadata that are not legal, and undocumented selectors.

A subject is an instruction (`nibbles`) or an instruction and a selector, ID.selectorN (`outcome`). `nibbles`: by value
of four bits and index field in it, the positions in its chunk that it leads to; [] where it multiplies nothing, null
where there is no single product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.instruction import Instruction, sparsity
from tcprobe.store.finding import Finding, is_number, makers

METHODS = ("live",)
NIBBLES, MOST_SELECTORS, SELECTOR = 16, 16, ".selector"
Position = Annotated[int, msgspec.Meta(ge=0, lt=NIBBLES)]


class Outcome(msgspec.Struct, forbid_unknown_fields=True, rename={"same": "as"}):
    """What a selector leads to; `same` is the documented selector whose lanes it reads, where it reads those."""

    outcome: Literal["refused", "fault", "hangs", "unsound", "runs"]
    words: Annotated[str, msgspec.Meta(max_length=200)]
    same: Annotated[int, msgspec.Meta(ge=0, lt=MOST_SELECTORS)] | None = None


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One of the two."""

    nibbles: list[list[Annotated[list[Position], msgspec.Meta(max_length=1)] | None]] | None = None
    selector: Outcome | None = None


def split(subject: str) -> tuple[str, int | None]:
    """The instruction of a subject, and its selector."""
    id_, _, number = subject.partition(SELECTOR)
    return id_, int(number) if is_number(number) else None


def check(finding: Finding) -> None:
    """DataError unless it can be that of a sparse multiply of the arch."""
    id_, selector = split(finding.subject)
    row, body = inventory.instructions().get(id_), finding.body
    if row is None or row.metadata is None or not row.target.on(arch(finding.arch)):
        raise DataError(f"{id_} is not a sparse multiply of {finding.arch}.")
    if (body.nibbles is None) == (body.selector is None) or (selector is None) != (body.selector is None):
        raise DataError(f"{finding.subject}: either the values of an instruction, or one selector.")
    if body.nibbles is not None:
        assert row.metadata is not None
        rule = sparsity(row.metadata)
        values = body.nibbles or []
        if len(values) != NIBBLES or any(len(fields) != rule.fields for fields in values):
            raise DataError(f"{row.id}: {NIBBLES} values of {rule.fields} fields each are needed.")
        if any(at >= rule.positions for fields in values for read in fields for at in read or ()):
            raise DataError(f"{row.id}: a position outside 0 to {rule.positions - 1}.")
    elif not _is_outcome(row, body.selector, selector):
        raise DataError(f"{finding.subject}: no outcome of an undocumented selector.")


def _is_outcome(instruction: Instruction, found: Outcome, selector: int | None) -> bool:
    assert instruction.metadata is not None
    known = instruction.metadata.selectors
    beyond = selector is not None and len(known) <= selector < MOST_SELECTORS
    return beyond and (found.same is None or (found.outcome == "runs" and found.same in known))


def essence(body: Body) -> object:
    """All but the words."""
    selector = body.selector and {"outcome": body.selector.outcome, "as": body.selector.same}
    return {"nibbles": body.nibbles, "selector": selector}


def words(findings: Sequence[Finding]) -> str:
    """What was tried on an arch."""
    rows = {split(f.subject)[0] for f in findings}
    return f"{makers(findings)}: {len(rows)} sparse multiplies beyond PTX's text"
