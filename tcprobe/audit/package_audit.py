"""A package's layouts, judged: how many agree, what differs, and a report of each finding for its maintainers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, verdicts
from tcprobe.audit import ask_package
from tcprobe.audit.adapters import adapters
from tcprobe.audit.judge import Ruling, findings, judge_statements
from tcprobe.audit.statement import Statement
from tcprobe.errors import DataError
from tcprobe.fit import fitted
from tcprobe.layout.csv import read_csv
from tcprobe.store import errata
from tcprobe.store.choose import Layers
from tcprobe.store.errata import EarlierAudit, Since, StatedOtherwise, since
from tcprobe.text import escaped
from tcprobe.values import Json

UNREPORTED = "no report is known"


@dataclass(frozen=True)
class PackageAudit:
    """The rulings on a package's layouts, in order; `earlier` has what earlier versions of it differ in."""

    package: str
    version: str
    rulings: tuple[Ruling, ...]
    earlier: tuple[EarlierAudit, ...] = ()

    def count(self, verdict: str) -> int:
        """The number of layouts with a verdict."""
        return sum(ruling.verdict == verdict for ruling in self.rulings)

    @property
    def findings(self) -> list[Ruling]:
        """What differs."""
        return list(findings(self.rulings))

    def to_json(self) -> Json:
        """Plain data: `differ` of `of` layouts differ; in `findings` and `layouts` of so many slots."""
        agree, differ = self.count(CONFIRMED), self.count(DIFFERS)
        return {
            "package": self.package,
            "version": self.version,
            "agree": agree,
            "differ": differ,
            "of": agree + differ,
            "not_covered": self.count(NOT_COVERED),
            "findings": [self._finding(ruling) for ruling in self.findings],
            "layouts": [ruling.to_json() for ruling in self.rulings],
        }

    def since(self, ruling: Ruling) -> Since:
        """Since which version a layout differs."""
        statement = ruling.statement
        return since(
            StatedOtherwise(statement.name, statement.fragment, ruling.differ, ruling.compared),
            self.version,
            self.earlier,
        )

    def _finding(self, ruling: Ruling) -> Json:
        return {
            **ruling.to_json(),
            "since": self.since(ruling).version,
            "before": self.since(ruling).before,
            "reported": known_report(self.package, ruling),
            "report": report(self, ruling),
        }

    @property
    def reasons(self) -> Counter[str]:
        """Why layouts are not covered, and how many."""
        return Counter(ruling.words for ruling in self.rulings if ruling.verdict == NOT_COVERED)


def audit(package: str, layers: Layers, limit: float, python: Path | None = None) -> PackageAudit:
    """Judge the layouts of an installed package; errors as `ask_package.ask`."""
    version, statements = ask_package.ask(package, limit, python)
    known_errata = next(
        (layer_errata for layer in layers.layers if (layer_errata := errata.load(layer.results.root))), []
    )
    return PackageAudit(
        package,
        version,
        tuple(judge_statements(statements, layers)),
        tuple(errata.before(known_errata, package, version)),
    )


def audit_files(path: Path, layers: Layers) -> PackageAudit:
    """Judge CSV tables, of a folder or a single one: FRAGMENT.csv, or FRAGMENT,sm_XX.csv."""
    paths = sorted(path.glob("*.csv")) if path.is_dir() else [path]
    if not paths:
        raise DataError(f"{path} has no .csv files.")
    return PackageAudit(
        escaped(path.name), "files", tuple(judge_statements([_statement_of_file(file) for file in paths], layers))
    )


def _statement_of_file(path: Path) -> Statement:
    """The statement of a table of lane, i, row and col; a column product is ignored."""
    table = read_csv(path)
    if not {"row", "col"} <= set(table.outputs):
        raise DataError(f"{path} has no row and col.")
    fragment, _, arch = path.stem.partition(",")
    cells = [None if place is None else (place[0], place[1]) for place in table.cells]
    return Statement(escaped(path.name), fragment, table.threads, table.elements, cells, arch=arch)


