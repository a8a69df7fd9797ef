"""Findings of every kind but tables, in files: `results/sm_90/live/banks/ld.shared.b128.json`.

A file is read only if it is whole, has the shape of its kind, and can be true (`kinds.check`). A refusal or failure
that came after a finding is recorded beside it.

Surveys as earlier versions saved them are read too, as the findings that they hold: one document an arch and kind,
`results/sm_90/banks.json`, of schema 1. Their provenance has one hash for all kernels of a survey, so a run measures
these again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from tcprobe.errors import DataError
from tcprobe.isa.arch import ARCHS
from tcprobe.store import documents, kinds
from tcprobe.store.documents import naming
from tcprobe.store.finding import METHODS, PROVENANCE, STATUSES, TABLE, Finding, Key, Measurement, provenance_in
from tcprobe.store.kinds import descriptors, tensor_maps, undocumented
from tcprobe.store.results import Results, file_name, published, read_trusted, subject_of
from tcprobe.system import files
from tcprobe.values import Json

READ = 2048  # findings that are kept as they were read
_KEYS = {"arch", "method", "subject", "status", "provenance", "body", "words"}


def folder(results: Results, kind: str, arch: str, method: str) -> Path:
    """Where findings are saved."""
    return results.root / arch / method / kind


def path(results: Results, key: Key) -> Path:
    """Where a finding is saved."""
    return folder(results, key.kind, key.arch, key.method) / file_name(key.subject)


def read(results: Results, key: Key) -> Finding | None:
    """A saved finding, None if there is none; DataError if it cannot be trusted."""
    return _in_file(results, key) or earlier_findings(results, key.kind, key.arch).get(key)


def _in_file(results: Results, key: Key) -> Finding | None:
    place = path(results, key)
    raw = files.read(place)
    return None if raw is None else _in_bytes(place, raw, key)


@lru_cache(READ)
def _in_bytes(place: Path, raw: bytes, key: Key) -> Finding:
    """The finding in a file's bytes: a question asks for all of a kind, each time, and checking takes most of that."""
    with naming(place):
        content = documents.body_of(raw, key.kind)
        if set(content) != _KEYS or content["status"] not in STATUSES or content["method"] not in METHODS:
            raise DataError("its keys, status or method are not those of a finding.")
        provenance_in(content["provenance"])
        body = content.pop("body")
        if (body is None) == (content["status"] == "measured") or (content["words"] is None) == (body is None):
            raise DataError(f"status {content['status']} contradicts body and words.")
        shaped = None if body is None else kinds.to_body(key.kind, body)
        finding = Finding(key.kind, body=shaped, **content)
        kinds.check(finding)
        if finding.key != key:
            raise DataError(f"holds {finding.subject} of {finding.arch}, {finding.method}; it was renamed or copied.")
    return finding


def write(results: Results, finding: Finding) -> None:
    """Save a finding, checked; a refusal or failure is recorded beside what was found before."""
    if finding.status == "measured":
        kinds.to_body(finding.kind, finding.plain)  # its numbers are in their bounds
    kinds.check(finding)
    settle(results, finding.kind, finding.arch)
    if finding.status != "measured" and _is_measured(results, finding.key):
        _write(refusal_path(results, finding.key), finding)
        return
    _write(path(results, finding.key), finding)
    refusal_path(results, finding.key).unlink(missing_ok=True)


def refusal_path(results: Results, key: Key) -> Path:
    """Where a refusal or failure is recorded that came after a finding."""
    return path(results, key).with_suffix(".failed")


def settle(results: Results, kind: str, arch: str) -> None:
    """Save what an earlier document holds as findings of their own, then remove it.

    What has a file is newer and stays. If it is interrupted, the next call continues: the document is removed last. One
    that cannot be trusted is kept under another name.
    """
    document = earlier_document(results, kind, arch)
    if document is None or not document.exists():
        return
    nothing: dict[Key, Finding] = {}
    before, complaints = read_trusted(lambda: earlier_findings(results, kind, arch), nothing)
    if complaints:
        document.replace(document.with_suffix(".untrusted"))
        return
    for key, finding in before.items():
        if not path(results, key).exists():
            _write(path(results, key), finding)
    document.unlink(missing_ok=True)


def _is_measured(results: Results, key: Key) -> bool:
    """Whether there is a finding that a failure leaves alone; NewerSchemaError where a later tcprobe wrote the file."""
    finding, _ = read_trusted(lambda: _in_file(results, key), None)
    return finding is not None and finding.status == "measured"


def _write(path: Path, finding: Finding) -> None:
    files.write(path, documents.seal(finding.kind, _to_json(finding)).encode(), parents=True)


def read_any(results: Results, key: Key) -> Finding | Measurement | None:
    """What is saved of any kind, tables too; DataError if it cannot be trusted."""
    if key.kind == TABLE:
        return results.measurement(key.arch, key.method, key.subject)
    return read(results, key)


def save(results: Results, any_finding: Finding | Measurement) -> None:
    """Save a finding of any kind, tables too."""
    if isinstance(any_finding, Measurement):
        results.write(any_finding)
    else:
        write(results, any_finding)


def save_all(results: Results, any_findings: Sequence[Finding | Measurement]) -> None:
    """As `save`, of many: those that one document holds are written together."""
    documents_of: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in any_findings:
        if isinstance(finding, Finding) and kinds.documented(finding.kind):
            place = (finding.kind, finding.arch, finding.provenance["compiler"])
            documents_of.setdefault(place, []).append(finding)
        else:
            save(results, finding)
    for (kind, *_), together in documents_of.items():
        kinds.kind(kind).save(results, together)


