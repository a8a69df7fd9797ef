"""Finding: what one experiment concludes of one subject on one arch, with its evidence, in values and in words.

A finding that is tables of fragments, the kind "table", is a `Measurement`; every other kind is a module of
`store.kinds`, whose `Body` is the shape of what is found.

>>> from tcprobe.store.findings import published_finding
>>> finding = published_finding("banks", "sm_90", "ld.shared.b128")
>>> finding.method, finding.body.rule.phase, finding.body.misfits
('live', 8, 0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from tcprobe.errors import DataError, NoMajorityError
from tcprobe.layout.table import StructureHash, Tables
from tcprobe.text import one_line
from tcprobe.values import Json

FROM_CODE = ("sass", "derived", "same-opcode")  # methods that read machine code, the strongest first
WEAKER = "same-opcode"  # rests on what another arch shows
METHODS = ("live", *FROM_CODE, "emulated")
STATUSES = ("measured", "refused", "failed")
MAKER = ("device", "driver", "cuda", "compiler")  # what makes one run of measuring another
PROVENANCE = ("device", "driver", "cuda", "compiler", "ptx", "tcprobe")
PUBLISHED = "published"
TABLE = "table"
MEMORY = "memory addresses"  # what numbers rows and columns where a load or store does
ADDRESSES = "addresses behind descriptors"  # where factors in shared memory number them, as PTX counts there


def provenance_in(content: object) -> dict[str, str]:
    """The provenance that a file states; DataError unless it is an object of exactly PROVENANCE's keys and texts."""
    if (
        not isinstance(content, dict)
        or set(content) != set(PROVENANCE)
        or not all(isinstance(text, str) for text in content.values())
    ):
        raise DataError(f"provenance needs the keys {', '.join(PROVENANCE)}, each with a text.")
    return content


def made_by(finding: AnyFinding) -> tuple[str, ...]:
    """The device, driver, CUDA version and compiler that a finding rests on."""
    return tuple(finding.provenance[key] for key in MAKER)


def witness(finding: AnyFinding) -> str:
    """What counts once, however often it reports: a kind of GPU, or a compiler where code was read."""
    return finding.provenance["device" if finding.method not in FROM_CODE else "compiler"]


def makers(findings: Iterable[AnyFinding]) -> str:
    """How findings were made, in words, each way once."""
    return " and ".join(dict.fromkeys(how(finding) for finding in findings))


def how(finding: AnyFinding) -> str:
    """The method and what it was done with, in words."""
    made = finding.provenance
    if finding.method in FROM_CODE:
        weaker = " (weaker: the layout that another arch has for the opcode)" if finding.method == WEAKER else ""
        return f"{finding.method}{weaker}, from machine code by {made['compiler']}"
    return f"{finding.method} on {made['device']}, driver {made['driver']}, CUDA {made['cuda']}"


def source_words(source: str) -> str:
    """Where a table comes from, in words: "published", or "from FOLDER"."""
    return source if source == PUBLISHED else f"from {source}"


Status = Literal["measured", "refused", "failed"]


class Key(NamedTuple):
    """What a finding is the finding of."""

    kind: str
    arch: str
    method: str
    subject: str


class AnyFinding(Protocol):
    """What findings of all kinds say: of what they are, what came of it, and what they rest on."""

    @property
    def key(self) -> Key: ...
    @property
    def arch(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def status(self) -> Status: ...
    @property
    def provenance(self) -> Mapping[str, str]: ...
    @property
    def words(self) -> str | None: ...


@dataclass(frozen=True)
class Finding:
    """`body` is the kind's `Body`, present where `status` is "measured"; `words` say why where it is not.

    `provenance` has the keys PROVENANCE, `ptx` being the hash of the kernels' text. Texts are kept as one printable
    line each: some come from compilers and drivers.
    """

    kind: str
    subject: str
    arch: str
    method: str
    status: Status
    provenance: Mapping[str, str]
    body: Any = None
    words: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "provenance", {name: one_line(text) for name, text in self.provenance.items()})
        object.__setattr__(self, "words", None if self.words is None else one_line(self.words))

    @property
    def key(self) -> Key:
        """What it is the finding of."""
        return Key(self.kind, self.arch, self.method, self.subject)

    @property
    def plain(self) -> Any:
        """The body as plain data of JSON."""
        import msgspec  # which tables do without

        return None if self.body is None else msgspec.json.decode(msgspec.json.encode(self.body))


