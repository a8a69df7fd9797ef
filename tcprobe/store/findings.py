"""Findings of every kind but tables, in files: `results/sm_90/live/banks/ld.shared.b128.json`.

A file is read only if it is whole, has the shape of its kind, and can be true (`kinds.check`). A refusal or failure
that came after a finding is recorded beside it. Folders of an earlier tcprobe are read too (`earlier`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from tcprobe.errors import DataError
from tcprobe.isa.arch import ARCHS
from tcprobe.store import documents, earlier, kinds
from tcprobe.store.documents import naming
from tcprobe.store.finding import METHODS, PROVENANCE, STATUSES, Finding, Key
from tcprobe.store.measurement import TABLE, Measurement
from tcprobe.store.results import Results, file_name, published, subject_of
from tcprobe.system import files

_KEYS = {"arch", "method", "subject", "status", "provenance", "body", "words"}


def folder(results: Results, kind: str, arch: str, method: str) -> Path:
    """Where findings are saved."""
    return results.root / arch / method / kind


def path(results: Results, key: Key) -> Path:
    """Where a finding is saved."""
    return folder(results, key.kind, key.arch, key.method) / file_name(key.subject)


def read(results: Results, key: Key) -> Finding | None:
    """A saved finding, None if there is none; DataError if it cannot be trusted."""
    place = path(results, key)
    content = documents.read(place, key.kind)
    if content is None:
        return earlier.findings(results, key.kind, key.arch).get(key)
    with naming(place):
        finding = _from_json(key.kind, content)
        if finding.key != key:
            raise DataError(f"holds {finding.subject} of {finding.arch}, {finding.method}; it was renamed or copied.")
    return finding


def write(results: Results, finding: Finding) -> None:
    """Save a finding, checked; a refusal or failure is recorded beside what was found before."""
    kinds.check(finding)
    earlier.settle(results, finding.kind, finding.arch, partial(write, results))
    place = path(results, finding.key)
    aside = place.with_suffix(".failed")
    if finding.status != "measured" and place.exists():
        files.write(aside, documents.seal(finding.kind, _to_json(finding)).encode(), parents=True)
        return
    files.write(place, documents.seal(finding.kind, _to_json(finding)).encode(), parents=True)
    aside.unlink(missing_ok=True)


def saved(results: Results, key: Key) -> Finding | Measurement | None:
    """What is saved of any kind, tables too; DataError if it cannot be trusted."""
    if key.kind == TABLE:
        return results.measurement(key.arch, key.method, key.subject)
    return read(results, key)


def save(results: Results, finding: Finding | Measurement) -> None:
    """Save a finding of any kind, tables too."""
    if isinstance(finding, Measurement):
        results.write(finding)
    else:
        write(results, finding)


def save_all(results: Results, found: Sequence[Finding | Measurement]) -> None:
    """As `save`, of many: those that one document holds are written together."""
    documents_of: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in found:
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
    for method in METHODS:
        for subject in subjects(results, kind, arch, method):
            finding = read(results, Key(kind, arch, method, subject))
            if finding:
                yield finding


def subjects(results: Results, kind: str, arch: str, method: str) -> list[str]:
    """What is saved, sorted; DataError if the folder cannot be read."""
    place = folder(results, kind, arch, method)
    try:
        names = os.listdir(place) if files.is_folder(place) else []
    except OSError as error:
        raise DataError(f"{place}: cannot be read: {error.strerror}.") from None
    saved = {subject_of(name) for name in names if name.endswith(".json")}
    return sorted(saved | {key.subject for key in earlier.findings(results, kind, arch) if key.method == method})


def archs(results: Results, kind: str) -> list[str]:
    """Archs with findings of a kind, sorted as they are released."""
    names = [row.name for row in ARCHS]
    if kinds.documented(kind):
        return [name for name in names if (results.root / name / f"{kind}.json").exists()]
    return [name for name in names if any(subjects(results, kind, name, method) for method in METHODS)]


@cache
def published_finding(kind: str, arch: str, subject: str) -> Finding:
    """A published finding of a subject; KeyError if there is none."""
    found = (read(published(), Key(kind, arch, method, subject)) for method in METHODS)
    finding = next((one for one in found if one), None)
    if finding is None:
        raise KeyError((kind, arch, subject))
    return finding


def _from_json(kind: str, content: dict[str, object]) -> Finding:
    if set(content) != _KEYS or content["status"] not in STATUSES or content["method"] not in METHODS:
        raise DataError("not the keys, status or method of a finding.")
    provenance, body = content["provenance"], content.pop("body")
    assert isinstance(provenance, dict)
    if set(provenance) != set(PROVENANCE) or not all(isinstance(text, str) for text in provenance.values()):
        raise DataError(f"provenance needs the keys {', '.join(PROVENANCE)}, each a text.")
    if (body is None) == (content["status"] == "measured") or (content["words"] is None) == (body is None):
        raise DataError(f"status {content['status']} does not go with body and words.")
    shaped = None if body is None else kinds.shaped(kind, body)  # type: ignore[arg-type]
    finding = Finding(kind, body=shaped, **content)  # type: ignore[arg-type]
    kinds.check(finding)
    return finding


def _to_json(finding: Finding) -> dict[str, object]:
    return {"arch": finding.arch, "method": finding.method, "subject": finding.subject, "status": finding.status,
            "provenance": dict(finding.provenance), "body": finding.plain, "words": finding.words}  # fmt: skip
