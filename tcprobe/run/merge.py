"""Merges other people's findings: checked as untrusted files, kept in one folder per run, with their conflicts.

A run is a device with its driver, CUDA version and compiler, and who contributed it. Nothing is written before
everything is accepted, and known findings are accepted again. Findings of all kinds are merged.

A report is one file of findings for somebody else to merge, compressed as by gzip. It contains documents as `tcprobe
run` saved them, each with its own checksum; `merge` unpacks them into a temporary folder and checks that like any other
folder. It names the device, driver, CUDA version and compiler of each finding, and nothing else of the machine.

Documents of archs and kinds that this version does not know are kept aside, whole: `aside/NAME` is a results folder
that a later version can merge.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zlib
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tcprobe import __version__
from tcprobe.errors import DataError, EnvironmentUnfitError, UsageError
from tcprobe.isa import arch, inventory
from tcprobe.probes import experiments
from tcprobe.probes.experiment import kernels, ptx_hash
from tcprobe.store import consistency, documents, findings, kinds
from tcprobe.store.choose import alone
from tcprobe.store.finding import FROM_CODE, MAKER, TABLE, Finding, Key, Measurement, how, made_by, parts, witness
from tcprobe.store.results import Results, published
from tcprobe.system import files
from tcprobe.system.children import Scratch
from tcprobe.text import one_line
from tcprobe.values import Json

KIND = "report"
MOST_BYTES = 64 << 20  # of a report, as it is and unpacked
GZIP = b"\x1f\x8b\x08\0\0\0\0\0\2\xff"  # RFC 1952: deflated, without time, name or system: one header for equal bytes
MOST_FILES = 20_000
# layouts/ID.json, ARCH/METHOD/SUBJECT.json, ARCH/METHOD/KIND/SUBJECT.json, ARCH/KIND.json, all but the first also below
# runs/RUN, and runs/RUN/run.json
_PLACE = re.compile(
    r"(runs/[a-z0-9][a-z0-9.-]{0,79}/)?[a-z][a-z0-9_]{0,39}(/[a-z][a-z0-9_-]{0,39}){0,2}"
    r"/[A-Za-z0-9][A-Za-z0-9_.-]{0,199}\.json|runs/[a-z0-9][a-z0-9.-]{0,79}/run\.json"
)
AnySaved = Measurement | Finding


def write_report(path: Path, reported: Sequence[AnySaved]) -> None:
    """Write a report; equal findings give equal bytes."""
    files.write(path, packed(report_text(reported)))


def packed(text: str) -> bytes:
    """A report's text as it is written."""
    return GZIP + gzip.compress(text.encode(), mtime=0)[len(GZIP) :]


def unpacked(raw: bytes) -> bytes:
    """The text of a report, compressed or, as tcprobe 0.1 wrote it, not; DataError where it is too large or damaged."""
    if not raw.startswith(GZIP):
        return raw
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(raw, MOST_BYTES)
    except zlib.error as error:
        raise DataError(f"damaged ({error}).") from None
    if stream.unconsumed_tail:
        raise DataError(f"more than {MOST_BYTES >> 20} MiB when unpacked.")
    if not stream.eof or stream.unused_data:
        raise DataError("damaged: it does not end where its content does.")
    return text


def report_text(reported: Sequence[AnySaved]) -> str:
    """The text of a report; findings of several devices or compilers are in a run each."""
    with _folder() as folder:
        if len({made_by(finding) for finding in reported}) > 1:
            take(reported, Results(folder))
        else:
            findings.save_all(Results(folder), reported)
        raw = {path.relative_to(folder).as_posix(): files.read(path) for path in sorted(folder.rglob("*.json"))}
        content = {name: documents.parse(document) for name, document in raw.items() if document is not None}
    return documents.seal(KIND, {"tcprobe": __version__, "files": content})


@contextmanager
def open_report(path: Path) -> Iterator[Results]:
    """A context with the findings of a report in a temporary folder; DataError if the report cannot be trusted."""
    raw = files.read(path, MOST_BYTES)
    if raw is None:
        raise DataError(f"{path}: no such file.")
    with documents.naming(path):
        body = documents.body_of(unpacked(raw), KIND)
    with _folder() as folder:
        try:
            with documents.naming(path):
                _lay_out(body, folder)
            yield Results(folder)
        except DataError as error:
            raise type(error)(str(error).replace(f"{folder}/", f"{path}, ")) from None


