"""Surveys: what was measured of a whole arch beyond the tables of its fragments, each in a file of its own.

results/sm_90/banks.json           the rule of its shared memory banks
results/sm_90/undocumented.json    what sparse multiplies do beyond PTX's text
results/sm_90/descriptors.json     where descriptors lead
results/sm_90/tma.json             where boxes of tensor maps lie
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tcprobe.store import acceptance, documents
from tcprobe.store.documents import naming
from tcprobe.store.results import Results
from tcprobe.system import files


class SurveyFile(NamedTuple):
    """A file `name`.json of documents of a `kind`; `check` raises DataError where a body cannot be of an arch."""

    name: str
    kind: str
    check: Callable[[Mapping[str, Any], str], None] = lambda body, arch: None

    def path(self, results: Results, arch: str) -> Path:
        """Where it is saved."""
        return results.root / arch / f"{self.name}.json"

    def read(self, results: Results, arch: str) -> dict[str, Any] | None:
        """What is saved, None if nothing is; DataError where it cannot be what tcprobe writes."""
        path = self.path(results, arch)
        body = documents.read(path, self.kind)
        if body is not None:
            with naming(path):
                self.check(body, arch)
        return body

    def write(self, results: Results, arch: str, body: Mapping[str, Any]) -> Path:
        """Save it, checked; the file."""
        self.check(body, arch)
        path = self.path(results, arch)
        files.write(path, documents.seal(self.kind, dict(body)).encode(), parents=True)
        return path


BANKS = SurveyFile("banks", "banks")  # `ask.bank_rules` checks it
UNDOCUMENTED = SurveyFile("undocumented", "undocumented")  # `ask.undocumented` checks it
DESCRIPTORS = SurveyFile("descriptors", "descriptors", acceptance.descriptors)
