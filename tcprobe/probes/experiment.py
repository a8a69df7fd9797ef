"""What an experiment is: it plans launches, decodes what comes back, and concludes tables from it.

All three are pure; a backend runs in between, in a process of its own, which plans and decodes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Table
from tcprobe.probes.ptx import Bytes, Kernel, Launch
from tcprobe.store.measurement import StructureHash

Reading = dict[str, NDArray[Any]]
Unread = Mapping[str, tuple[tuple[int, ...], ...]]
OWN_RULE = "own rule: lowest slot first"


@dataclass(frozen=True)
class Context:
    """Where a reading comes from, and the tables that were measured there before (`known`)."""

    device: Arch
    known: Callable[[Fragment], Table | None]


@dataclass(frozen=True)
class Conclusion:
    """`tables` by operand; `numbering` is what anchors their rows, columns and k.

    `structure` is there for multiplies, `unread` where some slots of an operand are never read.
    """

    tables: Mapping[str, Table]
    numbering: str
    structure: StructureHash | None = None
    unread: Unread = field(default_factory=dict)


class Experiment(Protocol):
    """`id` names the measurement; `fragments` are the operands whose tables it yields or checks.

    `methods` says which methods can do it: "live" on a GPU, "sass" from the code of the probe itself. `early` is true
    for what others lean on: it is done first. `kind` is how a summary counts it.
    """

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def fragments(self) -> tuple[Fragment, ...]: ...  # noqa: D102
    @property
    def methods(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def early(self) -> bool: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    def launches(self) -> Sequence[Launch]:
        """What to run, in order."""

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Reading:
        """What the outputs say; ProbeError where they contradict each other."""

    def conclude(self, reading: Reading, context: Context) -> Conclusion:
        """The tables; ProbeError where the reading is no layout, or contradicts what is known."""


@dataclass(frozen=True)
class OfInstruction:
    """What experiments on one instruction, on a GPU, have in common: they measure all its operands in registers."""

    instruction: Instruction
    methods: tuple[str, ...] = ("live",)
    early: bool = False

    @property
    def id(self) -> str:
        """The instruction's."""
        return self.instruction.id

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The operands in registers, by name."""
        return self.instruction.fragments

    @property
    def kind(self) -> str:
        """The instruction's family."""
        return self.instruction.family


def kernels(experiment: Experiment) -> list[Kernel]:
    """The kernels of an experiment, each once."""
    return list({launch.kernel.name: launch.kernel for launch in experiment.launches()}.values())


def ptx_hash(kernels: Sequence[Kernel]) -> str:
    """Hash of the texts of an experiment's kernels: 16 hex digits."""
    return hashlib.sha256("\n".join(k.text for k in kernels).encode()).hexdigest()[:16]
