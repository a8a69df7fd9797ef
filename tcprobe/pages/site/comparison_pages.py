"""Pages that compare: fragments and pasted tables, archs, what packages state, what versions of ptxas agree on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tcprobe.ask import diagnose
from tcprobe.ask.compare import conventional
from tcprobe.layout import csv
from tcprobe.layout.grid import blocks
from tcprobe.layout.table import ranges
from tcprobe.pages.machine_code import VersionStatement, differences, exceptions, refusals
from tcprobe.pages.site import addresses, markup, words
from tcprobe.pages.site.data_files import picture_of
from tcprobe.pages.site.facts import Fact, Facts
from tcprobe.pages.site.markup import ListPart, View, cells, list_page
from tcprobe.pages.tables import spans
from tcprobe.store.cell import Cell
from tcprobe.store.surveys import SavedAudit, SavedSurvey, load_audits, load_survey, since
from tcprobe.values import Json

COMPARE_PAGE = "compare.html"
OF_KIND = ("bits", "register", "conventional", "documented", "sizes")  # what `_kind` has of a fragment
FIRST_COMPARED = ("wmma.m16n16k16.d.f32", "sm_70", "sm_75")  # Volta's accumulator and Turing's
LONGEST = 100  # characters of a name in the box
MOST_PICTURED = 34_000  # characters that the page has of each matrix


def compare_page(facts: Facts) -> View:
    """The page, with two archs' tables of a fragment drawn."""
    fact, archs = _first(facts)
    sides = [fact.cells[arch] for arch in archs]
    first, second = (cell.table.inverse for cell in sides)
    both = set(first) & set(second)
    different = sum(first[element] != second[element] for element in both)
    kinds, runs = _compared_kinds(facts)
    context = {
        "sides": [_side(fact, cell) for cell in sides],
        "count": f"{different} of {len(both)} elements have different holders.",
        "csv": csv.WORDS["empty"].partition("; ")[2],
        "most": csv.rules()["most"]["bytes"],
        "longest": LONGEST,
        "data": markup.data(
            {
                "kind": "compare",
                "first": [[fact.id, arch] for arch in archs],
                "archs": facts.archs,
                "rules": diagnose.to_json(),
                "csv": csv.rules(),
                "kinds": kinds,
                "runs": runs,
            }
        ),
    }
    about = "Two fragments or two archs side by side; a table of yours against the measured one"
    return View(COMPARE_PAGE, "compare", "Side by side", about, context)


def _first(facts: Facts) -> tuple[Fact, tuple[str, str]]:
    """What is drawn where nothing is chosen; of other folders what they have."""
    id_, *archs = FIRST_COMPARED
    fact = facts.facts.get(id_)
    if fact and set(archs) <= set(fact.cells):
        return fact, (archs[0], archs[1])
    several = [fact for fact in facts.facts.values() if len(fact.tables) > 1 and not fact.sizes]
    fact = next(iter(several or facts.facts.values()))
    other = next((arch for arch, cell in fact.cells.items() if cell.table != fact.main.table), fact.main.arch)
    return fact, (fact.main.arch, other)


def _side(fact: Fact, cell: Cell) -> Json:
    block = blocks(cell.table, cell.fragment)[0]
    return {
        "id": fact.id,
        "page": f"{addresses.fact(fact.id)}?arch={cell.arch}",
        "arch": cell.arch,
        "axis": words.axis(fact.fragment),
        "formula": words.formula(cell.table),
        "matrix": markup.matrix(block, MOST_PICTURED).markup,
        "picture": picture_of(cell),
    }


def _compared_kinds(facts: Facts) -> tuple[list[Json], list[list[int]]]:
    """What fragments are, each kind once; and [kind, how many follow each other], in the order of the table of words.

    A kind says bits of an element and of a register, whether rows and columns are a convention, on which archs nobody
    measured it (as bits in the order of `archs`), and each N of a fragment for every N.
    """
    kinds: dict[tuple[Any, ...], int] = {}
    runs: list[list[int]] = []
    for fact in facts.facts.values():
        fragment = fact.fragment
        documented = sum(1 << facts.archs.index(arch) for arch, cell in fact.cells.items() if not cell.measured)
        sizes = tuple((cell.fragment.shape.n, cell.table.space.axes[-1].size) for cell in fact.sizes)
        number = kinds.setdefault(
            (fragment.slot_bits, fragment.register_bits, conventional(fragment), documented, sizes), len(kinds)
        )
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return [dict(zip(OF_KIND, kind, strict=True)) for kind in kinds], runs


def diff_page(facts: Facts) -> View:
    """The page."""
    pairs = list(pairwise(facts.archs))
    first, second = ("sm_75", "sm_80") if {"sm_75", "sm_80"} <= set(facts.archs) else (facts.archs[0], facts.archs[-1])
    # runs of fragment numbers, in the order of search.js, with the number of their layout by arch; -1 without one
    numbers = {id_: number for number, id_ in enumerate(facts.tables)}
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, fact in enumerate(facts.facts.values()):
        key = tuple(numbers[fact.cells[arch].table.id] if arch in fact.cells else -1 for arch in facts.archs)
        groups.setdefault(key, []).append(number)
    formulas = [words.formula(table).replace("\n", ", ") for table in facts.tables.values()]
    runs = [
        [[[first, last - first + 1] for first, last in ranges(members)], list(cells)]
        for cells, members in groups.items()
    ]
    context = {
        "archs": facts.archs,
        "first": first,
        "second": second,
        "steps": [_diff_step(facts, *pair) for pair in pairs],
        "data": markup.data({"kind": "diff", "archs": facts.archs, "groups": runs, "formulas": formulas}),
    }
    return View("diff.html", "diff", "Differences", "What differs between two GPU generations", context)


