"""Measurements held back until it has been looked for what contradicts them: saved together, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tcprobe.measurement import Measurement
from tcprobe.results import Results
from tcprobe.table import Table


class Drafts(Results):
    """A results folder read as it is, with what is written kept in memory until `settle`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._drafts: dict[tuple[str, str, str], Measurement] = {}
        self._opcodes: list[tuple[str, str, Mapping[str, tuple[Mapping[str, Table], str]]]] = []
        self._contested: set[tuple[str, str]] = set()

    def write(self, measurement: Measurement) -> None:
        """Keep a measurement; it counts as saved for whoever reads through this object."""
        key = (measurement.arch, measurement.method, measurement.experiment)
        self._drafts[key] = self._read[key] = measurement

    def withhold(self, arch: str, method: str, why: Mapping[str, str]) -> list[Measurement]:
        """Turn measurements, also ones saved before, into failures: `why` by experiment. Those failures."""
        found = [m for experiment in why if (m := self.measurement(arch, method, experiment))]
        failed = [
            replace(m, status="failed", tables={}, numbering=None, structure=None, unread={}, words=why[m.experiment])
            for m in found
        ]
        for measurement in failed:
            self.write(measurement)
        return failed

    def contest(self, arch: str, opcodes: Collection[str]) -> None:
        """Forget the layouts of opcodes, also ones saved before."""
        self._contested |= {(arch, opcode) for opcode in opcodes}

    def opcodes(self, arch: str) -> dict[str, Any]:
        """As saved, without the contested ones."""
        return {name: found for name, found in super().opcodes(arch).items() if (arch, name) not in self._contested}

    def write_opcodes(self, arch: str, compiler: str, found: Mapping[str, tuple[Mapping[str, Table], str]]) -> None:
        """Keep the layouts of opcodes."""
        self._opcodes.append((arch, compiler, found))

    def settle(self) -> None:
        """Save what was kept."""
        for measurement in self._drafts.values():
            super().write(measurement)
        for arch, compiler, found in self._opcodes:
            super().write_opcodes(arch, compiler, found)
        self._drafts.clear()
        self._opcodes.clear()