def _lay_out(body: Json, folder: Path) -> None:
    """Write each document to the file that its name gives, byte for byte as its checksum needs."""
    content = body["files"]
    if set(body) != {"tcprobe", "files"} or not isinstance(content, dict) or len(content) > MOST_FILES:
        raise DataError("its keys are not those of a report.")
    for name, document in content.items():
        if not _PLACE.fullmatch(name) or not isinstance(document, dict) or "sha256" not in document:
            raise DataError(f"{name}: not the document of a finding.")
        inner = {key: value for key, value in document.items() if key not in ("kind", "schema", "sha256")}
        sealed = documents.seal(document["kind"], inner, document["schema"])
        if documents.parse(sealed.encode()) != document:
            raise DataError(f"{name}: its content does not match its checksum; it was damaged or edited.")
        files.write(folder / name, sealed.encode(), parents=True)


def check_probe(finding: AnySaved) -> None:
    """DataError if a live table claims to come from this version of tcprobe, but its probe is another one."""
    if finding.provenance["tcprobe"] == __version__ and not made_by_probe(finding):
        raise DataError(
            f"{finding.key.subject} on {finding.arch}: made with PTX {finding.provenance['ptx']}, "
            f"which differs from the probe of tcprobe {__version__}."
        )


def made_by_probe(finding: AnySaved) -> bool:
    """Whether a live table's probe is the present one; True for all other findings, whose probes are not known."""
    probe = experiments().get(finding.key.subject) if isinstance(finding, Measurement) else None
    return probe is None or finding.method != "live" or finding.provenance["ptx"] == ptx_hash(kernels(probe))


@contextmanager
def _folder() -> Iterator[Path]:
    try:
        with Scratch() as scratch:
            yield scratch.folder
    except OSError as error:
        raise EnvironmentUnfitError(f"no temporary folder for a report: {error.strerror}. Is the disk full?") from None


SCHEMA = 2
ACCEPTED_METHODS = ("live", *FROM_CODE)  # methods that say something of hardware
FactKey = tuple[str, str, str]  # arch, kind or operand, subject


class Conflict(NamedTuple):
    """Two findings of a subject on an arch that differ; `what`: both results in words."""

    subject: str
    arch: str
    first: AnySaved
    other: AnySaved
    what: tuple[str, str]

    def __str__(self) -> str:
        first_words, other_words = (
            f"{words}, {how(f)}" for words, f in zip(self.what, (self.first, self.other), strict=True)
        )
        kind = "TABLE" if isinstance(self.first, Measurement) else "FINDING"
        return f"{self.subject} on {self.arch}: {first_words}; ANOTHER {kind}: {other_words}"


@dataclass(frozen=True)
class Merged:
    """The numbers of findings added, by run, and known before; the contradictions; the new findings.

    `agreeing` counts the findings that others of their subject say too, by how many kinds of GPU then say so.
    `doubts` are those that, as they say themselves, contradict the model of their kind. `aside` are the places of
    documents of archs and kinds that this version does not know.
    """

    added: dict[str, int]
    known: int
    agreeing: dict[int, int]
    conflicts: list[Conflict]
    new: list[AnySaved]
    doubts: list[str]
    aside: tuple[str, ...] = ()

    @property
    def without_precedent(self) -> int:
        """Of the new findings those of whose subject nothing was found before."""
        contradicting = {id(conflict.other) for conflict in self.conflicts}
        return len(self.new) - sum(self.agreeing.values()) - sum(id(finding) in contradicting for finding in self.new)


class Accepted(NamedTuple):
    """What a source says: findings; documents of archs and kinds that this version does not know, by their places."""

    findings: list[AnySaved]
    aside: dict[str, bytes]


def merge(paths: Sequence[Path], into: Results, contributor: str = "") -> Merged:
    """Take the findings of results folders and reports into `into`.

    DataError, and nothing is written, if a file cannot be trusted or its tables contradict each other; UsageError if
    a path has no findings, or is `into`.
    """
    accepted = _accept_all(paths, into)
    merged = take(accepted.findings, into, contributor)
    digest = hashlib.sha256(b"".join(place.encode() + text for place, text in sorted(accepted.aside.items())))
    for place, text in accepted.aside.items():
        files.write(into.root / "aside" / digest.hexdigest()[:8] / place, text, parents=True)
    return replace(merged, aside=tuple(accepted.aside))


def check(paths: Sequence[Path], into: Results) -> Merged:
    """What `merge` would do, beside what is published; nothing is written. Errors as `merge`."""
    accepted = _accept_all(paths, None)
    archs = {finding.arch for finding in accepted.findings}
    folders = {folder.root.resolve(): folder for folder in (into, published())}.values()
    merged = compare(accepted.findings, [f for folder in folders for f in measured_findings(folder, archs)])
    return replace(merged, aside=tuple(accepted.aside))


def _accept_all(paths: Sequence[Path], into: Results | None) -> Accepted:
    """What all sources say; errors as `merge`."""
    sources = [accept(path, into) for path in paths]
    findings_of_all = [finding for source in sources for finding in source.findings]
    return Accepted(findings_of_all, {place: text for source in sources for place, text in source.aside.items()})


