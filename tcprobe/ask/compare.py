"""Compare measured tables with what others published.

wmma, ldmatrix and stmatrix are compared slot by slot: their numbers are memory addresses. For mma the structure tensor
that the reference's layouts predict is compared with the measured one, triple by triple: row, column and k numbers
are a convention, so only which slots meet can be confirmed; of movmatrix only which slot goes where.

A reference's known errors are compared as printed, and their verdict carries the erratum.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import click

from tcprobe.ask.diagnose import FIRST, WORDS
from tcprobe.ask.operand import SelectorOption
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import holder_name
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import select
from tcprobe.isa.operand import ACCUMULATORS, MULTIPLIED, OF_WARPGROUP, Role
from tcprobe.layout.table import Table, Tables
from tcprobe.notation import is_written
from tcprobe.question import terminal
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.question.arguments import ArchName, Sizes, arch_name, checked, given_names
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.shared import ArchOption, JsonOption, OnlyOption, ResultsOption, TileOption, find_cell, tiled_name
from tcprobe.question.terminal import BAD, DOUBT, GOOD, LESS, Style, Styled, bold
from tcprobe.references import Claim, Reference, claim_of, references
from tcprobe.store.cell import Cell
from tcprobe.store.choose import Found, Layers, archs_of, layers
from tcprobe.store.finding import Measurement, source_words
from tcprobe.text import Whole, escaped
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.cost import StatedNumber

CONFIRMED, DIFFERS, NOT_COVERED = "confirmed", "differs", "not covered"


class VerdictAnswer(Answer):
    """What one reference says of a fragment; `erratum` where the source is known to err there."""

    name: str
    verdict: str
    detail: str
    erratum: str | UnsetType = UNSET


class Verdict(NamedTuple):
    """What comparing one fragment with one reference gave; `erratum` where the source is known to err there."""

    reference: str
    verdict: str
    detail: str
    erratum: str | None = None

    @property
    def unexplained(self) -> bool:
        """A difference that is not a stated erratum."""
        return self.verdict == DIFFERS and self.erratum is None

    @property
    def answer(self) -> VerdictAnswer:
        """What `--json` prints of it."""
        return VerdictAnswer.of(self, name=self.reference, erratum=self.erratum or UNSET)

    def to_json(self) -> dict[str, str]:
        return plain(self.answer)


STYLE: dict[str, Style] = {
    CONFIRMED: GOOD,
    DIFFERS: BAD,
    NOT_COVERED: LESS,
    "measured": GOOD,
    "refused": DOUBT,
    "failed": BAD,
}


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """What a reference says of a table, and why it is known to be wrong where it is."""
    words = f"{verdict.verdict} ({verdict.detail})"
    yield Styled(f"{verdict.reference}: {words}", verdict.verdict, **STYLE[verdict.verdict])
    if verdict.erratum:
        yield f"  stated erratum: {verdict.erratum}"


def verdicts(fragment: Fragment, measured: Measurement) -> list[Verdict]:
    """One verdict per reference, for a fragment whose table `measured` holds."""
    return [_verdict(reference, fragment, measured) for reference in references()]


def findings(reference: Reference) -> Iterator[tuple[str, str, str]]:
    """(fragments, where, words) of the errors of a source that show in no layout."""
    for erratum in reference.ERRATA:
        yield erratum.pattern, erratum.where, erratum.words


def same_slots(stated: Table, measured: Table) -> tuple[int, int, list[str]]:
    """How many of the slots that `stated` gives agree, of how many, and which differ; DataError if shapes differ."""
    if not set(stated.outputs) <= set(measured.outputs):
        raise DataError(WORDS["outputs"].format(", ".join(stated.outputs), ", ".join(measured.outputs)))
    if stated.threads > measured.threads or stated.elements > measured.elements:
        sizes = stated.threads, stated.elements, measured.threads, measured.elements
        raise DataError(WORDS["size"].format(*sizes))
    if stated == measured:
        given = sum(cell is not None for cell in stated.cells)
        return given, given, []
    wrong, given = [], 0
    for slot, cell in enumerate(stated.cells):
        if cell is not None:
            given += 1
            lane, i = divmod(slot, stated.elements)
            at = measured.at(lane=lane, i=i)
            held = None if at is None else tuple(at[name] for name in stated.outputs)
            if held != cell:
                truth = list(held) if held else "unused"
                wrong.append(WORDS["differs"].format(_slot(measured, lane, i), list(cell), truth))
    return given - len(wrong), given, wrong[:FIRST]


def _verdict(reference: Reference, fragment: Fragment, measured: Measurement) -> Verdict:
    claim = claim_of(reference, fragment, arch.BY_NAME[measured.arch])
    if isinstance(claim, str):
        return Verdict(reference.NAME, NOT_COVERED, claim + _elsewhere(reference, fragment, measured))
    row, table = inventory.instructions().get(fragment.experiment), measured.tables[fragment.operand]
    if (row and row.metadata) or fragment.role is Role.SCALE:
        # A sparse multiply: its index fields say which k a slot stands for, so the numbers themselves can be compared
        wrong = []
        if claim.printed != table:
            pairs = zip(table.space.all(), claim.printed.cells, table.cells, strict=True)
            wrong = [f"{point}: stated {theirs}, measured {ours}" for point, theirs, ours in pairs if theirs != ours]
        detail = f"{table.points - len(wrong)} of {table.points} slots agree"
        return _judge(reference, claim, detail, wrong[:FIRST])
    if row and row.conventional:
        return _by_structure(reference, claim, row, fragment, measured)
    agreed, given, wrong = same_slots(claim.printed, table)
    return _judge(reference, claim, f"{agreed} of {given} slots agree", [*wrong, *_more_slots(claim.printed, table)])


def _more_slots(stated: Table, measured: Table) -> list[str]:
    """The first slots that the source leaves unused, and the measurement does not: lanes whose address counts."""
    pairs = enumerate(zip(stated.cells, measured.cells, strict=True))
    extra = ((slot, ours) for slot, (theirs, ours) in pairs if theirs is None and ours is not None)
    return [
        f"{_slot(measured, *divmod(slot, measured.elements))}: stated unused, measured {list(cell)}"
        for slot, cell in extra
    ][:FIRST]


def _slot(table: Table, lane: int, i: int) -> str:
    return f"{holder_name(lane, table.threads)} i {i}"


def conventional(fragment: Fragment) -> bool:
    """Whether row, column and k numbers are a convention, and only which slots meet can be compared."""
    row = inventory.instructions().get(fragment.experiment)
    return row is not None and row.conventional


def _elsewhere(reference: Reference, fragment: Fragment, measured: Measurement) -> str:
    """For which other archs a reference that tells archs apart states the very layout measured here."""
    if not getattr(reference, "PER_ARCH", True):
        return ""
    table = measured.tables[fragment.operand]
    claims = [(a.name, claim_of(reference, fragment, a)) for a in arch.ARCHS]
    same = [name for name, claim in claims if isinstance(claim, Claim) and claim.printed.values == table.values]
    return f"; states this layout for {', '.join(same)}" if same else ""


def _judge(reference: Reference, claim: Claim, detail: str, wrong: list[str]) -> Verdict:
    text = "; ".join([f"{claim.where}: {detail}", *wrong])
    return Verdict(reference.NAME, DIFFERS if wrong else CONFIRMED, text, claim.erratum)


def _by_structure(
    reference: Reference, claim: Claim, instruction: Instruction, fragment: Fragment, measured: Measurement
) -> Verdict:
    device = arch.BY_NAME[measured.arch]
    compared = ACCUMULATORS if fragment.operand == "c" else MULTIPLIED if instruction.multiplies else OF_WARPGROUP
    claims = {f.operand: claim_of(reference, f, device) for f in instruction.fragments if f.operand in compared}
    meant = {operand: c.meant for operand, c in claims.items() if isinstance(c, Claim)}
    if len(meant) < len(claims):
        silent = next(operand for operand, c in claims.items() if not isinstance(c, Claim))
        return Verdict(reference.NAME, NOT_COVERED, f"{claim.where}: says nothing about operand {silent}")
    stated = meant | {fragment.operand: claim.printed}
    if "b" not in compared:
        words = f"{compared[0].upper()} slots reach the D slots stated"
        return _judge(reference, claim, words, _misfits(compared[0], stated, measured.tables))
    if all(stated[operand] == measured.tables[operand] for operand in MULTIPLIED):
        # the same layouts predict the same structure tensor
        count = instruction.shape.m * instruction.shape.n * instruction.shape.k * instruction.products
        return _judge(reference, claim, f"structure tensor, {count} of {count} triples agree", [])
    from tcprobe.layout.structure import agreement, predict

    counts = agreement(instruction, predict(instruction, measured.tables), stated)
    missing = [] if counts.total else [f"{counts.needed - counts.matched} predicted triples were not measured"]
    words = f"structure tensor, {counts.matched} of {counts.needed} triples agree"
    return _judge(reference, claim, words, list(counts.first) or missing)


def _misfits(source: str, stated: Tables, measured: Tables) -> list[str]:
    """The first slots of an operand whose element D does not hold where it is stated."""
    wrong: list[str] = []
    if all(stated[operand] == measured[operand] for operand in (source, "d")):
        return wrong
    for slot, (theirs, ours) in enumerate(zip(stated[source].cells, measured[source].cells, strict=True)):
        expected, actual = stated["d"].inverse.get(theirs or (), []), measured["d"].inverse.get(ours or (), [])
        if expected != actual:
            wrong.append(f"{source.upper()} slot {slot}: stated D slots {expected}, measured {actual}")
    return wrong[:FIRST]


# somebody's table against the measured one, and measurements of a fragment against each other
class Against(NamedTuple):
    """A stated table against a measured one: of `given` slots `agreed` agree, `not_stated` others are left out.

    `first` has the first that do not agree, in words; `renumbered` says that only rows or columns are numbered
    otherwise, which the hardware cannot tell apart (mma, movmatrix). `diagnosis` says what change makes all of it
    agree; `elsewhere` names fragments, "ID on ARCH", whose measured table it is; `holes` are the slots not stated.
    """

    agreed: int
    given: int
    not_stated: int
    first: list[str]
    renumbered: bool
    diagnosis: list[str]
    elsewhere: list[str]
    holes: list[str]


def against(stated: Table, fragment: Fragment, measured: Table, layers: Layers | None = None) -> Against:
    """Somebody's table of a fragment against the measured one; `layers` are searched for whose table it may be.

    DataError if their shapes differ, and nothing explains that.
    """
    from tcprobe.ask.diagnose import diagnose, holes

    words, elsewhere = diagnose(stated, fragment, measured), _whose(stated, fragment, layers) if layers else []
    try:
        agreed, given, wrong = same_slots(stated, measured)
    except DataError as error:
        if not words and not elsewhere:
            raise
        agreed, given, wrong = 0, sum(cell is not None for cell in stated.cells), [str(error)]
    renumbered = bool(wrong) and conventional(fragment) and same_but_renumbered(stated, measured)
    missing = max(0, measured.points - given)
    return Against(
        agreed, given, missing, wrong, renumbered, words, elsewhere if wrong else [], holes(stated, measured)
    )


def _whose(stated: Table, fragment: Fragment, layers: Layers) -> list[str]:
    """The fragments, and on which archs, that have the very table: the asked one elsewhere first, else others."""
    alike = [f"{fragment.id} on {name}" for name in layers.archs() if layers.layout(fragment, name) == stated.id]
    if alike:
        return alike
    fitting = [
        f for f in inventory.fragments().values() if (f.threads, f.elements) == (stated.threads, stated.elements)
    ]
    return [f"{f.id} on {name}" for f in fitting for name in layers.archs() if layers.layout(f, name) == stated.id][:4]


def same_but_renumbered(stated: Table, measured: Table) -> bool:
    """Whether the tables differ only by a renumbering of rows and of columns."""
    if (stated.threads, stated.elements, stated.outputs) != (measured.threads, measured.elements, measured.outputs):
        return False
    for name in stated.outputs:
        pairs = set(zip(stated.values[name], measured.values[name], strict=True))
        if len({a for a, _ in pairs}) != len(pairs) or len({b for _, b in pairs}) != len(pairs):
            return False
    return True


class Repetition(NamedTuple):
    """Whether two measurements of a fragment found the same table, each named by its method and where it is."""

    fragment: Fragment
    first: str
    other: str
    same: bool


def measurements_agree(layers: Layers, arch_name: str, patterns: Sequence[str] = ()) -> Iterator[Repetition]:
    """The table that counts against every other of the arch: of its other methods, and of folders below."""
    for fragment in select(*patterns):
        tables = list(layers.tables(fragment, [arch_name]))
        for other in tables[1:]:
            same = tables[0].table(fragment) == other.table(fragment)
            yield Repetition(fragment, _label(tables[0], layers), _label(other, layers), same)


def _label(chosen: Found, layers: Layers) -> str:
    return chosen.measured.method + (f" ({chosen.source})" if len(layers.layers) > 1 else "")


def measured_fragments(
    layers: Layers, arch_name: str, patterns: Sequence[str] = ()
) -> Iterator[tuple[Fragment, Found]]:
    """Fragments that `patterns` mean (all without one) with the measurements that count on an arch."""
    for fragment in select(*patterns):
        chosen = layers.choose(fragment, [arch_name])
        if chosen:
            yield fragment, chosen


# the question
class JudgedAnswer(Answer):
    """A verdict on one fragment, one object per line."""

    id: str
    arch: str
    method: str
    source: str
    name: str
    verdict: str
    detail: str
    erratum: str | UnsetType = UNSET


class ArchComparison(NamedTuple):
    """One arch's tables: how many there are, the verdicts on them, and how far measurements repeat one another."""

    arch: str
    tables: int
    judged: list[tuple[Fragment, Found, Verdict]]
    repeated: list[Repetition]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs that is not a stated erratum."""
        return not any(v.unexplained for _, _, v in self.judged) and all(a.same for a in self.repeated)

    def to_json(self) -> list[Json]:
        """Plain data, an object a verdict."""
        return [
            plain(JudgedAnswer.of(verdict.answer, id=fragment.id, arch=m.arch, method=m.method, source=at))
            for fragment, (m, at, _), verdict in self.judged
        ]

    def in_words(self, others: Iterable[tuple[str, str, str, str]]) -> Iterator[str]:
        """Counts by reference, where the tables are from, every difference, the known errors of the sources.

        `others` are errors that show in no layout: (reference, where, fragments, words).
        """
        yield from self._counts()
        sources = Counter({fragment.id: saved.source for fragment, saved, _ in self.judged}.values())
        yield "tables: " + ", ".join(f"{count} {source_words(source)}" for source, count in sources.items())
        for fragment, _, verdict in self.judged:
            if verdict.unexplained:
                yield Whole(bold(fragment.id))
                yield from verdict_lines(verdict)
        by_erratum: dict[tuple[str, str, str], list[str]] = {}
        for fragment, _, v in self.judged:
            if v.erratum:
                shown = by_erratum.setdefault((v.reference, v.detail.split(":")[0], v.erratum), [])
                shown += [fragment.id] if v.verdict == DIFFERS else []
        for (reference, where, words), ids in by_erratum.items():
            if ids:
                text = f"known erratum of {reference}, {where}: {words}: {', '.join(ids)}"
                yield Styled(text, "known erratum", **DOUBT)
        listed = [(reference, where, "", words) for reference, where, words in by_erratum] + list(others)
        if listed:
            yield Whole(bold("known errata of the sources"))
        for reference, where, pattern, words in listed:
            yield f"  {reference}, {where}{f' ({pattern})' if pattern else ''}: {words}"
        yield from self._repeated()

    def _counts(self) -> Iterator[str]:
        """How many verdicts of each kind a reference has: a table."""
        counts = Counter((v.reference, v.verdict) for _, _, v in self.judged)
        errata = Counter(v.reference for _, _, v in self.judged if v.verdict == DIFFERS and v.erratum)
        heads = (f"{self.arch}, against", CONFIRMED, "errata", DIFFERS, NOT_COVERED)
        names = list(dict.fromkeys(v.reference for _, _, v in self.judged))
        first = max(map(len, (heads[0], *names)))
        yield Whole(bold("  ".join((heads[0].ljust(first), *heads[1:]))))
        for name in names:
            of_kind = {"errata": errata[name], DIFFERS: counts[name, DIFFERS] - errata[name]}
            cells = (str(of_kind.get(kind, counts[name, kind])).rjust(len(kind)) for kind in heads[1:])
            yield Whole("  ".join((name.ljust(first), *cells)))

    def _repeated(self) -> Iterator[str]:
        """How far the measurements agree with each other."""
        counts = Counter((a.first, a.other, a.same) for a in self.repeated)
        for first, other in dict.fromkeys((a.first, a.other) for a in self.repeated):
            same, differ = counts[first, other, True], counts[first, other, False]
            yield f"{first} against {other}: {same} fragments have the same table, {differ} another"
        for a in self.repeated:
            if not a.same:
                differ_word = click.style("differ", **BAD)
                yield Whole(f"{bold(a.fragment.id)}: {a.first} and {a.other} {differ_word}")


class ReferenceComparison(NamedTuple):
    """Tables against what others published, arch by arch; of all tables if `whole`."""

    archs: list[ArchComparison]
    whole: bool

    @property
    def agrees(self) -> bool:
        """Whether nothing differs that is not a stated erratum."""
        return all(compared.agrees for compared in self.archs)

    def to_json(self) -> list[Json]:
        """Plain data, an object a verdict."""
        return [plain for compared in self.archs for plain in compared.to_json()]

    @property
    def in_words(self) -> Iterator[str]:
        """Each arch that has tables."""
        errata = [(r.NAME, where, names, words) for r in references() for names, where, words in findings(r)]
        for compared in self.archs:
            if compared.tables:
                yield from compared.in_words(errata if self.whole else [])


class FileAnswer(Answer):
    """Somebody's table against the measured one."""

    file: str
    id: str
    arch: str
    source: str
    evidence: str
    agreed: int
    given: int
    not_stated: int
    first: list[str]
    renumbered: bool
    diagnosis: list[str]
    elsewhere: list[str]
    holes: list[str]


