"""Reports: findings of every kind in one file, for somebody else to merge.

A report contains documents as `tcprobe run` saved them, each with its own checksum; `merge` unpacks them into a
temporary folder and checks that like any other folder. It names the device, driver, CUDA version and compiler of
each finding, and nothing else of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tcprobe import __version__
from tcprobe.errors import DataError, EnvironmentUnfitError
from tcprobe.probes import experiments
from tcprobe.probes.experiment import kernels, ptx_hash
from tcprobe.store import documents, findings
from tcprobe.store.finding import Finding
from tcprobe.store.measurement import Measurement
from tcprobe.store.results import Results
from tcprobe.system import files
from tcprobe.system.children import Scratch
from tcprobe.values import Json

KIND = "report"
MOST_BYTES = 64 << 20
MOST_FILES = 20_000
# layouts/ID.json, ARCH/METHOD/SUBJECT.json, ARCH/METHOD/KIND/SUBJECT.json, ARCH/KIND.json
_PLACE = re.compile(r"[a-z][a-z0-9_]{0,39}(/[a-z][a-z0-9_-]{0,39}){0,2}/[A-Za-z0-9][A-Za-z0-9_.-]{0,199}\.json")
AnySaved = Measurement | Finding


def write(path: Path, reported: Sequence[AnySaved]) -> None:
    """Write a report; equal findings give equal bytes."""
    files.write(path, text(reported).encode())


def text(reported: Sequence[AnySaved]) -> str:
    """The text of a report."""
    with _folder() as folder:
        findings.save_all(Results(folder), reported)
        content = {p.relative_to(folder).as_posix(): _document(p) for p in sorted(folder.rglob("*.json"))}
    return documents.seal(KIND, {"tcprobe": __version__, "files": content})


def _document(path: Path) -> Any:
    raw = files.read(path)
    assert raw is not None
    return documents.parse(raw)


@contextmanager
def open_report(path: Path) -> Iterator[Results]:
    """A context with the findings of a report in a temporary folder; DataError if the report cannot be trusted."""
    body = documents.read(path, KIND, MOST_BYTES)
    if body is None:
        raise DataError(f"{path}: no such file.")
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


def check(finding: AnySaved) -> None:
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
