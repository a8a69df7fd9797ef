"""What an experiment is: it plans launches, decodes what comes back, and concludes a finding from it.

All three are pure; a backend runs in between, in a process of its own, which plans and decodes. A `Dialogue` launches
in several rounds, each planned by what came back before.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.target import Target
from tcprobe.layout.arrays import Array, Bytes
from tcprobe.layout.structure_hash import StructureHash
from tcprobe.layout.table import Table
from tcprobe.probes.ptx import Kernel, Launch

if TYPE_CHECKING:
    from tcprobe.references.shared_memory.tensor_map import TensorMap

Reading = dict[str, Array]
Unread = Mapping[str, tuple[tuple[int, ...], ...]]
EVENTS = ("refused", "fault", "hangs", "unsound")  # of which there can be a finding without a reading
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
    for what others lean on: it is done first. `group` is how a summary counts it.
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
    def group(self) -> str: ...  # noqa: D102
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
    def group(self) -> str:
        """The instruction's family."""
        return self.instruction.family


class TimedCode(NamedTuple):
    """Opcodes in the loop that a kernel times, and those beside it between the readings of the clock."""

    loop: tuple[str, ...]
    beside: tuple[str, ...]


class Bench(Protocol):
    """What a dialogue has of a device, its kernels compiled."""

    @property
    def device(self) -> Arch: ...  # noqa: D102
    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """The outputs of all launches."""

    def known(self, fragment: Fragment) -> Table | None:
        """The table of a fragment on the device, as it was measured or is published."""

    def timed_code(self, kernel: Kernel) -> TimedCode:
        """What is timed in a kernel, from its machine code, which is the one that runs."""

    def shared_bytes(self) -> int:
        """Bytes of shared memory that an SM has."""

    def encoded(self, made: TensorMap) -> str:
        """What the driver says of a tensor map: CUDA_SUCCESS."""


class Dialogue(ABC):
    """An experiment that launches in rounds and concludes the body of a finding of its `kind`."""

    kind: ClassVar[str]
    methods: ClassVar[tuple[str, ...]] = ("live",)
    early: ClassVar[bool] = False

    @property
    @abstractmethod
    def id(self) -> str:
        """The subject of the finding."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """What a device needs for it."""

    @abstractmethod
    def kernels(self) -> Sequence[Kernel]:
        """All that it launches."""

    @abstractmethod
    def measure(self, bench: Bench) -> Reading:
        """What the device answers; ProbeError where the answers contradict each other."""

    @abstractmethod
    def conclude(self, reading: Reading, context: Context) -> Any:
        """The Body of the kind; ProbeError where the reading cannot be what the kind is about."""

    def instead(self, event: str, words: str) -> Any:
        """The Body where that there is no reading is a finding, else None.

        `event` is one of EVENTS: "refused" by the compiler, "fault" or "hangs" of the device, "unsound" answers.
        """
        return None


def of_lines(lines: Sequence[str]) -> Array:
    """Lines of text as part of a reading."""
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def lines_of(array: Array) -> list[str]:
    """The inverse of `of_lines`."""
    return array.tobytes().decode().split("\n") if array.size else []


def kernels(experiment: Experiment | Dialogue) -> list[Kernel]:
    """The kernels of an experiment, each once."""
    if isinstance(experiment, Dialogue):
        return list({kernel.name: kernel for kernel in experiment.kernels()}.values())
    return list({launch.kernel.name: launch.kernel for launch in experiment.launches()}.values())


def ptx_hash(kernels: Sequence[Kernel]) -> str:
    """Hash of the texts of an experiment's kernels: 16 hex digits."""
    return hashlib.sha256("\n".join(k.text for k in kernels).encode()).hexdigest()[:16]
