"""Measurements that are held back until they have been checked against each other; then all are saved together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tcprobe.layout.table import Tables
from tcprobe.store import encodings
from tcprobe.store.measurement import Measurement
from tcprobe.store.results import Results
from tcprobe.values import Json

Encodings = Mapping[str, tuple[Iterable[str], Iterable[str]]]  # bits and forms by opcode


class Drafts(Results):
    """A results folder whose new files stay in memory until `settle` writes them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._drafts: dict[tuple[str, str, str], Measurement] = {}
        self._aside: list[Measurement] = []
        self._opcodes: list[tuple[str, str, Mapping[str, tuple[Tables, str]]]] = []
        self._contested: set[tuple[str, str]] = set()
        self._encodings: list[tuple[str, str, Encodings]] = []

    def write(self, measurement: Measurement) -> None:
        """Keep a measurement; reading through this object gives it as if it were saved.

        A refusal or failure does not take the place of tables, as in any results folder.
        """
        key = (measurement.arch, measurement.method, measurement.experiment)
        if measurement.status != "measured" and self.has_tables(key):
            self._aside.append(measurement)
        else:
            self._keep(measurement)

    def _keep(self, measurement: Measurement) -> None:
        key = (measurement.arch, measurement.method, measurement.experiment)
        self._drafts[key] = self._read[key] = measurement

    def overrule(self, measurement: Measurement) -> None:
        """Keep a conclusion in place of the earlier one, even if the new one failed."""
        self._keep(measurement)

    def withhold(self, arch: str, method: str, why: Mapping[str, str]) -> list[Measurement]:
        """Replace measurements, saved ones too, by failures and return these; `why` has the reasons by experiment."""
        drafted = [m for experiment in why if (m := self.measurement(arch, method, experiment))]
        failed = [
            replace(m, status="failed", tables={}, numbering=None, structure=None, unread={}, words=why[m.experiment])
            for m in drafted
        ]
        for measurement in failed:
            self._keep(measurement)
        return failed

    def contest(self, arch: str, opcodes: Collection[str]) -> None:
        """Forget the layouts of opcodes, saved ones too."""
        self._contested |= {(arch, opcode) for opcode in opcodes}

    def opcodes(self, arch: str) -> Json:
        """The saved layouts of opcodes, without the contested ones."""
        return {name: layout for name, layout in super().opcodes(arch).items() if (arch, name) not in self._contested}

    def write_opcodes(self, arch: str, compiler: str, layouts: Mapping[str, tuple[Tables, str]]) -> list[str]:
        """Keep the layouts of opcodes; complaints come from `settle`."""
        self._opcodes.append((arch, compiler, layouts))
        return []

    def write_encodings(self, arch: str, compiler: str, encoded: Encodings) -> None:
        """Keep how opcodes are encoded."""
        self._encodings.append((arch, compiler, encoded))

    def settle(self) -> list[str]:
        """Save everything; returns complaints about existing files that could not be trusted."""
        for measurement in self._drafts.values():
            super().write(measurement)
        for measurement in self._aside:
            self.set_aside(measurement)
        complaints: list[str] = []
        for arch, compiler, tables in self._opcodes:
            complaints += super().write_opcodes(arch, compiler, tables)
        for arch, compiler, encoded in self._encodings:
            complaints += encodings.write(self, arch, compiler, encoded)
        self._forget()
        return complaints

    def _forget(self) -> None:
        self._encodings.clear()
        self._drafts.clear()
        self._aside.clear()
        self._opcodes.clear()
