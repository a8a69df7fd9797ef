"""What a results folder keeps of surveys: compilers.json, errata.json, checks.json and check_mutants.json.

compilers.json: what versions of ptxas agree in, as `tcprobe compilers --json` prints it. errata.json: what audits of
packages found, the newest version of each, and since when it is so. Of earlier versions it has how many layouts differ,
and which; so it can be said in which version a difference is first. checks.json: what `tcprobe check` finds in
packages; check_mutants.json: in kernels that a mistake was put into.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from tcprobe.errors import DataError
from tcprobe.system import files
from tcprobe.values import Json

COMPILERS = "compilers.json"
T = TypeVar("T")


class Fact(msgspec.Struct, frozen=True):
    """What versions say something of."""

    what: str
    id: str
    arch: str


class DifferingFact(Fact, frozen=True):
    """A table or a lowering of which versions say different things: what each says."""

    said: dict[str, str]


class ExceptionalFact(Fact, frozen=True):
    """A table or a lowering that only some of the versions show that know the arch."""

    versions: list[str]


class RefusedFact(Fact, frozen=True):
    """A form that versions refuse on an arch, each in its words."""

    words: dict[str, str]


class SavedSurvey(msgspec.Struct, frozen=True):
    """Versions, the archs that each knows, and how many tables and lowerings all that show one agree in."""

    versions: list[str]
    archs: dict[str, list[str]]
    tables: int
    lowerings: int
    differing: list[DifferingFact]
    exceptions: list[ExceptionalFact]
    refused: list[RefusedFact]


def load_survey(folder: Path) -> SavedSurvey | None:
    """What a folder has, None where it has none; DataError where its file is damaged."""
    return _load(folder / COMPILERS, SavedSurvey, "comparison of compilers")


def _load(path: Path, kind: type[T], what: str) -> T | None:
    raw = files.read(path)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{path}: no {what}: {error}.") from None


ERRATA = "errata.json"


class StatedOtherwise(msgspec.Struct, frozen=True):
    """A layout that is stated otherwise than it was measured: `differ` of `of` slots."""

    name: str
    fragment: str
    differ: int
    of: int


class SavedFinding(StatedOtherwise, frozen=True):
    """A difference with what it is and what shows it."""

    words: str
    first: list[str]
    evidence: str
    reported: str


class EarlierAudit(msgspec.Struct, frozen=True):
    """What came of an earlier version: how many layouts agree, and what differs."""

    version: str
    agree: int
    findings: list[StatedOtherwise]


class SavedAudit(msgspec.Struct, frozen=True):
    """What came of a package: layouts that agree, that differ of those compared, that are not covered.

    `earlier` has other versions, ascending.
    """

    package: str
    version: str
    agree: int
    differ: int
    of: int
    not_covered: int
    findings: list[SavedFinding]
    earlier: list[EarlierAudit] = []


class Since(NamedTuple):
    """The first version from which on every audited one has a difference; the one `before` it, None if none was."""

    version: str
    before: str | None

    def __str__(self) -> str:
        told = ", the first version that was audited" if self.before is None else f"; {self.before} does not have it"
        return f"since {self.version}{told}"


def since(difference: StatedOtherwise, version: str, earlier: Sequence[EarlierAudit]) -> Since:
    """Since when a version's difference is there, by earlier versions, ascending."""
    for one in reversed(earlier):
        if _identity(difference) not in map(_identity, one.findings):
            return Since(version, one.version)
        version = one.version
    return Since(version, None)


def _identity(difference: StatedOtherwise) -> tuple[str, str, int, int]:
    return difference.name, difference.fragment, difference.differ, difference.of


def before(saved_audits: Iterable[SavedAudit], package: str, version: str) -> list[EarlierAudit]:
    """Of audits of a package, those of versions before one, ascending."""
    known = {e.version: e for one in saved_audits if one.package == package for e in (*one.earlier, _condense(one))}
    return sorted((e for e in known.values() if order(e.version) < order(version)), key=lambda e: order(e.version))


def order(version: str) -> tuple[tuple[int, int, str], ...]:
    """What sorts versions as the index does: numbers by value, a pre-release before its release, .post after it."""
    words = re.findall(r"[0-9]{1,18}|[a-z]+", version.lower())
    parts = [(3, int(w), "") if w.isdigit() else ({"post": 2, "dev": -1}.get(w, 0), 0, w) for w in words]
    return (*parts, (1, 0, ""))


