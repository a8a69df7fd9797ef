"""Which rule of banks holds on an arch, and what it rests on: measured there, measured elsewhere, or only designed.

A measured rule is a finding of kind `banks` for each access. An arch without all of them gets those of sm_90, and is
marked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tcprobe.ask.confidence import UNMEASURED, Confidence, in_rules
from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch
from tcprobe.isa.shared_memory import SharedAccess, accesses
from tcprobe.layout.banks import BankRule, Judge, SourceTags, designed_rules
from tcprobe.store.choose import Layers, layers_of
from tcprobe.store.finding import Sourced
from tcprobe.store.kinds.banks import words
from tcprobe.store.results import Results

KIND, MEASURED = "banks", "sm_90"  # the arch whose rule the others borrow


@dataclass(frozen=True)
class BankRules:
    """The rules by access that answer for arch `for_arch`; they are `arch`'s. `measured`: how, if it is published.

    `tags` of the sources of accesses that look them up. `layers`: the findings that were asked, None for none.
    `contradicted`: what devices found of accesses of which no majority says which rule is right.
    """

    for_arch: str
    arch: str
    rules: Mapping[str, BankRule]
    measured: str | None
    tags: Mapping[str, SourceTags] = field(default_factory=dict)
    layers: Layers | None = field(default=None, repr=False, compare=False)
    contradicted: Mapping[str, Sourced] = field(default_factory=dict, repr=False, compare=False)

    def rule(self, access: SharedAccess) -> BankRule:
        """Of one access; UsageError where the arch does not have it, and where no rule is known of it.

        NoMajorityError where as many devices found one rule as another.
        """
        access.check_on(arch(self.for_arch))
        if access.name not in self.rules:
            raise UsageError(f"{access.name}: how its lanes collide in banks is not measured.")
        if access.name in self.contradicted:
            return self.contradicted[access.name].settled.body.rule  # type: ignore[no-any-return]  # raises
        return self.rules[access.name]

    def judge(self, access: SharedAccess) -> Judge:
        """Of one access; UsageError as `rule`."""
        return Judge(access, self.rule(access))

    @property
    def evidence(self) -> str:
        """What the rules rest on, in words."""
        if self.measured and self.for_arch == self.arch:
            return f"measured on {self.arch}, {self.measured}"
        words = f"{self.arch}'s, measured {self.measured}" if self.measured else f"{self.arch}'s by design"
        return f"{words}; no measurement of {self.for_arch} is published"

    @property
    def confidence(self) -> Confidence:
        """In the rules, of the arch that was asked; the design that they are held against is a reference."""
        if self.layers is None or self.measured is None or self.for_arch != self.arch:
            return UNMEASURED
        findings = list(self.layers.findings(KIND, self.arch).values())
        alike = sum(rule == designed_rules().get(name) for name, rule in self.rules.items())
        return in_rules(findings, alike, len(self.rules))

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        measured = self.measured is not None and self.for_arch == self.arch
        sure = self.confidence.to_json()
        return {
            "arch": self.arch,
            "asked": self.for_arch,
            "measured": measured,
            "words": self.evidence,
            "confidence": sure,
        }


def rules_for(name: str | None, results: Results | Layers) -> BankRules:
    """The rules for arch `name`, sm_90 without one; UsageError for an unknown arch, DataError for a damaged file."""
    arch_name, layers = arch(name or MEASURED).name, layers_of(results)
    for source in dict.fromkeys((arch_name, MEASURED)):
        saved = layers.findings(KIND, source)
        findings = {n: sourced.finding for n, sourced in saved.items()}
        if findings.keys() == {row.name for row in accesses().values() if row.target.on(arch(source))}:
            rules = {n: finding.body.rule for n, finding in findings.items()}
            tags = {n: finding.body.tags for n, finding in findings.items() if finding.body.tags}
            rivals = {n: sourced for n, sourced in saved.items() if sourced.rivals}
            made = "; ".join(
                (words(list(findings.values())), *(o.contradiction for o in saved.values() if o.otherwise))
            )
            return BankRules(arch_name, source, rules, made, tags, layers, rivals)
    return BankRules(arch_name, MEASURED, designed_rules(), None, layers=layers)