def _diff_step(facts: Facts, before: str, after: str) -> Json:
    both = [fact for fact in facts.facts.values() if {before, after} <= set(fact.cells)]
    changed = [fact for fact in both if fact.cells[before].table != fact.cells[after].table]
    new = sum(after in fact.cells and before not in fact.cells for fact in facts.facts.values())
    return {
        "pair": f"{before} to {after}",
        "same": len(both) - len(changed),
        "new": new,
        "changed": [(fact.id, addresses.fact(fact.id)) for fact in changed],
    }


AUDIT, COMPILERS = "audit.html", "compilers.html"
NAMED = 6  # forms of a line that are named
HOW = (
    "tcprobe audit compares every layout that a package states with the tables, slot by slot, and operands of a "
    "multiply by its structure tensor. Not covered: layouts that no table can check."
)


def package_pages(facts: Facts) -> Iterator[View]:
    """A page of audits and one of compilers, where the folders have them."""
    if saved := audits(facts):
        yield _audit(facts, saved)
    survey = next(filter(None, (load_survey(layer.results.root) for layer in facts.layers.layers)), None)
    if survey:
        yield _compilers(facts, survey)


def package_links(facts: Facts) -> list[tuple[str, str]]:
    """The links to them on the first page."""
    titles = {AUDIT: "What do other packages state?", COMPILERS: "Do compilers agree?"}
    return [(titles[view.page], view.page) for view in package_pages(facts)]


def audits(facts: Facts) -> list[SavedAudit]:
    """The audits of the nearest folder that has any."""
    return next(filter(None, (load_audits(layer.results.root) for layer in facts.layers.layers)), [])


def differences_part(facts: Facts) -> ListPart:
    """What packages state otherwise than it was measured: a row a finding."""
    heads = ["Package", "Layout", "Fragment", "What is wrong", "First slots", "Evidence", "Reported"]
    rows = [
        [
            *cells(f"{audit.package} {audit.version}", finding.name),
            [_package_address(facts, finding.fragment)],
            *cells(f"{finding.words}, {since(finding, audit.version, audit.earlier)}", "; ".join(finding.first)),
            *cells(finding.evidence, finding.reported),
        ]
        for audit in audits(facts)
        for finding in audit.findings
    ]
    return ListPart("Packages", "packages", HOW if rows else "", heads if rows else (), rows)


def _package_address(facts: Facts, id_: str) -> tuple[str, str]:
    """A fragment or an instruction, with its page where it has one."""
    if fact := facts.by_fragment.get(id_):
        return id_, addresses.fact(fact.id)
    return id_, addresses.instruction(name) if (name := facts.page_names.get(id_, "")) else ""


def _audit(facts: Facts, saved_audits: Sequence[SavedAudit]) -> View:
    heads = ["Package", "Version", "Agree", "Differ", "Not covered"]
    rows = [cells(a.package, a.version, a.agree, a.differ, a.not_covered) for a in saved_audits]
    agree, differ = (sum(getattr(audit, name) for audit in saved_audits) for name in ("agree", "differ"))
    sums = f"{agree} layouts agree, {differ} differ"
    shell = "\n".join(f"tcprobe audit {audit.package}" for audit in saved_audits)
    differences = differences_part(facts)
    parts = [
        ListPart("By package", "by-package", heads=heads, rows=rows, sorts=True),
        *([ListPart("What differs", "findings", "", differences.heads, differences.rows)] if differences.rows else []),
        ListPart("In the shell", "shell", "A package that is installed, or layouts of your own as CSV:", code=shell),
    ]
    about = "What Python packages state of layouts, against the tables"
    return list_page(AUDIT, "Audits of packages", about, [HOW, f"Of {len(saved_audits)} packages: {sums}."], parts)


def _compilers(facts: Facts, survey: SavedSurvey) -> View:
    pairs = sum(map(len, survey.archs.values()))
    about = (
        f"{len(survey.versions)} versions of ptxas, {pairs} pairs of version and arch. Of their machine code "
        f"{survey.tables} tables of fragments and {survey.lowerings} lowerings of instructions are the same in every "
        f"version that shows one; {len(survey.differing) or 'none'} differ."
    )
    versions = [cells(name, spans(archs)) for name, archs in survey.archs.items()]
    only = "A version that knows the arch does not show these: it is too old for them, or refuses them."
    parts = [
        ListPart("Versions", "versions", heads=["Version", "Archs"], rows=versions),
        _statements_part(facts, "What differs", "differs", "" if survey.differing else "Nothing.", differences(survey)),
        _statements_part(facts, "Shown by some versions only", "some", only, exceptions(survey)),
        _statements_part(facts, "Refused, or not read", "refused", "", refusals(survey)),
        ListPart("In the shell", "shell", "The toolkits that you have:", code="tcprobe compilers"),
    ]
    title = "What versions of ptxas agree on, and the exceptions"
    return list_page(COMPILERS, "Compilers", title, [about], parts)


def _statements_part(
    facts: Facts, head: str, anchor: str, text: str, statements: Iterable[VersionStatement]
) -> ListPart:
    lines = list(statements)
    heads = ["What", "Archs", "Forms", "Versions", *(["Words"] if any(statement.words for statement in lines) else [])]
    rows = []
    for statement in lines:
        ids, more = words.some(statement.ids, NAMED)
        forms = [_package_address(facts, id_) for id_ in ids] + ([(f"{more} more", "")] if more else [])
        said = cells(statement.versions, statement.words)[: len(heads) - 3]
        rows.append([*cells(statement.what, statement.archs), forms, *said])
    return ListPart(head, anchor, text, heads if rows else (), rows)
