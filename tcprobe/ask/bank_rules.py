"""Which rule of banks holds on an arch, and what it rests on: measured there, measured elsewhere, or only designed.

A measured rule is `results/<arch>/banks.json`: for each access its `rule` (the fields of `BankRule`), how many
`patterns` were timed, how many `misfits` there were, and `r2`. An arch without one gets that of sm_90, and is marked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tcprobe.ask.banks import BankRule, Judge, designed
from tcprobe.ask.source_tags import SourceTags, from_json
from tcprobe.errors import DataError
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.shared_memory import SharedAccess, accesses
from tcprobe.store.choose import Layers, layers_of
from tcprobe.store.measurement import PROVENANCE
from tcprobe.store.results import Results
from tcprobe.store.surveys import BANKS

MEASURED = "sm_90"  # the arch whose rule the others borrow
PASSES = ("words", "lanes", "order")


@dataclass(frozen=True)
class BankRules:
    """The rules by access that answer for arch `asked`; they are `arch`'s. `measured`: how, if it is published.

    `tags` of the sources of accesses that look them up.
    """

    asked: str
    arch: str
    rules: Mapping[str, BankRule]
    measured: str | None
    tags: Mapping[str, SourceTags] = field(default_factory=dict)

    def rule(self, row: SharedAccess) -> BankRule:
        """Of one access; UsageError where the arch does not have it."""
        row.check_on(arch(self.asked))
        return self.rules[row.name]

    def judge(self, row: SharedAccess) -> Judge:
        """Of one access; UsageError as `rule`."""
        return Judge(row, self.rule(row))

    @property
    def evidence(self) -> str:
        """What the rules rest on, in words."""
        if self.measured and self.asked == self.arch:
            return f"measured on {self.arch}, {self.measured}"
        words = f"{self.arch}'s, measured {self.measured}" if self.measured else f"{self.arch}'s by design"
        return f"{words}; no measurement of {self.asked} is published"

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        measured = self.measured is not None and self.asked == self.arch
        return {"arch": self.arch, "asked": self.asked, "measured": measured, "words": self.evidence}


def rules_for(name: str | None, results: Results | Layers) -> BankRules:
    """The rules for arch `name`, sm_90 without one; UsageError for an unknown arch, DataError for a damaged file."""
    asked = arch(name or MEASURED).name
    for source in dict.fromkeys((asked, MEASURED)):
        for layer in layers_of(results).layers:
            saved = BANKS.read(layer.results, source)
            if saved is not None:
                return BankRules(asked, source, *_read(source, saved))
    return BankRules(asked, MEASURED, designed(), None)


def document(name: str, provenance: Mapping[str, str], by_access: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What `store.surveys.BANKS` saves, checked. `by_access`: by access "rule", "patterns", "misfits" and more."""
    body = {"arch": name, "method": "live", "provenance": dict(provenance), "accesses": dict(by_access)}
    _read(name, body)
    return body


def _read(name: str, body: Mapping[str, Any]) -> tuple[dict[str, BankRule], str, dict[str, SourceTags]]:
    """The rules of a saved body, their evidence, and tags; DataError where one is missing or is none."""
    try:
        rows, provenance = body["accesses"], body["provenance"]
        needed = {row.name for row in accesses().values() if row.target.on(arch(name))}
        own = (body["arch"], body["method"]) == (name, "live")
        if not own or set(rows) != needed or set(provenance) != set(PROVENANCE):
            raise DataError(f"banks.json of {name}: not the arch, method, accesses or provenance of a measured rule.")
        rules = {access: _rule(accesses()[access], row["rule"]) for access, row in rows.items()}
        tags = {access: from_json(row["tags"]) for access, row in rows.items() if "tags" in row}
        patterns, misfits = (sum(int(row[key]) for row in rows.values()) for key in ("patterns", "misfits"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"banks.json of {name}: not what tcprobe writes ({error}).") from None
    how = f"live on {provenance['device']}, driver {provenance['driver']}, CUDA {provenance['cuda']}"
    return rules, f"{how}: {misfits} of {patterns} patterns do not fit", tags


def _rule(row: SharedAccess, data: Mapping[str, Any]) -> BankRule:
    rule = BankRule(data["phase"], data["joined"], data["passes"], data["idle"])
    sizes = [type(n) is int and 0 < n <= WARP and not WARP % n for n in (rule.phase, rule.joined)]
    if not all(sizes) or rule.joined < rule.phase or rule.passes not in PASSES or type(rule.idle) is not bool:
        raise DataError(f"banks.json: {row.name} has no phases of 1 to {WARP} lanes, passes or idle.")
    return rule
