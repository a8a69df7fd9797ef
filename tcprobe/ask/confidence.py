"""How sure an answer is, in a word and in numbers: methods, kinds of GPU, compilers, and what references say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args

from tcprobe.isa import inventory
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.store.cell import Cell
from tcprobe.store.finding import FROM_CODE, AnyFinding, Sourced, witness
from tcprobe.values import Json

Word = Literal["contradicted", "documented only", "single", "good", "strong"]
ORDER: tuple[Word, ...] = get_args(Word)  # the least sure first


class ConfidenceAnswer(Answer):
    """How sure the answer is: a word, and how many speak for it or against it."""

    word: Word
    methods: int
    devices: int
    compilers: int
    otherwise: int
    confirmed: int
    differing: int


class WhyAnswer(Answer):
    """With --why."""

    confidence: ConfidenceAnswer
    chain: dict[str, str]


Status = Literal["measured", "published", "contradicted"]  # of an answer that devices are asked for


class DeviceRun(Answer):
    """What a device found."""

    device: str
    value: dict[str, Any]


SaidRuns = Annotated[
    list[DeviceRun],
    Meta(description="What each device found, there if they disagree; `value` has the answer's keys."),
]


class Confidence(NamedTuple):
    """How many measurements of the arch found a thing and how many another, and how many references say which."""

    methods: int
    devices: int
    compilers: int
    otherwise: int
    confirmed: int
    differing: int

    @property
    def word(self) -> Word:
        """What the numbers amount to."""
        if self.otherwise:
            return "contradicted"
        if not self.methods:
            return "documented only"
        independent = self.devices + self.compilers + self.confirmed
        return "strong" if self.devices and independent > 2 else "good" if independent > 1 else "single"

    def __str__(self) -> str:
        alike = [
            (self.methods, "method", "methods"),
            (self.devices, "kind of GPU", "kinds of GPU"),
            (self.compilers, "compiler", "compilers"),
        ]
        others = [
            (self.otherwise, "other measurement contradicts it", "other measurements contradict it"),
            (self.confirmed, "reference agrees", "references agree"),
            (self.differing, "reference differs", "references differ"),
        ]
        found, said = ([f"{n} {one if n == 1 else many}" for n, one, many in counts if n] for counts in (alike, others))
        return "; ".join([f"{self.word}: {', '.join(found)}" if found else self.word, *said])

    @property
    def answer(self) -> ConfidenceAnswer:
        """What `--json` prints of it."""
        return ConfidenceAnswer.of(self)

    def to_json(self) -> Json:
        return plain(self.answer)


UNMEASURED = Confidence(0, 0, 0, 0, 0, 0)


def in_rules(sourced: Sequence[Sourced], alike: int, of_all: int) -> Confidence:
    """In rules that follow from findings of an arch; `alike` of `of_all` rules are as a reference states them."""
    of_arch = [finding for one in sourced for finding in one.alike or (one.finding,)]
    otherwise = sum(len(one.otherwise) for one in sourced)
    said = (1, 0) if alike == of_all else (0, 1)
    makers = (
        len({one.method for one in of_arch}),
        len(witnesses(of_arch, live=True)),
        len(witnesses(of_arch, live=False)),
    )
    return Confidence(*makers, otherwise, *said) if of_arch else UNMEASURED


def in_finding(sourced: Sourced, confirmed: int = 0, differing: int = 0) -> Confidence:
    """In a finding that counts; so many references state the same, and so many something else."""
    alike = sourced.alike or (sourced.finding,)
    makers = (len({one.method for one in alike}), len(witnesses(alike, live=True)), len(witnesses(alike, live=False)))
    return Confidence(*makers, len(sourced.otherwise), confirmed, differing)


def line(sure: Confidence) -> str:
    """For the end of an answer."""
    return f"confidence: {sure}"


def witnesses(alike: Iterable[AnyFinding], live: bool) -> set[str]:
    """Kinds of GPU of live findings, or compilers of those from code."""
    return {witness(m) for m in alike if (m.method not in FROM_CODE) == live}


def confidence(cell: Cell) -> Confidence:
    """In a table: counted over all measurements of the arch that the folders have.

    In the instruction's own, where the cell has a part of its fragment, or the same registers as other elements.
    """
    if cell.measured is None:
        return UNMEASURED
    from tcprobe.ask.compare import CONFIRMED, DIFFERS, verdicts

    fragment = inventory.find(cell.judged.id) or cell.judged
    whole = cell.measured.tables[fragment.operand]
    found = list(cell.layers.tables(fragment, [cell.arch]))
    alike = [one.measured for one in found if one.table(fragment) == whole]
    said = Counter(verdict.verdict for verdict in verdicts(fragment, cell.measured))
    return Confidence(
        len({m.method for m in alike}),
        len(witnesses(alike, live=True)),
        len(witnesses(alike, live=False)),
        len(found) - len(alike),
        said[CONFIRMED],
        said[DIFFERS],
    )


def least(cells: Iterable[Cell]) -> Confidence:
    """In what rests on several tables: that in the one which the least speaks for."""
    return least_sure(map(confidence, cells))


def least_sure(confidences: Iterable[Confidence]) -> Confidence:
    """Of several, that for which the least speaks."""
    return min(confidences, key=lambda one: (ORDER.index(one.word), sum(one[:3])))


RAN = {
    "live": "the driver's compiler or ptxas assembled it, and the GPU ran it",
    "sass": "ptxas compiled it, and its machine code was followed instruction by instruction, without a GPU",
    "derived": "ptxas compiled the multiply to a machine instruction whose layout is known on this arch",
    "same-opcode": "ptxas compiled it to a machine instruction whose layout is known on another arch",
    "emulated": "an emulator ran it: this is a test",
}
ASSUMED = {
    "live": "a kernel does the same each time it runs: PTX fixes layouts by the form and the arch",
    "sass": "each machine instruction does what its model says; tests run every model beside a GPU",
    "derived": "the machine instruction has one layout wherever it appears in code of the arch",
    "same-opcode": "archs that encode a machine instruction alike give it the same layout: weaker, because it was "
    "not seen here",
    "emulated": "the emulator is the hardware",
}
WRONG = {
    "live": "`tcprobe run --method live --force` on such a GPU writes another table, or `tcprobe verify` fails there",
    "sass": "`tcprobe run --method live` on a GPU of this arch writes another table",
    "derived": "`tcprobe run --method live` on a GPU of this arch writes another table",
    "same-opcode": "`tcprobe run --method live` on a GPU of this arch writes another table",
    "emulated": "any GPU contradicts it",
}


class Why(NamedTuple):
    """`links` are (link, words), from the probe on; `confidence` is how sure they make a table."""

    links: list[tuple[str, str]]
    confidence: Confidence

    @property
    def lines(self) -> list[str]:
        """For `show --why`."""
        return [f"confidence: {self.confidence}", *(f"{link}: {words}" for link, words in self.links)]

    @property
    def answer(self) -> WhyAnswer:
        """What `--json` prints of it: `chain` is by link."""
        return WhyAnswer(self.confidence.answer, dict(self.links))

    def to_json(self) -> Json:
        return plain(self.answer)


def why(cell: Cell) -> Why:
    """What a table rests on, and how sure it is."""
    return Why(chain(cell), confidence(cell))


def chain(cell: Cell) -> list[tuple[str, str]]:
    """(link, words), from the probe on."""
    measured = cell.measured
    if measured is None:
        return [
            ("probe", "none: nobody measured it on this arch"),
            ("source", cell.evidence),
            ("wrong if", "a measurement on a GPU of this arch writes another table"),
        ]
    made, structure = measured.provenance, measured.structure
    checked = f"; it formed {structure.triples} products, just those that the table predicts" if structure else ""
    return [
        ("probe", f"{measured.experiment}, PTX text {made['ptx'][:12]}{checked}"),
        ("code", f"{RAN[measured.method]} ({made['compiler']}; {made['device']})"),
        ("anchor", _anchor(cell)),
        ("assumption", ASSUMED[measured.method]),
        ("wrong if", WRONG[measured.method]),
    ]


def _anchor(cell: Cell) -> str:
    row = inventory.instructions().get(cell.fragment.experiment)
    if row is not None and row.conventional:
        return (
            f"rows, columns and k have the numbers of {cell.numbering}; which slots meet is measured, numbers are not"
        )
    return f"numbers from {cell.numbering}: a place in memory, or an index, fixes each element"
