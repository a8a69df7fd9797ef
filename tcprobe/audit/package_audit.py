"""A package's layouts, judged: how many agree, what differs, and a report of each finding for its maintainers.

The package is asked in a process of its own (`child`), and its answer is not trusted.

Layouts are judged by the tables: slot by slot, and for multiplies by the structure tensor. Rows, columns and k of a
multiply are numbered by convention: layouts of A, B and D that differ from the table agree nevertheless if together
they predict the measured structure tensor. Differences are blamed on the fewest operands that explain them. A single
layout that differs by its numbering only is not covered, since its partners may differ alike.

A form of mma does not exist if ptxas refuses its shape or types on all archs that might have it, with the right number
of registers, and accepts another form of the same types written the same way.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from itertools import combinations
from pathlib import Path
from typing import Annotated

import msgspec

import tcprobe
from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, conventional, same_but_renumbered, verdicts
from tcprobe.ask.diagnose import FIRST
from tcprobe.audit.adapters import adapters
from tcprobe.audit.statement import MOST_BYTES, MOST_STATEMENTS, Statement
from tcprobe.code.templates import fill
from tcprobe.errors import DataError, EnvironmentUnfitError, TcprobeError, UsageError
from tcprobe.fit import fitted
from tcprobe.isa import inventory
from tcprobe.isa.arch import holder_name, own
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.layout.csv import read_csv
from tcprobe.layout.structure import agreement, predict
from tcprobe.layout.table import Table, slot_table
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.sass import toolchain
from tcprobe.sass.toolchain import Toolchain, attempt
from tcprobe.store import surveys
from tcprobe.store.cell import Cell, find, selection
from tcprobe.store.choose import Layers
from tcprobe.store.surveys import EarlierAudit, Since, StatedOtherwise, since
from tcprobe.system import files, worker
from tcprobe.system.children import HungError, Scratch, exit_code, one_line
from tcprobe.text import escaped
from tcprobe.values import Json

MOST_NAME, MOST_CODE = 200, 4_000
ABSENT = "No module named"
# runs `audit.child` of the tcprobe whose `__init__` is the first argument, beside which nothing of its folder is seen
ELSEWHERE = """
import importlib.util, runpy, sys
spec = importlib.util.spec_from_file_location("tcprobe", sys.argv.pop(1))
sys.modules["tcprobe"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["tcprobe"])
runpy.run_module("tcprobe.audit.child", run_name="__main__", alter_sys=True)
"""


def index_name(package: str) -> str:
    """The package's name as the index has it; UsageError if there is no adapter for it."""
    name = package.lower().replace("_", "-")
    for other in (name, f"apache-{name}", f"nvidia-{name}"):
        if other in adapters():
            return other
    raise UsageError(f"there is no adapter for {package}, only for {', '.join(adapters())}.")


def version(package: str) -> str | None:
    """The installed version, None if it is not installed."""
    try:
        return escaped(metadata.version(package))[:MOST_NAME]
    except metadata.PackageNotFoundError:
        return None


def ask(package: str, limit: float, python: Path | None = None) -> tuple[str, list[Statement]]:
    """(version, all statements) of a package, as this Python or another one, `python`, imports it.

    EnvironmentUnfitError if it does not run within `limit` seconds and the bounds of `audit.child`; DataError if the
    answer is not a list of statements.
    """
    module, _ = adapters()[package]
    with Scratch() as scratch:
        answer_file, version_file = scratch.folder / "answer.json", scratch.folder / "version"
        words = (module, str(int(limit) + 1), str(answer_file), str(version_file))
        if python is None:
            command = worker.command("tcprobe.audit.child", *words)
        else:  # it uses this tcprobe, and all else from its own environment
            command = (str(python.absolute()), "-c", ELSEWHERE, str(Path(tcprobe.__file__)), *words)
        try:
            completed = scratch.call(command, limit)
        except HungError as error:
            raise EnvironmentUnfitError(f"{package} {error}; raise `limit`.") from None
        if exit_code(completed.returncode):
            last = one_line(completed.stderr.strip().rpartition("\n")[2]) or f"exit {completed.returncode}"
            lacks = f" It needs: {python} -m pip install {package} msgspec." if python and ABSENT in last else ""
            raise EnvironmentUnfitError(f"{package} cannot be read: {last}.{lacks}")
        raw, version_text = files.read(answer_file, MOST_BYTES), files.read(version_file, MOST_NAME)
    if raw is None or version_text is None:
        raise DataError(f"{package} gave no answer.")
    return escaped(version_text.decode(errors="replace")), _decode(package, raw)


