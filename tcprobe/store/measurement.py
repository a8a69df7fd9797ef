"""Measurement: what one experiment on one arch found, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tcprobe.layout.table import Table
from tcprobe.text import one_line

FROM_CODE = ("sass", "derived", "same-opcode")  # methods that read machine code, the strongest first
WEAKER = "same-opcode"  # rests on what another arch shows
METHODS = ("live", *FROM_CODE, "emulated")
STATUSES = ("measured", "refused", "failed")
MEMORY = "memory addresses"  # what numbers rows and columns where a load or store does
ADDRESSES = "addresses behind descriptors"  # where factors in shared memory number them, as PTX counts there
MAKER = ("device", "driver", "cuda", "compiler")  # what makes one run of measuring another
PROVENANCE = ("device", "driver", "cuda", "compiler", "ptx", "tcprobe")


class StructureHash(NamedTuple):
    """The structure tensor of a multiply: number of triples, and the hash of all (a, b, d) slot numbers.

    The hash is the SHA-256 of the triples sorted by a, then d, each as three little-endian 32-bit numbers.
    """

    triples: int
    sha256: str


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
    status: Literal["measured", "refused", "failed"]
    provenance: Mapping[str, str]
    tables: Mapping[str, Table] = field(default_factory=dict)
    numbering: str | None = None
    structure: StructureHash | None = None
    unread: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    words: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "provenance", {name: one_line(text) for name, text in self.provenance.items()})
        for name, text in (("numbering", self.numbering), ("words", self.words)):
            object.__setattr__(self, name, None if text is None else one_line(text))


def made_by(measured: Measurement) -> tuple[str, ...]:
    """The device, driver, CUDA version and compiler that a measurement rests on."""
    return tuple(measured.provenance[key] for key in MAKER)


def how(measured: Measurement) -> str:
    """The method and what it was done with, in words."""
    p = measured.provenance
    if measured.method in FROM_CODE:
        weaker = " (weaker: the layout that another arch has for the opcode)" if measured.method == WEAKER else ""
        return f"{measured.method}{weaker}, from machine code by {p['compiler']}"
    return f"{measured.method} on {p['device']}, driver {p['driver']}, CUDA {p['cuda']}"