def every(results: Results, kind: str, arch: str) -> Iterator[Finding]:
    """All findings of a kind on an arch, the strongest method first, then by subject."""
    if kinds.documented(kind):
        yield from kinds.kind(kind).read(results, arch)
        return
    before = earlier_findings(results, kind, arch)
    for method in METHODS:
        saved = {Key(kind, arch, method, subject) for subject in _in_folder(folder(results, kind, arch, method))}
        for key in sorted(saved | {key for key in before if key.method == method}):
            finding = _in_file(results, key) or before.get(key)
            if finding:
                yield finding


def _in_folder(path: Path) -> list[str]:
    """Subjects of the files of a folder; DataError if it cannot be read."""
    try:
        names = os.listdir(path) if files.is_folder(path) else []
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
    return [subject_of(name) for name in names if name.endswith(".json")]


def archs(results: Results, kind: str) -> list[str]:
    """Archs with findings of a kind, sorted as they are released."""
    if kinds.documented(kind):
        return [row.name for row in ARCHS if (results.root / row.name / f"{kind}.json").exists()]
    return [row.name for row in ARCHS if next(every(results, kind, row.name), None)]


@cache
def published_finding(kind: str, arch: str, subject: str) -> Finding:
    """A published finding of a subject; KeyError if there is none."""
    found = (read(published(), Key(kind, arch, method, subject)) for method in METHODS)
    finding = next((one for one in found if one), None)
    if finding is None:
        raise KeyError((kind, arch, subject))
    return finding


def _to_json(finding: Finding) -> dict[str, object]:
    return {
        "arch": finding.arch,
        "method": finding.method,
        "subject": finding.subject,
        "status": finding.status,
        "provenance": dict(finding.provenance),
        "body": finding.plain,
        "words": finding.words,
    }


# surveys as earlier versions saved them

SubjectBodies = Iterator[tuple[str, Json]]  # subject and body


class EarlierSurvey(NamedTuple):
    """The file's name, the kind that it said, the keys of its body, and what it holds."""

    name: str
    kind: str
    keys: set[str]
    parts: Callable[[Json], SubjectBodies]


def earlier_findings(results: Results, kind: str, arch: str) -> dict[Key, Finding]:
    """What an earlier document of a kind says of an arch, empty without one; DataError if it cannot be trusted."""
    document = earlier_document(results, kind, arch)
    body = documents.read(document, EARLIER[kind].kind) if document else None
    if body is None or document is None:
        return {}
    with naming(document):
        return {finding.key: finding for finding in _findings_of_document(kind, arch, EARLIER[kind], body)}


def earlier_document(results: Results, kind: str, arch: str) -> Path | None:
    """Where such a document is, None for a kind that had none."""
    return results.root / arch / f"{EARLIER[kind].name}.json" if kind in EARLIER else None


def _findings_of_document(kind: str, arch: str, earlier: EarlierSurvey, body: Json) -> Iterator[Finding]:
    provenance = body["provenance"]
    if set(body) != earlier.keys | {"arch", "method", "provenance"} or (body["arch"], body["method"]) != (arch, "live"):
        raise DataError(f"its keys, arch or method are not those of {earlier.kind}.")
    if set(provenance) != set(PROVENANCE) or not all(isinstance(text, str) for text in provenance.values()):
        raise DataError(f"provenance needs the keys {', '.join(PROVENANCE)}, each with a text.")
    for subject, part in earlier.parts(body):
        finding = Finding(kind, subject, arch, "live", "measured", provenance, kinds.to_body(kind, part))
        kinds.check(finding)
        yield finding


def _banks(body: Json) -> SubjectBodies:
    return iter(body["accesses"].items())


def _undocumented_bodies(body: Json) -> SubjectBodies:
    for id_, form in body["forms"].items():
        yield id_, {"nibbles": form["nibbles"]}
        for number, outcome in form["selectors"].items():
            yield f"{id_}{undocumented.SELECTOR}{number}", {"selector": outcome}


def _descriptors(body: Json) -> SubjectBodies:
    for case in body["cases"]:
        subject = f"{case['instruction']}.{case['operand']}.{case['major']}.{case['swizzle']}"
        yield subject, {"case": case}
    yield f"{descriptors.ALL}{descriptors.PRODUCTS}", {"products": body["products"]}


def _tensor_maps(body: Json) -> SubjectBodies:
    for name, mode in body["modes"].items():
        lost = [one for one in body["lost"] if one["swizzle"] == name]
        yield name, {"mode": mode | ({"lost": lost} if lost else {})}
    yield tensor_maps.ENCODINGS, {"calls": body["encodings"], "maps": body["maps"]}
    for number, fault in enumerate(body["faults"]):
        yield f"{tensor_maps.MISALIGNED}{number}", {"fault": fault}


EARLIER = {
    "banks": EarlierSurvey("banks", "banks", {"accesses"}, _banks),
    "undocumented": EarlierSurvey("undocumented", "undocumented", {"forms"}, _undocumented_bodies),
    "descriptors": EarlierSurvey("descriptors", "descriptors", {"cases", "products"}, _descriptors),
    "tensor_maps": EarlierSurvey("tma", "tensor maps", {"modes", "encodings", "maps", "lost", "faults"}, _tensor_maps),
}