def take(accepted_findings: Sequence[AnySaved], into: Results, contributor: str = "") -> Merged:
    """Add accepted findings to `into`."""
    merged = compare(accepted_findings, list(measured_findings(into)), contributor)
    for name in merged.added:
        findings_of_run = [finding for finding in merged.new if run_id(finding, contributor) == name]
        _describe(into.root / "runs" / name / "run.json", findings_of_run[0], contributor)
        findings.save_all(into.run(name), findings_of_run)
    return merged


def compare(accepted_findings: Sequence[AnySaved], before: Sequence[AnySaved], contributor: str = "") -> Merged:
    """What accepted findings add to those before, and what they contradict."""
    asked = {finding.key for finding in accepted_findings}
    identities = {_identity(finding) for finding in before if finding.key in asked}
    new = {_identity(finding): finding for finding in accepted_findings if _identity(finding) not in identities}
    added = Counter(run_id(finding, contributor) for finding in new.values())
    already_there = sum(_identity(finding) in identities for finding in accepted_findings)
    conflicts = list(conflicts_with(before, accepted_findings))
    contradicting = {id(conflict.other) for conflict in conflicts}
    agreeing = _agreeing(before, [finding for finding in new.values() if id(finding) not in contradicting])
    return Merged(dict(added), already_there, agreeing, conflicts, list(new.values()), list(_doubts(accepted_findings)))


def _agreeing(before: Iterable[AnySaved], merged_findings: Sequence[AnySaved]) -> dict[int, int]:
    """The number of findings that earlier ones of their subject say too, by how many kinds of GPU then say it."""
    gpus: dict[Key, set[str]] = {}
    for finding in before:
        gpus.setdefault(subject_of(finding), set()).update(_gpu(finding))
    known = [finding for finding in merged_findings if subject_of(finding) in gpus]
    return dict(sorted(Counter(len(gpus[subject_of(finding)] | _gpu(finding)) for finding in known).items()))


def _gpu(finding: AnySaved) -> set[str]:
    """The kind of GPU that shows a finding; none where machine code does."""
    return set() if finding.method in FROM_CODE else {witness(finding)}


def subject_of(finding: AnySaved) -> Key:
    """What a finding is of, however it was found."""
    return finding.key._replace(method="")


def _doubts(accepted_findings: Iterable[AnySaved]) -> Iterator[str]:
    for finding in accepted_findings:
        if isinstance(finding, Finding) and (why := kinds.doubt(finding)):
            yield f"{finding.subject} on {finding.arch}: {why}, {how(finding)}"


def run_id(finding: AnySaved, contributor: str = "") -> str:
    """The name of a run's folder: its device or compiler, readable, and a hash of maker and contributor."""
    maker = made_by(finding)
    digest = hashlib.sha256("\n".join((*maker, contributor)).encode()).hexdigest()[:8]
    words = maker[0] if finding.method == "live" else maker[3]
    return f"{re.sub(r'[^a-z0-9.]+', '-', words.lower()).strip('-.')[:60]}-{digest}"


def accept(path: Path, into: Results | None) -> Accepted:
    """All findings of a folder with its runs, or of a report; tables are checked against the others of the source.

    DataError if a file cannot be trusted; UsageError if there are no findings, or `path` is `into`.
    """
    if path.is_file():
        with open_report(path) as source:
            accepted = _accept_folder(path, source)
            for finding in accepted.findings:
                with documents.naming(path):
                    check_probe(finding)
            return accepted
    if not files.is_folder(path):
        raise UsageError(f"{path}: neither a results folder nor a report.")
    if into and path.resolve() == into.root.resolve():
        raise UsageError(f"{path} is the folder to merge into; give another one.")
    return _accept_folder(path, Results(path))


def _accept_folder(path: Path, merged_folder: Results) -> Accepted:
    """What a folder says that was given as `path`; errors as `accept`."""
    accepted_findings = [finding for finding in measured_findings(merged_folder) if finding.method in ACCEPTED_METHODS]
    aside = _unknown(merged_folder.root)
    if not accepted_findings and not aside:
        raise UsageError(f"{path}: no findings there.", "no findings", folder=str(path))
    for finding in accepted_findings:
        if isinstance(finding, Measurement):
            with documents.naming(path):
                consistency.check(finding, merged_folder)
    return Accepted(accepted_findings, aside)