def _decode(package: str, raw: bytes) -> list[Statement]:
    try:
        statements = msgspec.json.decode(raw, type=list[Statement])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{package} gives something other than layouts: {one_line(str(error))}.") from None
    if len(statements) > MOST_STATEMENTS:
        raise DataError(f"{package} states more than {MOST_STATEMENTS} layouts.")
    for statement in statements:
        texts = (statement.name, statement.fragment, statement.atom, statement.reason)
        if not statement.name or not all(text.isprintable() and len(text) <= MOST_NAME for text in texts):
            raise DataError(f"{package} gives a layout an invalid name: {one_line(statement.name[:MOST_NAME])!r}.")
        if len(statement.code) > MOST_CODE or not all(line.isprintable() for line in statement.code.split("\n")):
            raise DataError(f"{package}: the code that reproduces {one_line(statement.name)} cannot be printed.")
    return statements


_FORM = re.compile(r"mma(\.sp)?\.m16n8k([0-9]{1,3})\.row\.col\.(f16|f32)\.(e4m3|e5m2)\.\4\.\3")
# ptxas's words where no target has such a form: about the shape and its types, not about a target or a version
_NEVER = re.compile(r"Incorrect instruction type specified for mma with shape|Illegal shape|not a valid shape", re.I)
KIND = ".kind::f8f6f4"
TEXT = """\
.version {version}
.target {target}
.address_size 64
.visible .entry k() {{
  .reg .b32 %a<{a}>, %b<{b}>, %e;
  .reg .{cd} %c<{d}>, %d<{d}>;
  {form} {{{d_list}}}, {{{a_list}}}, {{{b_list}}}, {{{c_list}}}{metadata};
  ret;
}}
"""


@cache
def refusal(form: str) -> str | None:
    """ptxas's words for a form that no arch has; None if it may exist, or ptxas cannot be asked."""
    match = _FORM.fullmatch(form)
    if not match or inventory.instructions().get(form):
        return None
    try:
        tools = toolchain.find()
        targets = [own(row, f"{row.name}{'a' if row.number >= 90 else ''}") for row in tools.archs if row.number >= 89]
        words = {_first_error(tools, text(match, target, kind), target) for target in targets for kind in ("", KIND)}
    except TcprobeError:
        return None
    if not targets or "" in words or not all(_NEVER.search(line) for line in words):
        return None
    return f"ptxas {tools.ptxas_version} refuses it for {', '.join(targets)}: {min(words)}"


def text(match: re.Match[str], target: str, kind: str, version: str = "8.7") -> str:
    """A kernel with this instruction alone."""
    sparse, k, out, _ = match.groups()
    bits = 8 * int(k) // 32 // 4  # registers of B: 8 columns of k bytes, over 32 lanes
    a, b, d = (bits if sparse else 2 * bits), bits, 4 if out == "f32" else 2
    name = "mma.sp::ordered_metadata" if sparse else "mma"
    types = ".".join((out, match[4], match[4], out))
    lists = {f"{p}_list": ", ".join(f"%{p}{j}" for j in range(n)) for p, n in (("a", a), ("b", b), ("c", d), ("d", d))}
    return TEXT.format(
        version=version,
        target=target,
        a=a,
        b=b,
        d=d,
        cd="f32" if out == "f32" else "b32",
        **lists,
        form=f"{name}.sync.aligned.m16n8k{k}.row.col{kind}.{types}",
        metadata=", %e, 0x0" if sparse else "",
    )


def example(form: str) -> str:
    """A kernel for sm_120a with a form that `refusal` refuses."""
    match = _FORM.fullmatch(form)
    assert match is not None
    return text(match, "sm_120a", KIND)


