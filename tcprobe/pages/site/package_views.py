"""Pages of what other people's packages and compilers say: audits, errata of packages, versions of ptxas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tcprobe.pages.compilers import VersionStatement, differences, exceptions, refusals
from tcprobe.pages.site import addresses, words
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.render import Links, ListPart, View
from tcprobe.pages.tables import spans
from tcprobe.store import surveys
from tcprobe.store.surveys import SavedAudit, SavedFinding, SavedSurvey

AUDIT, COMPILERS = "audit.html", "compilers.html"
NAMED = 6  # forms of a line that are named
HOW = (
    "tcprobe audit compares every layout that a package states with the tables, slot by slot, and operands of a "
    "multiply by its structure tensor. Not covered: layouts that no table can check."
)


def views(facts: Facts) -> Iterator[View]:
    """A page of audits and one of compilers, where the folders have them."""
    if saved := audits(facts):
        yield _audit(facts, saved)
    survey = next(filter(None, (surveys.load_survey(layer.results.root) for layer in facts.layers.layers)), None)
    if survey:
        yield _compilers(facts, survey)


def links(facts: Facts) -> list[tuple[str, str]]:
    """The links to them on the first page."""
    titles = {AUDIT: "What do other packages state?", COMPILERS: "Do compilers agree?"}
    return [(titles[view.page], view.page) for view in views(facts)]


def audits(facts: Facts) -> list[SavedAudit]:
    """The audits of the nearest folder that has any."""
    return next(filter(None, (surveys.load_audits(layer.results.root) for layer in facts.layers.layers)), [])


def differences_part(facts: Facts) -> ListPart:
    """What packages state otherwise than it was measured: a row a finding."""
    heads = ["Package", "Layout", "Fragment", "What is wrong", "First slots", "Evidence", "Reported"]
    rows = [_difference(facts, audit, finding) for audit in audits(facts) for finding in audit.findings]
    return ListPart("Packages", "packages", HOW if rows else "", heads if rows else (), rows)


def _difference(facts: Facts, audit: SavedAudit, saved_finding: SavedFinding) -> list[Links]:
    known_since = surveys.since(saved_finding, audit.version, audit.earlier)
    return [
        [(f"{audit.package} {audit.version}", "")],
        [(saved_finding.name, "")],
        [_page(facts, saved_finding.fragment)],
        [(f"{saved_finding.words}, {known_since}", "")],
        [("; ".join(saved_finding.first), "")],
        [(saved_finding.evidence, "")],
        [(saved_finding.reported, "")],
    ]


def _page(facts: Facts, id_: str) -> tuple[str, str]:
    """A fragment or an instruction, with its page where it has one."""
    if fact := facts.by_fragment.get(id_):
        return id_, addresses.fact(fact.id)
    return id_, addresses.instruction(name) if (name := facts.page_names.get(id_, "")) else ""


def _audit(facts: Facts, saved_audits: Sequence[SavedAudit]) -> View:
    heads = ["Package", "Version", "Agree", "Differ", "Not covered"]
    rows = [
        [
            [(text, "")]
            for text in (audit.package, audit.version, str(audit.agree), str(audit.differ), str(audit.not_covered))
        ]
        for audit in saved_audits
    ]
    agree, differ = (sum(getattr(audit, name) for audit in saved_audits) for name in ("agree", "differ"))
    sums = f"{agree} layouts agree, {differ} differ"
    shell = "\n".join(f"tcprobe audit {audit.package}" for audit in saved_audits)
    differences = differences_part(facts)
    parts = [
        ListPart("By package", "by-package", heads=heads, rows=rows, sorts=True),
        *([ListPart("What differs", "findings", "", differences.heads, differences.rows)] if differences.rows else []),
        ListPart("In the shell", "shell", "A package that is installed, or layouts of your own as CSV:", code=shell),
    ]
    context = {"paragraphs": [HOW, f"Of {len(saved_audits)} packages: {sums}."], "parts": parts}
    return View(
        AUDIT, "list", "Audits of packages", "What Python packages state of layouts, against the tables", context
    )


def _compilers(facts: Facts, survey: SavedSurvey) -> View:
    pairs = sum(map(len, survey.archs.values()))
    about = (
        f"{len(survey.versions)} versions of ptxas, {pairs} pairs of version and arch. Of their machine code "
        f"{survey.tables} tables of fragments and {survey.lowerings} lowerings of instructions are the same in every "
        f"version that shows one; {len(survey.differing) or 'none'} differ."
    )
    versions: list[list[Links]] = [[[(name, "")], [(spans(archs), "")]] for name, archs in survey.archs.items()]
    only = "A version that knows the arch does not show these: it is too old for them, or refuses them."
    parts = [
        ListPart("Versions", "versions", heads=["Version", "Archs"], rows=versions),
        _statements_part(facts, "What differs", "differs", "" if survey.differing else "Nothing.", differences(survey)),
        _statements_part(facts, "Shown by some versions only", "some", only, exceptions(survey)),
        _statements_part(facts, "Refused, or not read", "refused", "", refusals(survey)),
        ListPart("In the shell", "shell", "The toolkits that you have:", code="tcprobe compilers"),
    ]
    context = {"paragraphs": [about], "parts": parts}
    return View(COMPILERS, "list", "Compilers", "What versions of ptxas agree on, and the exceptions", context)


def _statements_part(
    facts: Facts, head: str, anchor: str, text: str, statements: Iterable[VersionStatement]
) -> ListPart:
    lines = list(statements)
    heads = ["What", "Archs", "Forms", "Versions", *(["Words"] if any(statement.words for statement in lines) else [])]
    rows = []
    for statement in lines:
        ids, more = words.some(statement.ids, NAMED)
        forms = [_page(facts, id_) for id_ in ids] + ([(f"{more} more", "")] if more else [])
        row: list[Links] = [[(statement.what, "")], [(statement.archs, "")], forms, [(statement.versions, "")]]
        rows.append([*row, [(statement.words, "")]] if len(heads) > 4 else row)
    return ListPart(head, anchor, text, heads if rows else (), rows)