def _unknown(folder: Path) -> dict[str, bytes]:
    """The documents of archs and kinds that this version does not know, and the layouts that they name, by place.

    DataError if one of them is not whole.
    """
    found: dict[str, bytes] = {}
    for root in (folder, *folder.glob("runs/*")):
        archs = [place for place in root.glob("sm_*") if place.is_dir()]
        unknown = [place for place in archs if place.name not in arch.BY_NAME]
        methods = [folder for place in archs if place not in unknown for folder in place.iterdir() if folder.is_dir()]
        unknown += [
            Path(one) for each in methods for one in os.scandir(each) if one.is_dir() and one.name not in kinds.names()
        ]
        for path in sorted(path for place in unknown for path in place.rglob("*.json")):
            found[path.relative_to(folder).as_posix()] = text = _whole(path)
            layouts = documents.parse(text).get("fragments")
            for name in layouts.values() if isinstance(layouts, dict) else ():
                if (
                    re.fullmatch("[0-9a-f]{12}", str(name))
                    and (layout := folder / "layouts" / f"{name}.json").is_file()
                ):
                    found[f"layouts/{name}.json"] = _whole(layout)
    if len(found) > MOST_FILES:
        raise DataError(f"{folder}: more than {MOST_FILES} documents of archs and kinds that are not known.")
    return found


def _whole(path: Path) -> bytes:
    """The text of a document; DataError unless it is as it was sealed."""
    text = files.read(path) or b""
    with documents.naming(path):
        if not documents.has_checksum(text):
            raise DataError("its bytes do not match its checksum; it was damaged or edited.")
    return text


def own(results: Results) -> list[AnySaved]:
    """A folder's findings on hardware, without its runs."""
    return [finding for finding in _findings_of_folder(results) if finding.method in ACCEPTED_METHODS]


def measured_findings(results: Results, archs: Collection[str] = tuple(arch.BY_NAME)) -> Iterator[AnySaved]:
    """All measured findings of a folder on some archs, of all kinds, with those of its runs."""
    for layer in alone(results).layers:
        yield from _findings_of_folder(layer.results, archs)


def _findings_of_folder(results: Results, archs: Collection[str] = tuple(arch.BY_NAME)) -> Iterator[AnySaved]:
    for name in (name for name in results.archs() if name in archs):
        for method in results.methods(name):
            yield from (m for m in results.measurements(name, method) if m.status == "measured")
    for kind in kinds.names():
        for name in (name for name in findings.archs(results, kind) if name in archs):
            yield from (f for f in findings.every(results, kind, name) if f.status == "measured")


def _identity(finding: AnySaved) -> Hashable:
    """What equal findings have in common: all but the version of tcprobe."""
    content = {o: t.id for o, t in finding.tables.items()} if isinstance(finding, Measurement) else finding.plain
    return finding.key, made_by(finding), finding.provenance["ptx"], documents.canonical(content)


def _describe(path: Path, finding: AnySaved, contributor: str) -> None:
    """Write run.json, who made the run of a finding; an existing file stays."""
    if not path.exists():
        about = dict(zip(MAKER, made_by(finding), strict=True)) | {"contributor": one_line(contributor)}
        files.write(path, documents.seal("run", about, SCHEMA).encode(), parents=True)


def conflicts_with(before: Iterable[AnySaved], merged_findings: Iterable[AnySaved]) -> Iterator[Conflict]:
    """Each merged finding that differs from an earlier one of its subject."""
    seen: dict[FactKey, list[AnySaved]] = {}
    for finding in before:
        for fact in _facts(finding):
            seen.setdefault(fact, []).append(finding)
    for finding in merged_findings:
        for fact in _facts(finding):
            words = ((earlier, _differ(fact, earlier, finding)) for earlier in seen.get(fact, ()))
            first, what = next(((one, what) for one, what in words if what), (None, None))
            if first and what:
                yield Conflict(fact[2], finding.arch, first, finding, what)
            seen.setdefault(fact, []).append(finding)


def _facts(finding: AnySaved) -> Iterator[FactKey]:
    """What a finding says something of."""
    if isinstance(finding, Measurement):
        for fragment in inventory.of_experiment(finding.experiment):
            if fragment.operand in finding.tables and fragment.experiment == finding.experiment:
                yield finding.arch, TABLE, fragment.id
        return
    yield finding.arch, finding.kind, finding.subject


def _differ(fact: FactKey, first: AnySaved, other: AnySaved) -> tuple[str, str] | None:
    """What two findings say of a fact, in words; None where they agree."""
    if isinstance(first, Finding) and isinstance(other, Finding):
        differing = kinds.differences(first, other)
        return (parts(differing, 1), parts(differing, 2)) if differing else None
    assert isinstance(first, Measurement)
    assert isinstance(other, Measurement)
    layouts = [one.tables[inventory.fragment(fact[2]).operand].id for one in (first, other)]
    return (f"layout {layouts[0]}", f"layout {layouts[1]}") if layouts[0] != layouts[1] else None