def _first_error(tools: Toolchain, source: str, target: str) -> str:
    """ptxas's first error, "" if it accepts the text."""
    with Scratch() as scratch:
        path = scratch.folder / "form.ptx"
        path.write_text(source)
        completed = attempt(
            scratch, [tools.ptxas, "-arch", target, str(path), "-o", str(scratch.folder / "o")], tools.limit
        )
    if completed.returncode == 0:
        return ""
    return completed.stderr.partition("error")[2].partition("\n")[0].strip(" :") or "no reason"


class RulingAnswer(Answer):
    """A layout that a package states, against the table: so many of its slots differ."""

    name: str
    fragment: str | None
    verdict: Annotated[str, Meta(extra_json_schema={"enum": [CONFIRMED, DIFFERS, NOT_COVERED]})]
    differ: int
    of_: int
    words: str
    first: tuple[str, ...]
    arch: str | None
    layout_id: str | None
    evidence: str | None


class DifferingLayout(RulingAnswer):
    """A layout that differs: since which version, what was before, whether it is reported, and a report."""

    since: str
    before: str | None
    reported: str
    report: str


class AuditAnswer(Answer):
    """What a package states against the tables, one object a package."""

    package: str
    version_: str
    agree: int
    differ: int
    of_: int
    not_covered: int
    findings: list[DifferingLayout]
    layouts: list[RulingAnswer]


@dataclass(frozen=True)
class Ruling:
    """`differ` of `compared` slots are stated otherwise, `first` shows some; `cell` is the table that counts, if any.

    `refused` has ptxas's words if there is no such form; `proven`: the other operands of the multiply were judged too.
    """

    statement: Statement
    verdict: str
    words: str
    differ: int = 0
    compared: int = 0
    first: tuple[str, ...] = ()
    cell: Cell | None = None
    refused: str = ""
    proven: bool = False

    @property
    def answer(self) -> RulingAnswer:
        """What `--json` prints of it."""
        statement, cell = self.statement, self.cell
        return RulingAnswer.of(
            self,
            name=statement.name,
            fragment=statement.fragment or None,
            of_=self.compared,
            arch=cell.arch if cell else None,
            layout_id=cell.table.id if cell else None,
            evidence=cell.evidence if cell else self.refused or None,
        )

    def to_json(self) -> Json:
        return plain(self.answer)


def judge_statements(statements: Sequence[Statement], layers: Layers) -> list[Ruling]:
    """A ruling for each statement, in order."""
    rulings = [_judge_alone(statement, layers) for statement in statements]
    by_atom: defaultdict[str, list[int]] = defaultdict(list)
    for number, statement in enumerate(statements):
        if statement.atom:
            by_atom[statement.atom].append(number)
    for numbers in by_atom.values():
        for number, ruling in zip(numbers, _judge_multiply([rulings[n] for n in numbers]), strict=True):
            rulings[number] = ruling
    return [_without_conventions(ruling) for ruling in rulings]


def _judge_alone(statement: Statement, layers: Layers) -> Ruling:
    """The ruling on a statement alone, slot by slot."""
    if statement.reason:
        return Ruling(statement, NOT_COVERED, statement.reason)
    fragment = inventory.find(statement.fragment)
    if fragment is None:
        absent = Ruling(statement, NOT_COVERED, "tcprobe has no such fragment")
        if refused := refusal(statement.fragment.rpartition(".")[0]):
            slots = sum(place is not None for place in statement.cells)
            absent = Ruling(statement, DIFFERS, "there is no such instruction", slots, slots, refused=refused)
        return absent
    try:
        cell = find(fragment, statement.arch or None, layers)
        if cell is None:
            return Ruling(statement, NOT_COVERED, "nobody measured it")
        cell = selection(cell, statement.selector)
        ours, theirs = expected_table(cell.table, statement), statement.table
    except (DataError, UsageError) as error:
        return Ruling(statement, NOT_COVERED, str(error))
    if (theirs.threads, theirs.elements) != (ours.threads, ours.elements):
        words = f"it has {theirs.threads} x {theirs.elements} slots, the fragment {ours.threads} x {ours.elements}"
        return Ruling(statement, NOT_COVERED, words, cell=cell)
    return _judge_by_slot(statement, cell, theirs, ours)


