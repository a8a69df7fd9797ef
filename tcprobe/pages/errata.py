"""The page of errata: what packages state otherwise than it was measured, by package and version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from tcprobe.pages.tables import MADE, grid
from tcprobe.store.surveys import SavedAudit, SavedFinding, Since, since
from tcprobe.text import markdown


def page(audits: Sequence[SavedAudit]) -> Iterator[str]:
    """A row a package, then a section for each finding."""
    yield from (MADE, "# Where packages differ from the measurements", "")
    yield "`tcprobe audit` compares every layout that these packages state with the tables, slot by slot, and operands"
    yield "of a multiply by its structure tensor. *Not covered*: layouts that no table can check."
    yield ""
    heads = ["package", "version", "agree", "differ", "not covered", "earlier ones audited"]
    yield from grid(heads, map(_row, audits))
    for audit in audits:
        for finding in audit.findings:
            yield from ("", f"## {audit.package} {markdown(audit.version)}: {markdown(finding.name)}", "")
            yield from _section(finding, since(finding, audit.version, audit.earlier))


def _section(saved_finding: SavedFinding, known_since: Since) -> Iterator[str]:
    yield from _lines(f"Of `{saved_finding.fragment}`: {markdown(saved_finding.words)}.")
    yield from (f"- {markdown(line)}" for line in saved_finding.first)
    yield from ("", *_lines(f"Evidence: {markdown(saved_finding.evidence)}."))
    yield from ("", *_lines(f"In the package: {markdown(str(known_since))}."))
    yield from ("", *_lines(f"Reported: {markdown(saved_finding.reported)}."))


def _row(audit: SavedAudit) -> list[str]:
    counts = [str(audit.agree), str(audit.differ), str(audit.not_covered)]
    earlier = f"{len(audit.earlier)}, since {markdown(audit.earlier[0].version)}" if audit.earlier else "none"
    return [audit.package, markdown(audit.version), *counts, earlier]


def _lines(text: str) -> list[str]:
    return wrap(text, 120, break_long_words=False, break_on_hyphens=False)