def _condense(saved_audit: SavedAudit) -> EarlierAudit:
    differences = [StatedOtherwise(f.name, f.fragment, f.differ, f.of) for f in saved_audit.findings]
    return EarlierAudit(saved_audit.version, saved_audit.agree, differences)


def load_audits(folder: Path) -> list[SavedAudit]:
    """The audits that a folder has; DataError where its file is damaged."""
    return _load(folder / ERRATA, list[SavedAudit], "list of audits") or []


def save_audit(folder: Path, audit: Json) -> None:
    """Put an audit in place of the one of the same package and version; the newest one has the others as `earlier`."""
    given, saved = msgspec.convert(audit, SavedAudit), load_audits(folder)
    same = [old for old in saved if old.package == given.package]
    newest = max([*same, given], key=lambda one: order(one.version))  # of equals the first: not the new one
    newest = given if newest.version == given.version else newest
    others = [*same, msgspec.structs.replace(given, earlier=[])]
    newest = msgspec.structs.replace(newest, earlier=before(others, newest.package, newest.version))
    every = sorted([*(one for one in saved if one not in same), newest], key=lambda one: one.package)
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder / ERRATA, msgspec.json.format(msgspec.json.encode(every), indent=1) + b"\n")


CHECKS = "checks.json"


class NamedFinding(msgspec.Struct, frozen=True):
    """A finding of `tcprobe check` in a package's kernel; `argued`: what reading the code by hand said of an error."""

    kernel: str
    rule: str
    address: int
    text: str
    numbers: dict[str, float]
    argued: str = ""


class CheckedPackage(msgspec.Struct, frozen=True):
    """What `tcprobe check` found in a package's code for an arch: so many of its `files_of` files were read.

    `findings` by rule and severity as in "sectors note", `kernels_with` by rule; `undecided` of `shared_accesses`;
    `seconds` of CPU time that all rules took; `conflicts` are those that cost most.
    """

    package: str
    version: str
    arch: str
    files: int
    files_of: int
    kernels: int
    instructions: int
    shared_accesses: int
    undecided: int
    findings: dict[str, int]
    kernels_with: dict[str, int]
    seconds: float
    unread: int
    errors: list[NamedFinding]
    conflicts: list[NamedFinding]


def load_checks(folder: Path) -> list[CheckedPackage]:
    """The packages that were checked; DataError where their file is damaged."""
    return _load(folder / CHECKS, list[CheckedPackage], "survey of checks") or []


SAMPLES = "package_errors.json"


class JudgedFinding(msgspec.Struct, frozen=True):
    """What a rule says of so many kernels of a package; `verdict`: "true", "by text" or "false", as `argued`."""

    rule: str
    severity: str
    text: str
    kernels: int
    verdict: str
    argued: str


class SampledPackage(msgspec.Struct, frozen=True):
    """A random sample of a package's code: `cubins` of those that its `libraries` have for `archs`, its `kernels`.

    `held_out`: whether it was first looked at when the rules were done.
    """

    package: str
    archs: str
    libraries: int
    cubins: int
    of: int
    kernels: int
    bytes: int
    held_out: bool
    findings: list[JudgedFinding]


def load_samples(folder: Path) -> list[SampledPackage]:
    """The packages of which samples were checked; DataError where their file is damaged."""
    return _load(folder / SAMPLES, list[SampledPackage], "samples of packages") or []


MISTAKES = "check_mutants.json"


class Tried(msgspec.Struct, frozen=True):
    """How often a rule found mistakes of a kind: `found` of `tried`, of which so many as a note (`undecided`).

    `harmless`: mistakes that break nothing, by the reason, which are not tried; `missed`: where each was.
    """

    rule: str
    tried: int
    found: int
    undecided: int
    harmless: dict[str, int]
    missed: list[str]


class SavedMistakes(msgspec.Struct, frozen=True):
    """Of so many right `kernels`, at most `most` mistakes of a kind in each, by kind."""

    kernels: int
    most: int
    kinds: dict[str, Tried]


def load_mistakes(folder: Path) -> SavedMistakes | None:
    """What a folder has, None where it has none; DataError where its file is damaged."""
    return _load(folder / MISTAKES, SavedMistakes, "count of mistakes found")
