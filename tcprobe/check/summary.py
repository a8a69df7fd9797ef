"""What a reader of many findings needs: what is alike once, with how often and where first, the dearest first.

A template's instances have the same faults, so findings are grouped by template, rule and text. Notes are counted by
their reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tcprobe.check.code_check import KernelCheck, Placed
from tcprobe.check.rule import SEVERITIES
from tcprobe.mangled import demangled, labels
from tcprobe.text import Whole, columns, escaped, one_line

REASONS = 6  # of notes
FEW = 4  # kernels, of which there is no table


@dataclass
class Alike:
    """Findings with one rule and text in instances of one template."""

    first: tuple[KernelCheck, Placed]
    kernels: set[int] = field(default_factory=set)
    places: int = 0
    cycles: float = 0.0  # of an SM, of all places, as far as they are known

    def add(self, number: int, placed: Placed) -> None:
        """One more, in the kernel of a number."""
        self.kernels.add(number)
        self.places += 1
        self.cycles += placed.finding.numbers.get("cycles", 0)


def alike(kernels: Sequence[KernelCheck], severity: str, by: str) -> list[Alike]:
    """Those of a severity, the dearest first; `by` "template", or "rule" alone."""
    found: dict[tuple[str, ...], Alike] = {}
    for number, kernel in enumerate(kernels):
        of = [] if by == "rule" else [kernel.file, kernel.arch, demangled(kernel.kernel).name]
        for placed in kernel.findings:
            if placed.finding.severity == severity:
                key = (*of, placed.finding.rule, placed.finding.text)
                found.setdefault(key, Alike((kernel, placed))).add(number, placed)
    return sorted(found.values(), key=lambda one: (-one.cycles, -one.places))


def lines(kernels: Sequence[KernelCheck], by: str, top: int) -> Iterator[str]:
    """A table of templates where there are many kernels, then errors, warnings, and the reasons of notes."""
    named = labels(kernel.kernel for kernel in kernels)
    if len(kernels) > FEW:
        yield from _templates(kernels, top)
        yield from _rules(kernels)
    for severity in SEVERITIES[:-1]:
        groups = alike(kernels, severity, by)
        for one in groups[:top]:
            yield _line(one, named)
        if len(groups) > top:
            rest = sum(one.places for one in groups[top:])
            yield f"{rest} more of {len(groups) - top} kinds of {severity}: --top, --all"
    yield from _reasons(kernels)


def finding_line(kernel: KernelCheck, placed: Placed, name: str, also: str = "") -> str:
    """One finding: severity, rule, where, what is wrong and what to do."""
    found, line = placed.finding, placed.line
    where = f", {one_line(line.file)}:{line.line}" if line else ""
    place = f"{escaped(name)} ({kernel.arch}, {one_line(kernel.file)}) at {found.address:#06x}{where}{also}"
    return f"{found.severity}: {found.rule}: {place}: {one_line(found.text)}"


def _line(one: Alike, named: dict[str, str]) -> str:
    kernel, placed = one.first
    also = f", and {one.places - 1} more" if one.places > 1 else ""
    also += f" in {len(one.kernels)} kernels" if len(one.kernels) > 1 else ""
    also += f", together {one.cycles:,.0f} cycles" if one.places > 1 and one.cycles else ""
    return finding_line(kernel, placed, named[kernel.kernel], also)


def _templates(kernels: Sequence[KernelCheck], top: int) -> Iterator[Whole]:
    """Kernels and findings of each template, those with most errors and warnings first."""
    found: dict[str, Counter[str]] = {}
    for kernel in kernels:
        counts = found.setdefault(f"{demangled(kernel.kernel).name} ({kernel.arch})", Counter())
        counts["kernel"] += 1
        counts.update(placed.finding.severity for placed in kernel.findings)
    clean = [name for name, counts in found.items() if counts.keys() == {"kernel"}]
    shown = [name for name in found if name not in clean]
    ranked = sorted(shown, key=lambda name: [-found[name][severity] for severity in SEVERITIES])
    kinds = ("kernel", *SEVERITIES)
    rows = [(_narrow(name), *(f"{found[name][kind]:,}" for kind in kinds)) for name in ranked[:top]]
    yield from columns([("template", "kernels", "errors", "warnings", "notes"), *rows], 1)
    if len(ranked) > top:
        yield Whole(f"and {len(ranked) - top} more")
    if clean:
        of = sum(found[name]["kernel"] for name in clean)
        yield Whole(f"and {len(clean)} templates, {of:,} kernels, without a finding")


def _rules(kernels: Sequence[KernelCheck]) -> Iterator[str]:
    """Findings of each rule."""
    found = Counter((each.finding.severity, each.finding.rule) for kernel in kernels for each in kernel.findings)
    for severity in SEVERITIES:
        if counted := [f"{rule} {n:,}" for (of, rule), n in found.most_common() if of == severity]:
            yield f"{severity}s: {', '.join(counted)}"


def _reasons(kernels: Sequence[KernelCheck]) -> Iterator[str]:
    """How many notes there are of each reason, on one line."""
    notes = [each.finding for kernel in kernels for each in kernel.findings if each.finding.severity == "note"]
    reasons = Counter(one_line(note.text.removeprefix("undecided: ")) for note in notes).most_common()
    if reasons:
        rest = sum(n for _, n in reasons[REASONS:])
        counted = [f"{n:,} {words}" for words, n in reasons[:REASONS]] + ([f"{rest:,} others"] if rest else [])
        yield f"{len(notes):,} {'note' if len(notes) == 1 else 'notes'} (--all): {'; '.join(counted)}"


def _narrow(name: str) -> str:
    return escaped(name if len(name) <= 60 else f"...{name[-57:]}")
