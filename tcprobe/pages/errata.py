"""Two pages of what is not as it is written: packages that err, and what sparse multiplies do beyond PTX's text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from tcprobe.ask.undocumented import Undocumented, everything
from tcprobe.pages.tables import MADE, code, grid
from tcprobe.store.choose import alone
from tcprobe.store.results import Results
from tcprobe.store.surveys import SavedAudit, SavedFinding, Since, since
from tcprobe.text import markdown


def errata_page(audits: Sequence[SavedAudit]) -> Iterator[str]:
    """A row a package, then a section for each finding."""
    yield from (MADE, "# Where packages differ from the measurements", "")
    yield "`tcprobe audit` compares every layout that these packages state with the tables, slot by slot, and operands"
    yield "of a multiply by its structure tensor. *Not covered*: layouts that no table can check."
    yield ""
    heads = ["package", "version", "agree", "differ", "not covered", "earlier ones audited"]
    yield from grid(heads, map(_audit_row, audits))
    for audit in audits:
        for finding in audit.findings:
            yield from ("", f"## {audit.package} {markdown(audit.version)}: {markdown(finding.name)}", "")
            yield from _finding_section(finding, since(finding, audit.version, audit.earlier))


def _finding_section(saved_finding: SavedFinding, known_since: Since) -> Iterator[str]:
    yield from _wrapped(f"Of `{saved_finding.fragment}`: {markdown(saved_finding.words)}.")
    yield from (f"- {markdown(line)}" for line in saved_finding.first)
    yield from ("", *_wrapped(f"Evidence: {markdown(saved_finding.evidence)}."))
    yield from ("", *_wrapped(f"In the package: {markdown(str(known_since))}."))
    yield from ("", *_wrapped(f"Reported: {markdown(saved_finding.reported)}."))


def _audit_row(audit: SavedAudit) -> list[str]:
    counts = [str(audit.agree), str(audit.differ), str(audit.not_covered)]
    earlier = f"{len(audit.earlier)}, since {markdown(audit.earlier[0].version)}" if audit.earlier else "none"
    return [audit.package, markdown(audit.version), *counts, earlier]


def _wrapped(text: str) -> list[str]:
    return wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def undocumented_page(results: Results) -> Iterator[str]:
    """A section an arch; forms with the same finding share a line."""
    yield from (MADE, "# Sparse multiplies beyond what is documented", "")
    yield "Found on a GPU by `tcprobe run --family undocumented`; PTX promises none of it, and another GPU or"
    yield "driver may behave differently. For illegal values of four bits of metadata: at which index in its chunk a"
    yield "stored element is multiplied. Selectors beyond the documented ones: each was run in its own process."
    for name in results.archs():
        nearest = everything(name, alone(results))
        if nearest:
            how = "Live on {device}, driver {driver}, CUDA {cuda}, tcprobe {tcprobe}.".format(**nearest[0].provenance)
            yield from ("", f"## {name}", "", markdown(how))
            yield from _lists(nearest)


def _lists(nearest: list[Undocumented]) -> Iterator[str]:
    """What was found, each with the forms that it was found of."""
    forms: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for undocumented in nearest:
        key = (tuple(undocumented.values_said), tuple(undocumented.selectors_said))
        forms.setdefault(key, []).append(undocumented.metadata.experiment)
    for (values, selectors), ids in forms.items():
        yield from ("", *_wrapped(", ".join(code(ids)) + ":"), "")
        yield from (f"- {markdown(words)}" for words in (*values, *selectors))
