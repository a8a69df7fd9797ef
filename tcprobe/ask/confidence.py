"""How sure an answer is, in a word and in numbers: methods, kinds of GPU, compilers, and what references say."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tcprobe.store.evidence import FROM_CODE, witness
from tcprobe.store.finding import AnyFinding, Sourced
from tcprobe.values import Json

ORDER = ("contradicted", "documented only", "single", "good", "strong")  # words, the least sure first


class Confidence(NamedTuple):
    """How many measurements of the arch found a thing and how many another, and how many references say which."""

    methods: int
    devices: int
    compilers: int
    otherwise: int
    confirmed: int
    differing: int

    @property
    def word(self) -> str:
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
            (self.confirmed, "reference confirms it", "references confirm it"),
            (self.differing, "reference differs", "references differ"),
        ]
        found, said = ([f"{n} {one if n == 1 else many}" for n, one, many in counts if n] for counts in (alike, others))
        return "; ".join([f"{self.word}: {', '.join(found)}" if found else self.word, *said])

    def to_json(self) -> Json:
        """Plain data."""
        return {"word": self.word, **self._asdict()}


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