class FileComparison(Against):
    """`Against`, of the `file` of a table and the `cell` that it is compared with; if `complete`, holes count too."""

    file: str
    cell: Cell
    complete: bool

    @property
    def agrees(self) -> bool:
        """Whether all that the file states is so."""
        return not self.first and not (self.complete and self.holes)

    def to_json(self) -> list[Json]:
        """Plain data, one object."""
        cell = self.cell
        return [
            plain(FileAnswer.of(self, id=cell.fragment.id, arch=cell.arch, source=cell.source, evidence=cell.evidence))
        ]

    @property
    def in_words(self) -> Iterator[str]:
        """How many slots agree, the first that do not, and what the file is compared with."""
        missing = WORDS["missing"].format(self.not_stated, "; ".join(self.holes[:4])) if self.not_stated else ""
        selector = "" if self.cell.selector is None else f", selector {self.cell.selector},"
        head = f"{escaped(self.file)} against {self.cell.fragment.id}{selector} on {self.cell.arch}"
        yield f"{head}: {WORDS['agree'].format(self.agreed, self.given)}{missing}"
        yield from (f"  {line}" for line in self.first)
        for words in self.diagnosis:
            yield Styled("  " + WORDS["diagnosis"].format(words), "  diagnosis: ", bold=True)
        if self.diagnosis:
            yield "  " + WORDS["cured"]
        if self.elsewhere:
            yield Styled("  " + WORDS["elsewhere"].format(", ".join(self.elsewhere)), "  this is: ", bold=True)
        if self.renumbered:
            yield "  " + WORDS["renumbered"]
        yield self.cell.evidence


