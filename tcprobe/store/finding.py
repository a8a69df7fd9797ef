"""Finding: what one experiment concludes of one subject on one arch, with its evidence.

Tables of fragments are the kind "table" (`store.measurement`); every other kind is a module of `store.kinds`, whose
`Body` is the shape of what is found.

>>> from tcprobe.store.findings import published_finding
>>> finding = published_finding("banks", "sm_90", "ld.shared.b128")
>>> finding.method, finding.body.rule.phase, finding.body.misfits
('live', 8, 0)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from tcprobe.errors import DataError
from tcprobe.text import one_line

FROM_CODE = ("sass", "derived", "same-opcode")  # methods that read machine code, the strongest first
WEAKER = "same-opcode"  # rests on what another arch shows
METHODS = ("live", *FROM_CODE, "emulated")
STATUSES = ("measured", "refused", "failed")
MAKER = ("device", "driver", "cuda", "compiler")  # what makes one run of measuring another
PROVENANCE = ("device", "driver", "cuda", "compiler", "ptx", "tcprobe")
Status = Literal["measured", "refused", "failed"]
PUBLISHED = "published"


class Key(NamedTuple):
    """What a finding is the finding of."""

    kind: str
    arch: str
    method: str
    subject: str


class AnyFinding(Protocol):
    """What findings of all kinds say: of what they are, what came of it, and what they rest on."""

    @property
    def key(self) -> Key: ...  # noqa: D102
    @property
    def arch(self) -> str: ...  # noqa: D102
    @property
    def method(self) -> str: ...  # noqa: D102
    @property
    def status(self) -> Status: ...  # noqa: D102
    @property
    def provenance(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def words(self) -> str | None: ...  # noqa: D102


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


def from_code(kind: str, subject: str, arch: str, compiler: str, body: Any) -> Finding:
    """What the code of a compiler shows, of a document that names the compiler alone."""
    made = dict.fromkeys(PROVENANCE, "none") | {"device": "machine code", "compiler": compiler}
    return Finding(kind, subject, arch, "sass", "measured", made, body)


def is_number(text: str) -> bool:
    """Whether a part of a subject is a number as it is written: 7, not 07."""
    return text.isascii() and text.isdigit() and text == str(int(text))


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


def whence(source: str) -> str:
    """Where a table comes from, in words: "published", or "from FOLDER"."""
    return source if source == PUBLISHED else f"from {source}"