def known_report(package: str, ruling: Ruling) -> str:
    """What is known of a finding's report to the package's maintainers, in words."""
    reports = adapters()[package][1].REPORTED if package in adapters() else {}
    return next((words for name, words in reports.items() if ruling.statement.name.startswith(name)), UNREPORTED)


def report(audited: PackageAudit, ruling: Ruling) -> str:
    """A finding for the package's maintainers, as Markdown: what, evidence, and a reproduction without tcprobe."""
    return "\n".join(_report(audited, ruling)) + "\n"


def _report(audited: PackageAudit, ruling: Ruling) -> Iterator[str]:
    statement = ruling.statement
    form, _, operand = statement.fragment.rpartition(".")
    yield f"## {audited.package} {audited.version}: {statement.name}"
    yield ""
    if ruling.refused:
        yield f"It is the layout of `{form}`, and there is no such instruction in PTX."
        yield f"Evidence: {ruling.refused}."
        yield from _since(audited, ruling)
        yield from ("", "Reproduction: assemble this with ptxas.", "", "```", *_refused_source(form), "```")
        return
    yield f"It is not the layout of operand {operand.upper()} of `{form}`: {ruling.words}."
    yield from (f"- {line}" for line in ruling.first)
    yield ""
    yield from _evidence(ruling)
    yield from _since(audited, ruling)
    program = reproduction(ruling)
    if program:
        lines = program.rstrip("\n").split("\n")
        yield from ("", "Reproduction, with the package alone:", "", "```python", *lines, "```")


def _since(audited: PackageAudit, ruling: Ruling) -> Iterator[str]:
    """Since which version it is so, if other versions were audited."""
    if audited.earlier:
        yield f"In the package: {audited.since(ruling)}."


def _evidence(ruling: Ruling) -> Iterator[str]:
    cell = ruling.cell
    assert cell is not None
    yield f"Evidence: on {cell.arch}, {cell.evidence}."
    if cell.measured is None:
        return
    if cell.measured.structure:
        count = cell.measured.structure.triples
        yield f"The multiply formed {count} products of slots: those that the table predicts, and no other."
    for verdict in verdicts(cell.fragment, cell.measured):
        if verdict.verdict == CONFIRMED:
            yield f"The same table: {verdict.reference}, {verdict.detail}."


def _refused_source(form: str) -> list[str]:
    from tcprobe.audit.no_form import example

    return example(form).rstrip("\n").split("\n")


def reproduction(ruling: Ruling) -> str:
    """A Python program that needs the package alone, and prints the slots that differ; "" if none can be made.

    The measured side is the closed form, which is proven over every slot.
    """
    statement, cell = ruling.statement, ruling.cell
    if cell is None or not statement.code:
        return ""
    formulas = {name: formula for name, formula in fitted(cell.table).formulas.items() if name in ("row", "col")}
    if None in formulas.values() or len(formulas) < 2:
        return ""
    rows, cols = cell.table.extent["row"], cell.table.extent["col"]
    step = 0 if statement.fragment.endswith(".b") else rows
    return PROGRAM.format(
        code=statement.code.rstrip("\n"),
        row=formulas["row"],
        col=formulas["col"],
        warp=cell.table.threads,
        step=step,
        elements=cell.table.elements,
        cols=cols,
        threads=statement.threads,
        count=statement.elements,
    )


PROGRAM = """\
{code}
def measured(thread, i):
    band, lane = divmod(thread, {warp})
    block, i = divmod(i, {elements})
    row, col = {row}, {col}
    return row + {step} * band, col + {cols} * block
slots = [(t, i) for t in range({threads}) for i in range({count}) if stated(t, i) is not None]
wrong = [(t, i, stated(t, i), measured(t, i)) for t, i in slots if tuple(stated(t, i)) != measured(t, i)]
print(f"{{len(wrong)}} of {{len(slots)}} slots differ")
for t, i, theirs, ours in wrong[:3]:
    print(f"thread {{t}} element {{i}}: stated {{theirs}}, measured {{ours}}")
"""