def _judge_by_slot(statement: Statement, cell: Cell, theirs: Table, ours: Table) -> Ruling:
    measured = [place and place[:2] for place in ours.cells]
    partly = None in theirs.cells and statement.selector is None and len(set(theirs.held)) > 1
    wrong = [
        slot
        for slot, claimed in enumerate(theirs.cells)
        if claimed != measured[slot] and not (partly and claimed is None)
    ]
    compared = sum(claimed is not None for claimed in theirs.cells)
    if not wrong:
        return Ruling(statement, CONFIRMED, f"{compared} of {compared} slots agree", 0, compared, cell=cell)
    first = tuple(
        f"{holder_name(slot // theirs.elements, theirs.threads)} i {slot % theirs.elements}: "
        f"stated {_place_words(theirs.cells[slot])}, measured {_place_words(measured[slot])}"
        for slot in wrong[:FIRST]
    )
    outside = sum(
        place is not None and any(at >= ours.extent[name] for at, name in zip(place, ("row", "col"), strict=True))
        for place in theirs.cells
    )
    words = f"{len(wrong)} of {compared} slots differ"
    words += f", {outside} of {compared} outside the matrix" if outside else ""
    return Ruling(statement, DIFFERS, words, len(wrong), compared, first, cell)


def _place_words(place: tuple[int, ...] | None) -> str:
    return "nothing" if place is None else str(list(place[:2]))


def expected_table(table: Table, statement: Statement) -> Table:
    """The table of several warps with a band of rows each (of B all the same), and of multiplies side by side in n."""
    if statement.bands == statement.across == 1:
        return table
    if not (0 < statement.bands <= 4 and 0 < statement.across <= 64):
        raise DataError(f"{statement.name}: {statement.bands} bands and {statement.across} multiplies side by side.")
    cols = table.extent["col"]
    step = 0 if statement.fragment.endswith(".b") else table.extent["row"]
    places: list[tuple[int, int]] = []
    for band in range(statement.bands):
        for thread in range(table.threads):
            own = table.cells[thread * table.elements :][: table.elements]
            for block in range(statement.across):
                places += [(place[0] + band * step, place[1] + block * cols) for place in own if place is not None]
    values = {"row": tuple(row for row, _ in places), "col": tuple(col for _, col in places)}
    return slot_table(statement.bands * table.threads, statement.across * table.elements, values)


def _judge_multiply(rulings: Sequence[Ruling]) -> list[Ruling]:
    """The rulings on one multiply: operands agree if together they predict the measured structure tensor."""
    if rulings[0].refused:
        return [rulings[0], *(replace(r, verdict=NOT_COVERED, differ=0, compared=0) for r in rulings[1:])]
    by_name = {r.statement.fragment.rpartition(".")[2]: r for r in rulings if r.cell}
    differing = [operand for operand, ruling in by_name.items() if ruling.verdict == DIFFERS]
    if not differing or not set(MULTIPLIED) <= set(by_name) or not all(map(_is_whole_multiply, by_name.values())):
        return list(rulings)
    guilty = _fewest_guilty(by_name, differing)
    cleared = [operand for operand in differing if operand not in guilty]
    words = "rows, columns or k are numbered differently; the structure tensor is the measured one"
    innocent = {
        id(by_name[operand]): replace(by_name[operand], verdict=CONFIRMED, words=words, differ=0, first=())
        for operand in cleared
    }
    return [innocent.get(id(ruling), replace(ruling, proven=True)) for ruling in rulings]


def _is_whole_multiply(ruling: Ruling) -> bool:
    statement = ruling.statement
    return statement.bands == statement.across == 1 and None not in statement.cells


