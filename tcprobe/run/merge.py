"""Other people's measurements taken in: checked as a stranger's, kept one folder per run, conflicts and all.

A run is a device with its driver, CUDA version and compiler, and who contributed it. Nothing is written before
everything is accepted, and what is there already is no mistake.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tcprobe.errors import DataError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Table
from tcprobe.probes.sparse_numbering import predict as sparse_structure
from tcprobe.probes.structure import predict
from tcprobe.probes.wgmma import predicted as behind_descriptors
from tcprobe.store import documents
from tcprobe.store.choose import alone
from tcprobe.store.finding import FROM_CODE, MAKER, how, made_by
from tcprobe.store.measurement import Measurement, StructureHash
from tcprobe.store.results import Results
from tcprobe.system import files
from tcprobe.text import one_line

SCHEMA = 2
TAKEN = ("live", *FROM_CODE)  # methods that say something of hardware


class Conflict(NamedTuple):
    """Two measurements of a fragment on an arch that found different tables."""

    fragment: Fragment
    arch: str
    first: Measurement
    other: Measurement

    def __str__(self) -> str:
        tables = (m.tables[self.fragment.operand].id for m in (self.first, self.other))
        one, two = (f"layout {id_}, {how(m)}" for id_, m in zip(tables, (self.first, self.other), strict=True))
        return f"{self.fragment.id} on {self.arch}: {one}; ANOTHER TABLE: {two}"


@dataclass(frozen=True)
class Merged:
    """How many measurements were added, by run, how many were there before, and what contradicts what."""

    added: dict[str, int]
    known: int
    conflicts: list[Conflict]


def merge(paths: Sequence[Path], target: Results, contributor: str = "") -> Merged:
    """Take the measurements of results folders into `target`.

    DataError, and nothing is written, where a file cannot be trusted or a structure tensor is not that of its tables;
    UsageError where a path has no measurements, or is the target.
    """
    given = [m for path in paths for m in _accepted(path, target)]
    before = list(_measured(target))
    there = {_key(m) for m in before}
    new = [m for m in given if _key(m) not in there]
    runs: dict[str, list[Measurement]] = {}
    for measurement in {_key(m): m for m in new}.values():
        runs.setdefault(run_id(measurement, contributor), []).append(measurement)
    for name, made in runs.items():
        _describe(target.root / "runs" / name / "run.json", made[0], contributor)
        folder = target.run(name)
        for measurement in made:
            folder.write(measurement)
    added = {name: len(made) for name, made in runs.items()}
    return Merged(added, len(given) - len(new), list(_conflicts(before, given)))


def run_id(measurement: Measurement, contributor: str = "") -> str:
    """The folder of a run: what made it, readable, and a hash of all of that."""
    maker = made_by(measurement)
    digest = hashlib.sha256("\n".join((*maker, contributor)).encode()).hexdigest()[:8]
    words = maker[0] if measurement.method == "live" else maker[3]
    return f"{re.sub(r'[^a-z0-9.]+', '-', words.lower()).strip('-.')[:60]}-{digest}"


def _accepted(path: Path, target: Results) -> list[Measurement]:
    """All measurements of a folder, its runs among them, each held against its own tables."""
    if not files.is_folder(path):
        raise UsageError(f"{path}: no such folder of results.")
    source = Results(path)
    if path.resolve() == target.root.resolve():
        raise UsageError(f"{path} is the folder that is merged into.")
    accepted = [m for m in _measured(source) if m.method in TAKEN]
    if not accepted:
        raise UsageError(f"{path}: no measurements there. `tcprobe run --results {path}` makes them.")
    for measurement in accepted:
        _check_structure(path, measurement)
    return accepted


def _measured(results: Results) -> Iterator[Measurement]:
    for layer in alone(results).layers:
        for arch in layer.results.archs():
            for method in layer.results.methods(arch):
                yield from (m for m in layer.results.measurements(arch, method) if m.status == "measured")


def _check_structure(path: Path, measurement: Measurement) -> None:
    """DataError unless the structure tensor that the tables predict is the one whose hash is saved."""
    row = inventory.instructions().get(measurement.experiment)
    if row is None or measurement.structure is None:
        return
    tables = {o: _read(table, measurement.unread.get(o)) for o, table in measurement.tables.items()}
    if _predicted(row, tables) != measurement.structure:
        raise DataError(f"{path}: {row.id} on {measurement.arch}: its tables do not give its structure tensor.")


def _predicted(row: Instruction, tables: Mapping[str, Table]) -> StructureHash:
    if row.described:
        return behind_descriptors(row, tables)
    return (sparse_structure if row.metadata else predict)(row, tables).digest()


def _read(table: Table, unread: Sequence[Sequence[int]] | None) -> Table:
    """The table of the slots that are read."""
    if not unread:
        return table
    skipped = {lane * table.elements + i for lane, numbers in enumerate(unread) for i in numbers}
    return table.with_values(
        {name: tuple(None if s in skipped else v for s, v in enumerate(c)) for name, c in table.values.items()}
    )


def _key(m: Measurement) -> tuple[object, ...]:
    """What makes two measurements the same one; the version of tcprobe does not."""
    tables = tuple(sorted((operand, table.id) for operand, table in m.tables.items()))
    return m.arch, m.method, m.experiment, made_by(m), m.provenance["ptx"], tables, m.structure


def _describe(path: Path, measurement: Measurement, contributor: str) -> None:
    """Write who made a run, of which this is a measurement; what is written already stays."""
    if not path.exists():
        about = dict(zip(MAKER, made_by(measurement), strict=True)) | {"contributor": one_line(contributor)}
        files.write(path, documents.seal("run", about, SCHEMA).encode(), parents=True)


def _conflicts(before: Iterable[Measurement], given: Iterable[Measurement]) -> Iterator[Conflict]:
    """Each fragment for which a given measurement found another table than one that was there or given before."""
    seen: dict[tuple[str, str], Measurement] = {}
    for m in before:
        for fragment in _fragments(m):
            seen.setdefault((m.arch, fragment.id), m)
    for m in given:
        for fragment in _fragments(m):
            first = seen.setdefault((m.arch, fragment.id), m)
            if first.tables[fragment.operand] != m.tables[fragment.operand]:
                yield Conflict(fragment, m.arch, first, m)


def _fragments(m: Measurement) -> list[Fragment]:
    """The fragments that a measurement is the measurement of."""
    return [f for f in inventory.of_experiment(m.experiment) if f.operand in m.tables and f.experiment == m.experiment]
