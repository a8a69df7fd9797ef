"""Compare measured tables with what others published.

wmma, ldmatrix and stmatrix are compared slot by slot: their numbers are memory addresses. For mma the structure tensor
that the reference's layouts predict is compared with the measured one, triple by triple: row, column and k numbers
are a convention, so only which slots meet can be confirmed; of movmatrix only which slot goes where.

A reference's known errors are compared as printed, and their verdict carries the erratum.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcprobe.ask.diagnosis import FIRST, WORDS
from tcprobe.errors import DataError
from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import holder_name
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import select
from tcprobe.isa.operand import ACCUMULATORS, MULTIPLIED, OF_WARPGROUP, Role
from tcprobe.layout.table import Table, Tables
from tcprobe.references import Claim, Reference, claim_of, references
from tcprobe.store.choose import Found, Layers
from tcprobe.store.measurement import Measurement

CONFIRMED, DIFFERS, NOT_COVERED = "confirmed", "differs", "not covered"


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

    def to_json(self) -> dict[str, str]:
        """Plain data."""
        plain = {"name": self.reference, "verdict": self.verdict, "detail": self.detail}
        return plain | ({"erratum": self.erratum} if self.erratum else {})


class _Subject(NamedTuple):
    """What references are compared with: a fragment, the measurement that has its table, and on which arch."""

    fragment: Fragment
    measured: Measurement
    device: arch.Arch


def verdicts(fragment: Fragment, measured: Measurement) -> list[Verdict]:
    """One verdict per reference, for a fragment whose table `measured` holds."""
    subject = _Subject(fragment, measured, arch.BY_NAME[measured.arch])
    return [_verdict(reference, subject) for reference in references()]


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


def _verdict(reference: Reference, subject: _Subject) -> Verdict:
    fragment, measured, device = subject
    claim = claim_of(reference, fragment, device)
    if isinstance(claim, str):
        return Verdict(reference.NAME, NOT_COVERED, claim + _elsewhere(reference, fragment, measured))
    if has_fixed_k(fragment) or fragment.role is Role.SCALE:
        return _by_number(reference, claim, measured.tables[fragment.operand])
    if conventional(fragment):
        return _by_structure(reference, claim, subject)
    table = measured.tables[fragment.operand]
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


def has_fixed_k(fragment: Fragment) -> bool:
    """Whether it belongs to a sparse multiply: index fields fix k, so its numbers are not a convention."""
    row = inventory.instructions().get(fragment.experiment)
    return row is not None and row.metadata is not None


def conventional(fragment: Fragment) -> bool:
    """Whether row, column and k numbers are a convention, and only which slots meet can be compared."""
    row = inventory.instructions().get(fragment.experiment)
    return row is not None and row.conventional


def _by_number(reference: Reference, claim: Claim, measured: Table) -> Verdict:
    """A sparse multiply: its index fields say which k a slot stands for, so the numbers themselves can be compared."""
    wrong = []
    if claim.printed != measured:
        pairs = zip(measured.space.all(), claim.printed.cells, measured.cells, strict=True)
        wrong = [f"{point}: stated {theirs}, measured {ours}" for point, theirs, ours in pairs if theirs != ours]
    detail = f"{measured.points - len(wrong)} of {measured.points} slots agree"
    return _judge(reference, claim, detail, wrong[:FIRST])


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


def _by_structure(reference: Reference, claim: Claim, subject: _Subject) -> Verdict:
    fragment, measured, device = subject
    instruction = inventory.instructions()[fragment.experiment]
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
    matched, needed, wrong = _agreement(instruction, stated, measured.tables)
    return _judge(reference, claim, f"structure tensor, {matched} of {needed} triples agree", list(wrong))


def _agreement(instruction: Instruction, stated: Tables, measured: Tables) -> tuple[int, int, tuple[str, ...]]:
    """(matched triples, predicted triples, the first that disagree)."""
    if all(stated[operand] == measured[operand] for operand in MULTIPLIED):
        count = instruction.shape.m * instruction.shape.n * instruction.shape.k * instruction.products
        return count, count, ()  # the same layouts predict the same structure tensor
    from tcprobe.layout.structure import agreement, predict

    counts = agreement(instruction, predict(instruction, measured), stated)
    missing = (f"{counts.needed - counts.matched} predicted triples were not measured",)
    return counts.matched, counts.needed, counts.first or (() if counts.total else missing)


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
    if (stated.threads, stated.elements, stated.outputs) != (
        measured.threads,
        measured.elements,
        measured.outputs,
    ):
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
