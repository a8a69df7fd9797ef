"""The rule of shared memory's banks, one finding for each access: what a warp's pattern of addresses costs.

`phases`: the lanes that are served together, from the swap test. `patterns` were timed without ambiguity, `ambiguous`
were not; `misfits` of them cost something else than `rule` says, `shown` has the first. `second` is the rule that comes
second. `tags`: how the lines of cp.async's sources are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from tcprobe.errors import DataError
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.shared_memory import accesses
from tcprobe.layout.banks import IDLE, BankRule, SourceTags, from_json
from tcprobe.store.finding import Finding, makers
from tcprobe.store.kinds import Count

METHODS = ("live",)
SharedByte = Annotated[int, msgspec.Meta(ge=IDLE, lt=1 << 18)]  # of an SM's shared memory, or IDLE
GlobalByte = Annotated[int, msgspec.Meta(ge=IDLE, lt=1 << 48)]  # from the beginning of the sources, or IDLE
LaneNumber = Annotated[int, msgspec.Meta(ge=0, lt=WARP)]


class Misfit(msgspec.Struct, forbid_unknown_fields=True):
    """A pattern that the rule does not explain."""

    address: list[SharedByte]
    source: list[GlobalByte]
    cycles: Annotated[float, msgspec.Meta(gt=0, le=1e6)]
    rule: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class OtherRule(msgspec.Struct, forbid_unknown_fields=True):
    """Another rule, and how many patterns it does not explain."""

    rule: BankRule
    misfits: Count


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What was found of an access."""

    rule: BankRule
    patterns: Count
    misfits: Count
    r2: Annotated[float, msgspec.Meta(ge=0, le=1)]
    ambiguous: Count = 0
    phases: list[list[LaneNumber]] = []
    shown: list[Misfit] = []
    second: OtherRule | None = None
    tags: SourceTags | None = None


def check(finding: Finding) -> None:
    """DataError unless it is the rule of an access that the arch has."""
    row, body = accesses().get(finding.subject), finding.body
    if row is None or not row.target.on(arch(finding.arch)):
        raise DataError(f"{finding.subject} is not an access of shared memory on {finding.arch}.")
    for rule in (body.rule, *((body.second.rule,) if body.second else ())):
        if not all(0 < n <= WARP and not WARP % n for n in (rule.phase, rule.joined)) or rule.joined < rule.phase:
            raise DataError(f"{row.name} has no phases of 1 to {WARP} lanes.")
    served = [lane for phase in body.phases for lane in phase]
    if len(set(served)) != len(served) or not set(served) <= set(range(row.lanes)):
        raise DataError(f"{row.name}: phases with a lane twice, or one that gives no address.")
    if not body.patterns:
        raise DataError(f"{row.name}: not one pattern was timed.")
    if body.misfits > body.patterns:
        raise DataError(f"{row.name}: more misfits than timed patterns.")
    if body.tags:
        try:
            from_json({"masks": body.tags.masks})
        except ValueError as error:
            raise DataError(f"{row.name}: {error}.") from None


def essence(body: Body) -> object:
    """The rule and the tags."""
    return {"rule": body.rule, "tags": body.tags}


def words(findings: Sequence[Finding]) -> str:
    """What the rules of an arch rest on."""
    patterns, misfits = (sum(getattr(f.body, name) for f in findings) for name in ("patterns", "misfits"))
    return f"{makers(findings)}: the model matches {patterns - misfits:,} of {patterns:,} measured patterns"
