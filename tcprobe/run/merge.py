"""Merges other people's findings: checked as a stranger's, kept in one folder per run, with their conflicts.

A run is a device with its driver, CUDA version and compiler, and who contributed it. Nothing is written before
everything is accepted, and known findings are accepted again. Findings of all kinds are merged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.run import report
from tcprobe.store import consistency, documents, findings, kinds
from tcprobe.store.choose import alone
from tcprobe.store.evidence import FROM_CODE, MAKER, how, made_by
from tcprobe.store.finding import Finding
from tcprobe.store.measurement import Measurement
from tcprobe.store.results import Results
from tcprobe.system import files
from tcprobe.text import one_line

SCHEMA = 2
TAKEN = ("live", *FROM_CODE)  # methods that say something of hardware
Known = Measurement | Finding
Fact = tuple[str, str, str]  # arch, kind or operand, subject


class Conflict(NamedTuple):
    """Two findings of a subject on an arch that differ; `what` each found, in words."""

    subject: str
    arch: str
    first: Known
    other: Known
    what: tuple[str, str]

    def __str__(self) -> str:
        one, two = (f"{words}, {how(f)}" for words, f in zip(self.what, (self.first, self.other), strict=True))
        return f"{self.subject} on {self.arch}: {one}; ANOTHER {self._kind}: {two}"

    @property
    def _kind(self) -> str:
        return "TABLE" if isinstance(self.first, Measurement) else "FINDING"


@dataclass(frozen=True)
class Merged:
    """How many findings were added, by run, how many were there before, what contradicts what, and what is new."""

    added: dict[str, int]
    known: int
    conflicts: list[Conflict]
    new: list[Known]


def merge(paths: Sequence[Path], target: Results, contributor: str = "") -> Merged:
    """Take the findings of results folders and reports into `target`.

    DataError, and nothing is written, where a file cannot be trusted or its tables do not hang together; UsageError
    where a path has no findings, or is the target.
    """
    return take([finding for path in paths for finding in accepted(path, target)], target, contributor)


def take(accepted_findings: Sequence[Known], target: Results, contributor: str = "") -> Merged:
    """Take findings that were accepted into `target`."""
    before = list(measured(target))
    there = {_identity(finding) for finding in before}
    new = {_identity(finding): finding for finding in accepted_findings if _identity(finding) not in there}
    runs: dict[str, list[Known]] = {}
    for finding in new.values():
        runs.setdefault(run_id(finding, contributor), []).append(finding)
    for name, made in runs.items():
        _describe(target.root / "runs" / name / "run.json", made[0], contributor)
        folder = target.run(name)
        findings.save_all(folder, made)
    added = {name: len(made) for name, made in runs.items()}
    known = sum(_identity(finding) in there for finding in accepted_findings)
    return Merged(added, known, list(_conflicts(before, accepted_findings)), list(new.values()))


def run_id(finding: Known, contributor: str = "") -> str:
    """The folder of a run: what made it, readable, and a hash of all of that."""
    maker = made_by(finding)
    digest = hashlib.sha256("\n".join((*maker, contributor)).encode()).hexdigest()[:8]
    words = maker[0] if finding.method == "live" else maker[3]
    return f"{re.sub(r'[^a-z0-9.]+', '-', words.lower()).strip('-.')[:60]}-{digest}"


def accepted(path: Path, target: Results) -> list[Known]:
    """All findings of a folder, its runs among them, or of a report, each held against its own tables.

    DataError where a file cannot be trusted; UsageError where there is nothing, or `path` is the target.
    """
    if path.is_file():
        return _of_report(path)
    if not files.is_folder(path):
        raise UsageError(f"{path}: neither a results folder nor a report.")
    if path.resolve() == target.root.resolve():
        raise UsageError(f"{path} is the folder to merge into; give another one.")
    return _of_folder(path, Results(path))


def _of_report(path: Path) -> list[Known]:
    with report.opened(path) as source:
        found = _of_folder(path, source)
        for finding in found:
            with documents.naming(path):
                report.check(finding)
        return found


def _of_folder(path: Path, source: Results) -> list[Known]:
    """What is taken of a folder that came as `path`."""
    found = [finding for finding in measured(source) if finding.method in TAKEN]
    if not found:
        raise UsageError(f"{path}: no findings there.", "no findings", folder=str(path))
    for finding in found:
        if isinstance(finding, Measurement):
            with documents.naming(path):
                consistency.check(finding, source)
    return found


def own(results: Results) -> list[Known]:
    """What a folder says of hardware, without its runs."""
    return [finding for finding in _of_one(results) if finding.method in TAKEN]


def measured(results: Results) -> Iterator[Known]:
    """Everything that was measured, of all kinds, the runs of a folder among it."""
    for layer in alone(results).layers:
        yield from _of_one(layer.results)


def _of_one(results: Results) -> Iterator[Known]:
    for arch in results.archs():
        for method in results.methods(arch):
            yield from (m for m in results.measurements(arch, method) if m.status == "measured")
    for kind in kinds.names():
        for arch in findings.archs(results, kind):
            yield from (f for f in findings.every(results, kind, arch) if f.status == "measured")


def _identity(finding: Known) -> Hashable:
    """What makes two findings the same one; the version of tcprobe does not."""
    content = {o: t.id for o, t in finding.tables.items()} if isinstance(finding, Measurement) else finding.plain
    return finding.key, made_by(finding), finding.provenance["ptx"], documents.canonical(content)


def _describe(path: Path, finding: Known, contributor: str) -> None:
    """Write who made a run, of which this is a finding; what is written already stays."""
    if not path.exists():
        about = dict(zip(MAKER, made_by(finding), strict=True)) | {"contributor": one_line(contributor)}
        files.write(path, documents.seal("run", about, SCHEMA).encode(), parents=True)


def _conflicts(before: Iterable[Known], given: Iterable[Known]) -> Iterator[Conflict]:
    """Each subject of which a given finding says something else than one that was there or given before."""
    seen: dict[Fact, tuple[Known, Hashable, str]] = {}
    for finding in before:
        for fact, content, words in _says(finding):
            seen.setdefault(fact, (finding, content, words))
    for finding in given:
        for fact, content, words in _says(finding):
            first, other, told = seen.setdefault(fact, (finding, content, words))
            if other != content:
                yield Conflict(fact[2], finding.arch, first, finding, (told, words))


def _says(finding: Known) -> Iterator[tuple[Fact, Hashable, str]]:
    """What a finding says of what: (fact, content that may not differ, words)."""
    if isinstance(finding, Measurement):
        for fragment in inventory.of_experiment(finding.experiment):
            if fragment.operand in finding.tables and fragment.experiment == finding.experiment:
                id_ = finding.tables[fragment.operand].id
                yield (finding.arch, "table", fragment.id), id_, f"layout {id_}"
        return
    essence = documents.canonical(kinds.essence(finding))
    digest = hashlib.sha256(essence.encode()).hexdigest()[:12]
    yield (finding.arch, finding.kind, finding.subject), essence, f"{finding.kind} {digest}"
