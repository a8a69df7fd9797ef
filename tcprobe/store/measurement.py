"""Measurement, the finding of kind "table": the tables of an experiment's fragments on one arch, with evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tcprobe.layout.table import StructureHash, Tables
from tcprobe.text import one_line
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.store.finding import Key, Status

TABLE = "table"
MEMORY = "memory addresses"  # what numbers rows and columns where a load or store does
ADDRESSES = "addresses behind descriptors"  # where factors in shared memory number them, as PTX counts there


@dataclass(frozen=True)
class Measurement:
    """`tables` by operand, present where `status` is "measured"; `words` say why where it is not.

    `numbering` names what anchors row, column and k numbers: "memory addresses" for wmma, a reference for
    mma, "own rule" where nothing else fits. `unread` lists per operand, lane by lane, the elements that the
    multiply does not take into account. `provenance` has the keys PROVENANCE, `ptx` being the hash of the
    kernels' text. Texts are kept as one printable line each: some come from compilers and drivers.
    """

    experiment: str
    arch: str
    method: str
    status: Status
    provenance: Mapping[str, str]
    tables: Tables = field(default_factory=dict)
    numbering: str | None = None
    structure: StructureHash | None = None
    unread: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    words: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "provenance", {name: one_line(text) for name, text in self.provenance.items()})
        for name, text in (("numbering", self.numbering), ("words", self.words)):
            object.__setattr__(self, name, None if text is None else one_line(text))

    @property
    def key(self) -> Key:
        """What it is the measurement of."""
        from tcprobe.store.finding import Key

        return Key(TABLE, self.arch, self.method, self.experiment)


def read(body: Json, tables: Tables) -> Measurement:
    """The inverse of `to_json`, with its tables; TypeError or KeyError where anything is missing."""
    structure, unread = body.pop("structure"), body.pop("unread")
    lanes_of = {operand: tuple(tuple(lane) for lane in lanes) for operand, lanes in unread.items()}
    return Measurement(**body, tables=tables, structure=structure and StructureHash(**structure), unread=lanes_of)


def to_json(measurement: Measurement) -> Json:
    """Plain data, in which layouts are named by their ids."""
    structure = measurement.structure
    return {
        "experiment": measurement.experiment,
        "arch": measurement.arch,
        "method": measurement.method,
        "status": measurement.status,
        "provenance": dict(measurement.provenance),
        "fragments": {operand: table.id for operand, table in measurement.tables.items()},
        "numbering": measurement.numbering,
        "structure": structure and {name: value for name, value in structure._asdict().items() if value is not None},
        "unread": {operand: [list(lane) for lane in lanes] for operand, lanes in measurement.unread.items()},
        "words": measurement.words,
    }
