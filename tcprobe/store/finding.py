"""Finding: what one experiment concludes of one subject on one arch, with its evidence.

Tables of fragments are the kind "table" (`store.measurement`); every other kind is a module of `store.kinds`, whose
`Body` is the shape of what is found.

>>> from tcprobe.store.findings import published_finding
>>> finding = published_finding("banks", "sm_90", "ld.shared.b128")
>>> finding.method, finding.body.rule.phase, finding.body.misfits
('live', 8, 0)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from tcprobe.store.evidence import PROVENANCE
from tcprobe.text import one_line

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


class Sourced(NamedTuple):
    """A finding, and the name of the layer that holds it."""

    finding: Finding
    source: str


def from_code(kind: str, subject: str, arch: str, compiler: str, body: Any) -> Finding:
    """What the code of a compiler shows, of a document that names the compiler alone."""
    made = dict.fromkeys(PROVENANCE, "none") | {"device": "machine code", "compiler": compiler}
    return Finding(kind, subject, arch, "sass", "measured", made, body)


def is_number(text: str) -> bool:
    """Whether a part of a subject is a number as it is written: 7, not 07."""
    return text.isascii() and text.isdigit() and text == str(int(text))
