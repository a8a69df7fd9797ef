"""Surveys as earlier versions saved them: one document an arch and kind, `results/sm_90/banks.json`, of schema 1.

They are read as the findings that they hold. Their provenance has one hash for all kernels of a survey, so a run
measures these again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tcprobe.errors import DataError
from tcprobe.store import documents, kinds
from tcprobe.store.documents import naming
from tcprobe.store.evidence import PROVENANCE
from tcprobe.store.finding import Finding, Key
from tcprobe.store.kinds import descriptors, tensor_maps, undocumented
from tcprobe.store.results import Results
from tcprobe.values import Json

SubjectBodies = Iterator[tuple[str, Json]]  # subject and body


class Earlier(NamedTuple):
    """The file's name, the kind that it said, the keys of its body, and what it holds."""

    name: str
    kind: str
    keys: set[str]
    parts: Callable[[Json], SubjectBodies]


def findings(results: Results, kind: str, arch: str) -> dict[Key, Finding]:
    """What an earlier document of a kind says of an arch, empty without one; DataError if it cannot be trusted."""
    document = path(results, kind, arch)
    body = documents.read(document, DOCUMENTS[kind].kind) if document else None
    if body is None or document is None:
        return {}
    with naming(document):
        return {finding.key: finding for finding in _findings(kind, arch, DOCUMENTS[kind], body)}


def path(results: Results, kind: str, arch: str) -> Path | None:
    """Where such a document is, None for a kind that had none."""
    return results.root / arch / f"{DOCUMENTS[kind].name}.json" if kind in DOCUMENTS else None


def _findings(kind: str, arch: str, earlier: Earlier, body: Json) -> Iterator[Finding]:
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


DOCUMENTS = {
    "banks": Earlier("banks", "banks", {"accesses"}, _banks),
    "undocumented": Earlier("undocumented", "undocumented", {"forms"}, _undocumented_bodies),
    "descriptors": Earlier("descriptors", "descriptors", {"cases", "products"}, _descriptors),
    "tensor_maps": Earlier("tma", "tensor maps", {"modes", "encodings", "maps", "lost", "faults"}, _tensor_maps),
}
