"""Experiments: what is launched to measure a fragment or an instruction, and what its outputs say.

An experiment plans (`launches`) and decodes (`decode`), both pure; a backend runs in between. What comes
back is a small dict of arrays:

- a wmma fragment: "elements", the number row * cols + col that each slot holds, -1 where it holds none
- a multiply: "a", "b", "d", the triples of the structure tensor, and "c", the D slot of each C slot
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Fragment, Instruction
from tcprobe.probes import multiply, wmma
from tcprobe.probes.ptx import Bytes, Kernel, Launch, Store

Reading = dict[str, NDArray[Any]]


class Experiment(Protocol):
    """`id` names the measurement; `fragments` are the operands whose tables it yields or checks."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def fragments(self) -> tuple[Fragment, ...]: ...  # noqa: D102
    def launches(self) -> Sequence[Launch]:
        """What to run, in order."""

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Reading:
        """What the outputs say; ProbeError where they contradict each other."""


@dataclass(frozen=True)
class MemoryExperiment:
    """A wmma fragment through wmma.load and wmma.store: all ways must give the same table.

    A and B: their own memory layout, two leading dimensions. Accumulators: load.c and store.d, by row and
    by column, two leading dimensions each.
    """

    id: str
    fragments: tuple[Fragment, ...]

    def launches(self) -> list[Launch]:
        """One launch for each fragment, memory layout and leading dimension."""
        return [
            (wmma.store_launch if fragment.operand == "d" else wmma.load_launch)(fragment, layout, ldm)
            for fragment in self.fragments
            for layout in ([fragment.layout] if fragment.layout else ["row", "col"])
            for ldm in wmma.leading_dimensions(fragment, layout)
        ]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Reading:
        """The one table on which all launches agree."""
        read = [
            (wmma.decode_store if isinstance(launch.kernel.op, Store) else wmma.decode_load)(launch, raw)
            for launch, raw in zip(launches, outputs, strict=True)
        ]
        for launch, table in zip(launches, read, strict=True):
            differs = np.flatnonzero(table != read[0])
            if len(differs):
                lane, i = divmod(int(differs[0]), self.fragments[0].elements)
                raise ProbeError(
                    f"{launch.kernel.name} (ldm {launch.ldm}) and {launches[0].kernel.name} disagree in "
                    f"{len(differs)} slots, first lane {lane} element {i}: {table[differs[0]]}, {read[0][differs[0]]}."
                )
        return {"elements": read[0]}


@dataclass(frozen=True)
class MultiplyExperiment:
    """An mma or wmma.mma through its structure tensor."""

    instruction: Instruction

    @property
    def id(self) -> str:
        """The instruction's."""
        return self.instruction.id

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Operands a, b, c, d."""
        return self.instruction.fragments

    def launches(self) -> tuple[Launch, Launch]:
        """See `probes.multiply`."""
        return multiply.launches(self.instruction)

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Reading:
        """See `probes.multiply`."""
        found = multiply.decode(self.instruction, *outputs)
        return {"a": found.a, "b": found.b, "d": found.d, "c": found.c}


@cache
def experiments() -> MappingProxyType[str, Experiment]:
    """All experiments by id: wmma fragments, then wmma.mma, then mma, so that later ones can lean on earlier."""
    memory: dict[str, list[Fragment]] = {}
    for fragment in inventory.fragments().values():
        if fragment.family == "wmma":
            memory.setdefault(fragment.experiment, []).append(fragment)
    found: dict[str, Experiment] = {id_: MemoryExperiment(id_, tuple(group)) for id_, group in memory.items()}
    found |= {row.id: MultiplyExperiment(row) for row in inventory.instructions().values()}
    return MappingProxyType(found)


def kernels(experiment: Experiment) -> list[Kernel]:
    """The kernels of an experiment, each once."""
    return list({launch.kernel.name: launch.kernel for launch in experiment.launches()}.values())


def ptx_hash(kernels: Sequence[Kernel]) -> str:
    """Hash of the texts of an experiment's kernels: 16 hex digits."""
    return hashlib.sha256("\n".join(k.text for k in kernels).encode()).hexdigest()[:16]