@dataclass(frozen=True)
class Measurement:
    """`tables` by operand, present where `status` is "measured"; `words` say why where it is not.

    `numbering` names what anchors row, column and k numbers: "memory addresses" for wmma, a reference for
    mma, "own rule" where nothing else fits. `unread` lists per operand, lane by lane, the elements that the
    multiply does not take into account. `provenance` has the keys PROVENANCE, `ptx` being the hash of the
    kernels' text. Texts are kept as one printable line each: some come from compilers and drivers.
    """

    experiment: str
    arch: str
    method: str
    status: Status
    provenance: Mapping[str, str]
    tables: Tables = field(default_factory=dict)
    numbering: str | None = None
    structure: StructureHash | None = None
    unread: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    words: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "provenance", {name: one_line(text) for name, text in self.provenance.items()})
        for name, text in (("numbering", self.numbering), ("words", self.words)):
            object.__setattr__(self, name, None if text is None else one_line(text))

    @property
    def key(self) -> Key:
        """What it is the measurement of."""
        return Key(TABLE, self.arch, self.method, self.experiment)

    @classmethod
    def from_json(cls, body: Json, tables: Tables) -> Measurement:
        """The inverse of `to_json`, with its tables; TypeError or KeyError where anything is missing."""
        structure, unread = body.pop("structure"), body.pop("unread")
        lanes_of = {operand: tuple(tuple(lane) for lane in lanes) for operand, lanes in unread.items()}
        return cls(**body, tables=tables, structure=structure and StructureHash(**structure), unread=lanes_of)

    def to_json(self) -> Json:
        """Plain data, in which layouts are named by their ids."""
        structure = self.structure
        return {
            "experiment": self.experiment,
            "arch": self.arch,
            "method": self.method,
            "status": self.status,
            "provenance": dict(self.provenance),
            "fragments": {operand: table.id for operand, table in self.tables.items()},
            "numbering": self.numbering,
            "structure": structure and {k: value for k, value in structure._asdict().items() if value is not None},
            "unread": {operand: [list(lane) for lane in lanes] for operand, lanes in self.unread.items()},
            "words": self.words,
        }


class Sourced(NamedTuple):
    """A finding, and the name of the layer that holds it.

    `alike` are all findings of its subject and arch that agree with it, itself among them, `otherwise` those that
    disagree. Where as many devices of its folder found something else, `rivals` are the findings of both, else empty.
    """

    finding: Finding
    source: str
    alike: tuple[Finding, ...] = ()
    otherwise: tuple[Finding, ...] = ()
    rivals: tuple[Finding, ...] = ()

    @property
    def settled(self) -> Finding:
        """The finding; NoMajorityError where as many devices found something else."""
        if self.rivals:
            about = {"id": self.finding.subject, "arch": self.finding.arch}
            raise NoMajorityError(self.contradiction, about, self.runs(lambda finding: finding.plain))
        return self.finding

    def runs(self, value: Callable[[Finding], object]) -> list[dict[str, object]]:
        """What each device found, its `value` plain data; empty where nothing is contradicted."""
        shown = self.rivals or ((self.finding, *self.otherwise) if self.otherwise else ())
        return [{"device": witness(one), "value": value(one)} for one in shown]

    @property
    def contradiction(self) -> str:
        """Who found what, in one sentence; "" where nothing is contradicted."""
        from tcprobe.store.kinds import differences

        finding = self.rivals[0] if self.rivals else self.finding
        others = [one for one in self.otherwise if not self.rivals or one in self.rivals]
        if not others:
            return ""
        told = dict.fromkeys(f"{how(one)}: {parts(differences(finding, one), 2)}" for one in others)
        own = f"{how(finding)}: {parts(differences(finding, others[0]), 1)}"
        if not self.rivals:
            return f"CONTRADICTED: {own}; {'; '.join(told)}"
        return (
            f"{finding.subject} on {finding.arch}: findings ({finding.kind}) are contradicted, no majority decides: "
            f"{own}; {'; '.join(told)}. Measure it on another device and merge that."
        )


MOST_PARTS = 3  # that a sentence names


def parts(differing: Sequence[tuple[str, object, object]], side: int) -> str:
    """The parts in which findings disagree, as one of them has them."""
    named = [f"{row[0] or 'all'} {plain_value(row[side])}" for row in differing[:MOST_PARTS]]
    more = f" and {len(differing) - MOST_PARTS} more" if len(differing) > MOST_PARTS else ""
    return ", ".join(named) + more


def plain_value(value: object) -> str:
    """A value on few columns."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def from_code(kind: str, subject: str, arch: str, compiler: str, body: Any) -> Finding:
    """What the code of a compiler shows, of a document that names the compiler alone."""
    made = dict.fromkeys(PROVENANCE, "none") | {"device": "machine code", "compiler": compiler}
    return Finding(kind, subject, arch, "sass", "measured", made, body)


def is_number(text: str) -> bool:
    """Whether a part of a subject is a number as it is written: 7, not 07."""
    return text.isascii() and text.isdigit() and text == str(int(text))