def _fewest_guilty(by_operand: Mapping[str, Ruling], differing: Sequence[str]) -> Sequence[str]:
    """The fewest operands that must be replaced by the measured tables to predict the measured structure tensor."""
    row = inventory.instructions()[inventory.fragment(by_operand["a"].statement.fragment).experiment]
    measured = {operand: cell.table for operand in MULTIPLIED if (cell := by_operand[operand].cell)}
    for count in range(len(differing)):
        for blamed in combinations(differing, count):
            tables = {o: measured[o] if o in blamed else by_operand[o].statement.table for o in MULTIPLIED}
            if agreement(row, predict(row, measured), tables).total:
                return blamed
    return differing


def _without_conventions(ruling: Ruling) -> Ruling:
    """The ruling; not covered if only a numbering without anchor differs, or the table is documented, not measured."""
    if ruling.verdict != DIFFERS or ruling.cell is None:
        return ruling
    words = ""
    if ruling.cell.measured is None:
        words = f"{ruling.words}, but the table is documented only"
    elif conventional(ruling.cell.fragment) and not ruling.proven:
        statement = ruling.statement
        if same_but_renumbered(statement.table, expected_table(ruling.cell.table, statement)):
            words = f"{ruling.words}: rows, columns or k are numbered differently, and those of its partners may be too"
    return replace(ruling, verdict=NOT_COVERED, words=words, differ=0, first=()) if words else ruling


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
        return [ruling for ruling in self.rulings if ruling.verdict == DIFFERS]

    def to_json(self) -> Json:
        """Plain data: `differ` of `of` layouts differ; in `findings` and `layouts` of so many slots."""
        agree, differ = self.count(CONFIRMED), self.count(DIFFERS)
        answer = AuditAnswer(
            self.package,
            self.version,
            agree,
            differ,
            agree + differ,
            self.count(NOT_COVERED),
            [self._finding(ruling) for ruling in self.findings],
            [ruling.answer for ruling in self.rulings],
        )
        return plain(answer)

    def since(self, ruling: Ruling) -> Since:
        """Since which version a layout differs."""
        name, fragment = ruling.statement.name, ruling.statement.fragment
        return since(StatedOtherwise(name, fragment, ruling.differ, ruling.compared), self.version, self.earlier)

    def _finding(self, ruling: Ruling) -> DifferingLayout:
        since = self.since(ruling)
        return DifferingLayout.of(
            ruling.answer,
            since=since.version,
            before=since.before,
            reported=known_report(self.package, ruling),
            report=report(self, ruling),
        )

    @property
    def reasons(self) -> Counter[str]:
        """Why layouts are not covered, and how many."""
        return Counter(ruling.words for ruling in self.rulings if ruling.verdict == NOT_COVERED)


def audit(package: str, layers: Layers, limit: float, python: Path | None = None) -> PackageAudit:
    """Judge the layouts of an installed package; errors as `ask_package.ask`."""
    version, statements = ask(package, limit, python)
    entries = next((listed for layer in layers.layers if (listed := surveys.load_audits(layer.results.root))), [])
    rulings = tuple(judge_statements(statements, layers))
    return PackageAudit(package, version, rulings, tuple(surveys.before(entries, package, version)))


def audit_files(path: Path, layers: Layers) -> PackageAudit:
    """Judge CSV tables, of a folder or a single one: FRAGMENT.csv, or FRAGMENT,sm_XX.csv."""
    paths = sorted(path.glob("*.csv")) if path.is_dir() else [path]
    if not paths:
        raise DataError(f"{path} has no .csv files.")
    rulings = judge_statements([_statement_of_file(file) for file in paths], layers)
    return PackageAudit(escaped(path.name), "files", tuple(rulings))


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
    form, _, operand = ruling.statement.fragment.rpartition(".")
    measured = ruling.cell and ruling.cell.measured
    claims = verdicts(ruling.cell.fragment, measured) if ruling.cell and measured else ()
    return fill(
        Path(__file__).with_name("report.md"),
        audited=audited,
        ruling=ruling,
        form=form,
        operand=operand,
        structure=measured and measured.structure,
        confirmed=[verdict for verdict in claims if verdict.verdict == CONFIRMED],
        source=(example(form) if ruling.refused else reproduction(ruling)).rstrip("\n"),
    )


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