class CostComparison(NamedTuple):
    """Measured costs beside what others state."""

    pairs: "list[StatedNumber]"

    @property
    def agrees(self) -> bool:
        """Whether all do."""
        return all(pair.agrees for pair in self.pairs)

    def to_json(self) -> list[Json]:
        """Plain data, an object a pair."""
        return [pair.to_json() for pair in self.pairs]

    @property
    def in_words(self) -> Iterator[str]:
        """A line a pair."""
        from tcprobe.ask.cost import AGREES

        for pair in self.pairs:
            verdict = "agrees" if pair.agrees else f"differs by more than {AGREES:.0%}: {pair.why}"
            text = f"{pair.id}: {pair.row.number} {pair.measured:g}, stated {pair.row.comparable:g} on "
            yield f"{text}{pair.row.device} ({pair.row.source}): {verdict}"


@checked
def compare(
    name: Annotated[
        str | Cell | Sequence[str] | None, NameWords("[FILE.csv] [FRAGMENT]...", "many", "list", False, False)
    ] = None,
    table: Path | None = None,
    arch: ArchOption = None,
    selector: SelectorOption = None,
    *,
    complete: Annotated[
        bool, Option("--complete", "With FILE: a slot that FILE leaves out counts as a difference.")
    ] = False,
    tile: TileOption = None,
    costs: Annotated[bool, Option("--cost", "Compare measured costs with what others state, in cycles.")] = False,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> list[Verdict] | ReferenceComparison | FileComparison | CostComparison:
    """Say where saved tables agree with what others published.

    `compare FILE FRAGMENT` checks your own table of lane,i,row,col (- is standard input), or, in place of FILE, a
    written layout over --tile. It says what is wrong as a whole: transposed, counted from 1, registers or lane bits
    exchanged, another arch's table. For metadata give the --selector. Exit code 1 if something differs that is not a
    known erratum.
    \f

    One `name` gives a verdict each of what others state of that fragment; several in a list, or none, give all
    fragments that they mean, arch by arch. `table` is a CSV file of lane,i,row,col, of metadata that of one `selector`.

    >>> import tcprobe
    >>> [(one.reference, one.verdict) for one in tcprobe.compare("mma m16n8k16 bf16 a")][:2]
    [('PTX ISA', 'confirmed'), ('CuTe', 'confirmed')]
    """
    folders = layers(results, only)
    layout, words = _layout_first(name, tile)
    if costs:
        if unfit := given_names(table=table, selector=selector, complete=complete or None):
            raise UsageError(f"`costs` compares no tables: remove {', '.join(unfit)}.")
        return _costs(name, arch, folders)
    if layout is not None and table is None:
        stated, other = find_cell(layout, arch, folders), find_cell(" ".join(words), arch, folders)
        return _compared(stated.table, stated.fragment.id, other, selector, complete, arch)
    if table is None and not isinstance(name, str | Cell) and name and _is_table(name[0]):
        if len(name) < 2:
            raise UsageError(f"`tcprobe compare {name[0]} FRAGMENT` needs a fragment.")
        table, name = Path(name[0]), " ".join(name[1:])
    if table is not None:
        if not isinstance(name, str | Cell):
            raise UsageError("`table` needs the `name` of its fragment.")
        return _with_file(table, find_cell(name, arch, folders), selector, complete, arch)
    _needs_file(selector, complete)
    if isinstance(name, str | Cell):
        cell = find_cell(name, arch, folders)
        return verdicts(cell.fragment, cell.measured) if cell.measured else []
    return _with_references(name or (), arch, folders)


def _needs_file(selector: int | None, complete: bool) -> None:
    if complete:
        raise UsageError("`complete` needs FILE.csv and its fragment.")
    if selector is not None:
        raise UsageError("`selector` needs FILE.csv and its fragment; without a file, all selectors are compared.")


def _layout_first(name: str | Cell | Sequence[str] | None, tile: Sizes | None) -> tuple[str | None, Sequence[str]]:
    """The layout's text that stands before a fragment, over its tile, None where none does; and the words after it."""
    if isinstance(name, str | Cell) or not name or not is_written(name[0]):
        if tile is not None:
            raise UsageError("`tile` needs a layout's text, before its fragment.")
        return None, ()
    if len(name) < 2:
        if tile is not None:
            raise UsageError("`tile` needs a fragment after the layout's text.")
        return None, ()
    return name[0] if tile is None else str(tiled_name(name[0], tile, None)), name[1:]


def _is_table(word: str) -> bool:
    return word.endswith((".csv", ".tsv")) or word == "-" or os.path.isfile(word)


def _costs(name: str | Cell | Sequence[str] | None, arch: ArchName | None, folders: Layers) -> CostComparison:
    """Costs beside what others state; UsageError where one of them is missing."""
    from tcprobe.ask.cost import costs, stated_numbers

    if isinstance(name, Cell):
        raise UsageError("`costs` are of instructions: give a `name`.")
    found = costs([name] if isinstance(name, str) else name or (), arch_name(arch), folders)
    if not any(one.status == "measured" for one in found):
        raise UsageError(
            f"no cost of these is measured on {found[0].arch}, to compare with what others state.", "no cost"
        )
    if pairs := stated_numbers(found):
        return CostComparison(pairs)
    raise UsageError("nobody has published these costs for this arch.")


def _with_file(table: Path, found: Cell, selector: int | None, complete: bool, arch: ArchName | None) -> FileComparison:
    """A CSV file beside what is measured of a fragment."""
    from tcprobe.layout.csv import read_csv

    return _compared(read_csv(table), str(table), found, selector, complete, arch)


def _compared(
    stated: Table, whose: str, found: Cell, selector: int | None, complete: bool, arch: ArchName | None
) -> FileComparison:
    """A stated table beside that of a fragment."""
    from tcprobe.store.cell import no_table, selection

    cell = selection(found, selector)
    if not cell.measured and not cell.in_cta(0):
        raise no_table(found.fragment, arch_name(arch), found.layers)
    answer = FileComparison(*against(stated, found.fragment, cell.table, found.layers))
    answer.file, answer.cell, answer.complete = whose, cell, complete
    return answer


def _with_references(patterns: Sequence[str], arch: ArchName | None, folders: Layers) -> ReferenceComparison:
    """All tables that patterns mean, arch by arch; UsageError where there are none."""
    archs, compared = archs_of(arch_name(arch), folders), []
    for each in archs:
        measured = list(measured_fragments(folders, each, patterns))
        judged = [(fragment, saved, v) for fragment, saved in measured for v in verdicts(fragment, saved.measured)]
        compared.append(ArchComparison(each, len(measured), judged, list(measurements_agree(folders, each, patterns))))
    if any(comparison.tables for comparison in compared):
        return ReferenceComparison(compared, not patterns)
    where = "" if arch in (None, "all") else f" on {archs[0]}"
    known = f"; measured: {', '.join(folders.archs())}" if folders.archs() else ". `tcprobe run` makes tables"
    raise UsageError(f"none of this is measured{where} in {folders.words}{known}.")


@command(
    compare,
    short="Where tables agree with what others published.",
    json={"": JudgedAnswer, "FILE": FileAnswer, "--cost": "tcprobe.ask.cost:StatedAnswer"},
)
def print_compare(found: ReferenceComparison | FileComparison | CostComparison, *, as_json: JsonOption = False) -> None:
    """Words or JSON, an object a line; the exit code says whether all agrees."""
    if as_json:
        for plain in found.to_json():
            click.echo(json.dumps(plain))
    else:
        terminal.lines(found.in_words)
    sys.exit(0 if found.agrees else 1)
